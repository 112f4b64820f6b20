// SPDX-License-Identifier: Apache-2.0
// A matrix X becomes three tensors: X_packed, U8 [rows, cols / 2], the even element in the low nibble;
// X_scale, F8_E4M3 [rows, cols / 16]; X_global_scale, F32 [1] = 448 * 6 / amax. A value is code * (scale /
// global_scale). This is the format of compressed-tensors: compressors/nvfp4/base.py,
// quantization/utils/helpers.py (generate_gparam) and quantization/lifecycle/forward.py (_dequantize).
#include "pack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fourscale/fourscale.hpp>
#include <unordered_map>

#include "rows.hpp"
#include "safetensors.hpp"

namespace inspect {

namespace {

using namespace fourscale;

/// Why a matrix cannot be packed, or an empty string.
std::string reason_to_copy(tensor_report const& t) {
  if (t.nan + t.inf > 0) return "it holds NaN or infinity";
  if (t.cols % nvfp4::block_size != 0) return fmt::format("{} columns are not a multiple of 16", t.cols);
  return {};
}

/// Offsets in the output file, by name: of the parts of packed tensors, and of the copies of other tensors.
using places = std::unordered_map<std::string, u64>;

void copy(byte_source const& file, tensor_info const& t, u64 to, output_file& out) {
  std::vector<u8> bytes;
  for (u64 at = t.begin; at < t.end; at += bytes.size()) {
    bytes.resize(std::min<u64>(t.end - at, 1 << 22));
    file.read(at, bytes);
    out.write(to + (at - t.begin), bytes);
  }
}

void pack(byte_source const& file, tensor_info const& t, float amax, places const& at, output_file& out) {
  row_reader reader(file, t);
  const i64 cols = reader.cols(), at_once = std::min(reader.rows_at_once(), reader.rows());
  std::vector<float> values(static_cast<u64>(at_once * cols));
  std::vector<u8> codes(static_cast<u64>(code_bytes<nvfp4>(at_once, cols)));
  std::vector<u8> scales(static_cast<u64>(scale_bytes<nvfp4>(at_once, cols)));
  u64 codes_at = at.at(t.name + "_packed"), scales_at = at.at(t.name + "_scale");
  for (i64 first = 0; first < reader.rows(); first += at_once) {
    const i64 rows = std::min(at_once, reader.rows() - first);
    reader.read(first, rows, values.data(), cols);
    const block_scaled_view<nvfp4> q(codes.data(), scales.data(), rows, cols, amax_value(amax));
    if (const errc e = host::quantize(matrix_view<float const>(values.data(), rows, cols), q); e != errc::ok)
      throw std::logic_error(message(e));
    const std::span<u8 const> new_codes(codes.data(), static_cast<u64>(code_bytes<nvfp4>(rows, cols)));
    const std::span<u8 const> new_scales(scales.data(), static_cast<u64>(scale_bytes<nvfp4>(rows, cols)));
    out.write(codes_at, new_codes);
    out.write(scales_at, new_scales);
    codes_at += new_codes.size();
    scales_at += new_scales.size();
  }
  const float encode = encode_scale_of<nvfp4>(amax);
  u8 global[sizeof(float)];
  std::memcpy(global, &encode, sizeof global);
  out.write(at.at(t.name + "_global_scale"), global);
}

void add_parts(tensor_report const& t, std::vector<output_tensor>& outputs) {
  const u64 rows = t.rows, cols = t.cols;
  outputs.push_back({t.name + "_packed", "U8", {rows, cols / 2}, rows * (cols / 2)});
  outputs.push_back({t.name + "_scale", "F8_E4M3", {rows, cols / 16}, rows * (cols / 16)});
  outputs.push_back({t.name + "_global_scale", "F32", {1}, sizeof(float)});
}

}  // namespace

written_file write_packed(byte_source const& file, checkpoint const& content, checkpoint_report const& report,
                          output_file& out) {
  std::unordered_map<std::string, tensor_report const*> measured;
  for (tensor_report const& t : report.tensors) measured[t.name] = &t;
  written_file written;
  written.path = out.path();

  std::vector<output_tensor> outputs;
  std::unordered_map<std::string, float> amax_of;  // of the tensors that are packed
  for (tensor_info const& t : content.tensors) {
    const auto found = measured.find(t.name);
    const std::string reason = found == measured.end() ? "" : reason_to_copy(*found->second);
    if (found != measured.end() && reason.empty()) {
      add_parts(*found->second, outputs);
      amax_of[t.name] = found->second->amax;
      written.packed.push_back(t.name);
      continue;
    }
    outputs.push_back({t.name, std::string(t.type->name), t.shape, t.end - t.begin});
    if (!reason.empty()) written.copied.push_back({t, reason});
  }

  auto metadata = content.metadata;
  metadata["format"] = "pt";
  metadata["quantization"] = "nvfp4-pack-quantized";
  metadata["fourscale"] = version_text();
  const std::string header = make_header(outputs, metadata);
  places at;
  written.bytes = header.size();
  for (output_tensor const& t : outputs) {
    at[t.name] = t.offset;
    written.bytes += t.bytes;
  }

  out.write(0, header);
  for (tensor_info const& t : content.tensors) {
    const auto amax = amax_of.find(t.name);
    if (amax == amax_of.end())
      copy(file, t, at.at(t.name), out);
    else
      pack(file, t, amax->second, at, out);
  }
  out.finish();
  return written;
}

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// The example checkpoint. Each value is a function of its index. Outliers lie in a few columns, as they do in
// transformers. One tensor has rows of very different size, one has rows that do not fill their last block.
#include "example.hpp"

#include <filesystem>
#include <fourscale/formats/real.hpp>

#include "checkpoint.hpp"
#include "files.hpp"
#include "report.hpp"
#include "safetensors.hpp"

namespace inspect {

namespace {

using fourscale::u16;
using fourscale::u32;

/// The finalizer of SplitMix64.
u64 mix(u64 i) {
  u64 z = i + 0x9e37'79b9'7f4a'7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebull;
  return z ^ (z >> 31);
}

/// About N(0, 1), exactly the same everywhere: the sum of four uniform 16-bit numbers.
float gaussian(u64 i) {
  const u64 r = mix(i);
  const int sum =
      static_cast<int>((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48)) - 2 * 65535;
  return static_cast<float>(sum) * 0x1.bb67aep-16f;
}

struct recipe {
  char const *name, *type;
  u64 rows, cols;  // zero columns: a vector of `rows` values
  float size;
  u64 outlier_every;  // one column in so many is 20 times larger; 0: none
  bool uneven_rows;
};

constexpr recipe recipes[] = {
    {"model.embed_tokens.weight", "BF16", 1000, 256, 0.05f, 97, false},
    {"model.layers.0.input_layernorm.weight", "F32", 256, 0, 0.1f, 0, false},
    {"model.layers.0.mlp.down_proj.weight", "F32", 256, 680, 0.02f, 0, false},
    {"model.layers.0.mlp.up_proj.weight", "F32", 680, 256, 0.04f, 61, false},
    {"model.layers.0.self_attn.k_proj.weight", "F16", 64, 256, 0.03f, 0, true},
    {"model.layers.0.self_attn.o_proj.weight", "BF16", 256, 256, 0.03f, 0, false},
    {"model.layers.0.self_attn.q_proj.weight", "BF16", 256, 256, 0.03f, 43, false},
    {"model.norm.weight", "F32", 256, 0, 0.1f, 0, false},
};

float value(recipe const& r, u64 tensor, u64 row, u64 col) {
  float x = r.size * gaussian((tensor << 40) + row * 4096 + col);
  if (r.outlier_every > 0 && col % r.outlier_every == 7) x *= 20.0f;
  if (r.uneven_rows)
    x *= fourscale::bit_cast<float>(static_cast<u32>(117 + mix(row) % 11) << 23);  // 2^-10 to 1
  return x;
}

void append(std::string& bytes, u64 word, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(word >> (8 * i) & 0xff);
}

std::string values_of(recipe const& r, u64 tensor) {
  std::string bytes;
  const std::string_view type(r.type);
  for (u64 row = 0; row < r.rows; ++row)
    for (u64 col = 0; col < (r.cols ? r.cols : 1); ++col) {
      const float x = value(r, tensor, row, col);
      if (type == "F32")
        append(bytes, fourscale::bit_cast<u32>(x), 4);
      else if (type == "F16")
        append(bytes, fourscale::from_float<fourscale::fp16>(x).bits, 2);
      else
        append(bytes, fourscale::from_float<fourscale::bf16>(x).bits, 2);
    }
  return bytes;
}

constexpr char const *maker_key = "made_by", *maker = "fourscale-inspect --make-example";

/// True if an example may take the place of `path`: nothing is there, or an example as it was made. A file of
/// --write keeps the metadata of its input, but adds "quantization" to them.
bool is_free(std::string const& path) {
  if (!std::filesystem::exists(path)) return true;
  try {
    const auto metadata = read_checkpoint(file_source(path), path).metadata;
    const auto by = metadata.find(maker_key);
    return by != metadata.end() && by->second == maker && !metadata.contains("quantization");
  } catch (file_error const&) {
    return false;
  }
}

}  // namespace

void write_example(std::string const& path) {
  std::vector<output_tensor> outputs{{"model.position_ids", "I64", {1, 128}, 1024}};
  std::map<std::string, std::string> contents;
  for (u64 i = 0; i < 128; ++i) append(contents["model.position_ids"], i, 8);
  u64 tensor = 0;
  for (recipe const& r : recipes) {
    std::string const& bytes = contents[r.name] = values_of(r, ++tensor);
    outputs.push_back(
        {r.name, r.type, r.cols ? std::vector<u64>{r.rows, r.cols} : std::vector<u64>{r.rows}, bytes.size()});
  }
  const std::string header = make_header(outputs, {{"format", "pt"}, {maker_key, maker}});
  output_file out(path);
  if (!is_free(path)) throw file_error("is there already, and is no example; choose another name", path);
  out.write(0, header);
  for (output_tensor const& t : outputs) out.write(t.offset, contents.at(t.name));
  out.finish();
  out.commit();
}

}  // namespace inspect

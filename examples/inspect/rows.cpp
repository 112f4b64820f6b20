// SPDX-License-Identifier: Apache-2.0
// Reads little-endian F64, F32, F16 and BF16 as floats.
#include "rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fourscale/formats/real.hpp>

namespace inspect {

static_assert(std::endian::native == std::endian::little, "Both file formats are little-endian.");

namespace {

constexpr i64 tile = 32;                       // the largest block, in either direction
constexpr u64 band_values = u64{1} << 20;      // fits a second- or third-level cache
constexpr u64 largest_band = u64{1} << 27;     // 512 MB of floats
constexpr u64 dimension_limit = u64{1} << 31;  // a limit of the library
// Rows with fewer columns are mostly padding: a row of one value would take 72 bits in NVFP4.
constexpr u64 narrowest = 16;

template <class T>
T load(u8 const* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

void convert(std::string_view type, u8 const* from, i64 count, float* to) {
  if (type == "F32") {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  } else if (type == "F64") {
    for (i64 i = 0; i < count; ++i) to[i] = static_cast<float>(load<double>(from + 8 * i));
  } else if (type == "BF16") {
    for (i64 i = 0; i < count; ++i) to[i] = to_float(fourscale::bf16{load<fourscale::u16>(from + 2 * i)});
  } else {
    for (i64 i = 0; i < count; ++i) to[i] = to_float(fourscale::fp16{load<fourscale::u16>(from + 2 * i)});
  }
}

}  // namespace

row_reader::row_reader(byte_source const& file, tensor_info const& t)
    : file_(file), tensor_(t), rows_(static_cast<i64>(t.shape[0])), cols_(static_cast<i64>(t.shape[1])) {}

i64 row_reader::rows_at_once() const {
  return std::max(tile, static_cast<i64>(band_values) / fourscale::round_up<i64>(cols_, tile) / tile * tile);
}

void row_reader::read(i64 first, i64 count, float* to, i64 ld) {
  const u64 row_bytes = static_cast<u64>(cols_) * tensor_.type->bits / 8;
  raw_.resize(static_cast<u64>(count) * row_bytes);
  file_.read(tensor_.begin + static_cast<u64>(first) * row_bytes, raw_);
#ifdef _OPENMP
#pragma omp parallel for if (count * cols_ > 65536)
#endif
  for (i64 r = 0; r < count; ++r)
    convert(tensor_.type->name, raw_.data() + static_cast<u64>(r) * row_bytes, cols_, to + r * ld);
}

std::string reason_to_skip(tensor_info const& t) {
  if (!t.type->is_analysed) return fmt::format("type {}", t.type->name);
  if (!t.is_matrix()) return "not 2-D";
  const u64 rows = t.shape[0], cols = t.shape[1];
  if (rows == 0 || cols == 0) return "empty";
  if (cols < narrowest) return fmt::format("fewer than {} columns", narrowest);
  if (rows >= dimension_limit || cols >= dimension_limit) return "2^31 or more rows or columns";
  if (std::min<u64>(rows, tile) * cols > largest_band) return "rows too long";
  return {};
}

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// The element types of safetensors 0.8, and the choice between the two readers.
#include "checkpoint.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "npy.hpp"
#include "safetensors.hpp"

namespace inspect {

dtype const* find_dtype(std::string_view name) {
  static constexpr dtype all[] = {
      {"F64", 64, true},         {"F32", 32, true},         {"F16", 16, true},     {"BF16", 16, true},
      {"I64", 64, false},        {"U64", 64, false},        {"C64", 64, false},    {"I32", 32, false},
      {"U32", 32, false},        {"I16", 16, false},        {"U16", 16, false},    {"I8", 8, false},
      {"U8", 8, false},          {"BOOL", 8, false},        {"F8_E4M3", 8, false}, {"F8_E5M2", 8, false},
      {"F8_E4M3FNUZ", 8, false}, {"F8_E5M2FNUZ", 8, false}, {"F8_E8M0", 8, false}, {"F6_E2M3", 6, false},
      {"F6_E3M2", 6, false},     {"F4", 4, false},
  };
  for (dtype const& type : all)
    if (type.name == name) return &type;
  return nullptr;
}

std::string joined(std::vector<u64> const& numbers, char separator) {
  std::string text;
  for (const u64 n : numbers) {
    if (!text.empty()) text += separator;
    text += std::to_string(n);
  }
  return text;
}

std::string shape_text(std::vector<u64> const& shape) {
  return shape.empty() ? "scalar" : joined(shape, 'x');
}

void check_size(tensor_info const& t) {
  u64 bits = t.type->bits;
  for (const u64 n : t.shape)
    if (__builtin_mul_overflow(bits, n, &bits))
      throw file_error(fmt::format("the shape of {} overflows", in_quotes(t.name)));
  if (bits % 8 != 0 || bits / 8 != t.end - t.begin)
    throw file_error(fmt::format("{} has {} bytes of data, but {} of type {} needs {}", in_quotes(t.name),
                                 t.end - t.begin, shortened(shape_text(t.shape), 60), t.type->name,
                                 bits % 8 ? "a broken number of them" : fmt::format("{}", bits / 8)));
}

checkpoint read_checkpoint(byte_source const& file, std::string const& path) {
  const std::filesystem::path name(path);
  if (name.extension() == ".npy" || has_npy_magic(file)) return read_npy(file, name.stem().string());
  return read_safetensors(file);
}

}  // namespace inspect

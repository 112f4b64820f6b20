// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds: names, types, shapes and where the values lie. Nothing here reads a value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "files.hpp"

namespace inspect {

/// An element type as safetensors names it.
struct dtype {
  std::string_view name;
  u64 bits = 0;
  bool is_analysed = false;  ///< F64, F32, F16, BF16
};

/// The dtype of that name, or nullptr.
dtype const* find_dtype(std::string_view name);

inline constexpr std::size_t largest_rank = 64;  ///< the most dimensions that a file may give a tensor

struct tensor_info {
  std::string name;
  dtype const* type = nullptr;
  std::vector<u64> shape;
  u64 begin = 0, end = 0;  ///< bytes from the start of the file

  bool is_matrix() const { return shape.size() == 2; }
};

struct checkpoint {
  std::vector<tensor_info> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// {1, 2} with separator ',' as "1,2".
std::string joined(std::vector<u64> const& numbers, char separator);

/// [2, 3] as "2x3", [] as "scalar".
std::string shape_text(std::vector<u64> const& shape);

/// Throws file_error unless shape and type of t fill [begin, end) exactly.
void check_size(tensor_info const& t);

/// Reads a file as .npy if its name or its first bytes say so, else as safetensors. Throws file_error.
checkpoint read_checkpoint(byte_source const& file, std::string const& path);

}  // namespace inspect

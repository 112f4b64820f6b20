// SPDX-License-Identifier: Apache-2.0
// The safetensors format: eight bytes of header length, a JSON header, then the values without gaps. The
// reader trusts nothing: whatever the header says is checked against the file before it is used.
#pragma once

#include "checkpoint.hpp"

namespace inspect {

/// The limit of the reference implementation. It also limits what an untrusted header may allocate here.
inline constexpr u64 largest_header = 100'000'000;

/// Throws file_error with one line if the file is not a whole and valid safetensors file.
checkpoint read_safetensors(byte_source const& file);

/// A tensor to be written, of `bytes` bytes. make_header() sets its offset.
struct output_tensor {
  std::string name, type;
  std::vector<u64> shape;
  u64 bytes = 0;
  u64 offset = 0;  ///< from the start of the file
};

/// The first part of a file, up to the values. Sorts the tensors by falling element size, then by name, as
/// the reference implementation does, so that each is aligned; then sets their offsets. Throws file_error if
/// two tensors have one name.
std::string make_header(std::vector<output_tensor>& tensors,
                        std::map<std::string, std::string> const& metadata);

}  // namespace inspect

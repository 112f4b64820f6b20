// SPDX-License-Identifier: Apache-2.0
// Reads the values of a matrix in a file as floats, some rows at a time. No more of a checkpoint than these
// rows is ever in memory.
#pragma once

#include "checkpoint.hpp"

namespace inspect {

class row_reader {
 public:
  /// `t` must be a matrix of an analysed type.
  row_reader(byte_source const& file, tensor_info const& t);

  i64 rows() const { return rows_; }
  i64 cols() const { return cols_; }
  /// How many rows to read at once: whole tiles of 32, about a million values with the padding of each row.
  i64 rows_at_once() const;

  /// Writes rows [first, first + count) to `to`, `ld` floats apart. F64 is rounded to float. What lies behind
  /// the columns of a row of `to` is left as it is.
  void read(i64 first, i64 count, float* to, i64 ld);

 private:
  byte_source const& file_;
  tensor_info const& tensor_;
  i64 rows_, cols_;
  std::vector<u8> raw_;
};

/// Why a tensor is not analysed ("not 2-D", "type I64", ...), or an empty string if it is.
std::string reason_to_skip(tensor_info const& t);

}  // namespace inspect

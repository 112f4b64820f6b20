// SPDX-License-Identifier: Apache-2.0
// Input and output. Bytes are read by position; an output file appears complete or not at all. Files are read
// and not mapped, so that a file that shrinks meanwhile is an error and not a SIGBUS.
#pragma once

#include <fourscale/bits.hpp>
#include <span>
#include <string>

#include "text.hpp"

namespace inspect {

using fourscale::i64;
using fourscale::u64;
using fourscale::u8;

/// Bytes that can be read at any offset: a file, or memory.
class byte_source {
 public:
  virtual ~byte_source() = default;
  virtual u64 size() const = 0;
  /// Fills `to` with the bytes from `offset` on. Throws file_error if they are not there.
  virtual void read(u64 offset, std::span<u8> to) const = 0;
};

/// A regular file. The constructor throws file_error if it cannot be read.
class file_source : public byte_source {
 public:
  explicit file_source(std::string const& path);
  ~file_source() override;
  file_source(file_source const&) = delete;
  file_source& operator=(file_source const&) = delete;
  u64 size() const override { return size_; }
  void read(u64 offset, std::span<u8> to) const override;

 private:
  int descriptor_ = -1;
  u64 size_ = 0;
};

/// Bytes that somebody else owns.
class memory_source : public byte_source {
 public:
  explicit memory_source(std::span<u8 const> bytes) : bytes_(bytes) {}
  u64 size() const override { return bytes_.size(); }
  void read(u64 offset, std::span<u8> to) const override;

 private:
  std::span<u8 const> bytes_;
};

/// An output file. It is written under a temporary name in the folder of `path`, or of the file that `path`
/// links to. commit() gives it its name; without commit() the destructor removes it. If the file exists, it
/// must be a regular file: a device is not replaced. Members throw file_error.
class output_file {
 public:
  explicit output_file(std::string const& path);
  ~output_file();
  output_file(output_file const&) = delete;
  output_file& operator=(output_file const&) = delete;
  std::string const& path() const { return path_; }
  void write(u64 offset, std::span<u8 const> bytes);
  void write(u64 offset, std::string_view text);
  /// Brings all bytes to the disk. Every error shows here at the latest, except those of renaming.
  void finish();
  /// Gives the file its name. Call finish() first.
  void commit();

 private:
  [[noreturn]] void fail(std::string const& what) const;
  std::string path_, target_, temporary_;
  int descriptor_ = -1;
};

/// True if both paths lead to one file, or would once it is written.
bool is_same_file(std::string const& a, std::string const& b);

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// POSIX reads and writes, repeated until done.
#include "files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace inspect {

namespace {

std::string reason() { return std::strerror(errno); }

constexpr char const* cut_short = "the file ends before the data that its header promises";

}  // namespace

file_source::file_source(std::string const& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer; for a regular file it means nothing.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw file_error("cannot be opened: " + reason());
  struct stat status {};
  std::string problem;
  if (::fstat(descriptor_, &status) != 0)
    problem = "cannot be examined: " + reason();
  else if (S_ISDIR(status.st_mode))
    problem = "is a directory";
  else if (!S_ISREG(status.st_mode))
    problem = "is not a regular file";
  if (!problem.empty()) {
    ::close(descriptor_);
    throw file_error(problem);
  }
  size_ = static_cast<u64>(status.st_size);
}

file_source::~file_source() { ::close(descriptor_); }

void file_source::read(u64 offset, std::span<u8> to) const {
  if (offset > size_ || to.size() > size_ - offset) throw file_error(cut_short);
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw file_error("cannot be read: " + reason());
    if (got == 0) throw file_error("became shorter while it was read");
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<u64>(got);
  }
}

void memory_source::read(u64 offset, std::span<u8> to) const {
  if (offset > bytes_.size() || to.size() > bytes_.size() - offset) throw file_error(cut_short);
  if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
}

output_file::output_file(std::string const& path) : path_(path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error && status.type() != std::filesystem::file_type::not_found) fail(error.message());
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail("it is there and is not a regular file");
  if (!std::filesystem::exists(status) && std::filesystem::is_symlink(path, error))
    fail("it is a link to nothing");
  target_ = std::filesystem::weakly_canonical(path, error).string();
  if (error) fail(error.message());
  temporary_ = target_ + ".XXXXXX";
  descriptor_ = ::mkstemp(temporary_.data());
  if (descriptor_ < 0) fail(reason());
}

output_file::~output_file() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void output_file::fail(std::string const& what) const {
  throw file_error("cannot be written: " + what, path_);
}

void output_file::write(u64 offset, std::span<u8 const> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(reason());
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<u64>(put);
  }
}

void output_file::write(u64 offset, std::string_view text) {
  write(offset, {reinterpret_cast<u8 const*>(text.data()), text.size()});
}

void output_file::finish() {
  const mode_t mask = ::umask(0);  // mkstemp made the file private; give it the mode that open() would have
  ::umask(mask);
  if (::fchmod(descriptor_, 0666 & ~mask) != 0 || ::fsync(descriptor_) != 0) fail(reason());
}

void output_file::commit() {
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail(reason());
  if (const int closing = std::exchange(descriptor_, -1); ::close(closing) != 0) fail(reason());
}

bool is_same_file(std::string const& a, std::string const& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto place = [&](std::string const& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return place(a) == place(b);
}

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// Checkpoints for the tests: in memory from literals, and files in a folder that vanishes.
#pragma once

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <inspect/safetensors.hpp>
#include <optional>

namespace inspect::test {

using bytes = std::vector<u8>;

inline bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// A file of this header and that many bytes of data, all 1.
inline bytes file_of(std::string_view header, std::size_t data_bytes) {
  bytes file(8 + header.size(), 0);
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<u8>(static_cast<u64>(header.size()) >> (8 * i));
  std::memcpy(file.data() + 8, header.data(), header.size());
  file.resize(file.size() + data_bytes, 1);
  return file;
}

/// A file with one F32 matrix "x".
inline bytes file_of(std::vector<float> const& values, u64 rows, u64 cols) {
  std::vector<output_tensor> tensors{{"x", "F32", {rows, cols}, values.size() * sizeof(float)}};
  bytes file = bytes_of(make_header(tensors, {}));
  const std::size_t begin = file.size();
  file.resize(begin + values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(file.data() + begin, values.data(), values.size() * sizeof(float));
  return file;
}

/// What is wrong with a file, or nothing.
inline std::optional<std::string> error_of(bytes const& file, std::string const& path = "x.safetensors") {
  try {
    static_cast<void>(read_checkpoint(memory_source(file), path));
  } catch (file_error const& e) {
    return e.what();
  }
  return {};
}

/// A new folder, removed at the end with all that is in it.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "fourscale.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;
  std::string file(std::string const& name) const { return (path_ / name).string(); }
  std::ptrdiff_t count() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

}  // namespace inspect::test

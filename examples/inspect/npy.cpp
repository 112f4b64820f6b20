// SPDX-License-Identifier: Apache-2.0
// The header is a Python dictionary with three known keys; the parser accepts that and no other Python.
#include "npy.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace inspect {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr u64 largest_npy_header = 1 << 20;

struct npy_header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<u64>> shape;
};

class dictionary_parser {
 public:
  explicit dictionary_parser(std::string_view text) : text_(text) {}

  npy_header parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      value(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty()) fail();
    if (!header_.descr || !header_.fortran_order || !header_.shape)
      throw file_error("the npy header lacks descr, fortran_order or shape");
    return std::move(header_);
  }

 private:
  [[noreturn]] static void fail() { throw file_error("the npy header is not the dictionary it should be"); }

  void skip_space() {
    const std::size_t n = text_.find_first_not_of(" \t\r\n\f\v");
    text_.remove_prefix(n == std::string_view::npos ? text_.size() : n);
  }
  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  bool accept(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos || text_.substr(0, end).find('\\') != std::string_view::npos) fail();
    std::string s(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return s;
  }

  u64 number() {
    skip_space();
    u64 n = 0;
    std::size_t digits = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits)
      if (__builtin_mul_overflow(n, u64{10}, &n) ||
          __builtin_add_overflow(n, static_cast<u64>(text_[digits] - '0'), &n))
        throw file_error("the npy shape overflows");
    if (digits == 0) fail();
    text_.remove_prefix(digits);
    accept('L');  // written by Python 2
    return n;
  }

  void value(std::string const& key) {
    if (key == "descr" && !header_.descr) {
      if (accept('[')) throw file_error("arrays of records are not supported");
      header_.descr = string();
    } else if (key == "fortran_order" && !header_.fortran_order) {
      const bool is_true = accept(std::string_view("True"));
      if (!is_true && !accept(std::string_view("False"))) fail();
      header_.fortran_order = is_true;
    } else if (key == "shape" && !header_.shape) {
      header_.shape = tuple();
    } else {
      throw file_error(fmt::format("the npy header has the unknown or repeated key {}", in_quotes(key)));
    }
  }

  std::vector<u64> tuple() {
    std::vector<u64> shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == largest_rank) throw file_error("the npy shape has too many dimensions");
      shape.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  npy_header header_;
};

std::string_view safetensors_name(std::string_view descr) {
  if (descr == "<f4") return "F32";
  if (descr == "<f2") return "F16";
  if (descr == "<f8") return "F64";
  if (descr.starts_with('>')) throw file_error("big-endian arrays are not supported");
  throw file_error(fmt::format("arrays of type {} are not supported, only f2, f4 and f8", in_quotes(descr)));
}

}  // namespace

bool has_npy_magic(byte_source const& file) {
  std::array<u8, 6> start{};
  if (file.size() < start.size()) return false;
  file.read(0, start);
  return std::string_view(reinterpret_cast<char const*>(start.data()), start.size()) == magic;
}

checkpoint read_npy(byte_source const& file, std::string const& name) {
  if (!has_npy_magic(file)) throw file_error("does not begin as an npy file does");
  std::array<u8, 6> rest{};  // two bytes of version, two or four of header length
  if (file.size() < 12) throw file_error("ends within its npy header");
  file.read(magic.size(), rest);
  if (rest[0] < 1 || rest[0] > 3)
    throw file_error(fmt::format("npy version {}.{} is not supported, only 1 to 3", rest[0], rest[1]));
  u64 length = rest[2] | u64{rest[3]} << 8;
  if (rest[0] > 1) length |= u64{rest[4]} << 16 | u64{rest[5]} << 24;
  const u64 begin = magic.size() + (rest[0] > 1 ? 6 : 4);
  if (length > largest_npy_header)
    throw file_error(fmt::format("an npy header of {} bytes is too long", length));
  if (length > file.size() - begin) throw file_error("ends within its npy header");
  std::string text(length, '\0');
  file.read(begin, {reinterpret_cast<u8*>(text.data()), text.size()});

  npy_header header = dictionary_parser(text).parse();
  if (*header.fortran_order)
    throw file_error("the array is in Fortran order; save np.ascontiguousarray(array) instead");
  tensor_info t{name, find_dtype(safetensors_name(*header.descr)), std::move(*header.shape), begin + length,
                file.size()};
  check_size(t);
  return {{std::move(t)}, {}};
}

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// The header is parsed event by event, so that a hostile header costs no more memory than its own size: no
// tree is built, and the first bracket that does not belong is an error, which limits nesting.
#include "safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace inspect {

namespace {

constexpr char const* metadata_key = "__metadata__";

/// Takes the events of the JSON parser and collects tensors and metadata. Throws file_error at the first
/// event that does not belong.
class header_handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  checkpoint result;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(double, std::string const&) override { return unexpected("a fraction"); }
  bool number_integer(std::int64_t) override { return unexpected("a negative number"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == place::shape) {
      if (tensor_.shape.size() == largest_rank) fail("{} has more than {} dimensions", where(), largest_rank);
      tensor_.shape.push_back(value);
    } else if (place_ == place::offsets) {
      if (offsets_ == 2) fail("{} has more than two data_offsets", where());
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == place::metadata) {
      result.metadata[key_] = value;
    } else if (place_ == place::tensor && key_ == "dtype") {
      tensor_.type = find_dtype(value);
      if (!tensor_.type) fail("{} has the unknown dtype {}", where(), in_quotes(value));
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == place::outside) {
      place_ = place::header;
    } else if (place_ == place::header) {
      place_ = key_ == metadata_key ? place::metadata : place::tensor;
      tensor_ = {};
      tensor_.name = key_;
      offsets_ = 0;
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    key_ = name;
    if (place_ == place::header && !names_.insert(name).second) fail("{} is there twice", in_quotes(name));
    if (place_ == place::metadata && result.metadata.contains(name))
      fail("the metadata have {} twice", in_quotes(name));
    if (place_ == place::tensor) mark_field(name);
    return true;
  }

  bool end_object() override {
    if (place_ == place::tensor) {
      if (!seen_dtype_ || !seen_shape_ || !seen_offsets_)
        fail("{} lacks {}", where(), !seen_dtype_ ? "dtype" : !seen_shape_ ? "shape" : "data_offsets");
      result.tensors.push_back(std::move(tensor_));
    }
    place_ = place_ == place::header ? place::outside : place::header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != place::tensor || key_ == "dtype") return unexpected("an array");
    place_ = key_ == "shape" ? place::shape : place::offsets;
    return true;
  }

  bool end_array() override {
    if (place_ == place::offsets && offsets_ != 2) fail("{} needs two data_offsets", where());
    place_ = place::tensor;
    return true;
  }

  bool parse_error(std::size_t byte, std::string const&, nlohmann::json::exception const& e) override {
    const bool utf8 = std::string_view(e.what()).find("UTF-8") != std::string_view::npos;
    fail("the header is not valid {} (byte {})", utf8 ? "UTF-8" : "JSON", byte);
  }

 private:
  enum class place { outside, header, metadata, tensor, shape, offsets };

  template <class... Args>
  [[noreturn]] static void fail(fmt::format_string<Args...> text, Args&&... args) {
    throw file_error(fmt::format(text, std::forward<Args>(args)...));
  }

  [[noreturn]] bool unexpected(char const* what) const {
    if (place_ == place::outside) fail("the header is {} instead of an object", what);
    if (place_ == place::metadata) fail("the metadata hold {} where only strings may be", what);
    if (place_ == place::header) fail("{} is {} instead of an object", in_quotes(key_), what);
    fail("{} has {} as its {}", where(), what, in_quotes(key_));
  }

  std::string where() const { return in_quotes(tensor_.name); }

  void mark_field(std::string const& name) {
    bool* seen = name == "dtype"          ? &seen_dtype_
                 : name == "shape"        ? &seen_shape_
                 : name == "data_offsets" ? &seen_offsets_
                                          : nullptr;
    if (!seen) fail("{} has the unknown field {}", where(), in_quotes(name));
    if (*seen) fail("{} has {} twice", where(), name);
    *seen = true;
  }

  place place_ = place::outside;
  std::string key_;
  tensor_info tensor_;
  int offsets_ = 0;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
  std::unordered_set<std::string> names_;
};

/// Sorts the tensors by offset, and checks that they tile the data: no overlap, no gap, nothing behind the
/// last. Offsets become those from the start of the file.
void check_places(std::vector<tensor_info>& tensors, u64 data_begin, u64 data_bytes) {
  for (tensor_info const& t : tensors) {
    if (t.end < t.begin) throw file_error(fmt::format("{} ends before it begins", in_quotes(t.name)));
    if (t.end > data_bytes)
      throw file_error(fmt::format("{} ends past the end of the file", in_quotes(t.name)));
    check_size(t);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](tensor_info const& a, tensor_info const& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  u64 at = 0;
  for (tensor_info& t : tensors) {
    if (t.begin < at) throw file_error(fmt::format("{} overlaps another tensor", in_quotes(t.name)));
    if (t.begin > at) throw file_error(fmt::format("there is a gap before {}", in_quotes(t.name)));
    at = t.end;
    t.begin += data_begin;
    t.end += data_begin;
  }
  if (at != data_bytes)
    throw file_error(fmt::format("{} bytes behind the last tensor belong to none", data_bytes - at));
}

}  // namespace

checkpoint read_safetensors(byte_source const& file) {
  u8 length_bytes[8];
  if (file.size() < sizeof length_bytes)
    throw file_error(fmt::format("{} bytes are too few for a safetensors file", file.size()));
  file.read(0, length_bytes);
  u64 length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | length_bytes[i];
  if (length > largest_header)
    throw file_error(
        fmt::format("the header would be {} bytes long, more than the {} allowed; "
                    "is this a safetensors file?",
                    length, largest_header));
  if (length > file.size() - sizeof length_bytes)
    throw file_error(fmt::format("the header of {} bytes ends past the end of the file", length));
  std::vector<u8> header(length);
  file.read(sizeof length_bytes, header);
  if (header.empty() || header[0] != '{') throw file_error("the header does not begin with '{'");
  // The parser takes a zero byte for the end, whatever follows it.
  if (std::find(header.begin(), header.end(), u8{0}) != header.end())
    throw file_error("the header is not valid JSON (it holds a zero byte)");
  header_handler handler;
  nlohmann::json::sax_parse(header.begin(), header.end(), &handler);
  const u64 data_begin = sizeof length_bytes + length;
  check_places(handler.result.tensors, data_begin, file.size() - data_begin);
  return std::move(handler.result);
}

std::string make_header(std::vector<output_tensor>& tensors,
                        std::map<std::string, std::string> const& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](output_tensor const& a, output_tensor const& b) {
    const u64 wide_a = find_dtype(a.type)->bits, wide_b = find_dtype(b.type)->bits;
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  const auto json_text = [](std::string const& s) {
    return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string header = "{\"" + std::string(metadata_key) + "\":{";
  for (auto const& [key, value] : metadata)
    header += fmt::format("{}{}:{}", header.back() == '{' ? "" : ",", json_text(key), json_text(value));
  header += '}';
  std::unordered_set<std::string> names{metadata_key};
  u64 at = 0;
  for (output_tensor& t : tensors) {
    if (!names.insert(t.name).second)
      throw file_error(fmt::format("the output would hold {} twice", in_quotes(t.name)));
    header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          json_text(t.name), t.type, joined(t.shape, ','), at, at + t.bytes);
    t.offset = at;
    at += t.bytes;
  }
  header += '}';
  header.resize(fourscale::round_up(header.size(), std::size_t{8}), ' ');
  if (header.size() > largest_header) throw file_error("the header of the output would be too long");
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  for (output_tensor& t : tensors) t.offset += length.size() + header.size();
  return length + header;
}

}  // namespace inspect

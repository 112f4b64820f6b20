// SPDX-License-Identifier: Apache-2.0
// .npy in its three versions, and what of it is refused.
#include "../support/catch.hpp"
#include "files.hpp"
#include "inspect/rows.hpp"

namespace inspect::test {

namespace {

bytes npy(int version, std::string const& header, std::string_view data) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes_of(text + header + std::string(data));
}

constexpr char const* plain = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }         \n";
constexpr std::string_view one_two("\0\0\x80\x3f\0\0\0\x40", 8);

bool refuses(bytes const& file, std::string const& why) {
  const auto error = error_of(file, "a.npy");
  return error && error->find(why) != std::string::npos && error->find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("npy versions 1 to 3 are read, whatever the file is called", "[inspect]") {
  for (int version = 1; version <= 3; ++version) {
    const bytes file = npy(version, plain, one_two);
    const memory_source source(file);
    const checkpoint c = read_checkpoint(source, "folder/weights.npy");
    REQUIRE(c.tensors.size() == 1);
    CHECK(c.tensors[0].name == "weights");
    CHECK(c.tensors[0].shape == std::vector<u64>{2, 1});
    float values[2];
    row_reader(source, c.tensors[0]).read(0, 2, values, 1);
    CHECK(values[0] == 1.0f);
    CHECK(values[1] == 2.0f);
    CHECK(!error_of(file, "no ending"));
  }
}

TEST_CASE("f2 and f8 are converted", "[inspect]") {
  const bytes half =
      npy(1, "{\"shape\": (1, 2), \"descr\": \"<f2\", \"fortran_order\": False}", {"\0\x3c\0\xc0", 4});
  const bytes wide =
      npy(1, "{'descr':'<f8','fortran_order':False,'shape':(1,1L)}", {"\0\0\0\0\0\0\xf8\x3f", 8});
  float values[2] = {};
  const memory_source half_source(half), wide_source(wide);
  const checkpoint halves = read_checkpoint(half_source, "a.npy"),
                   wides = read_checkpoint(wide_source, "a.npy");
  row_reader(half_source, halves.tensors[0]).read(0, 1, values, 2);
  CHECK(values[0] == 1.0f);
  CHECK(values[1] == -2.0f);
  row_reader(wide_source, wides.tensors[0]).read(0, 1, values, 1);
  CHECK(values[0] == 1.5f);
}

TEST_CASE("what npy may hold but this reader cannot use is refused", "[inspect]") {
  const auto with = [](std::string const& descr, char const* order, std::string const& shape) {
    return npy(1, "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + "}",
               one_two);
  };
  CHECK(!error_of(with("'<f4'", "False", "(2,)"), "a.npy"));
  CHECK(refuses(with("'<f4'", "True", "(2, 1)"), "Fortran order"));
  CHECK(refuses(with("'>f4'", "False", "(2, 1)"), "big-endian"));
  CHECK(refuses(with("'<i8'", "False", "(1, 1)"), "'<i8'"));
  CHECK(refuses(with("[('a', '<f4')]", "False", "(2, 1)"), "records"));
  CHECK(refuses(with("'<f4'", "False", "(3, 1)"), "needs 12"));
  CHECK(refuses(with("'<f4'", "False", "(99999999999999999999, 1)"), "overflows"));
  CHECK(refuses(with("'<f4'", "False", "(4294967296, 4294967296)"), "overflows"));
  CHECK(refuses(with("'<f4'", "False", "(-2, 1)"), "dictionary"));
  CHECK(refuses(with("'<f4'", "Maybe", "(2, 1)"), "dictionary"));
  CHECK(refuses(with("'<f4", "False", "(2, 1)"), ""));
  CHECK(refuses(npy(1, "{'descr': '<f4'}", one_two), "lacks"));
  CHECK(refuses(npy(1, "{'descr': '<f4', 'descr': '<f4'}", one_two), "repeated"));
  CHECK(refuses(npy(1, "import os", one_two), "dictionary"));
  CHECK(refuses(npy(4, plain, one_two), "version 4.0"));
  CHECK(refuses(bytes_of("\x93NUMPX......"), "does not begin"));
  CHECK(refuses(bytes_of("\x93NUMPY"), "ends within"));
  CHECK(refuses({}, "does not begin"));
  const bytes whole = npy(2, plain, one_two);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(error_of(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), "a.npy"));
}

}  // namespace inspect::test

// SPDX-License-Identifier: Apache-2.0
// Files that a reader must refuse, each for its own reason, and the odd ones that are valid.
#include "../support/catch.hpp"
#include "files.hpp"

namespace inspect::test {

namespace {

struct hostile_file {
  char const* why;
  std::string header;
  std::size_t data_bytes;
};

std::string tensor(std::string const& fields) { return R"({"x":{)" + fields + "}}"; }

std::string ones(int count) {
  std::string text = "1";
  for (int i = 1; i < count; ++i) text += ",1";
  return text;
}

hostile_file const refused[] = {
    {"does not begin with '{'", "", 0},
    {"does not begin with '{'", " {}", 0},
    {"does not begin with '{'", "[]", 0},
    {"not valid JSON", "{", 0},
    {"not valid JSON", "{}{}", 0},
    {"not valid JSON", std::string("{}\0", 3), 0},
    {"not valid JSON", R"({"x":nope})", 0},
    {"not valid JSON", R"({"x":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}})", 1},
    {"not valid UTF-8", "{\"\xff\":{}}", 0},
    {"not valid UTF-8", "{\"\xc0\xaf\":{}}", 0},
    {"'x' is a number instead of an object", R"({"x":1})", 0},
    {"'x' is an array instead of an object", R"({"x":[[[[]]]]})", 0},
    {"'x' is null instead of an object", R"({"x":null})", 0},
    {"the metadata hold a number", R"({"__metadata__":{"format":1}})", 0},
    {"the metadata hold an object", R"({"__metadata__":{"format":{}}})", 0},
    {"the metadata have 'a' twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0},
    {"'__metadata__' is there twice", R"({"__metadata__":{},"__metadata__":{}})", 0},
    {"'x' is there twice",
     R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
     2},
    {"lacks dtype", tensor(""), 0},
    {"lacks dtype", tensor(R"("shape":[1],"data_offsets":[0,1])"), 1},
    {"lacks shape", tensor(R"("dtype":"U8","data_offsets":[0,1])"), 1},
    {"lacks data_offsets", tensor(R"("dtype":"U8","shape":[1])"), 1},
    {"unknown field 'color'", tensor(R"("color":"red")"), 0},
    {"has dtype twice", tensor(R"("dtype":"U8","dtype":"U8")"), 0},
    {"unknown dtype 'F7'", tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,1])"), 1},
    {"has a number as its 'dtype'", tensor(R"("dtype":8,"shape":[1],"data_offsets":[0,1])"), 1},
    {"has a string as its 'shape'", tensor(R"("dtype":"U8","shape":"1","data_offsets":[0,1])"), 1},
    {"has a fraction as its 'shape'", tensor(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1},
    {"has a fraction as its 'shape'",
     tensor(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1])"), 1},
    {"has a negative number as its 'shape'", tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1},
    {"has an array as its 'shape'", tensor(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), 1},
    {"has a negative number as its 'data_offsets'",
     tensor(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])"), 1},
    {"more than two data_offsets", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1},
    {"needs two data_offsets", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1},
    {"ends before it begins", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1},
    {"past the end", tensor(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), 1},
    {"past the end", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,9007199254740993])"), 1},
    {"past the end",
     tensor(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615])"), 1},
    {"needs 8", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4},
    {"needs 1", tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,2])"), 2},
    {"broken number", tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1},
    {"overflows", tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0},
    {"overflows", tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0},
    {"belong to none", "{}", 1},
    {"belong to none", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 2},
    {"gap before 'x'", tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2},
    {"'b' overlaps",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     3},
    {"more than 64 dimensions", tensor(R"("shape":[)" + ones(65) + "]"), 0},
};

}  // namespace

TEST_CASE("each hostile file is refused with its sentence", "[inspect]") {
  for (hostile_file const& h : refused) {
    INFO(h.header);
    const auto error = error_of(file_of(h.header, h.data_bytes));
    REQUIRE(error.has_value());
    INFO(*error);
    CHECK(error->find(h.why) != std::string::npos);
    CHECK(error->find('\n') == std::string::npos);
  }
}

TEST_CASE("a header longer than its file or than the limit is refused", "[inspect]") {
  CHECK(error_of({}).value().find("too few") != std::string::npos);
  CHECK(error_of(bytes(7, 0)).value().find("too few") != std::string::npos);
  CHECK(error_of({3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}).value().find("past the end") != std::string::npos);
  CHECK(error_of(bytes(64, 0xff)).value().find("more than") != std::string::npos);
  CHECK(error_of(file_of(std::string(1 << 20, '['), 0)).has_value());
  CHECK(error_of(file_of(R"({"x":)" + std::string(1 << 20, '['), 0)).has_value());
  CHECK(error_of(file_of(R"({"x":)" + std::string(1 << 20, '{'), 0)).has_value());
}

TEST_CASE("odd but valid files are read", "[inspect]") {
  CHECK(!error_of(file_of("{}   ", 0)));
  CHECK(!error_of(file_of(R"({"__metadata__":{}})", 0)));
  CHECK(!error_of(file_of(tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,1])"), 1)));
  CHECK(!error_of(file_of(tensor(R"("dtype":"F4","shape":[2,3],"data_offsets":[0,3])"), 3)));
  CHECK(
      !error_of(file_of(tensor(R"("dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0])"), 0)));
  const checkpoint c =
      read_checkpoint(memory_source(file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                            R"("a":{"data_offsets":[0,2],"shape":[1,1],"dtype":"BF16"},)"
                                            R"("__metadata__":{"k":"v"}})",
                                            3)),
                      "x");
  REQUIRE(c.tensors.size() == 2);
  CHECK(c.tensors[0].name == "a");
  CHECK(c.tensors[1].end - c.tensors[0].begin == 3);
  CHECK(c.metadata.at("k") == "v");
}

TEST_CASE("names cannot move the cursor", "[inspect]") {
  CHECK(printable("a\x1b[2Jb\n\x7f\xc2\x9b") == "a?[2Jb???");
  CHECK(printable("\xe2\x80\xae"
                  "abc") == "?abc");
  CHECK(printable("\xd8\x9c"
                  "abc") == "?abc");
  CHECK(printable("\xf3\xa0\x81\x81"
                  "abc") == "?abc");
  CHECK(printable("\xff\xc3") == "??");
  CHECK(printable("\xe9\x87\x8d"
                  "\xc3\xa9") == "\xe9\x87\x8d\xc3\xa9");
  CHECK(columns("\xe9\x87\x8d\xc3\xa9") == 3);
  CHECK(shortened("encoder.layer.11.weight", 12) == "enco...eight");
  CHECK(columns(shortened("\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d\xe9\x87\x8d", 10)) <=
        10);
}

}  // namespace inspect::test

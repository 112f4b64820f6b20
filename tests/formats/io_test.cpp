// SPDX-License-Identifier: Apache-2.0
// What a code looks like when printed, through streams and through fmt.
#include <fourscale/formats/io.hpp>
#include <sstream>

#include "support/catch.hpp"

using namespace fourscale;

namespace {

template <class T>
std::string streamed(T value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

TEST_CASE("io: a code prints as its value", "[formats][io]") {
  CHECK(streamed(encode<e2m1>(1.5f)) == "1.5");
  CHECK(streamed(encode<e2m1>(-0.0f)) == "-0");
  CHECK(streamed(e4m3{0x7f}) == "nan");
  CHECK(streamed(e5m2{0xfc}) == "-inf");
  CHECK(streamed(from_float<bf16>(0.5f)) == "0.5");
  CHECK(streamed(encode<e2m1>(1.0f, -0.5f)) == "[1, -0.5]");
}

TEST_CASE("io: fmt takes the format specs of float", "[formats][io]") {
  CHECK(fmt::format("{}", encode<e2m1>(6.0f)) == "6");
  CHECK(fmt::format("{:+.2f}", encode<e4m3>(448.0f)) == "+448.00");
  CHECK(fmt::format("{:>6}", e8m0{128}) == "     2");
  CHECK(fmt::format("{}", from_float<fp16>(-0.25f)) == "-0.25");
}

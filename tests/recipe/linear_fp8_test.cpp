// SPDX-License-Identifier: Apache-2.0
// Linear layers in FP8 on the CPU: each GEMM against an emulation in double from the values of
// host::fake_quantize, and, for whole numbers, against the exact products of the matrices themselves.
#include "recipe/linear_fp8_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe current = presets::fp8_current().linear, delayed = presets::fp8_delayed().linear,
                        blocks = presets::fp8_block().linear;

constexpr linear_recipe e5m2_blocks() {
  linear_recipe r = blocks;
  for (operand_recipe* o : {&r.dgrad.a, &r.wgrad.a})
    o->format = format_name::fp8_block_e5m2, o->scale = scale_rule::fp32_scale;
  return r;
}

template <linear_recipe R>
void check_emulation(linear_shape s) {
  INFO(s.tokens << " x " << s.in << " x " << s.out);
  linear_case<R> c(s);
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward() == errc::ok);
  CHECK(expected_y(c).outside(c.y) == 0);
  CHECK(expected_dx(c).outside(c.dx) == 0);
  CHECK(expected_dw(c).outside(c.dw) == 0);
  c.dw[5] *= 1.001f;
  CHECK(expected_dw(c).outside(c.dw) == 1);
}

std::vector<float> floats(std::vector<bf16> const& v) {
  std::vector<float> x;
  for (const bf16 value : v) x.push_back(to_float(value));
  return x;
}

template <linear_recipe R>
void check_whole(linear_shape s) {
  linear_case<R> c(s);
  make_whole(c);
  if constexpr (R == delayed) *c.t.x.amax = *c.t.w.amax = 448.0f;
  REQUIRE(c.forward() == errc::ok);
  if constexpr (R == delayed) *c.t.dy.amax = 57344.0f;
  REQUIRE(c.backward() == errc::ok);
  CHECK(floats(c.y) == whole_product<bf16>(c.in_x(), c.in_w()));
  CHECK(floats(c.dx) == whole_product<bf16>(c.in_dy(), transposed(c.in_w())));
  CHECK(c.dw == whole_product<float>(transposed(c.in_dy()), transposed(c.in_x())));
}

}  // namespace

TEST_CASE("linear fp8: equals its emulation in double", "[recipe][linear][fp8]") {
  check_emulation<current>({48, 64, 80});
  check_emulation<current>({160, 16, 144});
  check_emulation<blocks>({128, 256, 384});
  check_emulation<e5m2_blocks()>({256, 128, 128});
}

TEST_CASE("linear fp8: whole numbers have exact products", "[recipe][linear][fp8]") {
  check_whole<current>({48, 64, 80});
  check_whole<delayed>({48, 64, 80});
  check_whole<blocks>({128, 256, 128});
}

TEST_CASE("linear fp8: formats meet, and shapes are whole blocks", "[recipe][linear][fp8]") {
  using layer = host::linear_layer<current>;
  static_assert(same_type<decltype(layer::tensors{}.dy)::format, fp8_e5m2> &&
                same_type<decltype(layer::tensors{}.w)::format, fp8_e4m3>);
  static_assert(layer::tensors{}.dy.amax_count == 1 &&
                host::linear_layer<blocks>::tensors{}.dy.amax_count == 0);
  // W: a byte a value, twice, and an amax in 256 bytes; X: its columnwise copy and amax; dY with both.
  CHECK(layer::bytes({64, 96, 128}) == linear_bytes{2 * 12288 + 256, 6144 + 256, 2 * 8192 + 256});
  linear_case<blocks> c({128, 128, 256});
  const auto place = [&](linear_shape s) {
    return decltype(c)::layer::place(s, c.all_of(c.weights), c.all_of(c.saved), c.all_of(c.workspace), &c.t);
  };
  CHECK(place({128, 128, 192}) == errc::partial_block);
  CHECK(place({64, 128, 256}) == errc::partial_block);
}

// SPDX-License-Identifier: Apache-2.0
// MS-EDEN of a matrix: each group of 128 values as the definition makes it where it lies.
#include <cmath>
#include <fourscale/host/ms_eden.hpp>
#include <fourscale/rounding/philox.hpp>

#include "naive.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

const ms_eden recipe{philox{3, 1}, {0x0123'4567'89ab'cdef, 0xfeed'1234'5678'90ab}};

template <class Layout, class M>
void check(M const& x) {
  output<nvfp4, Layout> got(x.rows, x.cols), want(x.rows, x.cols);
  got.view.amax = {amax_value(90.0f), recipe};
  REQUIRE(host::quantize(x, got.view, recipe) == errc::ok);
  for (i64 i = 0; i < want.scales.count(); ++i) want.scales.data()[i] = 0;  // the padding too
  for (i64 row = 0; row < x.rows; ++row)
    for (i64 col = 0; col < x.cols; col += 128) {
      float y[128];
      for (int i = 0; i < 128; ++i) y[i] = to_float(x.at(row, col + i));
      recipe.transform(y);
      packed_block<nvfp4> blocks[8];
      recipe(y, recipe.tensor(nvfp4{}, 90.0f), position{row, col}, blocks);
      for (int b = 0; b < 8; ++b) want.view.store(row, col / 16 + b, blocks[b]);
    }
  CHECK(first_difference(got.codes, want.codes) == -1);
  CHECK(first_difference(got.scales, want.scales) == -1);
  CHECK(got.canaries_live());
}

}  // namespace

TEST_CASE("host::quantize: MS-EDEN, every byte", "[host][ms_eden]") {
  const source<bf16> x(5, 384, 3, values::activations);
  const source<float> y(256, 5, 1, values::activations);
  check<linear>(x.view);
  check<swizzled_128x4>(x.view);
  check<linear>(transposed(y.view));
  check<swizzled_128x4>(transposed(y.view));
}

TEST_CASE("ms_eden: its range is the paper's, with room for the correction", "[host][ms_eden]") {
  const float largest = recipe.tensor(nvfp4{}, 1.0f).largest;
  CHECK(largest == static_cast<float>(6.0 / (17.0 / 16.0 * 0.93)) * 255.99f);
}

// Hadamard rotations by random signs are not uniform over all rotations.
TEST_CASE("ms_eden: the mean of a few large values has the length of these values, and some bias",
          "[host][ms_eden]") {
  constexpr int draws = 20000;
  constexpr double x[3] = {1.0, 0.5, 0.25};
  double mean[3] = {};
  for (u64 draw = 0; draw < draws; ++draw) {
    const ms_eden fresh{philox{7, draw}, {mix(2 * draw), mix(2 * draw + 1)}};
    float y[128] = {1.0f, 0.5f, 0.25f};
    fresh.transform(y);
    packed_block<nvfp4> blocks[8];
    const tensor_scale<nvfp4> tensor = fresh.tensor(nvfp4{}, 1.0f);
    fresh(y, tensor, position{}, blocks);
    for (int b = 0; b < 8; ++b) {
      float values[16];
      dequantize_block(blocks[b], values, tensor);
      for (int i = 0; i < 16; ++i) y[16 * b + i] = values[i];
    }
    hadamard<128>{no_signs}(y);  // back, but for the signs
    for (int i = 0; i < 3; ++i) mean[i] += (fresh.transform.signs.negative(i) ? -1.0 : 1.0) * y[i] / draws;
  }
  // Rotated values are rounded to bf16, so that each may be off by 2^-8 of itself.
  CHECK(std::fabs((x[0] * mean[0] + x[1] * mean[1] + x[2] * mean[2]) / 1.3125 - 1.0) < 0x1p-7);
  CHECK(std::fabs(mean[0] - 1.02) < 0.005);
  CHECK(std::fabs(mean[1] - 0.44) < 0.005);
  CHECK(std::fabs(mean[2] - 0.29) < 0.005);
}

TEST_CASE("ms_eden: a block that is infinite leaves the scales of the others uncorrected",
          "[host][ms_eden]") {
  float y[128], finite[128];
  for (u64 i = 0; i < 128; ++i) y[i] = finite[i] = gaussian(i);
  y[5] = bit_cast<float>(float_inf_bits);
  const tensor_scale<nvfp4> tensor = recipe.tensor(nvfp4{}, 4.0f);
  packed_block<nvfp4> spoiled[8], whole[8];
  recipe(y, tensor, position{2, 0}, spoiled);
  recipe(finite, tensor, position{2, 0}, whole);
  for (int b = 1; b < 8; ++b) {
    // The correction is a few percent, which is a step of E4M3 at most.
    const int steps = spoiled[b].scale.bits - whole[b].scale.bits;
    CHECK((-2 <= steps && steps <= 2));
    for (int i = 0; i < 16; ++i) CHECK(spoiled[b].get(i) == whole[b].get(i));
  }
}

// SPDX-License-Identifier: Apache-2.0
// host::quantize equals one block after the other in every byte: formats, layouts, 1-D and 2-D, both copies.
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/transform/hadamard.hpp>

#include "naive.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

template <block_format F, class Layout, class Blocks>
void check_both_copies(Blocks shape) {
  for (const values kind : {values::activations, values::ugly}) {
    const source<float> x(test_rows<F>, test_cols<F>, 3, kind), y(test_cols<F>, test_rows<F>, 5, kind);
    check_quantize<F, Layout>(x.view, quantizer{}, shape);
    check_quantize<F, Layout>(transposed(y.view), quantizer{}, shape);
  }
}

template <block_format F>
void check_format() {
  INFO(F::name);
  constexpr int n = F::block_size;
  check_both_copies<F, linear>(blocks_1d{});
  check_both_copies<F, swizzled_128x4>(blocks_1d{});
  check_both_copies<F, linear>(blocks_2d<n, n>{});
  check_both_copies<F, swizzled_128x4>(blocks_2d<n, n>{});
}

/// The smallest matrices: one row, one block, one tile with one row.
template <block_format F>
void check_small() {
  INFO(F::name);
  constexpr int n = F::block_size;
  const source<float> x(1, n, 0, values::activations), y(n, 1, 0, values::activations);
  check_quantize<F, linear>(x.view);
  check_quantize<F, swizzled_128x4>(x.view, quantizer{}, blocks_2d<n, n>{});
  check_quantize<F, linear>(transposed(y.view));
  check_quantize<F, swizzled_128x4>(transposed(y.view), quantizer{}, blocks_2d<n, n>{});
}

/// Rows of few blocks, so that what is worked on at a time goes on from one row to the next: with and without
/// gaps between rows, and under an amax for each.
template <block_format F, real T, class Quantizer>
void check_narrow(Quantizer const& recipe) {
  INFO(F::name);
  std::vector<float> amaxes;
  for (int i = 0; i < 203; ++i) amaxes.push_back(0.5f + static_cast<float>(i));
  for (const i64 blocks : {1, 3, 5})
    for (const i64 gap : {0, 1}) {
      const i64 cols = blocks * F::block_size;
      const source<T> x(203, cols, gap, values::activations), y(cols, 203, gap, values::ugly);
      check_quantize<F, linear>(x.view, recipe);
      check_quantize<F, swizzled_128x4>(x.view, recipe, blocks_1d{}, amax_of_rows(amaxes.data()));
      check_quantize<F, swizzled_128x4>(transposed(y.view), recipe);
      check_quantize<F, linear>(transposed(y.view), recipe, blocks_1d{}, amax_of_rows(amaxes.data()));
    }
}

/// A rounding of a user with a fast form, and a source of bits without one.
struct toward_zero {
  template <element_format F>
  packed<F, 4> operator()(F, float const (&x)[4], position) const {
    packed<F, 4> codes;
    for (int i = 0; i < 4; ++i) codes.set(i, x[i] < 0.0f ? encode_up<F>(x[i]) : encode_down<F>(x[i]));
    return codes;
  }
  template <element_format F>
  u32 encode_lane(F, float x) const {
    return lanes::encode_stochastic<F>(x, 0);
  }
};
struct own_bits {
  u32 operator()(position where) const {
    return static_cast<u32>(mix(static_cast<u64>(where.row * 4099 + where.col)));
  }
};

}  // namespace

TEST_CASE("host::quantize: rows of few blocks", "[host][quantize]") {
  check_narrow<nvfp4, bf16>(quantizer{});
  check_narrow<nvfp4, float>(quantizer{stochastic{philox{1, 2}}, two_level_stochastic{philox{3, 4}}});
  check_narrow<nvfp4, bf16>(quantizer{stochastic{own_bits{}}, two_level{}, hadamard<16>{te_signs}});
  check_narrow<nvfp4, fp16>(quantizer{nearest_even{}, four_over_six<>{}});
  check_narrow<mxfp6_e2m3, bf16>(quantizer{toward_zero{}});
  check_narrow<fp8_block_e4m3, bf16>(quantizer{});
}

TEST_CASE("host::quantize: nvfp4 and nvint4, every byte", "[host][quantize]") {
  check_format<nvfp4>();
  check_format<nvint4>();
}
TEST_CASE("host::quantize: mxfp4, every byte", "[host][quantize]") { check_format<mxfp4>(); }
TEST_CASE("host::quantize: mxfp6, every byte", "[host][quantize]") {
  check_format<mxfp6_e2m3>();
  check_format<mxfp6_e3m2>();
}
TEST_CASE("host::quantize: mxfp8, every byte", "[host][quantize]") {
  check_format<mxfp8_e4m3>();
  check_format<mxfp8_e5m2>();
}
TEST_CASE("host::quantize: FP8 blocks of 128, every byte", "[host][quantize]") {
  check_format<fp8_block_e4m3>();
  check_format<fp8_block_e5m2>();
}
TEST_CASE("host::quantize: FP8 per tensor, every byte", "[host][quantize]") {
  check_format<fp8_e4m3>();
  check_format<fp8_e5m2>();
}
TEST_CASE("host::quantize: one row, one block", "[host][quantize]") {
  check_small<nvfp4>();
  check_small<mxfp6>();
  check_small<fp8_block_e4m3>();
}

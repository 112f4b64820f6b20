// SPDX-License-Identifier: Apache-2.0
// host::quantize equals one block after the other in every byte: formats, layouts, 1-D and 2-D, both copies.
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

}  // namespace

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

// SPDX-License-Identifier: Apache-2.0
// The kernels that roofline.py disassembles: each is called as bench/device does, and never run from here.
// ROWS_ALONE leaves out those by tiles, which take most of the time to compile; NEAREST_ALONE leaves
// out all but one.
#include <fourscale/fourscale.cuh>

namespace f4 = fourscale;

namespace {

using input = f4::matrix_view<f4::bf16 const>;
template <class F, class Layout = f4::linear>
using output = f4::block_scaled_view<F, Layout>;
using nvfp4 = output<f4::nvfp4>;

// roofline.py counts per element of a thread.
using f4::cta::blocks_on_the_way;
static_assert(16 * blocks_on_the_way<16, f4::bf16> == 64 && 32 * blocks_on_the_way<32, f4::bf16> == 64,
              "A thread of the rowwise kernels takes another number of elements: tell ROWS in roofline.py.");
using f4::cta::tile_rows, f4::cta::tile_threads;
static_assert(tile_rows * 64 / tile_threads<64> == 64 && tile_rows * 128 / tile_threads<128> == 64,
              "A thread of the tile kernels takes another number of elements: tell ROWS in roofline.py.");

constexpr f4::hadamard<16> rht{f4::te_signs};
constexpr f4::quantizer nearest{};
[[maybe_unused]] constexpr f4::quantizer four_over_six{f4::nearest_even{}, f4::four_over_six{}};
[[maybe_unused]] constexpr f4::quantizer rht_nearest{f4::nearest_even{}, f4::two_level{}, rht};

[[maybe_unused]] auto random(f4::u64 seed) { return f4::quantizer{f4::stochastic{f4::philox{seed, 1}}}; }
[[maybe_unused]] auto rht_random(f4::u64 seed) {
  return f4::quantizer{f4::stochastic{f4::philox{seed, 2}}, f4::two_level{}, rht};
}

}  // namespace

using f4::errc;

errc rowwise_nearest(input x, nvfp4 q) { return f4::device::quantize(x, q, nearest); }

#ifndef NEAREST_ALONE
errc amax(input x, float* out) { return f4::device::amax(x, out); }

void rowwise(input x, nvfp4 q, f4::u64 seed) {
  (void)f4::device::quantize(x, q, four_over_six);
  (void)f4::device::quantize(x, q, random(seed));
}

errc rowwise_swizzled(input x, output<f4::nvfp4, f4::swizzled_128x4> q) {
  return f4::device::quantize(x, q, nearest);
}

void other_formats(input x, output<f4::mxfp4> a, output<f4::mxfp8> b, output<f4::fp8_e4m3> c) {
  (void)f4::device::quantize(x, a);
  (void)f4::device::quantize(x, b);
  (void)f4::device::quantize(x, c);
}

#ifndef ROWS_ALONE
void columnwise(input x, nvfp4 q, f4::u64 seed) {
  (void)f4::device::quantize(f4::transposed(x), q, nearest);
  (void)f4::device::quantize(f4::transposed(x), q, rht_nearest);
  (void)f4::device::quantize(f4::transposed(x), q, rht_random(seed));
}

void both(input x, nvfp4 q, nvfp4 qt, f4::u64 seed) {
  (void)f4::device::quantize_both(x, q, qt, nearest, nearest);
  (void)f4::device::quantize_both(x, q, qt, random(seed), random(seed + 1));
  (void)f4::device::quantize_both(x, q, qt, nearest, rht_nearest);
  (void)f4::device::quantize_both(x, q, qt, nearest, nearest, f4::blocks_2d<16, 16>{});
}
#endif

errc dequantize(nvfp4 q, f4::matrix_view<f4::bf16> y) { return f4::device::dequantize(q, y); }
#endif

// SPDX-License-Identifier: Apache-2.0
// Kernels as a program would build them at run time: a block by the functions that a CPU runs as well, by the
// fast forms of cta/, and whole matrices by the loop of cta/. Rounded by the instruction where there is one:
//
// sm_100a: cvt.rn.satfinite.e2m1x2.f32
// sm_100a: cvt.rs.satfinite.e2m1x4.f32
// sm_90a: !cvt.rn.satfinite.e2m1x2.f32
// sm_90a: cvt.rn.satfinite.e4m3x2.f32
// sm_80: !cvt.rn.satfinite.e4m3x2.f32
#include <fourscale/fourscale.cuh>

namespace f4 = fourscale;
using f4::bf16, f4::i64, f4::nvfp4, f4::u64, f4::u8;
using block = f4::packed_block<nvfp4>;
using f4::cta::threads;

/// Block i of a vector by the functions that a CPU runs as well.
template <class F, class Quantizer>
__device__ void quantize_one(float const* x, f4::packed_block<F>* out, float amax, Quantizer const& q) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float values[F::block_size];
  for (int k = 0; k < F::block_size; ++k) values[k] = x[F::block_size * i + k];
  out[i] = f4::quantize_block<F>(values, q, f4::tensor_scale<F>(amax), {0, i64{F::block_size} * i});
}

extern "C" __global__ void nearest(float const* x, block* out, float amax) {
  quantize_one(x, out, amax, f4::quantizer{});
}
extern "C" __global__ void stochastic(float const* x, block* out, float amax, u64 seed) {
  quantize_one(x, out, amax, f4::quantizer{f4::stochastic{f4::philox{seed, 0}}});
}
extern "C" __global__ void four_over_six(float const* x, block* out, float amax) {
  quantize_one(x, out, amax, f4::quantizer{f4::nearest_even{}, f4::four_over_six<>{}});
}
extern "C" __global__ void hadamard(float const* x, block* out, float amax) {
  quantize_one(x, out, amax,
               f4::quantizer{f4::nearest_even{}, f4::two_level{}, f4::hadamard<16>{f4::te_signs}});
}
extern "C" __global__ void mxfp8(float const* x, f4::packed_block<f4::mxfp8_e4m3>* out) {
  quantize_one(x, out, 0.0f, f4::quantizer{});
}
extern "C" __global__ void dequantize(block const* q, float* y, float amax) {
  float values[16];
  f4::dequantize_block(q[threadIdx.x], values, f4::tensor_scale<nvfp4>(amax));
  for (int k = 0; k < 16; ++k) y[16 * threadIdx.x + k] = values[k];
}

/// The same bits by the fast forms.
extern "C" __global__ void block_by_thread(bf16 const* x, block* out, float amax) {
  using values = f4::cta::values<bf16, 16>;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  out[i] = f4::cta::quantize_block<nvfp4>(values::load(x + 16 * i), f4::quantizer{},
                                          f4::tensor_scale<nvfp4>(amax));
}

/// A whole matrix. A host compiler knows no walks, so the kernel makes its own: `blocks` = cols / 16.
template <class Walk, class Sink, class Quantizer>
__device__ void quantize_all(Walk const& walk, bf16 const* x, i64 rows, i64 cols, Sink const& sink,
                             float const* amax, Quantizer const& q) {
  using source = f4::cta::matrix_producer<bf16, 16, f4::cta::access::vectors>;
  __shared__ typename Sink::memory memory;
  f4::cta::quantize<nvfp4, false>(walk.begin(), source{x, rows, cols, cols}, sink, memory,
                                  f4::tensor_amax<nvfp4>(f4::amax_in(amax)), f4::cta::prepared(q));
}

extern "C" __global__ void __launch_bounds__(threads)
    linear_scales(bf16 const* x, u8* codes, u8* scales, i64 rows, i64 cols, float const* amax) {
  using walk = f4::cta::row_walk<4, false>;
  quantize_all(walk::over(f4::linear{}, rows, cols / 16), x, rows, cols,
               f4::cta::linear_sink<nvfp4>{codes, scales}, amax, f4::quantizer{});
}
extern "C" __global__ void __launch_bounds__(threads)
    weighed(bf16 const* x, u8* codes, u8* scales, i64 rows, i64 cols, float const* amax) {
  using walk = f4::cta::row_walk<4, false>;
  quantize_all(walk::over(f4::linear{}, rows, cols / 16), x, rows, cols,
               f4::cta::linear_sink<nvfp4>{codes, scales}, amax,
               f4::quantizer{f4::nearest_even{}, f4::four_over_six<>{}});
}
extern "C" __global__ void __launch_bounds__(threads)
    swizzled_scales(bf16 const* x, u8* codes, u8* scales, i64 rows, i64 cols, float const* amax, u64 seed) {
  using view = f4::block_scaled_view<nvfp4, f4::swizzled_128x4>;
  quantize_all(f4::cta::tile_walk<4>::over(rows, cols / 16), x, rows, cols,
               f4::cta::swizzled_sink<nvfp4, true>{view(codes, scales, rows, cols, f4::amax_in(amax))}, amax,
               f4::quantizer{f4::stochastic{f4::philox{seed, 0}}});
}

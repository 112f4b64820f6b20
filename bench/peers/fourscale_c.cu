// SPDX-License-Identifier: Apache-2.0
// What Python calls: fourscale's functions on bf16 matrices behind a C interface, the plain kernel, and the
// ceiling, a kernel with the same reads and writes and no arithmetic. Each returns an errc or cudaError_t, 0
// for success.
#include <fourscale/fourscale.cuh>

#include "plain_cuda_fp4.cuh"

namespace f4 = fourscale;
using f4::i64;
using f4::u8;

namespace {

/// The rows of recipes in fourscale_lib.py, in its order.
enum recipe {
  rowwise_linear,
  rowwise,
  rowwise_stochastic,
  rowwise_four_over_six,
  columnwise,
  columnwise_hadamard,
  rowwise_16x16,
  rowwise_division
};

using input = f4::matrix_view<f4::bf16 const>;
using swizzled = f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4>;
constexpr f4::quantizer nearest{};
constexpr f4::quantizer stochastic{f4::stochastic{f4::philox{1234, 1}}};
constexpr f4::quantizer four_over_six{f4::nearest_even{}, f4::four_over_six<f4::error_norm::mean_square>{}};
constexpr f4::quantizer division{f4::nearest_even{}, f4::two_level_division{}};
constexpr f4::hadamard<16> transform{f4::te_signs};
constexpr f4::quantizer with_transform{f4::nearest_even{}, f4::two_level{}, transform};

/// Calls run(x, q, quantizer, shape) with what a recipe means; the amax is where the codes are.
template <class Run>
int with(int which, input const& x, float const* amax, u8* codes, u8* scales, Run const& run) {
  const f4::block_scaled_view<f4::nvfp4> linear{codes, scales, x.rows, x.cols};
  const swizzled q{codes, scales, x.rows, x.cols}, qt{codes, scales, x.cols, x.rows};
  const auto call = [&](auto const& m, auto view, auto const& recipe, auto shape) {
    view.amax = {f4::amax_in(amax), recipe};
    return static_cast<int>(run(m, view, recipe, shape));
  };
  switch (which) {
    case rowwise_linear:
      return call(x, linear, nearest, f4::blocks_1d{});
    case rowwise:
      return call(x, q, nearest, f4::blocks_1d{});
    case rowwise_stochastic:
      return call(x, q, stochastic, f4::blocks_1d{});
    case rowwise_four_over_six:
      return call(x, q, four_over_six, f4::blocks_1d{});
    case columnwise:
      return call(f4::transposed(x), qt, nearest, f4::blocks_1d{});
    case columnwise_hadamard:
      return call(f4::transposed(x), qt, with_transform, f4::blocks_1d{});
    case rowwise_16x16:
      return call(x, q, nearest, f4::blocks_2d<16, 16>{});
    case rowwise_division:
      return call(x, q, division, f4::blocks_1d{});
    default:
      return cudaErrorInvalidValue;
  }
}

input matrix(void const* x, i64 rows, i64 cols) { return {static_cast<f4::bf16 const*>(x), rows, cols}; }

/// What sixteen bf16 are after a round trip through NVFP4, in the registers of a thread.
__global__ void __launch_bounds__(256)
    round_trip_kernel(uint4 const* x, uint4* y, i64 blocks, float const* amax) {
  union {
    uint4 vectors[2];
    f4::u16 bits[16];
  } v;
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= blocks) return;
  v.vectors[0] = x[2 * i], v.vectors[1] = x[2 * i + 1];
  const f4::tensor_scale<f4::nvfp4> scale(*amax);
  float values[16];
  for (int k = 0; k < 16; ++k) values[k] = f4::to_float(f4::bf16{v.bits[k]});
  f4::dequantize_block(f4::quantize_block<f4::nvfp4>(values, f4::quantizer{}, scale), values, scale);
  for (int k = 0; k < 16; ++k) v.bits[k] = f4::from_float<f4::bf16>(values[k]).bits;
  y[2 * i] = v.vectors[0], y[2 * i + 1] = v.vectors[1];
}

/// Reads 32 bytes, writes `Codes` and `Scales` bytes.
template <int Codes, int Scales>
__global__ void __launch_bounds__(256) ceiling_kernel(uint4 const* x, i64 blocks, u8* codes, u8* scales) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= blocks) return;
  const uint4 a = x[2 * i], b = x[2 * i + 1];
  if constexpr (Codes == 32) {
    reinterpret_cast<uint4*>(codes)[2 * i] = a;
    reinterpret_cast<uint4*>(codes)[2 * i + 1] = b;
  } else if constexpr (Codes == 16) {
    reinterpret_cast<uint4*>(codes)[i] = {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w};
  } else if constexpr (Codes == 8) {
    reinterpret_cast<uint2*>(codes)[i] = {a.x ^ a.y ^ a.z ^ a.w, b.x ^ b.y ^ b.z ^ b.w};
  } else if ((a.x | a.y | a.z | a.w | b.x | b.y | b.z | b.w) == 0x1234'5678u) {
    codes[i] = 1;  // never, but the compiler cannot know
  }
  if constexpr (Scales == 1) scales[i] = static_cast<u8>(a.x);
  if constexpr (Scales == 2) reinterpret_cast<f4::u16*>(scales)[i] = static_cast<f4::u16>(a.x);
}

unsigned ctas(i64 threads) { return static_cast<unsigned>((threads + 255) / 256); }

}  // namespace

extern "C" {

int f4_amax(void const* x, i64 rows, i64 cols, float* amax, cudaStream_t stream) {
  return static_cast<int>(f4::device::amax(matrix(x, rows, cols), amax, stream));
}

/// Of the transposed and transformed matrix.
int f4_amax_hadamard(void const* x, i64 rows, i64 cols, float* amax, cudaStream_t stream) {
  const input m = matrix(x, rows, cols);
  return static_cast<int>(f4::device::amax<f4::nvfp4>(f4::transposed(m), transform, amax, stream));
}

int f4_quantize(int which, void const* x, i64 rows, i64 cols, float const* amax, u8* codes, u8* scales,
                cudaStream_t stream) {
  return with(which, matrix(x, rows, cols), amax, codes, scales,
              [&](auto const& m, auto const& q, auto const& recipe, auto shape) {
                return f4::device::quantize(m, q, recipe, shape, stream);
              });
}

/// The same on the CPU: all pointers are host memory.
int f4_quantize_on_host(int which, void const* x, i64 rows, i64 cols, float const* amax, u8* codes,
                        u8* scales) {
  return with(which, matrix(x, rows, cols), amax, codes, scales,
              [&](auto const& m, auto const& q, auto const& recipe, auto shape) {
                return f4::host::quantize(m, q, recipe, shape);
              });
}

int f4_quantize_both(void const* x, i64 rows, i64 cols, float const* amax, u8* codes, u8* scales, u8* codes_t,
                     u8* scales_t, cudaStream_t stream) {
  const swizzled q{codes, scales, rows, cols, f4::amax_in(amax)};
  const swizzled qt{codes_t, scales_t, cols, rows, f4::amax_in(amax)};
  return static_cast<int>(
      f4::device::quantize_both(matrix(x, rows, cols), q, qt, nearest, nearest, f4::blocks_1d{}, stream));
}

int f4_dequantize(void const* codes, void const* scales, i64 rows, i64 cols, float const* amax, void* y,
                  cudaStream_t stream) {
  const f4::block_scaled_view<f4::nvfp4, f4::linear, u8 const> q{
      static_cast<u8 const*>(codes), static_cast<u8 const*>(scales), rows, cols, f4::amax_in(amax)};
  const f4::matrix_view<f4::bf16> values{static_cast<f4::bf16*>(y), rows, cols};
  return static_cast<int>(f4::device::dequantize(q, values, stream));
}

int f4_round_trip(void const* x, i64 rows, i64 cols, float const* amax, void* y, cudaStream_t stream) {
  const i64 blocks = rows * cols / 16;
  round_trip_kernel<<<ctas(blocks), 256, 0, stream>>>(static_cast<uint4 const*>(x), static_cast<uint4*>(y),
                                                      blocks, amax);
  return cudaGetLastError();
}

int f4_hadamard(int size, void const* x, i64 rows, i64 cols, void* y, cudaStream_t stream) {
  const f4::matrix_view<f4::bf16> out{static_cast<f4::bf16*>(y), rows, cols};
  const input m = matrix(x, rows, cols);
  return static_cast<int>(size == 16 ? f4::device::transform<16>(m, out, f4::hadamard<16>{}, stream)
                                     : f4::device::transform<128>(m, out, f4::hadamard<128>{}, stream));
}

int f4_hadamard_on_host(int size, void const* x, i64 rows, i64 cols, void* y) {
  const f4::matrix_view<f4::bf16> out{static_cast<f4::bf16*>(y), rows, cols};
  const f4::errc e = size == 16 ? f4::host::transform<16>(matrix(x, rows, cols), out, f4::hadamard<16>{})
                                : f4::host::transform<128>(matrix(x, rows, cols), out, f4::hadamard<128>{});
  return static_cast<int>(e);
}

int plain_amax(void const* x, i64 rows, i64 cols, float* amax, cudaStream_t stream) {
  return plain::amax(x, rows * cols, amax, stream);
}

int plain_quantize(void const* x, i64 rows, i64 cols, float const* amax, void* codes, void* scales,
                   cudaStream_t stream) {
  return plain::quantize(x, rows * cols, amax, codes, scales, stream);
}

/// For 16 values: `codes` is 0, 8, 16 or 32 bytes, and scales are 0, 1, 2 or 0.
int ceiling(int codes_bytes, void const* x, i64 rows, i64 cols, u8* codes, u8* scales, cudaStream_t stream) {
  const i64 blocks = rows * cols / 16;
  const auto kernel = codes_bytes == 0    ? ceiling_kernel<0, 0>
                      : codes_bytes == 8  ? ceiling_kernel<8, 1>
                      : codes_bytes == 16 ? ceiling_kernel<16, 2>
                                          : ceiling_kernel<32, 0>;
  kernel<<<ctas(blocks), 256, 0, stream>>>(static_cast<uint4 const*>(x), blocks, codes, scales);
  return cudaGetLastError();
}
}

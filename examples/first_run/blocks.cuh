// SPDX-License-Identifier: Apache-2.0
// Probes of blocks and matrices: the golden vectors of NVFP4, computed from Transformer Engine's formulas,
// and the kernels of device/quantize.cuh compared with the host on ordinary values.
#pragma once

#include <fourscale/device/buffer.cuh>
#include <fourscale/host/buffer.hpp>

#include "harness.cuh"

namespace first_run {

/// The expected block of a golden vector, and the bits of the amax of its tensor.
struct golden {
  u32 amax, scale;
  u64 codes;  ///< element 0 in the lowest nibble
};
inline constexpr int golden_count = 11;

FOURSCALE_HD inline golden golden_vector(int i) {
  constexpr golden all[golden_count] = {
      {0x4000'0000, 0x7e, 0x7665'4320'abcd'eeff}, {0x4060'0000, 0x78, 0x7665'4320'abcd'eeff},
      {0x447a'0000, 0x36, 0x7665'4320'abcd'eeff}, {0x3f80'0000, 0x7e, 0x8080'8080'8081'a3d7},
      {0x0000'0000, 0x00, 0x0000'0000'0000'8000}, {0x3f80'0000, 0x00, 0x0000'0000'0000'8000},
      {0x4100'0000, 0x00, 0xf7f7'f7f7'f7f7'f7f7}, {0x7f80'0000, 0x00, 0xf7f7'f7f7'f7f7'f7f7},
      {0x0017'0000, 0x1f, 0x1111'1111'1111'1110}, {0x7f80'0000, 0x7e, 0x0000'0000'0070'0000},
      {0x3f80'0000, 0x7e, 0x7777'7777'7777'7777}};
  return all[i];
}
/// Element k of vector i. 0 to 2: a ramp. 3: falling, with alternating signs. 4 and 5: zeros, one of them -0.
/// 6 and 7: tiny values. 8: subnormals. 9: ones with an infinity. 10: ones with a NaN.
FOURSCALE_HD inline float golden_input(int i, int k) {
  const float t = static_cast<float>(k), sign = k % 2 ? -1.0f : 1.0f;
  if (i < 3) return (t - 8.0f) / 4.0f;
  if (i == 3) return sign * (1.0f + t / 16.0f) / static_cast<float>(1 << k);
  if (i < 6) return k == 3 ? -0.0f : 0.0f;
  if (i < 8) return sign * 0x1p-20f;
  if (i == 8) return as_float(static_cast<u32>(8 + k) << 16);  // 2^-130 (1 + k / 8)
  return k != 5 ? 1.0f : as_float(i == 9 ? 0x7f80'0000u : 0x7fc0'0000u);
}

/// The probe of golden vectors: input 2 i asks for the scale of vector i, input 2 i + 1 for its codes.
struct golden_blocks {
  FOURSCALE_HD static constexpr bool possible() { return true; }
  static FOURSCALE_D outcome ask(u64 i) {
    const int which = static_cast<int>(i / 2);
    const golden g = golden_vector(which);
    float x[16];
    for (int k = 0; k < 16; ++k) x[k] = golden_input(which, k);
    const auto block =
        f4::quantize_block<f4::nvfp4>(x, f4::quantizer{}, f4::tensor_scale<f4::nvfp4>(as_float(g.amax)));
    if (i % 2 == 0) return {i, g.scale, block.scale.bits};
    u64 codes = 0;
    for (int k = 0; k < 8; ++k) codes |= u64{block.codes[k]} << (8 * k);
    return {i, g.codes, codes};
  }
};

/// Compares device::quantize with host::quantize, byte by byte.
template <class F, class Quantizer>
void run_matrix(char const* what, Quantizer const& quantizer) {
  constexpr i64 rows = 384, cols = 2048;
  shared_array<f4::bf16> x(rows * cols);
  for (i64 i = 0; i < x.count; ++i) {
    const u32 r = random_word(static_cast<u64>(i), 5);
    x[i] = {static_cast<u16>((r & 0x807fu) | (108 + (r >> 16) % 22) << 7)};
  }
  shared_array<float> largest(1);
  largest[0] = as_float((129u << 23) | (0x7fu << 16));  // no value is larger
  const f4::tensor_amax<F> amax{f4::amax_in(largest.data), quantizer};
  f4::host_buffer<F, f4::swizzled_128x4> want(rows, cols, amax), got(rows, cols, amax);
  f4::device_buffer<F, f4::swizzled_128x4> q(rows, cols, amax);
  require(q.status());
  const f4::matrix_view<f4::bf16 const> input{x.data, rows, cols};
  require(f4::host::quantize(input, want.view(), quantizer));
  require(f4::device::quantize(input, q.view(), quantizer));
  require(f4::device::copy(q.view(), got.view()));
  require(cudaDeviceSynchronize());
  u64 different = 0;
  for (size_t i = 0; i < got.codes.size(); ++i) different += got.codes[i] != want.codes[i];
  for (size_t i = 0; i < got.scales.size(); ++i) different += got.scales[i] != want.scales[i];
  print_verdict(what, static_cast<u64>(got.bytes()), different);
  std::printf("\n");
}

}  // namespace first_run

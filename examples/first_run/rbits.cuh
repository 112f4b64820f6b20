// SPDX-License-Identifier: Apache-2.0
// Finds which bits of the random word an element of cvt.rs sees, and with which weight. One bit of the word
// is set at a time. A value that lies 1 - 2^-k of a step above a code then goes up if and only if this bit
// weighs at least 2^-k of a step.
#pragma once

#include "conversions.cuh"

namespace first_run {

inline constexpr int no_weight = -1;  ///< of a bit that the element does not see

/// encode_stochastic<F>() of four values. By its definition, an element sees 16 bits.
template <class F>
struct rbits_of {
  static constexpr int elements = 4, bits = 16, mantissa = F::mantissa_bits;
  FOURSCALE_HD static constexpr bool possible() { return true; }
  static FOURSCALE_D bool goes_up(float x, int element, u32 word) {
    float values[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    values[element] = x;
    return f4::encode_stochastic<F>(values, word).get(element).bits != portable::encode<F>(1.0f).bits;
  }
  static u32 definition(u32 word, int element) { return f4::dither_bits<F>(word, element); }
};
struct rbits_of_bf16 {
  static constexpr int elements = 2, bits = 16, mantissa = 7;
  FOURSCALE_HD static constexpr bool possible() { return true; }
  static FOURSCALE_D bool goes_up(float x, int element, u32 word) {
    f4::bf16 y[2];
    f4::encode_stochastic(element == 0 ? x : 1.0f, element == 1 ? x : 1.0f, word, y);
    return y[element].bits != 0x3f80;
  }
  static u32 definition(u32 word, int element) { return element == 0 ? word & 0xffffu : word >> 16; }
};
/// cvt.rs.f16x2.f32 takes 13 bits an element. Nobody has documented or measured their order, so the
/// definition here is a guess: the low bits of each half, as for bf16.
template <class F>
struct rbits_of_f16 {
  static constexpr int elements = 2, bits = 13, mantissa = 10;
  FOURSCALE_HD static constexpr bool possible() { return f4::arch::has_cvt_rs; }
  static FOURSCALE_D bool goes_up(float x, int element, u32 word) {
    const u32 d = ptx::cvt_rs_f16x2_f32(element == 1 ? x : 1.0f, element == 0 ? x : 1.0f, word);
    return (d >> (16 * element) & 0xffffu) != 0x3c00u;
  }
  static u32 definition(u32 word, int element) { return (element == 0 ? word : word >> 16) & 0x1fffu; }
};

/// One CTA. Thread element * 32 + bit writes the weight that this bit of the word has for this element: w for
/// 2^w / 2^bits of a step, or no_weight.
template <class Form>
__global__ void rbits_kernel(int* weights) {
  if constexpr (Form::possible()) {
    const int element = static_cast<int>(threadIdx.x) / 32, bit = static_cast<int>(threadIdx.x) % 32;
    const float step = as_float(static_cast<u32>(127 - Form::mantissa) << 23);
    int weight = no_weight;
    for (int w = 0; w < Form::bits; ++w) {
      const float unit = as_float(static_cast<u32>(127 - Form::bits + w) << 23);
      if (Form::goes_up(1.0f + step * (1.0f - unit), element, 1u << bit)) weight = w;
    }
    weights[threadIdx.x] = weight;
  }
}

/// Prints which bits each element sees, the heaviest first, and whether they are those of the definition.
template <class Form>
void run_rbits(char const* what, bool can, char const* needs) {
  if (!can) return print_not_possible(what, needs);
  shared_array<int> weights(Form::elements * 32);
  rbits_kernel<Form><<<1, Form::elements * 32>>>(weights.data);
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  u64 different = 0;
  for (int i = 0; i < Form::elements * 32; ++i) {
    const u32 own = Form::definition(1u << (i % 32), i / 32);
    int weight = no_weight;
    for (int w = 0; w < Form::bits; ++w)
      if (own >> w & 1u) weight = w;
    different += weight != weights[i];
  }
  print_verdict(what, static_cast<u64>(Form::elements) * 32, different);
  std::printf("\n");
  for (int element = 0; element < Form::elements; ++element) {
    std::printf("            element %d:", element);
    for (int w = Form::bits - 1; w >= 0; --w)
      for (int bit = 0; bit < 32; ++bit)
        if (weights[element * 32 + bit] == w) std::printf(" %d", bit);
    std::printf("\n");
  }
}

}  // namespace first_run

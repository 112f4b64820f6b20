// SPDX-License-Identifier: Apache-2.0
// One block as a value: where its codes lie, what quantize_block and dequantize_block make of it, and that a
// policy of one's own fits in.
#include <fourscale/block/quantize.hpp>
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/transform/hadamard.hpp>
#include <type_traits>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

// A golden block as a fact of the compiler: the ramp (i - 8) / 4 under tensor amax 3.5.
constexpr packed_block<nvfp4> golden_block() {
  float x[16]{};
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i - 8) / 4.0f;
  return quantize_block<nvfp4>(x, quantizer{}, tensor_scale<nvfp4>(3.5f));
}
static_assert(golden_block() ==
              packed_block<nvfp4>{{0x78}, {0xff, 0xee, 0xcd, 0xab, 0x20, 0x43, 0x65, 0x76}});
constexpr float golden_value(int i) {
  float y[16]{};
  dequantize_block(golden_block(), y, tensor_scale<nvfp4>(3.5f));
  return y[i];
}
static_assert(golden_value(8) == 0.0f && golden_value(0) == -2.0f && golden_value(12) == 1.0f);

// Kernels take them by value.
template <class T>
constexpr bool fits_a_kernel = std::is_trivially_copyable_v<T>&& std::is_standard_layout_v<T>;
static_assert(fits_a_kernel<nearest_even> && fits_a_kernel<stochastic<>> && fits_a_kernel<philox<7>>);
static_assert(fits_a_kernel<stochastic_te_software<>> && fits_a_kernel<amax_scale>);
static_assert(fits_a_kernel<two_level> && fits_a_kernel<two_level_division> &&
              fits_a_kernel<two_level_headroom>);
static_assert(fits_a_kernel<power_of_two_up> && fits_a_kernel<power_of_two_floor> &&
              fits_a_kernel<four_over_six<>>);
static_assert(fits_a_kernel<fp8_block_scale> && fits_a_kernel<identity> && fits_a_kernel<hadamard<16>>);
static_assert(fits_a_kernel<tensor_scale<nvfp4>> && fits_a_kernel<tensor_scale<mxfp4>>);
static_assert(fits_a_kernel<quantizer<stochastic<>, four_over_six<>, hadamard<16>>>);
static_assert(fits_a_kernel<packed_block<nvfp4>> && fits_a_kernel<packed_block<mxfp6>>);

static_assert(sizeof(packed_block<nvfp4>) == 9 && sizeof(packed_block<mxfp4>) == 17);
static_assert(sizeof(packed_block<mxfp6>) == 25 && sizeof(packed_block<mxfp8>) == 33);
static_assert(block_code_bytes<mxfp6_e3m2> == 24 && block_code_bytes<fp8_block_e4m3> == 128);

// Policies of a user's own, one for each slot.
struct always_zero {
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 4> operator()(F, float const (&)[4], position) const {
    return {};
  }
};
struct scale_of_two {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float, tensor_scale<F> const&) const {
    return {encode<typename F::scale>(2.0f), 0.5f};
  }
};
struct reversed {
  template <int N>
  FOURSCALE_HD constexpr void operator()(float (&x)[N]) const {
    for (int i = 0; i < N / 2; ++i) {
      const float t = x[i];
      x[i] = x[N - 1 - i];
      x[N - 1 - i] = t;
    }
  }
};
static_assert(quantizer_for<quantizer<always_zero, scale_of_two, reversed>, nvfp4>);
static_assert(!quantizer_for<quantizer<int, scale_of_two, reversed>, nvfp4>);
static_assert(!quantizer_for<quantizer<nearest_even, identity>, nvfp4>);

/// Every code at every position, over neighbours of all zeros and of all ones.
template <block_format F>
struct set_changes_one_element {
  FOURSCALE_HD bool operator()(u64 i) const {
    using element = typename F::element;
    constexpr u64 codes = u64{1} << element::width;
    const int at = static_cast<int>(i / codes / 2);
    const u8 fill = i / codes % 2 ? 0xff : 0x00;
    const element value{static_cast<u8>(i % codes)};
    packed_block<F> b{{}, {}};
    for (u8& byte : b.codes) byte = fill;
    b.set(at, value);
    const u32 others = fill & ((1u << element::width) - 1);
    for (int k = 0; k < F::block_size; ++k)
      if (b.get(k).bits != (k == at ? u32{value.bits} : others)) return false;
    // Bit n of element k is bit k * width + n of the bytes, counted from the lowest.
    for (int n = 0; n < element::width; ++n) {
      const int bit = at * element::width + n;
      if ((b.codes[bit / 8] >> (bit % 8) & 1) != (value.bits >> n & 1)) return false;
    }
    return true;
  }
};

/// quantize_block by its own words: amax, scale, one product each, nearest code.
template <block_format F>
struct quantizes_by_definition {
  FOURSCALE_HD bool operator()(u64 i) const {
    using element = typename F::element;
    const tensor_scale<F> tensor(10.0f);
    float x[F::block_size], y[F::block_size], amax = 0;
    for (u64 k = 0; k < F::block_size; ++k) {
      x[k] = i % 2 ? test::ugly(i * F::block_size + k) : test::gaussian(i * F::block_size + k);
      const float magnitude = x[k] < 0 ? -x[k] : x[k];
      amax = magnitude > amax ? magnitude : amax;  // false for NaN
    }
    const packed_block<F> block = quantize_block<F>(x, quantizer{}, tensor);
    dequantize_block(block, y, tensor);
    const block_scale<F> s = amax_scale{}(F{}, amax, tensor);
    if (block.scale != s.scale) return false;
    const float factor = tensor.dequantize_factor(decode(s.scale));
    for (int k = 0; k < F::block_size; ++k) {
      const element code = portable::encode<element>(ptx::mul_rn_f32(x[k], s.multiplier));
      const float value = ptx::mul_rn_f32(decode(code), factor);
      if (block.get(k) != code) return false;
      if (bit_cast<u32>(y[k]) != bit_cast<u32>(value) && value == value) return false;
    }
    return true;
  }
};

/// Under powers of two, what has been quantized and dequantized quantizes to the same values again.
template <block_format F>
struct second_time_changes_nothing {
  FOURSCALE_HD bool operator()(u64 i) const {
    float x[F::block_size], y[F::block_size], z[F::block_size];
    for (u64 k = 0; k < F::block_size; ++k) x[k] = test::activation(i, i * F::block_size + k);
    dequantize_block(quantize_block<F>(x, quantizer{}), y);
    dequantize_block(quantize_block<F>(y, quantizer{}), z);
    for (int k = 0; k < F::block_size; ++k)
      if (bit_cast<u32>(y[k]) != bit_cast<u32>(z[k])) return false;
    return true;
  }
};

/// The random word of an element depends on where it is, and `index` counts blocks of a row.
struct position_reaches_the_rounding {
  FOURSCALE_HD bool operator()(u64 i) const {
    float x[16];
    for (u64 k = 0; k < 16; ++k) x[k] = test::gaussian(i * 16 + k);
    const quantizer q{stochastic{philox{7, 9}}};
    const i64 index = static_cast<i64>(i);
    const packed_block<nvfp4> a = quantize_block<nvfp4>(x, q, index);
    const packed_block<nvfp4> b = quantize_block<nvfp4>(x, q, tensor_scale<nvfp4>{}, {0, index * 16});
    for (int k = 0; k < 16; k += 4) {
      const block_scale<nvfp4> s = amax_scale{}(nvfp4{}, block_amax(x), tensor_scale<nvfp4>{});
      float four[4];
      for (int j = 0; j < 4; ++j) four[j] = ptx::mul_rn_f32(x[k + j], s.multiplier);
      const e2m1x4 codes = encode_stochastic<e2m1>(four, philox{7, 9}({0, index * 16 + k}));
      for (int j = 0; j < 4; ++j)
        if (a.get(k + j) != codes.get(j)) return false;
    }
    return a == b;
  }
};

template <block_format F>
void check_format() {
  INFO(F::name);
  check_everywhere((u64{1} << F::element::width) * 2 * F::block_size, set_changes_one_element<F>{});
  check_everywhere(2000, quantizes_by_definition<F>{});
  if constexpr (!F::has_tensor_scale || block_scale_bytes<F> == 0)
    check_everywhere(1000, second_time_changes_nothing<F>{});
}

}  // namespace

TEST_CASE("block: codes, quantize and dequantize of nvfp4 and nvint4", "[block][nvfp4]") {
  check_format<nvfp4>();
  check_format<nvint4>();
}
TEST_CASE("block: codes, quantize and dequantize of the MX formats", "[block][mx]") {
  check_format<mxfp4>();
  check_format<mxfp6_e2m3>();
  check_format<mxfp6_e3m2>();
  check_format<mxfp8_e4m3>();
  check_format<mxfp8_e5m2>();
}
TEST_CASE("block: codes, quantize and dequantize of FP8", "[block][fp8]") {
  check_format<fp8_block_e4m3>();
  check_format<fp8_block_e5m2>();
  check_format<fp8_e4m3>();
  check_format<fp8_e5m2>();
}

TEST_CASE("quantize_block: rounding sees the position of each element", "[block][stochastic]") {
  check_everywhere(1000, position_reaches_the_rounding{});
}

TEST_CASE("quantize_block: a policy of one's own fills a slot", "[block][policy]") {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
  const packed_block<nvfp4> zero = quantize_block<nvfp4>(x, quantizer{always_zero{}});
  for (const u8 byte : zero.codes) CHECK(byte == 0);
  const packed_block<nvfp4> two = quantize_block<nvfp4>(x, quantizer{nearest_even{}, scale_of_two{}});
  CHECK(decode(two.scale) == 2.0f);
  CHECK(decode(two.get(4)) == 2.0f);
  CHECK(decode(two.get(15)) == 6.0f);
  const packed_block<nvfp4> back =
      quantize_block<nvfp4>(x, quantizer{nearest_even{}, scale_of_two{}, reversed{}});
  CHECK(decode(back.get(11)) == 2.0f);
  CHECK(decode(back.get(0)) == 6.0f);
  CHECK(x[4] == 4.0f);  // the caller's values stay
}

TEST_CASE("block_amax: drops NaN, keeps infinity, ignores signs", "[block][amax]") {
  const float quiet_nan = bit_cast<float>(0xffc0'0000u), infinity = bit_cast<float>(float_inf_bits);
  CHECK(block_amax<4>({1.0f, -3.0f, quiet_nan, 2.0f}) == 3.0f);
  CHECK(block_amax<2>({quiet_nan, quiet_nan}) == 0.0f);
  CHECK(block_amax<2>({-infinity, quiet_nan}) == infinity);
  CHECK(bit_cast<u32>(block_amax<2>({-0.0f, -0.0f})) == 0);
  CHECK(block_amax<2>({-0x1p-149f, 0.0f}) == 0x1p-149f);
}

TEST_CASE("less_magnitude: as <, also for subnormals and infinity; a NaN is neither less nor more",
          "[block][amax]") {
  const float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);
  const float ordered[] = {0.0f, 0x1p-149f, 0x1p-126f, 1.0f, float_max, infinity};
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) CHECK(less_magnitude(ordered[i], ordered[j]) == (i < j));
    CHECK_FALSE(less_magnitude(ordered[i], quiet_nan));
    CHECK_FALSE(less_magnitude(quiet_nan, ordered[i]));
  }
}

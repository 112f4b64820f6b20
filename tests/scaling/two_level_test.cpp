// SPDX-License-Identifier: Apache-2.0
// NVFP4's two levels of scales against vectors computed from the formulas of Transformer Engine >= 2.14 with
// CUDA's own conversions, and against a restatement in plain float arithmetic over every bf16 amax.
#include <fourscale/block/quantize.hpp>
#include <fourscale/rounding/philox.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

constexpr float inf = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);
constexpr float bf16_max = bit_cast<float>(0x7f7f'0000u);

struct golden {
  u32 amax, encode, decode;
  u32 scale, multiplier;
  u64 codes;  ///< element 0 in the lowest nibble
  float x[16];
};

template <class Value>
constexpr golden vector_of(golden g, Value value) {
  for (int i = 0; i < 16; ++i) g.x[i] = value(i);
  return g;
}

constexpr float ramp(int i) { return static_cast<float>(i - 8) / 4.0f; }
constexpr float falling(int i) {
  const float magnitude = (1.0f + static_cast<float>(i) / 16.0f) / static_cast<float>(1 << i);
  return i % 2 ? -magnitude : magnitude;
}
constexpr float one_minus_zero(int i) { return i == 3 ? -0.0f : 0.0f; }
constexpr float tiny(int i) { return i % 2 ? -0x1p-20f : 0x1p-20f; }
constexpr float subnormal(int i) { return 0x1p-130f * (1.0f + static_cast<float>(i) / 8.0f); }
constexpr float ones_and_inf(int i) { return i == 5 ? inf : 1.0f; }
constexpr float ones_and_nan(int i) { return i == 5 ? quiet_nan : 1.0f; }
/// bf16_max * (i - 7) / 8, where all but three products overflow.
constexpr float steep(int i) {
  return i < 6 ? -inf : i > 8 ? inf : bf16_max * (static_cast<float>(i - 7) / 8.0f);
}

constexpr golden vectors[] = {
    vector_of({0x40000000, 0x44a80000, 0x3a430c31, 0x7e, 0x40400000, 0x76654320abcdeeff, {}}, ramp),
    vector_of({0x40600000, 0x44400000, 0x3aaaaaab, 0x78, 0x40400000, 0x76654320abcdeeff, {}}, ramp),
    vector_of({0x447a0000, 0x402c0831, 0x3ebe79e8, 0x36, 0x40449ba5, 0x76654320abcdeeff, {}}, ramp),
    vector_of({0x3f800000, 0x45280000, 0x39c30c31, 0x7e, 0x40c00000, 0x808080808081a3d7, {}}, falling),
    vector_of({0x00000000, 0x3f800000, 0x3f800000, 0x00, 0x7f7fffff, 0x0000000000008000, {}}, one_minus_zero),
    vector_of({0x3f800000, 0x45280000, 0x39c30c31, 0x00, 0x7f7fffff, 0x0000000000008000, {}}, one_minus_zero),
    vector_of({0x41000000, 0x43a80000, 0x3b430c31, 0x00, 0x7f7fffff, 0xf7f7f7f7f7f7f7f7, {}}, tiny),
    vector_of({0x7f800000, 0x3f800000, 0x3f800000, 0x00, 0x7f7fffff, 0xf7f7f7f7f7f7f7f7, {}}, tiny),
    vector_of({0x00170000, 0x7f7fffff, 0x00200000, 0x1f, 0x7f7fffff, 0x1111111111111110, {}}, subnormal),
    vector_of({0x7f800000, 0x3f800000, 0x3f800000, 0x7e, 0x3b124925, 0x0000000000700000, {}}, ones_and_inf),
    vector_of({0x3f800000, 0x45280000, 0x39c30c31, 0x7e, 0x40c00000, 0x7777777777777777, {}}, ones_and_nan),
    vector_of({0x7f7f0000, 0x0528a8a9, 0x79c24924, 0x7e, 0x00c0c0c1, 0x777777720affffff, {}}, steep),
};
constexpr u64 vector_count = sizeof vectors / sizeof vectors[0];

/// Every column of a vector, through every function that has a part in it.
struct gives_its_vector {
  golden all[vector_count];
  FOURSCALE_HD constexpr bool operator()(u64 i) const {
    golden const& g = all[i];
    const tensor_scale<nvfp4> tensor(bit_cast<float>(g.amax));
    if (bit_cast<u32>(tensor.encode) != g.encode || bit_cast<u32>(tensor.decode) != g.decode) return false;
    const block_scale<nvfp4> s = two_level{}(nvfp4{}, block_amax(g.x), tensor);
    if (s.scale.bits != g.scale || bit_cast<u32>(s.multiplier) != g.multiplier) return false;
    const packed_block<nvfp4> block = quantize_block<nvfp4>(g.x, quantizer{}, tensor);
    u64 codes = 0;
    for (int b = 0; b < 8; ++b) codes |= u64{block.codes[b]} << (8 * b);
    return block.scale.bits == g.scale && codes == g.codes;
  }
};

constexpr gives_its_vector every_vector() {
  gives_its_vector body{};
  for (u64 i = 0; i < vector_count; ++i) body.all[i] = vectors[i];
  return body;
}
static_assert(every_vector()(0) && every_vector()(3), "constant expressions too");

/// The block that holds the tensor's amax stores 448, unless 2688 / amax overflows: bf16 patterns
/// 1 .. 0x0522.
struct largest_block_stores_448 {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = bit_cast<float>(static_cast<u32>(i + 1) << 16);
    const block_scale<nvfp4> s = two_level{}(nvfp4{}, amax, tensor_scale<nvfp4>(amax));
    return (s.scale.bits == 0x7e) == (i + 1 > 0x0522);
  }
};

/// What is stored for a value, by search.
FOURSCALE_HD constexpr u32 stored(float s) {
  return static_cast<u32>(test::nearest_code<e4m3>(static_cast<double>(s)));
}

/// Pair i of block amax and tensor amax: all significands of bf16 for both, 12 binades between them.
struct amax_pair {
  u32 block_significand, tensor_significand, binades;
  FOURSCALE_HD explicit constexpr amax_pair(u64 i)
      : block_significand(static_cast<u32>(128 + i % 128)),
        tensor_significand(static_cast<u32>(128 + i / 128 % 128)),
        binades(static_cast<u32>(i / 16384)) {}
  FOURSCALE_HD constexpr float tensor() const { return static_cast<float>(tensor_significand) * 0x1p-5f; }
  FOURSCALE_HD constexpr float block() const {
    return static_cast<float>(block_significand) * 0x1p-5f / static_cast<float>(1u << binades);
  }
};
constexpr u64 pair_count = 12 * 16384;

/// Both orders of evaluation, in plain arithmetic. nvcc would contract nothing here: no product feeds a sum.
struct both_orders_are_restated {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = amax_pair(i).tensor(), a = amax_pair(i).block();
    const tensor_scale<nvfp4> tensor(amax);
    const float encode = ptx::div_rn_f32(2688.0f, amax);
    const float sixth = bit_cast<float>(0x3e2a'aaabu);
    const block_scale<nvfp4> now = two_level{}(nvfp4{}, a, tensor);
    const block_scale<nvfp4> before = two_level_division{}(nvfp4{}, a, tensor);
    const double value = test::value_of<e4m3>(now.scale.bits);
    const float product = ptx::mul_rn_f32(static_cast<float>(value), ptx::div_rn_f32(1.0f, encode));
    return now.scale.bits == stored(ptx::mul_rn_f32(a, ptx::mul_rn_f32(encode, sixth))) &&
           before.scale.bits == stored(ptx::mul_rn_f32(ptx::div_rn_f32(a, 6.0f), encode)) &&
           (value == 0 ? bit_cast<u32>(now.multiplier) == float_max_bits
                       : now.multiplier == ptx::div_rn_f32(1.0f, product));
  }
};

/// True if 448 * block / tensor is exactly halfway between two codes of E4M3.
FOURSCALE_HD constexpr bool is_midpoint(amax_pair p) {
  // 448 a = middle * A as integers, in units of 2^-21.
  const u64 scaled = (u64{448} * p.block_significand << 21) >> p.binades;
  for (int k = 0; k < e4m3::max_bits; ++k) {
    const double middle = (test::value_of<e4m3>(k) + test::value_of<e4m3>(k + 1)) / 2;
    if (static_cast<u64>(middle * 0x1p21) * p.tensor_significand == scaled) return true;
  }
  return false;
}

/// Only an exact tie makes the order of evaluation visible, because nothing else comes so near to one.
struct orders_differ_only_at_midpoints {
  FOURSCALE_HD bool operator()(u64 i) const {
    const amax_pair p(i);
    const tensor_scale<nvfp4> tensor(p.tensor());
    return is_midpoint(p) || two_level{}(nvfp4{}, p.block(), tensor).scale ==
                                 two_level_division{}(nvfp4{}, p.block(), tensor).scale;
  }
};

/// With 1/17 to spare no product passes 6, as long as the scale is a normal number of E4M3.
struct headroom_never_saturates {
  FOURSCALE_HD bool operator()(u64 i) const {
    const amax_pair p(i);
    const two_level_headroom rule;
    const tensor_scale<nvfp4> tensor = tensor_scale_for<nvfp4>(rule, p.tensor());
    if (p.block() > p.tensor()) return true;
    const block_scale<nvfp4> s = rule(nvfp4{}, p.block(), tensor);
    return s.scale.bits < 0x08 || ptx::mul_rn_f32(p.block(), s.multiplier) <= 6.0f;
  }
};

// Which policies have a fast form, so that none loses it unseen.
static_assert(fast_amax_scaling_policy<two_level, nvfp4> && fast_amax_scaling_policy<amax_scale, nvfp4>);
static_assert(!fast_amax_scaling_policy<two_level_division, nvfp4>);
static_assert(!fast_amax_scaling_policy<amax_scale, mxfp4>, "the definition is as fast");
static_assert(!fast_amax_scaling_policy<amax_scale, fp8_e4m3>, "no scale of a block is found");

}  // namespace

TEST_CASE("two_level: golden vectors, every column", "[scaling][two_level]") {
  check_everywhere(vector_count, every_vector());
}

TEST_CASE("two_level: the largest block stores 448 for every bf16 amax but the 1314 smallest",
          "[scaling][two_level]") {
  check_everywhere(0x7f7f, largest_block_stores_448{});
}

TEST_CASE("two_level: both orders of evaluation equal their formulas", "[scaling][two_level]") {
  check_everywhere(pair_count, both_orders_are_restated{});
}

TEST_CASE("two_level: the two orders differ only where amax falls on a midpoint of E4M3",
          "[scaling][two_level]") {
  check_everywhere(pair_count, orders_differ_only_at_midpoints{});
  u64 different = 0, midpoints = 0;
  for (u64 i = 0; i < pair_count; ++i) {
    const amax_pair p(i);
    if (p.block() > p.tensor()) continue;
    const tensor_scale<nvfp4> tensor(p.tensor());
    different += two_level{}(nvfp4{}, p.block(), tensor).scale !=
                 two_level_division{}(nvfp4{}, p.block(), tensor).scale;
    midpoints += is_midpoint(p);
  }
  CAPTURE(different, midpoints);
  CHECK(midpoints == 941);
  CHECK(different == 187);  // 0.1 % of the pairs; the share of a tensor depends on its amax
}

TEST_CASE("two_level: amax of zero, infinity, NaN and subnormals", "[scaling][two_level]") {
  const tensor_scale<nvfp4> one;
  CHECK(one.amax == 2688.0f);
  CHECK(one.encode == 1.0f);
  CHECK(one.decode == 1.0f);
  for (const float amax : {0.0f, -0.0f, inf}) CHECK(tensor_scale<nvfp4>(amax).encode == 1.0f);
  for (const float amax : {quiet_nan, -quiet_nan, 0x1p-149f, 0x1p-126f, 7.8e-36f}) {
    CHECK(bit_cast<u32>(tensor_scale<nvfp4>(amax).encode) == float_max_bits);
    CHECK(bit_cast<u32>(tensor_scale<nvfp4>(amax).decode) == 0x0020'0000);  // subnormal, and kept
  }
  // Block amax: 0 and what underflows store 0 and multiply by FLT_MAX; 2^-10 is a tie and goes to 0.
  for (const float amax : {0.0f, 0x1p-149f, 6 * 0x1p-10f})
    CHECK(bit_cast<u32>(two_level{}(nvfp4{}, amax, one).multiplier) == float_max_bits);
  CHECK(two_level{}(nvfp4{}, 6 * 0x1.01p-10f, one).scale.bits == 1);
  CHECK(two_level{}(nvfp4{}, inf, one).scale.bits == 0x7e);
  CHECK(two_level{}(nvfp4{}, float_max, one).scale.bits == 0x7e);
  CHECK(two_level{}(nvfp4{}, quiet_nan, one).scale.bits == 0x7e);
}

TEST_CASE("two_level_stochastic: the word of a block's first element decides about its scale",
          "[scaling][two_level]") {
  const philox draws{7, 3};
  const tensor_scale<nvfp4> tensor(1000.0f);
  i64 wrong = 0;
  for (i64 i = 0; i < 1000; ++i) {
    const position where{i % 37, i / 37 * 16};
    const float amax = 1.0f + static_cast<float>(i);
    const block_scale<nvfp4> got = two_level_stochastic{draws}(nvfp4{}, amax, tensor, where);
    const e4m3 scale = encode_stochastic_scale<e4m3>(amax * (tensor.encode * (1.0f / 6.0f)), draws(where));
    wrong += got.scale != scale;
  }
  CHECK(wrong == 0);
}

TEST_CASE("two_level_headroom: no value passes 6 before it is rounded", "[scaling][two_level]") {
  check_everywhere(pair_count, headroom_never_saturates{});
  u64 beyond = 0;  // without the rule
  for (u64 i = 0; i < pair_count; ++i) {
    const amax_pair p(i);
    const block_scale<nvfp4> s = two_level{}(nvfp4{}, p.block(), tensor_scale<nvfp4>(p.tensor()));
    beyond += p.block() <= p.tensor() && s.scale.bits >= 0x08 && p.block() * s.multiplier > 6.0f;
  }
  CHECK(beyond > 1000);
}

static_assert(tensor_scale<nvfp4>(0x1p-130f).encode == float_max,
              "overflow is no error in a constant expression");

// SPDX-License-Identifier: Apache-2.0
// The Hadamard transform against sums of integers: its matrix, its signs, where it is exact and how far from
// exact it is elsewhere.
#include <fourscale/block/quantize.hpp>
#include <fourscale/transform/hadamard.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

FOURSCALE_HD constexpr int sylvester_sign(int i, int j) {
  int ones = 0;
  for (int both = i & j; both; both &= both - 1) ++ones;
  return ones % 2 ? -1 : 1;
}

FOURSCALE_HD constexpr int log2_of(int n) { return n == 1 ? 0 : 1 + log2_of(n / 2); }

/// 1 / sqrt(N), to nearest.
template <int N>
FOURSCALE_HD constexpr float inverse_root() {
  const double root_half = log2_of(N) % 2 ? 0.70710678118654752440 : 1.0;
  return static_cast<float>(root_half * test::power(-(log2_of(N) / 2)));
}

/// Column i of the matrix: the transform of a unit vector.
template <int N>
struct columns_are_sylvesters {
  FOURSCALE_HD bool operator()(u64 i) const {
    float x[N]{};
    x[i] = 1.0f;
    hadamard<N, float>{}(x);
    for (int j = 0; j < N; ++j)
      if (x[j] != inverse_root<N>() * static_cast<float>(sylvester_sign(static_cast<int>(i), j)))
        return false;
    return true;
  }
};

/// Case i: N bf16 values that are integers, (128 .. 255) * 2^(0 .. spread), both ends among them; and signs.
template <int N>
struct integers {
  i64 x[N]{};
  sign_vector signs;
  FOURSCALE_HD explicit constexpr integers(u64 i, u32 spread) : signs(test::mix(i), test::mix(i + 1)) {
    for (u64 k = 0; k < N; ++k) {
      const u64 r = test::mix(i * N + k);
      const u64 at = i % N, other = (i + 1) % N;
      const u64 exponent = k == at ? 0 : k == other ? spread : (r >> 8) % (spread + 1);
      x[k] = static_cast<i64>((128 + r % 128) << exponent);
      // One case in four has all magnitudes large and alike, so that sums are as large as they can be.
      if (i % 4 == 0 && k != at) x[k] = static_cast<i64>(u64{255} << spread);
      if (r >> 63 && i % 8) x[k] = -x[k];
    }
  }
  FOURSCALE_HD constexpr void to(float (&y)[N]) const {
    for (int k = 0; k < N; ++k) y[k] = static_cast<float>(x[k]);
  }
  FOURSCALE_HD constexpr i64 signed_value(int k) const {
    return (signs.words[k / 64] >> (k % 64)) % 2 ? -x[k] : x[k];
  }
  /// Element j of the transform times sqrt(N).
  FOURSCALE_HD constexpr i64 sum(int j) const {
    i64 s = 0;
    for (int k = 0; k < N; ++k) s += sylvester_sign(j, k) * signed_value(k);
    return s;
  }
  FOURSCALE_HD constexpr double magnitudes() const {
    i64 s = 0;
    for (int k = 0; k < N; ++k) s += x[k] < 0 ? -x[k] : x[k];
    return static_cast<double>(s);
  }
};

/// An integer rounded to 8 significant bits, ties to even.
FOURSCALE_HD constexpr double to_8_bits(i64 v) {
  u64 m = static_cast<u64>(v < 0 ? -v : v), unit = 1;
  while (m / unit >= 256) unit *= 2;
  u64 q = m / unit;
  const u64 twice = 2 * (m % unit);
  q += twice > unit || (twice == unit && q % 2);
  return static_cast<double>(q * unit) * (v < 0 ? -1.0 : 1.0);
}

/// Sums of up to N values in `spread` binades fit 24 bits, so they are exact, and bf16 rounds them once.
template <int N>
struct exact_within_its_spread {
  static constexpr u32 spread = static_cast<u32>(16 - log2_of(N));
  FOURSCALE_HD bool operator()(u64 i) const {
    const integers<N> v(i, spread);
    float exact[N], rounded[N];
    v.to(exact);
    v.to(rounded);
    hadamard<N, float>{v.signs}(exact);
    hadamard<N>{v.signs}(rounded);
    const double factor = test::power(-(log2_of(N) / 2));
    for (int j = 0; j < N; ++j) {
      const i64 sum = v.sum(j);
      const double scaled = static_cast<double>(sum) * factor;
      if constexpr (log2_of(N) % 2) {
        const float root = inverse_root<2>();
        if (exact[j] != static_cast<float>(scaled * static_cast<double>(root))) return false;
      } else if (static_cast<double>(exact[j]) != scaled ||
                 static_cast<double>(rounded[j]) != to_8_bits(sum) * factor) {
        return false;
      }
    }
    return true;
  }
};

/// Within log2(N) * 2^-24 * sum |x| / sqrt(N) of exact whatever the spread, here up to 35 binades; N = 2, 8,
/// 32, 128 add the product with sqrt(1/2), whose two roundings are below 2^-23.
template <int N>
struct within_its_bound {
  FOURSCALE_HD bool operator()(u64 i) const {
    const integers<N> v(i, static_cast<u32>(8 + i % 28));
    float y[N];
    v.to(y);
    hadamard<N, float>{v.signs}(y);
    const bool odd = log2_of(N) % 2;
    const double factor = test::power(-(log2_of(N) / 2)) * (odd ? 0.70710678118654752440 : 1.0);
    const double steps = log2_of(N) + (odd ? 2.01 : 0.0);
    for (int j = 0; j < N; ++j) {
      const double error = static_cast<double>(y[j]) - static_cast<double>(v.sum(j)) * factor;
      if ((error < 0 ? -error : error) > steps * 0x1p-24 * v.magnitudes() * factor) return false;
    }
    return true;
  }
};

/// sum (H x)(H y) = sum x y, exactly: what lets both operands of a GEMM be transformed.
template <int N>
struct keeps_dot_products {
  FOURSCALE_HD bool operator()(u64 i) const {
    const integers<N> v(2 * i, 3), w(2 * i + 1, 3);
    float x[N], y[N];
    v.to(x);
    w.to(y);
    const hadamard<N, float> h{v.signs};
    h(x);
    h(y);
    double before = 0, after = 0;
    for (int k = 0; k < N; ++k) {
      before += static_cast<double>(v.x[k]) * static_cast<double>(w.x[k]);
      after += static_cast<double>(x[k]) * static_cast<double>(y[k]);
    }
    return before == after;
  }
};

/// H is symmetric, so transforming twice without signs gives x back; and H(x + y) = H x + H y.
template <int N>
struct is_an_involution_and_linear {
  FOURSCALE_HD bool operator()(u64 i) const {
    const integers<N> v(2 * i, 4), w(2 * i + 1, 4);
    float x[N], y[N], sum[N], twice[N];
    v.to(x);
    w.to(y);
    v.to(twice);
    for (int k = 0; k < N; ++k) sum[k] = x[k] + y[k];
    const hadamard<N, float> h{v.signs};
    h(x);
    h(y);
    h(sum);
    hadamard<N, float>{}(twice);
    hadamard<N, float>{}(twice);
    for (int k = 0; k < N; ++k)
      if (sum[k] != x[k] + y[k] || twice[k] != static_cast<float>(v.x[k])) return false;
    return true;
  }
};

/// An array of several N is transformed N by N, with the same signs.
struct longer_arrays_are_tiled {
  FOURSCALE_HD bool operator()(u64 i) const {
    float x[64], tiles[4][16];
    for (u64 k = 0; k < 64; ++k) x[k] = tiles[k / 16][k % 16] = test::gaussian(i * 64 + k);
    const hadamard<16> h{te_signs};
    h(x);
    for (auto& tile : tiles) h(tile);
    for (int k = 0; k < 64; ++k)
      if (bit_cast<u32>(x[k]) != bit_cast<u32>(tiles[k / 16][k % 16])) return false;
    return true;
  }
};

template <int N>
void check_size() {
  CAPTURE(N);
  check_everywhere(N, columns_are_sylvesters<N>{});
  check_everywhere(2000, exact_within_its_spread<N>{});
  check_everywhere(2000, within_its_bound<N>{});
  if constexpr (log2_of(N) % 2 == 0) {
    check_everywhere(1000, keeps_dot_products<N>{});
    check_everywhere(1000, is_an_involution_and_linear<N>{});
  }
}

constexpr char te_pattern[] = "+++-+------+-+--";
constexpr bool follows_te_pattern() {
  for (int i = 0; i < 16; ++i)
    if (te_signs.negative(i) != (te_pattern[i] == '-')) return false;
  return true;
}
static_assert(follows_te_pattern());
static_assert(sign_vector{0, 1}.negative(64) && !sign_vector{1, 0}.negative(64) && no_signs == sign_vector{});

constexpr float transformed_ones(int j) {
  float x[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  hadamard<16>{}(x);
  return x[j];
}
static_assert(transformed_ones(0) == 4.0f && transformed_ones(9) == 0.0f, "constant expressions too");

}  // namespace

TEST_CASE("hadamard: N = 4, 16, 64 are exact on sums of 24 bits", "[transform][hadamard]") {
  check_size<4>();
  check_size<16>();
  check_size<64>();
}
TEST_CASE("hadamard: N = 2, 8, 32, 128 add one product", "[transform][hadamard]") {
  check_size<2>();
  check_size<8>();
  check_size<32>();
  check_size<128>();
}

TEST_CASE("hadamard: longer arrays are transformed piece by piece", "[transform][hadamard]") {
  check_everywhere(200, longer_arrays_are_tiled{});
}

TEST_CASE("hadamard: any one sign changes the codes of a block", "[transform][hadamard]") {
  float x[16];
  for (u64 k = 0; k < 16; ++k) x[k] = test::gaussian(k);
  const tensor_scale<nvfp4> tensor(4.0f);
  const auto quantized = [&](u64 signs) {
    return quantize_block<nvfp4>(x, quantizer{nearest_even{}, amax_scale{}, hadamard<16>{signs}}, tensor);
  };
  const packed_block<nvfp4> te = quantized(te_signs.words[0]);
  for (int i = 0; i < 16; ++i) CHECK_FALSE(quantized(te_signs.words[0] ^ u64{1} << i) == te);
  CHECK(quantized(te_signs.words[0] | u64{1} << 16) == te);  // beyond N nothing is read
}

TEST_CASE("identity: changes nothing, whatever the values are", "[transform][identity]") {
  float x[32];
  for (u64 i = 0; i < 32; ++i) x[i] = test::ugly(i);
  identity{}(x);
  for (u64 i = 0; i < 32; ++i) CHECK(bit_cast<u32>(x[i]) == bit_cast<u32>(test::ugly(i)));
}

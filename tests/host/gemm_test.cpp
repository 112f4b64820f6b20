// SPDX-License-Identifier: Apache-2.0
// host::gemm: exact where numbers are small, within its documented bound elsewhere, of any pair of formats.
#include <fourscale/host/amax.hpp>
#include <fourscale/host/gemm.hpp>

#include "naive.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr float quiet_nan = bit_cast<float>(0x7fc0'0000u);

/// Values from 2^-12 to 2^6 and scales of six binades, so that sums cancel what a float would have lost.
template <class F, class Layout>
void fill(output<F, Layout>& q, u64 seed) {
  for (i64 r = 0; r < q.view.rows; ++r)
    for (i64 b = 0; b < q.view.blocks(); ++b) {
      const u64 n = static_cast<u64>(r * q.view.blocks() + b) + seed;
      const auto power = [](u64 exponent) { return bit_cast<float>(static_cast<u32>(exponent) << 23); };
      packed_block<F> block{encode<typename F::scale>(power(124 + mix(n) % 6)), {}};
      for (u64 k = 0; k < F::block_size; ++k) {
        const u64 i = n * F::block_size + k;
        block.set(static_cast<int>(k), encode<typename F::element>(gaussian(i) * power(117 + mix(i) % 15)));
      }
      q.view.store(r, b, block);
    }
}

template <class F, class Layout>
long double value(block_scaled_view<F, Layout> const& q, i64 r, i64 c) {
  const packed_block<F> b = q.load(r, c / F::block_size);
  long double v = static_cast<long double>(decode(b.get(static_cast<int>(c % F::block_size))));
  v *= static_cast<long double>(decode(b.scale));
  if constexpr (F::has_tensor_scale)
    v *= static_cast<long double>(q.amax.kind == amax_kind::per_row ? q.amax.data[r] : q.amax.value) /
         static_cast<long double>(q.amax.range.largest);
  return v;
}

/// |D - exact| <= (K / block + 4) * 2^-53 * sum |a||b| |alpha| + half an ulp of the result.
template <class F, class LA, class G, class LB>
void check_bound(output<F, LA> const& a, output<G, LB> const& b, gemm_factors factors) {
  const i64 m = a.view.rows, n = b.view.rows, k = a.view.cols;
  std::vector<float> d(size(m * n)), before(d);
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = before[i] = gaussian(i);
  REQUIRE(host::gemm(a.view, b.view, matrix_view<float>{d, m, n}, factors) == errc::ok);
  i64 wrong = 0;
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < n; ++j) {
      long double sum = 0, magnitudes = 0;
      for (i64 c = 0; c < k; ++c) {
        const long double p = value(a.view, i, c) * value(b.view, j, c);
        sum += p;
        magnitudes += p < 0 ? -p : p;
      }
      const long double alpha = static_cast<long double>(factors.alpha),
                        beta = static_cast<long double>(factors.beta);
      const long double old = beta * static_cast<long double>(before[size(i * n + j)]);
      const long double exact = alpha * sum + old, got = static_cast<long double>(d[size(i * n + j)]);
      const long double bound = static_cast<long double>(k / F::block_size + 4) * 0x1p-53L *
                                ((alpha < 0 ? -alpha : alpha) * magnitudes + (old < 0 ? -old : old));
      const long double size_of = exact < 0 ? -exact : exact, error = got < exact ? exact - got : got - exact;
      wrong += !(error <= bound + 0x1.0001p-24L * size_of);
    }
  CHECK(wrong == 0);
}

template <block_format F, block_format G>
void check_pair() {
  INFO(F::name << " " << G::name);
  output<F, swizzled_128x4> a(19, 3 * F::block_size);
  output<G, linear> b(23, 3 * F::block_size);
  a.view.amax = amax_value(3.3f);
  b.view.amax = amax_value(0.7f);
  fill(a, 1);
  fill(b, 1000);
  check_bound(a, b, {});
  check_bound(a, b, {-1.7f, 0.3f});
}

/// Integers in -3..3, which every format holds: the sum is an integer and D is exact.
template <block_format F>
void check_integers() {
  INFO(F::name);
  constexpr i64 m = 21, n = 18, k = 4 * F::block_size;
  output<F, linear> a(m, k);
  output<F, swizzled_128x4> b(n, k);
  a.view.amax = b.view.amax = unit_scale;
  const auto integer = [](i64 r, i64 c) {
    return static_cast<int>(mix(static_cast<u64>(r * 1000 + c)) % 7) - 3;
  };
  const auto set = [&](auto const& q, i64 offset) {
    for (i64 r = 0; r < q.rows; ++r)
      for (i64 block = 0; block < q.blocks(); ++block) {
        packed_block<F> values{encode<typename F::scale>(1.0f), {}};
        for (int i = 0; i < F::block_size; ++i)
          values.set(i, encode<typename F::element>(
                            static_cast<float>(integer(r + offset, block * F::block_size + i))));
        q.store(r, block, values);
      }
  };
  set(a.view, 0);
  set(b.view, m);
  std::vector<float> d(size(m * n), quiet_nan);
  REQUIRE(host::gemm(a.view, b.view, matrix_view<float>{d, m, n}) == errc::ok);
  i64 wrong = 0;
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < n; ++j) {
      int sum = 0;
      for (i64 c = 0; c < k; ++c) sum += integer(i, c) * integer(j + m, c);
      wrong += d[size(i * n + j)] != static_cast<float>(sum);
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("host::gemm: small integers are exact, and beta = 0 reads no D", "[host][gemm]") {
  check_integers<nvfp4>();
  check_integers<nvint4>();
  check_integers<mxfp4>();
  check_integers<mxfp6_e2m3>();
  check_integers<mxfp6_e3m2>();
  check_integers<mxfp8_e4m3>();
  check_integers<mxfp8_e5m2>();
}

TEST_CASE("host::gemm: within its bound, for pairs of formats", "[host][gemm]") {
  check_pair<nvfp4, nvfp4>();
  check_pair<nvfp4, nvint4>();
  check_pair<mxfp4, mxfp8_e4m3>();
  check_pair<mxfp6_e2m3, mxfp6_e3m2>();
  check_pair<mxfp8_e5m2, mxfp8_e4m3>();
}

TEST_CASE("host::gemm: rows with an amax of their own", "[host][gemm]") {
  output<nvfp4, linear> a(19, 48), b(23, 48);
  fill(a, 7);
  fill(b, 8);
  std::vector<float> of_a(19), of_b(23);
  for (std::size_t i = 0; i < of_a.size(); ++i) of_a[i] = 1.0f + static_cast<float>(i) * 0.37f;
  for (std::size_t i = 0; i < of_b.size(); ++i) of_b[i] = 9.0f - static_cast<float>(i) * 0.21f;
  a.view.amax = amax_of_rows(of_a.data());
  b.view.amax = amax_value(2688.0f);
  check_bound(a, b, {});
  b.view.amax = amax_of_rows(of_b.data());
  check_bound(a, b, {2.0f, 1.0f});
}

TEST_CASE("host::gemm: alpha and beta, into any type, leaving gaps alone", "[host][gemm]") {
  output<mxfp4, linear> a(2, 32), b(3, 32);
  const auto ones = [](auto const& q, float first) {
    for (i64 r = 0; r < q.rows; ++r) {
      packed_block<mxfp4> block{encode<e8m0>(1.0f), {}};
      block.set(0, encode<e2m1>(first));
      block.set(static_cast<int>(r) + 5, encode<e2m1>(1.0f));
      q.store(r, 0, block);
    }
  };
  ones(a.view, 2.0f);
  ones(b.view, -3.0f);
  // A B^T is -6, but -5 on the diagonal.
  std::vector<bf16> d(2 * 5, from_float<bf16>(10.0f));
  REQUIRE(host::gemm(a.view, b.view, matrix_view<bf16>{d, 2, 3, 5}, {.alpha = 0.5f, .beta = 2.0f}) ==
          errc::ok);
  CHECK(to_float(d[0]) == 17.5f);
  CHECK(to_float(d[1]) == 17.0f);
  CHECK(to_float(d[3]) == 10.0f);
  CHECK(to_float(d[5]) == 17.0f);
  CHECK(to_float(d[6]) == 17.5f);
  // A NaN scale reaches its row of D and no other.
  packed_block<mxfp4> poisoned = a.view.load(1, 0);
  poisoned.scale.bits = e8m0::nan_bits;
  a.view.store(1, 0, poisoned);
  std::vector<float> f(6);
  REQUIRE(host::gemm(a.view, b.view, matrix_view<float>{f, 2, 3}) == errc::ok);
  for (std::size_t i = 0; i < 3; ++i) CHECK(f[i] == (i == 0 ? -5.0f : -6.0f));
  for (std::size_t i = 3; i < 6; ++i) CHECK(f[i] != f[i]);
}

TEST_CASE("gemm: bf16 results are rounded once", "[host][gemm]") {
  u8 codes[32] = {}, scales[1] = {127};
  const block_scaled_view<mxfp8_e4m3> one{codes, scales, 1, 32};
  codes[0] = encode<e4m3>(1.0f).bits;
  // 1 + 2^-8 lies half way between two bf16 values; 2^-40 more decides, and a float would lose it.
  bf16 d = from_float<bf16>(0x1p-40f);
  REQUIRE(host::gemm(one, one, matrix_view<bf16>{&d, 1, 1}, {.alpha = 1.0f + 0x1p-8f, .beta = 1.0f}) ==
          errc::ok);
  CHECK(d.bits == 0x3f81);
  d = from_float<bf16>(-0x1p-40f);
  REQUIRE(host::gemm(one, one, matrix_view<bf16>{&d, 1, 1}, {.alpha = 1.0f + 0x1p-8f, .beta = 1.0f}) ==
          errc::ok);
  CHECK(d.bits == 0x3f80);
}

template <class T>
void check_negation(float least) {
  u8 codes[32] = {}, scales[1] = {127};
  const block_scaled_view<mxfp8_e4m3> one{codes, scales, 1, 32};
  codes[0] = encode<e4m3>(1.0f).bits;
  const auto result = [&](float alpha, float c) {
    T d = from_float<T>(c);
    REQUIRE(host::gemm(one, one, matrix_view<T>{&d, 1, 1}, {.alpha = alpha, .beta = 1.0f}) == errc::ok);
    return to_float(d);
  };
  for (float alpha : {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1.5555p-2f})
    for (float c : {least, -least, 0.0f, 0.25f}) CHECK(result(-alpha, -c) == -result(alpha, c));
}

TEST_CASE("gemm: the negative of a sum is rounded to the negative of its result", "[host][gemm]") {
  check_negation<bf16>(0x1p-40f);
  check_negation<fp16>(0x1p-24f);
  check_negation<float>(0x1p-60f);
}

TEST_CASE("gemm: an infinite sum stays infinite", "[host][gemm]") {
  u8 codes[32] = {}, scales[1] = {127};
  const block_scaled_view<mxfp8_e4m3> one{codes, scales, 1, 32};
  codes[0] = encode<e4m3>(1.0f).bits;
  const float infinity = bit_cast<float>(float_inf_bits);
  bf16 d = from_float<bf16>(infinity);
  REQUIRE(host::gemm(one, one, matrix_view<bf16>{&d, 1, 1}, {.alpha = 1.0f, .beta = 1.0f}) == errc::ok);
  CHECK(to_float(d) == infinity);
  REQUIRE(host::gemm(one, one, matrix_view<bf16>{&d, 1, 1}, {.alpha = -float_max, .beta = -1.0f}) ==
          errc::ok);
  CHECK(to_float(d) == -infinity);
}

TEST_CASE("gemm: D must not overlap an operand", "[host][gemm]") {
  alignas(4) u8 codes[32] = {1, 2, 3, 4}, scales[1] = {127};
  const block_scaled_view<mxfp8_e4m3> a{codes, scales, 1, 32};
  CHECK(host::gemm(a, a, matrix_view<float>{reinterpret_cast<float*>(codes), 1, 1}) == errc::overlap);
  CHECK(codes[0] == 1);
}

// SPDX-License-Identifier: Apache-2.0
// MXFP6 and MXFP4 by one another with Blackwell's bits on Hopper, in tiles of every width, compared with the
// chained model or the CPU's GEMM: outputs that the kernel proves, and those that it leaves to f16.
#include "mma/cpu_gemm.hpp"
#include "mma/gemm_calls.cuh"
#include "mma/gemm_mx_cases.hpp"
#include "mma/gemm_random.hpp"

using namespace fourscale;
using namespace fourscale::test;
using enum mma::cluster_tiles;
using device::detail::wgmma_plan;

namespace {

/// Compares D with `want`, and how the steps were added with f16, which asks for each output; returns how
/// many strips were left.
template <class Case, class D>
i64 check(Case& c, D const& want, in_32s_gemm gemm = {}) {
  gemm_steps steps, of_f16;
  i64 left = 0;
  gemm.counted = &steps, gemm.left = &left;
  CHECK(same_bits(c.on_device(gemm), want));
  CHECK(same_bits(c.on_device(f16_gemm{&of_f16}), want));
  CHECK(steps.in_f32 == of_f16.in_f32);
  CHECK(steps.in_double == of_f16.in_double);
  CHECK(steps.by_model == of_f16.by_model);
  return left;
}

/// GEMMs drawn at random, in drawn tiles, compared with the CPU's.
template <class F, class G, class Layout, class T>
void check_random() {
  if (!hopper_or_warn()) return;
  for_random_gemms<F, G, Layout, T>(60, 2000, 400, 4096, [](auto& c, u64 seed) {
    dice d(seed + 1'000'000);
    const drawn_tiles tiles(d, c.o.m, c.o.n);
    CHECK(same_bits(c.on_device(in_32s_gemm{nullptr, nullptr, tiles}), c.on_host(cpu_gemm{})));
  });
}

/// m x n x k of this data in each cut, and where clusters share the last tiles; which strips are left does
/// not depend on it. Returns their number for tiles of 192 columns.
template <class F, class G, class T>
i64 check_cuts(gemm_options const& o, kind of_a, kind of_b) {
  gemm_case<F, linear, G, linear, T> c(o, gemm_operand_data<F, linear>(operand<F, linear>(of_a, o.m, o.k, 1)),
                                       gemm_operand_data<G, linear>(operand<G, linear>(of_b, o.n, o.k, 2)));
  const auto want = c.on_host(cpu_gemm{});
  i64 left = 0;
  for (auto const& cut : wgmma_plan::cuts) {
    INFO(cut.cols << " columns, " << static_cast<int>(cut.lie));
    const i64 here = check(c, want, {nullptr, nullptr, {cut}});
    if (cut.cols == 192) left = here;
    if (cut.lie == low) continue;
    for (const int clusters : {2, 5})
      if (device::detail::clusters_of(o.m, o.n, cut.cols, cut.lie) > clusters)
        CHECK(check(c, want, {nullptr, nullptr, {cut, clusters}}) == here);
  }
  return left;
}

/// An operand whose certificates hold or fail by little: rows of any size, scales that differ by a few powers
/// of two, sums that grow or come back to zero, and blocks with few values.
template <class F>
gemm_operand_data<F, linear> near_bounds(dice& d, i64 rows, i64 k, bool cancels) {
  gemm_operand_data<F, linear> x(rows, k, d.bits() % 1000);
  const i64 row_spread = d.one_of({1, 1, 4, 20}), spread = d.one_of({1, 2, 3, 5, 9, 17}),
            few = d.one_of({0, 0, 3, 20});
  const bool positive = d.one_in(3), large = d.one_in(3);
  constexpr u8 sign = 1 << (F::element::width - 1), largest = F::element::max_bits;
  for (i64 row = 0; row < rows; ++row) {
    const i64 base = e8m0::bias - 8 + d.below(row_spread);
    for (i64 block = 0; block < k / 32; ++block) {
      if (cancels && block >= k / 64) {  // the first half once more, with other signs
        packed_block<F> of = x.view().load(row, block - k / 64);
        for (int i = 0; i < 32; ++i) of.set(i, {static_cast<u8>(of.get(i).bits ^ sign)});
        x.view().store(row, block, of);
        continue;
      }
      packed_block<F> of{};
      of.scale = {static_cast<u8>(base + d.below(spread))};
      const u64 bits[3] = {d.bits(), d.bits(), d.bits()};
      for (int i = 0; i < 32; ++i) {
        u8 code = static_cast<u8>(bits[i / 11] >> (5 * (i % 11))) & (sign | largest);
        if (positive) code &= largest;
        if (large) code |= largest & ~u8{3};
        if (few != 0 && mix(bits[0] + static_cast<u64>(i)) % 20 >= static_cast<u64>(few)) code = 0;
        of.set(i, {code});
      }
      x.view().store(row, block, of);
    }
  }
  return x;
}

/// GEMMs of such operands, compared with the CPU's. Some strips are certified, and others are not.
template <class F, class G, class T>
void check_near_bounds() {
  if (!hopper_or_warn()) return;
  i64 left = 0, all = 0;
  for (u64 seed = 0; seed < (exhaustive() ? 3000 : 60); ++seed) {
    dice d(seed + 2'000'000);
    gemm_options o{d.size(200), d.size(300), 64 * d.size(64)};
    o.factors.beta = d.one_of({0.0f, 0.0f, 0.5f});
    const bool cancels = d.one_in(3);
    const auto a = near_bounds<F>(d, o.m, o.k, cancels);
    gemm_case<F, linear, G, linear, T> c(o, a, near_bounds<G>(d, o.n, o.k, false));
    const drawn_tiles tiles(d, o.m, o.n);
    INFO("seed " << seed << ": " << o.m << " x " << o.n << " x " << o.k);
    i64 here = 0;
    CHECK(same_bits(c.on_device(in_32s_gemm{nullptr, &here, tiles}), c.on_host(cpu_gemm{})));
    left += here, all += ceil_div<i64>(o.m, 16) * ceil_div<i64>(o.n, 64);
  }
  CHECK(left > all / 10);
  CHECK(left < all * 9 / 10);
}

}  // namespace

TEST_CASE("device gemm in 32s: shapes with each kind of data", "[device][gemm][blackwell][large]") {
  if (!hopper_or_warn()) return;
  int number = 0;
  const auto run = [&](auto c, std::vector<float> const& sums) {
    const auto cut = wgmma_plan::cuts[number++ % std::size(wgmma_plan::cuts)];
    CHECK(same_bits(c.on_device(in_32s_gemm{nullptr, nullptr, {cut}}), c.output_of(sums)));
  };
  for_each_of_table<mxfp6_e2m3, mxfp6_e2m3>(run, 0, 4);
  for_each_of_table<mxfp6_e3m2, mxfp6_e3m2>(run, 1, 4);
  for_each_of_table<mxfp6_e2m3, mxfp6_e3m2>(run, 2, 4);
  for_each_of_table<mxfp4, mxfp6_e3m2>(run, 3, 8);
  for_each_of_table<mxfp6_e2m3, mxfp4>(run, 7, 8);
}

TEST_CASE("device gemm in 32s: tiles of every width, and clusters that share tiles",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  using enum kind;
  for (const kind what : {gaussian, student_2, lognormal_rows, channels_50, zero_rows}) {
    INFO(name_of(what));
    CHECK(check_cuts<mxfp6_e2m3, mxfp6_e2m3, bf16>({600, 769, 1120}, what, gaussian) == 0);
  }
  CHECK(check_cuts<mxfp6_e3m2, mxfp6_e3m2, float>({515, 777, 2048, {0.5f, -2.0f}}, gaussian, gaussian) == 0);
  // What fails in a first part is asked in no run of the second.
  CHECK(check_cuts<mxfp6_e2m3, mxfp6_e2m3, float>({600, 769, 1024}, lognormal_tokens, gaussian) > 0);
  // Some strips are left, and D is added to there, too.
  const i64 all = ceil_div<i64>(515, 16) * ceil_div<i64>(780, 64);
  for (const float beta : {0.0f, -2.0f}) {
    const i64 left =
        check_cuts<mxfp6_e3m2, mxfp6_e3m2, float>({515, 780, 2048, {0.5f, beta}}, student_2, student_2);
    CHECK((left > 0 && left <= all));
    check_cuts<mxfp6_e3m2, mxfp6_e2m3, bf16>({300, 500, 4096, {0.5f, beta}, 3}, lognormal_blocks, student_2);
  }
}

TEST_CASE("device gemm in 32s: every code and scale", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  const auto run = [](auto& c) { check(c, c.oracle()); };
  for_all_codes<mxfp6_e2m3>(run);
  for_all_codes<mxfp6_e3m2>(run);
}

TEST_CASE("device gemm in 32s: a NaN scale, alone or under a row of zeros", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  for (const u8 code : {u8{0}, u8{9}}) {
    auto c = mx_with_code<mxfp6_e2m3>(code, 255);
    CHECK(check(c, c.oracle()) == 1);
  }
  // The other operand is all zeros.
  for (const bool of_a : {true, false}) {
    auto c = mx_zeros<mxfp6_e2m3>(4, 512);
    mx_set(of_a ? c.a.data : c.b.data, 300, 1.0f, 128);
    CHECK(check(c, c.oracle()) == 1);
  }
}

TEST_CASE("device gemm in 32s: accumulators at the bounds", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  for (int below = 10; below < 30; ++below) {
    INFO(below << " bits below");
    auto c = mx_accumulator_below(below);
    check(c, c.oracle());
    // The same, but each of the three steps in a run of its own: a run's limits are for what comes before it.
    auto far = mx_zeros<mxfp6_e3m2>(4, 768);
    mx_set(far.a.data, 0, -1.0f, 23 - below), mx_set(far.b.data, 0, 1.0f);
    mx_set(far.a.data, 256, -1.0f, -below), mx_set(far.b.data, 256, 1.0f);
    mx_set(far.a.data, 512, 1.0f), mx_set(far.b.data, 512, 1.0f);
    check(far, far.oracle());
  }
  // A large accumulator meets products whose lowest bit is `apart` under its exponent: 25 are kept.
  for (int apart = 20; apart < 32; ++apart) {
    INFO(apart << " bits apart");
    for (const bool of_a : {true, false}) {
      auto c = mx_zeros<mxfp6_e2m3>(4, 1088);  // K in two parts with limits of their own
      static_assert(4 * mma::run_values == 1024 && mma::runs_of_limits<mxfp6_e2m3, mxfp6_e2m3> == 4);
      mx_set(of_a ? c.a.data : c.b.data, 5, 1.0f, apart - 6), mx_set(of_a ? c.b.data : c.a.data, 5, 1.0f);
      for (const i64 k : {1024, 1060}) mx_set(c.a.data, k, -0.125f), mx_set(c.b.data, k, 0.125f);
      const i64 left = check(c, c.oracle());
      CHECK((left != 0) == (apart >= 26));
    }
  }
}

TEST_CASE("device gemm in 32s: small accumulators and a large product", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  // The adder drops an accumulator of 2^-apart that is added to 1 where they are more than 25 apart. Here
  // each element counts as if it had all bits, five for E2M3.
  for (int apart = 10; apart < 33; ++apart)
    for (const bool of_a : {true, false}) {
      INFO(apart << " bits apart, by scales of " << (of_a ? "A" : "B"));
      auto c = mx_zeros<mxfp6_e2m3>(4, 1088);
      mx_set(of_a ? c.a.data : c.b.data, 7, -1.0f, -apart), mx_set(of_a ? c.b.data : c.a.data, 7, 1.0f);
      mx_set(c.a.data, 1030, 1.0f), mx_set(c.b.data, 1030, 1.0f);
      CHECK((check(c, c.oracle()) != 0) == (apart + 5 + 5 > 25));
    }
}

TEST_CASE("device gemm in 32s: blocks of zeros under far scales", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  mx_case<mxfp6_e2m3, mxfp4> c({60, 70, 960});
  for (size_t i = 0; i < c.a.data.scales.size(); ++i) {
    c.a.data.scales[i] = static_cast<u8>(mix(i + 5) % 2 == 0 ? mix(i) >> 8 : 127);
    if (mix(i + 5) % 2 == 0)
      std::fill_n(c.a.data.codes.begin() + static_cast<std::ptrdiff_t>(24 * i), 24, u8{0});
  }
  CHECK(check(c, c.oracle()) > 0);
}

TEST_CASE("device gemm in 32s: D as each way to store it takes it", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  for (const float beta : {0.0f, -0.75f})
    for (gemm_options o : std::vector<gemm_options>{
             {128, 192, 64}, {17, 72, 96, {}, 8}, {143, 584, 64, {}, 16}, {150, 391, 32, {}, 1}}) {
      o.factors = {0.7f, beta};
      gemm_case<mxfp6_e2m3, linear, mxfp6_e2m3, swizzled_128x4, bf16> c(o);
      CHECK(same_bits(c.on_device(in_32s_gemm{}), c.oracle()));
      gemm_case<mxfp6_e3m2, linear, mxfp4, linear, fp16> d(o);
      CHECK(same_bits(d.on_device(in_32s_gemm{}), d.oracle()));
      gemm_case<mxfp6_e2m3, swizzled_128x4, mxfp6_e3m2, linear, float> e(o);
      CHECK(same_bits(e.on_device(in_32s_gemm{}), e.oracle()));
    }
}

TEST_CASE("device gemm in 32s: by the call", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  gemm_case<mxfp6_e2m3, linear, mxfp6_e3m2, linear, float> c({300, 200, 640});
  CHECK(same_bits(c.on_device(blackwell_gemm{}), c.oracle()));
  const device_gemm_operand<mxfp6_e2m3, linear> a(c.a);
  const device_gemm_operand<mxfp6_e3m2, linear> b(c.b);
  const device_buffer<float> d(c.before);
  CHECK(device::kernel_of_gemm(a.view, b.view, c.view_of(d.data())) == device::gemm_kernel::wgmma);
}

TEST_CASE("device gemm in 32s: more values along K than f16 counts", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  // Nothing is launched or read, so addresses are numbers.
  const auto at = [](u64 x) { return reinterpret_cast<u8*>(x << 40); };
  constexpr i64 k = i64{1} << 30;
  const block_scaled_view<mxfp6_e2m3, linear> a{at(1), at(2), 1, k}, b{at(3), at(4), 1, k};
  const matrix_view<float> d{reinterpret_cast<float*>(at(5)), 1, 1};
  CHECK(device::gemm(a, b, d, {}, accumulate::blackwell{}, {at(6), device::gemm_workspace_bytes(1, 1, k)}) ==
        errc::too_large);
}

TEST_CASE("device gemm in 32s: limits take no more memory than the bounds in whose place they lie",
          "[device][gemm][blackwell]") {
  for (const i64 rows : {1, 7, 63, 64, 65, 127, 128, 129, 192, 193, 257, 385, 1000})
    for (const i64 k : {32, 64, 96, 256, 288, 4096}) {
      const auto x = mma::decoded_operand::in(nullptr, rows, k);
      const i64 before = reinterpret_cast<u8*>(x.exponents) - reinterpret_cast<u8*>(x.values);
      CHECK(before + mma::run_limits::bytes(rows, x.steps) <= x.bytes());
    }
}

TEST_CASE("device gemm in 32s: drawn at random, in drawn tiles", "[device][gemm][blackwell]") {
  check_random<mxfp6_e2m3, mxfp6_e2m3, linear, float>();
  check_random<mxfp6_e3m2, mxfp6_e3m2, swizzled_128x4, bf16>();
  check_random<mxfp6_e3m2, mxfp4, linear, float>();
  check_random<mxfp6_e2m3, mxfp6_e3m2, linear, bf16>();
}

TEST_CASE("device gemm in 32s: drawn near the bounds of certificates", "[device][gemm][blackwell]") {
  check_near_bounds<mxfp6_e2m3, mxfp6_e2m3, float>();
  check_near_bounds<mxfp6_e3m2, mxfp6_e3m2, bf16>();
  check_near_bounds<mxfp6_e3m2, mxfp6_e2m3, float>();
  check_near_bounds<mxfp4, mxfp6_e3m2, float>();
}

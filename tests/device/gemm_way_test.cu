// SPDX-License-Identifier: Apache-2.0
// Which way the GEMM by wgmma goes, and the samples that say so.
#include <algorithm>
#include <bit>

#include "mma/cpu_gemm.hpp"
#include "mma/decoded_on_host.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;
using device::detail::place_of_sample;
using namespace mma::wgmma;

namespace {

/// As sum_of_samples() has it.
sample_sums sums_of(std::vector<way_sample> const& samples) {
  sample_sums sum{};
  for (size_t i = 0; i < way_pairs; ++i) {
    way_sample const &x = samples[i], &y = samples[i + way_pairs];
    sum.steps += u32{x.steps} + y.steps, sum.open += u32{x.open} + y.open;
    sum.uncertified += static_cast<u32>(std::popcount(x.uncertified) + std::popcount(y.uncertified));
    sum.refused = sum.refused || x.refused != 0 || y.refused != 0;
    sum.together += static_cast<u32>(std::popcount(static_cast<u16>(x.uncertified & y.uncertified)));
  }
  return sum;
}

__global__ void sum_kernel(way_sample const* samples, sample_sums* to) {
  const sample_sums x = sum_of_samples(samples);
  if (threadIdx.x == 0) *to = x;
}
/// That the device has the same sums.
void check_sums(sample_sums const& want, way_sample const* samples) {
  const device_buffer<sample_sums> to(1);
  sum_kernel<<<1, 32>>>(samples, to.data());
  const sample_sums got = to.to_host()[0];
  CHECK(got.steps == (want.uncertified == 0 ? 0 : want.steps));
  CHECK(got.uncertified == want.uncertified);
  CHECK(got.together == want.together);
  CHECK(got.open == want.open);
  CHECK(got.refused == want.refused);
}

/// That samples are what the decoded operands say at their places. Returns their sums.
template <class F, class LA, class LB>
sample_sums check_samples(gemm_case<F, LA, F, LB, bf16> const& c) {
  const device_gemm_operand<F, LA> a(c.a);
  const device_gemm_operand<F, LB> b(c.b);
  const device_buffer<bf16> d(c.before);
  const matrix_view<bf16> to = c.view_of(d.data());
  const i64 bytes = device::gemm_workspace_bytes(to.rows, to.cols, a.view.cols);
  const device_buffer<u8> workspace(bytes);
  REQUIRE(cudaMemset(workspace.data(), 0xff, static_cast<size_t>(bytes)) == cudaSuccess);
  const device::detail::wgmma_call call(a.view, b.view, to, c.o.factors, workspace.data(), nullptr);
  REQUIRE(call.template decode<false>(nullptr) == errc::ok);  // the way is then that by certificates
  for (way_sample const& none : copied(call.p.samples, way_samples))
    CHECK((none.steps == 0 && none.uncertified == 0 && none.open == 0));
  REQUIRE(call.decode(nullptr) == errc::ok);
  const decoded_on_host of_a(call.p.a), of_b(call.p.b);
  const std::vector<way_sample> samples = copied(call.p.samples, way_samples);
  const int steps = static_cast<int>(call.p.a.steps);
  for (u32 i = 0; i < way_samples; ++i) {
    const place_of_sample at(i, to.rows, to.cols, steps);
    u16 there = 0, uncertified = 0, open = 0;
    for (int step = at.first_step; step < std::min(steps, at.first_step + device::detail::decode_steps);
         ++step) {
      const model::step_bounds x = of_a.bounds_at(at.row_group, step), y = of_b.bounds_at(at.col_group, step);
      ++there;
      open += !sums_are_exact(x, y);
      if (!sums_are_exact(x, y) && !sums_are_exact(of_a.magnitudes_at(at.row_group, step), x.width,
                                                   of_b.magnitudes_at(at.col_group, step), y.width))
        uncertified = static_cast<u16>(uncertified | 1u << (step - at.first_step));
    }
    CHECK(there > 0);
    CHECK(samples[i].steps == there);
    CHECK(samples[i].uncertified == uncertified);
    CHECK(samples[i].open == open);
  }
  check_sums(sums_of(samples), call.p.samples);
  return sums_of(samples);
}

struct gemm_size {
  i64 m = 300, n = 400, k = 4096;
};
/// A GEMM of NVFP4 with operands of these kinds.
gemm_case<nvfp4, linear, nvfp4, swizzled_128x4, bf16> case_of(kind of_a, kind of_b, gemm_size s = {}) {
  return case_of_kinds<nvfp4, linear, swizzled_128x4>(of_a, of_b, s.m, s.n, s.k);
}

/// That strips are certified ahead where the model says that their magnitudes prove sums to be exact, and
/// else only where widths do. What is behind the last row or column is. Each processor has two CTAs. `all`
/// and `exact` count.
void check_strips(gemm_size s, int processors, i64& all, i64& exact) {
  const auto c = case_of(kind::student_2, kind::lognormal_blocks, s);
  const device_gemm_operand<nvfp4, linear> a(c.a);
  const device_gemm_operand<nvfp4, swizzled_128x4> b(c.b);
  const device_buffer<bf16> d(c.before);
  const device_buffer<u8> workspace(device::gemm_workspace_bytes(s.m, s.n, s.k));
  const device::detail::wgmma_call call(a.view, b.view, c.view_of(d.data()), c.o.factors, workspace.data(),
                                        nullptr);
  REQUIRE(call.decode(nullptr) == errc::ok);
  auto strips = mma::wgmma::certified_strips::in(nullptr, s.m, s.n);
  const i64 steps = call.p.a.steps;
  const device_buffer<u32> words(
      std::vector<u32>(static_cast<size_t>(strips.bytes(steps) / 4), 0x5555'aaaau));
  strips.words = words.data(), strips.least_open = 0;
  const device::detail::certify_problem<false> ahead{call.p.a, call.p.b, call.p.samples, 1.0f, strips};
  REQUIRE(device::detail::launch_certify(ahead, processors, nullptr) == errc::ok);
  const decoded_on_host of_a(call.p.a), of_b(call.p.b);
  const std::vector<u32> found = words.to_host();
  const auto is_exact = [&](i64 row_group, i64 col_group, i64 step, bool by_widths) {
    if (row_group >= of_a.of.row_groups() || col_group >= of_b.of.row_groups()) return true;
    const model::step_bounds x = of_a.bounds_at(row_group, step), y = of_b.bounds_at(col_group, step);
    return (by_widths && sums_are_exact(x, y)) ||
           sums_are_exact(of_a.magnitudes_at(row_group, step), x.width, of_b.magnitudes_at(col_group, step),
                          y.width);
  };
  i64 wrong = 0;
  for (u32 step = 0; step < static_cast<u32>(steps); ++step)
    for (u32 strip = 0; strip < strips.strips; ++strip)
      for (u32 group = 0; group < 32 * strips.words_of_strip; ++group) {
        const u32 word = found[strips.word_at(step, group / 32, strip)],
                  bit = group % 4 * 8 + 7 - group / 8 % 4 * 2 - group % 8 / 4;
        const auto expected = [&](bool by_widths) {
          return is_exact(2 * strip, group, step, by_widths) &&
                 is_exact(2 * strip + 1, group, step, by_widths);
        };
        const bool is = (word >> bit & 1) != 0;
        wrong += is ? !expected(true) : expected(false);
        ++all, exact += is;
      }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("device gemm way: samples lie in every part of A, B and K", "[device][gemm]") {
  for (const i64 rows : {8, 250, 4096}) {
    int of_rows[4] = {}, of_cols[4] = {}, of_steps[4] = {};
    const i64 groups = ceil_div<i64>(rows, 8), more = 3 * groups;
    for (u32 i = 0; i < way_samples; ++i) {
      const place_of_sample at(i, rows, 8 * more, 16 * 40 - 1);
      REQUIRE((0 <= at.row_group && at.row_group < groups));
      REQUIRE((0 <= at.col_group && at.col_group < more));
      REQUIRE((0 <= at.first_step && at.first_step < 16 * 40 - 1 && at.first_step % 16 == 0));
      CHECK(at.first_step == place_of_sample((i + way_pairs) % way_samples, 1, 1, 16 * 40 - 1).first_step);
      ++of_rows[at.row_group * 4 / groups], ++of_cols[at.col_group * 4 / more],
          ++of_steps[at.first_step / 160];
    }
    if (groups < 4) continue;
    for (int i = 0; i < 4; ++i)
      for (const int count : {of_rows[i], of_cols[i], of_steps[i]}) CHECK(count >= 12);
  }
}

TEST_CASE("device gemm way: samples are those of the operands", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_samples(gemm_case<nvfp4, linear, nvfp4, linear, bf16>({1, 1, 16}));
  check_samples(gemm_case<nvfp4, linear, nvfp4, swizzled_128x4, bf16>({9, 17, 1040}));
  check_samples(gemm_case<nvfp4, swizzled_128x4, nvfp4, linear, bf16>({130, 8, 2080}));
  check_samples(gemm_case<mxfp4, linear, mxfp4, linear, bf16>({33, 65, 3104}));
  check_samples(gemm_case<mxfp4, swizzled_128x4, mxfp4, swizzled_128x4, bf16>({200, 100, 1024}));
  const sample_sums blocks = check_samples(case_of(kind::lognormal_blocks, kind::gaussian)),
                    t2 = check_samples(case_of(kind::student_2, kind::student_2));
  CHECK(blocks.steps == 16 * way_samples);
  CHECK((blocks.uncertified > blocks.steps / 2 && blocks.uncertified < blocks.steps));
  CHECK((t2.open > 0 && t2.uncertified < t2.steps / 64));
  CHECK(blocks.alike() < 0.25f);
}

TEST_CASE("device gemm way: sums of samples", "[device][gemm]") {
  if (!gpu_or_warn()) return;
  std::vector<way_sample> samples(way_samples);
  const auto check = [&] { check_sums(sums_of(samples), device_buffer<way_sample>(samples).data()); };
  check();
  for (way_sample& x : samples) x = {16, 0xffff, 16, 1};
  check();
  for (u16 i = 0; i < way_samples; ++i) {
    const u64 bits = mix(i);
    samples[i] = {static_cast<u16>(i % 16 + 1), static_cast<u16>(bits), static_cast<u16>(i % 17), 0};
  }
  check();
  samples[way_samples - 1].refused = 1;
  check();
  for (way_sample& x : samples) x.uncertified = 0;
  check();
}

TEST_CASE("device gemm way: what samples say", "[device][gemm]") {
  const auto by_blocks = [](u32 uncertified, u32 together) {
    return is_faster_by_blocks({1024, uncertified, together, uncertified, false});
  };
  CHECK(sample_sums{1024, 512, 256, 512, false}.alike() == 1.0f);
  CHECK(sample_sums{1024, 512, 192, 512, false}.alike() == 0.5f);
  CHECK(sample_sums{1024, 512, 128, 512, false}.alike() == 0.0f);  // by chance
  CHECK(sample_sums{1024, 512, 0, 512, false}.alike() == 0.0f);
  CHECK(sample_sums{1024, 0, 0, 0, false}.alike() == 0.0f);
  CHECK(sample_sums{1024, 1024, 512, 1024, false}.alike() == 0.0f);
  CHECK_FALSE(by_blocks(0, 0));
  CHECK_FALSE(by_blocks(64, 0));
  CHECK(by_blocks(65, 2));
  CHECK_FALSE(by_blocks(65, 3));
  CHECK_FALSE(by_blocks(320, 160));
  CHECK(by_blocks(321, 160));
  CHECK(by_blocks(1024, 512));
  CHECK_FALSE(is_faster_by_blocks({}));  // no samples
  CHECK(is_faster_by_blocks({1024, 0, 0, 0, false}, -1.0f));
  CHECK_FALSE(is_faster_by_blocks({1024, 1024, 512, 1024, false}, 1.0f));
}

TEST_CASE("device gemm way: strips are certified ahead as the model says", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  i64 all = 0, exact = 0;
  const auto check = [&](i64 m, i64 n, i64 k, int processors) {
    INFO(m << " x " << n << " x " << k);
    check_strips({m, n, k}, processors, all, exact);
  };
  check(1, 1, 16, 132);
  check(9, 17, 1040, 132);
  check(300, 400, 4096, 132);
  check(300, 4200, 192, 1);    // a CTA takes parts of more steps and columns
  check(4200, 2100, 128, 1);   // and of more rows
  check(4200, 300, 128, 132);  // rows for nine warps, of which a CTA has eight
  check(1100, 2300, 192, 3);   // rows for three
  check(520, 4200, 64, 2);     // for two
  CHECK((exact > all / 20 && exact < all * 19 / 20));
}

TEST_CASE("device gemm way: strips are certified ahead of large GEMMs only", "[device][gemm]") {
  CHECK(certifies_ahead(4096, 4096, 64));
  CHECK(certifies_ahead(8192, 2048, 64));
  CHECK_FALSE(certifies_ahead(4096, 4096, 63));
  CHECK_FALSE(certifies_ahead(4095, 4096, 64));
  CHECK(certifies_ahead(i64{1} << 30, i64{1} << 30, 1));
  CHECK_FALSE(certifies_ahead(i64{1} << 30, i64{1} << 30, i64{1} << 21));
  CHECK(certifies_ahead(8192, 8192, 64, true));
  CHECK_FALSE(certifies_ahead(8192, 8192, 63, true));
  CHECK(certifies_ahead(16384, 4096, 64, true));
  CHECK(certified_strips::in(nullptr, 4096, 4096).bytes(64) == 4096 / 16 * 4096 / 64 * 64);
  const i64 with = device::gemm_workspace_bytes(4096, 4096, 4096),
            without = device::gemm_workspace_bytes(4096, 4096, 4032);
  CHECK(with - without > certified_strips::in(nullptr, 4096, 4096).bytes(64));
}

TEST_CASE("device gemm way: by blocks where few sums of 64 products are exact, and only there",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  const auto in_f32 = [](kind of_a, kind of_b) {
    auto c = case_of(of_a, of_b);
    gemm_steps steps;
    CHECK(same_bits(c.on_device(blackwell_gemm{&steps}), c.on_host(cpu_gemm{})));
    return steps.in_f32;
  };
  constexpr i64 all = 300 * 400 * 64;
  CHECK(in_f32(kind::lognormal_blocks, kind::gaussian) == 0);
  CHECK(in_f32(kind::gaussian, kind::gaussian) == all);
  CHECK(in_f32(kind::student_2, kind::student_2) > all * 29 / 30);
  CHECK(in_f32(kind::outliers, kind::outliers) > all * 9 / 10);  // scales differ much, and sums are exact
  // Many sums are inexact, those of the same steps.
  const sample_sums tokens = check_samples(case_of(kind::lognormal_tokens, kind::lognormal_tokens));
  CHECK(tokens.share() > share_by_blocks);
  CHECK(tokens.alike() > 0.25f);
  CHECK(in_f32(kind::lognormal_tokens, kind::lognormal_tokens) > all / 2);
}

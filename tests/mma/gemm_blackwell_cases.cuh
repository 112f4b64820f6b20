// SPDX-License-Identifier: Apache-2.0
// Cases of a GEMM with Blackwell's bits, for any kernel: every bit of D is compared with the chained model's,
// and how the steps were added. `Gemm{counted}` is handed to a gemm_case.
#pragma once

#include <algorithm>

#include "cpu_gemm.hpp"
#include "gemm_case.cuh"
#include "gemm_limits.hpp"
#include "gemm_random.hpp"
#include "gemm_table.hpp"

namespace fourscale::test {

/// Whether it adds products of 64 values where it can prove that their sums are exact.
template <class Gemm>
constexpr bool certifies() {
  if constexpr (requires { Gemm::certifies; })
    return Gemm::certifies;
  else
    return true;
}

template <class Gemm, class F, class LA, class LB, class T>
void check_gemm(std::vector<gemm_options> const& list, Gemm const& gemm = {}) {
  if (!gpu_or_warn()) return;
  for (gemm_options const& o : list) {
    INFO(F::name << ' ' << o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
    gemm_case<F, LA, F, LB, T> c(o);
    CHECK(same_bits(c.on_device(gemm), c.oracle()));
  }
}

/// The table's shapes with any codes and scales.
template <class Gemm>
void check_shapes() {
  check_gemm<Gemm, nvfp4, linear, linear, float>(shapes_of_table());
  check_gemm<Gemm, nvfp4, swizzled_128x4, swizzled_128x4, bf16>(shapes_of_table());
}

/// The table of shapes and kinds.
template <class Gemm, class F>
void check_table() {
  if (!gpu_or_warn()) return;
  for_each_of_table<F>([](auto c, std::vector<float> const& sums) {
    gemm_steps steps;
    CHECK(same_bits(c.on_device(Gemm{&steps}), c.output_of(sums)));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 64));
  });
}

/// Scales that begin at any address: words of four are for those at multiples of four only.
template <class Gemm>
void check_scale_addresses() {
  if (!gpu_or_warn()) return;
  for (const i64 start : {1, 2, 4}) {
    INFO(start);
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, float> c({70, 50, 1104});
    const auto at_start = [start](std::vector<u8> scales) {
      scales.insert(scales.begin(), static_cast<size_t>(start), u8{0xff});
      return device_buffer<u8>(scales);
    };
    const device_buffer<u8> of_a = at_start(c.a.data.scales), of_b = at_start(c.b.data.scales);
    const auto gemm = [&](auto a, auto b, auto const& d, gemm_factors factors) {
      a.scales = of_a.data() + start, b.scales = of_b.data() + start;
      return Gemm{}(a, b, d, factors);
    };
    CHECK(same_bits(c.on_device(gemm), c.oracle()));
  }
}

/// Tiles in both directions, more than a GPU has processors.
template <class Gemm>
void check_many_tiles() {
  using enum amax_from;
  check_gemm<Gemm, nvfp4, swizzled_128x4, swizzled_128x4, bf16>(
      {{300, 400, 640, {1.1f, 0.0f}, 0, 0, 0, rows, rows},
       {515, 777, 2064},
       {1111, 1300, 512},
       {1500, 1300, 64}});
}

/// D, of each of these types, as each way to store it takes it: whole tiles and parts, rows apart. FP16 is
/// stored as bf16 is, so without beta only.
template <class Gemm, class... T>
void check_outputs() {
  const std::vector<gemm_options> list{{128, 192, 64},
                                       {130, 200, 64},
                                       {17, 72, 128, {}, 8},
                                       {143, 584, 64, {0.7f, 0.0f}, 16},
                                       {150, 390, 64},
                                       {150, 390, 64, {}, 2},
                                       {150, 390, 64, {}, 1},
                                       {70, 391, 128, {}, 1},
                                       {9, 7, 64, {2.0f, 0.0f}, 1}};
  std::vector<gemm_options> with_beta = list;
  for (gemm_options& o : with_beta) o.factors.beta = -0.75f;
  const auto check = [&]<class Output>(Output) {
    check_gemm<Gemm, nvfp4, linear, linear, Output>(list);
    if (!same_type<Output, fp16>) check_gemm<Gemm, nvfp4, linear, linear, Output>(with_beta);
  };
  (check(T{}), ...);
}

/// Some steps of some rows or columns that no certificate proves, among Gaussian ones: at both ends of runs
/// and windows, behind the first window, and in more tiles than a GPU works on at once. D is FP32: bits that
/// a step loses would not be seen in bf16.
template <class Gemm>
void check_hard_steps() {
  if (!gpu_or_warn()) return;
  constexpr i64 m = 1300, n = 2712, k = 34 * 64;
  auto c = nvfp4_case(operand<nvfp4, linear>(kind::gaussian, m, k, 1),
                      operand<nvfp4, linear>(kind::gaussian, n, k, 2));
  const auto spread = [&](auto& x, i64 row, i64 step) {  // scales of a step between 2^-9 and 448
    for (i64 block = 0; block < 4; ++block)
      x.data.scales[static_cast<size_t>((row * 34 + step) * 4 + block)] = block % 2 == 0 ? 0x01 : 0x7e;
  };
  for (const i64 step : {0, 5, 30, 31, 32, 33}) spread(c.a, 16 * 40 + step % 16, step);
  for (const i64 step : {7, 33}) spread(c.b, 8 * 300 + step % 8, step);
  gemm_steps steps;
  const std::vector<float> want = c.on_host(cpu_gemm{});
  CHECK(same_bits(c.on_device(Gemm{&steps}), want));
  CHECK(steps.in_f32 + steps.in_double + steps.by_model == m * n * 34);
  CHECK(steps.in_double + steps.by_model > 0);
  CHECK((certifies<Gemm>() ? steps.in_f32 > m * n * 33 : steps.in_f32 == 0));
}

template <class Gemm>
void check_all_scales() {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({140, 200, 960});
  for (size_t i = 0; i < c.a.data.scales.size(); ++i) c.a.data.scales[i] = static_cast<u8>(mix(i) >> 8);
  CHECK(same_bits(c.on_device(Gemm{}), c.oracle()));
}

/// The same for MXFP4, whose scales may be far from 1.
template <class Gemm>
void check_all_mx_scales() {
  if (!gpu_or_warn()) return;
  gemm_case<mxfp4, linear, mxfp4, linear, float> d({140, 200, 960});
  for (size_t i = 0; i < d.a.data.scales.size(); ++i) d.a.data.scales[i] = static_cast<u8>(mix(i) >> 8);
  for (size_t i = 0; i < d.b.data.scales.size(); ++i)
    d.b.data.scales[i] = static_cast<u8>(mix(i + 77) % 8 == 0 ? mix(i) >> 8 : 127);
  CHECK(same_bits(d.on_device(Gemm{}), d.oracle()));
  // Blocks of zeros: a far scale of theirs may be certified, and drops what is small beside it.
  for (size_t i = 0; i < d.a.data.scales.size(); ++i)
    if (mix(i + 5) % 2 == 0)
      std::fill_n(d.a.data.codes.begin() + static_cast<std::ptrdiff_t>(16 * i), 16, u8{0});
    else
      d.a.data.scales[i] = 127;
  CHECK(same_bits(d.on_device(Gemm{}), d.oracle()));
}

template <class Gemm>
void check_kinds() {
  if (!gpu_or_warn()) return;
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << name_of(what) << " and " << name_of(other));
      auto c =
          nvfp4_case(operand<nvfp4, linear>(what, 150, 1024, 1), operand<nvfp4, linear>(other, 210, 1024, 2));
      gemm_steps steps;
      CHECK(same_bits(c.on_device(Gemm{&steps}), c.oracle()));
      CHECK(steps.in_f32 + steps.in_double + steps.by_model == 150 * 210 * 16);
      if (what == kind::lognormal_blocks || !certifies<Gemm>()) CHECK(steps.in_double > 0);
      if (!certifies<Gemm>()) {
        CHECK(steps.in_f32 == 0);
        continue;
      }
      if (what == kind::gaussian || what == kind::zero_rows || what == kind::lognormal_rows)
        CHECK(steps.in_f32 == 150 * 210 * 16);
      if (what == kind::lognormal_steps) CHECK(steps.in_f32 > 0);
    }
}

/// As the CPU's test of that name: the least products there are, and a block of zeros under a large scale,
/// which makes the adder drop what lies 35 bits below, in the same step or in the next one. Groups of 16 rows
/// and 8 columns have a scale each, and so a certificate each; or only the lower eight of each 16 rows.
template <class Gemm>
void check_lowest_bits() {
  if (!gpu_or_warn()) return;
  constexpr u8 least = 0x01, one = 0x38;  // 2^-9, 1
  const auto large = [](size_t group) { return static_cast<u8>((4 + group + 7) << 3); };
  for (const bool same_step : {true, false})
    for (const bool lower_eight : {false, true}) {
      host_buffer<nvfp4> a(80, 256, amax_value(2688.0f)), b(40, 256, amax_value(2688.0f));
      const auto fill = [&](host_buffer<nvfp4>& q, size_t row, u8 scale, u8 code) {
        q.codes[row * 128] = code;
        q.scales[row * 16] = least;
        q.scales[row * 16 + (same_step ? 1 : 4)] = scale;
      };
      for (size_t row = 0; row < 80; ++row)
        fill(a, row, lower_eight && row % 16 < 8 ? one : large(row / 16), 0x01);
      for (size_t row = 0; row < 40; ++row) fill(b, row, large(row / 8), row % 2 == 0 ? 0x01 : 0x09);
      auto c = nvfp4_case(a, b);
      gemm_steps steps, on_host;
      const std::vector<float> want = c.on_host(cpu_gemm{&on_host});
      CHECK(same_bits(want, c.oracle()));
      CHECK(same_bits(c.on_device(Gemm{&steps}), want));
      if (!lower_eight && certifies<Gemm>()) CHECK(steps.by_model == on_host.by_model);
      CHECK(steps.by_model > 0);
    }
}

/// In each step the least product there is, and a block of zeros, which in some steps has a large scale: it
/// makes the adder drop what lies 35 bits below, so that D tells which steps have one.
template <class Gemm>
void check_drops_of_steps() {
  if (!gpu_or_warn()) return;
  constexpr i64 m = 515, n = 777, steps_of_row = 32;
  constexpr u8 least = 0x01;  // 2^-9
  host_buffer<nvfp4> a(m, 64 * steps_of_row, amax_value(2688.0f)),
      b(n, 64 * steps_of_row, amax_value(2688.0f));
  const auto fill = [](host_buffer<nvfp4>& q, i64 rows, i64 in_group) {
    for (i64 row = 0; row < rows; ++row)
      for (i64 step = 0; step < steps_of_row; ++step) {
        const size_t at = static_cast<size_t>(row * steps_of_row + step);
        q.codes[32 * at] = 0x01;
        q.scales[4 * at] = least;
        q.scales[4 * at + 1] =
            7 * step % 11 < 5 ? static_cast<u8>((4 + row / in_group % 5 + 7) << 3) : least;  // 16 to 256
      }
  };
  fill(a, m, 16), fill(b, n, 8);
  auto c = nvfp4_case(a, b);
  gemm_steps steps;
  const std::vector<float> want = c.on_host(cpu_gemm{});
  CHECK(same_bits(c.on_device(Gemm{&steps}), want));
  CHECK(steps.by_model > 0);
}

/// large_accumulators() and single_large_accumulators() of gemm_limits.hpp.
template <class Gemm>
void check_large_accumulators() {
  if (!gpu_or_warn()) return;
  auto large = large_accumulators(), single = single_large_accumulators(), none = scales_of_some_eights();
  for (auto* c : {&large, &single, &none}) CHECK(same_bits(c->on_device(Gemm{}), c->oracle()));
}

/// rows_of_many_sizes() of gemm_limits.hpp. If exact sums are added wherever accumulators allow it, no step
/// has to be made again for the rows' different sizes.
template <class Gemm>
void check_rows_of_many_sizes() {
  if (!gpu_or_warn()) return;
  for (const bool drops : {false, true}) {
    auto c = rows_of_many_sizes(drops);
    gemm_steps steps;
    CHECK(same_bits(c.on_device(Gemm{&steps}), c.oracle()));
    if (!certifies<Gemm>()) continue;
    const i64 again = drops ? 4 * 16 * c.o.n * 16 : 0;  // at most: strips of 16 rows
    CHECK(steps.in_f32 >= c.o.m * c.o.n * 16 - again);
    CHECK((steps.by_model > 0) == drops);
  }
}

/// Large products cancel, and the least one is left: a sum of 64 in f32 is 0 instead. It is one bit too wide
/// for a certificate. In a step one row of each 128, or one column of each 192, is so; all others are easy.
/// The fifth step has such a row in the lower half of a tile, and none in the upper half. The second one is
/// empty: what the others give just fits into f32.
template <class Gemm>
void check_cancelling() {
  if (!gpu_or_warn()) return;
  constexpr i64 m = 300, n = 400, k = 320;
  const auto fill = [](host_buffer<nvfp4>& q, i64 row, i64 hard_step) {
    for (i64 block = 0; block < k / 16; ++block) {
      const bool hard = block / 4 == hard_step, empty = block / 4 == 1;
      const i64 at = row * (k / 16) + block;
      // 0.5; 6, 6 and 6 under 1; or 0.5 under 2^-9; 6 and 6 under 8; -6 under 16.
      constexpr u8 easy_scales[4] = {0x38, 0x38, 0x38, 0x38}, hard_scales[4] = {0x01, 0x50, 0x50, 0x58};
      q.scales[static_cast<size_t>(at)] = (hard ? hard_scales : easy_scales)[block % 4];
      const u8 both = empty || block % 4 == 0 ? 0x00 : hard && block % 4 == 3 ? 0xff : 0x77;
      std::fill_n(q.codes.begin() + static_cast<std::ptrdiff_t>(8 * at), 8, both);
      if (!empty && block % 4 == 0) q.codes[static_cast<size_t>(8 * at)] = 0x01;
    }
  };
  host_buffer<nvfp4> a(m, k, amax_value(2688.0f)), b(n, k, amax_value(2688.0f));
  for (i64 row = 0; row < m; ++row) fill(a, row, row % 128 == 12 ? 0 : row % 128 == 99 ? 4 : -1);
  for (i64 row = 0; row < n; ++row) fill(b, row, row % 192 == 13 ? 2 : row % 192 == 141 ? 3 : -1);
  auto c = nvfp4_case(a, b);
  gemm_steps steps;
  const std::vector<float> want = c.on_host(cpu_gemm{});
  constexpr float of_easy_steps = 3 * (0.25f + 3 * 16 * 36);
  CHECK(want[12 * n] == of_easy_steps + 0x1p-11f);  // more than what f32 would sum up
  CHECK(want[99 * n + 1] == of_easy_steps + 0x1p-11f);
  CHECK(want[13] == of_easy_steps + 0x1p-11f);
  CHECK(same_bits(c.on_device(Gemm{&steps}), want));
  CHECK(steps.in_double > 0);
  CHECK(steps.by_model == 0);
  CHECK((steps.in_f32 > 0) == certifies<Gemm>());
}

template <class Gemm>
void check_large() {
  if (!gpu_or_warn()) return;
  for (const kind what : {kind::gaussian, kind::student_2}) {
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16> c({1500, 1700, 4096});
    c.a.data = gemm_operand_data<nvfp4, swizzled_128x4>(operand<nvfp4, swizzled_128x4>(what, 1500, 4096, 1));
    c.b.data = gemm_operand_data<nvfp4, swizzled_128x4>(operand<nvfp4, swizzled_128x4>(what, 1700, 4096, 2));
    const std::vector<bf16> want = c.on_host(cpu_gemm{});
    CHECK(same_bits(c.on_device(Gemm{}), want));
  }
}

/// Shapes, outputs, scales, data and accumulators.
template <class Gemm>
void check_each() {
  check_shapes<Gemm>();
  check_outputs<Gemm, bf16, fp16, float>();
  check_all_scales<Gemm>();
  check_all_mx_scales<Gemm>();
  check_kinds<Gemm>();
  check_lowest_bits<Gemm>();
  check_large_accumulators<Gemm>();
}

/// GEMMs drawn at random, compared with the CPU's: of the first `count` seeds, or of `all` if the test is
/// exhaustive. `gemm_for(d, c, steps)`: the GEMM for case c, drawn too; it counts to `steps`.
template <class F, class Layout, class T>
void check_random(u64 count, u64 all, auto const& gemm_for) {
  if (!gpu_or_warn()) return;
  for_random_gemms<F, F, Layout, T>(count, all, 700, 4096, [&](auto& c, u64 seed) {
    dice d(seed + 1'000'000);
    gemm_steps steps;
    CHECK(same_bits(c.on_device(gemm_for(d, c, &steps)), c.on_host(cpu_gemm{})));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 64));
  });
}

}  // namespace fourscale::test

// SPDX-License-Identifier: Apache-2.0
// Decoded operands of a GEMM are what the model says: values, exponents of scales, bounds and magnitudes.
#include <algorithm>
#include <cmath>
#include <fourscale/device/gemm_decode.cuh>
#include <fourscale/host/gemm_step.hpp>

#include "mma/decoded_on_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// What is found wrong with an operand. Sums of squares may be rounded in another order, so a width or a span
/// may now and then differ by one: `bytes` counts them all, `others` those that differ.
struct mistakes {
  i64 values = 0, exponents = 0, bounds = 0, depths = 0, magnitudes = 0, bytes = 0, others = 0;

  void compare(u8 is, u8 expected) {
    constexpr u8 unbounded = model::unbounded;
    ++bytes, others += is != expected;
    bounds += is + 1 < expected || is > expected + 1 ||
              (is != expected && (is == unbounded || expected == unbounded));
  }
  void check() const {
    CHECK(values == 0);
    CHECK(exponents == 0);
    CHECK(bounds == 0);
    CHECK(depths == 0);
    CHECK(magnitudes == 0);
  }
};

/// One row in one step, as the model has it.
template <class F>
struct row_of_model {
  using steps_of = host::detail::steps_of_64<F>;
  float values[64];
  model::known_bounds bounds;
  u32 scales;

  template <class L>
  row_of_model(block_scaled_view<F, L> const& q, i64 row, i64 step, typename steps_of::state& before) {
    const auto packed = steps_of::read(q, row, step);
    bounds = steps_of::decode(packed, before, values);
    scales = packed.scales;
  }
  /// Values and exponents of this row and step. Each eight values lie in the order 0 4 1 5 2 6 3 7.
  void compare(decoded_on_host const& x, i64 row, i64 step, mistakes& wrong) const {
    for (int i = 0; i < 64; ++i) {
      const i64 place = row * x.of.padded_k() + 64 * step + i / 8 * 8 + i % 4 * 2 + i % 8 / 4;
      const float is = to_float(x.values[static_cast<size_t>(place)]);
      const bool nan = std::isnan(values[i]);
      wrong.values += nan ? !std::isnan(is) : bit_cast<u32>(is) != bit_cast<u32>(values[i]);
    }
    for (int i = 0; i < 4; ++i) {
      using scale = typename F::scale;
      const model::scale_parts of(scale{static_cast<u8>(scales >> (8 * (i * 16 / F::block_size)))});
      wrong.exponents += x.exponents[static_cast<size_t>(row * x.of.row_exponents() + 4 * step + i)] !=
                         (of.nan ? mma::nan_exponent : of.exponent);
    }
  }
};

/// The magnitudes of eight rows in a step: `is`. Those of rows without bounds are of no use.
template <class F>
void compare_magnitudes(std::vector<row_of_model<F>> const& rows, u32 width, model::step_magnitudes const& is,
                        mistakes& wrong) {
  if (width == model::unbounded) return;
  for (int i = 0; i < 64; ++i) {
    double most = 0;
    for (auto const& row : rows) {
      const int lowest = model::scale_parts::most - row.bounds.of_accumulators.depth,
                unit = lowest + static_cast<int>(model::magnitude_exponent(width));
      const double magnitude = std::fabs(static_cast<double>(row.values[i]));
      most = std::max(most, std::ceil(std::ldexp(magnitude, -unit)));
    }
    wrong.magnitudes += is.codes[i] != most;
  }
}

template <class F, class L>
void check_operand(block_scaled_view<F, L> const& q, decoded_on_host const& x, mistakes& wrong) {
  for (i64 group = 0; group < x.of.row_groups(); ++group) {
    typename row_of_model<F>::steps_of::state before[8];
    for (i64 step = 0; step < x.of.steps; ++step) {
      const model::step_bounds bounds = x.bounds_at(group, step);
      const model::accumulator_bounds with_sums = x.of_accumulators_at(group, step);
      std::vector<row_of_model<F>> rows;
      model::step_bounds of_eight;
      model::accumulator_bounds of_accumulators;
      for (int i = 0; i < 8; ++i) {
        auto const& row = rows.emplace_back(q, 8 * group + i, step, before[i]);
        if (8 * group + i < x.of.rows) row.compare(x, 8 * group + i, step, wrong);
        auto const& known = row.bounds.of_accumulators;
        of_eight.add(row.bounds.step);
        of_accumulators.span = std::max(of_accumulators.span, known.span);
        of_accumulators.depth = std::max(of_accumulators.depth, known.depth);
        wrong.depths += x.depths_at(group, step).of_row[i] != known.depth;
      }
      wrong.compare(bounds.width, of_eight.width);
      wrong.compare(bounds.span, of_eight.span);
      wrong.bounds += with_sums.span != of_accumulators.span || with_sums.depth != of_accumulators.depth;
      compare_magnitudes(rows, bounds.width, x.magnitudes_at(group, step), wrong);
    }
  }
}

/// Checks both operands of a case, in memory that is full of ones before.
template <class F, class LA, class LB>
void check_decoded(gemm_case<F, LA, F, LB, bf16> c, mistakes& wrong) {
  const device_gemm_operand<F, LA> a(c.a);
  const device_gemm_operand<F, LB> b(c.b);
  const i64 size = decoded_bytes<mma::decoded_operand>(a.view, b.view);
  const device_buffer<u8> workspace(std::vector<u8>(static_cast<size_t>(size), u8{0xff}));
  const device::detail::decoded_call<F, LA, F, LB, device::detail::decoded_pair> call(a.view, b.view, {},
                                                                                      workspace.data());
  REQUIRE(call.decode(nullptr) == errc::ok);
  check_operand(c.a.data.view(), decoded_on_host(call.p.a), wrong);
  check_operand(c.b.data.view(), decoded_on_host(call.p.b), wrong);
  INFO("K = " << a.view.cols);
  wrong.check();
}

}  // namespace

TEST_CASE("device gemm decode: operands are what the model says", "[device][gemm]") {
  if (!gpu_or_warn()) return;
  mistakes wrong;
  for (const i64 k : {16, 48, 1024, 1040, 2048, 2064, 4112, 8192})
    for (kind what : {kind::gaussian, kind::student_2, kind::lognormal_blocks, kind::zero_rows})
      check_decoded(case_of_kinds<nvfp4, linear, swizzled_128x4>(what, kind::channels_50, 21, 9, k), wrong);
  for (const i64 k : {32, 992, 2080, 3104})
    check_decoded(
        case_of_kinds<mxfp4, swizzled_128x4, linear>(kind::student_2, kind::lognormal_steps, 70, 8, k),
        wrong);
  CHECK(wrong.others * 200 < wrong.bytes);
}

TEST_CASE("device gemm decode: all scales, NaN among them", "[device][gemm]") {
  if (!gpu_or_warn()) return;
  mistakes wrong;
  const auto check = [&](auto c) {  // each scale in its own row, in the last of 33 steps
    const auto set = [&](auto& data) {
      const auto q = data.view();
      for (i64 row = 0; row < data.rows; ++row) q.store_scale(row, q.blocks() - 1, {static_cast<u8>(row)});
    };
    set(c.a.data), set(c.b.data);
    check_decoded(c, wrong);
  };
  check(gemm_case<nvfp4, linear, nvfp4, swizzled_128x4, bf16>({256, 256, 33 * 64}));
  check(gemm_case<mxfp4, linear, mxfp4, swizzled_128x4, bf16>({256, 256, 33 * 64}));
  CHECK(wrong.others * 200 < wrong.bytes);
}

// SPDX-License-Identifier: Apache-2.0
// A linear layer on the CPU with memory of its own, and what it should give: an emulation in double from the
// values of host::fake_quantize, which knows nothing of layers, copies in one call, or GEMMs on codes.
#pragma once

#include <cmath>
#include <fourscale/recipe/fake_quantize.hpp>
#include <fourscale/recipe/linear_host.hpp>
#include <fourscale/recipe/presets.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

namespace fourscale::test {

/// te_nvfp4 with signs of the caller's key.
constexpr linear_recipe te_with_drawn_signs() {
  linear_recipe r = presets::te_nvfp4().linear;
  r.wgrad.a.signs = r.wgrad.b.signs = sign_source::drawn;
  return r;
}

/// mxfp8 with E5M2 for dY, which meets E4M3.
constexpr linear_recipe mxfp8_with_e5m2_gradients() {
  linear_recipe r = presets::mxfp8().linear;
  r.dgrad.a.format = r.wgrad.a.format = format_name::mxfp8_e5m2;
  return r;
}

template <class T>
std::vector<T> random_values(i64 count, u64 seed, float size = 1.0f) {
  std::vector<T> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = from_float<T>(size * gaussian(i + (seed << 32)));
  return x;
}

/// A layer's memory, tensors and matrices. W is float, X and dY are bf16.
template <linear_recipe R, class L = linear>
struct linear_case {
  using layer = host::linear_layer<R, L>;
  linear_shape s;
  linear_bytes n = layer::bytes(s);
  std::vector<u8> weights = bytes(n.weights), saved = bytes(n.saved), workspace = bytes(n.workspace);
  std::vector<bf16> x = random_values<bf16>(s.tokens * s.in, 1),
                    dy = random_values<bf16>(s.tokens * s.out, 2);
  std::vector<float> w = random_values<float>(s.out * s.in, 3, 0.1f);
  std::vector<bf16> y = std::vector<bf16>(dy.size()), dx = std::vector<bf16>(x.size());
  std::vector<float> dw = std::vector<float>(w.size());
  draw_key key{5, 1, 17, 0};
  typename layer::tensors t;

  explicit linear_case(linear_shape shape) : s(shape) { REQUIRE(place() == errc::ok); }

  static std::vector<u8> bytes(i64 count) { return std::vector<u8>(static_cast<size_t>(count), u8{0xa5}); }
  static linear_memory all_of(std::vector<u8>& v) { return {v.data(), static_cast<i64>(v.size())}; }
  errc place() { return layer::place(s, all_of(weights), all_of(saved), all_of(workspace), &t); }

  matrix_view<bf16 const> in_x() const { return {x, s.tokens, s.in}; }
  matrix_view<float const> in_w() const { return {w, s.out, s.in}; }
  matrix_view<bf16 const> in_dy() const { return {dy, s.tokens, s.out}; }
  matrix_view<bf16> out_y() { return {y, s.tokens, s.out}; }
  matrix_view<bf16> out_dx() { return {dx, s.tokens, s.in}; }
  matrix_view<float> out_dw() { return {dw, s.out, s.in}; }

  errc forward() { return layer{}.forward(in_x(), in_w(), key, &t, out_y()); }
  errc backward(float beta = 0.0f) { return layer{}.backward(in_dy(), key, &t, out_dx(), out_dw(), beta); }
};

/// The values of an operand of a GEMM, [rows, K], in the coordinates of its transform.
template <class T>
std::vector<float> operand_values(operand_recipe const& o, operand_place const& at, matrix_view<T const> m) {
  const bool t = o.copy == copy_kind::columnwise;
  const auto size = static_cast<size_t>(m.rows * m.cols);
  std::vector<float> values(size);
  std::vector<u8> codes(size), scales(size);
  float amax = 0;
  fake_quantize_buffers b{codes.data(), scales.data(), &amax};
  const matrix_view<float> to{values, t ? m.cols : m.rows, t ? m.rows : m.cols};
  REQUIRE(host::fake_quantize(o, o, at, m, to, b) == errc::ok);
  return values;
}

/// What the layer's GEMM should give, and by how much f32 may be off: a step of K = 64 drops less than five
/// units of 2^-35 of the largest product of scales, one of K = 32 less than 33 of 2^-25 of its largest
/// product or the accumulator, and both one of 2^-23 of the sum; the factor has five roundings. Then the
/// rounding of D.
struct expected {
  std::vector<double> values, bounds;

  expected(std::vector<float> const& a, std::vector<float> const& b, i64 m, i64 n, i64 k, bool to_bf16,
           int step = 64) {
    const double steps = static_cast<double>((k + step - 1) / step), largest = amax_of(a) * amax_of(b);
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < n; ++j) {
        double sum = 0, all = 0;
        for (i64 l = 0; l < k; ++l) {
          const double p = static_cast<double>(a[static_cast<size_t>(i * k + l)]) *
                           static_cast<double>(b[static_cast<size_t>(j * k + l)]);
          sum += p, all += std::fabs(p);
        }
        const double dropped = step == 64 ? 5 * 0x1p-35 * largest : 33 * 0x1p-25 * std::fmax(largest, all),
                     in_f32 = all * (steps * 0x1p-23 + 6 * 0x1p-24) + steps * dropped;
        values.push_back(sum);
        bounds.push_back(in_f32 + (to_bf16 ? 0x1.01p-8 : 0x1p-24) * (std::fabs(sum) + in_f32));
      }
  }
  static double amax_of(std::vector<float> const& v) {
    double most = 0;
    for (const float x : v) most = std::fmax(most, std::fabs(static_cast<double>(x)));
    return most;
  }

  /// How many elements are off by more than that.
  template <class T>
  int outside(std::vector<T> const& got) const {
    REQUIRE(got.size() == values.size());
    int count = 0;
    for (size_t i = 0; i < got.size(); ++i)
      count += !(std::fabs(static_cast<double>(to_float(got[i])) - values[i]) <= bounds[i]);
    return count;
  }
};

/// How many products a step of the layer's GEMMs adds.
template <linear_recipe R>
inline constexpr int step_of = model::has_steps_of_32<format_of<R.fprop.a>, format_of<R.fprop.b>> ? 32 : 64;

template <linear_recipe R, class L>
expected expected_y(linear_case<R, L> const& c) {
  return {operand_values(R.fprop.a, {c.key, tensor_role::activation, 0}, c.in_x()),
          operand_values(R.fprop.b, {c.key, tensor_role::weight, 0}, c.in_w()),
          c.s.tokens,
          c.s.out,
          c.s.in,
          true,
          step_of<R>};
}
template <linear_recipe R, class L>
expected expected_dx(linear_case<R, L> const& c) {
  return {operand_values(R.dgrad.a, {c.key, tensor_role::gradient, 1}, c.in_dy()),
          operand_values(R.dgrad.b, {c.key, tensor_role::weight, 1}, c.in_w()),
          c.s.tokens,
          c.s.in,
          c.s.out,
          true,
          step_of<R>};
}
template <linear_recipe R, class L>
expected expected_dw(linear_case<R, L> const& c) {
  return {operand_values(R.wgrad.a, {c.key, tensor_role::gradient, 2}, c.in_dy()),
          operand_values(R.wgrad.b, {c.key, tensor_role::activation, 2}, c.in_x()),
          c.s.out,
          c.s.in,
          c.s.tokens,
          false,
          step_of<R>};
}

}  // namespace fourscale::test

// SPDX-License-Identifier: Apache-2.0
// The law of views for groups of rows: each by group_of() and the view that quantize_grouped() got.
#pragma once

#include <algorithm>

#include "amax_law.hpp"

namespace fourscale::test::law {

template <class Machine, class F, class Layout, class Recipe>
class groups_case {
  static constexpr i64 rows = 106, count = 5;
  const std::vector<i64> offsets{0, 5, 5, 37, 69, 105};  // the last row belongs to none

  Recipe recipe;
  values<Machine> x{rows, 3}, w{17, 4};
  std::vector<float> t = x.template transformed<F>(recipe), tw = w.template transformed<F>(recipe);
  std::vector<float> of_groups = amax_of_each();
  amaxes<Machine, F> of_rows{given::rows, t, rows, recipe}, of_w{given::one, tw, w.rows, recipe};
  typename Machine::template memory<float> of_groups_copy{of_groups};
  typename Machine::template memory<i64> offsets_copy{offsets};
  row_groups groups{offsets_copy.data(), count};
  quantized<Machine, F, Layout> qw{w.rows, cols, {of_w.reference, recipe}};
  std::vector<float> values_w;

  std::vector<float> amax_of_each() const {
    std::vector<float> amax(count, 0.0f);
    for (std::size_t g = 0; g < amax.size(); ++g)
      for (i64 i = offsets[g] * cols; i < offsets[g + 1] * cols; ++i)
        amax[g] = std::max(amax[g], std::abs(t[size(i)]));
    return amax;
  }
  float largest() const { return *std::max_element(of_groups.begin(), of_groups.end()); }

  /// By the scaling rule, for a row of the packed matrix.
  tensor_scale<F> scale_of(amax_kind kind, i64 group, i64 row) const {
    if constexpr (!F::has_tensor_scale)
      return {};
    else if (kind == amax_kind::per_row)
      return of_rows.of_row[size(row)];
    else
      return rule<F>(recipe, kind == amax_kind::per_group ? of_groups[size(group)] : largest());
  }

  void check_refusals(quantized<Machine, F, Layout>& q, amax_reference amax) {
    if constexpr (F::has_tensor_scale) {
      CHECK(Machine::quantize_grouped(x.view(), q.view, groups, recipe) == errc::no_amax);
      tensor_range<F> half = rule<F>(recipe, 1.0f).range();
      half.largest *= 0.5f;
      q.view.amax = {amax, half};
      CHECK(Machine::quantize_grouped(x.view(), q.view, groups, recipe) == errc::other_range);
      CHECK(q.untouched());
    }
  }

  void check_group(i64 g, i64 scale_rows, quantized<Machine, F, Layout> const& q,
                   block_scaled_view<F, Layout> const& on_host) {
    const i64 first = offsets[size(g)], last = offsets[size(g + 1)];
    INFO("group " << g << ", amax of kind " << static_cast<int>(q.view.amax.kind));
    std::vector<tensor_scale<F>> scales;
    for (i64 row = first; row < last; ++row) scales.push_back(scale_of(q.view.amax.kind, g, row));
    const std::vector<float> part(t.begin() + first * cols, t.begin() + last * cols);
    const auto own = [&](auto const& view) { return group_of(view, g, first, last - first, scale_rows); };
    check_readers<Machine>(own(q.view), part, values_of(own(on_host), scales), qw.view, values_w);
  }

  void check(amax_reference amax) {
    quantized<Machine, F, Layout> q(rows, cols, {}, grouped_scale_bytes<F, Layout>(rows, cols, count));
    check_refusals(q, amax);
    q.view.amax = {amax, recipe};
    REQUIRE(Machine::quantize_grouped(x.view(), q.view, groups, recipe) == errc::ok);
    const bytes<Machine, F, Layout> of_q(q);
    i64 scale_rows = 0;
    for (i64 g = 0; g < count; ++g) {
      const i64 in_group = offsets[size(g + 1)] - offsets[size(g)];
      if (in_group > 0) check_group(g, scale_rows, q, of_q.view);
      scale_rows += Layout::padded_rows(in_group);
    }
    if (F::has_tensor_scale && amax.kind == amax_kind::per_group) {  // not of the whole matrix
      typename Machine::template memory<float> y(std::vector<float>(size(rows * cols)));
      CHECK(Machine::dequantize(q.view, matrix_view<float>{y.data(), rows, cols}) == errc::amax_of_groups);
    }
  }

 public:
  explicit groups_case(Recipe const& r) : recipe(r) {
    REQUIRE(Machine::quantize(w.view(), qw.view, recipe, blocks_1d{}) == errc::ok);
    values_w = values_of(bytes<Machine, F, Layout>(qw).view, of_w.of_row);
  }
  void run() {
    INFO(F::name << " in groups");
    check(amax_of_groups(of_groups_copy.data()));
    check(amax_of_rows(of_rows.copy.data()));
    check(amax_value(largest()));
  }
};

template <class Machine, class F, class Layout, class Recipe>
void check_groups(Recipe const& recipe) {
  groups_case<Machine, F, Layout, Recipe>(recipe).run();
}

}  // namespace fourscale::test::law

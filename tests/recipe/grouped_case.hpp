// SPDX-License-Identifier: Apache-2.0
// Experts on the CPU with memory of their own.
#pragma once

#include "recipe/linear_case.hpp"

namespace fourscale::test {

/// `count` elements from `first` on.
template <class T>
std::vector<T> part(std::vector<T> const& v, i64 first, i64 count) {
  return {v.begin() + first, v.begin() + first + count};
}

template <linear_recipe R, class L = linear>
struct grouped_case {
  using layer = host::grouped_linear_layer<R, L>;
  using case_alone = linear_case<R, L>;
  linear_shape all;
  std::vector<i64> offsets;
  i64 count = static_cast<i64>(offsets.size()) - 1;
  linear_bytes n = layer::bytes(all, count);
  std::vector<u8> weights = case_alone::bytes(n.weights), saved = case_alone::bytes(n.saved),
                  workspace = case_alone::bytes(n.workspace);
  std::vector<bf16> x = random_values<bf16>(all.tokens * all.in, 1),
                    dy = random_values<bf16>(all.tokens * all.out, 2);
  std::vector<float> w = random_values<float>(count * all.out * all.in, 3, 0.1f);
  std::vector<bf16> y = random_values<bf16>(all.tokens * all.out, 4),
                    dx = random_values<bf16>(all.tokens * all.in, 5);
  std::vector<float> dw = random_values<float>(count * all.out * all.in, 6);
  draw_key key{5, 1, 17, 0};
  std::vector<typename layer::tensors> t{static_cast<size_t>(count)};

  grouped_case(linear_shape shape, std::vector<i64> const& o) : all(shape), offsets(o) {
    REQUIRE(place(offsets) == errc::ok);
  }
  errc place(std::vector<i64> const& o) {
    return layer::place(all, {o.data(), static_cast<i64>(o.size()) - 1}, case_alone::all_of(weights),
                        case_alone::all_of(saved), case_alone::all_of(workspace), t.data());
  }
  typename layer::experts experts() { return {t.data(), count}; }
  i64 first_of(i64 expert) const { return offsets[static_cast<size_t>(expert)]; }
  i64 tokens_of(i64 expert) const { return first_of(expert + 1) - first_of(expert); }
  /// An expert that has tokens as a layer of its own, whose dW begins with the expert's of `dw_before`.
  case_alone alone(i64 expert, std::vector<float> const& dw_before) const {
    const i64 first = first_of(expert), tokens = tokens_of(expert), size = all.out * all.in;
    case_alone c({tokens, all.in, all.out});
    c.x = part(x, first * all.in, tokens * all.in);
    c.dy = part(dy, first * all.out, tokens * all.out);
    c.w = part(w, expert * size, size);
    c.dw = part(dw_before, expert * size, size);
    c.key = key.of_expert(static_cast<u32>(expert));
    return c;
  }

  matrix_view<bf16 const> in_x() const { return {x, all.tokens, all.in}; }
  matrix_view<float const> in_w() const { return {w, count * all.out, all.in}; }
  matrix_view<bf16 const> in_dy() const { return {dy, all.tokens, all.out}; }
  matrix_view<bf16> out_y() { return {y, all.tokens, all.out}; }
  matrix_view<bf16> out_dx() { return {dx, all.tokens, all.in}; }
  matrix_view<float> out_dw() { return {dw, count * all.out, all.in}; }

  errc forward() { return layer{}.forward(in_x(), in_w(), key, experts(), out_y()); }
  errc backward(bool add = false) {
    return layer{}.backward(in_dy(), key, experts(), out_dx(), out_dw(), add);
  }
};

}  // namespace fourscale::test

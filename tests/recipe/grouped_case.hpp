// SPDX-License-Identifier: Apache-2.0
// Experts on the CPU with memory of their own.
#pragma once

#include "recipe/linear_case.hpp"

namespace fourscale::test {

template <linear_recipe R, class L = linear>
struct grouped_case {
  using layer = host::grouped_linear_layer<R, L>;
  using alone = linear_case<R, L>;
  linear_shape all;
  std::vector<i64> offsets;
  i64 count = static_cast<i64>(offsets.size()) - 1;
  linear_bytes n = layer::bytes(all, count);
  std::vector<u8> weights = alone::bytes(n.weights), saved = alone::bytes(n.saved),
                  workspace = alone::bytes(n.workspace);
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
    return layer::place(all, {o.data(), static_cast<i64>(o.size()) - 1}, alone::all_of(weights),
                        alone::all_of(saved), alone::all_of(workspace), t.data());
  }
  typename layer::experts experts() { return {t.data(), count}; }

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

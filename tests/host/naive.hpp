// SPDX-License-Identifier: Apache-2.0
// The oracle of host::quantize: one block after the other, no runs, no bands. 1-D blocks go through
// quantize_block; 2-D ones are written out.
#pragma once

#include <fourscale/host/quantize.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

namespace fourscale::test {

inline std::size_t size(i64 n) { return static_cast<std::size_t>(n); }

/// n bytes at an odd address, with canaries on both sides.
class guarded_bytes {
  static constexpr i64 guard = 65;
  static constexpr u8 canary = 0x5a;
  std::vector<u8> all_;

 public:
  explicit guarded_bytes(i64 n) : all_(size(n + 2 * guard), canary) {}
  u8* data() { return all_.data() + guard; }
  i64 count() const { return static_cast<i64>(all_.size()) - 2 * guard; }
  u8 const* data() const { return all_.data() + guard; }
  bool canaries_live() const {
    i64 dead = 0;
    for (i64 i = 0; i < guard; ++i)
      dead += (all_[size(i)] != canary) + (all_[all_.size() - 1 - size(i)] != canary);
    return dead == 0;
  }
};

/// The first byte in which two buffers of the same size differ, or -1.
inline i64 first_difference(guarded_bytes const& a, guarded_bytes const& b) {
  for (i64 i = 0; i < a.count(); ++i)
    if (a.data()[i] != b.data()[i]) return i;
  return -1;
}

/// A quantized matrix that owns its bytes.
template <block_format F, scale_layout Layout>
struct output {
  guarded_bytes codes, scales;
  block_scaled_view<F, Layout> view;

  output(i64 rows, i64 cols)
      : codes(code_bytes<F>(rows, cols)),
        scales(scale_bytes<F, Layout>(rows, cols)),
        view(codes.data(), scales.data(), rows, cols) {
    view.code_capacity = codes.count(), view.scale_capacity = scales.count();
  }
  output(output const&) = delete;
  bool canaries_live() const { return codes.canaries_live() && scales.canaries_live(); }
};

enum class values { activations, ugly };

/// rows x cols values of T, `gap` elements between rows, one element off any larger alignment.
template <real T>
struct source {
  std::vector<T> all;
  matrix_view<T const> view;

  source(i64 rows, i64 cols, i64 gap, values kind) : all(size(1 + rows * (cols + gap)), T{}) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const u64 row = i / static_cast<u64>(cols + gap);
      all[i] = from_float<T>(kind == values::ugly ? ugly(i) : activation(row, i));
    }
    view = {all.data() + 1, rows, cols, cols + gap};
  }
  source(source const&) = delete;
};

/// The codes of one row of a block under a known multiplier.
template <block_format F, class Round>
void naive_codes(packed_block<F>& b, float const (&x)[F::block_size], float multiplier, Round const& round,
                 position where) {
  for (int i = 0; i < F::block_size; i += 4) {
    float scaled[4];
    for (int j = 0; j < 4; ++j) scaled[j] = x[i + j] * multiplier;
    const auto four = round(typename F::element{}, scaled, where.right(i));
    for (int j = 0; j < 4; ++j) b.set(i + j, four.get(j));
  }
}

/// Of two candidates, by the errors of the rows, added in pairs at distance n/2, ..., 2, 1.
template <block_format F, class Scale>
block_scale<F> naive_choice(std::vector<float> const& tile, float amax, Scale const& scale,
                            tensor_scale<F> const& tensor) {
  constexpr int n = F::block_size;
  block_scale<F> c[2]{};
  scale.candidates(F{}, amax, tensor, c);
  float sums[2];
  for (int k = 0; k < 2; ++k) {
    float e[n]{};
    for (std::size_t row = 0; row < tile.size() / n; ++row) {
      float x[n];
      for (std::size_t i = 0; i < n; ++i) x[i] = tile[row * n + i];
      e[row] = scale.error(F{}, x, c[k], tensor);
    }
    for (int d = n / 2; d > 0; d /= 2)
      for (int i = 0; i < d; ++i) e[i] = e[i] + e[i + d];
    sums[k] = e[0];
  }
  return c[sums[1] < sums[0] ? 1 : 0];
}

/// The tensor scale of a row by the rule of the recipe, whatever range the view names.
template <block_format F, class Layout, class Quantizer>
tensor_scale<F> naive_tensor_scale(block_scaled_view<F, Layout> const& q, Quantizer const& recipe, i64 row) {
  return tensor_scale_for<F>(recipe.scale,
                             q.amax.kind == amax_kind::per_row ? q.amax.data[row] : q.amax.value);
}

/// One tile of up to block_size rows, quantized under a common scale.
template <block_format F, class Layout, class M, class Quantizer>
void naive_tile(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& recipe, i64 row,
                i64 block) {
  constexpr i64 n = F::block_size;
  const i64 last = row + n < x.rows ? row + n : x.rows;
  std::vector<float> tile;
  float amax = 0;
  for (i64 i = row; i < last; ++i)
    for (i64 j = 0; j < n; ++j) {
      tile.push_back(to_float(x.at(i, block * n + j)));
      const float magnitude = tile.back() < 0 ? -tile.back() : tile.back();
      amax = magnitude > amax ? magnitude : amax;
    }
  const tensor_scale<F> tensor = naive_tensor_scale(q, recipe, row);
  block_scale<F> s;
  if constexpr (amax_scaling_policy<decltype(recipe.scale), F>)
    s = recipe.scale(F{}, amax, tensor);
  else
    s = naive_choice<F>(tile, amax, recipe.scale, tensor);
  for (i64 i = row; i < last; ++i) {
    packed_block<F> b{s.scale, {}};
    float values[n];
    for (i64 j = 0; j < n; ++j) values[j] = tile[size((i - row) * n + j)];
    naive_codes(b, values, s.multiplier, recipe.round, {i, block * n});
    q.store(i, block, b);
  }
}

/// What host::quantize must write, padding included.
template <class M, block_format F, class Layout, class Quantizer, class Blocks>
void naive_quantize(M const& x, output<F, Layout>& to, Quantizer const& recipe, Blocks) {
  constexpr i64 n = F::block_size;
  block_scaled_view<F, Layout> const& q = to.view;
  for (i64 i = 0; i < to.scales.count(); ++i) to.scales.data()[i] = 0;
  if constexpr (Blocks::is_2d) {
    for (i64 row = 0; row < x.rows; row += n)
      for (i64 block = 0; block < q.blocks(); ++block) naive_tile(x, q, recipe, row, block);
  } else {
    for (i64 row = 0; row < x.rows; ++row) {
      const tensor_scale<F> tensor = naive_tensor_scale(q, recipe, row);
      for (i64 block = 0; block < q.blocks(); ++block) {
        float values[n];
        for (i64 j = 0; j < n; ++j) values[j] = to_float(x.at(row, block * n + j));
        q.store(row, block, quantize_block<F>(values, recipe, tensor, {row, block * n}));
      }
    }
  }
}

/// host::quantize of x against the oracle: every byte of codes and scales, and no byte next to them.
template <block_format F, class Layout, class M, class Quantizer = quantizer<>, class Blocks = blocks_1d>
void check_quantize(M const& x, Quantizer const& recipe = {}, Blocks shape = {},
                    amax_reference amax = amax_value(300.0f)) {
  output<F, Layout> mine(x.rows, x.cols), expected(x.rows, x.cols);
  mine.view.amax = expected.view.amax = {amax, recipe};
  REQUIRE(host::quantize(x, mine.view, recipe, shape) == errc::ok);
  naive_quantize(x, expected, recipe, shape);
  CHECK(first_difference(mine.codes, expected.codes) == -1);
  CHECK(first_difference(mine.scales, expected.scales) == -1);
  CHECK(mine.canaries_live());
}

/// Rows of a quantized matrix that cross every boundary of the host loop: a run of 1024 values, a band of 64
/// rows, a tile of 32 or 16, each with some to spare.
template <block_format F>
inline constexpr i64 test_rows = F::block_size == 128 ? 131 : 69;
template <block_format F>
inline constexpr i64 test_cols = (1024 / F::block_size + 3) * F::block_size;

}  // namespace fourscale::test

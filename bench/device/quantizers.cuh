// SPDX-License-Identifier: Apache-2.0
// One measurement of a quantizer: rowwise, columnwise or both copies; of any format, layout, source and
// recipe; compared with the host, then timed and compared with the ceiling of its traffic.
#pragma once

#include <optional>

#include "check.cuh"
#include "data.cuh"

namespace bench {

/// What is quantized, and how.
struct setup {
  shape size;
  data::kind_of values = data::usual;
  i64 gap = 0;            ///< elements between rows
  i64 offset = 0;         ///< elements before the first
  bool row_amax = false;  ///< each row has an amax of its own
  bool graph = false;     ///< in a CUDA graph of eight calls
};

inline constexpr f4::quantizer nearest{};
inline constexpr f4::quantizer by_chance{f4::stochastic{f4::philox{1234, 1}}};
inline constexpr f4::quantizer by_other_chance{f4::stochastic{f4::philox{1234, 2}}};
inline constexpr f4::quantizer four_over_six{f4::nearest_even{}, f4::four_over_six{}};
inline constexpr f4::hadamard<16> rht{f4::te_signs};
inline constexpr f4::quantizer rht_nearest{f4::nearest_even{}, f4::two_level{}, rht};
inline constexpr f4::quantizer rht_by_chance{f4::stochastic{f4::philox{1234, 2}}, f4::two_level{}, rht};
inline constexpr f4::blocks_2d<16, 16> squares{};

/// A quantized matrix on the device, and the amax of x that it goes by.
template <class F, class Layout>
struct output {
  buffer<u8> codes, scales;
  buffer<float> amax;
  f4::block_scaled_view<F, Layout> q;

  template <class M, class Quantizer>
  output(M const& x, Quantizer const& recipe, bool of_rows = false)
      : codes(f4::code_bytes<F>(x.rows, x.cols)),
        scales(f4::scale_bytes<F, Layout>(x.rows, x.cols)),
        amax(of_rows ? x.rows : 1),
        q(codes.data(), scales.data(), x.rows, x.cols) {
    if constexpr (!F::has_tensor_scale) return;
    q.amax = {of_rows ? f4::amax_of_rows(amax.data()) : f4::amax_in(amax.data()), recipe};
    if (of_rows)
      require(f4::device::row_amax(x, amax.data()));
    else if constexpr (!__is_same(decltype(recipe.transform), f4::identity))
      require(f4::device::amax<F>(x, recipe.transform, amax.data()));
    else if constexpr (M::is_transposed)
      require(f4::device::amax(x.base, amax.data()));
    else
      require(f4::device::amax(x, amax.data()));
  }
};

/// What ceiling_kernel writes for 16 values in place of `Copies` copies in format F.
template <class F, int Copies>
struct traffic {
  static constexpr int codes = Copies * f4::block_code_bytes<F> * 16 / F::block_size;
  static constexpr int scales_of_32 = Copies * f4::block_scale_bytes<F> * 32 / F::block_size;
  static constexpr int sharing = scales_of_32 == Copies ? 2 : 1;
  static constexpr int scales = scales_of_32 * sharing / 2;
  static_assert(scales_of_32 % Copies == 0, "ceiling_kernel has no such scales.");
};

/// Times `run`, which makes Copies copies of x in format F.
template <class F, int Copies, class T>
void measure(benchmark::State& state, setup const& s, inputs<T> const& x, launch const& run) {
  using written = traffic<F, Copies>;
  const i64 threads = x.rows * x.cols / 16;
  std::optional<inputs<T>> packed;  // the ceiling reads rows without gaps
  if (s.gap != 0 || s.offset != 0) packed.emplace(x.rows, x.cols);
  buffer<u8> codes(threads * written::codes), scales(threads * written::scales / written::sharing);
  const launch copy =
      ceiling<written::codes, written::scales, written::sharing>(packed ? *packed : x, codes, scales);
  const double bytes =
      static_cast<double>(16 * threads) * sizeof(T) + static_cast<double>(codes.bytes() + scales.bytes());
  if (!s.graph) return report(state, bytes, run, copy);
  constexpr int calls = 8;
  const graphs ours(run, x.count(), calls), theirs(copy, x.count(), calls);
  report(state, bytes, ours.replay(), theirs.replay(), 1, calls);
}

/// Blocks along rows.
template <class F, class Layout, class T = f4::bf16, class Quantizer = f4::quantizer<>,
          class Blocks = f4::blocks_1d>
void rowwise(benchmark::State& state, setup const& s, Quantizer const& recipe = {}, Blocks blocks = {}) {
  const inputs<T> x(s.size.rows, s.size.cols, s.gap, s.offset, data{s.values});
  const output<F, Layout> out(as_ours(x.view(0)), recipe, s.row_amax);
  const launch run = [&](i64 i) {
    require(f4::device::quantize(x.view(i), out.q, recipe, blocks, graphs::capturing()));
  };
  run(0);
  check(out.q, as_ours(x.view(0)), recipe, blocks);
  measure<F, 1>(state, s, x, run);
}

/// Blocks along columns: the quantized transpose.
template <class F, class Layout, class T = f4::bf16, class Quantizer = f4::quantizer<>>
void columnwise(benchmark::State& state, setup const& s, Quantizer const& recipe = {}) {
  const inputs<T> x(s.size.rows, s.size.cols, s.gap, s.offset, data{s.values});
  const output<F, Layout> out(f4::transposed(as_ours(x.view(0))), recipe, s.row_amax);
  const launch run = [&](i64 i) {
    require(f4::device::quantize(f4::transposed(x.view(i)), out.q, recipe, graphs::capturing()));
  };
  run(0);
  check(out.q, f4::transposed(as_ours(x.view(0))), recipe);
  measure<F, 1>(state, s, x, run);
}

/// Both copies in one call.
template <class F, class Layout, class T = f4::bf16, class Rowwise = f4::quantizer<>,
          class Columnwise = f4::quantizer<>, class Blocks = f4::blocks_1d>
void both(benchmark::State& state, setup const& s, Rowwise const& by_rows = {},
          Columnwise const& by_columns = {}, Blocks blocks = {}) {
  const inputs<T> x(s.size.rows, s.size.cols, s.gap, s.offset, data{s.values});
  const auto source = as_ours(x.view(0));
  const output<F, Layout> out(source, by_rows, s.row_amax);
  output<F, Layout> out_t(f4::transposed(source), by_columns, s.row_amax);
  if (Blocks::is_2d) out_t.q.amax = out.q.amax;
  const launch run = [&](i64 i) {
    require(f4::device::quantize_both(x.view(i), out.q, out_t.q, by_rows, by_columns, blocks,
                                      graphs::capturing()));
  };
  run(0);
  check(out.q, source, by_rows, blocks);
  check(out_t.q, f4::transposed(source), by_columns, blocks);
  measure<F, 2>(state, s, x, run);
}

}  // namespace bench

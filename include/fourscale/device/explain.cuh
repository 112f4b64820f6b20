// SPDX-License-Identifier: Apache-2.0
// Says in words which kernel a call takes, and what makes it slower than it could be. It asks the same
// functions as the launch (path.cuh), launches nothing and needs no GPU.
#pragma once

#include "copies.cuh"
#include "quantize_grouped.cuh"

namespace FOURSCALE_NAMESPACE {

/// What explain() may say; compare with explanation::says().
namespace notes {
inline constexpr char const
    source_start[] = "the source does not begin at a multiple of 16 bytes: it is read in smaller words",
    source_rows[] = "rows of the source are not multiples of 16 bytes apart: they are read in smaller words",
    code_start[] = "the codes do not begin at a whole word: 8 bytes, or 16 where blocks are multiples of 16",
    code_rows[] = "rows of codes do not begin at multiples of 16 bytes: they are stored in words of 8",
    scale_words[] = "the scales do not begin at whole words, or their rows do not: they are stored in bytes",
    linear_scales[] = "linear scales: a tile writes parts of sectors of them; swizzled ones it writes whole",
    row_amax[] = "each row has an amax of its own: every block divides to find its tensor scale",
    rounding[] = "the rounding policy has no fast form: blocks are made by the definition",
    scaling[] = "the scaling policy has no fast form: scales are found by the definition",
    transform[] = "the transform has no fast form for this format and these values",
    format[] = "codes of six bits and of E1M2 have no fast form: blocks are made by the definition",
    value_by_value[] = "the source is read value by value",
    tiles_of_16_bits[] = "tiles need values of bf16 or fp16",
    tiles_of_words[] = "tiles need codes of four or eight bits",
    tiles_of_small_blocks[] = "tiles need blocks of at most 32 values, and scales of at most a byte",
    unlike_squares[] =
        "tiles need squares that round alike in both copies: codes of four bits, nearest_even, "
        "a scaling policy that neither weighs nor asks where a block is, and one quantizer",
    one_by_one[] = "the two copies are made one after the other",
    small_groups[] =
        "groups have fewer than 128 rows on average: tiles of 128 rows of swizzled scales are partly empty",
    few_values[] =
        "fewer than 2^23 values: about a wave of CTAs on a large GPU, which waits for its first loads";
}  // namespace notes

/// Which kernel a call takes, and why it is not a faster one:
///   for (char const* note : f4::device::explain(x, q, recipe)) std::puts(note);
struct explanation {
  static constexpr int most = 19;  ///< as many as there are in `notes`

  errc error = errc::ok;  ///< what the call returns before a launch
  char const* kernel = "none";
  char const* notes[most] = {};
  int count = 0;

  constexpr char const* const* begin() const { return notes; }
  constexpr char const* const* end() const { return notes + count; }
  constexpr bool says(char const* note) const {
    for (char const* mine : *this)
      if (mine == note) return true;
    return false;
  }
  /// Adds a note if it holds and is not there yet; or the notes of another explanation.
  constexpr void add(bool holds, char const* note) {
    if (holds && !says(note) && count < most) notes[count++] = note;
  }
  constexpr void add(explanation const& other) {
    for (char const* note : other) add(true, note);
  }
};

namespace device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// An H200 has room for 132 x 4 CTAs of 256 threads. Each thread loads four blocks of 16 values at a time.
inline constexpr i64 values_of_a_wave = i64{1} << 23;

inline explanation explain_refusal(errc e) {
  explanation why;
  why.error = e;
  why.add(true, message(e));
  return why;
}

/// Adds notes on the policies, for blocks of values of type T that one thread quantizes.
template <class F, class T, class Quantizer>
void explain_policies(explanation& why, Quantizer const& q) {
  using ready = decltype(cta::prepared(q));
  using scale = decltype(ready::scale);
  constexpr bool has_fast_forms = same_type<typename F::element, e2m1> && F::block_size % 16 == 0,
                 takes_them = cta::detail::offers_fast_form<F, ready>;
  why.add(F::element::width < 8 && !has_fast_forms, notes::format);
  why.add(has_fast_forms && !fast_rounding_policy<decltype(ready::round)>, notes::rounding);
  // A rule that takes an amax gets the note only where the format's own rule has a fast form: elsewhere the
  // definition is as fast.
  constexpr bool fast_scale = fast_weighing_scaling_policy<scale, F> || fast_amax_scaling_policy<scale, F> ||
                              (amax_scaling_policy<scale, F> && !fast_amax_scaling_policy<amax_scale, F>);
  why.add(has_fast_forms && !fast_scale, notes::scaling);
  if constexpr (!cta::detail::is_plain<ready>)
    why.add(!takes_them || !cta::detail::transforms_fast<ready, cta::values<T, F::block_size>>,
            notes::transform);
}

template <class T>
void explain_source(explanation& why, matrix_view<T const> const& x) {
  why.add(!starts_at_vector(x), notes::source_start);
  why.add(!steps_by_vectors(x), notes::source_rows);
}

/// Adds notes on blocks along rows, from memory or a producer, of values of type T.
template <class T, class F, class Layout, class Quantizer>
void explain_rows(explanation& why, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer) {
  constexpr bool gathers = gathers_scales<F, Layout>;
  why.kernel = gathers ? "along rows, scales gathered by tiles" : "along rows";
  why.add(!codes_are_words(q), notes::code_start);
  why.add(gathers && reinterpret_cast<u64>(q.scales) % 16 != 0, notes::scale_words);
  why.add(q.amax.by_row(), notes::row_amax);
  explain_policies<F, T>(why, quantizer);
}

/// Adds notes on a copy by tiles, whose rows have `Along` scales in a tile. `spread`: a kernel of their own
/// stores the scales.
template <class T, int Along, class F, class Layout, class Quantizer>
void explain_tiles(explanation& why, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
                   bool spread = false) {
  constexpr bool has_scales = block_scale_bytes<F> != 0;
  why.add(!codes_are_vectors(q), notes::code_rows);
  why.add(has_scales && !spread && !scales_are_vectors<Along>(q), notes::scale_words);
  why.add(has_scales && !spread && same_type<Layout, linear>, notes::linear_scales);
  why.add(q.amax.by_row(), notes::row_amax);
  explain_policies<F, T>(why, quantizer);
}

/// Adds notes on why a copy cannot go by tiles.
template <class T, class F, class Layout>
void explain_no_tiles(explanation& why, matrix_view<T const> const& x,
                      block_scaled_view<F, Layout> const& q) {
  why.add(!cta::is_packed<T>, notes::tiles_of_16_bits);
  why.add(F::element::width == 6, notes::tiles_of_words);
  why.add(F::block_size > 32 || block_scale_bytes<F> > 1, notes::tiles_of_small_blocks);
  why.add(has_tiles<T, F> && !fits_tiles(x, q), notes::code_start);
}

/// How many scales a tile has along a row (of the rowwise copy), and along a column (of the columnwise one).
template <class F>
inline constexpr int along_row =
    cta::tile_copies<bf16, F, linear, linear, quantizer<>, cta::no_copy>::memory::along_row;
template <class F>
inline constexpr int along_column = cta::tile_rows / F::block_size;

/// Adds notes on the kernels for any view, in which a thread takes a block, or a row of a square.
template <bool Is2d, class M, class F, class Layout, class Quantizer>
void explain_view(explanation& why, M const& x, block_scaled_view<F, Layout> const& q,
                  Quantizer const& quantizer) {
  constexpr bool is_matrix = source_of<M> == source::matrix, in_tiles = source_of<M> != source::other;
  why.kernel =
      Is2d ? "2-D blocks of any view, a row of a square to a thread" : "any view, a block to a thread";
  why.add(!Is2d || !is_matrix, notes::value_by_value);
  if constexpr (Is2d && is_matrix) explain_source(why, x);
  if constexpr (in_tiles && (Is2d || !is_matrix)) explain_no_tiles(why, in_memory(x), q);
  if constexpr (Is2d) {
    why.add(in_tiles && !cta::has_like_squares<F, Quantizer>, notes::unlike_squares);
  } else {
    using block = typename cta::view_producer<M, F::block_size>::block_type;
    why.add(q.amax.by_row(), notes::row_amax);
    explain_policies<F, decltype(block{}.get(0))>(why, quantizer);
  }
}

/// Adds notes on a copy in blocks of 128.
template <class F, class Layout>
void explain_wide(explanation& why, block_scaled_view<F, Layout> const& q) {
  why.add(reinterpret_cast<u64>(q.codes) % 16 != 0, notes::code_start);
  why.add(reinterpret_cast<u64>(q.scales) % 4 != 0, notes::scale_words);
}

/// Explains a call that makes one copy.
template <bool Is2d, class M, class F, class Layout, class Quantizer>
void explain_copy(explanation& why, M const& x, block_scaled_view<F, Layout> const& q,
                  Quantizer const& quantizer) {
  using T = typename M::value_type;
  constexpr path best = best_path<F, Is2d, M, Quantizer>();
  if constexpr (best == path::rows) {
    explain_source(why, x);
    return explain_rows<T>(why, q, quantizer);
  } else if constexpr (best == path::wide || best == path::wide_columns) {
    why.kernel = best == path::wide_columns ? (Is2d ? "blocks of 128 x 128, the columnwise copy"
                                                    : "columns of blocks of 128 by tiles")
                 : Is2d                     ? "blocks of 128 x 128, a CTA to each"
                                            : "blocks of 128, eight threads to each";
    explain_source(why, in_memory(x));
    explain_wide(why, q);
  } else {
    if constexpr (is_by_tiles(best))
      if (path_of<Is2d, Quantizer>(x, q) == best) {
        why.kernel = best == path::columns       ? "columns by tiles"
                     : best == path::row_squares ? "2-D blocks by tiles"
                                                 : "2-D blocks by tiles, the columnwise copy";
        explain_source(why, in_memory(x));
        return explain_tiles < T,
               best == path::row_squares ? along_row<F> : along_column < F >> (why, q, quantizer);
      }
    explain_view<Is2d>(why, x, q, quantizer);
  }
}

/// Explains a call that makes both copies by tiles.
template <path Both, class T, class F, class Layout, class LayoutT, class Rowwise, class Columnwise>
void explain_both_by_tiles(explanation& why, matrix_view<T const> const& x,
                           block_scaled_view<F, Layout> const& q, block_scaled_view<F, LayoutT> const& qt,
                           Rowwise const& rowwise, Columnwise const& columnwise) {
  const bool spread = Both == path::both_squares && spreads_scales(x, q, qt, spread_from);
  why.kernel = spread               ? "both copies of 2-D blocks by tiles, and a kernel for their scales"
               : Both == path::both ? "both copies by tiles"
                                    : "both copies of 2-D blocks by tiles";
  explain_source(why, x);
  explain_tiles<T, along_row<F>>(why, q, rowwise, spread);
  explain_tiles<T, along_column<F>>(why, qt, columnwise, spread);
}

}  // namespace detail

/// Explains the call quantize(x, q, quantizer, shape).
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>,
          class Blocks = blocks_1d>
requires requires { Blocks::is_2d; }
explanation explain(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer = {},
                    Blocks shape = {}) {
  if (const errc e = validate(x, q, shape, quantizer); e != errc::ok) return detail::explain_refusal(e);
  explanation why;
  detail::explain_copy<Blocks::is_2d>(why, detail::as_input(x), q, quantizer);
  why.add(q.rows * q.cols < detail::values_of_a_wave, notes::few_values);
  return why;
}

/// Explains the call quantize(producer, q, quantizer).
template <cta::producer Producer, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
explanation explain(Producer const& source, block_scaled_view<F, Layout> const& q,
                    Quantizer const& quantizer = {}) {
  if (const errc e = validate(q, quantizer); e != errc::ok) return detail::explain_refusal(e);
  if (source.rows != q.rows || source.cols != q.cols) return detail::explain_refusal(errc::shape_mismatch);
  explanation why;
  detail::explain_rows<decltype(typename Producer::block_type{}.get(0))>(why, q, quantizer);
  why.add(q.rows * q.cols < detail::values_of_a_wave, notes::few_values);
  return why;
}

/// Explains the call quantize_grouped(x, q, groups, quantizer). Reads no offset.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
explanation explain_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                            row_groups const& groups, Quantizer const& quantizer = {}) {
  if (const errc e = validate_grouped(x, q, groups, quantizer); e != errc::ok)
    return detail::explain_refusal(e);
  explanation why;
  const auto input = detail::as_input(x);
  detail::explain_source(why, input);
  detail::explain_rows<typename decltype(input)::value_type>(why, q, quantizer);
  why.kernel = detail::gathers_scales<F, Layout> ? "along rows of groups, scales gathered by tiles"
                                                 : "along rows of groups";
  why.add(detail::gathers_scales<F, Layout> && q.rows < 128 * groups.count, notes::small_groups);
  why.add(q.rows * q.cols < detail::values_of_a_wave, notes::few_values);
  return why;
}

/// Explains the call quantize_both(x, q, qt, rowwise, columnwise, shape).
template <class T, class F, class Layout, class LayoutT, quantizer_for<F> Rowwise = quantizer<>,
          quantizer_for<F> Columnwise = quantizer<>, class Blocks = blocks_1d>
requires requires { Blocks::is_2d; }
explanation explain_both(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                         block_scaled_view<F, LayoutT> const& qt, Rowwise const& rowwise = {},
                         Columnwise const& columnwise = {}, Blocks shape = {}) {
  if (const errc e = validate_both(x, q, qt, shape, rowwise, columnwise); e != errc::ok)
    return detail::explain_refusal(e);
  explanation why;
  const auto input = detail::as_input(x);
  using value = typename decltype(input)::value_type;
  constexpr auto best = detail::best_path_of_both<F, Blocks::is_2d, value, Rowwise, Columnwise>();
  if (detail::path_of_both<Blocks::is_2d, Rowwise, Columnwise>(input, q, qt) != detail::path::one_by_one) {
    if constexpr (detail::is_by_tiles(best)) {
      detail::explain_both_by_tiles<best>(why, input, q, qt, rowwise, columnwise);
    } else {
      why.kernel =
          Blocks::is_2d ? "both copies of blocks of 128 x 128" : "both copies of blocks of 128 by tiles";
      detail::explain_source(why, input);
      detail::explain_wide(why, q);
      detail::explain_wide(why, qt);
    }
  } else {
    why.kernel = Blocks::is_2d ? "one copy, then its transpose" : "one copy, then the other";
    why.add(true, notes::one_by_one);
    detail::explain_no_tiles(why, input, q);
    detail::explain_no_tiles(why, input, qt);
    why.add(Blocks::is_2d && !detail::both_like_squares<F, Rowwise, Columnwise>, notes::unlike_squares);
    why.add(device::explain(x, q, rowwise, shape));
    if constexpr (!Blocks::is_2d) why.add(device::explain(transposed(x), qt, columnwise, shape));
  }
  why.add(x.rows * x.cols < detail::values_of_a_wave, notes::few_values);
  return why;
}

}  // namespace FOURSCALE_ARCH
}  // namespace device
}  // namespace FOURSCALE_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// What explain() says: each path of the launch and each note, forced once. Nothing is launched or read, so
// addresses are numbers.
#include <cstring>
#include <fourscale/device/explain.cuh>
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/transform/hadamard.hpp>
#include <string>

#include "support/catch.hpp"

namespace fourscale::test {

/// Ties to even, without a fast form.
struct plain_rounding {
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 4> operator()(F, float const (&x)[4], position) const {
    return encode<F>(x);
  }
};
/// The format's own rule, without a fast form.
struct plain_scaling {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor) const {
    return amax_scale{}(F{}, amax, tensor);
  }
};
/// Four over six by its definition alone.
struct plain_weighing {
  using rule = four_over_six<>;
  template <block_format F>
  FOURSCALE_HD constexpr tensor_scale<F> tensor(F, float amax) const {
    return rule{}.tensor(F{}, amax);
  }
  template <block_format F>
  FOURSCALE_HD constexpr void candidates(F, float amax, tensor_scale<F> const& tensor,
                                         block_scale<F> (&c)[2]) const {
    rule{}.candidates(F{}, amax, tensor, c);
  }
  template <block_format F>
  FOURSCALE_HD constexpr float error(F, float const (&x)[F::block_size], block_scale<F> const& c,
                                     tensor_scale<F> const& tensor) const {
    return rule{}.error(F{}, x, c, tensor);
  }
};

struct zeros {
  using block_type = cta::values<bf16, 16>;
  i64 rows, cols;
  FOURSCALE_D block_type load(cta::place const&) const { return {}; }
};

}  // namespace fourscale::test

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr u64 source_at = u64{1} << 40, codes_at = u64{2} << 40, scales_at = u64{3} << 40,
              codes_t_at = u64{4} << 40, scales_t_at = u64{5} << 40, amax_at = u64{6} << 40;
constexpr i64 large = 4096;  // 2^24 values: more than a wave

template <class T = bf16>
matrix_view<T const> source(i64 rows = large, i64 cols = large, i64 ld = 0, u64 offset = 0) {
  return {reinterpret_cast<T const*>(source_at + offset), rows, cols, ld == 0 ? cols : ld};
}
float const* amax_address() { return reinterpret_cast<float const*>(amax_at); }

template <class F = nvfp4, class Layout = swizzled_128x4>
block_scaled_view<F, Layout> copy(i64 rows = large, i64 cols = large, u64 codes = 0, u64 scales = 0) {
  return {reinterpret_cast<u8*>(codes_at + codes), reinterpret_cast<u8*>(scales_at + scales), rows, cols,
          amax_in(amax_address())};
}
template <class F = nvfp4, class Layout = swizzled_128x4>
block_scaled_view<F, Layout> copy_t(i64 rows = large, i64 cols = large, u64 codes = 0, u64 scales = 0) {
  return {reinterpret_cast<u8*>(codes_t_at + codes), reinterpret_cast<u8*>(scales_t_at + scales), rows, cols,
          amax_in(amax_address())};
}
template <class View, class Quantizer>
View with_range(View q, Quantizer const& quantizer) {
  q.amax = {amax_in(amax_address()), quantizer};
  return q;
}
template <class View>
View by_row(View q) {
  q.amax = amax_of_rows(amax_address());
  return q;
}

/// Does it name this kernel, and say these notes and no others?
template <class... Notes>
bool is(explanation const& why, char const* kernel, Notes... expected) {
  bool all = why.error == errc::ok && std::strcmp(why.kernel, kernel) == 0 &&
             why.count == static_cast<int>(sizeof...(expected));
  (void)std::initializer_list<int>{(all = all && why.says(expected), 0)...};
  if (!all) {
    std::string text = why.kernel;
    for (char const* note : why) text += std::string("\n  ") + note;
    WARN(text);
  }
  return all;
}

constexpr quantizer random_rounding{stochastic{philox{1, 2}}};
constexpr quantizer<nearest_even, four_over_six<>> weighing{};
constexpr quantizer<nearest_even, amax_scale, hadamard<16>> rotating{};
constexpr char const rows_kernel[] = "along rows", gathering[] = "along rows, scales gathered by tiles",
                     columns_kernel[] = "columns by tiles", any_view[] = "any view, a block to a thread",
                     any_2d[] = "2-D blocks of any view, a row of a square to a thread",
                     both_kernel[] = "both copies by tiles", both_2d[] = "both copies of 2-D blocks by tiles";
using squares = blocks_2d<16, 16>;

}  // namespace

TEST_CASE("explain: aligned rows have nothing to be said about", "[device][explain]") {
  CHECK(is(device::explain(source(), copy<nvfp4, linear>()), rows_kernel));
  CHECK(is(device::explain(source(), copy()), gathering));
  CHECK(is(device::explain(source<float>(), copy(), random_rounding), gathering));
  CHECK(is(device::explain(source<fp16>(), with_range(copy(), weighing), weighing), gathering));
  CHECK(is(device::explain(source(), copy(), rotating), gathering));
  CHECK(is(device::explain(source(), copy<mxfp4>()), gathering));
  CHECK(is(device::explain(source(), copy<mxfp8_e4m3>()), gathering));
  CHECK(is(device::explain(source(large, large, large + 8), copy<nvfp4, linear>()), rows_kernel));
  CHECK(is(device::explain(zeros{large, large}, copy()), gathering));
  CHECK(is(device::explain(zeros{large, large}, copy<nvfp4, linear>()), rows_kernel));
}

TEST_CASE("explain: rows name buffers that lie badly", "[device][explain]") {
  CHECK(is(device::explain(source(large, large, 0, 2), copy()), gathering, notes::source_start));
  CHECK(is(device::explain(source(large, large, large + 1), copy()), gathering, notes::source_rows));
  CHECK(is(device::explain(source(), copy(large, large, 4)), gathering, notes::code_start));
  CHECK(is(device::explain(source(), copy<nvfp4, linear>(large, large, 4)), rows_kernel, notes::code_start));
  CHECK(is(device::explain(source(), copy<mxfp4>(large, large, 8)), gathering, notes::code_start));
  CHECK(is(device::explain(source(), copy(large, large, 0, 4)), gathering, notes::scale_words));
  CHECK(is(device::explain(source(), copy<nvfp4, linear>(large, large, 0, 1)), rows_kernel));
  CHECK(is(device::explain(source(), by_row(copy())), gathering, notes::row_amax));
  CHECK(is(device::explain(source(2048, 2048), copy(2048, 2048)), gathering, notes::few_values));
  CHECK(is(device::explain(zeros{16, 16}, copy(16, 16, 4, 4)), gathering, notes::code_start,
           notes::scale_words, notes::few_values));
}

TEST_CASE("explain: rows name the policy without a fast form", "[device][explain]") {
  const quantizer<plain_rounding> rounding{};
  const quantizer<nearest_even, plain_scaling> scaling{};
  const quantizer<nearest_even, plain_weighing> plain_weighs{};
  CHECK(is(device::explain(source(), copy(), rounding), gathering, notes::rounding));
  CHECK(is(device::explain(source(), copy(), quantizer{stochastic_te_software<>{}}), gathering,
           notes::rounding));
  CHECK(is(device::explain(source(), copy(), scaling), gathering, notes::scaling));
  CHECK(is(device::explain(source(), copy<mxfp4>(), scaling), gathering));  // MX has none, and needs none
  CHECK(is(device::explain(source(), with_range(copy(), plain_weighs), plain_weighs), gathering,
           notes::scaling));
  CHECK(is(device::explain(source<float>(), copy(), rotating), gathering, notes::transform));
  CHECK(is(device::explain(source(), copy(), quantizer{nearest_even{}, amax_scale{}, hadamard<16, float>{}}),
           gathering, notes::transform));
  CHECK(is(device::explain(source(), copy(), quantizer{plain_rounding{}, amax_scale{}, hadamard<16>{}}),
           gathering, notes::rounding, notes::transform));
  CHECK(is(device::explain(source(), copy<mxfp6_e2m3>()), gathering, notes::format));
  CHECK(is(device::explain(source(), copy<nvint4>()), gathering, notes::format));
}

TEST_CASE("explain: groups", "[device][explain]") {
  constexpr char const rows[] = "along rows of groups",
                       tiles[] = "along rows of groups, scales gathered by tiles";
  const row_groups groups{reinterpret_cast<i64 const*>(scales_t_at), 32};
  const auto of_groups = [](auto q) {
    q.amax = amax_of_groups(amax_address());
    return q;
  };
  const auto linear_copy = of_groups(copy<nvfp4, linear>());
  CHECK(is(device::explain_grouped(source(), linear_copy, groups), rows));
  CHECK(is(device::explain_grouped(source(), of_groups(copy()), groups), tiles));
  CHECK(is(device::explain_grouped(source(), by_row(copy()), groups), tiles, notes::row_amax));
  const row_groups small{groups.offsets, 33};
  CHECK(is(device::explain_grouped(source(), linear_copy, small), rows));
  CHECK(is(device::explain_grouped(source(), of_groups(copy()), small), tiles, notes::small_groups));
  CHECK(is(device::explain_grouped(source(large, large, large + 1), linear_copy, groups,
                                   quantizer{plain_rounding{}}),
           rows, notes::source_rows, notes::rounding));
  CHECK(device::explain_grouped(source(), linear_copy, {groups.offsets, 0}).error == errc::empty_matrix);
}

TEST_CASE("explain: columns by tiles, and why not", "[device][explain]") {
  const auto xt = transposed(source());
  CHECK(is(device::explain(xt, copy()), columns_kernel));
  CHECK(is(device::explain(xt, copy(), rotating), columns_kernel));
  CHECK(is(device::explain(xt, copy<nvfp4, linear>()), columns_kernel, notes::linear_scales));
  CHECK(is(device::explain(xt, copy<fp8_e4m3, linear>()), columns_kernel));
  CHECK(is(device::explain(transposed(source(large, large, 0, 2)), copy()), columns_kernel,
           notes::source_start));
  CHECK(is(device::explain(transposed(source(large, large, large + 1)), copy()), columns_kernel,
           notes::source_rows));
  CHECK(is(device::explain(xt, copy(large, large, 8)), columns_kernel, notes::code_rows));
  CHECK(is(device::explain(xt, copy(large, large, 0, 2)), columns_kernel, notes::scale_words));
  CHECK(is(device::explain(transposed(source(4080, large)), copy<nvfp4, linear>(large, 4080)), columns_kernel,
           notes::code_rows, notes::scale_words, notes::linear_scales));  // 255 blocks in a row
  CHECK(is(device::explain(xt, by_row(copy())), columns_kernel, notes::row_amax));
  CHECK(is(device::explain(xt, copy(large, large, 4)), any_view, notes::value_by_value, notes::code_start));
  CHECK(is(device::explain(transposed(source<float>()), copy()), any_view, notes::value_by_value,
           notes::tiles_of_16_bits));
  CHECK(is(device::explain(xt, copy<mxfp6_e2m3>()), any_view, notes::value_by_value, notes::tiles_of_words,
           notes::format));
  const i64 longest = (i64{1} << 31) - 1, wide = i64{1} << 30;  // no row is too long for tiles
  CHECK(is(device::explain(transposed(source(16, wide, longest)), copy(wide, 16)), columns_kernel,
           notes::source_rows, notes::code_rows));
}

TEST_CASE("explain: any view is read value by value", "[device][explain]") {
  const block_scaled_view<nvfp4> from = copy_t<nvfp4, linear>();
  CHECK(is(device::explain(dequantized(from), copy()), any_view, notes::value_by_value));
  CHECK(is(device::explain(dequantized(from), by_row(copy())), any_view, notes::value_by_value,
           notes::row_amax));
  CHECK(is(device::explain(transposed(dequantized(from)), copy(), quantizer{}, squares{}), any_2d,
           notes::value_by_value));
}

TEST_CASE("explain: 2-D blocks", "[device][explain]") {
  const auto x = source();
  CHECK(is(device::explain(x, copy(), quantizer{}, squares{}), "2-D blocks by tiles"));
  CHECK(is(device::explain(transposed(x), copy(), quantizer{}, squares{}),
           "2-D blocks by tiles, the columnwise copy"));
  CHECK(is(device::explain(x, copy<nvfp4, linear>(), quantizer{}, squares{}), "2-D blocks by tiles",
           notes::linear_scales));
  CHECK(is(device::explain(x, copy(), random_rounding, squares{}), any_2d, notes::unlike_squares));
  CHECK(is(device::explain(transposed(x), with_range(copy(), weighing), weighing, squares{}), any_2d,
           notes::value_by_value, notes::unlike_squares));
  CHECK(is(device::explain(x, copy(large, large, 4), quantizer{}, squares{}), any_2d, notes::code_start));
  CHECK(is(device::explain(source<float>(large, large, large + 1), copy(), quantizer{}, squares{}), any_2d,
           notes::source_rows, notes::tiles_of_16_bits));
  CHECK(is(device::explain(x, copy<mxfp8_e4m3>(), quantizer{}, blocks_2d<32, 32>{}), any_2d,
           notes::unlike_squares));
}

TEST_CASE("explain: blocks of 128", "[device][explain]") {
  constexpr char const rows[] = "blocks of 128, eight threads to each",
                       squares_of_128[] = "blocks of 128 x 128, a CTA to each",
                       columns[] = "columns of blocks of 128 by tiles",
                       columns_of_squares[] = "blocks of 128 x 128, the columnwise copy";
  using format = fp8_block_e4m3;
  const auto x = source();
  CHECK(is(device::explain(x, copy<format, linear>()), rows));
  CHECK(is(device::explain(x, copy<format, linear>(), quantizer{}, blocks_2d<128, 128>{}), squares_of_128));
  CHECK(is(device::explain(source(large, large, 0, 2), copy<format, linear>(large, large, 4, 1)), rows,
           notes::source_start, notes::code_start, notes::scale_words));
  CHECK(is(device::explain(transposed(x), copy<format, linear>()), columns));
  CHECK(is(device::explain(transposed(source<float>()), copy<format, linear>()), columns));
  CHECK(is(device::explain(transposed(x), copy<format, linear>(), quantizer{}, blocks_2d<128, 128>{}),
           columns_of_squares));
  CHECK(is(device::explain(transposed(source(large, large, 0, 2)), copy<format, linear>(large, large, 4, 1)),
           columns, notes::source_start, notes::code_start, notes::scale_words));
}

TEST_CASE("explain: both copies", "[device][explain]") {
  const auto x = source();
  CHECK(is(device::explain_both(x, copy(), copy_t()), both_kernel));
  CHECK(is(device::explain_both(x, copy(), copy_t(), quantizer{}, rotating), both_kernel));
  CHECK(is(device::explain_both(x, copy<nvfp4, linear>(), copy_t()), both_kernel, notes::linear_scales));
  CHECK(is(device::explain_both(source(large, large, 0, 2), copy(large, large, 8), copy_t(large, large, 0, 1),
                                random_rounding, quantizer{plain_rounding{}}),
           both_kernel, notes::source_start, notes::code_rows, notes::scale_words, notes::rounding));
  CHECK(
      is(device::explain_both(source(32, 32), copy(32, 32), copy_t(32, 32)), both_kernel, notes::few_values));
  constexpr char const one_by_one[] = "one copy, then the other";
  CHECK(
      is(device::explain_both(x, by_row(copy()), copy_t()), one_by_one, notes::one_by_one, notes::row_amax));
  CHECK(is(device::explain_both(x, copy(), copy_t(large, large, 4)), one_by_one, notes::one_by_one,
           notes::code_start, notes::value_by_value));
  CHECK(is(device::explain_both(x, copy<mxfp6_e3m2>(), copy_t<mxfp6_e3m2>()), one_by_one, notes::one_by_one,
           notes::tiles_of_words, notes::format, notes::value_by_value));
  CHECK(is(device::explain_both(source<float>(), copy(), copy_t()), one_by_one, notes::one_by_one,
           notes::tiles_of_16_bits, notes::value_by_value));
  using fp8_scale = fp8_block_scale;
  CHECK(is(device::explain_both(x, copy<fp8_block_e4m3, linear>(), copy_t<fp8_block_e4m3, linear>()),
           "both copies of blocks of 128 by tiles"));
  CHECK(is(device::explain_both(source(large, large, 0, 2), copy<fp8_block_e4m3, linear>(large, large, 4),
                                copy_t<fp8_block_e4m3, linear>(large, large, 0, 2)),
           "both copies of blocks of 128 by tiles", notes::source_start, notes::code_start,
           notes::scale_words));
  CHECK(is(device::explain_both(x, copy<fp8_block_e4m3, linear>(), copy_t<fp8_block_e4m3, linear>(),
                                quantizer{}, quantizer{}, blocks_2d<128, 128>{}),
           "both copies of blocks of 128 x 128"));
  const quantizer drawing{stochastic{philox{1, 2}}, fp8_scale{}};
  CHECK(is(device::explain_both(x, copy<fp8_block_e4m3, linear>(), copy_t<fp8_block_e4m3, linear>(), drawing,
                                drawing, blocks_2d<128, 128>{}),
           "one copy, then its transpose", notes::one_by_one, notes::tiles_of_small_blocks,
           notes::unlike_squares));
}

TEST_CASE("explain: both copies of 2-D blocks", "[device][explain]") {
  const auto both = [](auto q, auto qt, auto quantizer, i64 rows = large) {
    return device::explain_both(source(rows, q.cols), q, qt, quantizer, quantizer, squares{});
  };
  const i64 most = 16384;  // 2^28 values
  CHECK(is(both(copy(), copy_t(), quantizer{}), both_2d));
  CHECK(is(both(copy<nvfp4, linear>(), copy_t<nvfp4, linear>(), quantizer{}), both_2d, notes::linear_scales));
  CHECK(is(both(copy<nvfp4, linear>(most, most), copy_t<nvfp4, linear>(most, most), quantizer{}, most),
           "both copies of 2-D blocks by tiles, and a kernel for their scales"));
  CHECK(is(both(copy<nvfp4, linear>(most, most), copy_t<nvfp4, linear>(most, most, 0, 8), quantizer{}, most),
           both_2d, notes::linear_scales));
  constexpr char const transposing[] = "one copy, then its transpose";
  CHECK(is(both(with_range(copy(), weighing), with_range(copy_t(), weighing), weighing), transposing,
           notes::one_by_one, notes::unlike_squares));
  CHECK(is(device::explain_both(source(), copy(), copy_t(), quantizer{}, quantizer<nearest_even, two_level>{},
                                squares{}),
           transposing, notes::one_by_one, notes::unlike_squares));
  CHECK(is(both(copy(large, large, 4), copy_t(), quantizer{}), transposing, notes::one_by_one,
           notes::code_start));
}

TEST_CASE("explain: what is refused is said as the call would", "[device][explain]") {
  const explanation partial = device::explain(source(large, 40), copy(large, 40));
  CHECK(partial.error == errc::partial_block);
  CHECK(std::strcmp(partial.kernel, "none") == 0);
  CHECK(partial.says(message(errc::partial_block)));
  CHECK(partial.count == 1);
  CHECK(device::explain(source(), copy(), weighing).error == errc::other_range);
  CHECK(device::explain(zeros{large, 16}, copy()).error == errc::shape_mismatch);
  CHECK(device::explain(zeros{large, large}, copy(), weighing).error == errc::other_range);
  CHECK(device::explain_both(source(), copy(), copy()).error == errc::overlap);
}

// SPDX-License-Identifier: Apache-2.0
// What must agree between copies: tiles and their transpose, both copies in one call, requantization with the
// way through float; and dequantization with its formula.
#include <fourscale/host/copies.hpp>
#include <fourscale/host/dequantize.hpp>
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/transform/hadamard.hpp>

#include "naive.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

template <class F, class Layout>
void check_same(output<F, Layout> const& a, output<F, Layout> const& b) {
  CHECK(first_difference(a.codes, b.codes) == -1);
  CHECK(first_difference(a.scales, b.scales) == -1);
  CHECK((a.canaries_live() && b.canaries_live()));
}

/// Element (r, c) of q and its scale, as it is stored.
template <class F, class Layout>
u32 stored(block_scaled_view<F, Layout> const& q, i64 r, i64 c) {
  const packed_block<F> b = q.load(r, c / F::block_size);
  return b.scale.bits ^ u32 { b.get(static_cast<int>(c % F::block_size)).bits } << 24;
}

template <block_format F>
void check_tiles() {
  INFO(F::name);
  constexpr int n = F::block_size;
  constexpr i64 rows = 3 * n, cols = 512 + 2 * n;
  const source<bf16> x(rows, cols, 4, values::activations);
  output<F, swizzled_128x4> q(rows, cols), q_moved(rows, cols);
  output<F, linear> qt(cols, rows), qt_moved(cols, rows);
  for (auto* v : {&q.view, &q_moved.view}) v->amax = amax_value(300.0f);
  for (auto* v : {&qt.view, &qt_moved.view}) v->amax = amax_value(300.0f);
  REQUIRE(host::quantize(x.view, q.view, quantizer{}, blocks_2d<n, n>{}) == errc::ok);
  REQUIRE(host::quantize(transposed(x.view), qt.view, quantizer{}, blocks_2d<n, n>{}) == errc::ok);
  i64 wrong = 0;
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < cols; ++c) wrong += stored(q.view, r, c) != stored(qt.view, c, r);
  CHECK(wrong == 0);
  // transpose() from one layout to the other and back.
  REQUIRE(host::transpose(q.view, qt_moved.view) == errc::ok);
  check_same(qt, qt_moved);
  REQUIRE(host::transpose(qt.view, q_moved.view) == errc::ok);
  check_same(q, q_moved);
}

template <block_format F, class Rowwise, class Columnwise, class Blocks>
void check_both(Rowwise const& rowwise, Columnwise const& columnwise, Blocks shape) {
  INFO(F::name);
  constexpr i64 rows = 2 * F::block_size, cols = 512 + F::block_size;
  const source<float> x(rows, cols, 3, values::activations);
  output<F, linear> q(rows, cols), q_alone(rows, cols);
  output<F, swizzled_128x4> qt(cols, rows), qt_alone(cols, rows);
  for (auto* v : {&q.view, &q_alone.view}) v->amax = {amax_value(300.0f), rowwise};
  const float columnwise_amax = Blocks::is_2d ? 300.0f : 200.0f;
  for (auto* v : {&qt.view, &qt_alone.view}) v->amax = {amax_value(columnwise_amax), columnwise};
  REQUIRE(host::quantize_both(x.view, q.view, qt.view, rowwise, columnwise, shape) == errc::ok);
  REQUIRE(host::quantize(x.view, q_alone.view, rowwise, shape) == errc::ok);
  check_same(q, q_alone);
  if constexpr (Blocks::is_2d)
    REQUIRE(host::transpose(q.view, qt_alone.view) == errc::ok);
  else
    REQUIRE(host::quantize(transposed(x.view), qt_alone.view, columnwise) == errc::ok);
  check_same(qt, qt_alone);
}

/// Requantizing through the view equals dequantizing to float and quantizing that.
template <block_format F>
void check_requantize(amax_reference amax = amax_value(300.0f)) {
  INFO(F::name);
  constexpr i64 rows = 2 * F::block_size, cols = 512 + F::block_size;
  const source<float> x(rows, cols, 0, values::activations);
  output<F, swizzled_128x4> q(rows, cols);
  q.view.amax = amax;
  REQUIRE(host::quantize(x.view, q.view) == errc::ok);
  std::vector<float> y(size(rows * cols));
  const matrix_view<float> dense{y, rows, cols};
  REQUIRE(host::dequantize(q.view, dense) == errc::ok);

  output<F, linear> through_view(cols, rows), through_float(cols, rows), again(rows, cols),
      again_float(rows, cols);
  for (auto* v : {&through_view.view, &through_float.view}) v->amax = amax_value(280.0f);
  again.view.amax = again_float.view.amax = unit_scale;
  const quantizer recipe{stochastic{philox{6}}};
  REQUIRE(host::quantize(transposed(dequantized(q.view)), through_view.view, recipe) == errc::ok);
  REQUIRE(host::quantize(transposed(dense), through_float.view, recipe) == errc::ok);
  check_same(through_view, through_float);
  REQUIRE(host::quantize(dequantized(q.view), again.view) == errc::ok);
  REQUIRE(host::quantize(dense, again_float.view) == errc::ok);
  check_same(again, again_float);
}

/// y = code * ((scale * amax) * (1 / (6 * 448))), or code / (448 / amax) with no block scales, or code *
/// scale, rounded to T; gaps stay.
template <real T, block_format F>
void check_dequantize(float const* row_amax = nullptr) {
  INFO(F::name);
  constexpr i64 rows = 37, cols = 3 * F::block_size, gap = 5;
  output<F, swizzled_128x4> q(rows, cols);
  for (i64 i = 0; i < q.codes.count(); ++i) q.codes.data()[i] = static_cast<u8>(mix(static_cast<u64>(i)));
  for (i64 i = 0; i < q.scales.count(); ++i)
    q.scales.data()[i] = static_cast<u8>(mix(static_cast<u64>(i)) >> 9);
  q.view.amax = row_amax ? amax_of_rows(row_amax) : amax_value(11.7f);
  std::vector<T> y(size(rows * (cols + gap)), from_float<T>(77.0f)), yt(size(rows * cols));
  REQUIRE(host::dequantize(q.view, matrix_view<T>{y.data(), rows, cols, cols + gap}) == errc::ok);
  REQUIRE(host::dequantize(q.view, transposed(matrix_view<T>{yt, cols, rows})) == errc::ok);
  i64 wrong = 0;
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < cols + gap; ++c) {
      const T value = y[size(r * (cols + gap) + c)];
      T expected = from_float<T>(77.0f);
      if (c < cols) {
        const packed_block<F> b = q.view.load(r, c / F::block_size);
        float factor = decode(b.scale);
        if constexpr (block_scale_bytes<F> == 0)
          factor = 1.0f / (448.0f / 11.7f);
        else if constexpr (F::has_tensor_scale)
          factor =
              factor * (row_amax ? row_amax[r] : 11.7f) * (1.0f / (same_type<F, nvint4> ? 3136.0f : 2688.0f));
        expected = from_float<T>(decode(b.get(static_cast<int>(c % F::block_size))) * factor);
        wrong +=
            bit_cast<uint_t<8 * sizeof(T)>>(yt[size(c * rows + r)]) != bit_cast<uint_t<8 * sizeof(T)>>(value);
      }
      const bool both_nan = to_float(expected) != to_float(expected) && to_float(value) != to_float(value);
      wrong +=
          !both_nan && bit_cast<uint_t<8 * sizeof(T)>>(expected) != bit_cast<uint_t<8 * sizeof(T)>>(value);
    }
  CHECK(wrong == 0);
}

template <block_format F>
void check_dequantize_all() {
  check_dequantize<float, F>();
  check_dequantize<bf16, F>();
  check_dequantize<fp16, F>();
}

std::vector<float> some_amaxes(i64 n) {
  std::vector<float> amaxes(size(n));
  for (std::size_t i = 0; i < amaxes.size(); ++i) amaxes[i] = 0.3f + static_cast<float>(i % 11);
  return amaxes;
}

}  // namespace

TEST_CASE("copies: a matrix of tiles and its transpose have the same numbers", "[host][copies]") {
  check_tiles<nvfp4>();
  check_tiles<mxfp4>();
  check_tiles<mxfp6_e2m3>();
  check_tiles<mxfp8_e5m2>();
  check_tiles<fp8_block_e4m3>();
  check_tiles<fp8_e4m3>();
}

TEST_CASE("quantize_both: equals the two calls, each with its own recipe", "[host][copies]") {
  const quantizer rounded{stochastic{philox{1, 0}}};
  const quantizer turned{stochastic{philox{1, 1}}, amax_scale{}, hadamard<16>{te_signs}};
  check_both<nvfp4>(rounded, turned, blocks_1d{});
  check_both<nvfp4>(quantizer{}, quantizer{nearest_even{}, four_over_six<>{}}, blocks_1d{});
  check_both<mxfp8>(rounded, quantizer{}, blocks_1d{});
}

TEST_CASE("quantize_both: with tiles the second copy is the transpose of the first", "[host][copies]") {
  check_both<nvfp4>(quantizer{}, quantizer{}, blocks_2d<16, 16>{});
  check_both<nvfp4>(quantizer{stochastic{philox{1}}}, quantizer{}, blocks_2d<16, 16>{});
  check_both<mxfp6>(quantizer{}, quantizer{}, blocks_2d<32, 32>{});
}

TEST_CASE("requantize: through a view as through a matrix of floats", "[host][copies]") {
  check_requantize<nvfp4>();
  check_requantize<nvfp4>(amax_of_rows(some_amaxes(32).data()));
  check_requantize<mxfp4>();
  check_requantize<mxfp6_e3m2>();
  check_requantize<fp8_block_e4m3>();
}

TEST_CASE("host::dequantize: one product, rounded to the type of the matrix", "[host][dequantize]") {
  check_dequantize_all<nvfp4>();
  check_dequantize_all<mxfp4>();
  check_dequantize_all<mxfp6_e2m3>();
  check_dequantize_all<mxfp8_e5m2>();
  check_dequantize<float, nvint4>();
  check_dequantize<float, mxfp6_e3m2>();
  check_dequantize<float, mxfp8_e4m3>();
  check_dequantize<float, fp8_block_e4m3>();
  check_dequantize<float, fp8_e4m3>();
  check_dequantize<bf16, nvfp4>(some_amaxes(37).data());
}

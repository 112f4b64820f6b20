// SPDX-License-Identifier: Apache-2.0
// The amax of a view: calls that would read it otherwise than it was written refuse, and write nothing.
#include "buffers.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// What validate() looks at in a quantizer.
struct rule_with {
  tensor_range<nvfp4> range;
  tensor_scale<nvfp4> tensor(nvfp4, float amax) const { return range.scale(amax); }
};

}  // namespace

TEST_CASE("validate: formats without a tensor scale ask for no amax and ignore what is there",
          "[view][validate]") {
  buffers b;
  block_scaled_view<mxfp4> q{b.codes, b.scales, rows, cols};
  for (const amax_reference amax :
       {amax_reference{}, amax_in(nullptr), amax_in(floats_at(b.codes)), amax_of_groups(nullptr)}) {
    q.amax = amax;
    CHECK(validate(b.values(), q) == errc::ok);
    CHECK(validate(b.values(), q, blocks_2d<32, 32>{}, quantizer{}) == errc::ok);
  }
}

TEST_CASE("validate: a quantizer with another range is refused, and then nothing is written",
          "[view][validate]") {
  buffers b;
  const blocks_2d<16, 16> tiles;
  const quantizer larger{nearest_even{}, four_over_six<>{}};
  const quantizer headroom{nearest_even{}, two_level_headroom{}};
  blocks q = b.quantized(), qt{b.scales + 32, b.scales + 512, cols, rows, amax_in(b.amaxes)};
  for (const amax_reference amax : {unit_scale, amax_value(3.0f), amax_in(b.amaxes), amax_of_rows(b.amaxes),
                                    encode_scale_value(2.0f), decode_scale_in(b.amaxes)}) {
    q.amax = amax;
    CHECK(host::quantize(b.values(), q, larger) == errc::other_range);
    q.amax = {amax, headroom};
    CHECK(host::quantize(b.values(), q, larger) == errc::other_range);
    CHECK(host::quantize(b.values(), q) == errc::other_range);
    CHECK(validate(b.values(), q) == errc::ok);  // for calls that read
    CHECK(validate(b.values(), q, blocks_1d{}, headroom) == errc::ok);
  }
  q.amax = {amax_in(b.amaxes), larger};
  CHECK(host::quantize(b.values(), q, quantizer{}, tiles) == errc::other_range);
  CHECK(host::quantize(b.values(), q,
                       quantizer{nearest_even{}, four_over_six<error_norm::mean_square, 448>{}}) ==
        errc::other_range);
  CHECK(host::quantize_both(b.values(), q, qt) == errc::other_range);
  CHECK(host::quantize_both(b.values(), q, qt, larger, larger) == errc::other_range);
  CHECK(host::quantize_both(b.values(), q, qt, larger, quantizer{}, tiles) == errc::other_amax);
  const i64 offsets[2] = {0, rows};
  CHECK(host::quantize_grouped(matrix_view<float const>(b.values()), q, {offsets, 1}) == errc::other_range);
  blocks wide{b.codes, b.scales, 4, 128, amax_in(b.amaxes)};
  CHECK(host::quantize(matrix{b.x, 4, 128}, wide, ms_eden{philox{1}, no_signs}) == errc::other_range);
  CHECK(b.untouched());
  CHECK(host::quantize_both(b.values(), q, qt, larger) == errc::ok);
}

TEST_CASE("validate: FP8 per tensor has margin, least amax and powers of two in its range",
          "[view][validate]") {
  buffers b;
  block_scaled_view<fp8_e4m3> q{b.codes, nullptr, 8, cols, amax_in(b.amaxes)};
  const matrix x{b.x, 8, cols};
  for (const current_scaling rule :
       {current_scaling{1}, current_scaling{0, 1.0f}, current_scaling{0, 0.0f, true}}) {
    const quantizer recipe{nearest_even{}, rule};
    q.amax = amax_in(b.amaxes);
    CHECK(validate(x, q, blocks_1d{}, recipe) == errc::other_range);
    q.amax = {amax_in(b.amaxes), recipe};
    CHECK(validate(x, q, blocks_1d{}, recipe) == errc::ok);
    CHECK(validate(x, q, blocks_1d{}, quantizer{}) == errc::other_range);
  }
}

TEST_CASE("validate: copies that share their scales must have the same amax", "[view][validate]") {
  buffers b;
  const blocks_2d<16, 16> tiles;
  const quantizer larger{nearest_even{}, four_over_six<>{}};
  blocks q = b.quantized(), qt{b.scales + 32, b.scales + 512, cols, rows};
  const tensor_amax<nvfp4> others[] = {amax_in(b.amaxes + 1),
                                       amax_value(1.0f),
                                       unit_scale,
                                       encode_scale_in(b.amaxes),
                                       {amax_in(b.amaxes), larger}};
  for (tensor_amax<nvfp4> const& other : others) {
    qt.amax = other;
    CHECK(host::transpose(q, qt) == errc::other_amax);
    if (other.range == q.amax.range)
      CHECK(host::quantize_both(b.values(), q, qt, quantizer{}, quantizer{}, tiles) == errc::other_amax);
    const tensor_range<nvfp4> own = other.range;
    CHECK(validate_both(b.values(), q, qt, blocks_1d{}, quantizer{}, rule_with{own}) == errc::ok);
  }
  qt.amax = {};
  CHECK(host::transpose(q, qt) == errc::no_amax);
  CHECK(host::quantize_both(b.values(), q, qt, quantizer{}, quantizer{}, tiles) == errc::no_amax);
  // Of rows there is none to share: those of q are the columns of qt.
  q.amax = qt.amax = amax_of_rows(b.amaxes);
  CHECK(host::transpose(q, qt) == errc::row_amax_with_tiles);
  CHECK(host::quantize_both(b.values(), q, qt, quantizer{}, quantizer{}, tiles) == errc::row_amax_with_tiles);
  CHECK(b.untouched());
  q.amax = qt.amax = amax_in(b.amaxes);
  CHECK(host::transpose(q, qt) == errc::ok);
  const block_scaled_view<mxfp4> m{b.bytes, b.bytes + 512, 32, 32,
                                   amax_value(1.0f)};  // no tensor scale, no rule
  CHECK(host::transpose(m, block_scaled_view<mxfp4>{b.bytes + 1024, b.bytes + 2048, 32, 32}) == errc::ok);
}

TEST_CASE("validate: D of a GEMM and each reader's output lie apart from amaxes", "[view][validate]") {
  buffers b;
  const blocks a{b.codes, b.scales, rows, cols, unit_scale};
  const matrix d{b.x, rows, rows};
  const auto with = [&](amax_reference amax) { return blocks{b.codes, b.scales, rows, cols, amax}; };
  for (const amax_reference amax : {amax_in(b.x), decode_scale_in(b.x + 255), amax_of_rows(b.x + 255)}) {
    CHECK(host::gemm(with(amax), a, d) == errc::overlap);
    CHECK(host::gemm(a, with(amax), d) == errc::overlap);
    CHECK(host::dequantize(with(amax), matrix{b.x, rows, cols}) == errc::overlap);
    CHECK(host::transform<16>(dequantized(with(amax)), matrix{b.x, rows, cols}, identity{}) == errc::overlap);
    CHECK(host::transform<16>(transposed(dequantized(with(amax))), matrix{b.x, cols, rows}, identity{}) ==
          errc::overlap);
  }
  for (const amax_reference amax : {amax_reference{}, amax_of_groups(b.amaxes), amax_in(nullptr)}) {
    const errc e = amax.kind == amax_kind::missing     ? errc::no_amax
                   : amax.kind == amax_kind::per_group ? errc::amax_of_groups
                                                       : errc::null_pointer;
    statistics s;
    CHECK(host::gemm(with(amax), a, d) == e);
    CHECK(host::gemm(a, with(amax), d) == e);
    CHECK(host::statistics_of(b.values(), with(amax), &s) == e);
    CHECK(host::transpose(with(amax), blocks{b.scales + 32, b.scales + 512, cols, rows, unit_scale}) == e);
    CHECK(host::quantize(dequantized(with(amax)),
                         blocks{b.scales + 32, b.scales + 512, rows, cols, unit_scale}) == e);
  }
  CHECK(b.untouched());
}

TEST_CASE("validate: requantization reads the amax of its source and writes elsewhere", "[view][validate]") {
  buffers b;
  const blocks from = b.quantized();
  blocks to{b.scales + 32, b.scales + 512, rows, cols, amax_in(b.amaxes)};
  CHECK(validate(dequantized(from), to) == errc::ok);  // both may read one amax
  to.codes = reinterpret_cast<u8*>(b.amaxes) + 3, to.amax = unit_scale;
  CHECK(host::quantize(dequantized(from), to) == errc::overlap);
  to.codes = b.scales + 32, to.scales = reinterpret_cast<u8*>(b.amaxes) - 31;
  CHECK(host::quantize(dequantized(from), to) == errc::overlap);
  to.scales = b.scales + 512;
  auto edited = dequantized(from);
  edited.rows = to.rows = rows - 1;
  CHECK(host::quantize(edited, to) == errc::shape_mismatch);
  auto turned = transposed(dequantized(from));
  turned.cols += 16, to.rows = turned.rows, to.cols = turned.cols;
  CHECK(host::quantize(turned, to) == errc::shape_mismatch);
  CHECK(b.untouched());
}

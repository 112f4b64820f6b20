// SPDX-License-Identifier: Apache-2.0
// Every rule of validate() can be broken, says so in a sentence of its own, and stops each host function
// before it writes a byte.
#include <set>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr errc all_errcs[] = {errc::ok,
                              errc::null_pointer,
                              errc::empty_matrix,
                              errc::bad_leading_dimension,
                              errc::partial_block,
                              errc::wrong_block_shape,
                              errc::no_amax,
                              errc::other_range,
                              errc::other_amax,
                              errc::other_signs,
                              errc::no_copy,
                              errc::not_adjacent,
                              errc::row_amax_with_tiles,
                              errc::amax_of_groups,
                              errc::bad_offsets,
                              errc::shape_mismatch,
                              errc::misaligned,
                              errc::buffer_too_small,
                              errc::overlap,
                              errc::too_large,
                              errc::bad_recipe,
                              errc::no_workspace,
                              errc::other_plan,
                              errc::no_instruction,
                              errc::cuda_failed};

/// A change of good arguments to bad ones, and the rule that it breaks.
struct broken {
  char const* how;
  errc rule;
  void (*change)(buffers&, matrix& x, blocks& q);
};

constexpr i64 limit = i64{1} << 31;

// In the order in which validate(x, q) looks.
const broken cases[] = {
    {"no rows", errc::empty_matrix, [](buffers&, matrix& x, blocks&) { x.rows = 0; }},
    {"negative columns", errc::empty_matrix, [](buffers&, matrix& x, blocks&) { x.cols = -1; }},
    {"2^31 rows", errc::too_large, [](buffers&, matrix& x, blocks&) { x.rows = limit; }},
    {"2^31 columns", errc::too_large, [](buffers&, matrix& x, blocks&) { x.cols = x.ld = limit; }},
    {"2^50 elements", errc::too_large,
     [](buffers&, matrix& x, blocks&) { x.rows = x.cols = x.ld = i64{1} << 25; }},
    {"no values", errc::null_pointer, [](buffers&, matrix& x, blocks&) { x.data = nullptr; }},
    {"rows closer than they are long", errc::bad_leading_dimension,
     [](buffers&, matrix& x, blocks&) { --x.ld; }},
    {"2^31 from row to row", errc::too_large, [](buffers&, matrix& x, blocks&) { x.ld = limit; }},
    {"values between elements", errc::misaligned,
     [](buffers& b, matrix& x, blocks&) { x.data = reinterpret_cast<float*>(b.bytes + 2); }},
    {"too few values", errc::buffer_too_small,
     [](buffers&, matrix& x, blocks&) { x.capacity = x.extent() - 1; }},
    {"fewer rows in q", errc::shape_mismatch, [](buffers&, matrix&, blocks& q) { --q.rows; }},
    {"fewer columns in q", errc::shape_mismatch, [](buffers&, matrix&, blocks& q) { q.cols -= 16; }},
    {"half a block", errc::partial_block, [](buffers&, matrix& x, blocks& q) { x.cols = q.cols = 24; }},
    {"no codes", errc::null_pointer, [](buffers&, matrix&, blocks& q) { q.codes = nullptr; }},
    {"no scales", errc::null_pointer, [](buffers&, matrix&, blocks& q) { q.scales = nullptr; }},
    {"too few codes", errc::buffer_too_small, [](buffers&, matrix&, blocks& q) { q.code_capacity = 255; }},
    {"too few scales", errc::buffer_too_small, [](buffers&, matrix&, blocks& q) { q.scale_capacity = 31; }},
    {"scales among the codes", errc::overlap,
     [](buffers& b, matrix&, blocks& q) { q.scales = b.codes + 255; }},
    {"codes among the scales", errc::overlap,
     [](buffers& b, matrix&, blocks& q) { q.scales = b.codes - 31; }},
    {"codes among the values", errc::overlap,
     [](buffers& b, matrix&, blocks& q) { q.codes = b.bytes + 2047; }},
    {"no amax", errc::no_amax, [](buffers&, matrix&, blocks& q) { q.amax = {}; }},
    {"an amax of a kind that there is not", errc::no_amax,
     [](buffers&, matrix&, blocks& q) { q.amax.kind = static_cast<amax_kind>(6); }},
    {"a number that there is not", errc::no_amax,
     [](buffers&, matrix&, blocks& q) { q.amax.number = static_cast<scale_number>(3); }},
    {"encode scales of rows", errc::no_amax,
     [](buffers& b, matrix&, blocks& q) {
       q.amax = amax_of_rows(b.amaxes);
       q.amax.number = scale_number::encode;
     }},
    {"a decode scale for tensor scale 1", errc::no_amax,
     [](buffers&, matrix&, blocks& q) {
       q.amax = unit_scale;
       q.amax.number = scale_number::decode;
     }},
    {"an amax for each group", errc::amax_of_groups,
     [](buffers& b, matrix&, blocks& q) { q.amax = amax_of_groups(b.amaxes); }},
    {"an amax at no address", errc::null_pointer,
     [](buffers&, matrix&, blocks& q) { q.amax = amax_in(nullptr); }},
    {"amaxes of rows at no address", errc::null_pointer,
     [](buffers&, matrix&, blocks& q) { q.amax = amax_of_rows(nullptr); }},
    {"an encode scale at no address", errc::null_pointer,
     [](buffers&, matrix&, blocks& q) { q.amax = encode_scale_in(nullptr); }},
    {"a decode scale at no address", errc::null_pointer,
     [](buffers&, matrix&, blocks& q) { q.amax = decode_scale_in(nullptr); }},
    {"an amax between floats", errc::misaligned,
     [](buffers& b, matrix&, blocks& q) { q.amax = amax_in(floats_at(b.bytes + 3842)); }},
    {"an amax of its own for each row between floats", errc::misaligned,
     [](buffers& b, matrix&, blocks& q) { q.amax = amax_of_rows(floats_at(b.bytes + 3841)); }},
    {"an amax among the codes", errc::overlap,
     [](buffers& b, matrix&, blocks& q) { q.amax = amax_in(floats_at(b.codes + 252)); }},
    {"an amax among the scales", errc::overlap,
     [](buffers& b, matrix&, blocks& q) { q.amax = decode_scale_in(floats_at(b.scales + 28)); }},
    {"codes that begin on the amax of the last row", errc::overlap,
     [](buffers& b, matrix&, blocks& q) {
       q.amax = amax_of_rows(b.amaxes - 64);
       q.codes = reinterpret_cast<u8*>(b.amaxes - 64 + rows) - 1;
     }},
    {"scales that begin on the amax of the last row", errc::overlap,
     [](buffers& b, matrix&, blocks& q) {
       q.amax = amax_of_rows(b.amaxes);
       q.scales = reinterpret_cast<u8*>(b.amaxes + rows) - 1;
     }},
    {"scales among the values", errc::overlap, [](buffers& b, matrix&, blocks& q) { q.scales = b.bytes; }},
    {"an amax among the values", errc::overlap,
     [](buffers& b, matrix&, blocks& q) { q.amax = amax_in(b.x + rows * cols - 1); }},
    {"amaxes of rows that end among the values", errc::overlap,
     [](buffers& b, matrix& x, blocks& q) {
       x.rows = q.rows = 15, x.data = b.x + cols;  // room for amaxes before the values
       q.amax = amax_of_rows(x.data - 14);
     }},
};

}  // namespace

TEST_CASE("errc: a sentence for each, no two alike", "[view][errc]") {
  std::set<std::string> sentences;
  int next = 0;
  for (const errc e : all_errcs) {
    CHECK(static_cast<int>(e) == next++);  // all of them, in their order
    const std::string sentence = message(e);
    CHECK(sentence.size() > 1);
    CHECK(sentences.insert(sentence).second);
  }
  CHECK(std::string(message(static_cast<errc>(next))) == "not an errc");
  CHECK(sentences.count(message(static_cast<errc>(sizeof all_errcs / sizeof all_errcs[0]))) == 0);
}

TEST_CASE("validate: good arguments are ok, up to their limits", "[view][validate]") {
  buffers b;
  matrix x = b.values();
  blocks q = b.quantized();
  CHECK(validate(x, q) == errc::ok);
  CHECK(validate(x, q, blocks_2d<16, 16>{}) == errc::ok);
  x.capacity = x.extent();
  q.code_capacity = 256, q.scale_capacity = 32;
  q.codes = b.bytes + 2048 + 32, q.scales = b.bytes + 2048;  // they touch, and do not overlap
  CHECK(validate(x, q) == errc::ok);
  q.amax = amax_in(floats_at(b.bytes + 2048 + 32 + 256));  // so does the amax
  CHECK(validate(x, q) == errc::ok);
  for (const amax_reference amax : {unit_scale, amax_value(3.0f), encode_scale_value(3.0f),
                                    decode_scale_in(b.amaxes), amax_of_rows(b.amaxes)}) {
    q.amax = amax;
    CHECK(validate(x, q) == errc::ok);
  }
}

TEST_CASE("validate: each rule can be broken, and then nothing is written", "[view][validate]") {
  for (broken const& c : cases) {
    INFO(c.how);
    buffers b;
    matrix x = b.values();
    blocks q = b.quantized();
    c.change(b, x, q);
    CHECK(validate(x, q) == c.rule);
    CHECK(host::quantize(x, q) == c.rule);
    CHECK(host::dequantize(q, x) == c.rule);
    CHECK(b.untouched());
  }
}

TEST_CASE("validate: rules are looked at in order, those of the matrix first", "[view][validate]") {
  buffers b;
  matrix x{nullptr, 0, 24, 23};
  blocks q{nullptr, nullptr, rows - 1, 24};
  q.code_capacity = 255;
  const blocks_2d<16, 16> tiles;
  // Everything is wrong; each line mends what the one before it was told.
  CHECK(validate(x, q, tiles) == errc::empty_matrix);
  x.rows = limit;
  CHECK(validate(x, q, tiles) == errc::too_large);
  x.rows = rows;
  CHECK(validate(x, q, tiles) == errc::null_pointer);
  x.data = reinterpret_cast<float*>(b.bytes + 1);
  CHECK(validate(x, q, tiles) == errc::bad_leading_dimension);
  x.ld = cols, x.capacity = 5;
  CHECK(validate(x, q, tiles) == errc::misaligned);
  x.data = b.x;
  CHECK(validate(x, q, tiles) == errc::buffer_too_small);
  x.capacity = -1;
  CHECK(validate(x, q, tiles) == errc::shape_mismatch);
  q.rows = rows;
  CHECK(validate(x, q, tiles) == errc::partial_block);
  x.cols = q.cols = cols;
  CHECK(validate(x, q, tiles) == errc::null_pointer);
  q.codes = q.scales = b.bytes;
  CHECK(validate(x, q, tiles) == errc::buffer_too_small);
  q.code_capacity = 256;
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::overlap);
  q.scales = b.scales;
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::no_amax);
  q.amax = amax_of_groups(nullptr);
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::amax_of_groups);
  q.amax = amax_of_rows(nullptr);
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::null_pointer);
  q.amax = amax_of_rows(floats_at(b.bytes + 1));
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::misaligned);
  q.amax = amax_of_rows(b.x);
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::overlap);
  q.amax = amax_of_rows(b.amaxes);
  CHECK(validate(x, q, blocks_2d<32, 32>{}) == errc::wrong_block_shape);
  const quantizer other{nearest_even{}, four_over_six<>{}};
  CHECK(validate(x, q, tiles, other) == errc::row_amax_with_tiles);
  q.amax = amax_in(b.amaxes);
  CHECK(validate(x, q, tiles, other) == errc::overlap);
  q.codes = b.codes;
  CHECK(validate(x, q, tiles, other) == errc::other_range);
  q.amax = {amax_in(b.amaxes), other};
  CHECK(validate(x, q, tiles, other) == errc::ok);
}

static_assert(fits_format<blocks_1d, nvfp4> && fits_format<blocks_2d<16, 16>, nvfp4>);
static_assert(!fits_format<blocks_2d<8, 8>, nvfp4> && !fits_format<blocks_2d<16, 32>, nvfp4>);
static_assert(fits_format<blocks_2d<32, 32>, mxfp8> && fits_format<blocks_2d<128, 128>, fp8_block_e4m3>);
static_assert(!fits_format<quantizer<>, nvfp4>, "no shape at all");

TEST_CASE("validate: rules of 2-D blocks", "[view][validate]") {
  buffers b;
  blocks q = b.quantized();
  CHECK(validate(b.values(), q, blocks_2d<32, 16>{}) == errc::wrong_block_shape);
  CHECK(validate(b.values(), q, blocks_2d<16, 8>{}) == errc::wrong_block_shape);
  q.amax = amax_of_rows(b.amaxes);
  CHECK(validate(b.values(), q, blocks_2d<16, 16>{}) == errc::row_amax_with_tiles);
  CHECK(host::quantize(b.values(), q, quantizer{}, blocks_2d<16, 16>{}) == errc::row_amax_with_tiles);
  CHECK(b.untouched());
}

TEST_CASE("validate: containers bring their size, for each layout and format", "[view][validate]") {
  std::vector<float> x(100 * 64);
  const auto count = [](i64 n) { return static_cast<std::size_t>(n); };
  std::vector<u8> codes(count(code_bytes<mxfp6>(100, 64))), linear_scales(200), swizzled_scales(512);
  const matrix_view<float const> m{x, 100, 64};
  CHECK(validate(m, block_scaled_view<mxfp6>{codes, linear_scales, 100, 64}) == errc::ok);
  CHECK(validate(m, block_scaled_view<mxfp6, swizzled_128x4>{codes, swizzled_scales, 100, 64}) == errc::ok);
  CHECK(validate(m, block_scaled_view<mxfp6, swizzled_128x4>{codes, linear_scales, 100, 64}) ==
        errc::buffer_too_small);
  CHECK(validate(m, block_scaled_view<mxfp8>{codes, linear_scales, 100, 64}) == errc::buffer_too_small);
  CHECK(validate(matrix_view<float const>{x, 101, 64}) == errc::buffer_too_small);
  CHECK(validate(matrix_view<float const>{x, 100, 63, 64}) == errc::ok);
  CHECK(validate(transposed(matrix_view<float const>{x, 100, 65})) == errc::buffer_too_small);
}

TEST_CASE("validate: 2^44 elements are too many", "[view][validate]") {
  buffers b;  // never touched: validate reads no element
  const i64 side = i64{1} << 22;
  CHECK(validate(matrix{b.x, side, side - 1}) == errc::ok);
  CHECK(validate(matrix{b.x, side, side + 1}) == errc::too_large);
  CHECK(validate(blocks{b.codes, b.scales, side, side + 16}) == errc::too_large);
  CHECK(validate(matrix{b.x, limit - 1, 1}) == errc::ok);
}

TEST_CASE("host: transpose, quantize_both, gemm and transform refuse broken arguments", "[view][validate]") {
  buffers b;
  u8 *codes = b.scales + 32, *scales = codes + 512;  // the columnwise copy
  const amax_reference amax = amax_in(b.amaxes);
  const blocks q = b.quantized(), wide{codes, scales, 32, 16, amax};
  const blocks tall{codes, scales, 32, 32, amax};  // as if there were 32 rows
  CHECK(host::transpose(q, tall) == errc::shape_mismatch);
  CHECK(host::transpose(q, blocks{b.codes + 255, scales, 32, 16, amax}) == errc::overlap);
  CHECK(host::transpose(q, blocks{nullptr, scales, 32, 16}) == errc::null_pointer);
  CHECK(host::transpose(blocks{b.codes, b.scales, 16, 24}, wide) == errc::partial_block);
  CHECK(host::quantize_both(b.values(), q, tall) == errc::shape_mismatch);
  CHECK(host::quantize_both(b.values(), q, blocks{b.codes, scales, 32, 16, amax}) == errc::overlap);
  CHECK(host::quantize_both(b.values(), q, blocks{b.bytes, scales, 32, 16, amax}) == errc::overlap);
  CHECK(host::quantize_both(b.values(), blocks{b.codes, b.scales, 16, 16}, wide) == errc::shape_mismatch);

  const matrix d{b.x, 16, 16};
  CHECK(host::gemm(q, wide, d) == errc::shape_mismatch);
  CHECK(host::gemm(q, q, matrix{b.x, 16, 15}) == errc::shape_mismatch);
  CHECK(host::gemm(q, blocks{b.codes, b.scales, 16, 24}, d) == errc::partial_block);
  CHECK(host::gemm(q, q, matrix{nullptr, 16, 16}) == errc::null_pointer);

  matrix_view<float const> x{b.x, 8, 16};
  const matrix y{b.x + 128, 8, 16};
  CHECK(host::transform<32>(x, y, identity{}) == errc::partial_block);
  CHECK(host::transform<16>(x, matrix{b.x + 127, 8, 16}, identity{}) == errc::overlap);
  CHECK(host::transform<16>(x, matrix{b.x + 128, 8, 32}, identity{}) == errc::shape_mismatch);
  CHECK(host::transform<8>(transposed(x), matrix{b.x + 128, 16, 8, 4}, identity{}) ==
        errc::bad_leading_dimension);
  CHECK(b.untouched());
  CHECK(host::transform<16>(x, y, identity{}) == errc::ok);
}

TEST_CASE("validate: a transpose has the rows and columns of its base", "[view][validate]") {
  buffers b;
  transposed_view<float> t = transposed(b.values());
  CHECK(validate(t) == errc::ok);
  --t.rows;
  CHECK(validate(t) == errc::shape_mismatch);
  t.rows += 2;
  CHECK(validate(t) == errc::shape_mismatch);
  t = transposed(b.values());
  t.cols += 16;
  CHECK(validate(t) == errc::shape_mismatch);
  const blocks q{b.codes, b.scales, t.rows, t.cols, unit_scale};
  CHECK(host::quantize(t, q) == errc::shape_mismatch);
  CHECK(host::dequantize(q, t) == errc::shape_mismatch);
  CHECK(b.untouched());
}

TEST_CASE("validate: 2^44 elements, with or without the gaps between rows, are too many",
          "[view][validate]") {
  float x = 0;
  constexpr i64 k = i64{1} << 22;
  CHECK(validate(matrix_view<float>{&x, k, k}) == errc::too_large);
  CHECK(validate(matrix_view<float>{&x, k, k - 1}) == errc::ok);
  CHECK(validate(matrix_view<float>{&x, k, 1, k}) == errc::too_large);
}

TEST_CASE("validate: 2^44 elements of a quantized matrix are too many", "[view][validate]") {
  u8 bytes[2] = {};
  constexpr i64 k = i64{1} << 22;
  CHECK(validate(block_scaled_view<mxfp4>{bytes, bytes + 1, k, k}) == errc::too_large);
  CHECK(validate(block_scaled_view<mxfp4>{bytes, bytes + 1, k - 1, k}) != errc::too_large);
  CHECK(validate(block_scaled_view<mxfp4>{bytes, bytes + 1, i64{1} << 31, 32}) == errc::too_large);
}

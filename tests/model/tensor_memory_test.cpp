// SPDX-License-Identifier: Apache-2.0
// Where things lie in tensor memory and in swizzled shared memory: each map against its inverse, or against
// the layout written in another way; so each is one-to-one.
#include <fourscale/model/column_allocator.hpp>
#include <fourscale/model/descriptor_checks.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::model;

namespace {

// ---- tcgen05.ld and .st: which register holds a cell

struct register_of_cell {
  u32 thread, reg;
};
FOURSCALE_HD register_of_cell holder(ld_shape s, u32 lane, u32 column, u32 half) {
  const u32 in_8 = lane % 8, upper = lane / 8;
  switch (s) {
    case ld_shape::s32x32b:
      return {lane, column};
    case ld_shape::s16x64b:
      return {in_8 * 4 + column % 2 * 2 + upper, column / 2};
    case ld_shape::s16x128b:
      return {in_8 * 4 + column % 4, column / 4 * 2 + upper};
    case ld_shape::s16x256b:
      return {in_8 * 4 + column % 8 / 2, column / 8 * 4 + upper * 2 + column % 2};
    default:
      return column < half ? register_of_cell{lane, column} : register_of_cell{lane + 16, column - half};
  }
}

/// Case i is a shape, a repeat factor and a cell.
struct each_cell_has_its_register {
  ld_shape shape;
  u32 num;
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 lanes = ld_lanes(shape), lane = static_cast<u32>(i) % lanes,
              column = static_cast<u32>(i) / lanes;
    const register_of_cell h = holder(shape, lane, column, num);
    return h.thread < 32 && h.reg < ld_registers(shape, num) &&
           ld_cell(shape, h.thread, h.reg, num) == tensor_address{lane, column};
  }
};

constexpr ld_shape shapes[] = {ld_shape::s32x32b, ld_shape::s16x64b, ld_shape::s16x128b, ld_shape::s16x256b,
                               ld_shape::s16x32bx2};

// PTX table 49.
static_assert(ld_registers(ld_shape::s32x32b, 128) == 128 && ld_registers(ld_shape::s16x128b, 64) == 128);
static_assert(ld_registers(ld_shape::s16x256b, 32) == 128 && !valid_repeat(ld_shape::s16x256b, 64));
static_assert(!valid_repeat(ld_shape::s16x128b, 128) && !valid_repeat(ld_shape::s32x32b, 3));
static_assert(!valid_repeat(ld_shape::s32x32b, 0) && valid_repeat(ld_shape::s16x64b, 128));

// ---- tcgen05.cp

/// The row that a lane gets, from the words of PTX ISA 9.7.16.9.2: warps of a pair get the same half.
int cp_row_of(cp_shape s, u32 lane) {
  const int warp = static_cast<int>(lane / 32), in_warp = static_cast<int>(lane % 32);
  switch (s) {
    case cp_shape::s32x128b_warpx4:
      return in_warp;
    case cp_shape::s64x128b_02_13:
      return warp % 2 * 32 + in_warp;
    case cp_shape::s64x128b_01_23:
      return warp / 2 * 32 + in_warp;
    case cp_shape::s4x256b:
      return in_warp == 0 ? warp : -1;
    default:
      return static_cast<int>(lane);
  }
}
constexpr cp_shape cp_shapes[] = {cp_shape::s128x256b,      cp_shape::s4x256b,
                                  cp_shape::s128x128b,      cp_shape::s64x128b_02_13,
                                  cp_shape::s64x128b_01_23, cp_shape::s32x128b_warpx4};

// ---- swizzles

struct swizzled_tile {
  swizzle mode;
  u32 start;        ///< of the pattern
  u32 base_offset;  ///< of the descriptor
  u32 k_step;       ///< 32 bytes each

  /// Byte `byte` of row `row` of the whole atom, from the start of the tile on: rows one after the other,
  /// chunks xored with the row (128B), a pair of rows (64B), four rows (32B).
  FOURSCALE_HD static constexpr u32 offset(swizzle s, u32 row, u32 byte) {
    const u32 chunk = byte / 16, rest = byte % 16;
    if (s == swizzle::b128) return row * 128 + (chunk ^ row % 8) * 16 + rest;
    if (s == swizzle::b64) return row * 64 + (chunk ^ row / 2 % 4) * 16 + rest;
    return row * 32 + (chunk ^ row / 4 % 2) * 16 + rest;
  }
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 row = static_cast<u32>(i) / 32, byte = static_cast<u32>(i) % 32, width = swizzle_width(mode);
    shared_fields d{};
    d.start = start + 32 * k_step, d.stride = 8 * width, d.constant = 1, d.base_offset = base_offset;
    d.swizzle_code = static_cast<u32>(mode);
    return operand_address(d, row, byte) == start + offset(mode, row, 32 * k_step + byte);
  }
};

// ---- outputs and scales of an mma

struct placed {
  mma_shape shape;
  /// The layout of CUTLASS for M = 128 of two CTAs: N up to 128 has halves of 64, and above of 128.
  FOURSCALE_HD tensor_address scale_in_halves(u32 column) const {
    const u32 bits_of_half = shape.n > 128 ? 7 : 6, in_half = column & ((1u << bits_of_half) - 1);
    return {(column >> bits_of_half) * 64 + (in_half & 31u), in_half >> 5};
  }
  /// Output i of a CTA, from the layouts of PTX ISA 9.7.16.10.5 as nested arrays; and its scale of B.
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 column = static_cast<u32>(i) % shape.n, row = static_cast<u32>(i) / shape.n;
    if (shape.ctas == 2 && shape.m == 128) {
      const u32 half = column >= shape.n / 2, in_half = column - half * (shape.n / 2);
      return shape.output(row, column) == tensor_address{half * 64 + row, in_half} &&
             shape.scale_b(column) == scale_in_halves(column);
    }
    return shape.output(row, column) == tensor_address{row, column} &&
           shape.scale_b(column) == tensor_address{column & 31u, column >> 5} &&
           shape.scale_a(row) == tensor_address{row & 31u, row >> 5};
  }
};

// Column 8 of N = 16 tells CUTLASS's halves from those of N itself, which would say lane 64; and the borders.
static_assert(mma_shape{128, 16, 2}.scale_b(8) == tensor_address{8, 0});
static_assert(mma_shape{128, 64, 2}.scale_b(63) == tensor_address{31, 1});
static_assert(mma_shape{128, 128, 2}.scale_b(63) == tensor_address{31, 1} &&
              mma_shape{128, 128, 2}.scale_b(64) == tensor_address{64, 0});
static_assert(mma_shape{128, 192, 2}.scale_b(127) == tensor_address{31, 3} &&
              mma_shape{128, 192, 2}.scale_b(128) == tensor_address{64, 0});
static_assert(mma_shape{128, 256, 2}.scale_b(128) == tensor_address{64, 0} &&
              mma_shape{128, 256, 2}.scale_b(255) == tensor_address{95, 3});
static_assert(mma_shape{256, 16, 2}.scale_b(8) == tensor_address{8, 0},
              "not with M = 256: nothing is halved");

/// The columns of scales are those that scale_b() points into, and no more.
constexpr bool scale_columns_are_used(mma_shape s) {
  u32 most = 0;
  for (u32 column = 0; column < s.n; ++column) {
    const tensor_address at = s.scale_b(column);
    if (at.column >= most) most = at.column + 1;
    if (at.lane + 32 * (s.scale_b_copies() - 1) >= tensor_lanes) return false;
  }
  return most == s.scale_b_columns();
}
constexpr bool all_scale_columns_are_used() {
  bool right = true;
  for (u32 n = 8; n <= 256; n += 8) {
    right = right && scale_columns_are_used({128, n, 1});
    if (n % 16 == 0)
      right = right && scale_columns_are_used({128, n, 2}) && scale_columns_are_used({256, n, 2});
  }
  return right;
}
static_assert(all_scale_columns_are_used());

// ---- words

// The model shares the enums of ptx/, so their codes are restated here: tables 40, 43 and 44.
constexpr u32 code_of(auto e) { return static_cast<u32>(e); }
static_assert(code_of(scale_type::ue4m3) == 0 && code_of(scale_type::ue8m0) == 1);
static_assert(code_of(element_type::e4m3) == 0 && code_of(element_type::e5m2) == 1 &&
              code_of(element_type::e2m3) == 3 && code_of(element_type::e3m2) == 4 &&
              code_of(element_type::e2m1) == 5);
static_assert(code_of(swizzle::none) == 0 && code_of(swizzle::b128_atom_32b) == 1 &&
              code_of(swizzle::b128) == 2 && code_of(swizzle::b64) == 4 && code_of(swizzle::b32) == 6);

// The golden words of the manual's tables, as CUTLASS and ThunderKittens build them.
constexpr instruction_fields golden[] = {decode_instruction(0x0820'0480, mma_kind::mxf4nvf4),
                                         decode_instruction(0x0840'0480, mma_kind::mxf4nvf4),
                                         decode_instruction(0x1040'0480, mma_kind::mxf4nvf4)};
static_assert(golden[0].m == 128 && golden[0].n == 128 && golden[0].type_a == 1 && golden[0].type_b == 1);
static_assert(golden[0].scale == scale_type::ue4m3 && golden[0].reserved == 0 && !golden[0].k96);
static_assert(golden[1].m == 128 && golden[1].n == 256 && golden[2].m == 256 && golden[2].n == 256);
static_assert(check_instruction({mma_kind::mxf4nvf4, 16, 0x0820'0480}, 1) == misuse::ok);
static_assert(check_instruction({mma_kind::mxf4nvf4, 16, 0x1040'0480}, 2) == misuse::ok);
static_assert(check_instruction({mma_kind::mxf4nvf4, 16, 0x1040'0480}, 1) == misuse::wrong_shape);
// M 256, N 256, UE8M0, both ids 2 (table 44), and E5M2 x E2M1, ids 3 and 1, N 64 (table 43).
constexpr instruction_fields mx = decode_instruction(0x50c0'04a0, mma_kind::mxf4);
static_assert(mx.m == 256 && mx.n == 256 && mx.scale == scale_type::ue8m0 && mx.scale_id_a == 2 &&
              mx.scale_id_b == 2);
constexpr u32 mxf8_word = 1u << 4 | 1u << 7 | 5u << 10 | 8u << 17 | 1u << 23 | 1u << 27 | 3u << 29;
static_assert(decode_instruction(mxf8_word, mma_kind::mxf8f6f4).type_b == 5);
static_assert(check_instruction({mma_kind::mxf8f6f4, 32, mxf8_word}, 1) == misuse::ok);
static_assert(check_instruction({mma_kind::mxf4, 32, mxf8_word}, 1) == misuse::reserved_bits);
// smem_desc(0x400, 16, 1024, 128B).
constexpr u64 shared_word = 0x40ull | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
constexpr shared_fields shared_golden = decode_shared(shared_word);
static_assert(shared_golden.start == 0x400 && shared_golden.leading == 16 && shared_golden.stride == 1024);
static_assert(shared_golden.constant == 1 && shared_golden.zero == 0 &&
              shared_golden.mode() == swizzle::b128);
static_assert(decode_tensor_address(0x0060'0123) == tensor_address{0x60, 0x123} &&
              tensor_address{0x60, 0x123}.word() == 0x0060'0123);

// One tile of 16 rows: what may and may not be said of it. Start, leading, stride, mode, base offset.
constexpr misuse tile(u32 start, u32 leading, u32 stride, swizzle s, u32 base_offset = 0,
                      u32 row_bytes = 32) {
  shared_fields d{};
  d.start = start, d.leading = leading, d.stride = stride, d.base_offset = base_offset, d.constant = 1;
  d.swizzle_code = static_cast<u32>(s);
  return check_shared(d, 16, row_bytes, {nullptr, 1024, 8192});
}
static_assert(tile(1024, 0, 1024, swizzle::b128) == misuse::ok &&
              tile(1024 + 96, 16, 2048, swizzle::b128) == misuse::ok);
static_assert(tile(1024 + 112, 0, 1024, swizzle::b128) == misuse::off_swizzle_boundary,
              "the step leaves the row");
static_assert(tile(1024 + 256, 0, 1024, swizzle::b128) == misuse::off_swizzle_boundary);
static_assert(tile(1024 + 256, 0, 1024, swizzle::b128, 2) == misuse::ok, "unless the base offset says so");
static_assert(tile(1024 + 256, 0, 1024, swizzle::b128, 3) == misuse::off_swizzle_boundary);
static_assert(tile(1024, 0, 1024, swizzle::b128, 1) == misuse::off_swizzle_boundary);
static_assert(tile(1024, 0, 512, swizzle::b128) == misuse::wrong_stride &&
              tile(1024, 0, 0, swizzle::b128) == misuse::wrong_stride);
static_assert(tile(1536, 0, 512, swizzle::b64) == misuse::ok &&
              tile(1536 + 32, 0, 512, swizzle::b64) == misuse::ok);
static_assert(tile(1536 + 48, 0, 512, swizzle::b64) == misuse::off_swizzle_boundary);
static_assert(tile(1536 + 64, 0, 512, swizzle::b64) == misuse::off_swizzle_boundary, "half a line");
static_assert(tile(1280, 0, 256, swizzle::b32) == misuse::ok &&
              tile(1280, 0, 128, swizzle::b32) == misuse::wrong_stride);
static_assert(tile(1040, 128, 256, swizzle::none) == misuse::ok &&
              tile(1040, 256, 128, swizzle::none) == misuse::ok);
static_assert(tile(1040, 128, 128, swizzle::none) == misuse::wrong_stride,
              "chunk 1 of rows 0 to 7 is chunk 0 of 8 to 15");
static_assert(tile(1040, 256, 64, swizzle::none) == misuse::wrong_stride &&
              tile(1040, 0, 128, swizzle::none, 0, 16) == misuse::ok);
static_assert(tile(1040, 128, 256, swizzle::none, 1) == misuse::off_swizzle_boundary);
static_assert(tile(0, 128, 256, swizzle::none) == misuse::shared_out_of_bounds, "before the first byte");
static_assert(tile(8192, 0, 1024, swizzle::b128) == misuse::shared_out_of_bounds &&
              tile(7168, 0, 1024, swizzle::b128) == misuse::ok);
static_assert(tile(1024, 0, 1024, swizzle::b128, 0, 16) == misuse::bad_swizzle, "a copy of 16 bytes a row");
static_assert(tile(1024, 0, 1024, swizzle::b128_atom_32b) == misuse::bad_swizzle);

/// Every field of a random word, put back where the tables say, gives the word again.
struct words_round_trip {
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 w = static_cast<u32>(test::mix(i));
    const instruction_fields f = decode_instruction(w, mma_kind::mxf4nvf4),
                             g = decode_instruction(w, mma_kind::mxf8f6f4);
    const auto sum = [](instruction_fields const& x) {  // a sum, so that no bit may serve two fields
      return x.reserved + (u32{x.sparse} << 2) + (x.scale_id_b << 4) + (x.type_a << 7) + (x.type_b << 10) +
             (u32{x.negate_a} << 13) + (u32{x.negate_b} << 14) + (u32{x.transpose_a} << 15) +
             (u32{x.transpose_b} << 16) + (x.n / 8 << 17) + (static_cast<u32>(x.scale) << 23) +
             (x.m / 128 << 27) + (x.scale_id_a << 29) + (u32{x.k96} << 31);
    };
    const u64 d = test::mix(i + 1);
    const shared_fields s = decode_shared(d);
    const u64 back = u64{s.start / 16} + (u64{s.leading / 16} << 16) + (u64{s.stride / 16} << 32) +
                     (u64{s.constant} << 46) + (u64{s.base_offset} << 49) + (u64{s.absolute} << 52) +
                     (u64{s.swizzle_code} << 61);
    const u64 gaps = 0x1fe0'0000'c000'c000ull;
    return sum(f) == w && sum(g) == w && back == (d & ~gaps) && (s.zero == 0) == ((d & gaps) == 0);
  }
};

// ---- elements of mxf8f6f4 in shared memory

struct chunk_expands {
  element_type type;
  FOURSCALE_HD bool operator()(u64 i) const {
    u64 out[2] = {};
    const u64 low = test::mix(i), high = test::mix(i + 9);
    model::detail::expand_chunk(type, low, high, out);
    const u32 width = type == element_type::e2m1                                 ? 4
                      : type == element_type::e4m3 || type == element_type::e5m2 ? 8
                                                                                 : 6;
    for (u32 element = 0; element < 16; ++element) {
      u32 code = 0;
      for (u32 bit = 0; bit < width; ++bit) {
        const u32 at = element * width + bit;
        code |= static_cast<u32>((at < 64 ? low >> at : high >> (at - 64)) & 1) << bit;
      }
      if (width == 4) code <<= 2;
      if (code != (out[element / 8] >> (element % 8 * 8) & 255)) return false;
    }
    return true;
  }
};

}  // namespace

TEST_CASE("tcgen05.ld: each cell goes to the register that its shape says", "[model][tensor_memory]") {
  for (const ld_shape s : shapes)
    for (u32 num = 1; num <= 128; num *= 2) {
      CHECK(valid_repeat(s, num) == (ld_registers(s, num) <= 128));
      const u32 columns = num * (s == ld_shape::s16x32bx2 ? 2 : ld_columns(s));
      CHECK(ld_lanes(s) * columns == 32 * ld_registers(s, num));
      test::check_everywhere(u64{ld_lanes(s)} * columns, each_cell_has_its_register{s, num});
    }
}

TEST_CASE("tcgen05.cp: each lane gets the row that its warp pair says, once", "[model][tensor_memory]") {
  for (const cp_shape s : cp_shapes) {
    int rows[128] = {}, wrong = 0, visits[128] = {};
    for (int& row : rows) row = -1;
    for (u32 row = 0; row < cp_rows(s); ++row)
      for (u32 copy = 0; copy < cp_copies(s); ++copy) {
        const u32 lane = cp_lane(s, row, copy);
        REQUIRE(lane < 128);
        rows[lane] = static_cast<int>(row), wrong += ++visits[lane] != 1;
      }
    for (u32 lane = 0; lane < 128; ++lane) wrong += rows[lane] != cp_row_of(s, lane);
    CHECK(wrong == 0);
  }
}

TEST_CASE("shared memory: K-major tiles under each swizzle, at each K step and base offset",
          "[model][shared_memory]") {
  for (const swizzle s : {swizzle::b128, swizzle::b64, swizzle::b32})
    for (u32 k = 0; k < swizzle_width(s) / 32; ++k) {
      test::check_everywhere(128 * 32, swizzled_tile{s, 0x2400, 0, k});
      if (s == swizzle::b128) test::check_everywhere(128 * 32, swizzled_tile{s, 0x2400 + 3 * 128, 3, k});
    }
  for (const swizzle s : {swizzle::b128, swizzle::b64, swizzle::b32}) {  // one-to-one
    bool seen[8 * 128] = {};
    for (u32 i = 0; i < 8 * swizzle_width(s); ++i) {
      const u32 at = swizzled_tile::offset(s, i / swizzle_width(s), i % swizzle_width(s));
      REQUIRE(at < 8 * swizzle_width(s));
      CHECK_FALSE(seen[at]);
      seen[at] = true;
    }
  }
  shared_fields plain{};
  plain.start = 512, plain.leading = 2048, plain.stride = 128;
  CHECK(operand_address(plain, 13, 21) == 512 + 2048 + 128 + 5 * 16 + 5);
}

TEST_CASE("tcgen05.mma: outputs and scales lie where the data path layouts say", "[model][tensor_memory]") {
  test::check_everywhere(128 * 128, placed{{128, 128, 1}});
  test::check_everywhere(128 * 256, placed{{256, 256, 2}});
  test::check_everywhere(64 * 256, placed{{128, 256, 2}});
  for (u32 n = 16; n <= 256; n += 16) test::check_everywhere(64 * n, placed{{128, n, 2}});
}

TEST_CASE("descriptors: fields are where the tables of PTX have them", "[model][descriptor_fields]") {
  test::check_everywhere(20'000, words_round_trip{});
}

TEST_CASE("shared memory: narrow elements of mxf8f6f4 unpack into containers", "[model][shared_memory]") {
  for (const element_type t :
       {element_type::e4m3, element_type::e5m2, element_type::e2m3, element_type::e3m2, element_type::e2m1})
    test::check_everywhere(2'000, chunk_expands{t});
}

TEST_CASE("tcgen05.alloc: powers of two, never growing, not after relinquish", "[model][column_allocator]") {
  column_allocator a;
  u32 first = 99;
  CHECK(a.alloc(16, first) == misuse::bad_column_count);
  CHECK(a.alloc(96, first) == misuse::bad_column_count);
  CHECK(a.alloc(1024, first) == misuse::bad_column_count);
  CHECK(a.alloc(256, first) == misuse::ok);
  CHECK(first == 0);
  CHECK(a.alloc(512, first) == misuse::growing_allocation);
  CHECK(a.alloc(64, first) == misuse::ok);
  CHECK(first == 256);
  CHECK(a.alloc(64, first) == misuse::ok);
  CHECK(first == 320);
  CHECK(a.alloc(128, first) == misuse::growing_allocation);
  CHECK(a.alloc(32, first) == misuse::ok);
  CHECK(first == 384);
  CHECK((a.holds(0, 416) && !a.holds(400, 32) && !a.holds(500, 32) && !a.holds(0, 0)));
  CHECK((a.is_allocation(256, 64) && !a.is_allocation(256, 128) && !a.is_allocation(256, 32)));
  CHECK_FALSE(a.is_allocation(0, 512));
  a.release(256, 64);
  CHECK((!a.holds(256, 1) && a.holds(320, 64)));
  for (int i = 0; i < 2; ++i) CHECK(a.alloc(32, first) == misuse::ok);
  CHECK(first == 288);
  for (int i = 0; i < 3; ++i) CHECK(a.alloc(32, first) == misuse::ok);
  CHECK(a.alloc(32, first) == misuse::out_of_columns);
  a.relinquished = true;
  a.release(0, 256);
  CHECK(a.alloc(32, first) == misuse::alloc_after_relinquish);
  CHECK_FALSE(a.empty());
}

// SPDX-License-Identifier: Apache-2.0
// The weight-only GEMM by wgmma as far as a host can see it: which lane holds what, where X lies before and
// after it is brought to order, that both operands agree about k, and that plans leave nothing out.
#include <fourscale/mma/weight_only_wgmma.hpp>
#include <vector>

#include "support/catch.hpp"

using namespace fourscale;
namespace wo = fourscale::mma::weight_only;
namespace wg = fourscale::mma::weight_only::by_wgmma;

namespace {

/// Byte `byte` of row `row` of 128 bytes, under TMA's swizzle (PTX ISA 5.5.6).
int swizzled(int row, int byte) { return row * 128 + (byte ^ row % 8 * 16); }

/// Where TMA writes value `v` of row `row` of X of a stage.
int place_of_x(int n_tiles, int row, int v) {
  return v / wo::slice_values * wo::slice_bytes(n_tiles) + swizzled(row, v % wo::slice_values * 2);
}

/// X of a stage: row * 256 + value, by place, as TMA writes it.
std::vector<int> raw_x(int n_tiles) {
  std::vector<int> tags(static_cast<size_t>(wo::x_stage_bytes(n_tiles) / 2), -1);
  for (int row = 0; row < 8 * n_tiles; ++row)
    for (int v = 0; v < wo::stage_values; ++v)
      tags[static_cast<size_t>(place_of_x(n_tiles, row, v) / 2)] = row * wo::stage_values + v;
  return tags;
}

/// What a warp does with eight rows of half a stage: order_x() of weight_only_wgmma.cuh.
void order_rows(std::vector<int>& x, int n_tiles, int half, int rows) {
  const std::vector<int> before = x;
  constexpr size_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // in_order_of_registers()
  for (int lane = 0; lane < 32; ++lane)
    for (int word = 0; word < 4; ++word) {
      const int from = rows * 1024 + wg::raw_x_offset(n_tiles, lane, half, word);
      // As the kernel computes it.
      CHECK(from == rows * 1024 + (wg::raw_x_offset(n_tiles, lane, half, 0) ^ 16 * word));
      for (int matrix = 0; matrix < 4; ++matrix) {  // stmatrix: a lane has two values of a row
        const int to = rows * 1024 + wg::ordered_x_offset(n_tiles, lane / 4, half, word, matrix);
        CHECK(to == rows * 1024 + (wg::ordered_x_offset(n_tiles, lane / 4, half, 0, matrix) ^ word % 2 * 64) +
                        word / 2 * wo::slice_bytes(n_tiles));
        for (size_t e = 0; e < 2; ++e)
          x[static_cast<size_t>(to / 2 + lane % 4 * 2) + e] =
              before[static_cast<size_t>(from / 2) + order[2 * static_cast<size_t>(matrix) + e]];
      }
    }
}

}  // namespace

TEST_CASE("weight-only by wgmma: lanes hold each weight of a tile once", "[mma][weight_only]") {
  for (const bool swizzled_scales : {false, true}) {
    std::vector<int> count(wg::tile_rows * wo::stage_values);
    for (int warp = 0; warp < 4; ++warp)
      for (int lane = 0; lane < 32; ++lane)
        for (int j = 0; j < 2; ++j) {
          const int row = wg::local_row(swizzled_scales, warp, lane, j);
          REQUIRE((row >= 0 && row < wg::tile_rows));
          for (int half = 0; half < 2; ++half) {
            const int at = wg::code_offset(row, lane, half);
            CHECK(at == swizzled(row, wo::value_of(lane, half, 0, 0, 0) / 2));
            for (int i = 0; i < 32; ++i)
              ++count[static_cast<size_t>(row * wo::stage_values + wo::value_of(lane, half, 0, 0, 0) + i)];
          }
        }
    for (const int c : count) CHECK(c == 1);
  }
}

TEST_CASE("weight-only by wgmma: X is brought to the order of fragments", "[mma][weight_only]") {
  for (const int n_tiles : {1, 2, 4, 8}) {
    std::vector<int> x = raw_x(n_tiles);
    for (int half = 0; half < 2; ++half)
      for (int rows = 0; rows < n_tiles; ++rows) order_rows(x, n_tiles, half, rows);
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 8; ++i)
        for (int row = 0; row < 8 * n_tiles; ++row)
          for (int k = 0; k < 16; ++k) {
            // What the instruction reads: 32 bytes of a row of 128, swizzled by their address.
            const int step = static_cast<int>(wg::x_descriptor_step(n_tiles, half, i)) * 16;
            const int slice = step / wo::slice_bytes(n_tiles) * wo::slice_bytes(n_tiles);
            const int at = slice + swizzled(row, step - slice + 2 * k);
            // What the fragment holds there: register 2 (i % 2) + k / 8 of word i / 2 of lane k % 8 / 2.
            const int v = wo::value_of(k % 8 / 2, half, i / 2, i % 2 * 2 + k / 8, k % 2);
            CHECK(x[static_cast<size_t>(at / 2)] == row * wo::stage_values + v);
          }
  }
}

TEST_CASE("weight-only by wgmma: scales lie as in memory, four to a word", "[mma][weight_only]") {
  for (const bool swizzled_scales : {false, true}) {
    std::vector<int> count(wg::tile_scales / 4);
    for (int row = 0; row < wg::tile_rows; ++row)
      for (int word = 0; word < wo::stage_scales / 4; ++word) {
        const int at = wg::scale_offset(swizzled_scales, row, word);
        REQUIRE((at % 4 == 0 && at >= 0 && at < wg::tile_scales));
        ++count[static_cast<size_t>(at / 4)];
        // In the layout swizzled_128x4 a row of 128 has its word at (row % 32) * 16 + row / 32 * 4 of 512
        // bytes, of which a box has the half that tile % 2 names.
        const int of_band = static_cast<int>(wg::row_of_tile(true, 1, row));
        if (swizzled_scales) CHECK(at == word * 256 + of_band % 32 * 16 + of_band / 32 * 4 - 256);
      }
    for (const int c : count) CHECK(c == 1);
  }
}

TEST_CASE("weight-only by wgmma: tiles have each row once, and neighbours in 16", "[mma][weight_only]") {
  for (const bool swizzled_scales : {false, true})
    for (const i64 rows : {i64{1}, i64{63}, i64{65}, i64{128}, i64{129}, i64{500}}) {
      const i64 tiles = wg::tiles_of(swizzled_scales, rows);
      std::vector<int> count(static_cast<size_t>(tiles * wg::tile_rows));
      CHECK(tiles * wg::tile_rows >= rows);
      CHECK(tiles * wg::tile_rows < rows + 128);
      for (i64 tile = 0; tile < tiles; ++tile)
        for (int row = 0; row < wg::tile_rows; ++row) {
          const i64 n = wg::row_of_tile(swizzled_scales, tile, row);
          REQUIRE((n >= 0 && n < tiles * wg::tile_rows));
          ++count[static_cast<size_t>(n)];
          if (row % 4 != 0) CHECK(n == wg::row_of_tile(swizzled_scales, tile, row - 1) + 1);
        }
      for (const int c : count) CHECK(c == 1);
    }
}

TEST_CASE("weight-only by wgmma: lanes in a row use different banks", "[mma][weight_only]") {
  for (const bool swizzled_scales : {false, true})
    for (int warp = 0; warp < 4; ++warp)
      for (int first = 0; first < 32; first += 8) {  // eight lanes read 16 bytes of codes each
        u32 banks = 0;
        for (int lane = first; lane < first + 8; ++lane)
          banks |= 1u << (wg::code_offset(wg::local_row(swizzled_scales, warp, lane, 0), lane, 0) / 16 % 8);
        CHECK(banks == 0xff);
      }
}

TEST_CASE("weight-only by wgmma: sums have a place each, where lanes write and rows are read",
          "[mma][weight_only]") {
  for (const int n_tiles : {1, 2, 4, 8}) {
    // The place of each row of W and of X, as those read it that store.
    std::vector<int> place(static_cast<size_t>(wg::pair_rows * 8 * n_tiles), -1), count = place;
    for (int& c : count) c = 0;
    for (int row = 0; row < wg::pair_rows; ++row)
      for (int chunk = 0; chunk < 2 * n_tiles; ++chunk)
        for (int i = 0; i < 4; ++i) {
          const int at = wg::sums_offset(n_tiles, row, chunk) + i,
                    row_of_x = wg::row_of_x_at(n_tiles, chunk, i);
          REQUIRE((at >= 0 && at < wg::pair_rows * 8 * n_tiles && row_of_x < 8 * n_tiles));
          ++count[static_cast<size_t>(at)];
          place[static_cast<size_t>(row * 8 * n_tiles + row_of_x)] = at;
          CHECK(row_of_x >= wg::row_of_x_at(n_tiles, chunk, 0));
        }
    for (const int c : count) CHECK(c == 1);
    for (const bool swizzled_scales : {false, true})
      for (int warp = 0; warp < 4; ++warp)
        for (int lane = 0; lane < 32; ++lane)
          for (int j = 0; j < 2; ++j)
            for (int k = 0; k < wg::parts_of_lane(n_tiles); ++k)
              for (int i = 0; i < wg::part_floats(n_tiles); ++i) {
                const int row = wg::local_row(swizzled_scales, warp, lane, j);
                // Element e of wgmma's D: row e / 2 % 2 of a lane, column 8 (e / 4) + 2 (lane % 4) + e % 2.
                const int e = wg::element_of_part(j, k, i), col = e / 4 * 8 + lane % 4 * 2 + e % 2;
                CHECK((e / 2 % 2 == j && e >= 0 && e < 4 * n_tiles));
                CHECK(wg::part_offset(n_tiles, row, lane, k) + i ==
                      place[static_cast<size_t>(row * 8 * n_tiles + col)]);
              }
  }
}

TEST_CASE("weight-only by wgmma: sums that are written or read together are in different banks",
          "[mma][weight_only]") {
  for (const int n_tiles : {1, 2, 4, 8})
    for (int chunk = 0; chunk < 2 * n_tiles; ++chunk)
      for (int first = 0; first < wg::pair_rows; first += 8) {
        u32 banks = 0;
        for (int row = first; row < first + 8; ++row)
          banks |= 1u << (wg::sums_offset(n_tiles, row, chunk) / 4 % 8);
        CHECK(banks == 0xff);
      }
  for (const int n_tiles : {4, 8})  // with 16 rows of X, two lanes share one
    for (const bool swizzled_scales : {false, true})
      for (int first = 0; first < 32; first += 8) {
        u32 banks = 0;
        for (int lane = first; lane < first + 8; ++lane)
          banks |=
              1u << (wg::part_offset(n_tiles, wg::local_row(swizzled_scales, 1, lane, 0), lane, 1) / 4 % 8);
        CHECK(banks == 0xff);
      }
}

TEST_CASE("weight-only by wgmma: rows that a CTA stores are whole eights, which a warp's lanes share",
          "[mma][weight_only]") {
  for (const int ctas : {1, 2, 4, 8})
    for (const int count : {1, 2}) {
      const int part = count * wg::tile_rows / ctas;
      CHECK(part % 8 == 0);
      for (const bool swizzled_scales : {false, true})
        for (int warp = 0; warp < 4; ++warp)
          for (int j = 0; j < 2; ++j)
            for (int lane = 1; lane < 32; ++lane)
              CHECK(wg::local_row(swizzled_scales, warp, lane, j) / part ==
                    wg::local_row(swizzled_scales, warp, 0, j) / part);
    }
}

TEST_CASE("weight-only by wgmma: plans leave nothing out", "[mma][weight_only]") {
  for (const wo::machine m :
       {wo::machine{132, 227 << 10, true}, wo::machine{132, 227 << 10, true, {132, 66, 30, 14}},
        wo::machine{132, 227 << 10, true, {132, 66, 30, 0}, 4}, wo::machine{7, 227 << 10, true, {}, 1}})
    for (const int ctas : {0, 2, 4, 8})
      for (const int n_tiles : {1, 2, 4, 8})
        for (const i64 n : {i64{1}, i64{100}, i64{4096}, i64{9001}, i64{28672}})
          for (const i64 k : {i64{64}, i64{256}, i64{320}, i64{1024}, i64{8192}, i64{28672}}) {
            CHECK(wg::has_plan(k, m, ctas) == (k > 256 && m.most_ctas > 1));
            CHECK(!wg::has_plan(k, m, 1));  // a cluster has two CTAs or more
            if (!wg::has_plan(k, m, ctas)) continue;
            const wg::plan p = wg::make_plan(n_tiles, wg::tiles_of(true, n), k, m, ctas);
            INFO(n << " x " << k << ", " << p.ctas() << " of " << ctas);
            CHECK((p.ctas() >= 2 && p.ctas() <= m.most_ctas && p.ctas() <= p.stages.all &&
                   (ctas == 0 || p.ctas() <= ctas)));
            CHECK(p.clusters() <= (m.at_once[1] ? m.at_once[p.ctas() / 2 - p.ctas() / 8] : m.sms / p.ctas()));
            CHECK(i64{p.stages.all} * wo::stage_values >= k);
            CHECK((p.tiles_of(0).begin == 0 && p.tiles_of(p.clusters() * p.ctas() - 1).end == p.tiles.all));
            CHECK((p.stages_of(0).begin == 0 && p.stages_of(p.ctas() - 1).end == p.stages.all));
            for (int i = 0; i < p.clusters() * p.ctas(); ++i) CHECK(p.tiles_of(i).begin < p.tiles_of(i).end);
            for (int i = 0; i < p.ctas(); ++i) CHECK(p.stages_of(i).begin < p.stages_of(i).end);
          }
}

TEST_CASE("weight-only by wgmma: on an H200, plans are those that were the fastest there",
          "[mma][weight_only]") {
  const wo::machine h200{132, 227 << 10, true, {132, 66, 30, 15}};
  for (const int n_tiles : {1, 2, 8})
    for (const i64 k : {i64{4096}, i64{8192}, i64{28672}})
      CHECK(wg::make_plan(n_tiles, 128, k, h200).ctas() == 2);
}

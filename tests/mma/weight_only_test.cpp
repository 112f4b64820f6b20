// SPDX-License-Identifier: Apache-2.0
// The weight-only GEMM as far as a host can see it: which lane holds what, that both operands agree about k,
// that codes arrive at their values, and that plans fit.
#include <cmath>
#include <cstring>
#include <fourscale/formats/convert.hpp>
#include <fourscale/formats/e2m1.hpp>
#include <fourscale/formats/real.hpp>
#include <fourscale/mma/codes_to_bf16.hpp>
#include <fourscale/mma/weight_only_plan.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;
namespace wo = fourscale::mma::weight_only;

namespace {

/// X of a stage in shared memory: which row and value lies in each place, or -1.
struct x_tags {
  std::vector<int> row, value;

  explicit x_tags(int n_tiles) : row(static_cast<size_t>(wo::x_stage_bytes(n_tiles) / 2), -1), value(row) {
    for (int i = 0; i < wo::x_stage_bytes(n_tiles) / 16; ++i) {
      const wo::x_piece p = wo::piece_of(n_tiles, i);
      const size_t at = static_cast<size_t>(wo::x_offset(n_tiles, p)) / 2;
      constexpr int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
      for (size_t e = 0; e < 8; ++e) {
        CHECK(row[at + e] == -1);
        row[at + e] = p.row, value[at + e] = 8 * p.chunk + order[e];
      }
    }
  }
};

}  // namespace

TEST_CASE("weight-only: eight codes become four registers of bf16", "[mma][weight_only]") {
  for (u32 i = 0; i < 8; ++i)
    for (u32 code = 0; code < 16; ++code)
      for (u32 others : {0u, 0xffff'ffffu, 0x5a3c'96e1u}) {
        const u32 word = (others & ~(0xfu << 4 * i)) | code << 4 * i;
        u32 r[4];
        mma::codes_to_bf16(word, r);
        const bf16 got{static_cast<u16>(r[i % 4] >> (i < 4 ? 0 : 16))};
        const float want = std::ldexp(decode(e2m1{static_cast<u8>(code)}), -126);
        CHECK(bit_cast<u32>(to_float(got)) == bit_cast<u32>(want));
      }
}

TEST_CASE("weight-only: lanes hold each weight of a stage once", "[mma][weight_only]") {
  std::vector<int> count(wo::warp_rows * wo::stage_values);
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < wo::lane_rows; ++j)
      for (int half = 0; half < 2; ++half)
        for (int word = 0; word < 4; ++word)
          for (int reg = 0; reg < 4; ++reg)
            for (int e = 0; e < 2; ++e) {
              const int v = wo::value_of(lane, half, word, reg, e),
                        row = static_cast<int>(wo::row_of(0, lane, j, 8));
              REQUIRE((row >= 0 && row < wo::warp_rows && v >= 0 && v < wo::stage_values));
              ++count[static_cast<size_t>(row * wo::stage_values + v)];
              // In memory: the chunk of the lane, the word of it, code reg + 4 e of it.
              CHECK(v / 32 == half * 4 + lane % 4);
              CHECK(v % 32 == 8 * word + reg + 4 * e);
              // The scale: word scale_word of a row's stage, in it a pair, of which word / 2 is the one.
              CHECK(v / 16 == 4 * wo::scale_word(lane, half) + 2 * wo::scale_pair(lane) + word / 2);
            }
  for (const int c : count) CHECK(c == 1);
}

TEST_CASE("weight-only: X is in the order of fragments", "[mma][weight_only]") {
  for (const int n_tiles : {1, 2, 4, 8}) {
    const x_tags x(n_tiles);
    for (const int r : x.row) CHECK(r >= 0);
    for (int half = 0; half < 2; ++half)
      for (int word = 0; word < 4; ++word)
        for (int tile = 0; tile < n_tiles; ++tile)
          for (int lane = 0; lane < 32; ++lane)
            for (int reg = 0; reg < 4; ++reg)
              for (int e = 0; e < 2; ++e) {
                const size_t at =
                    static_cast<size_t>(wo::x_offset(n_tiles, half, word, tile, lane) / 2 + 2 * reg + e);
                CHECK(x.row[at] == 8 * tile + lane / 4);
                CHECK(x.value[at] == wo::value_of(lane, half, word, reg, e));
              }
    const wo::x_piece second = wo::piece_of(n_tiles, wo::x_stage_bytes(n_tiles) / 16);
    CHECK((second.stage == 1 && second.row == 0 && second.chunk == 0));
  }
}

TEST_CASE("weight-only: threads in a row write and read different banks", "[mma][weight_only]") {
  for (int i = 0; i < 4096; i += 8) {
    u32 banks = 0;
    for (int k = 0; k < 8; ++k) banks |= 1u << (wo::x_offset(2, wo::piece_of(2, i + k)) / 16 % 8);
    CHECK(banks == 0xff);
  }
}

TEST_CASE("weight-only: fragments of mma.sync multiply to the product", "[mma][weight_only]") {
  const x_tags x(1);
  double d[32][8] = {}, want[32][8] = {};
  const auto weight = [](int row, int v) { return static_cast<double>((row * 37 + v * 11) % 13 - 6); };
  const auto activation = [](int row, int v) { return static_cast<double>((row * 5 + v * 7) % 9 - 4); };
  for (int half = 0; half < 2; ++half)
    for (int word = 0; word < 4; ++word)
      for (int m = 0; m < 2; ++m)
        for (int p = 0; p < 2; ++p) {
          double a[16][16], b[8][16];  // what the instruction multiplies, by the rows and k of its fragments
          for (int lane = 0; lane < 32; ++lane) {
            const int g = lane / 4, t = lane % 4;
            for (int i = 0; i < 4; ++i)  // register i of A: register 2 p + i / 2 of row j
              for (int e = 0; e < 2; ++e)
                a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + e] =
                    weight(static_cast<int>(wo::row_of(0, lane, 2 * m + i % 2, 8)),
                           wo::value_of(lane, half, word, 2 * p + i / 2, e));
            for (int i = 0; i < 2; ++i)
              for (int e = 0; e < 2; ++e) {
                const size_t at =
                    static_cast<size_t>(wo::x_offset(1, half, word, 0, lane) / 2 + 2 * (2 * p + i) + e);
                b[g][2 * t + 8 * i + e] = activation(x.row[at], x.value[at]);
              }
          }
          for (int r = 0; r < 16; ++r)
            for (int n = 0; n < 8; ++n)
              for (int k = 0; k < 16; ++k)
                d[wo::row_of(0, r % 8 * 4, 2 * m + r / 8, 8)][n] += a[r][k] * b[n][k];
        }
  for (int r = 0; r < 32; ++r)
    for (int n = 0; n < 8; ++n) {
      for (int v = 0; v < wo::stage_values; ++v) want[r][n] += weight(r, v) * activation(n, v);
      CHECK(d[r][n] == want[r][n]);
    }
}

TEST_CASE("weight-only: what TMA writes is found where the same lane looks for codes, scales and X",
          "[mma][weight_only]") {
  const auto swizzled = [](int row, int byte) { return row * 128 + (byte ^ row % 8 * 16); };  // PTX 5.5.6
  for (int lane = 0; lane < 32; ++lane)
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 4; ++i) {
        const int word = wo::word_of(lane, i), row = wo::lane_row(lane);
        const int codes = wo::tma_code_offset(lane, half) ^ (i / 2 * 8);
        CHECK(codes + i % 2 * 4 == swizzled(row, wo::value_of(lane, half, word, 0, 0) / 2));
        // The byte of a word of four scales that belongs to the word.
        const int byte = static_cast<int>(wo::scale_bytes_of(lane) >> (4 * (i / 2)) & 0xf);
        CHECK(4 * wo::scale_word(lane, half) + byte == wo::value_of(lane, half, word, 0, 0) / 16);
        for (const int n_tiles : {1, 2, 4, 8}) {
          const int value = wo::value_of(lane, half, word, 0, 0), slice = value / wo::slice_values;
          const int x = wo::tma_x_offset(n_tiles, lane, half, i);
          CHECK(x == slice * wo::slice_bytes(n_tiles) + swizzled(lane / 4, value % wo::slice_values * 2));
          // As the kernel computes it.
          CHECK(x ==
                (wo::tma_x_offset(n_tiles, lane, 0, 0) ^ (16 * i)) + half * 2 * wo::slice_bytes(n_tiles));
        }
      }
  CHECK(wo::slices * wo::slice_bytes(2) == wo::x_stage_bytes(2));
}

TEST_CASE("weight-only: lanes that read together read from different banks under TMA's swizzle",
          "[mma][weight_only]") {
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 4; ++i) {
      for (int first = 0; first < 32; first += 16) {  // 16 lanes read eight bytes each
        u32 banks = 0;
        for (int lane = first; lane < first + 16; ++lane)
          banks |= 1u << ((wo::tma_code_offset(lane, half) ^ (i / 2 * 8)) / 8 % 16);
        CHECK(banks == 0xffff);
      }
      for (int first = 0; first < 32; first += 8) {  // eight lanes read 16
        u32 banks = 0;
        for (int lane = first; lane < first + 8; ++lane)
          banks |= 1u << (wo::tma_x_offset(2, lane, half, i) / 16 % 8);
        CHECK(banks == 0xff);
      }
    }
}

TEST_CASE("weight-only: tiles have each row once", "[mma][weight_only]") {
  for (const int stride : {8, 32})
    for (const int rows : {1, 31, 33, 128, 129, 500}) {
      const int tiles = wo::tiles_of(rows, stride);
      std::vector<int> count(static_cast<size_t>(tiles * wo::warp_rows));
      CHECK(tiles * wo::warp_rows >= rows);
      CHECK(tiles * wo::warp_rows < rows + 4 * stride);
      for (int tile = 0; tile < tiles; ++tile) {
        for (int lane = 0; lane < 32; lane += 4)
          for (int j = 0; j < wo::lane_rows; ++j)
            ++count[static_cast<size_t>(wo::row_of(tile, lane, j, stride))];
        CHECK(wo::row_of(tile, 31, 3, stride) >= wo::row_of(tile, 0, 3, stride));
      }
      for (const int c : count) CHECK(c == 1);
    }
}

TEST_CASE("weight-only: scales of a stage have a place each, 16 bytes as in memory", "[mma][weight_only]") {
  for (const bool swizzled : {false, true}) {
    std::vector<int> count(wo::scales_bytes / 4);
    for (int row = 0; row < wo::warp_rows; ++row)
      for (int word = 0; word < wo::stage_scales / 4; ++word) {
        const int at = wo::scale_offset(swizzled, row, word);
        REQUIRE((at % 4 == 0 && at >= 0 && at < wo::scales_bytes));
        ++count[static_cast<size_t>(at / 4)];
        // Words of a row are neighbours, or rows eight lanes apart.
        if (!swizzled && word > 0) CHECK(at == wo::scale_offset(swizzled, row, word - 1) + 4);
        if (swizzled && row >= 8) CHECK(at == wo::scale_offset(swizzled, row - 8, word) + 4);
      }
    for (const int c : count) CHECK(c == 1);
  }
}

namespace {

/// Each item of each unit is a warp's, each warp of a tile is in warps_of(), and no sums share a slot.
bool shares_are_whole(wo::plan const& p) {
  int next = 0;
  for (int cluster = 0; cluster < p.clusters; ++cluster)
    for (int unit = 0; unit < p.units; ++unit) {
      const wo::span_of tiles = p.tiles_of(cluster, unit);
      const int count = tiles.end - tiles.begin;
      if (tiles.begin != next || count < 0 || count > p.unit_tiles()) return false;
      next = tiles.end;
      int item = 0;
      std::vector<int> slots(static_cast<size_t>(p.slots()), -1), begin(static_cast<size_t>(count), -1),
          end(begin);
      for (int warp = 0; warp < p.warps; ++warp) {
        const wo::span_of items = p.items_of(warp, count);
        if (items.begin == items.end) continue;
        if (items.begin != item) return false;
        item = items.end;
        for (int t = items.begin / p.pass_stages; t <= (items.end - 1) / p.pass_stages; ++t) {
          const auto tile = static_cast<size_t>(t);
          const int slot = p.slot_of(warp, t, count);
          if (slot < 0 || slot >= p.slots() || slots[static_cast<size_t>(slot)] != -1) return false;
          slots[static_cast<size_t>(slot)] = t;
          if (begin[tile] == -1) begin[tile] = warp;
          if (begin[tile] != warp && end[tile] != warp) return false;  // a gap
          end[tile] = warp + 1;
        }
      }
      if (item != count * p.pass_stages) return false;
      for (int t = 0; t < count; ++t) {
        const wo::span_of warps = p.warps_of(t, count);
        if (warps.begin != begin[static_cast<size_t>(t)] || warps.end != end[static_cast<size_t>(t)])
          return false;
      }
    }
  return next == p.tiles;
}

}  // namespace

TEST_CASE("weight-only: plans fit into what there is and leave nothing out", "[mma][weight_only]") {
  for (const wo::machine m :
       {wo::machine{132, 227 << 10, true}, wo::machine{132, 227 << 10, true, {132, 66, 30, 14}},
        wo::machine{132, 227 << 10, true, {132, 66, 30, 0}, 4}, wo::machine{7, 227 << 10, true, {}, 1},
        wo::machine{108, 163 << 10, false}, wo::machine{84, 99 << 10, false},
        wo::machine{188, 99 << 10, true}})
    for (const wo::tuning t : {wo::tuning{}, wo::tuning{2}, wo::tuning{8, 8}, wo::tuning{0, 4, 2}})
      for (const int rows : {1, 8, 9, 16, 17, 32, 33, 64})
        for (const i64 n : {i64{1}, i64{100}, i64{4096}, i64{9001}, i64{28672}})
          for (const i64 k : {i64{16}, i64{256}, i64{4112}, i64{8192}, i64{28672}}) {
            for (const bool by_tma : {false, true}) {
              if (by_tma && !m.clusters) continue;
              const int tiles = wo::tiles_of(n, 32);
              const wo::plan p = wo::make_plan(rows, tiles, k, m, t, by_tma);
              INFO(rows << " x " << n << " x " << k << ", " << m.shared_bytes << ", " << t.ctas << ", "
                        << by_tma);
              if (t.warps > 0 && m.shared_bytes < 227 << 10 && p.warps == 0) continue;
              CHECK(p.warps >= 2);
              CHECK(p.x_at() % 1024 == 0);
              CHECK(p.barriers_at() % 8 == 0);
              CHECK(p.bytes() <= m.shared_bytes);
              CHECK(p.rings_bytes() % 128 == 0);
              CHECK(p.slot_bytes() % 128 == 0);
              CHECK((p.depth >= wo::least_depth && p.depth <= wo::most_depth));
              CHECK(p.pass_stages >= 1);
              CHECK(8 * p.n_tiles >= rows);
              CHECK(i64{p.tiles} * wo::warp_rows >= n);
              CHECK(i64{p.stages} * p.ctas * wo::stage_values >= k);
              CHECK(p.passes() * p.pass_stages >= p.stages);
              CHECK(p.ctas <= m.most_ctas);
              CHECK(p.clusters <= (m.at_once[1] ? m.at_once[p.ctas / 2 - p.ctas / 8] : m.sms / p.ctas));
              CHECK(shares_are_whole(p));
            }
          }
}

TEST_CASE("weight-only: sums of more tiles than memory holds make no plan", "[mma][weight_only]") {
  for (const int sms : {1, 16, 132})
    for (const i64 rows : {i64{130'000'000}, i64{984'000'000}, (i64{1} << 31) - 1})
      for (const bool by_tma : {false, true}) {
        const wo::machine m{sms, 227 << 10, true};
        const wo::plan p = wo::make_plan(64, wo::tiles_of(rows, 32), 16, m, {}, by_tma);
        CHECK(p.slots() <= m.shared_bytes / p.slot_bytes());
        CHECK((p.bytes() > 0 && p.bytes() <= m.shared_bytes));
        CHECK((p.warps >= 2 && i64{p.units} * p.unit_tiles() * p.clusters >= p.tiles));
      }
}

TEST_CASE("weight-only: on an H200, TMA's plans are those that were the fastest there",
          "[mma][weight_only]") {
  const wo::machine h200{132, 227 << 10, true, {132, 66, 30, 15}};
  for (const i64 k : {i64{4096}, i64{8192}, i64{28672}})
    for (const int rows : {1, 16}) {
      const wo::plan p = wo::make_plan(rows, 8192 / 32, k, h200, {}, true);
      CHECK((p.ctas == 2 && p.warps == 8 && p.depth == 2 && p.units == 1));
      CHECK(p.one_pass() == (k * (rows < 8 ? 8 : rows) <= 8192 * 16));
    }
  const wo::plan p = wo::make_plan(64, 8192 / 32, 8192, h200, {}, true);
  CHECK((p.ctas == 2 && p.warps == 4 && p.depth == 2 && p.units == 1));
}

TEST_CASE("weight-only: on an H200, no SM and no warp has much more to do", "[mma][weight_only]") {
  for (const wo::machine h200 : {wo::machine{132, 227 << 10, true, {132, 66, 32, 16}},
                                 wo::machine{132, 227 << 10, true, {132, 66, 30, 14}}})
    for (const int rows : {1, 8, 16, 32})
      for (const i64 n : {i64{4096}, i64{8192}, i64{28672}})
        for (const i64 k : {i64{4096}, i64{8192}, i64{28672}}) {
          const wo::plan p = wo::make_plan(rows, static_cast<int>(n / 32), k, h200);
          INFO(rows << " x " << n << " x " << k << ": " << p.ctas << " CTAs, " << p.warps << " warps, "
                    << p.clusters << " clusters, " << p.units << " units, " << p.passes() << " passes");
          const i64 mine = i64{p.units} * p.passes() * 4 * ceil_div(p.unit_tiles() * p.pass_stages, p.warps) *
                           p.warps,
                    fair = 4 * ceil_div<i64>(n / 32 * (k / 256), h200.sms);
          CHECK(mine * 10 <= fair * 15);
          CHECK(p.warps >= 8);
          if (rows <= 16 && k <= 8192) CHECK(p.passes() <= 2);
        }
}

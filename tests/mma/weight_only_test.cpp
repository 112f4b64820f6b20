// SPDX-License-Identifier: Apache-2.0
// The weight-only GEMM as far as a host can see it: which lane holds what, that both operands agree about k,
// that codes arrive at their values, and that plans fit.
#include <cmath>
#include <cstring>
#include <fourscale/formats/convert.hpp>
#include <fourscale/formats/e2m1.hpp>
#include <fourscale/formats/real.hpp>
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
        wo::codes_to_bf16(word, r);
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
              const int v = wo::value_of(lane, half, word, reg, e), row = wo::row_of(0, lane, j, 8);
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
                a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + e] = weight(
                    wo::row_of(0, lane, 2 * m + i % 2, 8), wo::value_of(lane, half, word, 2 * p + i / 2, e));
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

TEST_CASE("weight-only: warps of a unit take each row once", "[mma][weight_only]") {
  for (int row_warps = 1; row_warps <= 16; row_warps *= 2) {
    const int rows = row_warps * wo::warp_rows;
    std::vector<int> count(static_cast<size_t>(rows));
    for (int warp = 0; warp < row_warps; ++warp)
      for (int lane = 0; lane < 32; lane += 4)
        for (int j = 0; j < wo::lane_rows; ++j)
          ++count[static_cast<size_t>(wo::row_of(warp, lane, j, wo::row_stride(rows)))];
    for (const int c : count) CHECK(c == 1);
  }
}

TEST_CASE("weight-only: plans fit into what there is", "[mma][weight_only]") {
  for (const wo::machine m : {wo::machine{132, 227 << 10, true}, wo::machine{108, 163 << 10, false},
                              wo::machine{84, 99 << 10, false}, wo::machine{188, 99 << 10, true}})
    for (const int rows : {1, 8, 9, 16, 17, 32, 33, 64})
      for (const i64 n : {i64{1}, i64{100}, i64{4096}, i64{28672}})
        for (const i64 k : {i64{16}, i64{256}, i64{4112}, i64{8192}, i64{28672}}) {
          const int ctas = wo::ctas_for(k, m), concurrent = m.sms / ctas;
          const wo::plan p = wo::make_plan(rows, n, k, m, concurrent);
          INFO(rows << " x " << n << " x " << k << ", " << m.shared_bytes);
          CHECK(p.warps >= 2);
          CHECK(p.bytes() <= m.shared_bytes);
          CHECK(p.ring_bytes() % 128 == 0);
          CHECK(p.sum_bytes() % 16 == 0);
          CHECK(p.pass_stages >= 1);
          CHECK(8 * p.n_tiles >= rows);
          CHECK(i64{p.units} * p.unit_rows >= n);
          CHECK(i64{p.stages} * p.ctas * wo::stage_values >= k);
          CHECK(p.clusters <= concurrent);
          CHECK(p.rows_of_cta() * p.ctas == p.unit_rows);
        }
}

TEST_CASE("weight-only: on an H200, square matrices leave no warp idle", "[mma][weight_only]") {
  constexpr wo::machine h200{132, 227 << 10, true};
  const wo::plan large = wo::make_plan(16, 8192, 8192, h200, 16);
  CHECK((large.warps == 16 && large.parts == 1 && large.clusters == 16 && large.units == 16 &&
         large.one_pass()));
  const wo::plan small = wo::make_plan(16, 4096, 4096, h200, 16);
  CHECK((small.warps == 16 && small.parts == 2 && small.units == 16 && small.one_pass()));
}

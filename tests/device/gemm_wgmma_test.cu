// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on Hopper with tiles of every width, whichever is faster: the cases of
// gemm_blackwell_test.cu, where device::gemm chooses.
#include <fourscale/device/explain_gemm.cuh>

#include "mma/gemm_blackwell_cases.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;
using enum mma::cluster_tiles;

TEST_CASE("device gemm wgmma: each shape with any codes, in wide tiles", "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_shapes<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: D as each way to store it takes it, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_outputs<wgmma_gemm<192>, bf16, fp16, float>();
}

TEST_CASE("device gemm wgmma: all scales, NaN among them, in wide tiles", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_all_scales<wgmma_gemm<192>>();
  check_all_mx_scales<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: kinds of data, and how their steps are added, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_kinds<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: the lowest bits that the certificate allows, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_lowest_bits<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: accumulators that are too large for the least product, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_large_accumulators<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: shapes, outputs, scales, data and accumulators in tiles of 64 columns",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_each<wgmma_gemm<64>>();
}

TEST_CASE("device gemm wgmma: rows of many sizes have limits of their own", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_rows_of_many_sizes<wgmma_gemm<64>>();
  check_rows_of_many_sizes<wgmma_gemm<128>>();
  check_rows_of_many_sizes<wgmma_gemm<192>>();
  check_rows_of_many_sizes<wgmma_gemm<192, 0, true>>();
  check_rows_of_many_sizes<wgmma_gemm<64, 0, false, low>>();
}

TEST_CASE("device gemm wgmma: many tiles of every width", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_many_tiles<wgmma_gemm<64>>();
  check_many_tiles<wgmma_gemm<128>>();
  check_many_tiles<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: steps that no certificate proves, in tiles of every width",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_hard_steps<wgmma_gemm<64>>();
  check_hard_steps<wgmma_gemm<128>>();
  check_hard_steps<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: large products that cancel, in tiles of every width",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_cancelling<wgmma_gemm<64>>();
  check_cancelling<wgmma_gemm<128>>();
  check_cancelling<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: clusters go on with the sums of others", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  const auto check = []<class Gemm>(Gemm) {  // any codes and scales
    check_gemm<Gemm, nvfp4, linear, linear, float>({{515, 777, 2064}, {600, 769, 2048, {0.5f, -2.0f}}});
    check_gemm<Gemm, mxfp4, swizzled_128x4, swizzled_128x4, bf16>({{515, 777, 2080}});
  };
  check(wgmma_gemm<192, 11>{});
  check(wgmma_gemm<192, 14>{});
  check(wgmma_gemm<128, 16>{});
  check(wgmma_gemm<128, 4>{});
  check(wgmma_gemm<64, 30>{});
  check_hard_steps<wgmma_gemm<192, 60>>();
  check_hard_steps<wgmma_gemm<128, 25>>();
  check_hard_steps<wgmma_gemm<64, 40>>();
  check_drops_of_steps<wgmma_gemm<192, 11>>();
  check_drops_of_steps<wgmma_gemm<64, 30>>();
}

TEST_CASE("device gemm wgmma: clusters whose tiles lie side by side", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  using narrow = wgmma_gemm<64, 0, false, side_by_side>;
  check_shapes<narrow>();
  check_many_tiles<narrow>();
  check_hard_steps<narrow>();
  check_hard_steps<wgmma_gemm<128, 0, false, side_by_side>>();
  check_hard_steps<wgmma_gemm<192, 0, false, side_by_side>>();
  check_many_tiles<wgmma_gemm<192, 0, false, side_by_side>>();
  check_hard_steps<wgmma_gemm<128, 20, false, side_by_side>>();  // which share the last tiles
  check_hard_steps<wgmma_gemm<192, 0, true, side_by_side>>();
}

TEST_CASE("device gemm wgmma: tiles of 64 rows, which one warpgroup multiplies",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  using gemm = wgmma_gemm<64, 0, false, low>;
  check_each<gemm>();
  check_many_tiles<gemm>();
  check_hard_steps<gemm>();
  check_cancelling<gemm>();
  check_drops_of_steps<gemm>();
  check_shapes<wgmma_gemm<64, 0, true, low>>();  // by blocks
  check_hard_steps<wgmma_gemm<64, 0, true, low>>();
}

TEST_CASE("device gemm wgmma: by blocks, whatever the data", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  using wide = wgmma_gemm<192, 0, true>;
  using narrow = wgmma_gemm<128, 0, true>;
  check_shapes<wide>();
  check_outputs<narrow, bf16, fp16, float>();
  check_all_scales<wide>();
  check_all_mx_scales<wide>();
  check_kinds<narrow>();
  check_lowest_bits<wide>();
  check_large_accumulators<narrow>();
  check_large_accumulators<wide>();
  check_many_tiles<narrow>();
  check_many_tiles<wide>();
  check_hard_steps<wide>();
  check_cancelling<narrow>();
  check_cancelling<wide>();
  using narrowest = wgmma_gemm<64, 0, true>;
  check_shapes<narrowest>();
  check_kinds<narrowest>();
  check_large_accumulators<narrowest>();
  check_hard_steps<narrowest>();
  check_drops_of_steps<narrowest>();
}

TEST_CASE("device gemm wgmma: strips certified ahead, in tiles of every width", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  using wide = wgmma_gemm<192, 0, false, stacked, true>;
  check_each<wide>();
  check_rows_of_many_sizes<wide>();
  check_hard_steps<wide>();
  check_cancelling<wide>();
  check_drops_of_steps<wide>();
  check_many_tiles<wide>();
  check_hard_steps<wgmma_gemm<192, 60, false, stacked, true>>();  // which share the last tiles
  check_hard_steps<wgmma_gemm<128, 0, false, side_by_side, true>>();
  check_many_tiles<wgmma_gemm<128, 0, false, stacked, true>>();
  check_hard_steps<wgmma_gemm<64, 0, false, low, true>>();
  check_rows_of_many_sizes<wgmma_gemm<64, 0, false, low, true>>();
  check_hard_steps<wgmma_gemm<192, 0, true, stacked, true>>();  // by blocks: nobody asks for strips
}

TEST_CASE("device gemm wgmma: drawn at random, in drawn tiles and ways", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  const auto drawn = [](dice& d, auto const& c, gemm_steps* steps) {
    const drawn_tiles tiles(d, c.o.m, c.o.n);
    return wgmma_gemm_by{tiles, d.one_of({-1.0f, 1.0f, 1.0f}), d.one_in(3), steps};
  };
  check_random<nvfp4, linear, float>(60, 4000, drawn);
  check_random<nvfp4, swizzled_128x4, bf16>(60, 4000, drawn);
  check_random<mxfp4, linear, float>(60, 4000, drawn);
}

TEST_CASE("device gemm wgmma: how D is stored", "[device][gemm][blackwell]") {
  using mma::output_way, mma::way_of_outputs;
  alignas(16) static bf16 d[8];
  alignas(16) static float f[4];
  const auto way = [](i64 rows, i64 cols, i64 ld, i64 offset = 0, float beta = 0.0f) {
    return way_of_outputs(matrix_view<bf16>{d + offset, rows, cols, ld}, beta, true);
  };
  CHECK(way(3, 64, 64) == output_way::boxes);
  CHECK(way(3, 64, 64, 0, 0.5f) == output_way::strips);
  CHECK(way(3, 64, 64, 1) == output_way::strips);
  CHECK(way(3, 64, 65) == output_way::strips);
  CHECK(way(3, 60, 64) == output_way::strips);
  CHECK(way(1, 64, (i64{1} << 39) - 8) == output_way::boxes);
  CHECK(way(1, 64, i64{1} << 39) == output_way::strips);  // TMA knows no such distance
  CHECK(way_of_outputs(matrix_view<bf16>{d, 3, 64, 64}, 0.0f, false) == output_way::strips);
  CHECK(way_of_outputs(matrix_view<float>{f, 3, 64, 64}, 0.5f, true) == output_way::boxes);
  CHECK(way_of_outputs(matrix_view<float>{f, 3, 62, 62}, 0.5f, true) == output_way::pairs);
  CHECK(way_of_outputs(matrix_view<float>{f, 3, 62, 63}, 0.0f, true) == output_way::strips);

  // Whole boxes in one copy; else each by itself, so that nothing behind a row is written.
  const auto is = [](ptx::tma_tensor const& t, u64 width, u64 rows, u64 boxes, u32 at_once) {
    return t.extent[0] == width && t.extent[1] == rows && t.extent[2] == boxes && t.stride[1] == 128 &&
           t.box[1] == 16 && t.box[2] == at_once && t.swizzled;
  };
  using mma::tensor_of_outputs;
  CHECK(is(tensor_of_outputs(matrix_view<bf16>{d, 3, 256}, 192), 64, 3, 4, 3));
  CHECK(is(tensor_of_outputs(matrix_view<bf16>{d, 3, 72}, 192), 72, 3, 1, 1));
  CHECK(is(tensor_of_outputs(matrix_view<float>{f, 3, 96}, 128), 32, 3, 3, 2));
  CHECK(is(tensor_of_outputs(matrix_view<float>{f, 3, 100}, 128), 100, 3, 1, 1));
  CHECK(tensor_of_outputs(matrix_view<bf16>{d, 3, 72}, 192).box[0] == 64);
  CHECK(tensor_of_outputs(matrix_view<float>{f, 3, 100}, 128).box[0] == 32);
  CHECK(tensor_of_outputs(matrix_view<bf16>{d, 3, 72, 80}, 192).stride[0] == 160);
  CHECK(tensor_of_outputs(matrix_view<float>{f, 3, 96, 128}, 64).stride[0] == 512);
}

TEST_CASE("device gemm wgmma: how a GEMM is cut", "[device][gemm][blackwell]") {
  using device::detail::wgmma_plan;
  const auto check = [](i64 rows, i64 cols, i64 k, int tile_cols, int clusters, bool split,
                        mma::cluster_tiles lie = stacked) {
    INFO(rows << " x " << cols << " x " << k);
    const wgmma_plan plan =
        wgmma_plan::of(rows, cols, ceil_div<i64>(k, 256), 66, 72, device::detail::any_cut{});
    CHECK(plan.tile_cols == tile_cols);
    CHECK(plan.lie == lie);
    CHECK(plan.clusters == clusters);
    CHECK(plan.split == split);
  };
  check(1, 1, 64, 64, 1, false, low);
  check(512, 512, 4096, 64, 32, false, low);
  check(1024, 512, 2048, 64, 64, false, low);
  // Either way there are as many tiles: side by side, where that is most of the GPU.
  check(1024, 1024, 1024, 64, 64, false, side_by_side);  // 32 of 128 columns, 24 of 192
  check(2048, 2048, 2048, 128, 66, false,
        side_by_side);                      // two waves; parts of eight runs are too small to be shared
  check(1536, 1536, 1536, 192, 48, false);  // one wave; two of narrow tiles
  check(2560, 2560, 2560, 192, 66, true);   // 140 tiles
  check(3072, 3072, 3072, 192, 66, false);  // 192 tiles, 2.9 waves
  check(4096, 4096, 4096, 192, 66, true);   // 352 tiles, 5.3 waves
  check(8192, 8192, 4096, 192, 66, false);  // 1376 tiles, 20.8 waves
  check(8192, 14336, 4096, 192, 66, true);  // 2400 tiles, 36.4 waves
  check(1 << 20, 1 << 20, 64, 192, 66, false);
  check(100, 4096, 4096, 64, 64, false, low);
  check(128, 8192, 4096, 64, 64, false, side_by_side);   // two waves of low ones
  check(300, 4096, 4096, 128, 48, false, side_by_side);  // 384 rows in place of 512
  // Of cuts that take the same time, that with fewer clusters, else the first, where most of the GPU is idle.
  const auto only_128 = [](wgmma_plan::cut const& c) { return c.cols == 128; };
  CHECK(wgmma_plan::of(256, 512, 16, 66, 72, only_128).lie == stacked);        // four clusters either way
  CHECK(wgmma_plan::of(100, 512, 16, 66, 72, only_128).lie == side_by_side);   // two in place of four
  CHECK(wgmma_plan::of(512, 2560, 16, 66, 72, only_128).lie == side_by_side);  // 40 either way
  const auto only_192 = [](wgmma_plan::cut const& c) { return c.cols == 192; };
  CHECK_FALSE(wgmma_plan::of(4096, 4096, 16, 66, 60, only_192).split);  // no memory for it
}

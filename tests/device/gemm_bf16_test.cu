// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on mma.sync of bf16, which any GPU from sm_80 on has: the cases of
// gemm_blackwell_test.cu, and what is particular to its tile.
#include "mma/gemm_blackwell_cases.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

namespace tile = mma::bf16_tile;

/// ldmatrix and chunk_place: the addresses of blocks along K differ in block_bits() only.
constexpr bool blocks_differ_in_their_bits() {
  for (int lane = 0; lane < 32; ++lane)
    for (int block = 0; block < 4; ++block) {
      if (mma::chunk_place(lane % 16, 2 * block + lane / 16) !=
          (mma::chunk_place(lane % 16, lane / 16) ^ tile::block_bits(block)))
        return false;
      if (block % 2 == 0 && mma::chunk_place(lane % 8, 2 * block + lane / 8) !=
                                (mma::chunk_place(lane % 8, lane / 8) ^ tile::block_bits(block)))
        return false;
    }
  return true;
}
static_assert(blocks_differ_in_their_bits());

/// Every stage is free when it is filled: other warps may still read that of the step before. With two stages
/// all wait.
constexpr bool stages_are_free() {
  for (int stages = tile::least_stages; stages <= tile::most_stages; ++stages)
    for (int in_use = 0; in_use <= (stages > 2 ? 1 : 0); ++in_use)
      if ((tile::steps_ahead(stages) + in_use) % stages == 0) return false;
  return true;
}
static_assert(stages_are_free());

/// Shared memory of a block, in KiB (CUDA Programming Guide, compute capabilities): sm_86 and sm_89 99, sm_80
/// 163, sm_90 227.
static_assert(tile::stage_memory::bytes(2) <= 99 * 1024 && tile::stage_memory::bytes(3) <= 163 * 1024 &&
              tile::stage_memory::bytes(4) <= 227 * 1024);

/// What is asked of two times eight rows at once is what the model asks of each, on both sides of its limits
/// and at the ends; `other` are bytes that must not matter.
constexpr bool asks_as_the_model(u32 a, u32 b, u32 other) {
  const model::step_bounds width_a{static_cast<u8>(a), 0}, width_b{static_cast<u8>(b), 0},
      span_a{0, static_cast<u8>(a)}, span_b{0, static_cast<u8>(b)};
  for (int at = 0; at <= 16; at += 16) {
    if (tile::sums_may_round((a | other << 8) << at, b | other << 8) == sums_are_exact(width_a, width_b))
      return false;
    if (tile::bits_may_drop((other | a << 8) << at, other | b << 8) == nothing_is_dropped(span_a, span_b))
      return false;
  }
  return true;
}
constexpr bool bounds_are_asked_as_by_the_model() {
  for (int a = 0; a < 256; ++a)
    for (int b : {0, 35 - a, 36 - a, 191 - a, 192 - a, 255})
      for (u32 other : {0u, 255u})
        if (b >= 0 && !asks_as_the_model(static_cast<u32>(a), static_cast<u32>(b), other)) return false;
  return true;
}
static_assert(bounds_are_asked_as_by_the_model());

}  // namespace

TEST_CASE("device gemm bf16: each shape with any codes", "[device][gemm][blackwell]") {
  check_shapes<bf16_gemm>();
}

TEST_CASE("device gemm bf16: NVFP4, each shape with each kind of data", "[device][gemm][blackwell][large]") {
  check_table<bf16_gemm, nvfp4>();
}

TEST_CASE("device gemm bf16: MXFP4, each shape with each kind of data", "[device][gemm][blackwell][large]") {
  check_table<bf16_gemm, mxfp4>();
}

TEST_CASE("device gemm bf16: many tiles", "[device][gemm][blackwell]") { check_many_tiles<bf16_gemm>(); }

TEST_CASE("device gemm bf16: D as each way to store it takes it", "[device][gemm][blackwell]") {
  check_outputs<bf16_gemm, bf16, fp16, float>();
}

TEST_CASE("device gemm bf16: steps that no certificate proves, among others", "[device][gemm][blackwell]") {
  check_hard_steps<bf16_gemm>();
}

TEST_CASE("device gemm bf16: all scales, NaN among them", "[device][gemm][blackwell]") {
  check_all_scales<bf16_gemm>();
  check_all_mx_scales<bf16_gemm>();
}

TEST_CASE("device gemm bf16: kinds of data, and how their steps are added", "[device][gemm][blackwell]") {
  check_kinds<bf16_gemm>();
}

TEST_CASE("device gemm bf16: the lowest bits that the certificate allows", "[device][gemm][blackwell]") {
  check_lowest_bits<bf16_gemm>();
  check_drops_of_steps<bf16_gemm>();
}

TEST_CASE("device gemm bf16: large products that cancel", "[device][gemm][blackwell]") {
  check_cancelling<bf16_gemm>();
}

TEST_CASE("device gemm bf16: large, compared with the CPU's", "[device][gemm][blackwell][large]") {
  check_large<bf16_gemm>();
}

TEST_CASE("device gemm bf16: edges of its tile, with two to four stages", "[device][gemm][blackwell]") {
  for (int stages = tile::least_stages; stages <= tile::most_stages; ++stages) {
    INFO(stages << " stages");
    check_gemm<bf16_gemm, nvfp4, linear, linear, float>({{128, 256, 64},
                                                         {128, 256, 128},
                                                         {129, 257, 192},
                                                         {64, 64, 256},
                                                         {63, 65, 320},
                                                         {191, 449, 384},
                                                         {257, 2305, 64}},
                                                        {nullptr, stages});
    check_gemm<bf16_gemm, nvfp4, swizzled_128x4, swizzled_128x4, bf16>({{384, 512, 640}, {8, 264, 832}},
                                                                       {nullptr, stages});
  }
}

TEST_CASE("device gemm bf16: accumulators are asked for limits of their own", "[device][gemm][blackwell]") {
  check_large_accumulators<bf16_gemm>();
  if (!gpu_or_warn()) return;
  for (const bool drops : {false, true}) {
    auto c = rows_of_many_sizes(drops);
    gemm_steps steps;
    CHECK(same_bits(c.on_device(bf16_gemm{&steps}), c.oracle()));
    CHECK(steps.by_model > 0);
  }
}

namespace {

/// Of each 64 rows the first step without a certificate is another one, that of `first_steps`; few rows of
/// the step have none, or most. `each_way`: some of these steps are made by blocks, and others by the model.
template <size_t N>
void check_care(i64 m, i64 n, i64 steps, i64 const (&first_steps)[N], bool each_way) {
  auto c = nvfp4_case(operand<nvfp4, linear>(kind::gaussian, m, 64 * steps, 1),
                      operand<nvfp4, linear>(kind::gaussian, n, 64 * steps, 2));
  REQUIRE(ceil_div<i64>(m, 64) == i64{N});
  for (i64 row = 0; row < m; ++row)
    if (row / 64 % 2 == 0 ? row % 64 == 5 : row % 3 != 0)
      for (i64 step = first_steps[row / 64]; step < steps; step += 1 + row % 2)
        for (i64 block = 0; block < 4; ++block)  // between 2^-9 and 448
          c.a.data.scales[static_cast<size_t>((row * steps + step) * 4 + block)] =
              (block + row + step) % 4 == 0 ? 0x7e : static_cast<u8>(1 + (row + 5 * block) % 40);
  const std::vector<float> want = c.oracle();
  for (int stages = tile::least_stages; stages <= tile::most_stages; ++stages) {
    INFO(steps << " steps, " << stages << " stages");
    gemm_steps counted;
    CHECK(same_bits(c.on_device(bf16_gemm{&counted, stages}), want));
    CHECK(counted.in_f32 + counted.in_double + counted.by_model == m * n * steps);
    CHECK(counted.in_f32 > 0);
    CHECK(counted.in_double + counted.by_model > 0);
    if (each_way) CHECK((counted.in_double > 0 && counted.by_model > 0));
  }
}

}  // namespace

// The first of all, the last, and in between, on both sides of the 32 that lanes ask at once and of the 128
// whose bounds are loaded together. Rows and columns end in the middle of a warp's.
TEST_CASE("device gemm bf16: care from any step on, with two to four stages", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  check_care(440, 300, 35, {0, 7, 8, 13, 31, 32, 34}, true);
  check_care(300, 70, 290, {127, 128, 131, 256, 289}, false);
}

TEST_CASE("device gemm bf16: drawn at random", "[device][gemm][blackwell]") {
  const auto by_bf16 = [](dice&, auto const&, gemm_steps* steps) { return bf16_gemm{steps}; };
  check_random<nvfp4, linear, float>(60, 4000, by_bf16);
  check_random<nvfp4, swizzled_128x4, bf16>(60, 4000, by_bf16);
  check_random<mxfp4, linear, float>(60, 4000, by_bf16);
}

TEST_CASE("device gemm bf16: the same bits again", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16> c({900, 1100, 2048});
  const std::vector<bf16> first = c.on_device(bf16_gemm{});
  for (int i = 0; i < 10; ++i)
    for (int stages = tile::least_stages; stages <= tile::most_stages; ++stages)
      CHECK(same_bits(c.on_device(bf16_gemm{nullptr, stages}), first));
}

// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on Hopper with tiles of either width, whichever is faster: the cases of
// gemm_blackwell_test.cu, where device::gemm chooses.
#include "mma/gemm_blackwell_cases.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

bool hopper_or_warn() {
  if (!gpu_or_warn()) return false;
  if (device::detail::best_kernel(device::detail::compute_capability_major(), false) ==
      device::gemm_kernel::wgmma)
    return true;
  WARN("not run: wgmma is for Hopper only");
  return false;
}

}  // namespace

TEST_CASE("device gemm wgmma: each shape with any codes, in wide tiles", "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_shapes<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: D as each way to store it takes it, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_outputs<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: all scales, NaN among them, in wide tiles", "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_all_scales<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: kinds of data, and how their steps are added, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_kinds<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: the lowest bits that the certificate allows, in wide tiles",
          "[device][gemm][blackwell]") {
  if (hopper_or_warn()) check_lowest_bits<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: many tiles of either width", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_many_tiles<wgmma_gemm<128>>();
  check_many_tiles<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: steps that no certificate proves, in tiles of either width",
          "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  check_hard_steps<wgmma_gemm<128>>();
  check_hard_steps<wgmma_gemm<192>>();
}

TEST_CASE("device gemm wgmma: columns of a tile", "[device][gemm][blackwell]") {
  using device::detail::tile_cols_of;
  CHECK(tile_cols_of(1, 1, 66) == 128);
  CHECK(tile_cols_of(2048, 2048, 66) == 128);  // two waves either way
  CHECK(tile_cols_of(1536, 1536, 66) == 192);  // one wave, or two
  CHECK(tile_cols_of(4096, 4096, 66) == 192);  // six waves, or eight
  CHECK(tile_cols_of(3584, 3584, 66) == 128);  // five, or six
  CHECK(tile_cols_of(1 << 20, 1 << 20, 66) == 192);
}

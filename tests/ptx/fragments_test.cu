// SPDX-License-Identifier: Apache-2.0
// ldmatrix gives lanes the fragments of mma.sync that mma_sync.cuh describes, stmatrix stores them as they
// were, and elect.sync picks one lane.
#include <cuda_runtime.h>

#include <fourscale/ptx/elect.cuh>
#include <fourscale/ptx/ldmatrix.cuh>

#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

/// 16 rows of 32 bytes are A of m16n8k64 in packed nibbles, or of m16n8k32 in bytes.
__global__ void load_a(u32* to) {
  __shared__ alignas(16) u8 tile[16][32];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 512; i += 32) tile[i / 32][i % 32] = static_cast<u8>(i / 2);
  __syncwarp();
  u32 r[4];
  ptx::ldmatrix_m8n8_x4_b16(r, ptx::shared_address(&tile[lane % 16][lane / 16 * 16]));
  for (int i = 0; i < 4; ++i) to[4 * lane + i] = r[i];
  u32 one[1], two[2], transposed[4];
  ptx::ldmatrix_m8n8_x1_b16(one, ptx::shared_address(&tile[lane % 8][0]));
  ptx::ldmatrix_m8n8_x2_b16(two, ptx::shared_address(&tile[lane % 16][0]));
  ptx::ldmatrix_m8n8_x4_trans_b16(transposed, ptx::shared_address(&tile[lane % 16][lane / 16 * 16]));
  to[128 + lane] = one[0] != r[0] || two[0] != r[0] || two[1] != r[1];
  // Register 0 of lane l, transposed: 16-bit elements (row 2 t, 2 t + 1; column g).
  u16 const* column = reinterpret_cast<u16 const*>(tile) + lane / 4;
  const int row = lane % 4 * 2;
  to[160 + lane] = transposed[0] != (column[16 * row] | static_cast<u32>(column[16 * (row + 1)]) << 16);
}

/// What ldmatrix loaded, stored by stmatrix: how many of a lane's 16 bytes are others.
__global__ void store_a(int* wrong) {
#if FOURSCALE_DEVICE_PASS >= 900
  __shared__ alignas(16) u8 tile[2][16][32];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 512; i += 32) tile[0][i / 32][i % 32] = static_cast<u8>(i / 2 + 1);
  for (int i = lane; i < 512; i += 32) tile[1][i / 32][i % 32] = 0;
  __syncwarp();
  u32 r[4];
  ptx::ldmatrix_m8n8_x4_b16(r, ptx::shared_address(&tile[0][lane % 16][lane / 16 * 16]));
  ptx::stmatrix_m8n8_x4_b16(ptx::shared_address(&tile[1][lane % 16][lane / 16 * 16]), r);
  __syncwarp();
  for (int i = lane; i < 512; i += 32) wrong[lane] += tile[0][i / 32][i % 32] != tile[1][i / 32][i % 32];
#endif
}

__global__ void count_elected(int* elected) {
#if FOURSCALE_DEVICE_PASS >= 900
  if (ptx::elect_sync()) atomicAdd(&elected[0], 1);
  if (threadIdx.x % 32 >= 8 && ptx::elect_sync(0xffff'ff00u)) atomicAdd(&elected[1], 1);
#endif
}

/// Runs `kernel` on one warp and returns the n numbers that it writes.
template <class T, int n, class Kernel>
void run(Kernel kernel, T (&result)[n]) {
  T* d = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&d), sizeof result) == cudaSuccess);
  REQUIRE(cudaMemset(d, 0, sizeof result) == cudaSuccess);
  kernel<<<1, 32>>>(d);
  REQUIRE(cudaMemcpy(result, d, sizeof result, cudaMemcpyDeviceToHost) == cudaSuccess);
  REQUIRE(cudaFree(d) == cudaSuccess);
}

}  // namespace

TEST_CASE("fragments: ldmatrix.x4 gives A of m16n8k64", "[ptx][fragments]") {
  if (!test::gpu_or_warn()) return;
  u32 r[192] = {};
  run(load_a, r);
  int wrong = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 32; ++i) {  // nibble i of the lane's 32
      const int row = lane / 4 + 8 * (i / 8 % 2), k = 8 * (lane % 4) + i % 8 + 32 * (i / 16);
      const u32 expected = static_cast<u32>((row * 32 + k / 2) / 2) % 256 >> 4 * (k % 2) & 15;
      wrong += (r[4 * lane + i / 8] >> 4 * (i % 8) & 15) != expected;
    }
  for (int i = 128; i < 192; ++i) wrong += r[i] != 0;
  CHECK(wrong == 0);
}

TEST_CASE("fragments: stmatrix.x4 stores what ldmatrix.x4 loaded", "[ptx][fragments]") {
  if (!test::gpu_or_warn()) return;
  int wrong[32] = {};
  run(store_a, wrong);
  for (const int x : wrong) CHECK(x == 0);
}

TEST_CASE("fragments: elect.sync picks one lane of those that are there", "[ptx][fragments]") {
  int capability = 0;
  if (!test::gpu_or_warn()) return;
  REQUIRE(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  if (capability < 9) return;
  int elected[2] = {};
  run(count_elected, elected);
  CHECK(elected[0] == 1);
  CHECK(elected[1] == 1);
}

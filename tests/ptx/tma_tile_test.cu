// SPDX-License-Identifier: Apache-2.0
// k_major_tile and tma_box against the machine: TMA, which has the same swizzles on Hopper, must put each
// byte where the tile says, and the driver must refuse what refusal() refuses. The packed 4-bit types are for
// Blackwell's driver to accept, so the data move as bytes.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/ptx>
#include <fourscale/ptx/descriptors.hpp>
#include <fourscale/ptx/ldmatrix.cuh>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::ptx;

namespace {

/// cuTensorMapEncodeTiled, from the driver that is there: a test does not link with libcuda.
using encode_tiled = decltype(&cuTensorMapEncodeTiled);

encode_tiled encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  REQUIRE(status == cudaSuccess);
  REQUIRE(found == cudaDriverEntryPointSuccess);
  return reinterpret_cast<encode_tiled>(function);
}

CUresult encode(CUtensorMap& map, tma_box const& b, tma_matrix const& m) {
  const cuuint64_t extent[2] = {m.k, m.rows}, stride[1] = {m.stride};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(b.box_k), static_cast<cuuint32_t>(b.box_rows)};
  const cuuint32_t step[2] = {1, 1};
  return encoder()(&map, static_cast<CUtensorMapDataType>(b.type), 2, reinterpret_cast<void*>(m.address),
                   extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   static_cast<CUtensorMapSwizzle>(tma_swizzle(b.pattern)), CU_TENSOR_MAP_L2_PROMOTION_NONE,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/// One CTA loads a whole tile, column by column, and writes shared memory out as it lies there.
__global__ void load(__grid_constant__ const CUtensorMap map, k_major_tile tile, tma_box box, int k, int row,
                     u8* to) {
#if FOURSCALE_DEVICE_PASS >= 900
  namespace cuda_ptx = cuda::ptx;
  extern __shared__ u8 raw[];
  __shared__ std::uint64_t barrier;
  u8* const smem = raw + (1024 - shared_address(raw) % 1024);
  if (threadIdx.x == 0) {
    cuda_ptx::mbarrier_init(&barrier, 1);
    cuda_ptx::fence_mbarrier_init(cuda_ptx::sem_release, cuda_ptx::scope_cluster);
    cuda_ptx::mbarrier_arrive_expect_tx(cuda_ptx::sem_release, cuda_ptx::scope_cta, cuda_ptx::space_shared,
                                        &barrier, static_cast<u32>(tile.size_bytes()));
    for (int c = 0; c < tile.row_bytes() / span_bytes(tile.pattern); ++c) {
      const int at[2] = {k + c * box.box_k, row};
      cuda_ptx::cp_async_bulk_tensor(cuda_ptx::space_cluster, cuda_ptx::space_global,
                                     smem + c * tile.column_bytes(), &map, at, &barrier);
    }
  }
  __syncthreads();
  while (!cuda_ptx::mbarrier_try_wait_parity(&barrier, 0)) {
  }
  for (int i = static_cast<int>(threadIdx.x); i < tile.size_bytes(); i += static_cast<int>(blockDim.x))
    to[i] = smem[i];
#endif
}

/// A matrix of 300 rows of 512 bytes, of which the tile takes a part that is not at its corner.
void check_tile(k_major_tile const& tile) {
  CAPTURE(tile.rows, tile.k, tile.bits, static_cast<int>(tile.pattern));
  constexpr int rows = 300, stride = 640, k = 64, row = 9;
  std::vector<u8> x(static_cast<std::size_t>(rows * stride)), y(static_cast<std::size_t>(tile.size_bytes()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<u8>(test::mix(i));
  u8 *dx = nullptr, *dy = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&dx), x.size()) == cudaSuccess);
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&dy), y.size()) == cudaSuccess);
  REQUIRE(cudaMemcpy(dx, x.data(), x.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  CUtensorMap map;
  const tma_box box = box_of(tile, tma_type::bytes);
  REQUIRE(encode(map, box, {reinterpret_cast<u64>(dx), 512, rows, stride}) == CUDA_SUCCESS);
  const int shared = tile.size_bytes() + 1024;
  REQUIRE(cudaFuncSetAttribute(load, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) == cudaSuccess);
  load<<<1, 128, static_cast<std::size_t>(shared)>>>(map, tile, box, k, row, dy);
  REQUIRE(cudaMemcpy(y.data(), dy, y.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
  int wrong = 0;
  for (int r = 0; r < tile.rows; ++r)
    for (int b = 0; b < tile.row_bytes(); ++b)
      wrong += y[static_cast<std::size_t>(tile.offset(r, b))] !=
               x[static_cast<std::size_t>((row + r) * stride + k + b)];
  CHECK(wrong == 0);
  REQUIRE(cudaFree(dx) == cudaSuccess);
  REQUIRE(cudaFree(dy) == cudaSuccess);
}

/// True for a GPU with TMA.
bool has_tma() {
  int capability = 0;
  return test::gpu_or_warn() &&
         cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
         capability >= 9;
}

}  // namespace

TEST_CASE("tma tiles: TMA puts each byte where the tile says", "[ptx][tma]") {
  if (!has_tma()) return;
  for (swizzle s : {swizzle::none, swizzle::b32, swizzle::b64, swizzle::b128}) {
    check_tile({.rows = 128, .k = 256, .pattern = s});
    check_tile({.rows = 8, .k = 512, .pattern = s});
    check_tile({.rows = 200, .k = 128, .bits = 8, .pattern = s});
  }
}

/// Boxes of all sizes; returns how many the driver takes, and counts where it and refusal() differ.
int sweep(tma_type type, swizzle s, int& disagree) {
  constexpr int extents[] = {0, 1, 15, 16, 32, 40, 48, 64, 96, 128, 160, 240, 256, 257, 512};
  CUtensorMap map;
  int taken = 0;
  for (int k : extents)
    for (int rows : extents) {
      const tma_box box{type, k, rows, s};
      const bool takes = encode(map, box, {u64{1} << 20, 4096, 4096, 4096}) == CUDA_SUCCESS;
      disagree += takes != (refusal(box) == nullptr);
      taken += takes;
    }
  return taken;
}

TEST_CASE("tma boxes: the driver refuses what is refused, and takes the rest", "[ptx][tma]") {
  if (!has_tma()) return;
  int disagree = 0;
  for (swizzle s : {swizzle::none, swizzle::b32, swizzle::b64, swizzle::b128})
    CHECK(sweep(tma_type::bytes, s, disagree) > 0);
  CHECK(disagree == 0);
}

TEST_CASE("tma boxes: as above for 4-bit types and 32-byte atoms, where the GPU has them", "[ptx][tma]") {
  if (!has_tma()) return;
  int not_here = 0;
  for (tma_type type : {tma_type::bytes, tma_type::u4_align8b, tma_type::u4_align16b})
    for (swizzle s : {swizzle::none, swizzle::b32, swizzle::b64, swizzle::b128, swizzle::b128_atom_32b}) {
      int disagree = 0;
      if (sweep(type, s, disagree) == 0)
        ++not_here;
      else
        CHECK(disagree == 0);
    }
  if (not_here > 2)
    WARN(not_here << " of 15 pairs of a type and a swizzle are not taken here, so not checked");
}

TEST_CASE("tma matrices: the driver refuses what is refused, and takes the rest", "[ptx][tma]") {
  if (!has_tma()) return;
  constexpr u64 strides[] = {0, 8, 16, 24, 32, 4096, 4104, (u64{1} << 40) - 16, u64{1} << 40};
  constexpr u64 extents[] = {0, 1, 32, 4096, u64{1} << 32, (u64{1} << 32) + 1};
  CUtensorMap map;
  int disagree = 0, taken = 0;
  for (u64 address : {u64{1} << 20, (u64{1} << 20) + 8, (u64{1} << 20) + 16})
    for (u64 k : extents)
      for (u64 rows : extents)
        for (u64 stride : strides) {
          const tma_matrix m{address, k, rows, stride};
          if (stride < k) continue;  // the driver lets rows overlap; we do not
          const bool takes = encode(map, {tma_type::bytes, 32, 8, swizzle::none}, m) == CUDA_SUCCESS;
          disagree += takes != (refusal(m, tma_type::bytes) == nullptr);
          taken += takes;
        }
  CHECK(disagree == 0);
  CHECK(taken > 0);
}

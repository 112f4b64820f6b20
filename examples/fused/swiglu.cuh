// SPDX-License-Identifier: Apache-2.0
// SwiGLU, silu(gate) * up, in one kernel that gives its activations to a sink (sinks.cuh). One matrix holds
// gate and up side by side, as a GEMM for both writes them. A thread takes a block in each of several rows,
// and loads all its input before it computes.
#pragma once

#include "sinks.cuh"

namespace fused {

/// The argument of the kernel.
struct swiglu {
  f4::matrix_view<bf16 const> gate_up;  ///< the columns of gate, then as many of up
};

/// gate / (1 + e^-gate) in FP32, by approximate instructions. -infinity gives NaN.
__device__ inline float silu(float gate) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(gate * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return gate * inverse;
}

/// silu(gate) * up for a block. silu is rounded to bf16, and so is the product, as in PyTorch and vLLM.
__device__ inline block_of_bf16 silu_times(block_of_bf16 const& gate, block_of_bf16 const& up) {
  float s[16];
  for (int i = 0; i < 16; ++i) s[i] = silu(f4::to_float(gate.get(i)));
  block_of_bf16 y = block_of_bf16::rounded(s);
  for (int i = 0; i < 8; ++i)  // y * up + -0: the product, rounded once
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(y.words[i]) : "r"(up.words[i]), "r"(0x8000'8000u));
  return y;
}

constexpr int along = 32, rows_at_once = 8, rows_per_thread = 2, tile_rows = rows_at_once * rows_per_thread;

/// A CTA takes a tile of 16 rows x 32 blocks (512 values), a warp one row of it at a time.
template <class Sink>
__global__ void __launch_bounds__(along* rows_at_once, 4)
    swiglu_kernel(swiglu p, unsigned tiles_along, Sink sink) {
  const unsigned tile_row = blockIdx.x / tiles_along, tile_col = blockIdx.x - tile_row * tiles_along;
  const i64 cols = p.gate_up.cols / 2, block = i64{tile_col} * along + threadIdx.x % along;
  const i64 first_row = i64{tile_row} * tile_rows + threadIdx.x / along;
  const auto row = [&](int k) { return first_row + k * rows_at_once; };
  const auto inside = [&](int k) { return row(k) < p.gate_up.rows && block < cols / 16; };
  block_of_bf16 gate[rows_per_thread], up[rows_per_thread];
#pragma unroll
  for (int k = 0; k < rows_per_thread; ++k) {
    if (!inside(k)) continue;
    gate[k] = block_of_bf16::load(&p.gate_up.at(row(k), 16 * block));
    up[k] = block_of_bf16::load(&p.gate_up.at(row(k), cols + 16 * block));
  }
  sink.begin();
  __syncthreads();
  sink.ready();
#pragma unroll
  for (int k = 0; k < rows_per_thread; ++k) {
    if (!inside(k)) {
      sink.pad(row(k), block);
      continue;
    }
    sink.take(sink.row(row(k)), static_cast<int>(block), silu_times(gate[k], up[k]));
  }
  sink.end();
}

/// Launches one kernel on the stream, which gives the activations of p to `sink`: to_nvfp4 or to_bf16.
/// Columns of each half: a multiple of 16. Rows are aligned to 16 bytes.
template <class Sink>
cudaError_t launch(swiglu const& p, Sink const& sink, cudaStream_t stream = nullptr) {
  if (p.gate_up.cols % 32 != 0) return cudaErrorInvalidValue;
  const i64 tiles_along = f4::ceil_div<i64>(sink.padded_blocks(p.gate_up.cols / 32), along),
            tiles = tiles_along * f4::ceil_div<i64>(sink.padded_rows(p.gate_up.rows), tile_rows);
  if (tiles > 0x7fff'ffff) return cudaErrorInvalidValue;
  swiglu_kernel<<<static_cast<unsigned>(tiles), along * rows_at_once, 0, stream>>>(
      p, static_cast<unsigned>(tiles_along), sink);
  return cudaGetLastError();
}

}  // namespace fused

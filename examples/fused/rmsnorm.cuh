// SPDX-License-Identifier: Apache-2.0
// RMSNorm, optionally with the residual addition in front of it, in one kernel that gives its activations to
// a sink (sinks.cuh). A CTA takes a row. A thread takes some of its blocks, and keeps them in registers from
// the first pass (the sum of squares) to the second. A value is rounded to bf16 before it is multiplied by
// gamma, and after, as in Hugging Face's LlamaRMSNorm.
#pragma once

#include "sinks.cuh"

namespace fused {

/// The arguments of the kernel.
struct rmsnorm {
  f4::matrix_view<bf16 const> x;
  bf16 const* gamma;  ///< x.cols of them
  float epsilon;
  bf16 const* residual;  ///< null, or packed and of the shape of x: added to x, rounded to bf16
  bf16* sum;             ///< where the rounded sum goes, for the next layer; may be `residual`
};

/// fma.rn.bf16x2: a * b + c, rounded once, for two values in a word.
__device__ inline u32 fma2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
/// cvt.rn.bf16x2.f32: `value`, rounded to bf16, in both halves of a word.
__device__ inline u32 twice(float value) {
  u32 d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(d) : "f"(value));
  return d;
}
/// Addends and factors of fma2: 1, and -0, which leaves every product as it is.
constexpr u32 one2 = 0x3f80'3f80u, minus_zero2 = 0x8000'8000u;

/// Adds the squares of a block to `sums`, in four chains of additions. Tensor cores would take fewer
/// instructions, but so much power that everything else slows down.
__device__ inline void add_squares(block_of_bf16 const& x, float (&sums)[4]) {
  for (int i = 0; i < 16; ++i) {
    const float value = f4::to_float(x.get(i));
    sums[i % 4] = fmaf(value, value, sums[i % 4]);
  }
}

/// x * factor for pairs of bf16. The factor is in two parts, so that only the last rounding matters.
struct two_part_factor {
  u32 high, low;

  explicit __device__ two_part_factor(float factor)
      : high(twice(factor)), low(twice(factor - f4::bit_cast<float>(high & 0xffff'0000u))) {}
  __device__ u32 times(u32 x) const { return fma2(x, high, fma2(x, low, minus_zero2)); }
};

/// One CTA for each row of the scale layout; a row past the end of x is padding. one_by_cols: 1 / p.x.cols.
template <int BlocksPerThread, bool AddResidual, class Sink>
__global__ void __launch_bounds__(512, 2) rmsnorm_kernel(rmsnorm p, float one_by_cols, Sink sink) {
  __shared__ f4::cta::reduction shared;
  const i64 row = blockIdx.x;
  const int blocks = static_cast<int>(p.x.cols / 16);
  // The blocks of a warp are neighbours. Those of a thread are 32 apart.
  const int thread = static_cast<int>(threadIdx.x),
            first = thread / 32 * (32 * BlocksPerThread) + thread % 32;
  const auto block = [&](int k) { return first + 32 * k; };
  const auto inside = [&](int k) { return block(k) < blocks; };
  if (row >= p.x.rows) {
    for (int k = 0; k < BlocksPerThread; ++k) sink.pad(row, block(k));
    return;
  }
  bf16 const* const from = &p.x.at(row, 0);
  bf16 const* const added = AddResidual ? p.residual + row * p.x.cols : nullptr;
  block_of_bf16 x[BlocksPerThread], r[BlocksPerThread];
#pragma unroll
  for (int k = 0; k < BlocksPerThread; ++k) {
    if (!inside(k)) continue;
    x[k] = block_of_bf16::load(from + 16 * i64{block(k)});
    if (AddResidual) r[k] = block_of_bf16::load(added + 16 * i64{block(k)});
  }
  sink.begin();
  float squares[4] = {};
#pragma unroll
  for (int k = 0; k < BlocksPerThread; ++k) {
    if (!inside(k)) continue;
    if (AddResidual) {
      for (int i = 0; i < 8; ++i) x[k].words[i] = fma2(x[k].words[i], one2, r[k].words[i]);
      x[k].store(p.sum + row * p.x.cols + 16 * i64{block(k)});
    }
    add_squares(x[k], squares);
  }
  const auto gamma_of = [&](int k) {
    block_of_bf16 gamma;
    if (inside(k)) gamma = block_of_bf16::load(p.gamma + 16 * i64{block(k)});
    return gamma;
  };
  block_of_bf16 gamma = gamma_of(0);
  const float sum = f4::cta::sum((squares[0] + squares[1]) + (squares[2] + squares[3]), shared);
  const two_part_factor factor(rsqrtf(fmaf(sum, one_by_cols, p.epsilon)));
  sink.ready();
  const auto to = sink.row(row);
#pragma unroll
  for (int k = 0; k < BlocksPerThread; ++k) {
    if (!inside(k)) {
      sink.pad(row, block(k));
      continue;
    }
    block_of_bf16 y = gamma;
    for (int i = 0; i < 8; ++i) y.words[i] = fma2(factor.times(x[k].words[i]), y.words[i], minus_zero2);
    if (k + 1 < BlocksPerThread) gamma = gamma_of(k + 1);
    sink.take(to, block(k), y);
  }
  sink.end();
}

/// Launches one kernel on the stream, which gives the activations of p to `sink`: to_nvfp4 or to_bf16.
/// Columns: a multiple of 16, 32768 at most. Rows of all tensors are aligned to 16 bytes.
template <class Sink>
cudaError_t launch(rmsnorm const& p, Sink const& sink, cudaStream_t stream = nullptr) {
  const i64 blocks = sink.padded_blocks(p.x.cols / 16);
  const unsigned rows = static_cast<unsigned>(sink.padded_rows(p.x.rows));
  const auto threads = [&](i64 each) {
    return static_cast<unsigned>(f4::round_up<i64>(f4::ceil_div(blocks, each), 32));
  };
  if (threads(4) > 512 || p.x.cols % 16 != 0) return cudaErrorInvalidValue;
  const float one_by_cols = 1.0f / static_cast<float>(p.x.cols);
  if (p.residual == nullptr)
    rmsnorm_kernel<4, false><<<rows, threads(4), 0, stream>>>(p, one_by_cols, sink);
  else if (threads(2) <= 512)
    rmsnorm_kernel<2, true><<<rows, threads(2), 0, stream>>>(p, one_by_cols, sink);
  else
    rmsnorm_kernel<4, true><<<rows, threads(4), 0, stream>>>(p, one_by_cols, sink);
  return cudaGetLastError();
}

}  // namespace fused

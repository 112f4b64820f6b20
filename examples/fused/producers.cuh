// SPDX-License-Identifier: Apache-2.0
// SwiGLU and RMSNorm as producers (cta/producer.cuh): load() makes a block of activations where the library
// would otherwise read one. It gives the same bits in every kernel that calls it, because all arithmetic that
// rounds is in instructions that the compiler cannot contract.
#pragma once

#include "rmsnorm.cuh"
#include "swiglu.cuh"

namespace fused {

/// silu(gate) * up. Columns of the gate come first in p.gate_up.
struct swiglu_blocks {
  using block_type = block_of_bf16;
  swiglu p;
  i64 rows = p.gate_up.rows, cols = p.gate_up.cols / 2;

  __device__ block_type load(f4::cta::place const& at) const {
    return silu_times(block_type::load(&p.gate_up.at(at.row, 16 * at.block)),
                      block_type::load(&p.gate_up.at(at.row, cols + 16 * at.block)));
  }
};

/// x * factor * gamma, with a factor for each row. write_factors() computes the factors in a pass of its own.
struct rmsnorm_blocks {
  using block_type = block_of_bf16;
  f4::matrix_view<bf16 const> x;
  bf16 const* gamma;     ///< x.cols of them
  float const* factors;  ///< x.rows of them
  i64 rows = x.rows, cols = x.cols;

  __device__ block_type load(f4::cta::place const& at) const {
    const two_part_factor factor(factors[at.row]);
    block_type y = block_type::load(gamma + 16 * at.block);
    const block_type values = block_type::load(&x.at(at.row, 16 * at.block));
    for (int i = 0; i < 8; ++i) y.words[i] = fma2(factor.times(values.words[i]), y.words[i], minus_zero2);
    return y;
  }
};

/// The factors, 1 / sqrt(mean square + epsilon) of each row. A CTA of 256 threads takes a row.
__global__ void write_factors(f4::matrix_view<bf16 const> x, float epsilon, float* factors) {
  __shared__ f4::cta::reduction shared;
  float squares[4] = {};
  for (i64 block = threadIdx.x; block < x.cols / 16; block += blockDim.x)
    add_squares(block_of_bf16::load(&x.at(blockIdx.x, 16 * block)), squares);
  const float sum = f4::cta::sum((squares[0] + squares[1]) + (squares[2] + squares[3]), shared);
  if (threadIdx.x == 0) factors[blockIdx.x] = rsqrtf(fmaf(sum, 1.0f / static_cast<float>(x.cols), epsilon));
}

/// Stores the matrix that a producer stands for. A CTA takes a row.
template <class Producer>
__global__ void store_blocks(Producer from, bf16* y) {
  for (i64 block = threadIdx.x; block < from.cols / 16; block += blockDim.x)
    from.load({blockIdx.x, block}).store(y + blockIdx.x * from.cols + 16 * block);
}

}  // namespace fused

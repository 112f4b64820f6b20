// SPDX-License-Identifier: Apache-2.0
// Bias and GELU to NVFP4 without a matrix of activations in between. A producer is a kernel argument whose
// load() makes the values of a block, where the library would otherwise read them from memory.
// device::quantize() does the rest: batches, tiles of scales, padding. The bits are those of quantizing the
// matrix that the producer stands for.
#include <fourscale/fourscale.cuh>

#include "support/gpu.cuh"

namespace f4 = fourscale;
using f4::bf16, f4::i64, example::require;

namespace {

/// gelu(x + bias), rounded to bf16. One thread calls load() for a block, some blocks twice, and must get the
/// same values both times. So no product stands where the compiler could contract it with an addition.
struct bias_gelu {
  using block_type = f4::cta::values<bf16, f4::nvfp4::block_size>;
  bf16 const *x, *bias;  // rows x cols; cols
  i64 rows, cols;

  static __device__ float gelu(float v) {
    const float inner = 0.797884561f * v * fmaf(0.044715f * v, v, 1.0f), half = 0.5f * v;
    return fmaf(half, tanhf(inner), half);
  }
  __device__ block_type load(f4::cta::place const& at) const {
    const i64 col = at.block * 16;
    const block_type v = block_type::load(x + at.row * cols + col), b = block_type::load(bias + col);
    float y[16];
    FOURSCALE_UNROLL
    for (int i = 0; i < 16; ++i) y[i] = gelu(v.value(i) + b.value(i));
    return block_type::rounded(y);
  }
};
static_assert(f4::cta::producer<bias_gelu>);

/// Stores the same values in memory: the matrix that the producer stands for.
__global__ void store(bias_gelu from, bf16* y) {
  const i64 row = blockIdx.x;
  for (i64 block = threadIdx.x; block < from.cols / 16; block += blockDim.x)
    from.load({row, block}).store(y + row * from.cols + block * 16);
}

}  // namespace

int main() {
  example::need_gpu();
  constexpr i64 rows = 300, cols = 4112;  // both end inside a tile of scales: there is padding to zero
  const example::array<bf16> x(rows * cols), bias(cols), y(rows * cols);
  for (i64 i = 0; i < rows * cols; ++i)
    x[i] = f4::from_float<bf16>(static_cast<float>(i * 7919 % 2003 - 1001) / 256);
  for (i64 i = 0; i < cols; ++i) bias[i] = f4::from_float<bf16>(static_cast<float>(i % 17 - 8) / 32);
  const example::array<float> amax(1);  // in training: the amax of the step before
  const bias_gelu source{x.data, bias.data, rows, cols};
  using buffer = f4::device_buffer<f4::nvfp4, f4::swizzled_128x4>;
  buffer fused(rows, cols, f4::amax_in(amax.data)), unfused(rows, cols, f4::amax_in(amax.data));

  store<<<rows, 256>>>(source, y.data);
  const f4::matrix_view<bf16> matrix{y.data, rows, cols};
  require(f4::device::amax(matrix, amax.data));
  require(f4::device::quantize(matrix, unfused.view()));
  require(f4::device::quantize(source, fused.view()));

  const bool same = example::equal(example::to_host(fused), example::to_host(unfused));
  std::printf("bias + GELU, %lld x %lld, %s: fused = unfused %s\n", rows, cols,
              f4::device::explain(source, fused.view()).kernel, same ? "in every bit" : "NOT EQUAL");
  return same ? 0 : 1;
}

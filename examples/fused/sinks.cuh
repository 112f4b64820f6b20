// SPDX-License-Identifier: Apache-2.0
// Sinks: where the kernels of swiglu.cuh and rmsnorm.cuh put their activations, a block of 16 at a time.
// to_bf16 stores them as bf16. to_nvfp4 quantizes them in registers, so that they never reach memory as bf16.
// Both get the same bf16 values, so fused and unfused agree in every bit. In a CTA that takes blocks, all
// threads call begin(), a __syncthreads(), then ready(); whole warps call end(). One thread calls
// take(row(r), block, values) for a block, or pad() for a place past the end of rows and columns.
#pragma once

#include <fourscale/cta/quantize_block.cuh>
#include <fourscale/cta/reduce.cuh>
#include <fourscale/cta/sink.cuh>

namespace fused {

namespace f4 = fourscale;
using f4::bf16;
using f4::i64;
using f4::u32;
using block_of_bf16 = f4::cta::values<bf16, 16>;

/// Stores bf16 values. This is the unfused way: amax() and quantize() come after.
struct to_bf16 {
  f4::matrix_view<bf16> y;

  static i64 padded_rows(i64 rows) { return rows; }
  static i64 padded_blocks(i64 blocks) { return blocks; }
  __device__ void begin() {}
  __device__ void ready() {}
  __device__ bf16* row(i64 row) const { return &y.at(row, 0); }
  __device__ void take(bf16* row, int block, block_of_bf16 const& values) {
    values.store(row + 16 * i64{block});
  }
  __device__ void pad(i64, i64) {}
  __device__ void end() {}
};

/// Quantizes each block. The tensor scale must be known before the first block, so q.amax is that of an
/// earlier step (delayed scaling). The amax of this step is gathered for the next one.
template <class Layout>
struct to_nvfp4 {
  f4::block_scaled_view<f4::nvfp4, Layout> q;
  float* next_amax;                      ///< raised to the amax of the values; zero it before
  f4::tensor_scale<f4::nvfp4> tensor{};  ///< set by ready()
  float largest = 0.0f;                  ///< the largest magnitude of this thread so far

  static i64 padded_rows(i64 rows) { return Layout::padded_rows(rows); }
  static i64 padded_blocks(i64 blocks) { return Layout::padded_blocks(blocks); }
  /// begin() and ready(): by every thread, with a __syncthreads() in between. One thread computes the tensor
  /// scale, which takes divisions; all read it.
  __device__ void begin() {
    if (threadIdx.x == 0) shared_scale() = q.amax.scale_of_row(0);
  }
  __device__ void ready() { tensor = shared_scale(); }
  using row_type = f4::cta::output_row<f4::nvfp4, Layout>;
  __device__ row_type row(i64 row) const { return {q, row}; }
  __device__ void take(row_type const& to, int block, block_of_bf16 const& values) {
    to.store(block, f4::cta::quantize_block<f4::nvfp4>(values, f4::quantizer{}, tensor,
                                                       {to.row, 16 * i64{block}}, largest));
  }
  /// Writes zero to a scale that the layout has beyond the rows and columns of q.
  __device__ void pad(i64 row, i64 block) {
    if (Layout::has_padding && row < Layout::padded_rows(q.rows) && block < Layout::padded_blocks(q.blocks()))
      q.store_scale(row, block, {});
  }
  /// By whole warps: raises *next_amax to their largest magnitude.
  __device__ void end() { f4::cta::raise_amax(largest, next_amax); }

 private:
  static __device__ f4::tensor_scale<f4::nvfp4>& shared_scale() {
    __shared__ __align__(16) unsigned char bytes[sizeof(f4::tensor_scale<f4::nvfp4>)];
    return reinterpret_cast<f4::tensor_scale<f4::nvfp4>&>(bytes);
  }
};

}  // namespace fused

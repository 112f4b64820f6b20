// SPDX-License-Identifier: Apache-2.0
// The epilogue of a warp, by ordinary stores: from accumulators to rows of D, under a factor for each output
// (view/gemm_epilogue.hpp). Where D and the factors allow, lanes store from registers; else sums go through a
// strip of shared memory, and a lane stores eight neighbours at a time. By TMA: output_rows.cuh.
#pragma once

#include "../view/gemm_epilogue.hpp"
#include "../view/matrix_view.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// One factor for all outputs: alpha.
struct one_factor {
  float alpha;

  template <class A, class B>
  FOURSCALE_HD one_factor(float factor, A const&, B const&) : alpha(factor) {}
  FOURSCALE_HD bool same_for_all() const { return true; }
  FOURSCALE_D float operator()(i64, i64) const { return alpha; }
};
/// The factor of output (row, col): alpha times the tensor scales of its row and column.
template <block_format F, block_format G>
struct factor_of_scales {
  output_factors<F, G> make;
  tensor_amax<F> a;
  tensor_amax<G> b;

  FOURSCALE_HD factor_of_scales(float alpha, tensor_amax<F> const& of_a, tensor_amax<G> const& of_b)
      : make(alpha, of_a.range, of_b.range), a(of_a), b(of_b) {}
  FOURSCALE_HD bool same_for_all() const { return !a.by_row() && !b.by_row(); }
  FOURSCALE_D float operator()(i64 row, i64 col) const {
    return make(a.scale_of_row(row).amax, b.scale_of_row(col).amax);
  }
};
namespace detail {
template <block_format F, block_format G>
struct factor_type {
  using type = one_factor;
};
template <block_format F, block_format G>
requires(output_factors<F, G>::has_amaxes) struct factor_type<F, G> {
  using type = factor_of_scales<F, G>;
};
}  // namespace detail
/// The factor type for A of format F and B of format G. Formats without tensor scales share one type, and so
/// share kernels.
template <block_format F, block_format G>
using factor_of_output = typename detail::factor_type<F, G>::type;

inline constexpr int output_rows = 16, strip_cols = 32;

/// 16 rows x 32 columns of a warp's sums. Neighbours 2 i and 2 i + 1 of a row are swapped: so the compiler
/// puts an accumulator and the tensor-core sum that is added to it into registers of different parity, and
/// the addition takes one cycle, not two. Eight unused columns make half a warp's stores hit each bank once.
struct output_strip {
  alignas(16) float sums[output_rows][strip_cols + 8];
};

namespace detail {

/// Stores eight neighbours of a row to D from (row, col) on, those that D has. `same`: all outputs have the
/// factor of_all. `vectors`: D takes stores of 16 bytes, used if D has all eight and beta is 0.
template <class T, class Factors>
FOURSCALE_D void store_eight(matrix_view<T> const& d, Factors const& factor_of, float of_all, bool same,
                             float beta, i64 row, i64 col, float const (&sums)[8], bool vectors) {
  constexpr int words = static_cast<int>(sizeof(T)) * 2, in_word = 4 / static_cast<int>(sizeof(T));
  if (vectors && same && beta == 0.0f && col + 8 <= d.cols) {
    u32 x[words] = {};
    FOURSCALE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const T value = gemm_output<T>(of_all, sums[i]);
      if constexpr (sizeof(T) == 2)
        x[i / in_word] |= u32{bit_cast<u16>(value)} << (16 * (i % in_word));
      else
        x[i] = bit_cast<u32>(value);
    }
    uint4* const to = reinterpret_cast<uint4*>(&d.at(row, col));
    FOURSCALE_UNROLL
    for (int i = 0; i < words / 4; ++i) to[i] = {x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
    return;
  }
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i)
    if (col + i < d.cols)
      store_output(d.at(row, col + i), same ? of_all : factor_of(row, col + i), sums[i], beta);
}

}  // namespace detail

/// Transposes the 4 x 4 words of each four lanes: word i of lane j becomes word j of lane i. A whole warp.
FOURSCALE_D inline void transpose_words(u32 (&x)[4]) {
  const u32 lane = threadIdx.x;
  FOURSCALE_UNROLL
  for (u32 bit = 1; bit <= 2; bit *= 2) {
    const bool high = (lane & bit) != 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const u32 other = __shfl_xor_sync(~0u, high ? x[i] : x[i | bit], bit);
      (high ? x[i] : x[i | bit]) = other;
    }
  }
}

namespace detail {

/// The pairs of FP32 outputs that a lane has of a warp's 16 x Cols: neighbours in one row, and in the row
/// eight below. Four lanes have 32 contiguous bytes of a row, a whole sector.
template <int Cols>
struct pairs_of_lane {
  float2* to;
  i64 eight_rows;  ///< distance of eight rows of D, in pairs
  int cols;        ///< columns of D from the lane's first on, at most Cols
  bool inside[2];  ///< whether D has the upper row, the lower row

  FOURSCALE_D pairs_of_lane(matrix_view<float> const& d, i64 row, i64 col) {
    const i64 lane = threadIdx.x % 32, r = row + lane / 4, c = col + lane % 4 * 2;
    to = reinterpret_cast<float2*>(d.data + r * d.ld + c);
    eight_rows = 4 * d.ld;
    cols = static_cast<int>(min(d.cols - c, i64{Cols}));
    inside[0] = r < d.rows, inside[1] = r + 8 < d.rows;
  }
  /// Whether D has pair `i`, accumulators 2 i and 2 i + 1.
  FOURSCALE_D bool has(int i) const { return inside[i % 2] && i / 2 * 8 < cols; }
  FOURSCALE_D float2& at(int i) const { return to[i % 2 * eight_rows + i / 2 * 4]; }
};

/// by * sums, plus beta * old if `Adds`.
template <bool Adds>
FOURSCALE_D float2 output_pair(float by, float beta, float2 old, float const* sums) {
  if constexpr (Adds)
    return {gemm_output<float>(by, sums[0], beta, old.x), gemm_output<float>(by, sums[1], beta, old.y)};
  else
    return {gemm_output<float>(by, sums[0]), gemm_output<float>(by, sums[1])};
}

/// Stores 16 x Cols FP32 outputs under one factor, from registers. Loads of D have a long latency, so as many
/// are in flight as there are registers for. D's pairs begin at multiples of 8 bytes.
template <bool Adds, int Cols>
FOURSCALE_D void store_pairs(matrix_view<float> const& d, i64 row, i64 col, float by, float beta,
                             float const (&sums)[Cols / 2]) {
  constexpr int count = Cols / 4, at_once = count <= 24 ? count : 8;
  static_assert(count % at_once == 0);
  const pairs_of_lane<Cols> pairs(d, row, col);
  FOURSCALE_UNROLL
  for (int first = 0; first < count; first += at_once) {
    float2 old[at_once] = {};
    if constexpr (Adds) {
      FOURSCALE_UNROLL
      for (int i = 0; i < at_once; ++i)
        if (pairs.has(first + i)) old[i] = pairs.at(first + i);
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < at_once; ++i)
      if (pairs.has(first + i))
        pairs.at(first + i) = output_pair<Adds>(by, beta, old[i], sums + 2 * (first + i));
  }
}

/// Stores 16 x Cols outputs of a 16-bit type under one factor, from registers: four lanes exchange what they
/// have of a row, so that each stores eight neighbours, 16 bytes. D has all of the outputs. A whole warp.
template <int Cols, class T>
FOURSCALE_D void store_vectors(matrix_view<T> const& d, i64 row, i64 col, float factor,
                               float const (&sums)[Cols / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  FOURSCALE_UNROLL
  for (int half = 0; half < 2; ++half) {
    T* const to = &d.at(row + lane / 4 + 8 * half, col + lane % 4 * 8);
    FOURSCALE_UNROLL
    for (int first = 0; first < Cols / 8; first += 4) {
      u32 x[4];
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) {
        float const* const pair = sums + 4 * (first + i) + 2 * half;
        x[i] = gemm_output_pair<T>(factor, pair[1], pair[0]);
      }
      transpose_words(x);
      *reinterpret_cast<uint4*>(to + 8 * first) = {x[0], x[1], x[2], x[3]};
    }
  }
}

/// Stores a strip to D from (row, col) on. A whole warp. Never inlined: it is long, and tiles at the edge
/// of D take it a few times.
template <class P>
__noinline__ FOURSCALE_D void store_strip(P const& p, i64 row, i64 col, float of_all, bool same, bool vectors,
                                          output_strip const& strip) {
#pragma unroll 1
  for (int chunk = static_cast<int>(threadIdx.x) % 32; chunk < output_rows * strip_cols / 8; chunk += 32) {
    const int r = chunk / (strip_cols / 8), c = chunk % (strip_cols / 8) * 8;
    float const* const from = &strip.sums[r][c];
    const float4 low = *reinterpret_cast<float4 const*>(from),
                 high = *reinterpret_cast<float4 const*>(from + 4);
    const float eight[8] = {low.y, low.x, low.w, low.z, high.y, high.x, high.w, high.z};
    if (row + r < p.d.rows && col + c < p.d.cols)
      store_eight(p.d, p.factor_of, of_all, same, p.beta, row + r, col + c, eight, vectors);
  }
}

}  // namespace detail

/// How a warp stores its outputs, found once: reading amaxes takes as long as several steps. A whole warp
/// calls outputs() and by_strips().
struct output_store {
  float of_all;               ///< the factor, if it is the same for all outputs
  bool same, vectors, pairs;  ///< one factor for all; D takes vectors of 16 bytes, or FP32 pairs of 8

  /// P: .d, .factor_of, .beta.
  template <class P>
  FOURSCALE_D explicit output_store(P const& p)
      : of_all(p.factor_of.same_for_all() ? p.factor_of(0, 0) : 0.0f),
        same(p.factor_of.same_for_all()),
        vectors(reinterpret_cast<u64>(p.d.data) % 16 == 0 &&
                p.d.ld * static_cast<i64>(sizeof(*p.d.data)) % 16 == 0),
        pairs(reinterpret_cast<u64>(p.d.data) % 8 == 0 && p.d.ld % 2 == 0 && p.d.cols % 2 == 0) {}

  /// Stores a warp's 16 x Cols outputs to D from (row, col) on, those that D has. Element i of a lane is row
  /// lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) + i % 2, as in mma.sync and wgmma.
  template <int Cols, class P>
  FOURSCALE_D void outputs(P const& p, i64 row, i64 col, float const (&sums)[Cols / 2],
                           output_strip& strip) const {
    static_assert(Cols % strip_cols == 0, "A warp's columns are whole strips.");
    if constexpr (sizeof(*p.d.data) == 2) {
      if (vectors && same && p.beta == 0.0f && row + output_rows <= p.d.rows && col + Cols <= p.d.cols) {
        detail::store_vectors<Cols>(p.d, row, col, of_all, sums);
        return;
      }
    } else if (pairs && same) {
      if (p.beta != 0.0f)
        detail::store_pairs<true, Cols>(p.d, row, col, of_all, p.beta, sums);
      else
        detail::store_pairs<false, Cols>(p.d, row, col, of_all, p.beta, sums);
      return;
    }
    by_strips<Cols>(p, row, col, sums, strip);
  }
  /// The same through the strip, whatever D and the factors are.
  template <int Cols, class P>
  FOURSCALE_D void by_strips(P const& p, i64 row, i64 col, float const (&sums)[Cols / 2],
                             output_strip& strip) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    FOURSCALE_UNROLL
    for (int first = 0; first < Cols; first += strip_cols) {
      FOURSCALE_UNROLL
      for (int i = first / 2; i < (first + strip_cols) / 2; i += 2)
        *reinterpret_cast<float2*>(
            &strip.sums[lane / 4 + 8 * (i / 2 % 2)][8 * (i / 4) - first + 2 * (lane % 4)]) = {sums[i + 1],
                                                                                              sums[i]};
      __syncwarp();
      detail::store_strip(p, row, col + first, of_all, same, vectors, strip);
      __syncwarp();
    }
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma

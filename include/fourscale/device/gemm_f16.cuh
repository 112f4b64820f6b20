// SPDX-License-Identifier: Apache-2.0
// The kernels and launches of gemm_kernel::f16: the GEMM of MXFP8, MXFP6 and MXFP4 by one another with
// Blackwell's bits on any GPU from sm_80 on. One kernel decodes the operands to fp16, and the other one
// multiplies them. How it multiplies: mma/f16_tile.cuh.
#pragma once

#include "../mma/f16_tile.cuh"
#include "../view/gemm_factors.hpp"
#include "gemm_decode.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The facts of one part of an element (see mma::parts). A part need not be an element itself.
FOURSCALE_D inline model::element_facts facts_of_part(float x) {
  model::element_facts facts;
  facts.square = static_cast<double>(x) * static_cast<double>(x);
  if (x != 0.0f) facts.lowest = model::detail::lowest_bit_of_float(bit_cast<u32>(fabsf(x)));
  return facts;
}

/// A block of elements as fp16, and what is known of it.
template <mma::parts Parts, class F>
struct f16_block {
  static constexpr model::element_type type = model::type_of_element<typename F::element>();
  static constexpr e8m0 one{static_cast<u8>(e8m0::bias)};
  u32 elements[mma::block_values];
  int lowest[mma::block_values];        ///< of each element
  model::block_facts all, first, rest;  ///< of the elements, and of their parts

  FOURSCALE_D explicit f16_block(packed_block<F> const& block) {
    FOURSCALE_UNROLL
    for (int i = 0; i < mma::block_values; ++i) {
      const typename F::element element = block.get(i);
      const model::element_facts facts(type, u32{element.bits} << (F::element::width == 4 ? 2 : 0));
      const float x = decode(element);
      all.add(facts);
      lowest[i] = facts.lowest;
      elements[i] = from_float<fp16>(x).bits;
      if constexpr (Parts != mma::parts::none) {
        const float part = to_float(fp16{static_cast<u16>(mma::first_parts<Parts>(elements[i]))});
        first.add(facts_of_part(part));
        rest.add(facts_of_part(x - part));
      }
    }
  }
  FOURSCALE_D mma::block_word word(e8m0 scale) const {
    const model::block_bounds bounds = all.under(scale);
    if constexpr (Parts == mma::parts::none) return {scale, bounds, u32{bounds.width}};
    return {scale, bounds, max(u32{first.under(one).width}, u32{rest.under(one).width})};
  }
  /// Elements 2 i and 2 i + 1 with their reaches.
  FOURSCALE_D u32 pair(int i) const {
    const int of_row = all.under(one).lowest;
    const auto reach_of = [&](int at) { return mma::reach::of(lowest[at], of_row); };
    return ((elements[2 * i] | elements[2 * i + 1] << 16) & mma::reach::elements) | reach_of(2 * i) |
           reach_of(2 * i + 1) << 16;
  }
};

/// Decodes block `step` of a row, by one thread: elements with their reaches, and its word of facts.
template <mma::parts Parts, class F, class Layout>
FOURSCALE_D void decode_block(block_scaled_view<F, Layout, u8 const> const& q, mma::f16_operand const& to,
                              i64 row, i64 step) {
  const packed_block<F> packed = q.load(row, step);
  const f16_block<Parts, F> block(packed);
  uint4* const values = reinterpret_cast<uint4*>(to.values + (row * to.steps + step) * mma::block_values);
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i)
    values[i] = {block.pair(4 * i), block.pair(4 * i + 1), block.pair(4 * i + 2), block.pair(4 * i + 3)};
  to.facts[step * to.rows + row] = block.word(packed.scale).bits;
}

/// Decodes both operands, a block of 32 elements a thread at a time. `Parts` is about B.
template <mma::parts Parts, class F, class LA, class G, class LB>
FOURSCALE_KERNEL void __launch_bounds__(128)
    decode_to_f16_kernel(block_scaled_view<F, LA, u8 const> a, block_scaled_view<G, LB, u8 const> b,
                         mma::f16_operand to_a, mma::f16_operand to_b, mma::failed_strips failed) {
  if (failed.has_none()) return;
  const i64 of_a = to_a.rows * to_a.steps, all = of_a + to_b.rows * to_b.steps;
  for (i64 i = i64{blockIdx.x} * 128 + threadIdx.x; i < all; i += i64{gridDim.x} * 128)
    if (const i64 j = i - of_a; j < 0)
      decode_block<mma::parts::none>(a, to_a, i / to_a.steps, i % to_a.steps);
    else
      decode_block<Parts>(b, to_b, j / to_b.steps, j % to_b.steps);
}

/// A CTA computes one tile of D, or takes tiles in turn where outputs have failed.
template <mma::parts Parts, class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::f16_tile::threads, 1)
    gemm_f16_kernel(const __grid_constant__ P p) {
  namespace t = mma::f16_tile;
  extern __shared__ __align__(1024) u8 bytes[];
  if (p.steps != nullptr && threadIdx.x == 0 && blockIdx.x == 0)
    mma::detail::add_count(p.steps->in_f32, p.d.rows * p.d.cols * p.a.steps);
  auto& m = *reinterpret_cast<t::cta_memory*>(bytes);
  if constexpr (t::is_of_failed<P>)
    if (p.failed.has_none()) return;
  t::init_barriers(m);
  t::places_in_ring places;
  mma::tile_walk<t::tile_rows, t::tile_cols, 1> at(p);
  if constexpr (!t::is_of_failed<P>)
    t::multiply<Parts>(p, at.row(), at.col(), m, places);
  else
    for (; at.more(); at.next()) t::multiply<Parts>(p, at.row(), at.col(), m, places);
}

/// A GEMM by these kernels whose arguments have been checked. Both decoded operands lie in `workspace`, which
/// begins at a multiple of 256 bytes. First decode(), then multiply(). With problem_of_failed they make no
/// other outputs than those that a kernel before has marked.
template <class F, class LA, class G, class LB, class T, class Problem = mma::f16_tile::problem<T>>
struct f16_call {
  static constexpr mma::parts parts = mma::parts_of<typename F::element, typename G::element>();
  block_scaled_view<F, LA, u8 const> a;
  block_scaled_view<G, LB, u8 const> b;
  Problem p;
  errc state = errc::ok;

  template <class BA, class BB>
  f16_call(block_scaled_view<F, LA, BA> const& x, block_scaled_view<G, LB, BB> const& y,
           matrix_view<T> const& d, gemm_factors factors, void* workspace, gemm_steps* steps)
      : a(x), b(y), p(of({{}, {}, d, {factors.alpha, a.amax, b.amax}, factors.beta, steps})) {
    u8* const at = static_cast<u8*>(workspace);
    p.a = mma::f16_operand::in(at, a.rows, a.cols);
    p.b = mma::f16_operand::in(at + p.a.bytes(), b.rows, b.cols);
    p.a.codes = a.codes, p.a.type = model::type_of_element<typename F::element>();
    p.b.codes = b.codes, p.b.type = model::type_of_element<typename G::element>();
    constexpr i64 most = i64{1} << 30;
    if (tiles() >= most || d.rows >= most || d.cols >= most || a.cols >= most) state = errc::too_large;
  }
  i64 tiles() const {
    namespace t = mma::f16_tile;
    return ceil_div<i64>(p.d.rows, t::tile_rows) * ceil_div<i64>(p.d.cols, t::tile_cols);
  }
  template <bool = true>
  errc decode(cudaStream_t stream) const {
    const i64 blocks = p.a.rows * p.a.steps + p.b.rows * p.b.steps;
    decode_to_f16_kernel<parts>
        <<<ctas_of(ceil_div<i64>(blocks, 128), 16), 128, 0, stream>>>(a, b, p.a, p.b, failed());
    return launched();
  }
  errc multiply(cudaStream_t stream) const {
    namespace t = mma::f16_tile;
    auto* const kernel = &gemm_f16_kernel<parts, Problem>;
    constexpr int bytes = sizeof(t::cta_memory);
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
      return errc::cuda_failed;
    kernel<<<ctas_of(tiles(), 1), t::threads, static_cast<size_t>(bytes), stream>>>(p);
    return launched();
  }

 private:
  static constexpr bool only_failed = mma::f16_tile::is_of_failed<Problem>;
  static Problem of(mma::f16_tile::problem<T> const& x) {
    if constexpr (only_failed)
      return {x, {}};
    else
      return x;
  }
  mma::failed_strips failed() const {
    if constexpr (only_failed) return p.failed;
    return {};
  }
  /// A CTA for each of `count`. For what has failed, mostly nothing, only as many as run at once, `of_sm` on
  /// each processor.
  static unsigned ctas_of(i64 count, int of_sm) {
    const i64 most = i64{of_sm} * device_attribute(cudaDevAttrMultiProcessorCount);
    return static_cast<unsigned>(only_failed && most < count ? most : count);
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

// SPDX-License-Identifier: Apache-2.0
// The instruction set is a template argument of a GEMM: it executes mma.sync with block scales. `hardware` is
// the instruction of sm_120 and sm_121; `model` computes the same bits in integers, on any GPU from sm_80 on.
// Both take the same fragments, so all code around them is the same. `hardware` was assembled and its machine
// code was read; this project never ran it.
#pragma once

#include "../formats/block_formats.hpp"
#include "../model/mma_sync.hpp"
#include "../ptx/mma_sync.cuh"

namespace FOURSCALE_NAMESPACE::mma {

namespace detail {

template <block_format F>
inline constexpr bool is_mxfp8 = F::block_size == 32 && same_type<typename F::scale, e8m0> &&
                                 (same_type<typename F::element, e4m3> ||
                                  same_type<typename F::element, e5m2>);
template <block_format F, class Scale, int BlockSize>
inline constexpr bool is_e2m1_under =
    same_type<typename F::element, e2m1>&& same_type<typename F::scale, Scale>&& F::block_size == BlockSize;

template <block_format F>
inline constexpr ptx::element_type element_of =
    same_type<typename F::element, e2m1>   ? ptx::element_type::e2m1
    : same_type<typename F::element, e5m2> ? ptx::element_type::e5m2
                                           : ptx::element_type::e4m3;

}  // namespace detail

/// True if one instruction multiplies codes of F by codes of G as they lie in memory.
template <block_format F, block_format G>
inline constexpr bool has_instruction = (detail::is_e2m1_under<F, e4m3, 16> &&
                                         detail::is_e2m1_under<G, e4m3, 16>) ||
                                        (detail::is_e2m1_under<F, e8m0, 32> &&
                                         detail::is_e2m1_under<G, e8m0, 32>) ||
                                        (detail::is_mxfp8<F> && detail::is_mxfp8<G>);

/// The instruction that multiplies F by G.
template <block_format F, block_format G>
FOURSCALE_HD constexpr ::fourscale::model::mma_format format_of() {
  static_assert(has_instruction<F, G>,
                "mma.sync multiplies NVFP4 by NVFP4, MXFP4 by MXFP4, and MXFP8 by MXFP8 (E4M3 or E5M2).");
  if constexpr (detail::is_mxfp8<F>) {
    auto f = ::fourscale::model::mxfp8_mma;
    f.a = detail::element_of<F>;
    f.b = detail::element_of<G>;
    return f;
  } else {
    return F::block_size == 16 ? ::fourscale::model::nvfp4_mma : ::fourscale::model::mxfp4_mma;
  }
}

/// A register of four consecutive scales; byte_id, the first scale of them that the instruction uses; and
/// thread_id, which selects the lanes whose registers count: see ptx::scale_selector.
struct scale_operand {
  u32 word;
  u16 byte_id, thread_id;
};

/// The instruction itself. It needs no shared memory.
struct hardware {
  struct memory {};
  /// False in a compilation pass that cannot emit it. Read it, like arch::, inside function bodies only.
  FOURSCALE_HD static constexpr bool available() { return arch::has_mma_block_scale; }

  /// D += A * B^T for one warp, fragments as in ptx/mma_sync.cuh.
  template <block_format F, block_format G>
  FOURSCALE_D static void mma(memory&, float (&d)[4], u32 const (&a)[4], u32 const (&b)[2],
                              scale_operand scale_a, scale_operand scale_b) {
    constexpr auto f = format_of<F, G>();
    const ptx::scale_selector at_a{scale_a.byte_id, scale_a.thread_id},
        at_b{scale_b.byte_id, scale_b.thread_id};
    if constexpr (f.kind == ptx::mma_kind::mxf8f6f4)
      ptx::mma_sync_m16n8k32_mxf8f6f4_1x_ue8m0<f.a, f.b>(d, a, b, scale_a.word, at_a, scale_b.word, at_b);
    else if constexpr (f.block == 32)
      ptx::mma_sync_m16n8k64_mxf4nvf4_2x_ue8m0(d, a, b, scale_a.word, at_a, scale_b.word, at_b);
    else
      ptx::mma_sync_m16n8k64_mxf4nvf4_4x_ue4m3(d, a, b, scale_a.word, scale_a.thread_id, scale_b.word,
                                               scale_b.thread_id);
  }
};

/// The model. Lanes exchange registers through shared memory, since each needs those of others. Selectors
/// that the hardware leaves undefined give NaN.
struct model {
  using memory = ::fourscale::model::warp_registers;
  FOURSCALE_HD static constexpr bool available() { return true; }

  template <block_format F, block_format G>
  __noinline__ FOURSCALE_D static void mma(memory& w, float (&d)[4], u32 const (&a)[4], u32 const (&b)[2],
                                           scale_operand scale_a, scale_operand scale_b) {
    constexpr auto f = format_of<F, G>();
    const u32 lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) w.a[lane][i] = a[i], w.c[lane][i] = d[i];
    for (int i = 0; i < 2; ++i) w.b[lane][i] = b[i];
    w.scale_a[lane] = scale_a.word;
    w.scale_b[lane] = scale_b.word;
    __syncwarp();
    const ::fourscale::model::scale_selector at_a{scale_a.byte_id, scale_a.thread_id},
        at_b{scale_b.byte_id, scale_b.thread_id};
    const bool valid = ::fourscale::model::valid_selectors(f, at_a, at_b);
#pragma unroll 1
    for (u32 i = 0; i < 4; ++i)
      d[i] = valid ? ::fourscale::model::mma_sync(f, w, at_a, at_b, lane, i)
                   : bit_cast<float>(::fourscale::model::mma_nan_bits);
    __syncwarp();
  }
};

/// `hardware`, `model`, or one of your own. memory: the shared memory that each warp needs; available():
/// whether this pass can emit the instruction; mma(): the instruction, called by a whole warp.
template <class S>
concept instruction_set = requires(typename S::memory& memory, float (&d)[4], u32 const (&a)[4],
                                   u32 const (&b)[2], scale_operand scale) {
  S::available();
  S::template mma<nvfp4, nvfp4>(memory, d, a, b, scale, scale);
};

}  // namespace FOURSCALE_NAMESPACE::mma

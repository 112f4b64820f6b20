// SPDX-License-Identifier: Apache-2.0
// The errors of a tcgen05 program that the model finds and hardware does not report, each with a sentence
// that says what to fix.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::model {

enum class [[nodiscard]] misuse : u8{
    ok,
    // tensor memory and its allocation
    bad_column_count,
    growing_allocation,
    alloc_after_relinquish,
    out_of_columns,
    dealloc_mismatch,
    dealloc_in_use,
    dealloc_forgotten,
    unallocated_columns,
    bad_tensor_address,
    wrong_lane_quarter,
    bad_repeat,
    uninitialized_cells,
    overlapping_operands,
    copies_differ,
    // all tcgen05 instructions of a kernel have one cta_group
    mixed_cta_groups,
    // shared-memory descriptors
    bad_shared_descriptor,
    bad_swizzle,
    off_swizzle_boundary,
    wrong_stride,
    shared_out_of_bounds,
    // instruction descriptors
    reserved_bits,
    not_modelled,
    wrong_block_size,
    wrong_element_type,
    wrong_scale_type,
    wrong_scale_id,
    wrong_shape,
    mn_major_operand,
    // order
    other_accumulator_shape,
    missing_commit,
    missing_wait,
    missing_wait_ld,
    missing_wait_st,
    missing_fence_before,
    missing_fence_after,
    missing_barrier,
    missing_proxy_fence,
    shared_in_use,
    bulk_copy_pending,
    // mbarriers
    bad_barrier,
    would_hang,
};

namespace detail {

FOURSCALE_HD constexpr char const* message_of_allocation(misuse e) {
  switch (e) {
    case misuse::bad_column_count:
      return "tcgen05.alloc takes 32, 64, 128, 256 or 512 columns: round up";
    case misuse::growing_allocation:
      return "an allocation may not be larger than the one before it in this kernel: allocate the largest "
             "first";
    case misuse::alloc_after_relinquish:
      return "this CTA gave up its permit: move tcgen05.alloc before tcgen05.relinquish_alloc_permit";
    case misuse::out_of_columns:
      return "no run of free columns is long enough, and tcgen05.alloc would block: deallocate first, or ask "
             "for less";
    case misuse::dealloc_mismatch:
      return "tcgen05.dealloc needs the address and the column count of one tcgen05.alloc";
    case misuse::dealloc_in_use:
      return "an operation on these columns may still run: wait for it, and fence, before tcgen05.dealloc";
    case misuse::dealloc_forgotten:
      return "tensor memory is still allocated at the end of the kernel: the next one may hang; add "
             "tcgen05.dealloc";
    default:
      return nullptr;
  }
}

FOURSCALE_HD constexpr char const* message_of_cells(misuse e) {
  switch (e) {
    case misuse::unallocated_columns:
      return "these columns are not allocated (in each CTA of the pair): check the base address and the "
             "column count";
    case misuse::bad_tensor_address:
      return "a tensor-memory address needs its lane, which is 0 for operands of an mma, in bits 31:16, and "
             "all its "
             "columns below 512";
    case misuse::wrong_lane_quarter:
      return "warp w reaches lanes 32 (w % 4) to 32 (w % 4) + 31 only: put that lane into the address";
    case misuse::bad_repeat:
      return "the repeat factor is no power of two, or asks for more than 128 registers";
    case misuse::uninitialized_cells:
      return "cells are read that nothing wrote since the allocation: check the columns, or do not "
             "accumulate first";
    case misuse::overlapping_operands:
      return "D overlaps the scales, or A, of the same mma in tensor memory: give them columns of their own";
    case misuse::copies_differ:
      return "scales (and, with M = 128 in two CTAs, an A operand) must be the same in every group of lanes: "
             "copy "
             "them with tcgen05.cp.32x128b.warpx4 (64x128b.warpx2::01_23 for B with M = 128 in two CTAs)";
    default:
      return nullptr;
  }
}

FOURSCALE_HD constexpr char const* message_of_shared(misuse e) {
  switch (e) {
    case misuse::mixed_cta_groups:
      return "one kernel uses either cta_group::1 or cta_group::2, in every tcgen05 instruction";
    case misuse::bad_shared_descriptor:
      return "a shared-memory descriptor has 0b001 in bits 48:46 and zeros in bits 60:53, 31:30 and 15:14";
    case misuse::bad_swizzle:
      return "the swizzle is none (0), 128B (2), 64B (4) or 32B (6) for a K-major operand, and none for a "
             "copy of 128 "
             "bits a row";
    case misuse::off_swizzle_boundary:
      return "the pattern of a swizzle starts at a multiple of 1024 (128B), 512 (64B) or 256 (32B) bytes: "
             "align the "
             "tile or set the base offset, and step along K by 32 bytes inside a row of the atom";
    case misuse::wrong_stride:
      return "the stride offset is a multiple of 1024 (128B), 512 (64B) or 256 (32B) bytes; without a "
             "swizzle stride "
             "and leading offset are at least 128 and do not make core matrices overlap";
    case misuse::shared_out_of_bounds:
      return "the descriptor reaches beyond the shared memory of the CTA: check start, stride and number of "
             "rows";
    default:
      return nullptr;
  }
}

FOURSCALE_HD constexpr char const* message_of_instruction(misuse e) {
  switch (e) {
    case misuse::reserved_bits:
      return "a reserved bit of the instruction descriptor is set: was it built for another kind?";
    case misuse::not_modelled:
      return "sparsity, K = 96 and the absolute leading dimension are not modelled";
    case misuse::wrong_block_size:
      return "mxf4nvf4 has blocks of 16 or, with UE8M0, 32; mxf4 and mxf8f6f4 have blocks of 32";
    case misuse::wrong_element_type:
      return "E2M1 is type 1 in kinds mxf4 and mxf4nvf4 and type 5 in mxf8f6f4, where 0, 1, 3, 4 are E4M3, "
             "E5M2, "
             "E2M3, E3M2";
    case misuse::wrong_scale_type:
      return "bit 23 is 0 for UE4M3, which only mxf4nvf4 with blocks of 16 takes, and 1 for UE8M0";
    case misuse::wrong_scale_id:
      return "the scale id is 0 for four scales a row, 0 or 2 for two, 0 to 3 for one";
    case misuse::wrong_shape:
      return "M is 128, or 128 or 256 with two CTAs; N is a multiple of 8, of 16 with two CTAs, and at most "
             "256";
    case misuse::mn_major_operand:
      return "4-bit operands are K-major, bits 15 and 16 zero, and the model knows no others: transpose and "
             "quantize "
             "again";
    default:
      return nullptr;
  }
}

FOURSCALE_HD constexpr char const* message_of_order(misuse e) {
  switch (e) {
    case misuse::other_accumulator_shape:
      return "two mma of different shape or address overlap in D and are not ordered: commit and wait "
             "between them";
    case misuse::missing_commit:
      return "nothing tracks this mma or cp: add tcgen05.commit to an mbarrier after it";
    case misuse::missing_wait:
      return "the mma or cp may not have finished: wait for the mbarrier of its tcgen05.commit";
    case misuse::missing_wait_ld:
      return "a tcgen05.ld may still read these cells: its warp needs tcgen05.wait::ld";
    case misuse::missing_wait_st:
      return "a tcgen05.st may not have arrived: its warp needs tcgen05.wait::st";
    case misuse::missing_fence_before:
      return "the other thread synchronised without tcgen05.fence::before_thread_sync";
    case misuse::missing_fence_after:
      return "this thread synchronised without tcgen05.fence::after_thread_sync";
    case misuse::missing_barrier:
      return "two threads touch the same memory with no barrier between them";
    case misuse::missing_proxy_fence:
      return "shared memory written by ordinary stores is read by the async proxy: each writing thread needs "
             "fence.proxy.async.shared::cta before the barrier";
    case misuse::shared_in_use:
      return "an mma or cp may still read this shared memory: wait for the mbarrier of its tcgen05.commit "
             "first";
    case misuse::bulk_copy_pending:
      return "a bulk copy may still read this shared memory: its thread needs cp.async.bulk.wait_group.read, "
             "before it is written again and before the CTA ends";
    case misuse::bad_barrier:
      return "the mbarrier was not initialised, or more arrived than its count";
    case misuse::would_hang:
      return "this phase of the mbarrier does not complete: an arrival is missing, or bytes of a copy, or "
             "the parity is wrong";
    default:
      return nullptr;
  }
}

}  // namespace detail

/// A sentence that says what to fix.
FOURSCALE_HD constexpr char const* message(misuse e) {
  if (e == misuse::ok) return "ok";
  if (char const* text = detail::message_of_allocation(e)) return text;
  if (char const* text = detail::message_of_cells(e)) return text;
  if (char const* text = detail::message_of_shared(e)) return text;
  if (char const* text = detail::message_of_instruction(e)) return text;
  if (char const* text = detail::message_of_order(e)) return text;
  return "not a misuse";
}

}  // namespace FOURSCALE_NAMESPACE::model

// SPDX-License-Identifier: Apache-2.0
// The small GEMMs, and the faults that are planted in them with what must be said about each.
#pragma once

#include "model/program.hpp"

namespace fourscale::test {

using model::element_type, model::mma_format, model::mma_kind, model::misuse, model::scale_type,
    model::swizzle;
using model::mxfp4_mma, model::mxfp8_mma;

constexpr mma_format mxf8(element_type a, element_type b) {
  return {mma_kind::mxf8f6f4, 32, scale_type::ue8m0, a, b};
}
inline constexpr mma_format ue8m0_by_16{mma_kind::mxf4nvf4, 16, scale_type::ue8m0};
inline constexpr mma_format mxf4_kind{mma_kind::mxf4, 32, scale_type::ue8m0};

inline constexpr gemm_case good[] = {
    {},
    {.n = 128, .read_16x256b = true},
    {.n = 8, .mode = swizzle::b64},
    {.n = 40, .mode = swizzle::b32, .steps = 3},
    {.n = 32, .mode = swizzle::none, .steps = 2},
    {.n = 256, .steps = 1},
    {.n = 192, .steps = 1},
    {.n = 48, .a_in_tensor = true},
    {.format = mxfp4_mma, .n = 64},
    {.format = mxf4_kind, .n = 24, .mode = swizzle::b64, .a_in_tensor = true},
    {.format = ue8m0_by_16, .n = 16, .steps = 2},
    {.format = mxfp8_mma, .n = 32},
    {.format = mxf8(element_type::e5m2, element_type::e2m1), .n = 16, .steps = 4},
    {.format = mxf8(element_type::e2m1, element_type::e3m2), .n = 16, .mode = swizzle::b64},
    {.format = mxf8(element_type::e2m3, element_type::e4m3), .n = 16, .steps = 2, .a_in_tensor = true},
    {.n = 64, .m = 256, .ctas = 2},
    {.n = 256, .m = 256, .ctas = 2, .steps = 1},
    {.n = 128, .m = 128, .ctas = 2, .steps = 2},
    {.n = 48, .m = 128, .ctas = 2, .mode = swizzle::none, .steps = 2, .a_in_tensor = true},
    {.n = 16, .m = 128, .ctas = 2, .steps = 2},
    {.n = 208, .m = 128, .ctas = 2, .steps = 1},
    {.n = 256, .m = 128, .ctas = 2, .steps = 1},
    {.format = mxfp4_mma, .n = 32, .m = 256, .ctas = 2, .steps = 2, .a_in_tensor = true},
    {.format = mxfp8_mma, .n = 32, .m = 256, .ctas = 2, .read_16x256b = true},
};

struct planted {
  fault what;
  misuse expected;
  char const* words;  ///< of the sentence
  gemm_case in = {};
};
inline constexpr planted faults[] = {
    {fault::no_alloc, misuse::unallocated_columns, "not allocated"},
    {fault::alloc_96, misuse::bad_column_count, "32, 64, 128, 256 or 512"},
    {fault::alloc_grows, misuse::growing_allocation, "allocate the largest first"},
    {fault::alloc_too_late, misuse::alloc_after_relinquish, "before tcgen05.relinquish_alloc_permit"},
    {fault::alloc_too_much, misuse::out_of_columns, "would block"},
    {fault::dealloc_half, misuse::dealloc_mismatch, "of one tcgen05.alloc"},
    {fault::dealloc_early, misuse::dealloc_in_use, "before tcgen05.dealloc"},
    {fault::no_dealloc, misuse::dealloc_forgotten, "add tcgen05.dealloc"},
    {fault::other_group, misuse::mixed_cta_groups, "either cta_group::1 or cta_group::2"},
    {fault::no_proxy_fence, misuse::missing_proxy_fence, "fence.proxy.async"},
    {fault::no_barrier, misuse::missing_barrier, "no barrier between"},
    {fault::no_fence_after_fill, misuse::missing_fence_after, "after_thread_sync", {.a_in_tensor = true}},
    {fault::no_scale_copy, misuse::uninitialized_cells, "nothing wrote"},
    {fault::scales_in_one_quarter, misuse::copies_differ, "32x128b.warpx4"},
    {fault::accumulate_first, misuse::uninitialized_cells, "do not accumulate first"},
    {fault::tile_off_boundary, misuse::off_swizzle_boundary, "align the tile"},
    {fault::k_step_off_row, misuse::off_swizzle_boundary, "inside a row of the atom"},
    {fault::short_stride, misuse::wrong_stride, "multiple of 1024"},
    {fault::overlapping_columns, misuse::wrong_stride, "overlap", {.mode = swizzle::none}},
    {fault::stale_descriptor, misuse::bad_shared_descriptor, "0b001 in bits 48:46"},
    {fault::swizzle_of_32b_atoms, misuse::bad_swizzle, "128B (2)"},
    {fault::beyond_shared, misuse::shared_out_of_bounds, "beyond the shared memory"},
    {fault::scale_id_1, misuse::wrong_scale_id, "0 for four scales"},
    {fault::type_of_other_kind, misuse::wrong_element_type, "type 1 in kinds mxf4"},
    {fault::other_kind, misuse::wrong_scale_type, "UE8M0"},
    {fault::blocks_of_32, misuse::wrong_scale_type, "only mxf4nvf4 with blocks of 16"},
    {fault::scales_ue8m0, misuse::wrong_scale_type, "bit 23", {.format = mxfp4_mma}},
    {fault::mn_major, misuse::mn_major_operand, "K-major"},
    {fault::n_of_260, misuse::wrong_shape, "at most 256"},
    {fault::sparse, misuse::not_modelled, "sparsity"},
    {fault::d_over_scales, misuse::overlapping_operands, "columns of their own"},
    {fault::d_beyond, misuse::bad_tensor_address, "below 512"},
    {fault::lane_in_d, misuse::bad_tensor_address, "bits 31:16"},
    {fault::no_commit, misuse::would_hang, "an arrival is missing"},
    {fault::no_commit_no_wait, misuse::missing_commit, "add tcgen05.commit"},
    {fault::no_wait, misuse::missing_wait, "wait for the mbarrier"},
    {fault::wrong_parity, misuse::would_hang, "the parity is wrong"},
    {fault::no_barrier_init, misuse::bad_barrier, "not initialised"},
    {fault::no_fence_after_wait, misuse::missing_fence_after, "after_thread_sync"},
    {fault::other_quarter, misuse::wrong_lane_quarter, "warp w reaches"},
    {fault::repeat_of_3, misuse::bad_repeat, "power of two"},
    {fault::no_wait_ld, misuse::missing_wait_ld, "tcgen05.wait::ld"},
    {fault::no_fence_before_reuse, misuse::missing_fence_before, "before_thread_sync"},
    {fault::no_barrier_before_reuse, misuse::missing_barrier, "no barrier between"},
    {fault::other_shape_between, misuse::other_accumulator_shape, "different shape"},
    {fault::refill_too_early, misuse::shared_in_use, "may still read this shared memory"},
    {fault::no_wait_st, misuse::missing_wait_st, "tcgen05.wait::st", {.a_in_tensor = true}},
};

/// Mistakes that are legal: only the numbers are wrong.
struct unseen {
  fault what;
  gemm_case in;
};
inline constexpr unseen silent[] = {
    {fault::swapped_nibbles, {.n = 8}},
    {fault::same_k_step, {.n = 8}},
    {fault::wrong_scale_tile, {.n = 8}},
    {fault::wrong_legal_scale_id, {.format = mxfp4_mma, .n = 8}},
    {fault::wrong_legal_scale_id, {.format = mxfp8_mma, .n = 8}},
    {fault::wrong_legal_stride, {.n = 16}},
    {fault::scales_ue8m0, {.n = 8}},
};

}  // namespace fourscale::test

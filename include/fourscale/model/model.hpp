// SPDX-License-Identifier: Apache-2.0
// Includes all of model/: functions that compute what the block-scaled tensor cores of Blackwell compute, to
// run where there is no Blackwell. This comment lists the source of each part. This project compared none of
// it with hardware.
//
// Vendor text (PTX ISA 9.1): tensor memory, its addresses and allocation rules (9.7.16.1, 9.7.16.7); lanes,
// sizes and register counts of ld, sizes and warp pairs of cp (9.7.16.2, .8, .9); descriptors (.4); types,
// block sizes, M, N and scale ids (.2.1, .10.7); scales in every 32-lane partition; the rules of order (.6):
// pipelined pairs, commit, waits, fences, proxies; fragments and scale selectors of mma.sync (9.7.14.5).
//
// Measured by others: the arithmetic. MMA-Sim (arXiv 2511.10909) reports bit equality with B200 (one CTA) and
// RTX Blackwell: groups of 16, 35 kept bits, 25 for mxf8f6f4, rounding toward zero, NaN as 0x7FFFFFFF, the
// sign of UE4M3 ignored, zeros at exponent -126, +0 for a zero result, infinity beyond the largest finite
// number, E5M2 infinities.
//
// From shipping kernels, where the manual has only figures (the layout maps of CUTLASS): cells of ld, lanes
// of cp 4x256b and 64x128b, scales in tensor memory, D and B of two CTAs, A of two CTAs with M = 128 in
// tensor memory, E2M1 in bits 5:2 of a container, the K step of 32 bytes inside a swizzle atom, cp after mma
// in order.
//
// Inferred: an infinite C with a 4-bit kind comes back unchanged; E2M1, E2M3 and E3M2 in mxf8f6f4 align as
// E4M3 does; two CTAs compute the same as one; each CTA of a pair copies from its own shared memory;
// tcgen05.alloc takes the first run at a multiple of its length; the swizzle phase under a base offset;
// scales of B for two CTAs with M = 128 where N is no multiple of 128, as the layouts of CUTLASS have them.
//
// Not modelled: sparsity, K = 96, MN-major 8-bit operands, zero-column masks, disabled lanes, cp with
// decompression, shift, pack::16b, .ws; time.
#pragma once

#include "block_scaled_dot.hpp"
#include "mma_sync.hpp"
#include "tcgen05.hpp"

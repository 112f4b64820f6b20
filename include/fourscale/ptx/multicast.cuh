// SPDX-License-Identifier: Apache-2.0
// Multicast: bulk copies by TMA from global memory to the same shared offset in several CTAs of a cluster,
// with one read of L2 for all (PTX ISA 9.7.9.25.4.1, 9.7.9.27.1.2; PTX 8.0). Bit r of `ctas` stands for the
// CTA of rank r. In each of these CTAs, the mbarrier at the offset of `mbarrier` counts the bytes that arrive
// there. For sm_90a, 100f, 103f, 110f and their `a` targets. Elsewhere ptxas accepts the instructions, but
// advises against them.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void multicast_needs_sm_90a_100f_103f_or_110f();

/// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
/// [to], [map, {x, y}], [mbarrier], ctas;   Copies the box of a tensor map that begins at element x of row y.
FOURSCALE_D inline void cp_async_bulk_tensor_2d_multicast([[maybe_unused]] u32 to,
                                                          [[maybe_unused]] void const* map,
                                                          [[maybe_unused]] i32 x, [[maybe_unused]] i32 y,
                                                          [[maybe_unused]] u32 mbarrier,
                                                          [[maybe_unused]] u16 ctas) {
#if FOURSCALE_HAS_MULTICAST
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(mbarrier), "h"(ctas)
      : "memory");
#else
  multicast_needs_sm_90a_100f_103f_or_110f();
#endif
}

/// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
/// [to], [from], bytes, [mbarrier], ctas;   Copies `bytes` bytes. Both addresses and `bytes` are
/// multiples of 16.
FOURSCALE_D inline void cp_async_bulk_multicast([[maybe_unused]] u32 to, [[maybe_unused]] void const* from,
                                                [[maybe_unused]] u32 bytes, [[maybe_unused]] u32 mbarrier,
                                                [[maybe_unused]] u16 ctas) {
#if FOURSCALE_HAS_MULTICAST
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(mbarrier), "h"(ctas)
      : "memory");
#else
  multicast_needs_sm_90a_100f_103f_or_110f();
#endif
}

}  // namespace FOURSCALE_NAMESPACE::ptx

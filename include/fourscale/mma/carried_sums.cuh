// SPDX-License-Identifier: Apache-2.0
// Hands the accumulators of a tile that is split along K, through global memory, from the cluster that makes
// its first part to the one that makes the second part: see tile_parts.cuh. Each warp of the first adds to a
// word of its CTA (release); a thread of the second waits for that word (acquire).
#pragma once

#include "../ptx/memory_order.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// Where CTAs store their sums, and for each CTA a word that counts its warps which have stored. The words
/// are 0 when a kernel begins and when it ends.
struct carried_sums {
  float* sums = nullptr;  ///< [CTA][four sums of a thread][thread][sum]
  u32* there = nullptr;   ///< [CTA]

  static constexpr i64 bytes_of_cta(int threads, int sums_of_thread) {
    return i64{4} * threads * sums_of_thread;
  }

  /// Stores the sums of a whole warp for CTA `cta`, and counts the warp. `thread` is less than `Threads`.
  template <int Threads, int N>
  FOURSCALE_D void leave(int cta, int thread, float const (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N / 4; ++i)
      __stcg(fours<Threads, N>(cta, thread) + i * Threads,
             float4{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]});
    __syncwarp();  // all lanes have stored, so that the release covers their stores
    if (thread % 32 == 0) ptx::red_release_gpu_add(there + cta, 1);
    __syncwarp();
  }
  /// One thread: waits until all `Warps` of that CTA have stored, and resets its word. Threads that
  /// synchronize with this one afterwards may call take().
  template <int Warps>
  FOURSCALE_D void wait_for(int cta) const {
    while (ptx::ld_acquire_gpu(there + cta) != Warps) __nanosleep(100);
    there[cta] = 0;
  }
  /// Loads what the thread of this number in that CTA has stored.
  template <int Threads, int N>
  FOURSCALE_D void take(int cta, int thread, float (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N / 4; ++i) {
      const float4 four = __ldcg(fours<Threads, N>(cta, thread) + i * Threads);
      x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
  }

 private:
  /// Where a thread's first four sums lie; each next four are `Threads` places further.
  template <int Threads, int N>
  FOURSCALE_D float4* fours(int cta, int thread) const {
    static_assert(N % 4 == 0);
    return reinterpret_cast<float4*>(sums) + (i64{cta} * (N / 4) * Threads + thread);
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma

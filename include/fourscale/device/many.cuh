// SPDX-License-Identifier: Apache-2.0
// One launch for many small problems, such as those of the experts of an MoE layer: each CTA finds whose it
// is. One by one, kernels that do not fill a GPU wait for each other.
#pragma once

#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The arguments of a kernel for many problems, of which each takes some CTAs. A kernel has less than 32 KiB
/// of arguments.
template <class Arguments>
struct many_arguments {
  static constexpr u64 room = 31 << 10, each = sizeof(Arguments) + sizeof(u32);
  static constexpr int most = static_cast<int>(room / each < 64 ? room / each : 64);

  int count = 0;
  u32 end[most] = {};  ///< of the CTAs of each problem, and of those before it
  alignas(16) unsigned char arguments[most][sizeof(Arguments)];

  FOURSCALE_HD Arguments const& of(int i) const { return reinterpret_cast<Arguments const&>(arguments[i]); }
  /// One more: there must be room.
  void add(Arguments const& one, i64 ctas) {
    __builtin_memcpy(arguments[count], &one, sizeof(one));
    end[count] = (count == 0 ? 0 : end[count - 1]) + static_cast<u32>(ctas);
    ++count;
  }
  FOURSCALE_HD u32 ctas() const { return count == 0 ? 0 : end[count - 1]; }

  struct place {
    int problem;
    u32 cta;  ///< of the problem's own
  };
  /// Of this CTA.
  FOURSCALE_D place find() const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (blockIdx.x < end[middle])
        high = middle;
      else
        low = middle + 1;
    }
    return {low, low == 0 ? blockIdx.x : blockIdx.x - end[low - 1]};
  }
};

/// The arguments of this CTA in shared memory: to read them takes one instruction there, and no register for
/// where they are.
template <class Arguments>
struct shared_arguments {
  alignas(16) unsigned char bytes[sizeof(Arguments)];

  /// All threads. The CTA's number among those of its problem.
  FOURSCALE_D u32 take(many_arguments<Arguments> const& all) {
    static_assert(sizeof(Arguments) % 4 == 0 && alignof(Arguments) % 4 == 0);
    const auto at = all.find();
    u32 const* const from = reinterpret_cast<u32 const*>(&all.of(at.problem));
    for (u32 i = threadIdx.x; i < sizeof(Arguments) / 4; i += blockDim.x)
      reinterpret_cast<u32*>(bytes)[i] = from[i];
    __syncthreads();
    return at.cta;
  }
  FOURSCALE_D Arguments const& get() const { return reinterpret_cast<Arguments const&>(bytes); }
};

/// Launches a kernel for as many problems as are added, whenever there is no room for one more.
template <class Arguments>
struct many_launches {
  using all_arguments = many_arguments<Arguments>;
  void (*kernel)(const all_arguments);
  int threads;
  cudaStream_t stream;
  all_arguments waiting{};

  errc add(Arguments const& one, i64 ctas) {
    if (waiting.count == waiting.most || waiting.ctas() + ctas > 0x7fff'ffff)
      if (const errc e = run(); e != errc::ok) return e;
    waiting.add(one, ctas);
    return errc::ok;
  }
  /// Those that wait.
  errc run() {
    if (waiting.count == 0) return errc::ok;
    kernel<<<waiting.ctas(), static_cast<unsigned>(threads), 0, stream>>>(waiting);
    waiting.count = 0;
    return launched();
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

// SPDX-License-Identifier: Apache-2.0
// One launch for many small problems, such as those of the experts of an MoE layer. The arguments of all
// problems are arguments of the kernel, and each CTA finds the problem to which it belongs. Launched one by
// one, kernels that do not fill a GPU wait for each other.
#pragma once

#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The arguments of a kernel for many problems, each of which takes consecutive CTAs. All arguments of a
/// kernel together have less than 32 KiB.
template <class Arguments>
struct many_arguments {
  static constexpr u64 room = 31 << 10, each = sizeof(Arguments) + sizeof(u32);
  static constexpr int most = static_cast<int>(room / each < 64 ? room / each : 64);

  int count = 0;
  u32 end[most] = {};  ///< one past the last CTA of each problem
  alignas(16) unsigned char arguments[most][sizeof(Arguments)];

  FOURSCALE_HD Arguments const& of(int i) const { return reinterpret_cast<Arguments const&>(arguments[i]); }
  /// Adds a problem that takes `ctas` CTAs. There must be room: count < most.
  void add(Arguments const& one, i64 ctas) {
    __builtin_memcpy(arguments[count], &one, sizeof(one));
    end[count] = (count == 0 ? 0 : end[count - 1]) + static_cast<u32>(ctas);
    ++count;
  }
  FOURSCALE_HD u32 ctas() const { return count == 0 ? 0 : end[count - 1]; }

  struct place {
    int problem;
    u32 cta;  ///< its number among those of the problem
  };
  /// The place of this CTA.
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

/// The arguments of this CTA's problem in shared memory. To read them there takes one instruction, and no
/// register for their address.
template <class Arguments>
struct shared_arguments {
  alignas(16) unsigned char bytes[sizeof(Arguments)];

  /// Copies them, and returns the CTA's number among those of its problem. All threads call it.
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

/// Collects problems and launches the kernel for all of them: before one more when there is no room for it,
/// and in run().
template <class Arguments>
struct many_launches {
  using all_arguments = many_arguments<Arguments>;
  void (*kernel)(const all_arguments);
  int threads;
  cudaStream_t stream;
  all_arguments waiting{};

  /// True if the problems that wait must be launched before one more of `ctas` CTAs.
  bool is_full(i64 ctas) const {
    return waiting.count == waiting.most || waiting.ctas() + ctas > 0x7fff'ffff;
  }
  errc add(Arguments const& one, i64 ctas) {
    if (is_full(ctas))
      if (const errc e = run(); e != errc::ok) return e;
    waiting.add(one, ctas);
    return errc::ok;
  }
  /// Launches the kernel for the problems that wait. Call it after the last add().
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

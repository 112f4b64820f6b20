// SPDX-License-Identifier: Apache-2.0
// The end of a step under delayed scaling, on a stream: takes the next amax from the history, and rolls the
// history.
#pragma once

#include "../view/validate.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// One CTA, so that a barrier separates reads from writes: every value is read before another takes its
/// place.
template <int Threads>
FOURSCALE_KERNEL void __launch_bounds__(Threads) update_delayed_kernel(delayed_amax d) {
  __shared__ i32 largest;
  __shared__ float newest;
  if (threadIdx.x == 0) {
    largest = 0;
    newest = d.history[0];
  }
  __syncthreads();
  if (newest == 0.0f) return;
  for (i64 i = threadIdx.x; i < d.length; i += blockDim.x) atomicMax(&largest, amax_bits(d.history[i]));
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool all = d.rule == amax_of_history::largest;
    *d.amax = next_amax(all ? bit_cast<float>(largest) : newest, *d.amax);
  }
  for (i64 first = 0; first < d.length; first += blockDim.x) {  // rolls in order, a chunk at a time
    const i64 i = first + threadIdx.x, from = rolled_from(i, d.length);
    float value = 0.0f;
    if (i > 0 && i < d.length) value = from == 0 ? newest : d.history[from];
    __syncthreads();
    if (i < d.length) d.history[i] = value;
    __syncthreads();
  }
}

}  // namespace detail

/// As host::update, with history and amax in device memory. One kernel on the stream; never synchronises.
/// Errors: see validate().
inline errc update(delayed_amax const& d, cudaStream_t stream = nullptr) {
  if (const errc e = validate(d); e != errc::ok) return e;
  detail::update_delayed_kernel<1024><<<1, 1024, 0, stream>>>(d);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

// SPDX-License-Identifier: Apache-2.0
// What every launch shares: errors, grid size, and the loads and stores of one block by one thread.
#pragma once

#include <cuda_runtime_api.h>

#include "../view/validate.hpp"

namespace fourscale::device {

/// The runtime's nearest word for a broken rule. validate() with the same arguments says exactly which rule
/// it was.
constexpr cudaError_t to_cuda_error(errc e) {
  switch (e) {
    case errc::ok:
      return cudaSuccess;
    case errc::null_pointer:
      return cudaErrorInvalidDevicePointer;
    case errc::misaligned:
      return cudaErrorMisalignedAddress;
    case errc::bad_leading_dimension:
      return cudaErrorInvalidPitchValue;
    case errc::buffer_too_small:
      return cudaErrorMemoryValueTooLarge;
    default:
      return cudaErrorInvalidValue;
  }
}

namespace detail {

inline constexpr int cta_threads = 256;

/// CTAs for `items` threads' worth of work. Kernels loop over what does not fit in a grid.
constexpr unsigned grid_for(i64 items) {
  constexpr i64 most = 0x7fff'ffff;
  const i64 ctas = ceil_div<i64>(items, cta_threads);
  return static_cast<unsigned>(ctas < most ? ctas : most);
}

/// True if every row of m starts at a multiple of 16 bytes, so that blocks may be read or written in vectors.
template <class T>
bool rows_are_vectors(matrix_view<T> const& m) {
  return reinterpret_cast<u64>(m.data) % 16 == 0 && m.ld * static_cast<i64>(sizeof(T)) % 16 == 0;
}

/// Sixteen bytes, moved by one instruction.
struct alignas(16) vector16 {
  u32 words[4];
};

/// N consecutive values as floats.
template <int N, class T>
FOURSCALE_D void load_values(T const* from, bool vectors, float (&x)[N]) {
  static_assert(N * sizeof(T) % 16 == 0);
  if (vectors) {
    constexpr int each = 16 / static_cast<int>(sizeof(T));
    struct alignas(16) group {
      T values[each];
    };
    FOURSCALE_UNROLL
    for (int i = 0; i < N / each; ++i) {
      const group g = __builtin_bit_cast(group, reinterpret_cast<vector16 const*>(from)[i]);
      FOURSCALE_UNROLL
      for (int j = 0; j < each; ++j) x[i * each + j] = to_float(g.values[j]);
    }
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = to_float(from[i]);
  }
}

/// The codes of one block, in words of eight bytes where the address allows.
template <int Bytes>
FOURSCALE_D void store_codes(u8 const (&codes)[Bytes], u8* to) {
  if (reinterpret_cast<u64>(to) % 8 == 0) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Bytes / 8; ++i) {
      u64 word = 0;
      FOURSCALE_UNROLL
      for (int j = 0; j < 8; ++j) word |= u64{codes[8 * i + j]} << (8 * j);
      reinterpret_cast<u64*>(to)[i] = word;
    }
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < Bytes; ++i) to[i] = codes[i];
  }
}

/// The tensor scale that a kernel works under: of *amax where the caller keeps the amax on the device, else
/// `given`. One thread divides and the CTA shares the result.
template <class F>
FOURSCALE_D tensor_scale<F> shared_tensor_scale(float const* amax, tensor_scale<F> const& given) {
  if constexpr (!F::has_tensor_scale) {
    return given;
  } else {
    if (amax == nullptr) return given;
    __shared__ float parts[3];
    if (threadIdx.x == 0) {
      const tensor_scale<F> t(*amax);
      parts[0] = t.amax;
      parts[1] = t.encode;
      parts[2] = t.decode;
    }
    __syncthreads();
    tensor_scale<F> t;
    t.amax = parts[0];
    t.encode = parts[1];
    t.decode = parts[2];
    return t;
  }
}

}  // namespace detail
}  // namespace fourscale::device

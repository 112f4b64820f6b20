// SPDX-License-Identifier: Apache-2.0
// The number types of the CUDA toolkit. __half and __nv_bfloat16 may be elements of a matrix_view. to_cuda()
// and from_cuda() convert the library's types to and from these and __nv_fp4, __nv_fp6, __nv_fp8 and E8M0.
// The bits are the same on both sides, so nothing is rounded.
#pragma once

// The toolkit's headers do not compile silently under -Wextra.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include "../formats/block_formats.hpp"
#include "../formats/packed.hpp"
#include "../formats/real.hpp"

namespace FOURSCALE_NAMESPACE {

/// A matrix_view may hold the toolkit's 16-bit types directly. They convert as bf16 and fp16 do.
template <>
struct real_traits<__nv_bfloat16> {
  using same_bits = bf16;
  FOURSCALE_HD static float to_float(__nv_bfloat16 x) { return fourscale::to_float(bit_cast<bf16>(x)); }
  FOURSCALE_HD static __nv_bfloat16 from_float(float x) {
    return bit_cast<__nv_bfloat16>(fourscale::from_float<bf16>(x));
  }
};
template <>
struct real_traits<__half> {
  using same_bits = fp16;
  FOURSCALE_HD static float to_float(__half x) { return fourscale::to_float(bit_cast<fp16>(x)); }
  FOURSCALE_HD static __half from_float(float x) { return bit_cast<__half>(fourscale::from_float<fp16>(x)); }
};

namespace interop {

template <class F>
struct cuda_type;
template <>
struct cuda_type<bf16> {
  using type = __nv_bfloat16;
};
template <>
struct cuda_type<fp16> {
  using type = __half;
};
template <>
struct cuda_type<e2m1> {
  using type = __nv_fp4_e2m1;
};
template <>
struct cuda_type<e2m3> {
  using type = __nv_fp6_e2m3;
};
template <>
struct cuda_type<e3m2> {
  using type = __nv_fp6_e3m2;
};
template <>
struct cuda_type<e4m3> {
  using type = __nv_fp8_e4m3;
};
template <>
struct cuda_type<e5m2> {
  using type = __nv_fp8_e5m2;
};
template <>
struct cuda_type<e8m0> {
  using type = __nv_fp8_e8m0;
};
template <>
struct cuda_type<e2m1x2> {
  using type = __nv_fp4x2_e2m1;
};
template <>
struct cuda_type<e2m1x4> {
  using type = __nv_fp4x4_e2m1;
};
template <>
struct cuda_type<e4m3x2> {
  using type = __nv_fp8x2_e4m3;
};
template <>
struct cuda_type<e4m3x4> {
  using type = __nv_fp8x4_e4m3;
};
template <>
struct cuda_type<e5m2x2> {
  using type = __nv_fp8x2_e5m2;
};
template <>
struct cuda_type<e5m2x4> {
  using type = __nv_fp8x4_e5m2;
};

/// The toolkit's type for the library's type F: __nv_fp4_e2m1 for e2m1, __nv_fp8x4_e4m3 for e4m3x4, ...
template <class F>
using cuda_type_t = typename cuda_type<F>::type;

/// The same bits as the toolkit's type.
template <class F>
FOURSCALE_HD cuda_type_t<F> to_cuda(F value) {
  return bit_cast<cuda_type_t<F>>(value);
}

/// The same bits as the library's type F.
template <class F>
FOURSCALE_HD F from_cuda(cuda_type_t<F> value) {
  return bit_cast<F>(value);
}

}  // namespace interop
}  // namespace FOURSCALE_NAMESPACE

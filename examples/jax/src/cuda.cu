// SPDX-License-Identifier: Apache-2.0
// The handlers on a GPU.
#include <fourscale/device/dequantize.cuh>
#include <fourscale/device/ms_eden.cuh>
#include <fourscale/recipe/linear.cuh>

#include "buffers.hpp"
#include "key.hpp"

namespace fourscale_jax {

/// The words of philox<>{seed, stream} under a key in device memory, which each thread reads.
struct bits_in_memory {
  u32 const* key;
  u32 use;

  FOURSCALE_HD constexpr f4::prepared_philox<10> words() const {
    return f4::prepared_philox<10>({u64{key[1]} << 32 | key[0], stream_of(key[2], key[3], use)});
  }
  FOURSCALE_HD constexpr u32 operator()(f4::position where) const { return words()(where); }
  FOURSCALE_HD constexpr f4::philox_words of_sixteen(f4::position where) const {
    return words().of_sixteen(where);
  }
};

struct machine {
  cudaStream_t stream;

  bits_in_memory bits(u32 const* key, u32 use) const { return {key, use}; }

  template <class T>
  errc amax(matrix_view<T> const& x, float* to) const {
    return f4::device::amax(x, to, stream);
  }
  /// After a transform of 128 values of a row.
  template <class T>
  errc amax(matrix_view<T> const& x, f4::hadamard<128> const& t, float* to) const {
    return f4::device::amax<128>(x, t, to, stream);
  }
  template <class F, class T, class Transform>
  errc amax_both(matrix_view<T> const& x, Transform const& t, float* to, float* to_t) const {
    return f4::device::amax_both<F>(x, t, to, to_t, stream);
  }
  template <class... Arguments>
  errc quantize_both(Arguments const&... arguments) const {
    return f4::device::quantize_both(arguments..., stream);
  }
  template <class... Arguments>
  errc quantize(Arguments const&... arguments) const {
    return f4::device::quantize(arguments..., stream);
  }
  template <class Q, class Y>
  errc dequantize(Q const& q, Y const& y) const {
    return f4::device::dequantize(q, y, stream);
  }
  template <class A, class B, class D>
  errc gemm(A const& a, B const& b, D const& d, void* workspace, i64 bytes) const {
    return f4::device::gemm(a, b, d, {}, f4::accumulate::blackwell{}, {workspace, bytes}, stream);
  }
};

}  // namespace fourscale_jax

template <>
struct xla::ffi::CtxBinding<fourscale_jax::machine> {
  using Ctx = fourscale_jax::machine;
};
template <>
struct xla::ffi::CtxDecoding<fourscale_jax::machine> {
  using Type = fourscale_jax::machine;
  static std::optional<Type> Decode(XLA_FFI_Api const* api, XLA_FFI_InvokeContext* context,
                                    DiagnosticEngine& diagnostic) {
    const auto stream = CtxDecoding<PlatformStream<cudaStream_t>>::Decode(api, context, diagnostic);
    if (!stream) return std::nullopt;
    return Type{*stream};
  }
};

#include "handlers.hpp"

/// The workspace that gemm asks for.
extern "C" __attribute__((visibility("default"))) fourscale_jax::i64 fourscale_jax_gemm_bytes(
    fourscale_jax::i64 m, fourscale_jax::i64 n, fourscale_jax::i64 k) {
  return fourscale::device::gemm_workspace_bytes(m, n, k);
}

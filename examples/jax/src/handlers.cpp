// SPDX-License-Identifier: Apache-2.0
// The calls of calls.hpp as XLA FFI handlers. Compiled for each machine: with FOURSCALE_JAX_CUDA for a GPU,
// where XLA has a stream for each call.
#ifndef FOURSCALE_JAX_CUDA
#include <nanobind/nanobind.h>
#endif

#include "calls.hpp"
#include "xla/ffi/api/ffi.h"

namespace fourscale_jax {

namespace ffi = xla::ffi;

/// The stream of a call, which XLA passes on a GPU; null on a CPU. The specializations below decode it.
struct stream_of_call {
  void* stream;
};

}  // namespace fourscale_jax

template <>
struct xla::ffi::CtxBinding<fourscale_jax::stream_of_call> {
  using Ctx = fourscale_jax::stream_of_call;
};
template <>
struct xla::ffi::CtxDecoding<fourscale_jax::stream_of_call> {
  using Type = fourscale_jax::stream_of_call;
  template <class Context>  // whose name differs between versions
  static std::optional<Type> Decode([[maybe_unused]] XLA_FFI_Api const* api,
                                    [[maybe_unused]] Context* context,
                                    [[maybe_unused]] DiagnosticEngine& diagnostic) {
#ifdef FOURSCALE_JAX_CUDA
    const auto stream = CtxDecoding<PlatformStream<void*>>::Decode(api, context, diagnostic);
    if (!stream) return std::nullopt;
    return Type{*stream};
#else
    return Type{nullptr};
#endif
  }
};

namespace fourscale_jax {

/// The names of attributes in Python.
namespace attribute {
inline constexpr char recipe[] = "recipe", role[] = "role", columnwise[] = "columnwise", gemm[] = "gemm",
                      transposed[] = "transposed", format[] = "format", range[] = "range", at[] = "at",
                      format_b[] = "format_b", range_b[] = "range_b", at_b[] = "at_b";
}
using recipe_attr = ffi::Attr<i32, attribute::recipe>;
using role_attr = ffi::Attr<i32, attribute::role>;
using columnwise_attr = ffi::Attr<i32, attribute::columnwise>;
using transposed_attr = ffi::Attr<i32, attribute::transposed>;
using gemm_attr = ffi::Attr<i32, attribute::gemm>;
using format_attr = ffi::Attr<i32, attribute::format>;
using range_attr = ffi::Attr<float, attribute::range>;
using at_attr = ffi::Attr<i32, attribute::at>;
using format_b_attr = ffi::Attr<i32, attribute::format_b>;
using range_b_attr = ffi::Attr<float, attribute::range_b>;
using at_b_attr = ffi::Attr<i32, attribute::at_b>;

using in = ffi::AnyBuffer;
using out = ffi::Result<ffi::AnyBuffer>;

/// An XLA buffer as a tensor. What does not have one or two dimensions becomes 0 x 0, which every function
/// refuses.
inline tensor plain(in const& buffer) {
  const auto d = buffer.dimensions();
  i64 rows = 0, cols = 0;
  if (d.size() == 1) rows = 1, cols = d[0];
  if (d.size() == 2) rows = d[0], cols = d[1];
  const ffi::DataType t = buffer.element_type();
  const element type = t == ffi::U8     ? element::u8
                       : t == ffi::U32  ? element::u32
                       : t == ffi::F32  ? element::f32
                       : t == ffi::BF16 ? element::bf16
                                        : element::other;
  return {buffer.untyped_data(), rows, cols, type};
}
inline tensor plain(out& buffer) { return plain(*buffer); }
template <class T, char const* Name>
T plain(ffi::Attr<T, Name> attribute) {
  return *attribute;
}

inline ffi::Error to_error(errc e) {
  if (e == errc::ok) return ffi::Error::Success();
  const bool of_machine = e == errc::cuda_failed || e == errc::no_instruction;
  return {of_machine ? ffi::ErrorCode::kInternal : ffi::ErrorCode::kInvalidArgument,
          std::string("fourscale: ") + message(e)};
}

template <auto Call, class... Arguments>
ffi::Error call(stream_of_call s, Arguments... arguments) {
  return to_error(Call(s.stream, plain(arguments)...));
}

/// The function that XLA calls. XLA may record it in a CUDA graph.
template <auto Call, class... Arguments>
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) {
  static auto* const bound =
      ffi::Ffi::BindTo(call<Call, Arguments...>, {ffi::Traits::kCmdBufferCompatible}).release();
  return bound->Call(frame);
}

}  // namespace fourscale_jax

/// use(name, arguments...) for each call.
#define FOURSCALE_JAX_HANDLERS(use)                                                                          \
  use(amax, in, out, recipe_attr, role_attr, columnwise_attr);                                               \
  use(quantize_both, in, in, in, out, out, out, out, recipe_attr, role_attr);                                \
  use(quantize, in, in, in, out, out, recipe_attr, role_attr, columnwise_attr, transposed_attr);             \
  use(signs, in, out, gemm_attr);                                                                            \
  use(dequantize, in, in, in, out, format_attr, range_attr, at_attr);                                        \
  use(gemm, in, in, in, in, in, in, out, out, format_attr, range_attr, at_attr, format_b_attr, range_b_attr, \
      at_b_attr)

#ifdef FOURSCALE_JAX_CUDA
// The library for GPUs knows nothing of Python. Python finds handlers by their symbols: fourscale_jax_amax
// for fourscale_amax.
#define FOURSCALE_JAX_SYMBOL(name, ...)                                            \
  FOURSCALE_EXPORT XLA_FFI_Error* fourscale_jax_##name(XLA_FFI_CallFrame* frame) { \
    using namespace fourscale_jax;                                                 \
    return handler<fourscale_##name, __VA_ARGS__>(frame);                          \
  }
FOURSCALE_JAX_HANDLERS(FOURSCALE_JAX_SYMBOL)
#else
namespace fourscale_jax {
/// The handlers as capsules, by name: "amax" for fourscale_amax.
nanobind::dict handlers() {
  nanobind::dict all;
#define FOURSCALE_JAX_CAPSULE(name, ...) \
  all[#name] = nanobind::capsule(reinterpret_cast<void const*>(handler<fourscale_##name, __VA_ARGS__>))
  FOURSCALE_JAX_HANDLERS(FOURSCALE_JAX_CAPSULE);
  return all;
}
}  // namespace fourscale_jax
#endif

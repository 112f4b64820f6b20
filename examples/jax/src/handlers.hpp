// SPDX-License-Identifier: Apache-2.0
// The FFI handlers, one text for both machines. The file that includes this defines `machine` before: the
// functions of host/, or those of device/ on the stream that XLA hands it; machine::of() makes one for a
// call. A handler validates before it writes.
#pragma once

#include "buffers.hpp"
#include "copies.hpp"

template <>
struct xla::ffi::CtxBinding<fourscale_jax::machine> {
  using Ctx = fourscale_jax::machine;
};
template <>
struct xla::ffi::CtxDecoding<fourscale_jax::machine> {
  using Type = fourscale_jax::machine;
  template <class Context>  // whose name differs between versions
  static std::optional<Type> Decode(XLA_FFI_Api const* api, Context* context, DiagnosticEngine& diagnostic) {
    return Type::of(api, context, diagnostic);
  }
};

namespace fourscale_jax {

/// Attributes by their names in Python: the place in `presets`, a tensor_role, 0 or 1, a format_name, what an
/// amax is brought to, and which of several amaxes counts.
namespace attribute {
inline constexpr char recipe[] = "recipe", role[] = "role", columnwise[] = "columnwise", gemm[] = "gemm",
                      transposed[] = "transposed", format[] = "format", range[] = "range", at[] = "at",
                      range_b[] = "range_b", at_b[] = "at_b";
}
using recipe_attr = ffi::Attr<i32, attribute::recipe>;
using role_attr = ffi::Attr<i32, attribute::role>;
using columnwise_attr = ffi::Attr<i32, attribute::columnwise>;
using transposed_attr = ffi::Attr<i32, attribute::transposed>;
using gemm_attr = ffi::Attr<i32, attribute::gemm>;
using format_attr = ffi::Attr<i32, attribute::format>;
using range_attr = ffi::Attr<float, attribute::range>;
using at_attr = ffi::Attr<i32, attribute::at>;
using range_b_attr = ffi::Attr<float, attribute::range_b>;
using at_b_attr = ffi::Attr<i32, attribute::at_b>;

/// The amaxes of a tensor of a linear layer in 4 bits: of its rowwise copy, and of its columnwise copy if
/// that is transformed. Under other presets, that of a copy, after MS-EDEN's transform.
ffi::Error amax(machine m, values_in x, floats_out to, recipe_attr recipe, role_attr role,
                columnwise_attr columnwise) {
  return to_error(visit_copy(*recipe, *role, *columnwise != 0, [&]<class Copy>(Copy const& copy) {
    if (static_cast<int>(to->element_count()) != Copy::amax_count) return errc::shape_mismatch;
    return visit_values(x, [&](auto const& values) {
      float* const amaxes = to->typed_data();
      if constexpr (Copy::amax_count == 2)
        return m.amax_both<typename Copy::format>(values, Copy::transform(), amaxes, amaxes + 1);
      else if constexpr (f4::same_type<Copy, ms_eden_copy>)
        return m.amax(values, copy.quantizer({}).transform, amaxes);
      else
        return m.amax(values, amaxes);
    });
  }));
}

/// The view that a copy is quantized into.
template <class Copy>
auto view_for(Copy const& copy, bytes_out& codes, bytes_out& scales, i64 rows, i64 cols,
              floats_in const& amaxes) {
  return view_of(codes, scales, rows, cols, amax_at(amaxes, Copy::amax_at, range_of(copy)));
}

/// Both copies of a matrix for a linear layer in 4 bits: blocks along its rows, and along its columns.
ffi::Error quantize_both(machine m, values_in x, floats_in amaxes, words_in key, bytes_out codes,
                         bytes_out scales, bytes_out codes_t, bytes_out scales_t, recipe_attr recipe,
                         role_attr role) {
  if (key.element_count() != keyed_bits::length) return to_error(errc::shape_mismatch);
  const keyed_bits bits{key.typed_data(), 0, false}, bits_t{key.typed_data(), 0, true};
  return to_error(visit_operand(*recipe, *role, [&]<class Operand>(Operand) {
    const linear_copy<Operand, false> rowwise;
    const linear_copy<Operand, true> columnwise;
    return visit_values(x, [&](auto const& values) {
      return m.quantize_both(values, view_for(rowwise, codes, scales, values.rows, values.cols, amaxes),
                             view_for(columnwise, codes_t, scales_t, values.cols, values.rows, amaxes),
                             rowwise.quantizer(bits), columnwise.quantizer(bits_t),
                             typename linear_copy<Operand, false>::blocks{});
    });
  }));
}

/// One copy of a matrix, or of its transpose.
ffi::Error quantize(machine m, values_in x, floats_in amaxes, words_in key, bytes_out codes, bytes_out scales,
                    recipe_attr recipe, role_attr role, columnwise_attr columnwise,
                    transposed_attr transposed) {
  if (key.element_count() != keyed_bits::length) return to_error(errc::shape_mismatch);
  const keyed_bits bits{key.typed_data(), 0, *transposed != 0};
  return to_error(visit_copy(*recipe, *role, *columnwise != 0, [&]<class Copy>(Copy const& copy) {
    const auto of = [&](auto const& values) {
      const auto to = view_for(copy, codes, scales, values.rows, values.cols, amaxes);
      if constexpr (f4::same_type<Copy, ms_eden_copy>)
        return m.quantize(values, to, copy.quantizer(bits));
      else
        return m.quantize(values, to, copy.quantizer(bits), typename Copy::blocks{});
    };
    return visit_values(
        x, [&](auto const& values) { return *transposed != 0 ? of(f4::transposed(values)) : of(values); });
  }));
}

/// The 128 signs of a GEMM, 1 or -1.
ffi::Error signs(machine m, words_in key, floats_out to, gemm_attr which) {
  if (key.element_count() != keyed_bits::length || to->element_count() != 128)
    return to_error(errc::shape_mismatch);
  return to_error(m.signs(key.typed_data(), static_cast<u32>(*which), to->typed_data()));
}

/// The values of a quantized matrix; under tensor scale 1, if `at` is -1.
ffi::Error dequantize(machine m, bytes_in codes, bytes_in scales, floats_in amaxes, values_out y,
                      format_attr format, range_attr range, at_attr at) {
  return to_error(visit_format(static_cast<f4::format_name>(*format), errc::bad_recipe, [&]<class F>(F) {
    const auto q = view_of(codes, scales, amax_at<F>(amaxes, *at, with_largest<F>(*range)));
    return visit_output(y, [&](auto const& values) { return m.dequantize(q, values); });
  }));
}

/// D = A * B^T with Blackwell's bits, in a workspace of fourscale_jax_gemm_bytes(); NVFP4 or MXFP4.
ffi::Error gemm(machine m, bytes_in codes_a, bytes_in scales_a, floats_in amaxes_a, bytes_in codes_b,
                bytes_in scales_b, floats_in amaxes_b, values_out d, bytes_out workspace, format_attr format,
                range_attr range, at_attr at, range_b_attr range_b, at_b_attr at_b) {
  const auto multiply = [&]<class F>(F) {
    const auto a = view_of(codes_a, scales_a, amax_at<F>(amaxes_a, *at, with_largest<F>(*range))),
               b = view_of(codes_b, scales_b, amax_at<F>(amaxes_b, *at_b, with_largest<F>(*range_b)));
    return visit_output(d, [&](auto const& values) {
      return m.gemm(a, b, values, workspace->typed_data(), static_cast<i64>(workspace->element_count()));
    });
  };
  if (*format == static_cast<i32>(f4::format_name::nvfp4)) return to_error(multiply(f4::nvfp4{}));
  if (*format == static_cast<i32>(f4::format_name::mxfp4)) return to_error(multiply(f4::mxfp4{}));
  return to_error(errc::bad_recipe);
}

}  // namespace fourscale_jax

// The symbols that Python registers. Handlers neither synchronize nor read device memory, so that XLA may
// record them in a CUDA graph.
#define FOURSCALE_JAX_SYMBOL(name)                                                                      \
  extern "C" __attribute__((visibility("default")))                                                     \
  XLA_FFI_Error* fourscale_jax_##name(XLA_FFI_CallFrame* frame) {                                       \
    static auto* const handler =                                                                        \
        xla::ffi::Ffi::BindTo(fourscale_jax::name, {xla::ffi::Traits::kCmdBufferCompatible}).release(); \
    return handler->Call(frame);                                                                        \
  }
FOURSCALE_JAX_SYMBOL(amax)
FOURSCALE_JAX_SYMBOL(quantize_both)
FOURSCALE_JAX_SYMBOL(quantize)
FOURSCALE_JAX_SYMBOL(signs)
FOURSCALE_JAX_SYMBOL(dequantize)
FOURSCALE_JAX_SYMBOL(gemm)

// SPDX-License-Identifier: Apache-2.0
// The FFI handlers, one text for both machines. The file that includes this defines `machine` before: the
// functions of host/, or those of device/ on the stream that XLA hands it. A handler validates before it
// writes.
#pragma once

#include "buffers.hpp"
#include "key.hpp"

namespace fourscale_jax {

/// Attributes by their names in Python: the place in `presets`, a tensor_role, 0 or 1, a format_name, what an
/// amax is brought to, and which of several amaxes counts.
namespace attribute {
inline constexpr char recipe[] = "recipe", role[] = "role", columnwise[] = "columnwise", format[] = "format",
                      range[] = "range", at[] = "at", range_b[] = "range_b", at_b[] = "at_b";
}
using recipe_attr = ffi::Attr<i32, attribute::recipe>;
using role_attr = ffi::Attr<i32, attribute::role>;
using columnwise_attr = ffi::Attr<i32, attribute::columnwise>;
using format_attr = ffi::Attr<i32, attribute::format>;
using range_attr = ffi::Attr<float, attribute::range>;
using at_attr = ffi::Attr<i32, attribute::at>;
using range_b_attr = ffi::Attr<float, attribute::range_b>;
using at_b_attr = ffi::Attr<i32, attribute::at_b>;

/// The amaxes of a tensor of a linear layer: of its rowwise copy, and of its columnwise copy if that is
/// transformed.
ffi::Error amax(machine m, values_in x, floats_out to, recipe_attr recipe, role_attr role) {
  return to_error(visit_operand(*recipe, *role, [&]<class Operand>(Operand) {
    if (static_cast<int>(to->element_count()) != Operand::amax_count) return errc::shape_mismatch;
    return visit_values(x, [&](auto const& values) {
      float* const amaxes = to->typed_data();
      if constexpr (Operand::amax_count == 2)
        return m.amax_both<typename Operand::format>(
            values, f4::quantizer_of<Operand::of_columnwise>({}).transform, amaxes, amaxes + 1);
      else
        return m.amax(values, amaxes);
    });
  }));
}

/// What one copy of a tensor is quantized by, and under which amax.
template <class Operand, bool Columnwise>
struct copy_of {
  static constexpr f4::operand_recipe recipe = Columnwise ? Operand::of_columnwise : Operand::of_rowwise;
  using format = typename Operand::format;

  static auto quantizer(machine m, words_in const& key) {
    return quantizer_drawing<recipe>(m.bits(key.typed_data(), use_of(Operand::role, Columnwise)));
  }
  static tensor_amax<format> amax(floats_in const& amaxes) {
    const i32 at = Columnwise && Operand::amax_count == 2 ? 1 : 0;
    return {amax_at<format>(amaxes, at, 0.0f), f4::quantizer_of<recipe>({})};
  }
};

/// Both copies of a matrix: blocks along its rows, and along its columns.
ffi::Error quantize_both(machine m, values_in x, floats_in amaxes, words_in key, bytes_out codes,
                         bytes_out scales, bytes_out codes_t, bytes_out scales_t, recipe_attr recipe,
                         role_attr role) {
  if (key.element_count() != 4) return to_error(errc::shape_mismatch);
  return to_error(visit_operand(*recipe, *role, [&]<class Operand>(Operand) {
    using rowwise = copy_of<Operand, false>;
    using columnwise = copy_of<Operand, true>;
    return visit_values(x, [&](auto const& values) {
      return m.quantize_both(values, view_of(codes, scales, values.rows, values.cols, rowwise::amax(amaxes)),
                             view_of(codes_t, scales_t, values.cols, values.rows, columnwise::amax(amaxes)),
                             rowwise::quantizer(m, key), columnwise::quantizer(m, key),
                             f4::blocks_of<Operand::of_rowwise>());
    });
  }));
}

/// One of them.
ffi::Error quantize(machine m, values_in x, floats_in amaxes, words_in key, bytes_out codes, bytes_out scales,
                    recipe_attr recipe, role_attr role, columnwise_attr columnwise) {
  if (key.element_count() != 4) return to_error(errc::shape_mismatch);
  return to_error(visit_operand(*recipe, *role, [&]<class Operand>(Operand) {
    const auto by = [&]<class Copy>(Copy, auto const& values) {
      return m.quantize(values, view_of(codes, scales, values.rows, values.cols, Copy::amax(amaxes)),
                        Copy::quantizer(m, key), f4::blocks_of<Copy::recipe>());
    };
    return visit_values(x, [&](auto const& values) {
      return *columnwise != 0 ? by(copy_of<Operand, true>{}, f4::transposed(values))
                              : by(copy_of<Operand, false>{}, values);
    });
  }));
}

/// v(F{}) for a format that matrices come in here.
template <class Visitor>
errc visit_format(i32 format, Visitor const& v) {
  if (format == static_cast<i32>(f4::format_name::nvfp4)) return v(f4::nvfp4{});
  if (format == static_cast<i32>(f4::format_name::mxfp4)) return v(f4::mxfp4{});
  return errc::bad_recipe;
}

/// The values of a quantized matrix.
ffi::Error dequantize(machine m, bytes_in codes, bytes_in scales, floats_in amaxes, values_out y,
                      format_attr format, range_attr range, at_attr at) {
  return to_error(visit_format(*format, [&]<class F>(F) {
    const auto q = view_of(codes, scales, amax_at<F>(amaxes, *at, *range));
    return visit_output(y, [&](auto const& values) { return m.dequantize(q, values); });
  }));
}

/// D = A * B^T with Blackwell's bits, in a workspace of workspace_bytes().
ffi::Error gemm(machine m, bytes_in codes_a, bytes_in scales_a, floats_in amaxes_a, bytes_in codes_b,
                bytes_in scales_b, floats_in amaxes_b, values_out d, bytes_out workspace, format_attr format,
                range_attr range, at_attr at, range_b_attr range_b, at_b_attr at_b) {
  return to_error(visit_format(*format, [&]<class F>(F) {
    const auto a = view_of(codes_a, scales_a, amax_at<F>(amaxes_a, *at, *range)),
               b = view_of(codes_b, scales_b, amax_at<F>(amaxes_b, *at_b, *range_b));
    return visit_output(d, [&](auto const& values) {
      return m.gemm(a, b, values, workspace->typed_data(), static_cast<i64>(workspace->element_count()));
    });
  }));
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
FOURSCALE_JAX_SYMBOL(dequantize)
FOURSCALE_JAX_SYMBOL(gemm)

// SPDX-License-Identifier: Apache-2.0
// The functions of calls.hpp, one text for both machines. The file that includes this defines `machine`
// before: the functions of host/, or those of device/ on a stream.
#pragma once

#include "buffers.hpp"
#include "copies.hpp"

namespace fourscale_jax {

errc fourscale_amax(void* stream, tensor x, tensor to, i32 recipe, i32 role, i32 columnwise) {
  const machine m(stream);
  return visit_copy(recipe, role, columnwise != 0, [&]<class Copy>(Copy const& copy) {
    if (to.count() != Copy::amax_count) return errc::shape_mismatch;
    return visit_values(x, [&](auto const& values) {
      float* const amaxes = data_of<float>(to);
      if constexpr (Copy::amax_count == 2)
        return m.template amax_both<typename Copy::format>(values, Copy::transform(), amaxes,
                                                           amaxes ? amaxes + 1 : nullptr);
      else if constexpr (f4::same_type<Copy, ms_eden_copy>)
        return m.amax(values, copy.quantizer({}).transform, amaxes);
      else
        return m.amax(values, amaxes);
    });
  });
}

/// The view that a copy is quantized into.
template <class Copy>
auto view_for(Copy const& copy, tensor const& codes, tensor const& scales, i64 rows, i64 cols,
              tensor const& amaxes) {
  return view_of(codes, scales, rows, cols, amax_at(amaxes, Copy::amax_at, range_of(copy)));
}

/// The words of a key; null if they are not as many as that.
inline u32 const* words_of(tensor const& key) {
  return key.count() == keyed_bits::length ? data_of<u32>(key) : nullptr;
}

errc fourscale_quantize_both(void* stream, tensor x, tensor amaxes, tensor key, tensor codes, tensor scales,
                             tensor codes_t, tensor scales_t, i32 recipe, i32 role) {
  if (!words_of(key)) return errc::shape_mismatch;
  const machine m(stream);
  const keyed_bits bits{words_of(key), 0, false}, bits_t{words_of(key), 0, true};
  return visit_operand(recipe, role, [&]<class Operand>(Operand) {
    const linear_copy<Operand, false> rowwise;
    const linear_copy<Operand, true> columnwise;
    return visit_values(x, [&](auto const& values) {
      return m.quantize_both(values, view_for(rowwise, codes, scales, values.rows, values.cols, amaxes),
                             view_for(columnwise, codes_t, scales_t, values.cols, values.rows, amaxes),
                             rowwise.quantizer(bits), columnwise.quantizer(bits_t),
                             typename linear_copy<Operand, false>::blocks{});
    });
  });
}

errc fourscale_quantize(void* stream, tensor x, tensor amaxes, tensor key, tensor codes, tensor scales,
                        i32 recipe, i32 role, i32 columnwise, i32 transposed) {
  if (!words_of(key)) return errc::shape_mismatch;
  const machine m(stream);
  const keyed_bits bits{words_of(key), 0, transposed != 0};
  return visit_copy(recipe, role, columnwise != 0, [&]<class Copy>(Copy const& copy) {
    const auto of = [&](auto const& values) {
      const auto to = view_for(copy, codes, scales, values.rows, values.cols, amaxes);
      if constexpr (f4::same_type<Copy, ms_eden_copy>)
        return m.quantize(values, to, copy.quantizer(bits));
      else
        return m.quantize(values, to, copy.quantizer(bits), typename Copy::blocks{});
    };
    return visit_values(
        x, [&](auto const& values) { return transposed != 0 ? of(f4::transposed(values)) : of(values); });
  });
}

errc fourscale_signs(void* stream, tensor key, tensor to, i32 gemm) {
  if (!words_of(key) || to.count() != 128) return errc::shape_mismatch;
  return machine(stream).signs(words_of(key), static_cast<u32>(gemm), data_of<float>(to));
}

errc fourscale_dequantize(void* stream, tensor codes, tensor scales, tensor amaxes, tensor y, i32 format,
                          float range, i32 at) {
  const machine m(stream);
  return visit_format(static_cast<f4::format_name>(format), errc::bad_recipe, [&]<class F>(F) {
    const auto q = view_of(codes, scales, amax_at<F>(amaxes, at, with_largest<F>(range)));
    return visit_output(y, [&](auto const& values) { return m.dequantize(q, values); });
  });
}

/// The formats that meet in a GEMM.
template <class F>
inline constexpr bool is_fp8_per_tensor = f4::same_type<F, f4::fp8_e4m3> || f4::same_type<F, f4::fp8_e5m2>;
template <class F, class G>
inline constexpr bool multiplies = (is_fp8_per_tensor<F> && is_fp8_per_tensor<G>) ||
                                   (f4::same_type<F, G> &&
                                    (f4::same_type<F, f4::nvfp4> || f4::same_type<F, f4::mxfp4> ||
                                     f4::same_type<F, f4::fp8_block_e4m3>));

errc fourscale_gemm(void* stream, tensor codes_a, tensor scales_a, tensor amaxes_a, tensor codes_b,
                    tensor scales_b, tensor amaxes_b, tensor d, tensor workspace, i32 format, float range,
                    i32 at, i32 format_b, float range_b, i32 at_b) {
  const machine m(stream);
  const auto multiply = [&]<class F, class G>(F, G) {
    if constexpr (multiplies<F, G>) {
      const auto a = view_of(codes_a, scales_a, amax_at<F>(amaxes_a, at, with_largest<F>(range)));
      const auto b = view_of(codes_b, scales_b, amax_at<G>(amaxes_b, at_b, with_largest<G>(range_b)));
      return visit_output(
          d, [&](auto const& values) { return m.gemm(a, b, values, workspace.data, workspace.count()); });
    }
    return errc::bad_recipe;
  };
  return visit_format(static_cast<f4::format_name>(format), errc::bad_recipe, [&]<class F>(F of_a) {
    return visit_format(static_cast<f4::format_name>(format_b), errc::bad_recipe,
                        [&]<class G>(G of_b) { return multiply(of_a, of_b); });
  });
}

}  // namespace fourscale_jax

// SPDX-License-Identifier: Apache-2.0
// XLA's buffers as the library's views.
#pragma once

#include "recipes.hpp"
#include "xla/ffi/api/ffi.h"

namespace fourscale_jax {

namespace ffi = xla::ffi;
using f4::block_scaled_view, f4::matrix_view, f4::tensor_amax;

using bytes_in = ffi::Buffer<ffi::U8>;
using bytes_out = ffi::ResultBuffer<ffi::U8>;
using floats_in = ffi::Buffer<ffi::F32>;
using floats_out = ffi::ResultBuffer<ffi::F32>;
using words_in = ffi::Buffer<ffi::U32>;
using values_in = ffi::AnyBuffer;
using values_out = ffi::Result<ffi::AnyBuffer>;

inline ffi::Error to_error(errc e) {
  if (e == errc::ok) return ffi::Error::Success();
  const bool of_machine = e == errc::cuda_failed || e == errc::no_instruction;
  return {of_machine ? ffi::ErrorCode::kInternal : ffi::ErrorCode::kInvalidArgument,
          std::string("fourscale: ") + message(e)};
}

/// Rows and columns; 0 x 0, which every function refuses, of what is no matrix.
struct matrix_shape {
  i64 rows = 0, cols = 0;
  explicit matrix_shape(ffi::AnyBuffer::Dimensions d) {
    if (d.size() == 2) rows = d[0], cols = d[1];
  }
};

/// v(matrix_view<T const>) for bf16 or float; bad_recipe for other types.
template <class Visitor>
errc visit_values(values_in const& x, Visitor const& v) {
  const matrix_shape s(x.dimensions());
  void const* const data = x.untyped_data();
  if (x.element_type() == ffi::BF16)
    return v(matrix_view<f4::bf16 const>{static_cast<f4::bf16 const*>(data), s.rows, s.cols});
  if (x.element_type() == ffi::F32)
    return v(matrix_view<float const>{static_cast<float const*>(data), s.rows, s.cols});
  return errc::bad_recipe;
}
/// The same for an output.
template <class Visitor>
errc visit_output(values_out& y, Visitor const& v) {
  const matrix_shape s(y->dimensions());
  void* const data = y->untyped_data();
  if (y->element_type() == ffi::BF16)
    return v(matrix_view<f4::bf16>{static_cast<f4::bf16*>(data), s.rows, s.cols});
  if (y->element_type() == ffi::F32) return v(matrix_view<float>{static_cast<float*>(data), s.rows, s.cols});
  return errc::bad_recipe;
}

/// A matrix of rows x cols that is quantized into these buffers.
template <class F>
block_scaled_view<F> view_of(bytes_out& codes, bytes_out& scales, i64 rows, i64 cols,
                             tensor_amax<F> const& amax) {
  block_scaled_view<F> q(codes->typed_data(), scales->typed_data(), rows, cols, amax);
  q.code_capacity = static_cast<i64>(codes->element_count());
  q.scale_capacity = static_cast<i64>(scales->element_count());
  return q;
}
/// One that was: its shape is that of its codes.
template <class F>
block_scaled_view<F, f4::linear, u8 const> view_of(bytes_in const& codes, bytes_in const& scales,
                                                   tensor_amax<F> const& amax) {
  const matrix_shape s(codes.dimensions());
  block_scaled_view<F, f4::linear, u8 const> q(codes.typed_data(), scales.typed_data(), s.rows,
                                               s.cols * 8 / F::element::width, amax);
  q.code_capacity = static_cast<i64>(codes.element_count());
  q.scale_capacity = static_cast<i64>(scales.element_count());
  return q;
}

/// The range of a format whose largest value is given; that of the format itself for 0.
template <class F>
f4::tensor_range<F> with_largest(float largest) {
  f4::tensor_range<F> range{};
  if constexpr (F::has_tensor_scale)
    if (largest != 0.0f) range.largest = largest;
  return range;
}

/// The amax at an index, or tensor scale 1 for -1. An index that is too large gives none, which every
/// function refuses.
template <class F>
tensor_amax<F> amax_at(floats_in const& amaxes, i32 at, f4::tensor_range<F> const& range) {
  if (at == -1) return {f4::unit_scale, range};
  if (at < 0 || at >= static_cast<i64>(amaxes.element_count())) return {f4::amax_reference{}, range};
  return {f4::amax_in(amaxes.typed_data() + at), range};
}

}  // namespace fourscale_jax

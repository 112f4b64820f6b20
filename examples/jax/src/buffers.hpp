// SPDX-License-Identifier: Apache-2.0
// The views of the library on the plain memory of calls.hpp.
#pragma once

#include "calls.hpp"
#include "key.hpp"

namespace fourscale_jax {

using f4::block_scaled_view, f4::matrix_view, f4::tensor_amax;

/// The data of t as T. Null if t has another type; every function of the library refuses null.
template <class T>
T* data_of(tensor const& t) {
  constexpr element type = f4::same_type<T, u8>      ? element::u8
                           : f4::same_type<T, u32>   ? element::u32
                           : f4::same_type<T, float> ? element::f32
                                                     : element::bf16;
  return t.type == type ? static_cast<T*>(t.data) : nullptr;
}

/// The words of a key; null if there are not keyed_bits::length of them.
inline u32 const* words_of(tensor const& key) {
  return key.count() == keyed_bits::length ? data_of<u32>(key) : nullptr;
}

/// Calls v(matrix_view<T>) for T = bf16 or float; bad_recipe for other types.
template <class Visitor>
errc visit_output(tensor const& t, Visitor const& v) {
  if (t.type == element::bf16) return v(matrix_view<f4::bf16>{data_of<f4::bf16>(t), t.rows, t.cols});
  if (t.type == element::f32) return v(matrix_view<float>{data_of<float>(t), t.rows, t.cols});
  return errc::bad_recipe;
}
/// The same for an input, matrix_view<T const>.
template <class Visitor>
errc visit_values(tensor const& t, Visitor const& v) {
  return visit_output(t, [&]<class T>(matrix_view<T> const& x) { return v(matrix_view<T const>(x)); });
}

/// The view for quantizing a matrix of rows x cols into these buffers.
template <class F>
block_scaled_view<F> view_of(tensor const& codes, tensor const& scales, i64 rows, i64 cols,
                             tensor_amax<F> const& amax) {
  block_scaled_view<F> q(data_of<u8>(codes), data_of<u8>(scales), rows, cols, amax);
  q.code_capacity = codes.count();
  q.scale_capacity = scales.count();
  return q;
}
/// The view of a matrix that is quantized already. Its shape follows from that of its codes.
template <class F>
block_scaled_view<F, f4::linear, u8 const> view_of(tensor const& codes, tensor const& scales,
                                                   tensor_amax<F> const& amax) {
  return view_of(codes, scales, codes.rows, codes.cols * 8 / F::element::width, amax);
}

/// The tensor range of F that brings an amax to `largest`; for 0, that of the format itself.
template <class F>
f4::tensor_range<F> with_largest(float largest) {
  f4::tensor_range<F> range{};
  if constexpr (F::has_tensor_scale)
    if (largest != 0.0f) range.largest = largest;
  return range;
}

/// The amax at index `at`, or tensor scale 1 for -1. For an index out of range, it has no address, which
/// every function refuses.
template <class F>
tensor_amax<F> amax_at(tensor const& amaxes, i32 at, f4::tensor_range<F> const& range) {
  float const* const all = data_of<float>(amaxes);
  if (at == -1) return {f4::unit_scale, range};
  if (!all || at < 0 || at >= amaxes.count()) return {f4::amax_reference{}, range};
  return {f4::amax_in(all + at), range};
}

}  // namespace fourscale_jax

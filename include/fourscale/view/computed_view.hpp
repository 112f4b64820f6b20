// SPDX-License-Identifier: Apache-2.0
// A matrix that is never in memory: its elements are computed by a function of row and column.
#pragma once

#include "validate.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {
template <class T>
FOURSCALE_HD T const& some();  // never called
}

/// A matrix of the values f(row, column), or its transpose. Values are computed as they are read, and more
/// than once, so the function must give the same value each time. The library cannot check whether memory
/// that the function reads overlaps an output.
template <class Function, bool Transposed = false>
struct computed_view {
  using value_type = decltype(detail::some<Function>()(i64{}, i64{}));
  static constexpr bool is_transposed = Transposed;

  Function f;
  i64 rows = 0, cols = 0;

  FOURSCALE_HD constexpr value_type at(i64 r, i64 c) const { return Transposed ? f(c, r) : f(r, c); }
};

/// The matrix of f(row, column), where f is a trivially copyable functor that returns bf16, fp16 or float.
/// For functions of device/, its call operator must be callable on the device.
template <class Function>
FOURSCALE_HD constexpr computed_view<Function> computed(i64 rows, i64 cols, Function const& f) {
  return {f, rows, cols};
}

template <class Function, bool Transposed>
FOURSCALE_HD constexpr computed_view<Function, !Transposed> transposed(
    computed_view<Function, Transposed> const& m) {
  return {m.f, m.cols, m.rows};
}

template <class Function, bool Transposed>
FOURSCALE_H errc validate(computed_view<Function, Transposed> const& m) {
  return detail::check_shape(m.rows, m.cols);
}

namespace detail {
template <class Function, bool Transposed>
FOURSCALE_H bool overlaps(computed_view<Function, Transposed> const&, byte_range) {
  return false;
}
}  // namespace detail

}  // namespace FOURSCALE_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// A non-owning view of a matrix (pointer, rows, columns, leading dimension), and of its transpose.
#pragma once

#include "../formats/real.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {
template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<T const> {
  using type = T;
};
/// Anything with data() and size(): std::vector, std::span, std::array.
template <class C, class T>
concept container_of = requires(C& c, T*& p) {
  p = c.data();
  c.size();
};
}  // namespace detail

/// A row-major matrix of T: float, bf16, fp16 or any `real` type, const for an input. `capacity` is the
/// number of elements behind `data`, or -1 when only the caller knows.
template <class T>
struct matrix_view {
  using value_type = typename detail::remove_const<T>::type;
  static constexpr bool is_transposed = false;

  T* data = nullptr;
  i64 rows = 0, cols = 0, ld = 0;
  i64 capacity = -1;

  FOURSCALE_HD constexpr matrix_view() {}
  /// `leading` is the number of elements from one row to the next.
  FOURSCALE_HD constexpr matrix_view(T* p, i64 r, i64 c, i64 leading)
      : data(p), rows(r), cols(c), ld(leading) {}
  FOURSCALE_HD constexpr matrix_view(T* p, i64 r, i64 c) : matrix_view(p, r, c, c) {}
  /// From a container. validate() then checks its size.
  template <detail::container_of<T> C>
  FOURSCALE_H constexpr matrix_view(C& c, i64 r, i64 n, i64 leading) : matrix_view(c.data(), r, n, leading) {
    capacity = static_cast<i64>(c.size());
  }
  template <detail::container_of<T> C>
  FOURSCALE_H constexpr matrix_view(C& c, i64 r, i64 n) : matrix_view(c, r, n, n) {}
  /// A view of constants from a view of variables.
  template <class U>
  requires same_type<T, U const> FOURSCALE_HD constexpr matrix_view(matrix_view<U> const& m)
      : data(m.data), rows(m.rows), cols(m.cols), ld(m.ld), capacity(m.capacity) {}

  FOURSCALE_HD constexpr T& at(i64 r, i64 c) const { return data[r * ld + c]; }
  /// Elements from the first to the last, gaps between rows included.
  FOURSCALE_HD constexpr i64 extent() const { return rows > 0 ? (rows - 1) * ld + cols : 0; }
};

/// The transpose of a matrix_view, without moving anything: element (r, c) is base(c, r). Quantizing it gives
/// the columnwise copy, whose blocks run along the rows of the base.
template <class T>
struct transposed_view {
  using value_type = typename matrix_view<T>::value_type;
  static constexpr bool is_transposed = true;

  matrix_view<T> base;
  i64 rows = 0, cols = 0;

  FOURSCALE_HD constexpr T& at(i64 r, i64 c) const { return base.at(c, r); }
};

/// The transpose of m as a view.
template <class T>
FOURSCALE_HD constexpr transposed_view<T> transposed(matrix_view<T> m) {
  return {m, m.cols, m.rows};
}

/// A view that can be read as a matrix, such as matrix_view and transposed_view.
template <class M>
concept matrix_like = real<typename M::value_type> && requires(M m) {
  m.rows, m.cols, m.at(0, 0);
  M::is_transposed;
};

}  // namespace FOURSCALE_NAMESPACE

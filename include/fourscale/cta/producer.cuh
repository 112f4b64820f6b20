// SPDX-License-Identifier: Apache-2.0
// Producers: where the values of a block come from, memory or arithmetic.
//
// A producer is an argument of a kernel. It has
//   rows, cols       the size of the matrix that it stands for
//   block_type       cta::values<T, N>, a type; N is the block size of the format
//   load(place)      gives the values of a block to the thread that calls it. It may be called again for the
//                    same block, and must then give the same values
//   start(place)     optional: starts the loads of a block. Its result has a member arrived(), which gives
//                    the values
#pragma once

#include "../view/dequantized_view.hpp"
#include "walk.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// Recognises a producer by its members; its functions are not checked.
template <class P>
concept producer = requires(P p) {
  typename P::block_type;
  p.rows, p.cols;
};

/// How the rows of a matrix lie in memory: aligned to 16 bytes and without gaps between them; aligned to 16
/// bytes; or anywhere.
enum class access : u8 { contiguous, vectors, anywhere };

/// The producer of a matrix in memory, whose values have two or four bytes.
template <class T, int N, access Access>
struct matrix_producer {
  using block_type = values<T, N>;
  T const* data;
  i64 rows, cols, ld;

  FOURSCALE_D block_type load(place const& at) const {
    if constexpr (Access == access::contiguous)
      return block_type::load(data + at.index * N);
    else if constexpr (Access == access::vectors)
      return block_type::load(data + at.row * ld + at.block * N);
    else
      return start(at).arrived();
  }
  /// Loads in two steps, so that several loads may be in flight.
  FOURSCALE_D shifted_values<T, N> start(place const& at) const requires(Access == access::anywhere) {
    return {data + at.row * ld + at.block * N, data + (rows - 1) * ld + cols};
  }
};

namespace detail {
/// The type in which a block keeps values of type T: T itself if it has two or four bytes, else float.
template <class T>
FOURSCALE_HD constexpr auto kept() {
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4)
    return T{};
  else
    return float{};
}
}  // namespace detail

/// The producer of any view, which is read value by value.
template <matrix_like M, int N>
struct view_producer {
  using value_type = typename M::value_type;
  using kept_type = decltype(detail::kept<value_type>());
  using block_type = values<kept_type, N>;
  M x;
  i64 rows = x.rows, cols = x.cols;

  FOURSCALE_D block_type load(place const& at) const {
    block_type block{};
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) {
      if constexpr (same_type<kept_type, value_type>)
        block.set(i, x.at(at.row, at.block * N + i));
      else
        block.set(i, to_float(x.at(at.row, at.block * N + i)));
    }
    return block;
  }
};

}  // namespace FOURSCALE_NAMESPACE::cta

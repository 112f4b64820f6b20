// SPDX-License-Identifier: Apache-2.0
// What a quantized matrix knows about its tensor scale: the amax that determines it, where that amax is, and
// the range that it is brought to. This is part of the view, so that a later call reads the matrix with the
// scale that it was written with.
#pragma once

#include "../scaling/block_scale.hpp"

namespace FOURSCALE_NAMESPACE {

/// Where the amax is: nowhere (an error for formats with a tensor scale), nowhere because tensor scale 1 is
/// wanted, in the reference itself, or in memory: one for the matrix, one for each row, or one for each group
/// of rows.
enum class amax_kind : u8 { missing, unit, value, one, per_row, per_group };

/// Which number is given: the amax itself; the encode scale, 2688 / amax, which inference engines call global
/// scale; or the decode scale, amax / 2688.
enum class scale_number : u8 { amax, encode, decode };

/// Refers to an amax, before its format is known. `data` is host memory for host functions and device memory
/// for device functions.
struct amax_reference {
  amax_kind kind = amax_kind::missing;
  scale_number number = scale_number::amax;
  float value = 0.0f;
  float const* data = nullptr;

  friend FOURSCALE_H constexpr bool operator==(amax_reference const&, amax_reference const&) = default;
};

/// Tensor scale 1: the block scales alone carry the range.
inline constexpr amax_reference unit_scale{amax_kind::unit};
/// An amax whose value the caller already knows.
FOURSCALE_HD constexpr amax_reference amax_value(float amax) {
  return {amax_kind::value, scale_number::amax, amax};
}
/// An amax in memory, as amax() writes it. The caller may reduce it over ranks or delay it.
FOURSCALE_HD constexpr amax_reference amax_in(float const* amax) {
  return {amax_kind::one, scale_number::amax, 0.0f, amax};
}
/// An amax for each row of the quantized matrix ("per token"), as row_amax() writes them. For a columnwise
/// copy these are the columns of the source.
FOURSCALE_HD constexpr amax_reference amax_of_rows(float const* amaxes) {
  return {amax_kind::per_row, scale_number::amax, 0.0f, amaxes};
}
/// An amax for each group of rows, as amax_grouped() writes them.
FOURSCALE_HD constexpr amax_reference amax_of_groups(float const* amaxes) {
  return {amax_kind::per_group, scale_number::amax, 0.0f, amaxes};
}
/// The encode scale, 2688 / amax, in place of the amax; see tensor_scale::from_encode_scale().
FOURSCALE_HD constexpr amax_reference encode_scale_value(float encode) {
  return {amax_kind::value, scale_number::encode, encode};
}
FOURSCALE_HD constexpr amax_reference encode_scale_in(float const* encode) {
  return {amax_kind::one, scale_number::encode, 0.0f, encode};
}
/// The decode scale, amax / 2688, in place of the amax; see tensor_scale::from_decode_scale().
FOURSCALE_HD constexpr amax_reference decode_scale_value(float decode) {
  return {amax_kind::value, scale_number::decode, decode};
}
FOURSCALE_HD constexpr amax_reference decode_scale_in(float const* decode) {
  return {amax_kind::one, scale_number::decode, 0.0f, decode};
}

/// The range that a quantizer, a scaling policy, or anything else with a rule for tensor scales brings an
/// amax to.
template <block_format F, class Quantizer>
FOURSCALE_HD constexpr tensor_range<F> quantizer_range(Quantizer const& q) {
  if constexpr (requires { q.scale; })
    return range_of<F>(q.scale);
  else
    return range_of<F>(q);
}

/// The amax of a matrix in format F, and the range that it is brought to. The range is that of the format
/// (2688 for NVFP4), unless a quantizer or a scaling policy is named: `q.amax = {amax_in(p), quantizer}`.
/// Formats without a tensor scale ignore it all.
template <block_format F>
struct tensor_amax : amax_reference {
  tensor_range<F> range;

  FOURSCALE_HD constexpr tensor_amax() {}
  FOURSCALE_HD constexpr tensor_amax(amax_reference where, tensor_range<F> r = {})
      : amax_reference(where), range(r) {}
  template <class Quantizer>
  FOURSCALE_HD constexpr tensor_amax(amax_reference where, Quantizer const& q)
      : amax_reference(where), range(quantizer_range<F>(q)) {}

  /// True if `data` points to the number or numbers.
  FOURSCALE_HD constexpr bool in_memory() const {
    return kind == amax_kind::one || kind == amax_kind::per_row || kind == amax_kind::per_group;
  }

  /// The tensor scale of the whole matrix.
  FOURSCALE_HD constexpr tensor_scale<F> scale() const {
    if constexpr (F::has_tensor_scale) {
      const float given = kind == amax_kind::unit ? range.largest : kind == amax_kind::value ? value : *data;
      if (number == scale_number::encode) return tensor_scale<F>::from_encode_scale(given, range.largest);
      if (number == scale_number::decode) return tensor_scale<F>::from_decode_scale(given, range.largest);
      return range.scale(given);
    } else {
      return {};
    }
  }
  /// True if each row has its own amax; scale_of_own() is then the tensor scale of a row.
  FOURSCALE_HD constexpr bool by_row() const { return F::has_tensor_scale && kind == amax_kind::per_row; }
  FOURSCALE_HD constexpr tensor_scale<F> scale_of_own([[maybe_unused]] i64 row) const {
    return range.scale(data[row]);
  }
  /// The tensor scale that all rows share. If by_row(), it is meaningless and unused.
  FOURSCALE_HD constexpr tensor_scale<F> scale_of_all() const {
    return by_row() ? tensor_scale<F>{} : scale();
  }
  /// The tensor scale of a row: its own, or the matrix's.
  FOURSCALE_HD constexpr tensor_scale<F> scale_of_row(i64 row) const {
    return by_row() ? scale_of_own(row) : scale();
  }
  /// The tensor scale of a group: its own, or the one that all rows share.
  FOURSCALE_HD constexpr tensor_scale<F> scale_of_group([[maybe_unused]] i64 group) const {
    if constexpr (F::has_tensor_scale)
      if (kind == amax_kind::per_group) return range.scale(data[group]);
    return scale_of_all();
  }

  friend FOURSCALE_H constexpr bool operator==(tensor_amax const&, tensor_amax const&) = default;
};

}  // namespace FOURSCALE_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The steps of fake_quantize(), shared by host (fake_quantize.hpp) and device (fake_quantize.cuh): `Machine`
// has the functions that do the work. Also the buffers that both take.
#pragma once

#include "../view/percentile.hpp"
#include "../view/validate.hpp"
#include "visit.hpp"

namespace FOURSCALE_NAMESPACE {

/// The buffers that fake_quantize() works in, all in the memory of the machine, host or device. rows x cols
/// is the shape of the operand in its own orientation.
struct fake_quantize_buffers {
  u8* codes = nullptr;        ///< rows * cols bytes are enough for every format
  u8* scales = nullptr;       ///< rows * cols / 4 bytes are enough for every format
  float* amax = nullptr;      ///< one float, the amax in use: an input for amax_source::delayed and fixed
  float* row_amax = nullptr;  ///< rows floats, for amax_source::per_row
  float* original = nullptr;  ///< rows * cols floats, for value_source::dequantized
  percentile_workspace* percentile = nullptr;  ///< for amax_source::percentile
  double percentile_share = 0.999;             ///< the share of values that must not saturate
};

namespace detail {

/// Copies x to y, by a transform that does nothing.
template <class Machine, matrix_like M>
FOURSCALE_H errc copy_values(Machine machine, M const& x, matrix_view<float> const& y) {
  return machine.template transform<1>(x, y, identity{});
}

/// Applies the Hadamard transform of the recipe to y, in place: each thread reads its values before it writes
/// them.
template <class Machine>
FOURSCALE_H errc rotate(Machine machine, operand_recipe const& o, operand_place const& at,
                        matrix_view<float> const& y) {
  const sign_vector s = signs_of(o, at);
  switch (o.hadamard) {
    case 2:
      return machine.template rotate<2>(y, hadamard<2>{s});
    case 4:
      return machine.template rotate<4>(y, hadamard<4>{s});
    case 8:
      return machine.template rotate<8>(y, hadamard<8>{s});
    case 16:
      return machine.template rotate<16>(y, hadamard<16>{s});
    case 32:
      return machine.template rotate<32>(y, hadamard<32>{s});
    case 64:
      return machine.template rotate<64>(y, hadamard<64>{s});
    default:
      return machine.template rotate<128>(y, hadamard<128>{s});
  }
}

/// Computes the amax, where the recipe takes it from the values. null_pointer if the memory for it is
/// missing.
template <class Machine, class Transform>
FOURSCALE_H errc find_amax(Machine machine, operand_recipe const& o, matrix_view<float const> const& y,
                           Transform transform, fake_quantize_buffers const& b) {
  if (b.amax == nullptr) return errc::null_pointer;
  switch (o.amax) {
    case amax_source::current:
      return machine.amax(y, transform, b.amax);
    case amax_source::per_row:
      if (b.row_amax == nullptr) return errc::null_pointer;
      return machine.row_amax(y, b.row_amax);
    case amax_source::percentile:
      if (b.percentile == nullptr) return errc::null_pointer;
      return machine.percentile_amax(y, b.percentile_share, b.percentile, b.amax);
    default:
      return errc::ok;
  }
}

/// Quantizes y and dequantizes it in place. visit() calls it with the policies of the recipe, which are
/// types.
template <class Machine>
struct round_trip {
  Machine machine;
  operand_recipe const& o;
  matrix_view<float> y;
  fake_quantize_buffers const& b;
  errc* result;

  template <class F, class Quantizer, class Blocks>
  FOURSCALE_H void operator()(F, Quantizer const& quantizer, Blocks shape) const {
    const matrix_view<float const> x = y;
    block_scaled_view<F> q{b.codes, b.scales, y.rows, y.cols};
    if constexpr (F::has_tensor_scale) {
      *result = find_amax(machine, o, x, quantizer.transform, b);
      if (*result != errc::ok) return;
      q.amax = {o.amax == amax_source::per_row ? amax_of_rows(b.row_amax) : amax_in(b.amax), quantizer};
    }
    *result = machine.quantize(x, q, quantizer, shape);
    if (*result == errc::ok) *result = machine.dequantize(q, y);
  }
};

/// y = Q(T(y)): transforms, quantizes and dequantizes y, which stays in the coordinates of the transform. y
/// is [rows, K], where K is the dimension that the GEMM sums over.
template <class Machine>
FOURSCALE_H errc fake_quantize_in_place(Machine machine, operand_recipe const& o, operand_place const& at,
                                        matrix_view<float> const& y, fake_quantize_buffers const& b) {
  if (o.format == format_name::bf16)
    return has_known_values(o) && o == operand_recipe{.copy = o.copy} ? errc::ok : errc::bad_recipe;
  if (b.codes == nullptr || b.scales == nullptr) return errc::null_pointer;
  errc result = errc::ok;
  if (!visit(o, at, [](auto, auto const&, auto) {})) return errc::bad_recipe;
  if (o.hadamard != 0 && o.scale != scale_rule::ms_eden) result = rotate(machine, o, at, y);
  if (result != errc::ok) return result;
  visit(o, at, round_trip<Machine>{machine, o, y, b, &result});
  return result;
}

/// The operand of a GEMM from its tensor x: all of fake_quantize().
template <class Machine, matrix_like M>
FOURSCALE_H errc fake_quantize_operand(Machine machine, operand_recipe const& o, operand_recipe const& stored,
                                       operand_place const& at, M const& x, matrix_view<float> const& y,
                                       fake_quantize_buffers const& b) {
  const bool columnwise = o.copy == copy_kind::columnwise;
  if (y.rows != (columnwise ? x.cols : x.rows) || y.cols != (columnwise ? x.rows : x.cols))
    return errc::shape_mismatch;
  if (o.source == value_source::original) {
    const errc copied = columnwise ? copy_values(machine, transposed(x), y) : copy_values(machine, x, y);
    return copied != errc::ok ? copied : fake_quantize_in_place(machine, o, at, y, b);
  }
  if (b.original == nullptr) return errc::null_pointer;
  const matrix_view<float> z{b.original, x.rows, x.cols};
  if (const errc e = copy_values(machine, x, z); e != errc::ok) return e;
  if (const errc e = fake_quantize_in_place(machine, stored, at, z, b); e != errc::ok) return e;
  const matrix_view<float const> values = z;
  const errc copied =
      columnwise ? copy_values(machine, transposed(values), y) : copy_values(machine, values, y);
  return copied != errc::ok ? copied : fake_quantize_in_place(machine, o, at, y, b);
}

}  // namespace detail
}  // namespace FOURSCALE_NAMESPACE

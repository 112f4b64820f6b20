// SPDX-License-Identifier: Apache-2.0
// The part of a linear layer Y = X * W^T under a recipe that is the same on every machine: which recipes it
// takes (validate()), the quantized copies of its three tensors (linear_operand, linear_tensors), and how
// many bytes these need. Nothing here allocates or reads an element. The steps are in linear_steps.hpp. See
// docs/linear.md.
#pragma once

#include "../view/validate.hpp"
#include "quantizer_of.hpp"

namespace FOURSCALE_NAMESPACE {

/// X is [tokens, in], W [out, in], Y [tokens, out]. tokens, in and out are each a multiple of the format's
/// block (16 for NVFP4 and FP8 per tensor, 32 for MXFP4 and MXFP8, 128 for FP8 under block scales): blocks
/// run along each of them in one of the three GEMMs.
struct linear_shape {
  i64 tokens = 0, in = 0, out = 0;
  friend FOURSCALE_H constexpr bool operator==(linear_shape const&, linear_shape const&) = default;
};

/// Memory that the caller owns. It begins at a multiple of 16 bytes.
struct linear_memory {
  void* data = nullptr;
  i64 bytes = 0;
};

/// The bytes that a layer asks for up front. `weights`: both copies of W, kept as long as W stays the same.
/// `saved`: what forward keeps for backward, for each microbatch: the columnwise copy of X. `workspace`: used
/// by one pass at a time, so layers can share it.
struct linear_bytes {
  i64 weights = 0, saved = 0, workspace = 0;
  friend FOURSCALE_H constexpr bool operator==(linear_bytes const&, linear_bytes const&) = default;
};

/// Which copies of a tensor were made from what was quantized last. `unknown`: none since place(), but the
/// memory may hold copies from before.
enum class copies_made : u8 { unknown, rowwise, both };

namespace detail {

/// Formats of one family may meet in a GEMM of a linear layer.
enum class format_family : u8 { none, nvfp4, mxfp4, mxfp8, fp8, fp8_blocks };
FOURSCALE_H constexpr format_family family_of(format_name f) {
  switch (f) {
    case format_name::nvfp4:
      return format_family::nvfp4;
    case format_name::mxfp4:
      return format_family::mxfp4;
    case format_name::mxfp8_e4m3:
    case format_name::mxfp8_e5m2:
      return format_family::mxfp8;
    case format_name::fp8_e4m3:
    case format_name::fp8_e5m2:
      return format_family::fp8;
    case format_name::fp8_block_e4m3:
    case format_name::fp8_block_e5m2:
      return format_family::fp8_blocks;
    default:
      return format_family::none;
  }
}

FOURSCALE_H constexpr bool is_linear_operand(operand_recipe const& o, format_family f, copy_kind copy) {
  if (family_of(o.format) != f || o.copy != copy || o.source != value_source::original) return false;
  if (o.amax == amax_source::per_row || o.amax == amax_source::percentile) return false;
  const bool four_bits = f == format_family::nvfp4 || f == format_family::mxfp4;
  if (o.scale == scale_rule::ms_eden || o.hadamard > (four_bits ? block_size_of(o.format) : 0)) return false;
  return visit(o, {}, [](auto, auto const&, auto) {});
}

/// Whether one call can make both copies of a tensor: they need one format, one block shape and one amax. In
/// tiles both copies share their scales, so they need one scale rule too.
FOURSCALE_H constexpr bool are_copies(operand_recipe const& rowwise, operand_recipe const& columnwise) {
  if (rowwise.format != columnwise.format || rowwise.blocks != columnwise.blocks ||
      rowwise.amax != columnwise.amax)
    return false;
  return rowwise.blocks == block_kind::along_rows || rowwise.scale == columnwise.scale;
}

}  // namespace detail

/// Whether linear layers take a recipe. All six operands are in NVFP4, all in MXFP4, all in MXFP8, all in FP8
/// per tensor, or all in FP8 under scales of 128 values; in 8 bits E4M3 and E5M2 may meet. A Hadamard
/// transform is on both operands of wgrad alone, no longer than a block; in 8 bits there is none. The amax is
/// that of the tensor: current, or given by the caller. A GEMM that stays in bf16 is left to the caller.
///
/// Errors: other_signs if the operands of wgrad have different transforms; else bad_recipe.
FOURSCALE_H constexpr errc validate(linear_recipe const& r) {
  using enum copy_kind;
  const detail::format_family f = detail::family_of(r.fprop.a.format);
  if (f == detail::format_family::none) return errc::bad_recipe;
  const operand_recipe in_rows[] = {r.fprop.a, r.fprop.b, r.dgrad.a},
                       in_columns[] = {r.dgrad.b, r.wgrad.a, r.wgrad.b};
  for (operand_recipe const& o : in_rows)
    if (!detail::is_linear_operand(o, f, rowwise) || o.hadamard != 0) return errc::bad_recipe;
  for (operand_recipe const& o : in_columns)
    if (!detail::is_linear_operand(o, f, columnwise)) return errc::bad_recipe;
  const bool copies = detail::are_copies(r.fprop.a, r.wgrad.b) && detail::are_copies(r.fprop.b, r.dgrad.b) &&
                      detail::are_copies(r.dgrad.a, r.wgrad.a);
  if (!copies || r.dgrad.b.hadamard != 0) return errc::bad_recipe;
  const bool cancel = r.wgrad.a.hadamard == r.wgrad.b.hadamard && r.wgrad.a.signs == r.wgrad.b.signs;
  return cancel ? errc::ok : errc::other_signs;
}

/// Rules for a shape under blocks of `block` values: not empty (empty_matrix), of sizes that matrices may
/// have (too_large), whole blocks (partial_block).
FOURSCALE_H constexpr errc validate(linear_shape const& s, int block) {
  if (const errc e = detail::check_gemm_shape(s.tokens, s.out, s.in); e != errc::ok) return e;
  return s.tokens % block != 0 || s.in % block != 0 || s.out % block != 0 ? errc::partial_block : errc::ok;
}

namespace detail {

/// True, or a compile-time error with a sentence.
template <linear_recipe R>
FOURSCALE_H constexpr bool is_linear() {
  constexpr errc e = validate(R);
  static_assert(e != errc::other_signs,
                "Both operands of wgrad need the same Hadamard transform under the same signs, or the "
                "transforms do not cancel.");
  static_assert(
      e == errc::ok || e == errc::other_signs,
      "A linear layer takes recipes that quantize all six operands to NVFP4, or all to MXFP4, to MXFP8 "
      "or to FP8, from the tensors themselves: see validate(linear_recipe). GEMMs in bf16 are the "
      "caller's.");
  return e == errc::ok;
}

/// Each part of a linear_memory begins at a multiple of this many bytes from its start.
inline constexpr i64 linear_part = 256;

/// Rules for memory of at least `bytes`: null_pointer, misaligned, no_workspace.
FOURSCALE_H inline errc validate_memory(linear_memory const& m, i64 bytes) {
  if (m.data == nullptr && bytes > 0) return errc::null_pointer;
  if (reinterpret_cast<u64>(m.data) % 16 != 0) return errc::misaligned;
  return m.bytes < bytes ? errc::no_workspace : errc::ok;
}

/// Rules for the three memories of a layer, which must have the bytes `need`: those of validate_memory(), and
/// overlap.
FOURSCALE_H inline errc validate_memories(linear_memory const& weights, linear_memory const& saved,
                                          linear_memory const& workspace, linear_bytes const& need) {
  const linear_memory memories[] = {weights, saved, workspace};
  const i64 bytes[] = {need.weights, need.saved, need.workspace};
  byte_range parts[3];
  for (int i = 0; i < 3; ++i) {
    if (const errc e = validate_memory(memories[i], bytes[i]); e != errc::ok) return e;
    parts[i] = bytes_of(static_cast<u8*>(memories[i].data), bytes[i]);
  }
  const bool apart =
      !overlap(parts[0], parts[1]) && !overlap(parts[0], parts[2]) && !overlap(parts[1], parts[2]);
  return apart ? errc::ok : errc::overlap;
}

/// The rest of m from byte `at` on.
FOURSCALE_H inline linear_memory from(linear_memory const& m, i64 at) {
  return {m.data == nullptr ? nullptr : static_cast<u8*>(m.data) + at, m.bytes - at};
}

/// Bytes of one copy: its codes, then its scales. copy_in() makes the view of such a copy at the start of m.
template <class F, class L>
FOURSCALE_H constexpr i64 copy_bytes(i64 rows, i64 cols) {
  return round_up<i64>(code_bytes<F>(rows, cols), linear_part) +
         round_up<i64>(scale_bytes<F, L>(rows, cols), linear_part);
}
template <class F, class L>
FOURSCALE_H block_scaled_view<F, L> copy_in(linear_memory const& m, i64 rows, i64 cols,
                                            tensor_amax<F> const& amax) {
  u8* const codes = static_cast<u8*>(m.data);
  block_scaled_view<F, L> q(codes, codes + round_up<i64>(code_bytes<F>(rows, cols), linear_part), rows, cols,
                            amax);
  q.code_capacity = code_bytes<F>(rows, cols);
  q.scale_capacity = scale_bytes<F, L>(rows, cols);
  return q;
}

}  // namespace detail

/// One quantized tensor of a linear layer: views of both copies, where their amaxes are, and the signs that
/// the columnwise copy was transformed by. It is a value that owns no memory; place() says where the copies
/// lie.
template <linear_recipe R, tensor_role Role, scale_layout L = linear>
struct linear_operand {
  static_assert(detail::is_linear<R>());
  static constexpr tensor_role role = Role;
  static constexpr operand_recipe of_rowwise = Role == tensor_role::activation ? R.fprop.a
                                               : Role == tensor_role::weight   ? R.fprop.b
                                                                               : R.dgrad.a;
  static constexpr operand_recipe of_columnwise = Role == tensor_role::activation ? R.wgrad.b
                                                  : Role == tensor_role::weight   ? R.dgrad.b
                                                                                  : R.wgrad.a;
  using format = format_of<of_rowwise>;
  /// How many amaxes there are: none without a tensor scale, else one of the tensor, and a second one of the
  /// transformed tensor if the columnwise copy is transformed.
  static constexpr int amax_count = !format::has_tensor_scale ? 0 : of_columnwise.hadamard != 0 ? 2 : 1;

  block_scaled_view<format, L> rowwise, columnwise;
  float* amax = nullptr;  ///< amax_count floats, one after the other; ranks reduce them
  sign_vector signs;      ///< of the columnwise copy's transform, set when it is quantized
  copies_made made = copies_made::unknown;

  /// The shape of the tensor, which is also that of the rowwise copy.
  static FOURSCALE_H constexpr i64 rows(linear_shape const& s) {
    return Role == tensor_role::weight ? s.out : s.tokens;
  }
  static FOURSCALE_H constexpr i64 cols(linear_shape const& s) {
    return Role == tensor_role::gradient ? s.out : s.in;
  }
  /// Bytes of the rowwise copy, and of the columnwise copy with the amaxes.
  static FOURSCALE_H constexpr i64 rowwise_bytes(linear_shape const& s) {
    return detail::copy_bytes<format, L>(rows(s), cols(s));
  }
  static FOURSCALE_H constexpr i64 columnwise_bytes(linear_shape const& s) {
    return detail::copy_bytes<format, L>(cols(s), rows(s)) + (amax_count > 0 ? detail::linear_part : 0);
  }
  static FOURSCALE_H constexpr i64 bytes(linear_shape const& s) {
    return rowwise_bytes(s) + columnwise_bytes(s);
  }

  /// Which operand of which GEMM each copy is, for its random streams and signs.
  static FOURSCALE_H constexpr operand_place at_rowwise(draw_key const& key) {
    return {key, Role, Role == tensor_role::gradient ? 1u : 0u};
  }
  static FOURSCALE_H constexpr operand_place at_columnwise(draw_key const& key) {
    return {key, Role, Role == tensor_role::weight ? 1u : 2u};
  }
  /// The signs of the columnwise copy's transform when it is quantized under `key`; no_signs without a
  /// transform.
  static FOURSCALE_H constexpr sign_vector signs_under(draw_key const& key) {
    return of_columnwise.hadamard == 0 ? no_signs : detail::signs_of(of_columnwise, at_columnwise(key));
  }

  /// Says that the memory holds both copies, made under `key`. quantize() calls it; so does a caller that
  /// places an operand where its copies lie already.
  FOURSCALE_H constexpr void made_under(draw_key const& key) {
    signs = signs_under(key), made = copies_made::both;
  }

  /// Lays the two copies into two memories. Errors: those of validate(shape), null_pointer, misaligned,
  /// no_workspace, overlap; *this is then untouched.
  FOURSCALE_H errc place(linear_shape const& s, linear_memory const& for_rowwise,
                         linear_memory const& for_columnwise) {
    if (const errc e = validate(s, format::block_size); e != errc::ok) return e;
    const i64 first = rowwise_bytes(s), second = columnwise_bytes(s);
    if (const errc e = detail::validate_memory(for_rowwise, first); e != errc::ok) return e;
    if (const errc e = detail::validate_memory(for_columnwise, second); e != errc::ok) return e;
    if (detail::overlap(detail::bytes_of(static_cast<u8*>(for_rowwise.data), first),
                        detail::bytes_of(static_cast<u8*>(for_columnwise.data), second)))
      return errc::overlap;
    amax = amax_count > 0 ? static_cast<float*>(for_columnwise.data) : nullptr;
    signs = no_signs, made = copies_made::unknown;
    float* const amax_t = amax_count == 2 ? amax + 1 : amax;
    const tensor_amax<format> range(amax_in(amax), quantizer_of<of_rowwise>({})),
        range_t(amax_in(amax_t), quantizer_of<of_columnwise>({}));
    rowwise = detail::copy_in<format, L>(for_rowwise, rows(s), cols(s), range);
    columnwise = detail::copy_in<format, L>(
        detail::from(for_columnwise, amax_count > 0 ? detail::linear_part : 0), cols(s), rows(s), range_t);
    return errc::ok;
  }
  /// Lays both copies into one memory of bytes(shape).
  FOURSCALE_H errc place(linear_shape const& s, linear_memory const& m) {
    if (const errc e = validate(s, format::block_size); e != errc::ok) return e;
    if (const errc e = detail::validate_memory(m, bytes(s)); e != errc::ok) return e;
    return place(s, m, detail::from(m, rowwise_bytes(s)));
  }
};

/// The tensors of a layer, placed in memory, and the memory that GEMMs work in. X's rowwise copy and the
/// gradient share the workspace: the former lives in forward, the latter in backward. For another microbatch,
/// copy this value and place `x` in `saved` memory of its own.
template <linear_recipe R, scale_layout L = linear>
struct linear_tensors {
  linear_operand<R, tensor_role::activation, L> x;
  linear_operand<R, tensor_role::weight, L> w;
  linear_operand<R, tensor_role::gradient, L> dy;
  linear_memory gemm;

  /// Bytes of all memories. `gemm_bytes`: the part of the workspace that GEMMs work in.
  static FOURSCALE_H constexpr linear_bytes bytes(linear_shape const& s, i64 gemm_bytes = 0) {
    return {decltype(w)::bytes(s), decltype(x)::columnwise_bytes(s), before_gemm(s) + gemm_bytes};
  }

  /// Lays the tensors into memories of bytes(shape). Errors: as linear_operand::place(); *this is then
  /// untouched.
  FOURSCALE_H errc place(linear_shape const& s, linear_memory const& weights, linear_memory const& saved,
                         linear_memory const& workspace, i64 gemm_bytes = 0) {
    linear_tensors t;
    if (const errc e = validate(s, decltype(w)::format::block_size); e != errc::ok) return e;
    if (const errc e = detail::validate_memories(weights, saved, workspace, bytes(s, gemm_bytes));
        e != errc::ok)
      return e;
    if (const errc e = t.w.place(s, weights); e != errc::ok) return e;
    if (const errc e = t.x.place(s, workspace, saved); e != errc::ok) return e;
    if (const errc e = t.dy.place(s, workspace); e != errc::ok) return e;
    t.gemm = detail::from(workspace, before_gemm(s));
    *this = t;
    return errc::ok;
  }

  /// Bytes of the workspace that lie before the memory that GEMMs work in.
  static FOURSCALE_H constexpr i64 before_gemm(linear_shape const& s) {
    const i64 forward = decltype(x)::rowwise_bytes(s), backward = decltype(dy)::bytes(s);
    return forward > backward ? forward : backward;
  }
};

/// Joins two quantized matrices whose rows follow one another in memory, such as the weights of gate and up,
/// to one: *all. Both must have the same amax, as codes under different tensor scales are never merged. If
/// their amaxes differ, quantize both under the larger one (from dequantized(q), if the originals are gone),
/// or multiply by each.
///
/// Errors: those of validate(); shape_mismatch for rows of different lengths; other_amax, also for amaxes of
/// rows; not_adjacent for gaps and for scale tiles that have rows of both; *all is then untouched.
template <class F, class L, class Byte>
FOURSCALE_H errc merge_rows(block_scaled_view<F, L, Byte> const& first,
                            block_scaled_view<F, L, Byte> const& second, block_scaled_view<F, L, Byte>* all) {
  if (const errc e = validate(first); e != errc::ok) return e;
  if (const errc e = validate(second); e != errc::ok) return e;
  if (all == nullptr) return errc::null_pointer;
  if (first.cols != second.cols) return errc::shape_mismatch;
  if (F::has_tensor_scale && (!(first.amax == second.amax) || first.amax.kind == amax_kind::per_row))
    return errc::other_amax;
  const bool adjacent = second.codes == first.codes + code_bytes<F>(first.rows, first.cols) &&
                        second.scales == first.scales + scale_bytes<F, L>(first.rows, first.cols) &&
                        L::padded_rows(first.rows) == first.rows;
  if (!adjacent) return errc::not_adjacent;
  if (const errc e = detail::check_shape(first.rows + second.rows, first.cols); e != errc::ok) return e;
  *all = {first.codes, first.scales, first.rows + second.rows, first.cols, first.amax};
  return errc::ok;
}

}  // namespace FOURSCALE_NAMESPACE

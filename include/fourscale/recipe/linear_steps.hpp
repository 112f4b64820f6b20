// SPDX-License-Identifier: Apache-2.0
// The steps of a linear layer, shared by host (linear_host.hpp) and device (linear.cuh): `Machine` has the
// functions that do the work. linear.hpp has the tensors that the steps read and write.
#pragma once

#include "../view/gemm_factors.hpp"
#include "linear.hpp"

namespace FOURSCALE_NAMESPACE::detail {

/// Rules for a tensor, which must be as large as its quantized copies: those of validate() for a matrix, and
/// shape_mismatch.
template <class Source, linear_recipe R, tensor_role Role, class L>
FOURSCALE_H errc validate_tensor(Source const& x, linear_operand<R, Role, L> const& to) {
  if constexpr (matrix_like<Source>)
    if (const errc e = validate(x); e != errc::ok) return e;
  return x.rows != to.rowwise.rows || x.cols != to.rowwise.cols ? errc::shape_mismatch : errc::ok;
}

/// Whether matrix a shares a byte with the memory of tensor x. False for a producer: what it reads is not
/// known here.
template <class T, class Source>
FOURSCALE_H bool overlaps_source([[maybe_unused]] matrix_view<T> const& a, [[maybe_unused]] Source const& x) {
  if constexpr (requires { x.extent(); })
    return overlaps(a, bytes_of(x.data, x.extent()));
  else
    return false;
}

/// Whether a matrix shares a byte with what the tensors of a layer view: quantized copies, amaxes, and the
/// memory that GEMMs work in. A step that reads or writes such a matrix would change it on its way. False for
/// a producer.
template <class Source, class Tensors>
FOURSCALE_H bool overlaps_layer([[maybe_unused]] Source const& m, [[maybe_unused]] Tensors const& t) {
  if constexpr (requires { m.extent(); })
    return overlaps(m, t.x.rowwise) || overlaps(m, t.x.columnwise) || overlaps(m, t.w.rowwise) ||
           overlaps(m, t.w.columnwise) || overlaps(m, t.dy.rowwise) || overlaps(m, t.dy.columnwise) ||
           overlaps(m, bytes_of(static_cast<u8*>(t.gemm.data), t.gemm.bytes));
  else
    return false;
}

/// A linear layer Y = X * W^T. Matrices are bf16, fp16 or float. The quantized copies lie in the memories
/// that place() was given, where no matrix may lie. Each step validates before it writes: if it returns
/// anything but `ok`, its outputs are untouched. No step allocates on the device, or synchronizes.
///
/// X and dY, in 1-D blocks, need not lie in memory: they may be computed as they are read, by computed(rows,
/// cols, f) on both machines, or on the device by a producer (cta/producer.cuh) of 16-bit values. The bits
/// are those of the matrix that f or the producer stands for. amax() and quantize() each ask for the values,
/// so these must be the same both times. What f or the producer reads must not overlap an output, which
/// nobody checks.
///
/// A training step is amax() of each tensor, a reduction of the amaxes over ranks if there are several,
/// quantize(), and the GEMMs. forward() and backward() run all of it for one rank.
template <class Machine, linear_recipe R, scale_layout L>
struct linear_steps {
  static_assert(is_linear<R>());
  using tensors = linear_tensors<R, L>;
  using format = format_of<R.fprop.a>;  ///< of X; in 8 bits, others may be of the other FP8 type

  Machine machine;

  /// The bytes that a layer of this shape needs; none for a shape that place() refuses.
  static FOURSCALE_H linear_bytes bytes(linear_shape const& s) {
    if (validate(s, format::block_size) != errc::ok) return {};
    return tensors::bytes(s, gemm_bytes(s));
  }

  /// Lays the tensors of a layer into memories of bytes(shape), and writes their views to *t. Errors:
  /// empty_matrix, too_large, partial_block, null_pointer, misaligned, no_workspace, overlap; *t is then
  /// untouched.
  static FOURSCALE_H errc place(linear_shape const& s, linear_memory const& weights,
                                linear_memory const& saved, linear_memory const& workspace, tensors* t) {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate(s, format::block_size); e != errc::ok) return e;
    return t->place(s, weights, saved, workspace, gemm_bytes(s));
  }

  /// Writes the amaxes of X, W or dY to to.amax: to.amax_count floats. Ranks that share the tensor reduce
  /// them to their largest before quantize(). It does nothing where only blocks have scales, or where the
  /// caller gives the amax. `key` must be that of quantize(): where the recipe draws signs, the second amax
  /// depends on it. Errors: those of validate(), shape_mismatch.
  template <class Source, tensor_role Role>
  FOURSCALE_H errc amax(Source const& x, draw_key const& key, linear_operand<R, Role, L> const& to) const {
    using operand = linear_operand<R, Role, L>;
    if (const errc e = validate_tensor(x, to); e != errc::ok) return e;
    if constexpr (operand::amax_count == 0 || operand::of_rowwise.amax != amax_source::current)
      return errc::ok;
    else if constexpr (operand::amax_count == 1)
      return machine.template amax<format>(x, to.amax);
    else
      return machine.template amax_both<format>(
          x, transform_of<operand::of_columnwise>(operand::at_columnwise(key)), to.amax, to.amax + 1);
  }

  /// Makes both copies of X, W or dY in one call, under the amaxes in to->amax, and notes so in *to, with the
  /// signs of the transform. The random bits are those of `key`; X and dY of one microbatch need the same
  /// key. Errors: those of validate(), shape_mismatch, overlap.
  template <class Source, tensor_role Role>
  FOURSCALE_H errc quantize(Source const& x, draw_key const& key, linear_operand<R, Role, L>* to) const {
    using operand = linear_operand<R, Role, L>;
    if (to == nullptr) return errc::null_pointer;
    if (const errc e = validate_tensor(x, *to); e != errc::ok) return e;
    const errc e = machine.quantize_both(
        x, to->rowwise, to->columnwise, quantizer_of<operand::of_rowwise>(operand::at_rowwise(key)),
        quantizer_of<operand::of_columnwise>(operand::at_columnwise(key)), blocks_of<operand::of_rowwise>());
    if (e == errc::ok) to->made_under(key);
    return e;
  }

  /// Makes the rowwise copy alone, under the amax in to->amax: for a forward without a backward. The
  /// columnwise copy, if there is one, is then that of another tensor, and GEMMs refuse it (no_copy). Errors:
  /// those of quantize().
  template <class Source, tensor_role Role>
  FOURSCALE_H errc quantize_rows(Source const& x, draw_key const& key, linear_operand<R, Role, L>* to) const {
    using operand = linear_operand<R, Role, L>;
    if (to == nullptr) return errc::null_pointer;
    const errc e =
        machine.quantize(x, to->rowwise, quantizer_of<operand::of_rowwise>(operand::at_rowwise(key)),
                         blocks_of<operand::of_rowwise>());
    if (e == errc::ok) to->signs = no_signs, to->made = copies_made::rowwise;
    return e;
  }

  /// Y = X * W^T + beta * Y. Errors: those of validate_gemm(), no_workspace, and on the device those of a
  /// plan, no_instruction and cuda_failed. dgrad() and wgrad() have the same.
  template <class T>
  FOURSCALE_H errc fprop(tensors const& t, matrix_view<T> const& y, float beta = 0.0f) const {
    if (overlaps_layer(y, t)) return errc::overlap;
    return machine.gemm(t.x.rowwise, t.w.rowwise, y, {1.0f, beta}, t.gemm);
  }
  /// dX = dY * W + beta * dX. Also rejects weights whose columnwise copy was not made (no_copy).
  template <class T>
  FOURSCALE_H errc dgrad(tensors const& t, matrix_view<T> const& dx, float beta = 0.0f) const {
    if (t.w.made == copies_made::rowwise) return errc::no_copy;
    if (overlaps_layer(dx, t)) return errc::overlap;
    return machine.gemm(t.dy.rowwise, t.w.columnwise, dx, {1.0f, beta}, t.gemm);
  }
  /// dW = dY^T * X + beta * dW. beta is 0 for the first microbatch and 1 for those after it; their order is
  /// then part of the result. dW should be float. Also rejects X and dY whose columnwise copies were not made
  /// (no_copy), or were transformed by different signs (other_signs).
  template <class T>
  FOURSCALE_H errc wgrad(tensors const& t, matrix_view<T> const& dw, float beta) const {
    if (t.x.made != copies_made::both || t.dy.made != copies_made::both) return errc::no_copy;
    if (!(t.x.signs == t.dy.signs)) return errc::other_signs;
    if (overlaps_layer(dw, t)) return errc::overlap;
    return machine.gemm(t.dy.columnwise, t.x.columnwise, dw, {1.0f, beta}, t.gemm);
  }

  /// Runs amax, quantize and fprop of X, under the weights that t->w already has.
  template <class Source, class Y>
  FOURSCALE_H errc forward(Source const& x, draw_key const& key, tensors* t, matrix_view<Y> const& y) const {
    if (const errc e = validate_forward(x, t, y); e != errc::ok) return e;
    if (const errc e = amax(x, key, t->x); e != errc::ok) return e;
    if (const errc e = quantize(x, key, &t->x); e != errc::ok) return e;
    return fprop(*t, y);
  }
  /// As above, but quantizes the weights first. Errors: those of the steps. Y, *t and the memory that *t
  /// views are then untouched, unless CUDA failed.
  template <class Source, class W, class Y>
  FOURSCALE_H errc forward(Source const& x, matrix_view<W> const& w, draw_key const& key, tensors* t,
                           matrix_view<Y> const& y) const {
    if (const errc e = validate_forward(x, t, y); e != errc::ok) return e;
    if (const errc e = validate_tensor(w, t->w); e != errc::ok) return e;
    if (overlaps_source(y, w) || overlaps_layer(w, *t)) return errc::overlap;
    if (const errc e = amax(w, key, t->w); e != errc::ok) return e;
    if (const errc e = quantize(w, key, &t->w); e != errc::ok) return e;
    return forward(x, key, t, y);
  }

  /// Runs amax, quantize, dgrad and wgrad of dY, after forward() under the same key. Errors: those of the
  /// steps. dX, dW, *t and the memory that *t views are then untouched, unless CUDA failed.
  template <class Source, class D, class G>
  FOURSCALE_H errc backward(Source const& dy, draw_key const& key, tensors* t, matrix_view<D> const& dx,
                            matrix_view<G> const& dw, float beta) const {
    if (const errc e = validate_backward(dy, key, t, dx, dw); e != errc::ok) return e;
    if (const errc e = amax(dy, key, t->dy); e != errc::ok) return e;
    if (const errc e = quantize(dy, key, &t->dy); e != errc::ok) return e;
    if (const errc e = dgrad(*t, dx); e != errc::ok) return e;
    return wgrad(*t, dw, beta);
  }

  /// The errors that forward() and backward() can find before they write anything.
  template <class Source, class Y>
  FOURSCALE_H errc validate_forward(Source const& x, tensors const* t, matrix_view<Y> const& y) const {
    if (const errc e = fits_forward(x, t, y); e != errc::ok) return e;
    return overlaps_source(y, x) || overlaps_layer(x, *t) || overlaps_layer(y, *t) ? errc::overlap : errc::ok;
  }
  template <class Source, class D, class G>
  FOURSCALE_H errc validate_backward(Source const& dy, draw_key const& key, tensors const* t,
                                     matrix_view<D> const& dx, matrix_view<G> const& dw) const {
    if (const errc e = fits_backward(dy, key, t, dx, dw); e != errc::ok) return e;
    const bool overlap = overlaps_source(dx, dw) || overlaps_source(dw, dy) || overlaps_source(dx, dy) ||
                         overlaps_layer(dy, *t) || overlaps_layer(dx, *t) || overlaps_layer(dw, *t);
    return overlap ? errc::overlap : errc::ok;
  }
  /// The same, except for matrices that overlap: for a caller that has asked for those of many layers.
  template <class Source, class Y>
  FOURSCALE_H errc fits_forward(Source const& x, tensors const* t, matrix_view<Y> const& y) const {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate_tensor(x, t->x); e != errc::ok) return e;
    if (const errc e = validate_saved(*t); e != errc::ok) return e;
    return machine.validate(t->x.rowwise, t->w.rowwise, y, t->gemm);
  }
  template <class Source, class D, class G>
  FOURSCALE_H errc fits_backward(Source const& dy, draw_key const& key, tensors const* t,
                                 matrix_view<D> const& dx, matrix_view<G> const& dw) const {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate_tensor(dy, t->dy); e != errc::ok) return e;
    if (t->x.made != copies_made::both || t->w.made == copies_made::rowwise) return errc::no_copy;
    if (!(t->x.signs == t->dy.signs_under(key))) return errc::other_signs;
    if (const errc e = validate_saved(*t); e != errc::ok) return e;
    if (const errc e = machine.validate(t->dy.rowwise, t->w.columnwise, dx, t->gemm); e != errc::ok) return e;
    return machine.validate(t->dy.columnwise, t->x.columnwise, dw, t->gemm);
  }

  /// What is kept of X must not lie where the passes put dY's copies and the operands of GEMMs, as it could
  /// if X was placed by itself: overlap.
  static FOURSCALE_H errc validate_saved(tensors const& t) {
    const linear_shape s{t.x.rowwise.rows, t.x.rowwise.cols, t.w.rowwise.rows};
    const i64 used = gemm_bytes(s);
    const byte_range gemm =
        bytes_of(static_cast<u8*>(t.gemm.data), used < t.gemm.bytes ? used : t.gemm.bytes);
    return overlaps(t.x.columnwise, t.dy.rowwise) || overlaps(t.x.columnwise, t.dy.columnwise) ||
                   overlaps(t.x.columnwise, gemm)
               ? errc::overlap
               : errc::ok;
  }
  /// The bytes that the most demanding of the three GEMMs works in.
  static FOURSCALE_H i64 gemm_bytes(linear_shape const& s) {
    const i64 all[] = {Machine::template gemm_bytes<format>(s.tokens, s.out, s.in),
                       Machine::template gemm_bytes<format>(s.tokens, s.in, s.out),
                       Machine::template gemm_bytes<format>(s.out, s.in, s.tokens)};
    i64 most = 0;
    for (const i64 bytes : all) most = bytes > most ? bytes : most;
    return most;
  }
};

}  // namespace FOURSCALE_NAMESPACE::detail

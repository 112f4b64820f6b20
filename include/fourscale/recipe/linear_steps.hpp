// SPDX-License-Identifier: Apache-2.0
// The steps of a linear layer, shared by host (linear_host.hpp) and device (linear.cuh): `Machine` says which
// functions do the work.
#pragma once

#include "../view/gemm_factors.hpp"
#include "linear.hpp"

namespace FOURSCALE_NAMESPACE::detail {

/// Rules for a tensor that must be as large as its quantized copies: those of validate() for a matrix,
/// shape_mismatch.
template <class Source, linear_recipe R, tensor_role Role, class L>
FOURSCALE_H errc validate_tensor(Source const& x, linear_operand<R, Role, L> const& to) {
  if constexpr (matrix_like<Source>)
    if (const errc e = validate(x); e != errc::ok) return e;
  return x.rows != to.rowwise.rows || x.cols != to.rowwise.cols ? errc::shape_mismatch : errc::ok;
}

/// Whether a matrix shares a byte with what a tensor is read from; what a producer reads is not known here.
template <class T, class Source>
FOURSCALE_H bool overlaps_source([[maybe_unused]] matrix_view<T> const& a, [[maybe_unused]] Source const& x) {
  if constexpr (requires { x.extent(); })
    return overlaps(a, bytes_of(x.data, x.extent()));
  else
    return false;
}

/// A linear layer Y = X * W^T. Matrices are bf16, fp16 or float; what the steps write lies in the memories
/// that place() was given. X and dY, in 1-D blocks, may also be computed as they are read and never lie in
/// memory: computed(rows, cols, f) on both machines, or on the device a producer (cta/producer.cuh) of 16-bit
/// values. The bits are those of the matrix that it stands for. amax() and quantize() each ask for its
/// values, so they must be the same both times; what it reads must not overlap an output, which nobody
/// checks. Each step validates before it writes: what it returns other than `ok` left its outputs untouched.
/// No step allocates on the device, or synchronizes.
///
/// A training step: amax() of each tensor, a reduction of the amaxes over ranks if there are several,
/// quantize(), and the GEMMs. forward() and backward() run all of it for one rank.
template <class Machine, linear_recipe R, scale_layout L>
struct linear_steps {
  static_assert(is_linear<R>());
  using tensors = linear_tensors<R, L>;
  using format = format_of<R.fprop.a>;  ///< of X, and of all where formats do not meet

  Machine machine;

  /// The bytes that a layer of this shape needs; meaningless where validate(shape, block) is not ok.
  static FOURSCALE_H linear_bytes bytes(linear_shape const& s) { return tensors::bytes(s, gemm_bytes(s)); }

  /// Lays the tensors of a layer into memories of bytes(shape), to *t. Errors: empty_matrix, too_large,
  /// partial_block, null_pointer, misaligned, no_workspace, overlap; *t is then untouched.
  static FOURSCALE_H errc place(linear_shape const& s, linear_memory const& weights,
                                linear_memory const& saved, linear_memory const& workspace, tensors* t) {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate(s, format::block_size); e != errc::ok) return e;
    return t->place(s, weights, saved, workspace, gemm_bytes(s));
  }

  /// The amaxes of X, W or dY to to.amax: to.amax_count floats, which ranks that share the tensor reduce to
  /// their largest before quantize(). Nothing to do where blocks alone have scales, or where the recipe takes
  /// an amax of the caller's. `key` is that of quantize(): where the recipe draws signs, the second amax
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

  /// Both copies of X, W or dY under the amaxes in to->amax, from one call, and the signs that they were
  /// transformed by to to->signs. Random bits are those of `key`; X and dY of one microbatch have the same
  /// key. Errors: those of validate(), shape_mismatch, overlap.
  template <class Source, tensor_role Role>
  FOURSCALE_H errc quantize(Source const& x, draw_key const& key, linear_operand<R, Role, L>* to) const {
    using operand = linear_operand<R, Role, L>;
    if (to == nullptr) return errc::null_pointer;
    if (const errc e = validate_tensor(x, *to); e != errc::ok) return e;
    const errc e = machine.quantize_both(
        x, to->rowwise, to->columnwise, quantizer_of<operand::of_rowwise>(operand::at_rowwise(key)),
        quantizer_of<operand::of_columnwise>(operand::at_columnwise(key)), blocks_of<operand::of_rowwise>());
    if (e == errc::ok) to->signs = operand::signs_under(key);
    return e;
  }

  /// The rowwise copy alone, under the amax in to->amax: for a forward without a backward. Errors: those
  /// of quantize().
  template <class Source, tensor_role Role>
  FOURSCALE_H errc quantize_rows(Source const& x, draw_key const& key, linear_operand<R, Role, L>* to) const {
    using operand = linear_operand<R, Role, L>;
    if (to == nullptr) return errc::null_pointer;
    const errc e =
        machine.quantize(x, to->rowwise, quantizer_of<operand::of_rowwise>(operand::at_rowwise(key)),
                         blocks_of<operand::of_rowwise>());
    if (e == errc::ok) to->signs = no_signs;  // of a columnwise copy that is not there
    return e;
  }

  /// Y = X * W^T + beta * Y. Errors: those of validate_gemm(), no_workspace, and on the device those of a
  /// plan, no_instruction and cuda_failed; so for dgrad and wgrad.
  template <class T>
  FOURSCALE_H errc fprop(tensors const& t, matrix_view<T> const& y, float beta = 0.0f) const {
    return machine.gemm(t.x.rowwise, t.w.rowwise, y, {1.0f, beta}, t.gemm);
  }
  /// dX = dY * W + beta * dX.
  template <class T>
  FOURSCALE_H errc dgrad(tensors const& t, matrix_view<T> const& dx, float beta = 0.0f) const {
    return machine.gemm(t.dy.rowwise, t.w.columnwise, dx, {1.0f, beta}, t.gemm);
  }
  /// dW = dY^T * X + beta * dW: beta is 0 for the first microbatch and 1 for those after it, whose order then
  /// is part of the result. dW should be float. Also rejects X and dY that were transformed by other signs.
  template <class T>
  FOURSCALE_H errc wgrad(tensors const& t, matrix_view<T> const& dw, float beta) const {
    if (!(t.x.signs == t.dy.signs)) return errc::other_signs;
    return machine.gemm(t.dy.columnwise, t.x.columnwise, dw, {1.0f, beta}, t.gemm);
  }

  /// amax, quantize and fprop, under the weights that t->w already has.
  template <class Source, class Y>
  FOURSCALE_H errc forward(Source const& x, draw_key const& key, tensors* t, matrix_view<Y> const& y) const {
    if (const errc e = validate_forward(x, t, y); e != errc::ok) return e;
    if (const errc e = amax(x, key, t->x); e != errc::ok) return e;
    if (const errc e = quantize(x, key, &t->x); e != errc::ok) return e;
    return fprop(*t, y);
  }
  /// The same, with the weights quantized first. Errors: those of the steps; Y, and *t with what it views,
  /// are then untouched, unless CUDA failed.
  template <class Source, class W, class Y>
  FOURSCALE_H errc forward(Source const& x, matrix_view<W> const& w, draw_key const& key, tensors* t,
                           matrix_view<Y> const& y) const {
    if (const errc e = validate_forward(x, t, y); e != errc::ok) return e;
    if (const errc e = validate_tensor(w, t->w); e != errc::ok) return e;
    if (overlaps_source(y, w)) return errc::overlap;
    if (const errc e = amax(w, key, t->w); e != errc::ok) return e;
    if (const errc e = quantize(w, key, &t->w); e != errc::ok) return e;
    return forward(x, key, t, y);
  }

  /// amax, quantize, dgrad and wgrad, after forward() under the same key. Errors: those of the steps; dX, dW,
  /// and *t with what it views, are then untouched, unless CUDA failed.
  template <class Source, class D, class G>
  FOURSCALE_H errc backward(Source const& dy, draw_key const& key, tensors* t, matrix_view<D> const& dx,
                            matrix_view<G> const& dw, float beta) const {
    if (const errc e = validate_backward(dy, key, t, dx, dw); e != errc::ok) return e;
    if (const errc e = amax(dy, key, t->dy); e != errc::ok) return e;
    if (const errc e = quantize(dy, key, &t->dy); e != errc::ok) return e;
    if (const errc e = dgrad(*t, dx); e != errc::ok) return e;
    return wgrad(*t, dw, beta);
  }

  /// What forward() and backward() can know to be wrong before they write anything.
  template <class Source, class Y>
  FOURSCALE_H errc validate_forward(Source const& x, tensors const* t, matrix_view<Y> const& y) const {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate_tensor(x, t->x); e != errc::ok) return e;
    if (const errc e = machine.validate(t->x.rowwise, t->w.rowwise, y); e != errc::ok) return e;
    return overlaps_source(y, x) ? errc::overlap : errc::ok;
  }
  template <class Source, class D, class G>
  FOURSCALE_H errc validate_backward(Source const& dy, draw_key const& key, tensors const* t,
                                     matrix_view<D> const& dx, matrix_view<G> const& dw) const {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate_tensor(dy, t->dy); e != errc::ok) return e;
    if (!(t->x.signs == t->dy.signs_under(key))) return errc::other_signs;
    if (const errc e = machine.validate(t->dy.rowwise, t->w.columnwise, dx); e != errc::ok) return e;
    if (const errc e = machine.validate(t->dy.columnwise, t->x.columnwise, dw); e != errc::ok) return e;
    const bool overlaps = overlaps_source(dx, dw) || overlaps_source(dw, dy) || overlaps_source(dx, dy);
    return overlaps ? errc::overlap : errc::ok;
  }

  /// The most that one of the three GEMMs works in.
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

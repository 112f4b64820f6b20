// SPDX-License-Identifier: Apache-2.0
// grouped_linear_steps: linear layers of one shape whose tokens are packed rows, such as the experts of an
// MoE layer. Shared by host (linear_host.hpp) and device (linear.cuh), as linear_steps.hpp is.
#pragma once

#include "../view/row_groups.hpp"
#include "linear_steps.hpp"

namespace FOURSCALE_NAMESPACE {

/// The tensors of `count` experts: an array that the caller owns and place() fills.
template <class Tensors>
struct linear_experts {
  Tensors* data = nullptr;
  i64 count = 0;
};

namespace detail {

/// `count` rows of m from `first` on.
template <class T>
FOURSCALE_H matrix_view<T> rows_of(matrix_view<T> const& m, i64 first, i64 count) {
  return {m.data + first * m.ld, count, m.cols, m.ld};
}

/// The copies of X, W or dY of all experts. Each expert quantizes its own rows of `from`.
template <tensor_role Role, class Tensors, class T>
struct copies_of_experts {
  linear_experts<Tensors> t;
  matrix_view<T> from;
  draw_key key;

  FOURSCALE_H static constexpr auto member() {
    if constexpr (Role == tensor_role::activation)
      return &Tensors::x;
    else if constexpr (Role == tensor_role::weight)
      return &Tensors::w;
    else
      return &Tensors::dy;
  }
  FOURSCALE_H auto& to(i64 i) const { return t.data[i].*member(); }
  /// Calls action(expert, its rows, its key) for each expert that has rows, until one call fails.
  template <class Action>
  FOURSCALE_H errc each(Action const& action) const {
    i64 row = 0;
    for (i64 i = 0; i < t.count; ++i) {
      const i64 rows = to(i).rowwise.rows;
      if (rows > 0)
        if (const errc e = action(i, rows_of(from, row, rows), key.of_expert(static_cast<u32>(i)));
            e != errc::ok)
          return e;
      row += rows;
    }
    return errc::ok;
  }
  /// Makes the copies of one expert, and the amaxes before.
  template <class Layer>
  FOURSCALE_H errc quantize(Layer const& layer, i64 i, matrix_view<T> const& x,
                            draw_key const& of_expert) const {
    const errc e = layer.amax(x, of_expert, to(i));
    return e != errc::ok ? e : layer.quantize(x, of_expert, &to(i));
  }
};

/// Which GEMM of a layer: Y = X * W^T, dX = dY * W, or dW = dY^T * X.
enum class linear_gemm : u8 { fprop, dgrad, wgrad };

/// One of these GEMMs for all experts: D = A * B^T + beta * D. Each expert writes its own rows of d.
template <linear_gemm Which, class Tensors, class T>
struct gemms_of_experts {
  static constexpr bool along_k = Which == linear_gemm::wgrad;  ///< sums run along the tokens
  linear_experts<Tensors> t;
  matrix_view<T> d;
  float beta;

  FOURSCALE_H auto a(i64 i) const {
    Tensors const& of = t.data[i];
    if constexpr (Which == linear_gemm::fprop) return of.x.rowwise;
    if constexpr (Which == linear_gemm::dgrad) return of.dy.rowwise;
    if constexpr (Which == linear_gemm::wgrad) return of.dy.columnwise;
  }
  FOURSCALE_H auto b(i64 i) const {
    Tensors const& of = t.data[i];
    if constexpr (Which == linear_gemm::fprop) return of.w.rowwise;
    if constexpr (Which == linear_gemm::dgrad) return of.w.columnwise;
    if constexpr (Which == linear_gemm::wgrad) return of.x.columnwise;
  }
  /// Calls action(expert, its first row of d) for each expert that has tokens, until one call fails.
  template <class Action>
  FOURSCALE_H errc each(Action const& action) const {
    i64 row = 0;
    for (i64 i = 0; i < t.count; ++i) {
      const i64 tokens = t.data[i].x.rowwise.rows;
      if (tokens > 0)
        if (const errc e = action(i, row); e != errc::ok) return e;
      row += along_k ? t.data[i].w.rowwise.rows : tokens;
    }
    return errc::ok;
  }
  /// The GEMM of one expert, by itself.
  template <class Machine>
  FOURSCALE_H errc multiply(Machine const& machine, i64 i, i64 row) const {
    return machine.gemm(a(i), b(i), rows_of(d, row, a(i).rows), {1.0f, beta}, t.data[i].gemm);
  }
  /// The GEMMs of all experts, one after the other.
  template <class Machine>
  FOURSCALE_H errc multiply_each(Machine const& machine) const {
    return each([&](i64 i, i64 row) { return multiply(machine, i, row); });
  }
};

/// The steps of a linear layer, each one call for all experts. X, Y, dY and dX hold the rows of one expert
/// after the other; rows behind those of the last expert are neither read nor written. W and dW are stacked:
/// expert e has the `out` rows from e * out on. Each expert has amaxes of its own and gets the bits of a
/// `Layer` by itself under key.of_expert(e).
///
/// An expert without tokens writes no Y and no dX; its dW is 0, or stays as it is where dW is added to. The
/// host must know how many tokens each expert has. The layer's machine quantizes and multiplies for all
/// experts: one after the other, or many at once.
template <class Layer>
struct grouped_linear_steps {
  using tensors = typename Layer::tensors;
  using format = typename Layer::format;
  using experts = linear_experts<tensors>;
  using layout = typename decltype(tensors{}.x.columnwise)::layout;
  static constexpr i64 block = format::block_size;

  Layer layer;

  /// The bytes that suffice for `count` experts with all.tokens tokens in total, or fewer, however the tokens
  /// are distributed; none where place() refuses the shape or the count.
  static FOURSCALE_H linear_bytes bytes(linear_shape const& all, i64 count) {
    if (validate_stack(all, count) != errc::ok) return {};
    const linear_bytes of_one = Layer::bytes(all);
    const i64 padding = scale_bytes<format, layout>(all.in, block) + 3 * linear_part;
    const i64 alone = Layer::gemm_bytes(all),
              together = decltype(Layer::machine)::template gemms_bytes<format>(all, count);
    return {count * of_one.weights, of_one.saved + count * padding,
            before_gemms(all, count) + (alone > together ? alone : together)};
  }

  /// Lays the tensors of groups.count experts into memories of bytes(all, groups.count), and writes their
  /// views to t[0] to t[groups.count - 1]. The offsets lie in host memory. Called again with other offsets,
  /// it leaves the quantized weights where they are.
  ///
  /// Errors: those of linear_layer::place() and of the groups; bad_offsets; partial_block for an expert whose
  /// tokens are no whole blocks (pad with rows of 0, which change nothing). The tensors are then untouched.
  static FOURSCALE_H errc place(linear_shape const& all, row_groups const& groups,
                                linear_memory const& weights, linear_memory const& saved,
                                linear_memory const& workspace, tensors* t) {
    if (t == nullptr) return errc::null_pointer;
    if (const errc e = validate(groups); e != errc::ok) return e;
    if (const errc e = validate_stack(all, groups.count); e != errc::ok) return e;
    if (const errc e = validate_offsets(groups, all.tokens); e != errc::ok) return e;
    for (i64 i = 0; i < groups.count; ++i)
      if (groups.offset(i + 1) % block != 0) return errc::partial_block;
    const linear_bytes need = bytes(all, groups.count);
    if (const errc e = validate_memories(weights, saved, workspace, need); e != errc::ok) return e;
    i64 saved_at = 0, workspace_at = 0;
    for (i64 i = 0; i < groups.count; ++i) {
      const linear_shape s{groups.offset(i + 1) - groups.offset(i), all.in, all.out};
      const linear_memory of_w = from(weights, i * (need.weights / groups.count));
      t[i] = {};
      const errc e = s.tokens == 0
                         ? t[i].w.place({block, all.in, all.out}, of_w)
                         : Layer::place(s, of_w, from(saved, saved_at), from(workspace, workspace_at), &t[i]);
      if (e != errc::ok) return e;
      t[i].gemm = from(workspace, before_gemms(all, groups.count));
      if (s.tokens > 0) saved_at += t[i].x.columnwise_bytes(s), workspace_at += tensors::before_gemm(s);
    }
    return errc::ok;
  }

  /// Y of each expert's X, under the weights that the expert already has: see linear_layer::forward().
  /// Errors: as there, and shape_mismatch for fewer rows than tokens; all outputs are then untouched, unless
  /// CUDA failed.
  template <class T, class Y>
  FOURSCALE_H errc forward(matrix_view<T> const& x, draw_key const& key, experts const& t,
                           matrix_view<Y> const& y) const {
    if (const errc e = validate_forward(x, t, y); e != errc::ok) return e;
    const errc e = quantize(copies_of_experts<tensor_role::activation, tensors, T>{t, x, key});
    return e != errc::ok ? e : multiply<linear_gemm::fprop>(t, y, 0.0f);
  }
  /// As above, but quantizes the weights of all experts first, also of experts without tokens.
  template <class T, class W, class Y>
  FOURSCALE_H errc forward(matrix_view<T> const& x, matrix_view<W> const& w, draw_key const& key,
                           experts const& t, matrix_view<Y> const& y) const {
    if (const errc e = validate_forward(x, t, y); e != errc::ok) return e;
    if (const errc e = validate_stacked(w, t); e != errc::ok) return e;
    if (overlaps_source(y, w)) return errc::overlap;
    const errc e = quantize(copies_of_experts<tensor_role::weight, tensors, W>{t, w, key});
    return e != errc::ok ? e : forward(x, key, t, y);
  }

  /// dX and dW of each expert's dY, after forward() under the same key: see linear_layer::backward(). `add`:
  /// adds to dW, as every microbatch but the first does. Errors: as for forward().
  template <class T, class D, class G>
  FOURSCALE_H errc backward(matrix_view<T> const& dy, draw_key const& key, experts const& t,
                            matrix_view<D> const& dx, matrix_view<G> const& dw, bool add) const {
    if (const errc e = validate_backward(dy, key, t, dx, dw); e != errc::ok) return e;
    if (const errc e = quantize(copies_of_experts<tensor_role::gradient, tensors, T>{t, dy, key});
        e != errc::ok)
      return e;
    const errc e = each(t, [&](i64 i, i64, i64 count) {
      const i64 out = t.data[i].w.rowwise.rows;
      return add || count > 0 ? errc::ok : layer.machine.clear(rows_of(dw, i * out, out));
    });
    if (e != errc::ok) return e;
    if (const errc failed = multiply<linear_gemm::dgrad>(t, dx, 0.0f); failed != errc::ok) return failed;
    return multiply<linear_gemm::wgrad>(t, dw, add ? 1.0f : 0.0f);
  }

 private:
  /// Rules for the shape of `count` experts: those of validate(), also for the stacked weights.
  static FOURSCALE_H errc validate_stack(linear_shape const& all, i64 count) {
    if (const errc e = validate(all, format::block_size); e != errc::ok) return e;
    if (count < 1) return errc::empty_matrix;
    return count >= dimension_limit ? errc::too_large : check_shape(count * all.out, all.in);
  }
  /// Bytes of the workspace that lie before the memory that GEMMs work in. The parts of experts follow one
  /// another, and each pads its scales by itself.
  static FOURSCALE_H i64 before_gemms(linear_shape const& all, i64 count) {
    const i64 scales = scale_bytes<format, layout>(1, all.in) + scale_bytes<format, layout>(1, all.out) +
                       scale_bytes<format, layout>(all.out, block);
    return tensors::before_gemm(all) + count * (round_up<i64>(scales, linear_part) + 6 * linear_part);
  }
  /// Quantizes X, W or dY of all experts.
  template <class Copies>
  FOURSCALE_H errc quantize(Copies const& all) const {
    return layer.machine.quantize_experts(layer, all);
  }
  template <linear_gemm Which, class T>
  FOURSCALE_H errc multiply(experts const& t, matrix_view<T> const& d, float beta) const {
    return layer.machine.gemms(gemms_of_experts<Which, tensors, T>{t, d, beta});
  }
  /// Calls action(expert, first row, rows) for all experts, until one call fails.
  template <class Action>
  static FOURSCALE_H errc each(experts const& t, Action action) {
    i64 first = 0;
    for (i64 i = 0; i < t.count; ++i) {
      const i64 count = t.data[i].x.rowwise.rows;
      if (const errc e = action(i, first, count); e != errc::ok) return e;
      first += count;
    }
    return errc::ok;
  }
  static FOURSCALE_H i64 tokens_of(experts const& t) {
    i64 sum = 0;
    for (i64 i = 0; i < t.count; ++i) sum += t.data[i].x.rowwise.rows;
    return sum;
  }

  /// Rules for packed rows: those of validate(); shape_mismatch for fewer rows than tokens; overlap with
  /// what the tensors of an expert view.
  template <class T>
  static FOURSCALE_H errc validate_packed(matrix_view<T> const& m, experts const& t) {
    if (t.data == nullptr) return errc::null_pointer;
    if (t.count < 1) return errc::empty_matrix;
    if (const errc e = validate(m); e != errc::ok) return e;
    return m.rows < tokens_of(t) ? errc::shape_mismatch : apart(m, t);
  }
  /// Rules for W or dW: as many rows as all experts together have outputs.
  template <class T>
  static FOURSCALE_H errc validate_stacked(matrix_view<T> const& m, experts const& t) {
    if (const errc e = validate(m); e != errc::ok) return e;
    auto const& first = t.data[0].w.rowwise;
    for (i64 i = 0; i < t.count; ++i) {
      auto const& w = t.data[i].w.rowwise;
      if (w.rows != first.rows || w.cols != first.cols) return errc::shape_mismatch;
    }
    if (m.rows != t.count * first.rows || m.cols != first.cols) return errc::shape_mismatch;
    return apart(m, t);
  }
  template <class T>
  static FOURSCALE_H errc apart(matrix_view<T> const& m, experts const& t) {
    for (i64 i = 0; i < t.count; ++i)
      if (overlaps_layer(m, t.data[i])) return errc::overlap;
    return errc::ok;
  }

  template <class T, class Y>
  FOURSCALE_H errc validate_forward(matrix_view<T> const& x, experts const& t,
                                    matrix_view<Y> const& y) const {
    if (const errc e = validate_packed(x, t); e != errc::ok) return e;
    if (const errc e = validate_packed(y, t); e != errc::ok) return e;
    if (overlaps_source(y, x)) return errc::overlap;
    return each(t, [&](i64 i, i64 first, i64 count) {
      if (count == 0) return validate(t.data[i].w.rowwise);
      return layer.fits_forward(rows_of(x, first, count), t.data + i, rows_of(y, first, count));
    });
  }
  template <class T, class D, class G>
  FOURSCALE_H errc validate_backward(matrix_view<T> const& dy, draw_key const& key, experts const& t,
                                     matrix_view<D> const& dx, matrix_view<G> const& dw) const {
    if (const errc e = validate_packed(dy, t); e != errc::ok) return e;
    if (const errc e = validate_packed(dx, t); e != errc::ok) return e;
    if (const errc e = validate_stacked(dw, t); e != errc::ok) return e;
    if (overlaps_source(dx, dw) || overlaps_source(dw, dy) || overlaps_source(dx, dy)) return errc::overlap;
    return each(t, [&](i64 i, i64 first, i64 count) {
      if (count == 0) return errc::ok;
      const i64 out = t.data[i].w.rowwise.rows;
      return layer.fits_backward(rows_of(dy, first, count), key.of_expert(static_cast<u32>(i)), t.data + i,
                                 rows_of(dx, first, count), rows_of(dw, i * out, out));
    });
  }
};

}  // namespace detail

}  // namespace FOURSCALE_NAMESPACE

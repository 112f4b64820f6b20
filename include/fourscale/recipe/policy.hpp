// SPDX-License-Identifier: Apache-2.0
// precision_policy: which linear layers of a model are quantized, by which recipe, and when. The four
// meanings of "the NVFP4 recipe" differ here.
#pragma once

#include "operand.hpp"

namespace FOURSCALE_NAMESPACE {

/// The part of a model that a linear layer belongs to. Embeddings, logits and the attention products
/// themselves are never quantized.
enum class layer_kind : u8 { attention, mlp };

/// Which GEMMs a precision switch returns to BF16.
enum class switch_scope : u8 { none, forward, both };

/// The recipe for a model: a linear_recipe, and which layers and steps use it. Layers are counted from 0; a
/// step is an optimizer step.
struct precision_policy {
  linear_recipe linear;
  i32 first_in_bf16 = 0, last_in_bf16 = 0;  ///< transformer layers at either end that stay in BF16
  i32 last_percent_in_bf16 = 0;             ///< the last layers as a share of all, rounded up
  bool attention = true;                    ///< false: q, k, v and output projections stay in BF16
  bool mlp = true;
  switch_scope switched = switch_scope::none;  ///< from switch_step on (arXiv 2509.25149, appendix D)
  i64 switch_step = 0;

  friend FOURSCALE_H constexpr bool operator==(precision_policy const&, precision_policy const&) = default;

  /// The recipe of the linear layers of `kind` in transformer layer `layer` of `layers`, at `step`.
  FOURSCALE_H constexpr linear_recipe at(layer_kind kind, i32 layer, i32 layers, i64 step) const {
    const i32 share = static_cast<i32>(ceil_div<i64>(i64{layers} * last_percent_in_bf16, 100));
    const i32 last = last_in_bf16 > share ? last_in_bf16 : share;
    if (!(kind == layer_kind::attention ? attention : mlp)) return {};
    if (layer < first_in_bf16 || layer >= layers - last) return {};
    linear_recipe r = linear;
    if (switched != switch_scope::none && step >= switch_step) {
      r.fprop = {};
      if (switched == switch_scope::both) r = {};
    }
    return r;
  }
};

}  // namespace FOURSCALE_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The random numbers of a training step: which stream each copy of each tensor draws from, and the signs of
// each GEMM's Hadamard transform. `draw_key` gives both.
#pragma once

#include "../rounding/philox.hpp"
#include "../transform/signs.hpp"

namespace FOURSCALE_NAMESPACE {

/// The tensors of a linear layer.
enum class tensor_role : u8 { activation, weight, gradient };

/// Names a linear layer at a step. All of the layer's random bits are a function of the key, so a step that
/// is run again rounds the same way. Limits: layer < 4096, microbatch < 65536, step < 2^32, GEMM < 4; beyond
/// them streams repeat.
struct draw_key {
  u64 seed = 0;
  u32 layer = 0;
  u64 step = 0;
  u32 microbatch = 0;

  friend FOURSCALE_H constexpr bool operator==(draw_key const&, draw_key const&) = default;

  /// The stream for rounding the elements of a copy. No two copies share a stream, so their errors are
  /// independent.
  FOURSCALE_HD constexpr philox<> elements(tensor_role role, bool columnwise) const {
    return {seed, stream(static_cast<u32>(role) * 2 + columnwise)};
  }
  /// The stream for rounding the block scales of a copy.
  FOURSCALE_HD constexpr philox<> scales(tensor_role role, bool columnwise) const {
    return {seed, stream(6 + static_cast<u32>(role) * 2 + columnwise)};
  }
  /// The signs of one GEMM's Hadamard transform. Both operands have the same signs, or the transforms would
  /// not cancel. `gemm` is 0, 1, 2 for fprop, dgrad, wgrad.
  FOURSCALE_HD constexpr sign_vector signs(u32 gemm) const {
    const u64 s = stream(12 + (gemm & 3u));
    const philox_words w = philox4x32(0, 0, static_cast<u32>(s), static_cast<u32>(s >> 32), seed);
    return {u64{w.words[1]} << 32 | w.words[0], u64{w.words[3]} << 32 | w.words[2]};
  }

  /// The key of expert number `e` of this layer: that of a layer under another seed, of 64 bits that are
  /// drawn from the layer's. Layers and experts share a seed only by chance.
  FOURSCALE_HD constexpr draw_key of_expert(u32 e) const {
    const philox_words w = philox4x32(e, ~0u, ~0u, ~0u, seed);
    return {u64{w.words[1]} << 32 | w.words[0], layer, step, microbatch};
  }

 private:
  FOURSCALE_HD constexpr u64 stream(u32 use) const {
    return (step & 0xffff'ffffu) << 32 | u64{microbatch & 0xffffu} << 16 | u64{layer & 0xfffu} << 4 | use;
  }
};

}  // namespace FOURSCALE_NAMESPACE

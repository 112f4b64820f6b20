// SPDX-License-Identifier: Apache-2.0
// Quantizes a block, or several at once, by one thread, with the bits of fourscale::quantize_block(): that is
// the definition. Policies that have a fast form (docs/pipeline.md) are called by it. A fast form takes no
// NaN and says whether its result is valid; if not, the block is computed again by the definition.
#pragma once

#include "../block/quantize.hpp"
#include "column_pair.cuh"

namespace FOURSCALE_NAMESPACE::cta {

namespace detail {
template <class Policy>
FOURSCALE_H auto prepared_policy(Policy const& policy) {
  if constexpr (requires { policy.prepared(); })
    return policy.prepared();
  else
    return policy;
}
}  // namespace detail

/// The form of a quantizer that kernels should take. Policies that have a member prepared() compute there,
/// once and on the host, what every thread would compute from their parameters.
template <class Quantizer>
FOURSCALE_H auto prepared(Quantizer const& q) {
  return quantizer{detail::prepared_policy(q.round), detail::prepared_policy(q.scale),
                   detail::prepared_policy(q.transform)};
}

/// The result of a fast form. It holds only if `valid`.
template <class F>
struct attempt {
  packed_block<F> block;
  bool valid;
};

namespace detail {

template <bool Value>
struct boolean {
  static constexpr bool value = Value;
};

/// True if the quantizer has no transform.
template <class Quantizer>
inline constexpr bool is_plain = same_type<decltype(Quantizer::transform), identity>;

/// True if blocks of F go by a fast form: E2M1 in multiples of 16 values, under a rounding policy that has a
/// fast form, and a scaling policy that needs only the amax, or that weighs and has a fast form.
template <class F, class Quantizer>
inline constexpr bool offers_fast_form =
    F::block_size % 16 == 0 &&
    fast_rounding_policy<decltype(Quantizer::round)>&& same_type<typename F::element, e2m1> &&
    (amax_scaling_policy<decltype(Quantizer::scale), F> ||
     fast_weighing_scaling_policy<decltype(Quantizer::scale), F>);
/// True if this compiler pass has that form, too. Passes differ: read it in function bodies only, like the
/// flags of arch::.
template <class F, class Quantizer>
FOURSCALE_HD constexpr bool has_fast_form() {
  return FOURSCALE_DEVICE_PASS >= 800 && offers_fast_form<F, Quantizer>;
}

/// Sixteen values of a block as the fast form of a rounding policy reads them, see fast_rounding_policy.
/// `Limit`: magnitude() lowers large magnitudes to 6.875 times the unit.
template <class Round, bool Limit, class Block>
struct scaled_values {
  Block const& block;
  int first;
  float multiplier;  ///< of the block, times Round::fast_unit()

  FOURSCALE_D float value(int i) const { return ptx::mul_rn_f32(block.value(first + i), multiplier); }
  FOURSCALE_D float magnitude(int i) const {
    const float y = ptx::mul_rn_f32(fabsf(block.value(first + i)), multiplier);
    return Limit ? fminf(y, 6.875f * Round::fast_unit()) : y;
  }
  FOURSCALE_D float saturated(int i) const {
    return ptx::mul_rn_sat_f32(fabsf(block.value(first + i)), multiplier);
  }
  FOURSCALE_D u32 signs(int i) const { return block.signs(first + i); }
};

/// The codes of a block under a known multiplier, by the fast form of the rounding policy.
template <class F, bool Limit, class Block, class Round>
FOURSCALE_D void round_fast(Block const& block, float multiplier, Round const& round, position where,
                            u8 (&codes)[block_code_bytes<F>]) {
  const float to_units = ptx::mul_rn_f32(multiplier, Round::fast_unit());  // exact, see choose_fast()
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; i += 16) {
    u32 words[2];
    round.fast(scaled_values<Round, Limit, Block>{block, i, to_units}, where.right(i), words);
    FOURSCALE_UNROLL
    for (int j = 0; j < 8; ++j) codes[i / 2 + j] = static_cast<u8>(words[j / 4] >> (8 * (j % 4)));
  }
}

/// The scale chosen for a block. `valid`: the fast form holds, and no value is NaN. `over`: the largest
/// scaled magnitude is 7 or more, which a rounding policy with fast_limited() does not take.
template <class F>
struct scale_choice {
  typename F::scale scale;
  float multiplier;
  bool valid, over;

  FOURSCALE_D scale_choice() {}
  FOURSCALE_D scale_choice(fast_block_scale<F> const& s, float amax_or_nan)
      : scale(s.scale),
        multiplier(s.multiplier),
        valid(s.valid && amax_or_nan == amax_or_nan),
        over(!(ptx::mul_rn_f32(amax_or_nan, s.multiplier) < 7.0f)) {}

  /// What magnitudes are lowered to before they are scaled: between 6.8 and 6.9 after scaling, even once the
  /// limit is rounded down to bf16. Infinity if they need not be lowered.
  FOURSCALE_D float limit() const {
    return over ? ptx::rcp_approx_ftz_f32(0.25f * multiplier) * (0.25f * 6.875f)
                : bit_cast<float>(float_inf_bits);
  }
};

/// The scale of a block under a policy that needs only the amax: by its fast form, or else by its definition.
/// Multipliers of at least 2^-100 keep products with units exact.
template <class F, class Scale>
FOURSCALE_D scale_choice<F> choose_fast(float amax_or_nan, Scale const& scale, tensor_scale<F> const& tensor,
                                        position where) {
  if constexpr (fast_amax_scaling_policy<Scale, F>) {
    return {scale.fast(F{}, amax_or_nan, tensor), amax_or_nan};
  } else {
    const block_scale<F> s = scale_for<F>(scale, amax_or_nan, tensor, where);
    return {{s.scale, s.multiplier, s.multiplier >= 0x1p-100f}, amax_or_nan};
  }
}

/// A transform with a fast form, sums(), for 16-bit values; see prepared_hadamard.
template <class Transform, class Block>
concept fast_transform = requires(Transform const t, Block block, float (&x)[16]) {
  t.sums(block, x);
};

/// True if the quantizer applies its transform to such a block by the fast form.
template <class Quantizer, class Block>
inline constexpr bool transforms_fast =
    fast_transform<decltype(Quantizer::transform), Block>&& is_packed<decltype(Block{}.get(0))>;

/// The values that are quantized: those of the block, or of its transform.
template <class F, class Quantizer, class Block>
FOURSCALE_D auto transformed(Block const& block, Quantizer const& q) {
  constexpr int n = F::block_size;
  if constexpr (is_plain<Quantizer>) {
    return block;
  } else {
    float x[n];
    if constexpr (transforms_fast<Quantizer, Block>) {
      q.transform.sums(block, x);
      return values<bf16, n>::rounded(x);
    } else {
      block.to_floats(x);
      q.transform(x);
      return values<float, n>::rounded(x);
    }
  }
}

/// True if magnitudes are lowered in words, two bf16 values at a time, before they become floats.
template <class F, class Quantizer, class Y>
inline constexpr bool lowers_words =
    decltype(Quantizer::round)::fast_limited() && same_type<Y, values<bf16, F::block_size>>;

/// Rounds a block under its chosen scale. If lowers_words, the caller has already lowered its magnitudes
/// where needed; otherwise they are lowered here.
template <class F, class Y, class Quantizer>
FOURSCALE_D attempt<F> round_chosen(Y const& y, scale_choice<F> const& chosen, Quantizer const& q,
                                    position where) {
  constexpr bool limit = decltype(q.round)::fast_limited() && !lowers_words<F, Quantizer, Y>;
  attempt<F> result{{chosen.scale, {}}, chosen.valid};
  round_fast<F, limit>(y, chosen.multiplier, q.round, where, result.block.codes);
  return result;
}

/// Several blocks under a policy that needs only amaxes. If magnitudes are lowered in words, all scales are
/// chosen first, and one branch lowers all blocks if any needs it. Otherwise each block is finished before
/// the next.
template <class F, int Count, class Y, class Quantizer, class Tensor, class Where, class Take>
FOURSCALE_D void quantize_by_amax(Y (&y)[Count], Quantizer const& q, Tensor tensor, Where where, Take take) {
  const auto choose = [&](int i) { return choose_fast<F>(y[i].amax_or_nan(), q.scale, tensor(i), where(i)); };
  if constexpr (!lowers_words<F, Quantizer, Y>) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i) take(i, round_chosen<F>(y[i], choose(i), q, where(i)));
  } else {
    scale_choice<F> chosen[Count];
    bool over = false;
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i) {
      chosen[i] = choose(i);
      over |= chosen[i].over;
    }
    if (over) {
      FOURSCALE_UNROLL
      for (int i = 0; i < Count; ++i) y[i].lower_to(chosen[i].limit());
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i) take(i, round_chosen<F>(y[i], chosen[i], q, where(i)));
  }
}

/// A block under a policy that weighs two candidate scales. `Clamped`: a scaled value may reach 7, so the
/// policy clamps values to the grid, and large magnitudes are lowered before rounding.
template <bool Clamped, class F, class Y, class Quantizer>
FOURSCALE_D attempt<F> round_weighed(Y& y, fast_candidates<F> const& candidates, float amax,
                                     Quantizer const& q, tensor_scale<F> const& tensor, position where) {
  const scale_choice<F> chosen(q.scale.template fast<Clamped>(F{}, y, candidates, tensor), amax);
  if constexpr (Clamped && lowers_words<F, Quantizer, Y>) y.lower_to(chosen.limit());
  return round_chosen<F>(y, chosen, q, where);
}

/// Several blocks under a policy that weighs two candidate scales. If values of any block of the warp reach 7
/// under either candidate, all blocks of the warp take the clamped form.
template <class F, int Count, class Y, class Quantizer, class Tensor, class Where, class Take>
FOURSCALE_D void quantize_by_weight(Y (&y)[Count], Quantizer const& q, Tensor tensor, Where where,
                                    Take take) {
  fast_candidates<F> candidates[Count];
  float amax[Count];
  bool on_grid = true;
  FOURSCALE_UNROLL
  for (int i = 0; i < Count; ++i) {
    amax[i] = y[i].amax_or_nan();
    candidates[i] = q.scale.fast_candidates_of(F{}, amax[i], tensor(i));
    on_grid = on_grid && ptx::mul_rn_f32(amax[i], candidates[i].largest_multiplier()) < 7.0f;
  }
  if (__all_sync(__activemask(), on_grid)) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i)
      take(i, round_weighed<false>(y[i], candidates[i], amax[i], q, tensor(i), where(i)));
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i)
      take(i, round_weighed<true>(y[i], candidates[i], amax[i], q, tensor(i), where(i)));
  }
}

}  // namespace detail

/// Quantizes a block by the definition. Without a transform, the amax is that of the packed values, which has
/// the same bits.
template <block_format F, class Block, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_by_definition(Block const& block, Quantizer const& q,
                                                   tensor_scale<F> const& tensor, position where) {
  float x[F::block_size];
  block.to_floats(x);
  if constexpr (detail::is_plain<Quantizer> && amax_scaling_policy<decltype(q.scale), F>) {
    const block_scale<F> scaled = scale_for<F>(q.scale, block.amax(), tensor, where);
    packed_block<F> packed{scaled.scale, {}};
    round_block<F>(x, scaled.multiplier, q.round, where, packed.codes);
    return packed;
  } else {
    return fourscale::quantize_block<F>(x, q, tensor, where);
  }
}

/// Quantizes several blocks by one thread: by the fast form if there is one, else by the definition.
/// tensor(i) and where(i) are the tensor scale and the position of block i. Each result goes to take(i,
/// attempt), in order. The results of blocks that are not there mean nothing.
template <block_format F, int Count, class Block, quantizer_for<F> Quantizer, class Tensor, class Where,
          class Take>
FOURSCALE_D void try_quantize_blocks(Block const (&blocks)[Count], Quantizer const& q, Tensor tensor,
                                     Where where, Take take) {
  if constexpr (!detail::has_fast_form<F, Quantizer>()) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i)
      take(i, attempt<F>{quantize_by_definition<F>(blocks[i], q, tensor(i), where(i)), true});
  } else {
    decltype(detail::transformed<F>(blocks[0], q)) y[Count];
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i) y[i] = detail::transformed<F>(blocks[i], q);
    if constexpr (amax_scaling_policy<decltype(q.scale), F>)
      detail::quantize_by_amax<F>(y, q, tensor, where, take);
    else
      detail::quantize_by_weight<F>(y, q, tensor, where, take);
  }
}

template <class Block>
struct two_of {
  Block blocks[2];
};

/// Quantizes both columns of a pair; column i begins at where[i].
template <block_format F, class T, quantizer_for<F> Quantizer, class Tensor>
FOURSCALE_D void try_quantize_pair(column_pair<T, F::block_size> const& columns, Quantizer const& q,
                                   Tensor tensor, position const (&where)[2], attempt<F> (&results)[2]) {
  constexpr int n = F::block_size;
  using block = column_block<T, n>;
  if constexpr (detail::has_fast_form<F, Quantizer>() && detail::is_plain<Quantizer> && same_type<T, bf16> &&
                amax_scaling_policy<decltype(q.scale), F>) {
    detail::scale_choice<F> chosen[2];
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i)
      chosen[i] = detail::choose_fast<F>(block{&columns, i}.amax_or_nan(), q.scale, tensor(i), where[i]);
    column_pair<T, n> lowered = columns;
    if (decltype(q.round)::fast_limited() && (chosen[0].over || chosen[1].over))
      lowered.lower_to(chosen[0].limit(), chosen[1].limit());
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i) {
      results[i] = {{chosen[i].scale, {}}, chosen[i].valid};
      detail::round_fast<F, false>(block{&lowered, i}, chosen[i].multiplier, q.round, where[i],
                                   results[i].block.codes);
    }
  } else {
    using weighed = values<T, n>;  // weighing lowers columns one by one
    constexpr bool weighs = !amax_scaling_policy<decltype(q.scale), F> && detail::is_plain<Quantizer>;
    const auto both = [&] {
      if constexpr (weighs)
        return two_of<weighed>{{block{&columns, 0}.to_values(), block{&columns, 1}.to_values()}};
      else
        return two_of<block>{{{&columns, 0}, {&columns, 1}}};
    }();
    try_quantize_blocks<F>(
        both.blocks, q, tensor, [&](int i) { return where[i]; },
        [&](int i, attempt<F> const& result) { results[i] = result; });
  }
}

namespace detail {

/// A block whose codes are in words. If they were in bytes, the compiler would move them one by one where two
/// branches meet.
template <class F>
struct block_in_words {
  u32 codes[block_code_bytes<F> / 4] = {};
  u32 scale;
  float amax;

  FOURSCALE_D block_in_words(packed_block<F> const& block, float a) : scale(block.scale.bits), amax(a) {
    FOURSCALE_UNROLL
    for (int i = 0; i < block_code_bytes<F>; ++i) codes[i / 4] |= u32{block.codes[i]} << (8 * (i % 4));
  }
  FOURSCALE_D packed_block<F> packed() const {
    packed_block<F> block{{static_cast<decltype(F::scale::bits)>(scale)}, {}};
    FOURSCALE_UNROLL
    for (int i = 0; i < block_code_bytes<F>; ++i)
      block.codes[i] = static_cast<u8>(codes[i / 4] >> (8 * (i % 4)));
    return block;
  }
};

/// The block by the definition, and its amax. Not inlined: few blocks need it, and it must not cost the
/// others registers.
template <class F, class Block, class Quantizer>
__device__ __noinline__ block_in_words<F> quantize_again(Block block, Quantizer q, tensor_scale<F> tensor,
                                                         position where) {
  return {quantize_by_definition<F>(block, q, tensor, where), block.amax()};
}

}  // namespace detail

/// Quantizes one block by one thread, for kernels of your own. `q` may be prepared() or not. `tensor` and
/// `where` are those of fourscale::quantize_block(). Raises `largest` to the largest magnitude of x, as
/// fourscale::block_amax() gives it; found here it costs less than by itself.
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(values<T, F::block_size> const& x, Quantizer const& q,
                                           tensor_scale<F> const& tensor, position where, float& largest) {
  if constexpr (!detail::has_fast_form<F, Quantizer>()) {
    largest = fmaxf(largest, x.amax());
    return quantize_by_definition<F>(x, q, tensor, where);
  } else {
    attempt<F> result;
    const values<T, F::block_size> one[1] = {x};
    try_quantize_blocks<F>(
        one, q, [&](int) { return tensor; }, [&](int) { return where; },
        [&](int, attempt<F> const& made) { result = made; });
    // The compiler sees that it has computed this amax before.
    detail::block_in_words<F> words(result.block, x.amax_or_nan());
    if (!result.valid) words = detail::quantize_again<F>(x, q, tensor, where);
    largest = fmaxf(largest, words.amax);
    return words.packed();
  }
}
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(values<T, F::block_size> const& x, Quantizer const& q,
                                           tensor_scale<F> const& tensor, position where = {}) {
  float unused = 0.0f;
  return quantize_block<F>(x, q, tensor, where, unused);
}

}  // namespace FOURSCALE_NAMESPACE::cta

// SPDX-License-Identifier: Apache-2.0
// One block by one thread: the bits of fourscale::quantize_block(), by the fast forms of its policies where they
// have one. A fast form takes no NaN and says where its result does not hold; such blocks are done again by the
// definition.
#pragma once

#include "../block/quantize.hpp"
#include "column_pair.cuh"

namespace fourscale::cta {

namespace detail {
template <class Policy>
auto prepared_policy(Policy const& policy) {
  if constexpr (requires { policy.prepared(); })
    return policy.prepared();
  else
    return policy;
}
}  // namespace detail

/// A quantizer as kernels should take it: what every thread would make of its parameters is made once, on the
/// host, by the member prepared() of those policies that have one.
template <class Quantizer>
auto prepared(Quantizer const& q) {
  return quantizer{detail::prepared_policy(q.round), detail::prepared_policy(q.scale),
                   detail::prepared_policy(q.transform)};
}

/// A result that holds only if `valid`.
template <class F>
struct attempt {
  packed_block<F> block;
  bool valid;
};

namespace detail {

template <class Quantizer>
inline constexpr bool is_plain = __is_same(decltype(Quantizer::transform), identity);

/// Do all policies have a fast form for blocks of F?
template <class F, class Quantizer>
inline constexpr bool offers_fast_form =
    __is_same(typename F::element, e2m1) && F::block_size % 16 == 0 &&
    fast_rounding_policy<decltype(Quantizer::round)> &&
    (amax_scaling_policy<decltype(Quantizer::scale), F> ||
     fast_weighing_scaling_policy<decltype(Quantizer::scale), F>);
/// And does this pass have it? Differs between passes: read it as arch:: is.
template <class F, class Quantizer>
FOURSCALE_HD constexpr bool has_fast_form() {
  return FOURSCALE_DEVICE_PASS >= 800 && offers_fast_form<F, Quantizer>;
}

/// Sixteen values of a block as a rounding policy's fast form reads them. `Limit`: magnitudes are lowered here.
template <class Round, bool Limit, class Block>
struct scaled_values {
  Block const& block;
  int first;
  float multiplier;  ///< of the block, times the unit

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

/// The codes of a block, whose values are given over `block_unit`.
template <class F, bool Limit, class Block, class Round>
FOURSCALE_D void round_fast(Block const& block, float block_unit, float multiplier, Round const& round,
                            position where, u8 (&codes)[block_code_bytes<F>]) {
  const float to_units = ptx::mul_rn_f32(multiplier, Round::fast_unit() * block_unit);  // exact
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; i += 16) {
    u32 words[2];
    round.fast(scaled_values<Round, Limit, Block>{block, i, to_units}, where.right(i), words);
    FOURSCALE_UNROLL
    for (int j = 0; j < 8; ++j) codes[i / 2 + j] = static_cast<u8>(words[j / 4] >> (8 * (j % 4)));
  }
}

/// The scale of a block of values that is no NaN; `over`: its largest values are 7 codes or more.
template <class F>
struct scale_choice {
  typename F::scale scale;
  float multiplier;
  bool valid, over;

  /// What magnitudes are lowered to: between 6.8 and 6.9 codes once it is rounded down to bf16.
  FOURSCALE_D float limit() const {
    return over ? ptx::rcp_approx_ftz_f32(0.25f * multiplier) * (0.25f * 6.875f)
                : bit_cast<float>(float_inf_bits);
  }
};

/// Multipliers of at least 2^-100 keep products with units exact.
template <class F, class Block, class Scale>
FOURSCALE_D scale_choice<F> choose_fast(Block const& block, float amax_or_nan, Scale const& scale,
                                        tensor_scale<F> const& tensor, position where) {
  fast_block_scale<F> s{};
  if constexpr (fast_weighing_scaling_policy<Scale, F>) {
    s = scale.fast(F{}, block, amax_or_nan, tensor);
  } else if constexpr (fast_amax_scaling_policy<Scale, F>) {
    s = scale.fast(F{}, amax_or_nan, tensor);
  } else {
    const block_scale<F> of_definition = scale_for<F>(scale, amax_or_nan, tensor, where);
    s = {of_definition.scale, of_definition.multiplier, of_definition.multiplier >= 0x1p-100f};
  }
  return {s.scale, s.multiplier, s.valid && amax_or_nan == amax_or_nan,
          !(ptx::mul_rn_f32(amax_or_nan, s.multiplier) < 7.0f)};
}

/// True if a value other than 0 is less than 2^-124: if not all are 0.
template <int N>
FOURSCALE_D bool has_tiny(values<bf16, N> const& block) {
  constexpr u32 zero = 0x7f81, least = 0x0180;  // 0 becomes NaN, which loses; the smallest become the largest
  u32 most = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < block.count; ++i)
    most = larger_magnitudes<bf16, false>(most, zero * 0x1'0001u - (block.words[i] & 0x7fff'7fffu));
  return (larger_magnitudes<bf16, false>(most, most >> 16) & 0x7fffu) > zero - least;
}

/// A transform with a fast form for 16-bit values, see prepared_hadamard.
template <class Transform, class Block>
concept fast_transform = requires(Transform const t, Block block, float (&x)[16]) {
  float{Transform::factor};
  t.sums_over_factor(block, x);
};

/// Is a transform taken by its fast form?
template <class Quantizer, class Block>
inline constexpr bool transforms_fast = fast_transform<decltype(Quantizer::transform), Block> &&
                                        is_packed<decltype(Block{}.get(0))>;

/// In what unit transformed() gives the values of a block: the transform's first factor, if the scale asks for
/// no more than their amax.
template <class F, class Quantizer, class Block>
FOURSCALE_HD constexpr float transformed_unit() {
  if constexpr (transforms_fast<Quantizer, Block> && amax_scaling_policy<decltype(Quantizer::scale), F>)
    return decltype(Quantizer::transform)::factor;
  else
    return 1.0f;
}

/// The values that are quantized, over their unit. Where sums_over_factor() rounds otherwise than it should, the
/// fast form does not hold, or the codes are 0.
template <class F, class Quantizer, class Block>
FOURSCALE_D auto transformed(Block const& block, Quantizer const& q) {
  constexpr int n = F::block_size;
  float x[n];
  if constexpr (is_plain<Quantizer>) {
    return block;
  } else if constexpr (transforms_fast<Quantizer, Block>) {
    if constexpr (transformed_unit<F, Quantizer, Block>() == 1.0f)
      q.transform.sums(block, x);
    else
      q.transform.sums_over_factor(block, x);
    return values<bf16, n>::rounded(x);
  } else {
    block.to_floats(x);
    q.transform(x);
    return values<float, n>::rounded(x);
  }
}

/// A block between its transform and its codes.
template <class F, class Y>
struct pending {
  Y y;  ///< the values, over their unit
  scale_choice<F> chosen;
  bool may_be_tiny;

  static constexpr bool as_words = __is_same(Y, values<bf16, F::block_size>);
};

/// Chooses the scale of a block by the fast forms.
template <class F, class Quantizer, class Block>
FOURSCALE_D auto begin_fast(Block const& block, Quantizer const& q, tensor_scale<F> const& tensor,
                            position where) {
  constexpr float unit = transformed_unit<F, Quantizer, Block>();
  auto y = transformed<F>(block, q);
  const float of_y = y.amax_or_nan(), amax = unit == 1.0f ? of_y : ptx::mul_rn_f32(of_y, unit);
  pending<F, decltype(y)> p{y, choose_fast<F>(y, amax, q.scale, tensor, where), false};
  if constexpr (unit != 1.0f) {  // where only the factor keeps results finite, or makes them subnormal
    p.chosen.valid = p.chosen.valid && of_y <= float_max;
    p.may_be_tiny = p.chosen.multiplier >= 0x1p99f && of_y != 0.0f;
  }
  return p;
}
/// Is there more to do before it is rounded? So it is where a block lies far below the others.
template <class Quantizer, class Pending>
FOURSCALE_D bool is_rare(Pending const& p) {
  return (Pending::as_words && decltype(Quantizer::round)::fast_limited() && p.chosen.over) || p.may_be_tiny;
}
template <class Quantizer, class Pending>
FOURSCALE_D void do_rare(Pending& p, [[maybe_unused]] float unit) {
  if constexpr (Pending::as_words) {
    if (p.may_be_tiny && has_tiny(p.y)) p.chosen.valid = false;
    if (decltype(Quantizer::round)::fast_limited()) p.y.lower_to(p.chosen.limit() / unit);
  }
}
/// Its codes.
template <class F, class Y, class Quantizer>
FOURSCALE_D attempt<F> end_fast(pending<F, Y> const& p, float unit, Quantizer const& q, position where) {
  constexpr bool limit = decltype(q.round)::fast_limited() && !pending<F, Y>::as_words;
  attempt<F> result{{p.chosen.scale, {}}, p.chosen.valid};
  round_fast<F, limit>(p.y, unit, p.chosen.multiplier, q.round, where, result.block.codes);
  return result;
}

}  // namespace detail

/// The block by the definition.
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

/// Several blocks by the fast forms of all policies, if they have one; else by the definition. Results go to
/// `take(i, attempt)`, in order; those of blocks that are not there mean nothing.
template <block_format F, int Count, class Block, quantizer_for<F> Quantizer, class Tensor, class Where,
          class Take>
FOURSCALE_D void try_quantize_blocks(Block const (&blocks)[Count], Quantizer const& q, Tensor tensor,
                                     Where where, Take take) {
  if constexpr (!detail::has_fast_form<F, Quantizer>()) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i)
      take(i, attempt<F>{quantize_by_definition<F>(blocks[i], q, tensor(i), where(i)), true});
  } else {
    constexpr float unit = detail::transformed_unit<F, Quantizer, Block>();
    decltype(detail::begin_fast<F>(blocks[0], q, tensor(0), where(0))) pending[Count];
    bool rare = false;
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i) {
      pending[i] = detail::begin_fast<F>(blocks[i], q, tensor(i), where(i));
      rare |= detail::is_rare<Quantizer>(pending[i]);
    }
    if (rare) {
      FOURSCALE_UNROLL
      for (int i = 0; i < Count; ++i) detail::do_rare<Quantizer>(pending[i], unit);
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i) take(i, detail::end_fast<F>(pending[i], unit, q, where(i)));
  }
}

/// Both columns of a pair, each from a position of its own.
template <block_format F, class T, quantizer_for<F> Quantizer, class Tensor>
FOURSCALE_D void try_quantize_pair(column_pair<T, F::block_size> const& columns, Quantizer const& q,
                                   Tensor tensor, position const (&where)[2], attempt<F> (&results)[2]) {
  constexpr int n = F::block_size;
  using block = column_block<T, n>;
  if constexpr (detail::has_fast_form<F, Quantizer>() && detail::is_plain<Quantizer> && __is_same(T, bf16)) {
    detail::scale_choice<F> chosen[2];
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i)
      chosen[i] = detail::choose_fast<F>(block{&columns, i}, block{&columns, i}.amax_or_nan(), q.scale,
                                         tensor(i), where[i]);
    column_pair<T, n> lowered = columns;
    if (decltype(q.round)::fast_limited() && (chosen[0].over || chosen[1].over))
      lowered.lower_to(chosen[0].limit(), chosen[1].limit());
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i) {
      results[i] = {{chosen[i].scale, {}}, chosen[i].valid};
      detail::round_fast<F, false>(block{&lowered, i}, 1.0f, chosen[i].multiplier, q.round, where[i],
                                   results[i].block.codes);
    }
  } else {
    const block blocks[2] = {{&columns, 0}, {&columns, 1}};
    try_quantize_blocks<F>(
        blocks, q, tensor, [&](int i) { return where[i]; },
        [&](int i, attempt<F> const& result) { results[i] = result; });
  }
}

namespace detail {

/// A block whose codes are in words: where two ways meet, the compiler would carry bytes one by one.
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

/// As a call: blocks that need it are few, and must not cost the others registers.
template <class F, class Block, class Quantizer>
__device__ __noinline__ block_in_words<F> quantize_again(Block block, Quantizer q, tensor_scale<F> tensor,
                                                         position where) {
  return {quantize_by_definition<F>(block, q, tensor, where), block.amax()};
}

}  // namespace detail

/// The block, for kernels of your own. `q` as it is or prepared(); `tensor` and `where` as for
/// fourscale::quantize_block(). Raises `largest` to the largest magnitude of x, as fourscale::block_amax() gives
/// it, which costs less here than by itself.
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
    // The compiler sees that this amax was just found.
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

}  // namespace fourscale::cta

// SPDX-License-Identifier: Apache-2.0
// The extension module `_cpu` of fourscale_jax and of fourscale_torch: what Python asks about recipes at
// trace time and, for JAX, the FFI handlers. The same shared object also exports the calls, as C functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include "calls.hpp"
#include "copies.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace fourscale_jax;

/// The names of the presets. A call gets the index of one.
static nb::tuple recipes() {
  nb::list names;
  for (preset const& p : presets) names.append(p.name);
  return nb::tuple(names);
}

/// The number that a call gets for each format, by name.
static nb::dict formats() {
  nb::dict numbers;
  for (i32 i = 1;; ++i) {
    char const* const name = visit_format(static_cast<f4::format_name>(i), static_cast<char const*>(nullptr),
                                          []<class F>(F) { return F::name; });
    if (!name) return numbers;
    numbers[name] = i;
  }
}

/// The rule that this shape of a linear layer breaks, as a sentence, if it breaks one. All its dimensions
/// must be multiples of `block`.
static std::optional<char const*> refusal(i32 block, i64 tokens, i64 in, i64 out) {
  const errc e = validate(f4::linear_shape{tokens, in, out}, block);
  if (e == errc::ok) return std::nullopt;
  return message(e);
}

/// The fields of Python's class Copy, for one copy of a tensor under a preset.
template <class Copy>
nb::dict fields_of(Copy const& copy, f4::operand_recipe const& o, bool both) {
  using F = typename Copy::format;
  nb::dict to;
  to["format"] = F::name;
  to["block"] = F::block_size;
  to["code_bits"] = F::element::width;
  to["scale_bytes"] = f4::block_scale_bytes<F>;
  to["amax_count"] = Copy::amax_count;
  to["amax_at"] = Copy::amax_at;
  to["multiple"] = o.hadamard > F::block_size ? o.hadamard : F::block_size;
  to["rows"] = o.blocks == f4::block_kind::tiles ? F::block_size : 1;
  to["hadamard"] = o.hadamard;
  to["signs"] = o.signs == f4::sign_source::te_fixed ? f4::te_signs.words[0] : 0;
  to["draws"] = o.rounding == f4::rounding_rule::stochastic || o.scale == f4::scale_rule::ms_eden;
  to["delayed"] = o.amax == f4::amax_source::delayed;
  to["both"] = both;
  to["range"] = 0.0f;
  if constexpr (F::has_tensor_scale) to["range"] = range_of(copy).largest;
  return to;
}

/// fields_of() for a copy; nothing if the preset has no such copy.
static std::optional<nb::dict> describe(i32 which, i32 role, bool columnwise) {
  std::optional<nb::dict> to;
  static_cast<void>(visit_copy(which, role, columnwise, [&]<class Copy>(Copy const& copy) {
    const f4::operand_recipe o =
        operand_of(presets[which].policy.linear, static_cast<f4::tensor_role>(role), columnwise);
    to = fields_of(copy, o, is_linear(which));
    return errc::ok;
  }));
  return to;
}

/// Whether a linear layer of a model is quantized under a preset: `kind` 0 for attention, 1 for the MLP.
static bool quantizes(i32 which, i32 kind, i32 layer, i32 layers) {
  if (!is_preset(which)) return false;
  return presets[which].policy.at(static_cast<f4::layer_kind>(kind), layer, layers, 0) != f4::linear_recipe{};
}

#ifdef FOURSCALE_JAX_CPU
namespace fourscale_jax {
nb::dict handlers();  // of handlers.cpp
}
#endif

NB_MODULE(_cpu, m) {
  m.attr("recipes") = recipes();
  m.attr("formats") = formats();
  m.def("describe", describe, "recipe"_a, "role"_a, "columnwise"_a);
  m.def("quantizes", quantizes, "recipe"_a, "kind"_a, "layer"_a, "layers"_a);
  m.def("refusal", refusal, "block"_a, "tokens"_a, "in_"_a, "out"_a);
  // The sentence for an error that a call returned.
  m.def(
      "message", [](i32 e) { return message(static_cast<errc>(e)); }, "error"_a);
#ifdef FOURSCALE_JAX_CPU
  m.attr("handlers") = handlers();
#endif
}

// SPDX-License-Identifier: Apache-2.0
// describe(): a recipe or a policy as one readable line, for logs and error texts. Different recipes give
// different lines.
#pragma once

#include "policy.hpp"

namespace FOURSCALE_NAMESPACE {

/// A text in a fixed buffer, without allocation. A line that is too long is cut.
struct description {
  char text[1024] = {};
  int length = 0;

  FOURSCALE_H constexpr char const* c_str() const { return text; }

  FOURSCALE_H constexpr description& add(char const* s) {
    while (*s != '\0' && length + 1 < static_cast<int>(sizeof text)) text[length++] = *s++;
    return *this;
  }
  FOURSCALE_H constexpr description& add(i64 number) {
    char digits[24] = {};
    int at = 23;
    u64 left = number < 0 ? 0 - static_cast<u64>(number) : static_cast<u64>(number);
    do {
      digits[--at] = static_cast<char>('0' + left % 10);
      left /= 10;
    } while (left != 0);
    if (number < 0) digits[--at] = '-';
    return add(digits + at);
  }
};

/// The name of a value; "?" for a number that names nothing. name(format_name) and name(scale_rule) do the
/// same.
FOURSCALE_H constexpr char const* name(rounding_rule r) {
  switch (r) {
    case rounding_rule::nearest_even:
      return "nearest";
    case rounding_rule::stochastic:
      return "stochastic";
    case rounding_rule::te_software:
      return "te_software";
  }
  return "?";
}
FOURSCALE_H constexpr char const* name(sign_source s) {
  switch (s) {
    case sign_source::none:
      return "none";
    case sign_source::te_fixed:
      return "te";
    case sign_source::drawn:
      return "drawn";
  }
  return "?";
}
FOURSCALE_H constexpr char const* name(amax_source a) {
  switch (a) {
    case amax_source::current:
      return "current";
    case amax_source::delayed:
      return "delayed";
    case amax_source::fixed:
      return "fixed";
    case amax_source::per_row:
      return "per_row";
    case amax_source::percentile:
      return "percentile";
  }
  return "?";
}

namespace detail {

/// Prints the format, the block shape, and whatever else differs from the plainest operand.
FOURSCALE_H constexpr void describe(description& d, operand_recipe const& o) {
  d.add(name(o.format));
  if (const int n = block_size_of(o.format); n != 0 || o.blocks == block_kind::tiles)
    d.add(" ").add(o.blocks == block_kind::tiles ? n : 1).add("x").add(n);
  if (o.copy == copy_kind::columnwise) d.add(" columnwise");
  if (o.source == value_source::dequantized) d.add(" requantized");
  if (o.hadamard != 0 || o.signs != sign_source::none)
    d.add(" hadamard").add(o.hadamard).add(":").add(name(o.signs));
  if (o.scale != scale_rule::standard) d.add(" ").add(name(o.scale));
  if (o.amax != amax_source::current) d.add(" amax:").add(name(o.amax));
  if (o.rounding != rounding_rule::nearest_even) d.add(" ").add(name(o.rounding));
}

FOURSCALE_H constexpr void describe(description& d, linear_recipe const& r) {
  d.add("fprop x ");
  describe(d, r.fprop.a);
  d.add(", w ");
  describe(d, r.fprop.b);
  d.add("; dgrad dy ");
  describe(d, r.dgrad.a);
  d.add(", w ");
  describe(d, r.dgrad.b);
  d.add("; wgrad dy ");
  describe(d, r.wgrad.a);
  d.add(", x ");
  describe(d, r.wgrad.b);
}

}  // namespace detail

/// For example "nvfp4 1x16 columnwise hadamard16:te stochastic".
FOURSCALE_H constexpr description describe(operand_recipe const& o) {
  description d;
  detail::describe(d, o);
  return d;
}

/// The six operands in one line.
FOURSCALE_H constexpr description describe(linear_recipe const& r) {
  description d;
  detail::describe(d, r);
  return d;
}

/// The recipe of a policy, with the layers and the steps that it holds for.
FOURSCALE_H constexpr description describe(precision_policy const& p) {
  description d;
  if (p.linear == linear_recipe{})
    d.add("bf16");
  else
    detail::describe(d, p.linear);
  if (p.first_in_bf16 != 0) d.add("; first ").add(p.first_in_bf16).add(" layers in bf16");
  if (p.last_in_bf16 != 0) d.add("; last ").add(p.last_in_bf16).add(" layers in bf16");
  if (p.last_percent_in_bf16 != 0)
    d.add("; last ").add(p.last_percent_in_bf16).add(" % of the layers in bf16");
  if (!p.attention) d.add("; attention in bf16");
  if (!p.mlp) d.add("; mlp in bf16");
  if (p.switched != switch_scope::none)
    d.add(p.switched == switch_scope::forward ? "; forward" : "; all")
        .add(" in bf16 from step ")
        .add(p.switch_step);
  return d;
}

}  // namespace FOURSCALE_NAMESPACE

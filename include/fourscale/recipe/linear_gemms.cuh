// SPDX-License-Identifier: Apache-2.0
// gemms_at_once(): which GEMMs of experts run at once on Hopper. As many small ones share a launch as there
// is workspace to decode their operands in; a large GEMM runs alone. The joint launch is
// device/gemm_grouped.cuh.
#pragma once

#include "../device/gemm_grouped.cuh"
#include "linear_grouped.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The most workspace that is asked for, unless a GEMM by itself needs more: 300 M decoded values.
inline constexpr i64 most_bytes_at_once = i64{640} << 20;

/// Bytes of workspace in which the GEMMs of `count` experts run at once, with all.tokens tokens in total.
/// Where that is more than most_bytes_at_once, as many run at once as fit in most_bytes_at_once.
inline i64 gemms_at_once_bytes(linear_shape const& all, i64 count) {
  const i64 of_each[] = {grouped_bytes(groups_along::rows, all.tokens, all.out, all.in, count),
                         grouped_bytes(groups_along::rows, all.tokens, all.in, all.out, count),
                         grouped_bytes(groups_along::k, all.out, all.in, all.tokens, count)};
  i64 most = 0;
  for (const i64 bytes : of_each) most = bytes > most ? bytes : most;
  return most < most_bytes_at_once ? most : most_bytes_at_once;
}

/// Collects the GEMMs of experts until they are launched at once.
template <bool Certify, class Gemms, class Machine>
struct waiting_gemms {
  static constexpr groups_along along = Gemms::along_k ? groups_along::k : groups_along::rows;
  Gemms const& all;
  Machine const& machine;
  linear_memory workspace;
  int clusters = clusters_at_once();
  grouped_place place{along};
  i64 experts[most_groups] = {}, rows[most_groups] = {};  ///< of the GEMMs that wait: expert, first row of D

  /// Adds one GEMM. If there is no room left for it, the GEMMs that wait are launched first. A large GEMM
  /// runs alone: it keeps a GPU busy for so long that a joint launch gains nothing, and its strips may be
  /// certified ahead. A GEMM of many tiles but few steps is not large: the ends of its tiles are shorter in a
  /// joint launch. A GEMM that does not fit in the workspace of a joint launch also runs alone.
  errc add(i64 expert, i64 row) {
    const auto a = all.a(expert), b = all.b(expert);
    const bool large = a.cols >= 2048 && clusters_of(a.rows, b.rows, 192) >= i64{16} * clusters;
    grouped_place with = place;
    with.add(a.rows, b.rows, a.cols);
    if (!large && (place.count == most_groups || with.bytes() > workspace.bytes)) {
      if (const errc e = run(); e != errc::ok) return e;
      with = {along};
      with.add(a.rows, b.rows, a.cols);
    }
    if (large || with.bytes() > workspace.bytes) return all.multiply(machine, expert, row);
    experts[place.count] = expert, rows[place.count] = row;
    place = with;
    return errc::ok;
  }
  /// Launches all GEMMs that wait.
  errc run() {
    const grouped_place these = place;
    place = {along};
    if (these.count == 0) return errc::ok;
    if (these.count == 1) return all.multiply(machine, experts[0], rows[0]);
    using operand = decltype(all.a(0));
    using F = typename operand::block_format_type;
    using L = typename operand::layout;
    const auto gemm = [&](int i) {
      return grouped_operands<F, L>{all.a(experts[i]), all.b(experts[i]), rows[i]};
    };
    const auto d = as_output(all.d);
    const grouped_call<F, L, typename decltype(d)::value_type> call(
        gemm, these, d, {1.0f, all.beta}, aligned_begin({workspace.data, workspace.bytes}));
    if (call.state != errc::ok) return call.state;
    const errc e = call.template decode<Certify>(machine.stream);
    return e != errc::ok ? e : call.multiply(machine.stream);
  }
};

template <bool Certify, class Gemms, class Machine>
errc gemms_at_once(Gemms const& all, Machine const& machine) {
  waiting_gemms<Certify, Gemms, Machine> waiting{all, machine, all.t.data[0].gemm};
  const errc e = all.each([&](i64 expert, i64 row) { return waiting.add(expert, row); });
  return e != errc::ok ? e : waiting.run();
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

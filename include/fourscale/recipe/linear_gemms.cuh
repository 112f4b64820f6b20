// SPDX-License-Identifier: Apache-2.0
// Which GEMMs of experts go at once, on Hopper: as many small ones as there is memory to decode operands in.
#pragma once

#include "../device/gemm_grouped.cuh"
#include "linear_grouped.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// More memory than this is not asked for, unless a GEMM by itself needs it: 300 M decoded values.
inline constexpr i64 most_bytes_at_once = i64{640} << 20;

/// Bytes in which all GEMMs of `count` experts with together all.tokens tokens go at once, or as many as go
/// in most_bytes_at_once.
inline i64 gemms_at_once_bytes(linear_shape const& all, i64 count) {
  const i64 of_each[] = {grouped_bytes(groups_along::rows, all.tokens, all.out, all.in, count),
                         grouped_bytes(groups_along::rows, all.tokens, all.in, all.out, count),
                         grouped_bytes(groups_along::k, all.out, all.in, all.tokens, count)};
  i64 most = 0;
  for (const i64 bytes : of_each) most = bytes > most ? bytes : most;
  return most < most_bytes_at_once ? most : most_bytes_at_once;
}

/// GEMMs of experts that wait for others, so that all go at once.
template <bool Certify, class Gemms, class Machine>
struct waiting_gemms {
  static constexpr groups_along along = Gemms::along_k ? groups_along::k : groups_along::rows;
  Gemms const& all;
  Machine const& machine;
  linear_memory workspace;
  int clusters = clusters_at_once();
  grouped_place place{along};
  i64 experts[most_groups] = {}, rows[most_groups] = {};  ///< of the GEMMs that wait; the first rows of D

  /// One more. Those that wait go first, where there is no room for it besides them. Alone goes what keeps a
  /// GPU busy for so long that nothing is gained at once: its strips may be certified ahead. But not many
  /// tiles of few steps, whose ends are shorter at once.
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
  /// All that wait.
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

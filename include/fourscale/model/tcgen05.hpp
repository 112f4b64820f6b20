// SPDX-License-Identifier: Apache-2.0
// Model of the tcgen05 instructions over modelled tensor memory and real or modelled shared memory, for one
// CTA or a pair; a cluster may have two pairs. tensor_core checks each instruction with the checker and, if
// it is no misuse, carries it out at once. A program that relies on a result before the wait or fence that it
// needs is therefore a misuse, not a race. A misuse leaves all memory as it was.
#pragma once

#include "checker.hpp"
#include "descriptor_checks.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// Operands of tcgen05.mma.cta_group.kind.block_scale.blockN, in the order of PTX. `a` is a shared-memory
/// descriptor or, with a_in_tensor_memory, a tensor-memory address.
struct mma_call {
  mma_instruction instruction;
  u32 d = 0;
  u64 a = 0, b = 0;
  u32 scale_a = 0, scale_b = 0;
  bool accumulate = false;  ///< enable-input-d
  bool a_in_tensor_memory = false;
};

/// Operands of tcgen05.ld and tcgen05.st.
struct ld_call {
  ld_shape shape = ld_shape::s32x32b;
  u32 num = 1;  ///< .x1 to .x128
  u32 address = 0;
  u32 half = 0;  ///< immHalfSplitoff of 16x32bx2
};

/// Operands of tcgen05.cp, without decompression.
struct cp_call {
  cp_shape shape = cp_shape::s32x128b_warpx4;
  u32 address = 0;
  u64 source = 0;
};

/// The memories of a CTA.
struct cta_memory {
  tensor_memory tensor;
  shared_memory shared;
};

namespace detail {

/// The bytes that an operand covers: two chunk columns without a swizzle, one range of whole atoms with one.
struct operand_ranges {
  strided_range runs[2] = {};
  FOURSCALE_HD constexpr operand_ranges(shared_fields const& d, u32 rows, u32 row_bytes) {
    runs[0] = operand_range(d, rows, 0);
    if (d.mode() == swizzle::none && row_bytes > 16) runs[1] = operand_range(d, rows, 1);
  }
};

/// True if two regions of one CTA share no column.
FOURSCALE_HD constexpr bool apart(region const& x, region const& y) {
  return x.column + x.columns <= y.column || y.column + y.columns <= x.column;
}

/// True if the address has lane 0 and `columns` columns from it on exist.
FOURSCALE_HD constexpr bool fits(tensor_address a, u32 columns) {
  return a.lane == 0 && a.column < tensor_columns && columns <= tensor_columns - a.column;
}

}  // namespace detail

/// An mma call with its descriptor words decoded. Only meaningful if the words are right: see
/// tensor_core::begin_mma().
struct mma_plan {
  mma_format format;
  mma_shape shape;
  shared_fields a, b;
  tensor_address d, a_tensor, scale_a, scale_b;
  u32 scale_id_a, scale_id_b;
  bool a_in_tensor_memory, accumulate;

  FOURSCALE_HD constexpr mma_plan(mma_call const& c, u32 ctas)
      : format(format_of(c.instruction)),
        shape(shape_of(c.instruction, ctas)),
        a(decode_shared(c.a)),
        b(decode_shared(c.b)),
        d(decode_tensor_address(c.d)),
        a_tensor(decode_tensor_address(static_cast<u32>(c.a))),
        scale_a(decode_tensor_address(c.scale_a)),
        scale_b(decode_tensor_address(c.scale_b)),
        scale_id_a(decode_instruction(c.instruction.descriptor, c.instruction.kind).scale_id_a),
        scale_id_b(decode_instruction(c.instruction.descriptor, c.instruction.kind).scale_id_b),
        a_in_tensor_memory(c.a_in_tensor_memory),
        accumulate(c.accumulate) {}

  // The regions that CTA i of the group reads and writes.
  FOURSCALE_HD constexpr region d_region(u32 i) const { return {i, d.column, shape.columns_per_cta()}; }
  FOURSCALE_HD constexpr region a_region(u32 i) const { return {i, a_tensor.column, tensor_a_columns}; }
  FOURSCALE_HD constexpr region scale_a_region(u32 i) const {
    return {i, scale_a.column, shape.scale_a_columns()};
  }
  FOURSCALE_HD constexpr region scale_b_region(u32 i) const {
    return {i, scale_b.column, shape.scale_b_columns()};
  }
  /// A number for D that is never 0. Two mma with the same number may follow each other without a wait.
  FOURSCALE_HD constexpr u32 accumulator() const { return 1 + d.column + (shape.n << 10) + (shape.m << 20); }

  FOURSCALE_HD constexpr misuse check_addresses() const {
    const bool fit = detail::fits(d, shape.columns_per_cta()) &&
                     detail::fits(scale_a, shape.scale_a_columns()) &&
                     detail::fits(scale_b, shape.scale_b_columns()) &&
                     (!a_in_tensor_memory || detail::fits(a_tensor, tensor_a_columns));
    if (!fit) return misuse::bad_tensor_address;
    const bool apart = detail::apart(d_region(0), scale_a_region(0)) &&
                       detail::apart(d_region(0), scale_b_region(0)) &&
                       (!a_in_tensor_memory || detail::apart(d_region(0), a_region(0)));
    return apart ? misuse::ok : misuse::overlapping_operands;
  }
};

/// The tensor core of the agent's CTA (group 1), or of the pair that the CTA belongs to (group 2). Each
/// instruction is one function. Those that a kernel's threads share have two parts: begin_*() is called once
/// and checks, then the others compute. In a kernel the caller serialises all calls that reach the checker.
struct tensor_core {
  checker* check = nullptr;
  cta_memory cta[max_ctas] = {};  ///< by rank in the cluster
  u32 group = 1;                  ///< .cta_group of the next instructions

  // ---- allocation

  FOURSCALE_HD constexpr misuse alloc(agent a, u32 columns, u32& address) const {
    misuse e = check->use_group(group);
    if (e == misuse::ok) e = check->columns[a.cta].alloc(columns, address);
    return check->report(e);
  }
  FOURSCALE_HD constexpr misuse dealloc(agent a, u32 address, u32 columns) const {
    misuse e = check->use_group(group);
    if (e == misuse::ok) e = address >> 16 ? misuse::dealloc_mismatch : check->dealloc(a, address, columns);
    return check->report(e);
  }
  FOURSCALE_HD constexpr misuse relinquish(agent a) const {
    check->columns[a.cta].relinquished = true;
    return check->report(check->use_group(group));
  }

  /// tcgen05.commit to `barrier` of each CTA in the mask `ctas`; 0 means the agent's own CTA.
  FOURSCALE_HD constexpr misuse commit(agent a, u32 barrier, u32 ctas = 0) const {
    if (const misuse e = check->use_group(group); e != misuse::ok) return check->report(e);
    return check->commit(a, barrier, ctas != 0 ? ctas : 1u << a.cta);
  }

  // ---- cp

  FOURSCALE_HD constexpr misuse cp(agent a, cp_call const& c) const {
    const misuse e = begin_cp(a, c);
    if (e == misuse::ok) run_cp(a, c);
    return e;
  }
  FOURSCALE_HD constexpr misuse begin_cp(agent a, cp_call const& c) const {
    const shared_fields from = decode_shared(c.source);
    const u32 rows = cp_rows(c.shape), bytes = cp_row_bytes(c.shape);
    const tensor_address to = decode_tensor_address(c.address);
    misuse e = check->use_group(group);
    if (e == misuse::ok && !detail::fits(to, bytes / 4)) e = misuse::bad_tensor_address;
    for (u32 i = first_cta(a); i < end_cta(a) && e == misuse::ok; ++i) {
      e = check_shared(from, rows, bytes, cta[i].shared);
      if (e == misuse::ok) e = can_read_operand(a, i, from, rows, bytes);
      if (e == misuse::ok) e = check->can_write(a, flow::tensor, {i, to.column, bytes / 4});
    }
    if (e != misuse::ok) return check->report(e);
    const u32 ticket = check->issue(a);
    for (u32 i = first_cta(a); i < end_cta(a); ++i) {
      note_operand(a, i, from, rows, bytes, ticket);
      check->note_write(a, flow::tensor, ticket, {i, to.column, bytes / 4});
    }
    return misuse::ok;
  }
  /// Carries out a cp that begin_cp() accepted. `workers` threads may share the rows: each calls it with its
  /// `worker`.
  FOURSCALE_HD constexpr void run_cp(agent a, cp_call const& c, u32 worker = 0, u32 workers = 1) const {
    const shared_fields from = decode_shared(c.source);
    const tensor_address to = decode_tensor_address(c.address);
    for (u32 i = first_cta(a); i < end_cta(a); ++i)
      for (u32 row = worker; row < cp_rows(c.shape); row += workers)
        for (u32 word = 0; word < cp_row_bytes(c.shape) / 4; ++word) {
          u32 value = 0;
          for (u32 byte = 0; byte < 4; ++byte)
            value |=
                u32{cta[i].shared.data[operand_address(from, row, 4 * word + byte) - cta[i].shared.first]}
                << (8 * byte);
          for (u32 copy = 0; copy < cp_copies(c.shape); ++copy)
            cta[i].tensor.at(to.plus(cp_lane(c.shape, row, copy), word)) = value;
        }
  }

  // ---- ld, st

  /// tcgen05.ld and st of a whole warp. `registers` has ld_registers() words for each of the 32 threads, one
  /// thread after the other.
  FOURSCALE_HD constexpr misuse ld(agent a, ld_call const& c, u32* registers) const {
    const misuse e = begin_ld(a, c, flow::load);
    const u32 each = ld_registers(c.shape, c.num);
    if (e == misuse::ok)
      for (u32 lane = 0; lane < 32; ++lane) load(a, c, lane, registers + lane * each);
    return e;
  }
  FOURSCALE_HD constexpr misuse st(agent a, ld_call const& c, u32 const* registers) const {
    const misuse e = begin_ld(a, c, flow::store);
    const u32 each = ld_registers(c.shape, c.num);
    if (e == misuse::ok)
      for (u32 lane = 0; lane < 32; ++lane) store(a, c, lane, registers + lane * each);
    return e;
  }
  FOURSCALE_HD constexpr misuse begin_ld(agent a, ld_call const& c, flow how) const {
    const tensor_address base = decode_tensor_address(c.address);
    const u32 columns = c.num * ld_columns(c.shape) + (c.shape == ld_shape::s16x32bx2 ? c.half : 0);
    const u32 quarter = a.warp % 4;
    misuse e = misuse::ok;
    if (!valid_repeat(c.shape, c.num))
      e = misuse::bad_repeat;
    else if (!detail::fits({0, base.column}, columns))
      e = misuse::bad_tensor_address;
    else if (base.lane / 32 != quarter ||
             (base.lane % 32 != 0 && (base.lane % 32 != 16 || ld_lanes(c.shape) == 32)))
      e = misuse::wrong_lane_quarter;
    const u32 each = c.num * ld_columns(c.shape);
    const region runs[2] = {{a.cta, base.column, each, 1u << quarter},
                            {a.cta, base.column + columns - each, each, 1u << quarter}};
    for (u32 i = 0; i < 2 && e == misuse::ok; ++i)
      e = how == flow::load ? check->can_read(a, how, runs[i]) : check->can_write(a, how, runs[i]);
    if (e != misuse::ok) return check->report(e);
    const u32 ticket = check->issue(a);
    for (region const& r : runs)
      how == flow::load ? check->note_read(a, how, ticket, r) : check->note_write(a, how, ticket, r);
    return misuse::ok;
  }
  /// The part of one thread, `lane`, of an ld or st that begin_ld() accepted.
  FOURSCALE_HD constexpr void load(agent a, ld_call const& c, u32 lane, u32* registers) const {
    const tensor_address base = decode_tensor_address(c.address);
    for (u32 reg = 0; reg < ld_registers(c.shape, c.num); ++reg) {
      const tensor_address at = ld_cell(c.shape, lane, reg, c.half);
      registers[reg] = cta[a.cta].tensor.at(base.plus(at.lane, at.column));
    }
  }
  FOURSCALE_HD constexpr void store(agent a, ld_call const& c, u32 lane, u32 const* registers) const {
    const tensor_address base = decode_tensor_address(c.address);
    for (u32 reg = 0; reg < ld_registers(c.shape, c.num); ++reg) {
      const tensor_address at = ld_cell(c.shape, lane, reg, c.half);
      cta[a.cta].tensor.at(base.plus(at.lane, at.column)) = registers[reg];
    }
  }

  // ---- mma

  FOURSCALE_HD constexpr misuse mma(agent a, mma_call const& c) const {
    const misuse e = begin_mma(a, c);
    if (e == misuse::ok) run_mma(a, c);
    return e;
  }

  FOURSCALE_HD constexpr misuse begin_mma(agent a, mma_call const& c) const {
    misuse e = check->use_group(group);
    if (e == misuse::ok) e = check_instruction(c.instruction, group);
    const mma_plan p(c, group);
    if (e == misuse::ok) e = p.check_addresses();
    for (u32 i = first_cta(a); i < end_cta(a) && e == misuse::ok; ++i) {
      e = check_operands(a, i, p);
      if (e == misuse::ok) e = check_accumulator(a, i, p);
      if (e == misuse::ok) e = check_copies(i, p);
    }
    if (e != misuse::ok) return check->report(e);
    const u32 ticket = check->issue(a);
    for (u32 i = first_cta(a); i < end_cta(a); ++i) note_mma(a, i, p, ticket);
    return misuse::ok;
  }

  /// Carries out an mma that begin_mma() accepted. `workers` threads may share the rows of D: each calls it
  /// with its `worker`.
  FOURSCALE_HD constexpr void run_mma(agent a, mma_call const& c, u32 worker = 0, u32 workers = 1) const {
    const mma_plan p(c, group);
    for (u32 i = first_cta(a); i < end_cta(a); ++i)
      for (u32 m = worker; m < p.shape.rows_per_cta(); m += workers) {
        const operand_row row = a_row(i, p, m);
        for (u32 n = 0; n < p.shape.n; ++n) {
          const tensor_address at = p.shape.output(m, n);
          u32& out = cta[i].tensor.at(p.d.plus(at.lane, at.column));
          const float before = p.accumulate ? bit_cast<float>(out) : 0.0f;
          out = bit_cast<u32>(block_scaled_dot(p.format, row, b_row(a, i, p, n), before));
        }
      }
  }

 private:
  FOURSCALE_HD constexpr u32 first_cta(agent a) const { return a.cta - a.cta % group; }
  FOURSCALE_HD constexpr u32 end_cta(agent a) const { return first_cta(a) + group; }

  FOURSCALE_HD constexpr misuse can_read_operand(agent a, u32 i, shared_fields const& d, u32 rows,
                                                 u32 row_bytes) const {
    for (strided_range const& r : detail::operand_ranges(d, rows, row_bytes).runs)
      if (const misuse e = check->can_read_shared(a, i, r); e != misuse::ok) return e;
    return misuse::ok;
  }
  FOURSCALE_HD constexpr void note_operand(agent a, u32 i, shared_fields const& d, u32 rows, u32 row_bytes,
                                           u32 ticket) const {
    for (strided_range const& r : detail::operand_ranges(d, rows, row_bytes).runs)
      if (r.count != 0) check->note_read_shared(a, i, r, ticket);
  }

  FOURSCALE_HD constexpr misuse check_operands(agent a, u32 i, mma_plan const& p) const {
    const u32 a_rows = p.shape.rows_per_cta(), b_rows = p.shape.b_rows_per_cta();
    misuse e = misuse::ok;
    if (p.a_in_tensor_memory) {
      e = check->can_read(a, flow::tensor, p.a_region(i));
    } else {
      e = check_shared(p.a, a_rows, 32, cta[i].shared);
      if (e == misuse::ok) e = can_read_operand(a, i, p.a, a_rows, 32);
    }
    if (e == misuse::ok) e = check_shared(p.b, b_rows, 32, cta[i].shared);
    if (e == misuse::ok) e = can_read_operand(a, i, p.b, b_rows, 32);
    if (e == misuse::ok) e = check->can_read(a, flow::tensor, p.scale_a_region(i));
    return e == misuse::ok ? check->can_read(a, flow::tensor, p.scale_b_region(i)) : e;
  }

  FOURSCALE_HD constexpr misuse check_accumulator(agent a, u32 i, mma_plan const& p) const {
    const misuse e = check->can_write(a, flow::tensor, p.d_region(i), p.accumulator());
    if (e != misuse::ok || !p.accumulate) return e;
    return check->can_read(a, flow::tensor, p.d_region(i), p.accumulator());
  }

  /// Checks that the copies of the scales in the lane groups agree, and those of A in a pair with M = 128.
  FOURSCALE_HD constexpr misuse check_copies(u32 i, mma_plan const& p) const {
    mma_shape const& s = p.shape;
    bool same = true;
    for (u32 row = 0; row < s.rows_per_cta(); ++row)
      for (u32 copy = 1; copy < s.scale_a_copies(); ++copy)
        same = same && agrees(i, p.scale_a, s.scale_a(row), 32 * copy);
    for (u32 row = 0; row < s.n; ++row)
      for (u32 copy = 1; copy < s.scale_b_copies(); ++copy)
        same = same && agrees(i, p.scale_b, s.scale_b(row), 32 * copy);
    if (p.a_in_tensor_memory && s.two_by_two())
      for (u32 row = 0; row < 64; ++row)
        for (u32 column = 0; column < tensor_a_columns; ++column)
          same = same && agrees(i, p.a_tensor, {row, column}, 64);
    return same ? misuse::ok : misuse::copies_differ;
  }
  FOURSCALE_HD constexpr bool agrees(u32 i, tensor_address base, tensor_address at, u32 lanes) const {
    const tensor_address x = base.plus(at.lane, at.column);
    return cta[i].tensor.at(x) == cta[i].tensor.at(x.plus(lanes, 0));
  }

  FOURSCALE_HD constexpr void note_mma(agent a, u32 i, mma_plan const& p, u32 ticket) const {
    if (p.a_in_tensor_memory)
      check->note_read(a, flow::tensor, ticket, p.a_region(i));
    else
      note_operand(a, i, p.a, p.shape.rows_per_cta(), 32, ticket);
    note_operand(a, i, p.b, p.shape.b_rows_per_cta(), 32, ticket);
    check->note_read(a, flow::tensor, ticket, p.scale_a_region(i));
    check->note_read(a, flow::tensor, ticket, p.scale_b_region(i));
    check->note_write(a, flow::tensor, ticket, p.d_region(i), p.accumulator());
  }

  FOURSCALE_HD constexpr operand_row a_row(u32 i, mma_plan const& p, u32 m) const {
    operand_row x = p.a_in_tensor_memory ? load_tensor_row(cta[i].tensor, p.a_tensor, m)
                                         : load_row(cta[i].shared, p.a, m, p.format.kind, p.format.a);
    const tensor_address at = p.shape.scale_a(m);
    x.scales = select_scales(cta[i].tensor.at(p.scale_a.plus(at.lane, at.column)), p.scale_id_a);
    return x;
  }
  /// Column n of B. In a pair, the first CTA's shared memory has the first half of N, the second CTA's the
  /// other half.
  FOURSCALE_HD constexpr operand_row b_row(agent a, u32 i, mma_plan const& p, u32 n) const {
    const u32 per_cta = p.shape.b_rows_per_cta(), holder = first_cta(a) + n / per_cta;
    operand_row x = load_row(cta[holder].shared, p.b, n % per_cta, p.format.kind, p.format.b);
    const tensor_address at = p.shape.scale_b(n);
    x.scales = select_scales(cta[i].tensor.at(p.scale_b.plus(at.lane, at.column)), p.scale_id_b);
    return x;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model

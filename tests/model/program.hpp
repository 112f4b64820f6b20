// SPDX-License-Identifier: Apache-2.0
// A whole small GEMM as a tcgen05 kernel would run it, step by step over the model, with faults to plant. No
// layout here is taken from the model: tiles, descriptors and results are written out a second time.
#pragma once

#include <fourscale/model/tcgen05.hpp>
#include <fourscale/view/scale_layout.hpp>

#include "model/gemm_case.hpp"

namespace fourscale::test {

/// What to get wrong.
enum class fault {
  none,
  no_alloc,
  alloc_96,
  alloc_grows,
  alloc_too_late,
  alloc_too_much,
  dealloc_half,
  dealloc_early,
  no_dealloc,
  other_group,
  no_proxy_fence,
  no_barrier,
  no_fence_after_fill,
  no_scale_copy,
  scales_in_one_quarter,
  accumulate_first,
  tile_off_boundary,
  k_step_off_row,
  short_stride,
  overlapping_columns,
  stale_descriptor,
  swizzle_of_32b_atoms,
  beyond_shared,
  scale_id_1,
  type_of_other_kind,
  other_kind,
  blocks_of_32,
  scales_ue8m0,
  mn_major,
  n_of_260,
  sparse,
  d_over_scales,
  d_beyond,
  lane_in_d,
  no_commit,
  no_commit_no_wait,
  no_wait,
  wrong_parity,
  no_barrier_init,
  no_fence_after_wait,
  other_quarter,
  repeat_of_3,
  no_wait_ld,
  no_fence_before_reuse,
  no_barrier_before_reuse,
  other_shape_between,
  refill_too_early,
  no_wait_st,
  // What only the numbers show.
  swapped_nibbles,
  same_k_step,
  wrong_scale_tile,
  wrong_legal_scale_id,
  wrong_legal_stride,
};

inline constexpr u32 shared_first = 1024, shared_bytes = 64 * 1024;

/// What a run needs, for the caller to put somewhere: nearly a megabyte, zeroed.
struct gemm_memory {
  alignas(1024) u8 shared[2][shared_bytes];
  u32 tensor[2][model::tensor_words];
  u32 registers[32 * 32];
  float d[256 * 256];
  model::checker check;
};

class gemm_program {
 public:
  FOURSCALE_HD gemm_program(gemm_memory& memory, gemm_case const& gemm, fault planted)
      : mem(memory), c(gemm), f(planted) {
    core.check = &mem.check, core.group = c.ctas;
    for (u32 i = 0; i < 2; ++i) core.cta[i] = {{mem.tensor[i]}, {mem.shared[i], shared_first, shared_bytes}};
    per_cta = c.m / c.ctas;
    d_columns = c.ctas == 2 && c.m == 128 ? c.n / 2 : c.n;
    scales = static_cast<u32>(c.format.k() / c.format.block);
    tiles = (c.steps * scales + 3) / 4, halves = (c.n + 127) / 128;
    b_rows = c.n / c.ctas;
    const u32 row_bytes = round_up(c.steps * 32, atom_width());
    a_at = shared_first, b_at = a_at + round_up(per_cta * row_bytes, 1024u);
    scale_a_at = b_at + round_up(b_rows * row_bytes, 1024u), scale_b_at = scale_a_at + tiles * 512;
    scale_a_column = d_columns, scale_b_column = scale_a_column + 4 * tiles;
    a_column = scale_b_column + 4 * tiles * halves;
  }

  /// The whole kernel. The first misuse ends it, as a trap would.
  FOURSCALE_HD model::misuse run() {
    using model::misuse;
    misuse e = allocate();
    if (e == misuse::ok) e = fill();
    for (u32 round = 0; round < 2 && e == misuse::ok; ++round) {
      e = multiply(round);
      if (e == misuse::ok) e = read(round);
    }
    return e == misuse::ok ? close() : e;
  }

 private:
  gemm_memory& mem;
  gemm_case c;
  fault f;
  model::tensor_core core;
  u32 per_cta = 0, d_columns = 0, scales = 0, tiles = 0, halves = 0, b_rows = 0, base = 0;
  u32 a_at = 0, b_at = 0, scale_a_at = 0, scale_b_at = 0, scale_a_column = 0, scale_b_column = 0,
      a_column = 0;

  FOURSCALE_HD u32 everyone() const { return c.ctas == 2 ? 0x0f0fu : 0x000fu; }
  FOURSCALE_HD void fences_before() {
    for (u32 i = 0; i < c.ctas; ++i)
      for (u32 w = 0; w < 4; ++w) mem.check.fence_before({i, w});
  }
  FOURSCALE_HD void fences_after() {
    for (u32 i = 0; i < c.ctas; ++i)
      for (u32 w = 0; w < 4; ++w) mem.check.fence_after({i, w});
  }

  FOURSCALE_HD model::misuse allocate() {
    using model::misuse;
    for (u32 i = 0; i < c.ctas; ++i) {
      const model::agent a{i, 0};
      misuse e = misuse::ok;
      if (f == fault::alloc_too_late) e = core.relinquish(a);
      if (f == fault::alloc_grows) e = core.alloc(a, 32, base);
      if (f == fault::alloc_too_much) e = core.alloc(a, 512, base);
      if (e == misuse::ok && f != fault::no_alloc) e = core.alloc(a, f == fault::alloc_96 ? 96 : 512, base);
      if (e == misuse::ok) e = core.relinquish(a);
      if (e == misuse::ok && f != fault::no_barrier_init) e = mem.check.barrier_init(i, 3, 1);
      if (e != misuse::ok) return e;
    }
    return misuse::ok;
  }

  // ---- shared memory

  /// Bytes of a row of the atom.
  FOURSCALE_HD u32 atom_width() const {
    constexpr u32 widths[] = {16, 0, 128, 0, 64, 0, 32};
    return widths[static_cast<u32>(c.mode)];
  }
  /// Byte `byte` of row `row` in a tile of `rows` rows at `at`.
  FOURSCALE_HD u32 place(u32 at, u32 rows, u32 row, u32 byte) const {
    const u32 width = atom_width(), chunk = byte % width / 16;
    const u32 line = width == 128 ? row % 8 : width == 64 ? row / 2 % 4 : width == 32 ? row / 4 % 2 : 0;
    return at + byte / width * rows * width + row * width + (chunk ^ line) * 16 + byte % 16;
  }
  FOURSCALE_HD static u64 descriptor(u32 start, u32 leading, u32 stride, u32 mode) {
    return u64{start / 16} | u64{leading / 16} << 16 | u64{stride / 16} << 32 | u64{1} << 46 |
           u64{mode} << 61;
  }
  FOURSCALE_HD u64 operand(u32 at, u32 rows, u32 step) const {
    const u32 mode = static_cast<u32>(c.mode), byte = step * 32;
    if (mode == 0) return descriptor(at + byte * rows, rows * 16, 128, 0);
    const u32 width = atom_width();
    return descriptor(at + byte / width * rows * width + byte % width, 16, 8 * width, mode);
  }

  FOURSCALE_HD void write_operand(u32 cta, bool is_b) {
    const gemm_operand x{c, is_b};
    const u32 rows = is_b ? b_rows : per_cta, at = is_b ? b_at : a_at;
    for (u32 row = 0; row < rows; ++row)
      for (u32 byte = 0; byte < c.steps * 32; ++byte) {
        u8 value = x.byte_in_shared(cta * rows + row, byte);
        if (f == fault::swapped_nibbles && is_b) value = static_cast<u8>(value << 4 | value >> 4);
        mem.shared[cta][place(at, rows, row, byte) - shared_first] = value;
      }
  }
  /// Tiles of 128 rows x 4 scales; for B of two CTAs with M = 128, of 64 rows: 32 of each half of N, which is
  /// rounded up to 128 first.
  FOURSCALE_HD void write_scales(u32 cta) {
    u8* const shared = mem.shared[cta];
    const gemm_operand a{c, false}, b{c, true};
    for (u32 column = 0; column < c.steps * scales; ++column) {
      for (u32 row = 0; row < per_cta; ++row)
        shared[scale_a_at - shared_first + swizzled_128x4::offset(row, column, 4 * tiles)] =
            static_cast<u8>(a.scale(cta * per_cta + row, column));
      for (u32 row = 0; row < c.n; ++row) {
        i64 offset = swizzled_128x4::offset(row, column, 4 * tiles);
        if (c.ctas == 2 && c.m == 128) {
          const u32 of_half = c.n > 128 ? 128 : 64, half = row / of_half, in_half = row % of_half;
          offset = column / 4 * 1024 + (half * 32 + in_half % 32) * 16 + in_half / 32 * 4 + column % 4;
        }
        shared[scale_b_at - shared_first + offset] = static_cast<u8>(b.scale(row, column));
      }
    }
  }

  /// Each of four warps writes a quarter of each region; warp 0 alone issues what follows.
  FOURSCALE_HD model::misuse fill() {
    using model::misuse;
    const u32 end = shared_first + shared_bytes;
    for (u32 i = 0; i < c.ctas; ++i) {
      write_operand(i, false), write_operand(i, true), write_scales(i);
      for (u32 w = 0; w < 4; ++w) {
        const u32 first = shared_first + w * (end - shared_first) / 4;
        misuse e = mem.check.write_shared({i, w}, first, first + (end - shared_first) / 4, false);
        if (f != fault::no_proxy_fence || w != 1) mem.check.proxy_fence({i, w});
        if (e == misuse::ok && c.a_in_tensor) e = store_a({i, w});
        if (e != misuse::ok) return e;
      }
    }
    fences_before();
    if (f != fault::no_barrier) mem.check.sync(everyone());
    if (f != fault::no_fence_after_fill) fences_after();
    return misuse::ok;
  }

  /// A into tensor memory: row = lane, 8 columns a step; with M = 128 in two CTAs twice, 64 lanes apart.
  FOURSCALE_HD model::misuse store_a(model::agent a) {
    const gemm_operand x{c, false};
    for (u32 step = 0; step < c.steps; ++step) {
      for (u32 lane = 0; lane < 32; ++lane) {
        const model::operand_row row = x.row(a.cta * per_cta + (32 * a.warp + lane) % per_cta, step);
        for (u32 i = 0; i < 8; ++i)
          mem.registers[lane * 8 + i] = static_cast<u32>(row.words[i / 2] >> (i % 2 * 32));
      }
      const u32 address = base + (32 * a.warp << 16) + a_column + 8 * step;
      const model::misuse e = core.st(a, {model::ld_shape::s32x32b, 8, address}, mem.registers);
      if (e != model::misuse::ok) return e;
    }
    if (f != fault::no_wait_st || a.warp != 3) mem.check.wait_st(a);
    return model::misuse::ok;
  }

  // ---- scales and mma

  FOURSCALE_HD model::misuse copy_scales() {
    using model::misuse;
    const model::agent a{0, 0};
    const bool two_by_two = c.ctas == 2 && c.m == 128;
    const auto quarter =
        f == fault::scales_in_one_quarter ? model::cp_shape::s128x128b : model::cp_shape::s32x128b_warpx4;
    for (u32 t = 0; t < tiles; ++t) {
      misuse e =
          core.cp(a, {quarter, base + scale_a_column + 4 * t, descriptor(scale_a_at + 512 * t, 0, 128, 0)});
      if (two_by_two && e == misuse::ok)
        e = core.cp(a, {model::cp_shape::s64x128b_01_23, base + scale_b_column + 4 * t,
                        descriptor(scale_b_at + 1024 * t, 0, 128, 0)});
      for (u32 h = 0; h < halves && !two_by_two && e == misuse::ok; ++h)
        e = core.cp(a, {model::cp_shape::s32x128b_warpx4, base + scale_b_column + 4 * (t * halves + h),
                        descriptor(scale_b_at + 512 * (h * tiles + t), 0, 128, 0)});
      if (e != misuse::ok) return e;
    }
    return misuse::ok;
  }

  /// The instruction descriptor with the scale ids of a step.
  FOURSCALE_HD u32 instruction(u32 id, u32 n) const {
    const bool wide = c.format.kind == model::mma_kind::mxf8f6f4;
    const u32 type_a = wide ? static_cast<u32>(c.format.a) : 1,
              type_b = wide ? static_cast<u32>(c.format.b) : 1;
    u32 word = id << 4 | type_a << 7 | type_b << 10 | n / 8 << 17 | static_cast<u32>(c.format.scale) << 23 |
               c.m / 128 << 27 | id << 29;
    if (f == fault::scale_id_1) word |= 1u << 29;
    if (f == fault::type_of_other_kind) word = (word & ~(7u << 7)) | 5u << 7;
    if (f == fault::scales_ue8m0) word ^= 1u << 23;
    if (f == fault::mn_major) word |= 1u << 16;
    if (f == fault::n_of_260) word = (word & ~(63u << 17)) | 33u << 17;
    if (f == fault::sparse) word |= 1u << 2;
    if (f == fault::wrong_legal_scale_id) word &= ~(3u << 29 | 3u << 4);
    return word;
  }

  FOURSCALE_HD model::mma_call call(u32 step) const {
    const bool two_by_two = c.ctas == 2 && c.m == 128;
    const u32 tile = step * scales / 4, used = f == fault::wrong_scale_tile ? 0 : tile;
    model::mma_call x;
    x.instruction = {c.format.kind, c.format.block, instruction(step * scales % 4, c.n)};
    x.d = base, x.accumulate = step != 0;
    x.a = operand(a_at, per_cta, f == fault::same_k_step ? 0 : step), x.b = operand(b_at, b_rows, step);
    x.scale_a = base + scale_a_column + 4 * used;
    x.scale_b = base + scale_b_column + 4 * tile * (two_by_two ? 1 : halves);
    if (c.a_in_tensor) x.a = base + a_column + 8 * step, x.a_in_tensor_memory = true;
    break_call(x);
    return x;
  }
  FOURSCALE_HD void break_call(model::mma_call& x) const {
    const u64 b = x.b;
    if (f == fault::accumulate_first) x.accumulate = true;
    if (f == fault::tile_off_boundary) x.b = b + 128 / 16;
    if (f == fault::k_step_off_row) x.b = b + 112 / 16;
    if (f == fault::short_stride) x.b = (b & ~(u64{0x3fff} << 32)) | u64{512 / 16} << 32;
    if (f == fault::wrong_legal_stride) x.b = (b & ~(u64{0x3fff} << 32)) | u64{2048 / 16} << 32;
    if (f == fault::overlapping_columns) x.b = (b & ~(u64{0x3fff} << 16)) | u64{16 / 16} << 16;
    if (f == fault::stale_descriptor) x.b = b & ~(u64{7} << 46);
    if (f == fault::swizzle_of_32b_atoms) x.b = (b & ~(u64{7} << 61)) | u64{1} << 61;
    if (f == fault::beyond_shared) x.b = (b & ~u64{0x3fff}) | (shared_first + shared_bytes - 1024) / 16;
    if (f == fault::other_kind) x.instruction.kind = model::mma_kind::mxf8f6f4, x.instruction.block = 32;
    if (f == fault::blocks_of_32) x.instruction.block = 32;
    if (f == fault::d_over_scales) x.d = base + scale_a_column - 8;
    if (f == fault::d_beyond) x.d = base + 512 - 8;
    if (f == fault::lane_in_d) x.d = base + (16u << 16);
  }

  FOURSCALE_HD model::misuse multiply(u32 round) {
    using model::misuse;
    const model::agent a{0, 0};
    misuse e = round == 0 && f != fault::no_scale_copy ? copy_scales() : misuse::ok;
    if (round == 0 && f == fault::other_group) core.group = 3 - core.group;
    if (round == 1 && f == fault::other_shape_between) {
      model::mma_call other = call(0);
      other.instruction.descriptor = instruction(0, c.n / 2);
      e = core.mma(a, other);
    }
    for (u32 step = 0; step < c.steps && e == misuse::ok; ++step) {
      e = core.begin_mma(a, call(step));
      for (u32 worker = 0; worker < 3 && e == misuse::ok; ++worker) core.run_mma(a, call(step), worker, 3);
    }
    if (e != misuse::ok) return e;
    if (f == fault::refill_too_early) return mem.check.write_shared({0, 1}, b_at + 64, b_at + 80, true);
    if (f == fault::dealloc_early) return core.dealloc(a, base, 512);
    if (f == fault::no_commit || f == fault::no_commit_no_wait) return misuse::ok;
    return core.commit(a, 3, c.ctas == 2 ? 3 : 0);
  }

  // ---- results

  FOURSCALE_HD model::misuse read(u32 round) {
    using model::misuse;
    for (u32 i = 0; i < c.ctas; ++i)
      for (u32 w = 0; w < 4; ++w) {
        misuse e = misuse::ok;
        const bool skip = f == fault::no_wait || f == fault::no_commit_no_wait;
        if (!skip) e = mem.check.wait({i, w}, 3, round ^ (f == fault::wrong_parity));
        if (f != fault::no_fence_after_wait) mem.check.fence_after({i, w});
        if (e == misuse::ok) e = read_warp({i, w});
        if (e != misuse::ok) return e;
        if (f != fault::no_wait_ld || w != 1) mem.check.wait_ld({i, w});
        if (f != fault::no_fence_before_reuse || w != 1) mem.check.fence_before({i, w});
      }
    if (f != fault::no_barrier_before_reuse) mem.check.sync(everyone());
    fences_after();
    return misuse::ok;
  }

  FOURSCALE_HD model::misuse read_warp(model::agent a) {
    using model::misuse;
    const u32 quarter = (f == fault::other_quarter ? a.warp + 1 : a.warp) % 4;
    for (u32 column = 0; column < d_columns; column += 8) {
      const u32 address = base + (32 * quarter << 16) + column;
      if (c.read_16x256b) {
        for (u32 half = 0; half < 2; ++half) {
          const misuse e =
              core.ld(a, {model::ld_shape::s16x256b, 1, address + (16 * half << 16)}, mem.registers);
          if (e != misuse::ok) return e;
          for (u32 i = 0; i < 128; ++i)  // thread i / 4, register i % 4
            result(a, 32 * a.warp + 16 * half + i / 16 + i % 4 / 2 * 8, column + i / 4 % 4 * 2 + i % 2,
                   mem.registers[i]);
        }
        continue;
      }
      const u32 num = f == fault::repeat_of_3 ? 3 : 8;
      const misuse e = core.ld(a, {model::ld_shape::s32x32b, num, address}, mem.registers);
      if (e != misuse::ok) return e;
      for (u32 i = 0; i < 256; ++i) result(a, 32 * a.warp + i / 8, column + i % 8, mem.registers[i]);
    }
    return misuse::ok;
  }
  /// A cell of D becomes an output: layouts A, B and D of PTX ISA 9.7.16.10.5.
  FOURSCALE_HD void result(model::agent a, u32 lane, u32 column, u32 bits) {
    const u32 row = a.cta * per_cta + lane % per_cta, n = column + lane / per_cta * d_columns;
    mem.d[row * c.n + n] = bit_cast<float>(bits);
  }

  FOURSCALE_HD model::misuse close() {
    using model::misuse;
    for (u32 i = 0; i < c.ctas; ++i) {
      misuse e = misuse::ok;
      if (f != fault::no_dealloc) e = core.dealloc({i, 0}, base, f == fault::dealloc_half ? 256 : 512);
      if (e == misuse::ok) e = mem.check.finish(i);
      if (e != misuse::ok) return e;
    }
    return misuse::ok;
  }
};

/// Outputs of the run in `memory` that differ from the oracle.
FOURSCALE_HD inline u32 wrong_outputs(gemm_memory const& memory, gemm_case const& c) {
  u32 wrong = 0;
  for (u32 m = 0; m < c.m; ++m)
    for (u32 n = 0; n < c.n; ++n)
      wrong += bit_cast<u32>(memory.d[m * c.n + n]) != bit_cast<u32>(gemm_expected(c, m, n));
  return wrong;
}

}  // namespace fourscale::test

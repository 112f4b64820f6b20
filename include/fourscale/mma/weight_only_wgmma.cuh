// SPDX-License-Identifier: Apache-2.0
// The kernel body of the weight-only GEMM by wgmma, on Hopper. A cluster takes consecutive tiles of W, two at
// a time (a pair), and its CTAs split K. A CTA has a ring of stages. The roles of its warps, and the
// mbarriers that each role arrives at:
//
//   load      one lane fills a stage by TMA: X, and codes and scales of a pair    -> `x_full`, `full`
//   order     four warps wait for `x_full` and bring X to the order of fragments  -> `full`
//   multiply  two or four warpgroups take stages in turn, and decode and multiply -> `empty`
//   store     three warps add up and store the sums of all CTAs                   -> `inbox_free`
//
// After the last stage of a pair, warpgroups add up their sums (-> `sums_free`) and send them to the CTA that
// stores them (-> `inbox_full`): see weight_only_wgmma_sums.cuh.
#pragma once

#include "../ptx/prefetch.cuh"
#include "../ptx/wgmma_rs.cuh"
#include "ring.cuh"
#include "weight_only_wgmma_sums.cuh"

namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma {

/// The tensors of weight_only_tma.cuh, with boxes for tiles of 64 rows.
FOURSCALE_HD constexpr tma_tensor tensor_of_codes(bool swizzled, i64 rows, i64 k) {
  tma_tensor t = weight_only::tensor_of_codes(swizzled, rows, k);
  t.box[1] = swizzled ? 16 : tile_rows;
  return t;
}
FOURSCALE_HD constexpr tma_tensor tensor_of_scales(bool swizzled, i64 rows, i64 k) {
  tma_tensor t = weight_only::tensor_of_scales(swizzled, rows, k);
  t.box[swizzled ? 0 : 1] = swizzled ? 256 : tile_rows;
  return t;
}
/// X: {the 64 values of a slice, rows, slices along K}, so that one copy brings a stage.
FOURSCALE_HD constexpr tma_tensor tensor_of_x(int n_tiles, i64 rows, i64 k, i64 ld) {
  return {{slice_values, static_cast<u64>(rows), static_cast<u64>(k) / slice_values},
          {2 * static_cast<u64>(ld), 2 * slice_values},
          {slice_values, static_cast<u32>(8 * n_tiles), slices},
          true};
}

/// The slot of a stage in the ring, and the parity of its barriers, where `stage` counts all stages of the
/// CTA. Warpgroups use it in place of mma::ring, because each takes only every second or fourth stage.
template <int NTiles>
struct ring_slot {
  int slot;
  u32 parity;

  FOURSCALE_D explicit ring_slot(int stage)
      : slot(stage % memory<NTiles>::depth), parity(static_cast<u32>(stage / memory<NTiles>::depth) & 1) {}
};

/// One thread calls it. `ctas`: of the cluster.
template <int NTiles>
FOURSCALE_D void init_barriers(memory<NTiles>& m, int ctas) {
  using cuda::ptx::mbarrier_init;
  for (int i = 0; i < memory<NTiles>::depth; ++i) {
    mbarrier_init(m.x_full + i, 1);
    mbarrier_init(m.full + i, 1 + order_warps);  // codes and scales have arrived; X is in order
    mbarrier_init(m.empty + i, 4);               // a lane of each warp of a warpgroup
  }
  mbarrier_init(&m.sums_free, 4);
  mbarrier_init(&m.inbox_full, 1);
  mbarrier_init(&m.inbox_free, static_cast<u32>(ctas * store_warps));
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

/// Starts the copies of a stage: X, and codes and scales of `count` tiles from `tile` on. One lane calls it.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void load_stage(problem<T, Layout, TD> const& a, memory<NTiles>& m, int slot, int tile, int count,
                            int stage) {
  using namespace cuda::ptx;
  std::uint64_t *const x_full = m.x_full + slot, *const full = m.full + slot;
  const auto expect = [](std::uint64_t* barrier, int bytes) {
    mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, barrier, static_cast<u32>(bytes));
  };
  const auto copy = [](u8* to, CUtensorMap const& map, std::uint64_t* barrier, std::int32_t x, std::int32_t y,
                       std::int32_t z) {
    const std::int32_t at[3] = {x, y, z};
    cp_async_bulk_tensor(space_cluster, space_global, to, &map, at, barrier);
  };
  expect(x_full, x_stage_bytes(NTiles));
  copy(m.x[slot], a.maps.x, x_full, 0, 0, stage * slices);
  expect(full, count * (tile_bytes + tile_scales));
#pragma unroll 1
  for (int i = 0; i < count; ++i, ++tile) {
    if constexpr (Layout::has_padding) {
      copy(m.codes[slot][i], a.maps.codes, full, stage * stage_bytes, tile % 2 * 16, tile / 2 * 4);
      copy(m.scales[slot][i], a.maps.scales, full, tile % 2 * 256, stage * 4, tile / 2);
    } else {
      copy(m.codes[slot][i], a.maps.codes, full, stage * stage_bytes, tile * tile_rows, 0);
      copy(m.scales[slot][i], a.maps.scales, full, stage * stage_scales, tile * tile_rows, 0);
    }
  }
}

/// The load role, one lane: all stages of all pairs.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void load(problem<T, Layout, TD> const& a, memory<NTiles>& m, span_of tiles, span_of stages) {
  ring<memory<NTiles>::depth> at;
#pragma unroll 1
  for (int n = 0; n < pairs_of(tiles); ++n) {
    const tile_pair pair(a.plan, tiles, n);
#pragma unroll 1
    for (int stage = stages.begin; stage < stages.end; ++stage, at.next()) {
      ptx::mbarrier_wait(ptx::shared_address(m.empty + at.stage), at.parity ^ 1);
      load_stage<NTiles>(a, m, static_cast<int>(at.stage), pair.first, pair.count, stage);
    }
  }
}

/// Brings X of a stage to the order of fragments, in place, eight rows of half a stage at a time. Warp `warp`
/// of order_warps takes every fourth of these.
template <int NTiles>
FOURSCALE_D void order_x(u32 x, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int i = warp; i < halves * NTiles; i += order_warps) {
    const u32 rows = x + static_cast<u32>(i / 2 * 1024);
    const int half = i % 2;
    uint4 v[4];
    FOURSCALE_UNROLL
    for (int word = 0; word < 4; ++word)
      v[word] =
          ptx::load_shared_u32x4(rows + static_cast<u32>(raw_x_offset(NTiles, lane, half, 0) ^ 16 * word));
    __syncwarp();  // all lanes have read
    FOURSCALE_UNROLL
    for (int word = 0; word < 4; ++word) {
      const uint4 o = in_order_of_registers(v[word]);
      const int to = ordered_x_offset(NTiles, lane % 8, half, 0, lane / 8);
      ptx::stmatrix_m8n8_x4_b16(
          rows + static_cast<u32>((to ^ word % 2 * 64) + word / 2 * slice_bytes(NTiles)),
          {o.x, o.y, o.z, o.w});
    }
  }
}

/// Whether stages must become full in order. Where a slot is not always the same warpgroup's, a warpgroup
/// could wait for its stage while the stage before it in this slot is not yet full. It would then take the
/// phase before that one, which has the same parity, for its own.
template <int NTiles>
inline constexpr bool in_order = memory<NTiles>::depth % warpgroups(NTiles) != 0;

/// The order role, a whole warp: brings X of each of the CTA's `stages` stages to order.
template <int NTiles>
FOURSCALE_D void order(memory<NTiles>& m, int stages) {
  const int warp = (static_cast<int>(threadIdx.x) - first_orderer(NTiles)) / 32;
  ring<memory<NTiles>::depth> at;
#pragma unroll 1
  for (int i = 0; i < stages; ++i, at.next()) {
    ptx::mbarrier_wait(ptx::shared_address(m.x_full + at.stage), at.parity);
    order_x<NTiles>(ptx::shared_address(m.x[at.stage]), warp);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    if (in_order<NTiles> && i > 0) {
      const ring_slot<NTiles> before(i - 1);
      ptx::mbarrier_wait(ptx::shared_address(m.full + before.slot), before.parity);
    }
    __syncwarp();
    if (ptx::elect_sync()) ptx::mbarrier_arrive(ptx::shared_address(m.full + at.stage));
  }
}

/// Codes and factors of a lane's two rows, for half a stage of a tile.
template <class T>
struct row_pair {
  u32 words[2][4], factors[2][2];

  FOURSCALE_D row_pair(u8 const* codes, u8 const* scales, int half, bool swizzled) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    FOURSCALE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int row = local_row(swizzled, warp, lane, j);
      const uint4 v = *reinterpret_cast<uint4 const*>(codes + code_offset(row, lane, half));
      words[j][0] = v.x, words[j][1] = v.y, words[j][2] = v.z, words[j][3] = v.w;
      const int two = scale_offset(swizzled, row, scale_word(lane, half)) + 2 * scale_pair(lane);
      factors_of<T>(*reinterpret_cast<u16 const*>(scales + two), factors[j]);
    }
  }
  /// Decodes a word of both rows to the fragments of instructions 2 word and 2 word + 1.
  FOURSCALE_D void fragments(int word, u32 (&a)[2][4]) const {
    FOURSCALE_UNROLL
    for (int j = 0; j < 2; ++j) {
      u32 r[4];
      weight_type<T>::codes(words[j][word], r);
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) a[i / 2][i % 2 * 2 + j] = weight_type<T>::mul(r[i], factors[j][word / 2]);
    }
  }
};

/// Adds a tile of a stage times X to the accumulators. A warpgroup calls it; `x` is the low word of X's
/// descriptor. While wgmma reads the fragments of a word, the next word is decoded to other registers.
template <class T, int NTiles>
FOURSCALE_D void add_tile(u8 const* codes, u8 const* scales, u32 x, bool swizzled, tile_sums<NTiles>& sums) {
  constexpr ptx::f16 type = __is_same(T, bf16) ? ptx::f16::bf16 : ptx::f16::fp16;
  u32 a[2][2][4];  // fragments of two words
  FOURSCALE_UNROLL
  for (int half = 0; half < halves; ++half) {
    const row_pair<T> rows(codes, scales, half, swizzled);
    FOURSCALE_UNROLL
    for (int word = 0; word < 4; ++word) {
      ptx::wgmma_wait_group<1>();  // the wgmma of two words ago, which read these registers
      rows.fragments(word, a[word % 2]);
      ptx::wgmma_fence();
      FOURSCALE_UNROLL
      for (int i = 0; i < 2; ++i)
        ptx::wgmma_of_registers<type>(sums, a[word % 2][i],
                                      x + x_descriptor_step(NTiles, half, 2 * word + i));
      ptx::wgmma_commit_group();
    }
  }
}

/// Adds this warpgroup's stages of `Count` tiles, from `mine` on, below `end`, and returns its next stage.
/// (`Count` is a constant because ptxas gives up overlapping wgmma if a branch lies between them.)
template <int Count, class T, int NTiles>
FOURSCALE_D int add_stages(memory<NTiles>& m, bool swizzled, int mine, int end,
                           tile_sums<NTiles> (&sums)[most_tiles]) {
#pragma unroll 1
  for (; mine < end; mine += warpgroups(NTiles)) {
    const ring_slot<NTiles> at(mine);
    ptx::mbarrier_wait(ptx::shared_address(m.full + at.slot), at.parity);
    const u32 x = static_cast<u32>(ptx::wgmma_descriptor_b128(ptx::shared_address(m.x[at.slot])));
    FOURSCALE_UNROLL
    for (int i = 0; i < Count; ++i)
      add_tile<T, NTiles>(m.codes[at.slot][i], m.scales[at.slot][i], x, swizzled, sums[i]);
    ptx::wgmma_wait_group<0>();
    __syncwarp();
    if (ptx::elect_sync()) ptx::mbarrier_arrive(ptx::shared_address(m.empty + at.slot));
  }
  return mine;
}

/// The multiply role, a warpgroup. After the last pair, all but the last warpgroup help to store.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void multiply(problem<T, Layout, TD> const& a, memory<NTiles>& m, span_of tiles, span_of stages) {
  constexpr bool swizzled = Layout::has_padding;
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0), pairs = pairs_of(tiles);
  const sums_on_their_way<NTiles> way{m, a.plan, group, swizzled};
  const float amax = load_amax(a);
  int mine = group, end = 0;
#pragma unroll 1
  for (int n = 0; n < pairs; ++n) {
    const tile_pair pair(a.plan, tiles, n);
    tile_sums<NTiles> sums[most_tiles] = {};
    end += stages.end - stages.begin;
    mine = pair.count == 1 ? add_stages<1, T>(m, swizzled, mine, end, sums)
                           : add_stages<2, T>(m, swizzled, mine, end, sums);
    way.pass(sums, pair);
    if (n + 1 < pairs) continue;
    // The last warpgroup sent its sums after every CTA had stored the pair before. So behind this barrier the
    // inbox's phase is that of this pair, and no thread takes an earlier one of the same parity for it.
    constexpr int all = 128 * warpgroups(NTiles);
    if (group == way.last) return ptx::bar_arrive(sent_barrier, all);
    ptx::bar_sync(sent_barrier, all);
    store_pair(a, m, pair, amax, 32 * store_warps + static_cast<int>(threadIdx.x),
               last_store_threads<NTiles>());
  }
}

/// The body of the kernel; all threads of the CTA call it. The lane that loads initializes the barriers and
/// starts to load without waiting; the other warps wait for it.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void run(problem<T, Layout, TD> const& a, memory<NTiles>& m) {
  const span_of tiles = a.plan.tiles_of(static_cast<int>(blockIdx.x)),
                stages = a.plan.stages_of(cta_team::rank());
  const int thread = static_cast<int>(threadIdx.x);
  const bool loads = thread / 32 == first_loader(NTiles) / 32;
  if (loads && ptx::elect_sync()) {
    ptx::prefetch_tensormap(&a.maps.x);
    ptx::prefetch_tensormap(&a.maps.codes);
    ptx::prefetch_tensormap(&a.maps.scales);
    init_barriers(m, a.plan.ctas());
  }
  __syncwarp();
  ptx::barrier_cluster_arrive_relaxed();
  if (loads)
    ptx::bar_arrive(begin_barrier, threads(NTiles));
  else
    ptx::bar_sync(begin_barrier, threads(NTiles));
  if (thread < first_loader(NTiles)) {
    ptx::setmaxnreg_inc<multiply_registers(NTiles)>();
    return multiply<NTiles>(a, m, tiles, stages);
  }
  ptx::setmaxnreg_dec<other_registers>();
  if (loads) {
    if (ptx::elect_sync()) load<NTiles>(a, m, tiles, stages);
  } else if (thread < first_orderer(NTiles)) {
    store<NTiles>(a, m, tiles);
  } else {
    order<NTiles>(m, pairs_of(tiles) * (stages.end - stages.begin));
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma

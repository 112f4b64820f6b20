// SPDX-License-Identifier: Apache-2.0
// Many GEMMs at once on Hopper, in tiles of every width: a GEMM by itself in the cases of
// gemm_blackwell_test.cu, and GEMMs among others, whose outputs and decoded operands are those of each alone.
#include <deque>
#include <fourscale/device/gemm_grouped.cuh>

#include "mma/gemm_blackwell_cases.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;
using namespace fourscale::device::detail;
using enum mma::cluster_tiles;

namespace {

auto only(int cols, mma::cluster_tiles lie) {
  return [=](wgmma_plan::cut const& c) { return c.cols == cols && c.lie == lie; };
}

/// Whatever the samples say.
template <class Call>
errc multiply(Call call, bool by_blocks) {
  REQUIRE(call.state == errc::ok);
  call.p.by_blocks_above = by_blocks ? -1.0f : 1.0f;
  const errc e = call.template decode<true>(nullptr);
  return e == errc::ok ? call.multiply(nullptr) : e;
}

/// A GEMM that is the only one of its group. It has no amaxes of rows, and counts no steps: these, and what
/// has those, are device::gemm's.
template <int Cols, mma::cluster_tiles Lie, groups_along Along, bool ByBlocks = false>
struct grouped_gemm {
  static constexpr bool certifies = true;
  gemm_steps* counted = nullptr;

  template <class F, class L, class BA, class BB, class T>
  errc operator()(block_scaled_view<F, L, BA> const& a, block_scaled_view<F, L, BB> const& b,
                  matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    if (a.amax.by_row() || b.amax.by_row()) return blackwell_gemm{counted}(a, b, d, factors);
    if (counted != nullptr) {
      const device_buffer<T> unused(d.rows * d.ld);
      REQUIRE(blackwell_gemm{counted}(a, b, matrix_view<T>{unused.data(), d.rows, d.cols, d.ld},
                                      {factors.alpha, 0.0f}) == errc::ok);
    }
    grouped_place place{Along};
    place.add(a.rows, b.rows, a.cols);
    return in_workspace(place.bytes(), nullptr, [&](u8* workspace, gemm_steps*) {
      const auto gemm = [&](int) { return grouped_operands<F, L>{a, b, 0}; };
      return multiply(grouped_call<F, L, T>(gemm, place, d, factors,
                                            aligned_begin({workspace, place.bytes()}), only(Cols, Lie)),
                      ByBlocks);
    });
  }
};

/// Quantized values of a kind on the device. `seed` is its amax, too.
template <class F, class L>
struct packed_operand {
  host_buffer<F, L> q;
  device_buffer<u8> codes, scales;
  block_scaled_view<F, L, u8 const> view;

  packed_operand(kind what, i64 rows, i64 k, u64 seed)
      : q(operand<F, L>(what, rows, k, seed)),
        codes(q.codes),
        scales(q.scales),
        view(codes.data(), scales.data(), rows, k, {amax_value(static_cast<float>(seed + 1))}) {}
};

struct shape {
  i64 m, n, k;
};

/// D of each, and what operands are decoded to, compared with the same of each GEMM alone.
template <class F, class L, class T>
void check_group(groups_along along, std::vector<shape> const& shapes, kind what, float beta) {
  std::deque<packed_operand<F, L>> operands;
  std::vector<grouped_operands<F, L>> all;
  grouped_place place{along};
  i64 rows = 16;  // of nobody
  for (shape const& s : shapes) {
    auto const& a = operands.emplace_back(what, s.m, s.k, operands.size());
    auto const& b = operands.emplace_back(what, s.n, s.k, operands.size());
    all.push_back({a.view, b.view, rows});
    place.add(s.m, s.n, s.k);
    rows += s.m;
  }
  const i64 n = shapes[0].n, ld = n + 8;
  std::vector<T> before(static_cast<size_t>(rows * ld));
  for (size_t i = 0; i < before.size(); ++i) before[i] = from_float<T>(gaussian(i));
  std::vector<T> want = before;
  for (auto const& x : all) {
    const device_buffer<T> d(before);
    REQUIRE(blackwell_gemm{}(x.a, x.b, matrix_view<T>{d.data() + x.d_row * ld, x.a.rows, n, ld},
                             {0.5f, beta}) == errc::ok);
    const std::vector<T> got = d.to_host();
    const auto first = x.d_row * ld, end = first + x.a.rows * ld;
    std::copy(got.begin() + first, got.begin() + end, want.begin() + first);
  }
  const auto gemm = [&](int i) { return all[static_cast<size_t>(i)]; };
  for (wgmma_plan::cut const& c : wgmma_plan::cuts) {
    for (const bool by_blocks : {false, true}) {
      INFO(c.cols << " columns, " << static_cast<int>(c.lie) << (by_blocks ? ", by blocks" : ""));
      const device_buffer<T> d(before);
      const errc e = in_workspace(place.bytes(), nullptr, [&](u8* workspace, gemm_steps*) {
        return multiply(
            grouped_call<F, L, T>(gemm, place, matrix_view<T>{d.data(), rows, n, ld}, {0.5f, beta},
                                  aligned_begin({workspace, place.bytes()}), only(c.cols, c.lie)),
            by_blocks);
      });
      REQUIRE(e == errc::ok);
      CHECK(same_values(d.to_host(), want));
    }
  }
}

/// The bytes of `count` elements of device memory.
template <class T>
std::vector<u8> bytes_at(T const* from, i64 count) {
  return copied(reinterpret_cast<u8 const*>(from), count * i64{sizeof(T)});
}

/// A part of a decoded operand has in each place what the operand alone has there.
void check_same_decoded(mma::decoded_part const& part, mma::decoded_operand const& alone) {
  bool same = true;
  const auto compare = [&](auto const* x, auto const* y, i64 count) {
    same = same && bytes_at(x, count) == bytes_at(y, count);
  };
  for (i64 row = 0; row < alone.rows; ++row) {
    compare(part.values + row * part.padded_k(), alone.values + row * alone.padded_k(), alone.padded_k());
    compare(part.exponents + row * part.row_exponents(), alone.exponents + row * alone.row_exponents(),
            alone.row_exponents());
  }
  CHECK(same);
  const i64 groups = ceil_div<i64>(alone.rows, mma::bounds_rows);
  for (i64 step = 0; step < alone.steps; ++step) {
    const i64 at = step * part.row_groups(), of_alone = step * alone.row_groups();
    compare(part.magnitudes + at, alone.magnitudes + of_alone, groups);
    compare(part.depths + at, alone.depths + of_alone, groups);
    for (i64 g = 0; g < groups; ++g) {
      compare(part.bounds + part.bounds_at(g, step), alone.bounds + alone.bounds_at(g, step), 1);
      compare(part.of_accumulators + part.bounds_at(g, step),
              alone.of_accumulators + alone.bounds_at(g, step), 1);
    }
  }
  CHECK(same);
}

/// A group of GEMMs drawn at random, compared with the CPU's.
template <class F, class Layout, class T>
void check_random_group(u64 seed) {
  dice d(seed);
  const auto along = d.one_of({groups_along::rows, groups_along::k});
  const i64 count = d.size(40), n = d.size(300), m = 16 * d.size(13), k = F::block_size * d.size(60),
            ld = n + d.one_of({0, 4, 3});
  const gemm_factors factors{d.one_of({1.0f, -0.37f, 0.0f}), d.one_of({0.0f, 1.0f, -0.75f})};
  const auto cut = d.one_of(wgmma_plan::cuts);
  const bool by_blocks = d.one_in(3);
  INFO("seed " << seed << ": " << count << " GEMMs along " << (along == groups_along::k ? "K" : "rows")
               << ", n = " << n << ", " << cut.cols << " columns, lie " << static_cast<int>(cut.lie)
               << (by_blocks ? ", by blocks" : ""));
  std::deque<gemm_operand<F, Layout>> host;
  std::deque<device_gemm_operand<F, Layout>> device;
  std::vector<grouped_operands<F, Layout>> all;
  grouped_place place{along};
  i64 rows = 0;
  for (i64 i = 0; i < count; ++i) {
    const bool of_rows = along == groups_along::rows;
    const i64 own_m = of_rows ? 16 * d.size(13) : m, own_k = of_rows ? k : F::block_size * d.size(60);
    for (const i64 size : {own_m, n})
      device.emplace_back(host.emplace_back(random_operand<F, Layout>(d, size, own_k, 0, false, false),
                                            d.bits(), amax_from::view));
    all.push_back({device[device.size() - 2].view, device.back().view, rows});
    place.add(own_m, n, own_k);
    rows += own_m + d.below(2);
  }
  std::vector<T> want(static_cast<size_t>(rows * ld));
  for (size_t i = 0; i < want.size(); ++i) want[i] = from_float<T>(gaussian(i));
  const device_buffer<T> d_of_gpu(want);
  for (size_t i = 0; i < all.size(); ++i) {
    auto &a = host[2 * i], &b = host[2 * i + 1];
    const matrix_view<T> own{want.data() + all[i].d_row * ld, a.data.rows, n, ld};
    REQUIRE(host::gemm(a.on_host(), b.on_host(), own, factors, accumulate::blackwell{}) == errc::ok);
  }
  const auto gemm = [&](int i) { return all[static_cast<size_t>(i)]; };
  const errc e = in_workspace(place.bytes(), nullptr, [&](u8* workspace, gemm_steps*) {
    const matrix_view<T> to{d_of_gpu.data(), rows, n, ld};
    return multiply(
        grouped_call<F, Layout, T>(gemm, place, to, factors, aligned_begin({workspace, place.bytes()}),
                                   only(cut.cols, cut.lie)),
        by_blocks);
  });
  REQUIRE(e == errc::ok);
  CHECK(same_bits(d_of_gpu.to_host(), want));
}

}  // namespace

TEST_CASE("device gemm grouped: shapes, outputs, scales, data and accumulators in tiles of 192 columns",
          "[device][gemm][blackwell][grouped]") {
  if (hopper_or_warn()) check_each<grouped_gemm<192, stacked, groups_along::rows>>();
}

TEST_CASE("device gemm grouped: the same in tiles of 128 columns", "[device][gemm][blackwell][grouped]") {
  if (hopper_or_warn()) check_each<grouped_gemm<128, side_by_side, groups_along::k>>();
}

TEST_CASE("device gemm grouped: the same in tiles of 64 columns", "[device][gemm][blackwell][grouped]") {
  if (hopper_or_warn()) check_each<grouped_gemm<64, low, groups_along::k>>();
}

TEST_CASE("device gemm grouped: the same by blocks", "[device][gemm][blackwell][grouped]") {
  if (hopper_or_warn()) check_each<grouped_gemm<192, stacked, groups_along::rows, true>>();
}

TEST_CASE("device gemm grouped: the same by blocks, in low tiles", "[device][gemm][blackwell][grouped]") {
  if (hopper_or_warn()) check_each<grouped_gemm<64, low, groups_along::k, true>>();
}

TEST_CASE("device gemm grouped: GEMMs one behind the other along rows", "[device][gemm][grouped]") {
  if (!hopper_or_warn()) return;
  const std::vector<shape> shapes{{16, 208, 320}, {144, 208, 320}, {272, 208, 320}, {48, 208, 320}};
  check_group<nvfp4, linear, bf16>(groups_along::rows, shapes, kind::student_2, 0.0f);
  check_group<nvfp4, swizzled_128x4, float>(groups_along::rows, shapes, kind::lognormal_blocks, 0.5f);
  check_group<mxfp4, linear, bf16>(groups_along::rows, shapes, kind::lognormal_rows, 0.0f);
}

TEST_CASE("device gemm grouped: GEMMs one behind the other along K", "[device][gemm][grouped]") {
  if (!hopper_or_warn()) return;
  const std::vector<shape> shapes{{208, 400, 16}, {208, 400, 1040}, {208, 400, 272}, {208, 400, 640}};
  check_group<nvfp4, linear, float>(groups_along::k, shapes, kind::student_2, 1.0f);
  check_group<nvfp4, linear, float>(groups_along::k, shapes, kind::channels_50, 0.0f);
  check_group<nvfp4, swizzled_128x4, float>(groups_along::k, shapes, kind::lognormal_blocks, 0.5f);
  check_group<mxfp4, linear, bf16>(groups_along::k, {{208, 400, 32}, {208, 400, 544}}, kind::lognormal_steps,
                                   0.0f);
}

TEST_CASE("device gemm grouped: the bytes suffice however the GEMMs fall", "[device][gemm][grouped]") {
  for (u64 seed = 0; seed < 400; ++seed) {
    const auto count = static_cast<i64>(seed % 70 + 1);
    grouped_place along_rows{groups_along::rows}, along_k{groups_along::k};
    i64 all = 0;
    for (i64 i = 0; i < count; ++i) {
      const auto tokens = static_cast<i64>(16 * (1 + mix(seed * 1000 + static_cast<u64>(i)) % (seed + 1)));
      along_rows.add(tokens, 80, 144), along_k.add(80, 144, tokens);
      all += tokens;
    }
    CHECK(along_rows.bytes() <= grouped_bytes(groups_along::rows, all, 80, 144, count));
    CHECK(along_k.bytes() <= grouped_bytes(groups_along::k, 80, 144, all, count));
  }
}

TEST_CASE("device gemm grouped: samples are those of each GEMM, as many as its share of the work",
          "[device][gemm][grouped]") {
  if (!hopper_or_warn()) return;
  for (const auto along : {groups_along::rows, groups_along::k}) {
    const bool rows = along == groups_along::rows;
    const i64 sizes[] = {16, 1040, 272, 640, 80};
    std::deque<packed_operand<nvfp4, linear>> operands;
    std::vector<grouped_operands<nvfp4, linear>> all;
    grouped_place place{along};
    i64 d_row = 0, work = 0;
    for (const i64 size : sizes) {
      const i64 m = rows ? size : 128, k = rows ? 1024 : size;
      auto const& a = operands.emplace_back(kind::lognormal_blocks, m, k, operands.size());
      auto const& b = operands.emplace_back(kind::student_2, 144, k, operands.size());
      all.push_back({a.view, b.view, d_row});
      place.add(m, 144, k);
      d_row += m;
      work += m * round_up<i64>(k, 256);
    }
    const device_buffer<bf16> d(d_row * 144);
    const device_buffer<u8> memory(place.bytes());
    REQUIRE(cudaMemset(memory.data(), 0xff, static_cast<size_t>(place.bytes())) == cudaSuccess);
    const auto gemm = [&](int i) { return all[static_cast<size_t>(i)]; };
    const grouped_call<nvfp4, linear, bf16> call(gemm, place, matrix_view<bf16>{d.data(), d_row, 144}, {},
                                                 aligned_begin({memory.data(), place.bytes()}));
    REQUIRE(call.state == errc::ok);
    constexpr i64 count = mma::wgmma::way_samples, pairs = mma::wgmma::way_pairs;
    const auto samples = [&] { return bytes_at(call.p.samples, count); };
    REQUIRE(call.decode<false>(nullptr) == errc::ok);  // the way is then that by certificates
    CHECK(samples() == std::vector<u8>(count * sizeof(mma::wgmma::way_sample)));
    REQUIRE(call.decode<true>(nullptr) == errc::ok);
    const std::vector<u8> together = samples();
    i64 first = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      INFO("GEMM " << i << (rows ? " along rows" : " along K"));
      auto const& [a, b, row] = all[i];
      const device_buffer<u8> own(device::gemm_workspace_bytes(a.rows, b.rows, a.cols));
      const wgmma_call alone(a, b, matrix_view<bf16>{d.data(), a.rows, 144}, {}, own.data(), nullptr);
      REQUIRE(alone.decode(nullptr) == errc::ok);
      const std::vector<u8> of_alone = bytes_at(alone.p.samples, count);
      i64 end = first;
      for (; end < pairs && call.decoded.group_of_pair[end] == i; ++end)
        for (const i64 sample : {end, end + pairs}) {
          const auto at = static_cast<std::ptrdiff_t>(sample * 8), size = std::ptrdiff_t{8};
          CHECK(std::equal(together.begin() + at, together.begin() + at + size, of_alone.begin() + at));
        }
      const double share =
          static_cast<double>(a.rows * round_up<i64>(a.cols, 256) * pairs) / static_cast<double>(work);
      CHECK(std::abs(static_cast<double>(end - first) - share) < 1.0);
      first = end;
    }
    CHECK(first == pairs);
  }
}

TEST_CASE("device gemm grouped: operands decoded together are as decoded alone", "[device][gemm][grouped]") {
  if (!hopper_or_warn()) return;
  using problem = decode_problem<nvfp4, linear>;
  for (const i64 k : {16, 144, 256, 320, 512, 1040, 1088}) {
    for (const auto along : {groups_along::rows, groups_along::k}) {
      INFO("K = " << k << (along == groups_along::k ? ", along K" : ", along rows"));
      grouped_place place{along};
      std::deque<packed_operand<nvfp4, linear>> operands;
      for (u64 i = 0; i < 6; ++i) operands.emplace_back(kind::student_2, 136, k, i);
      for (int i = 0; i < 3; ++i) place.add(136, 136, k);
      const device_buffer<u8> memory(place.bytes());
      u8* const at = aligned_begin({memory.data(), place.bytes()});
      problem p{place.a(at), place.b(at), 1.0f, place.factors(at), place.samples(at)};
      const auto steps = static_cast<i32>(place.steps_of(k));
      for (int i = 0; i < 3; ++i) {
        const bool rows = along == groups_along::rows;
        const i32 row = rows ? static_cast<i32>(i * place.padded_rows(136)) : 0, step = rows ? 0 : i * steps;
        p.groups.add({operands[2 * static_cast<size_t>(i)].view,
                      operands[2 * static_cast<size_t>(i) + 1].view, row, row, step, steps},
                     2 * mma::decoded_operand::groups_of<i64>(136) / row_groups_at_once(steps));
      }
      decode_groups_kernel<true><<<p.groups.ctas(), 32 * decode_warps>>>(p);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      for (int i = 0; i < 3; ++i) {
        auto const& of_group = p.groups.of(i);
        const device_buffer<u8> own(2 * mma::decoded_operand::in(nullptr, 136, k).bytes() + 256);
        const decoded_call<nvfp4, linear, nvfp4, linear, decoded_pair> alone(
            of_group.a, of_group.b, decoded_pair{}, aligned_begin({own.data(), 0}));
        REQUIRE(alone.decode(nullptr) == errc::ok);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        check_same_decoded({p.to_a, of_group.a_row, 136, of_group.first_step, steps}, alone.p.a);
        check_same_decoded({p.to_b, of_group.b_row, 136, of_group.first_step, steps}, alone.p.b);
      }
    }
  }
}

TEST_CASE("device gemm grouped: drawn at random, compared with the CPU's", "[device][gemm][grouped]") {
  if (!hopper_or_warn()) return;
  const u64 count = exhaustive() ? 2000 : 40;
  for (u64 seed = 0; seed < count; ++seed) {
    check_random_group<nvfp4, linear, float>(seed);
    check_random_group<nvfp4, swizzled_128x4, bf16>(seed);
  }
}

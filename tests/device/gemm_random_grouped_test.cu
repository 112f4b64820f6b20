// SPDX-License-Identifier: Apache-2.0
// Groups of GEMMs drawn at random: D of each GEMM in one launch on Hopper compared with the CPU's, bit by
// bit.
#include <deque>
#include <fourscale/device/gemm_grouped.cuh>

#include "mma/cpu_gemm.hpp"
#include "mma/gemm_calls.cuh"
#include "mma/gemm_random.hpp"

using namespace fourscale;
using namespace fourscale::test;
using namespace fourscale::device::detail;

namespace {

template <class F, class Layout, class T>
void check(u64 seed) {
  using data = gemm_operand_data<F, Layout>;
  dice d(seed);
  const auto along = d.one_of({groups_along::rows, groups_along::k});
  const i64 count = d.size(40), n = d.size(300), m = 16 * d.size(13), k = F::block_size * d.size(60),
            ld = n + d.one_of({i64{0}, i64{4}, i64{3}});
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
  const auto may = [&](wgmma_plan::cut const& c) { return c.cols == cut.cols && c.lie == cut.lie; };
  const errc e = in_workspace(place.bytes(), nullptr, [&](u8* workspace, gemm_steps*) {
    grouped_call<F, Layout, T> call(gemm, place, matrix_view<T>{d_of_gpu.data(), rows, n, ld}, factors,
                                    aligned_begin({workspace, place.bytes()}), may);
    REQUIRE(call.state == errc::ok);
    call.p.by_blocks_above = by_blocks ? -1.0f : 1.0f;
    const errc decoded = call.template decode<true>(nullptr);
    return decoded == errc::ok ? call.multiply(nullptr) : decoded;
  });
  REQUIRE(e == errc::ok);
  CHECK(same_bits(d_of_gpu.to_host(), want));
}

}  // namespace

TEST_CASE("device gemm grouped: drawn at random, compared with the CPU's", "[device][gemm][grouped]") {
  if (!hopper_or_warn()) return;
  const u64 count = exhaustive() ? 2000 : 40;
  for (u64 seed = 0; seed < count; ++seed) {
    check<nvfp4, linear, float>(seed);
    check<nvfp4, swizzled_128x4, bf16>(seed);
  }
}

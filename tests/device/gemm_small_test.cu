// SPDX-License-Identifier: Apache-2.0
// device::gemm_weight_only compared with sums in double of the values that codes and scales stand for: bit by
// bit where no sum of FP32 is rounded, within a derived bound elsewhere; and what lies around D.
#include "device/gemm_small_checks.cuh"
#include "support/dice.hpp"

using namespace fourscale;
using namespace fourscale::test;
using namespace fourscale::test::weight_only;

namespace {

small_options drawn_options(dice& d) {
  const bool few = d.one_in(2);  // rows of W
  small_options o{d.size(100), few ? d.size(300) : d.size(4000), 16 * (few ? d.size(700) : d.size(150))};
  o.factors = {d.one_of({1.0f, -0.37f, 0.0f}), d.one_of({0.0f, 0.0f, 1.0f, -0.75f})};
  o.gap = d.one_of({0, 0, 8, 1}), o.gap_x = d.one_of({0, 0, 8, 3});
  o.start_x = d.one_of({0, 0, 8, 1});
  o.start_w = d.one_of({0, 0, 16, 4, 1}), o.start_s = d.one_of({0, 0, 16, 1});
  using enum amax_place;
  o.amax = d.one_of({view, device, rows, unit, encode});
  return o;
}

/// A case drawn at random: the exact bits where no sum is rounded, or any data within the bound.
template <class T, class Layout, class TD>
void check_drawn(u64 seed) {
  dice d(seed);
  small_options o = drawn_options(d);
  INFO("seed " << seed << ": start of X " << o.start_x << ", of W " << o.start_w << ", of scales "
               << o.start_s << ", gap of X " << o.gap_x);
  if (d.one_in(3)) return check_random<T, Layout, TD>(o);
  small_case<T, Layout, TD> c(o, data::exact, seed);
  if (d.one_in(2)) return check_plan(c, d.one_of(plans));
  INFO(o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
  const auto got = c.on_device(), want = c.oracle();
  INFO(first_difference(got, want, o.n + o.gap));
  CHECK(same_bits(got, want));
}

}  // namespace

TEST_CASE("device gemm_weight_only: exact sums, bf16 and linear scales", "[device][gemm][small]") {
  check_exact<bf16, linear, float>(sizes());
}

TEST_CASE("device gemm_weight_only: exact sums, bf16 and swizzled scales", "[device][gemm][small]") {
  check_exact<bf16, swizzled_128x4, bf16>(sizes());
}

TEST_CASE("device gemm_weight_only: exact sums, by mma.sync", "[device][gemm][small]") {
  check_exact<bf16, linear, float>(sizes(), {.mma_sync = true});
  check_exact<bf16, swizzled_128x4, bf16>(sizes(), {.mma_sync = true});
}

TEST_CASE("device gemm_weight_only: many pairs of tiles for a cluster", "[device][gemm][small]") {
  check_exact<bf16, linear, float>({{3, 60000, 1024}, {16, 50001, 768}, {30, 42000, 512}, {60, 34000, 512}});
  check_exact<bf16, swizzled_128x4, bf16>({{16, 60032, 576}});
}

TEST_CASE("device gemm_weight_only: random values are within the bound, and the same twice",
          "[device][gemm][small]") {
  for (const i64 m : {1, 8, 16, 33, 64}) {
    check_random<bf16, linear, float>({m, 300, 4112});
    check_random<bf16, swizzled_128x4, bf16>({m, 257, 2048, {1.5f, -0.5f}, 3});
  }
  check_random<bf16, linear, float>({16, 1024, 8192});
}

TEST_CASE("device gemm_weight_only: other plans have the same sums where those are exact",
          "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  for (tuning const& t : plans) {
    check_plan(small_case<bf16, linear, float>({16, 1300, 2304}, data::exact), t);
    check_plan(small_case<bf16, swizzled_128x4, bf16>({7, 9001, 1040}, data::exact), t);
  }
}

TEST_CASE("device gemm_weight_only: a row of D depends on no other row", "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  small_case<bf16, linear, float> c({16, 260, 2048}, data::random);
  const std::vector<float> all = c.on_device();
  c.o.m = 9, c.x.resize(9 * 2048);
  c.before.resize(9 * 260 + canary);
  const std::vector<float> some = c.on_device();
  CHECK(std::memcmp(all.data(), some.data(), 9 * 260 * sizeof(float)) == 0);
}

TEST_CASE("device gemm_weight_only: NaN scales, zero blocks, infinities", "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  for (const i64 n : {50, 64})  // 64 by TMA
    for (const i64 k : {192, 256, 512}) {
      check_special(small_case<bf16, linear, float>({9, n, k}, data::exact));
      check_special(small_case<bf16, swizzled_128x4, bf16>({9, n, k}, data::exact));
    }
}

TEST_CASE("device gemm_weight_only: each code and scale has its value", "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  for (const i64 k : {16, 64, 256, 512}) {
    const small_options o{16, 256, k, {}, 0, 0, 0, 0, 0, amax_place::unit};
    check_values(small_case<bf16, linear, float>(o, data::exact));
    check_values(small_case<bf16, swizzled_128x4, bf16>(o, data::exact));
  }
}

TEST_CASE("device gemm_weight_only: D is not read under beta = 0", "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  small_case<bf16, linear, float> c({16, 50, 512}, data::exact);
  for (float& d : c.before) d = bit_cast<float>(0x7fc0'0000u);
  CHECK(same_bits(c.on_device(), c.oracle()));
}

TEST_CASE("device gemm_weight_only: it can be captured, for it neither synchronises nor allocates",
          "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  small_case<bf16, swizzled_128x4, bf16> c({16, 1030, 2304}, data::exact);
  const auto captured = [&](auto const&... arguments) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    const errc e = device::gemm_weight_only(arguments..., c.o.factors, stream);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
    return e;
  };
  CHECK(same_bits(c.on_device_by(captured), c.oracle()));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("device gemm_weight_only: broken rules are refused and D stays as it was",
          "[device][gemm][small][errors]") {
  alignas(16) static u8 codes[64 * 32], scales[64 * 4];
  alignas(16) static bf16 x[16 * 64];
  alignas(16) static float d[16 * 64];
  for (float& v : d) v = -1.5f;
  using packed = block_scaled_view<nvfp4>;
  using activations = matrix_view<bf16 const>;
  const auto refused = [&](activations from, packed w, matrix_view<float> to, errc e) {
    if (w.amax == tensor_amax<nvfp4>{}) w.amax = unit_scale;
    CHECK(device::gemm_weight_only(from, w, to) == e);
  };
  const activations a{x, 16, 64};
  const packed w{codes, scales, 64, 64};
  refused({x, 0, 64}, w, {d, 0, 64}, errc::empty_matrix);
  refused({x, 16, 40}, {codes, scales, 64, 40}, {d, 16, 64}, errc::partial_block);
  refused({x, 16, 48}, w, {d, 16, 64}, errc::shape_mismatch);  // K differs
  refused(a, w, {d, 15, 64}, errc::shape_mismatch);            // M differs
  refused(a, w, {d, 16, 63, 64}, errc::shape_mismatch);        // N differs
  refused(a, w, {d, 16, 64, 63}, errc::bad_leading_dimension);
  refused({x, 16, 64, 63}, w, {d, 16, 64}, errc::bad_leading_dimension);
  refused({nullptr, 16, 64}, w, {d, 16, 64}, errc::null_pointer);
  refused(a, {codes, nullptr, 64, 64}, {d, 16, 64}, errc::null_pointer);
  refused(a, w, {nullptr, 16, 64}, errc::null_pointer);
  refused(a, w, {reinterpret_cast<float*>(reinterpret_cast<u8*>(d) + 1), 16, 64}, errc::misaligned);
  refused({reinterpret_cast<bf16*>(reinterpret_cast<u8*>(x) + 1), 16, 63, 64}, w, {d, 16, 64},
          errc::misaligned);
  refused(a, w, {reinterpret_cast<float*>(x), 16, 64}, errc::overlap);
  refused(a, w, {reinterpret_cast<float*>(codes), 16, 64}, errc::overlap);
  refused(a, {reinterpret_cast<u8*>(d), scales, 64, 64}, {d, 16, 64}, errc::overlap);
  packed other = w;
  other.code_capacity = 64 * 32 - 1;
  refused(a, other, {d, 16, 64}, errc::buffer_too_small);
  other = w;
  other.amax = amax_of_groups(d);
  refused(a, other, {d, 16, 64}, errc::amax_of_groups);
  other.amax = amax_in(d + 5);
  refused(a, other, {d, 16, 64}, errc::overlap);
  CHECK(device::gemm_weight_only(a, w, matrix_view<float>{d, 16, 64}) == errc::no_amax);
  for (const float v : d) REQUIRE(v == -1.5f);
}

TEST_CASE("device gemm_weight_only: drawn at random, by drawn plans", "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  const u64 count = exhaustive() ? 2000 : 60;
  for (u64 seed = 0; seed < count; ++seed) {
    check_drawn<bf16, linear, float>(seed);
    check_drawn<bf16, swizzled_128x4, bf16>(seed);
  }
}

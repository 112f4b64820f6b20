// SPDX-License-Identifier: Apache-2.0
// MXFP8, MXFP6 and MXFP4 by one another with Blackwell's bits on mma.sync of fp16, which any GPU from sm_80
// on has, compared with the chained model, or with the CPU's GEMM where that would take long.
#include <cmath>

#include "mma/cpu_gemm.hpp"
#include "mma/gemm_calls.cuh"
#include "mma/gemm_mx_cases.hpp"
#include "mma/gemm_random.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Whether B's elements are multiplied in two parts. These steps have a certificate, from reaches, that the
/// CPU does not have: fewer of them may drop bits than the CPU says.
template <class F, class G>
constexpr bool in_parts = mma::parts_of<typename F::element, typename G::element>() != mma::parts::none;

/// Compares D with the oracle's; gives how the steps were added.
template <class F, class LA, class G, class LB, class T>
gemm_steps check(gemm_case<F, LA, G, LB, T>& c, std::vector<float> const& sums) {
  gemm_steps steps, on_host;
  CHECK(same_bits(c.on_device(f16_gemm{&steps}), c.output_of(sums)));
  CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 32));
  c.on_host(cpu_gemm{&on_host});
  if (!in_parts<F, G>) CHECK(steps.by_model >= on_host.by_model);
  return steps;
}

template <class F, class G>
void check_table(int part, int parts) {
  if (!gpu_or_warn()) return;
  for_each_of_table<F, G>([](auto c, std::vector<float> const& sums) { check(c, sums); }, part, parts);
}

/// m x n x k of this data, compared with the CPU's GEMM.
template <class F, class G>
gemm_steps check_data(gemm_options const& o, kind of_a, kind of_b) {
  gemm_case<F, linear, G, swizzled_128x4, float> c(
      o, gemm_operand_data<F, linear>(operand<F, linear>(of_a, o.m, o.k, 1)),
      gemm_operand_data<G, swizzled_128x4>(operand<G, swizzled_128x4>(of_b, o.n, o.k, 2)));
  gemm_steps steps, on_host;
  const auto want = c.on_host(cpu_gemm{&on_host});
  CHECK(same_bits(c.on_device(f16_gemm{&steps}), want));
  if (in_parts<F, G>)
    CHECK(steps.by_model <= on_host.by_model);
  else
    CHECK(steps.by_model == on_host.by_model);
  return steps;
}

/// GEMMs drawn at random, compared with the CPU's.
template <class F, class G, class Layout, class T>
void check_random() {
  if (!gpu_or_warn()) return;
  for_random_gemms<F, G, Layout, T>(40, 1000, 200, 2048, [](auto& c, u64) {
    gemm_steps steps;
    CHECK(same_bits(c.on_device(f16_gemm{&steps}), c.on_host(cpu_gemm{})));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 32));
  });
}

}  // namespace

TEST_CASE("device gemm f16: shapes with each kind of data", "[device][gemm][blackwell][large]") {
  check_table<mxfp8_e4m3, mxfp8_e4m3>(0, 4);
  check_table<mxfp8_e4m3, mxfp8_e5m2>(1, 6);
  check_table<mxfp8_e5m2, mxfp8_e4m3>(2, 6);
  check_table<mxfp8_e5m2, mxfp8_e5m2>(3, 6);
  check_table<mxfp6_e2m3, mxfp6_e2m3>(4, 6);
  check_table<mxfp6_e3m2, mxfp6_e3m2>(5, 6);
  check_table<mxfp4, mxfp8_e4m3>(0, 8);
  check_table<mxfp8_e4m3, mxfp4>(1, 8);
  check_table<mxfp6_e2m3, mxfp6_e3m2>(2, 8);
  check_table<mxfp6_e3m2, mxfp8_e4m3>(3, 8);
  check_table<mxfp8_e5m2, mxfp4>(4, 8);
  check_table<mxfp8_e4m3, mxfp6_e3m2>(5, 8);
  check_table<mxfp8_e5m2, mxfp6_e2m3>(6, 8);
}

TEST_CASE("device gemm f16: every code and scale, NaN and infinity among them", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  for_all_mx_codes([](auto& c) { CHECK(check(c, c.sums()).by_model > 0); });
}

TEST_CASE("device gemm f16: one NaN, infinity or NaN scale among ones and zeros",
          "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  for_each_not_finite([](auto& c) { CHECK(check(c, c.sums()).by_model >= 4 * 2); });
}

TEST_CASE("device gemm f16: values made for the bounds", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  for (int down = 0; down < 6; ++down)
    for (const float sign : {1.0f, -1.0f}) {
      INFO("2^-" << down << ", sign " << sign);
      auto c = mx_large_sum(down, sign);
      CHECK(check(c, c.sums()).by_model == 0);
      auto d = mx_large_sum_of_e5m2(4 + down, sign);
      CHECK(check(d, d.sums()).by_model == 0);
      auto e = mx_large_sum_of_e3m2(down, sign);
      CHECK(check(e, e.sums()).by_model == 0);
    }
  for_each_cancelling([](auto& c) { CHECK(check(c, c.sums()).by_model == 0); });
  for (int apart = 18; apart < 34; ++apart) {
    INFO(apart << " bits apart");
    for_each_apart(apart, [&](auto& c) { CHECK((check(c, c.sums()).by_model > 0) == (apart > 25)); });
  }
  for (int below = 20; below < 30; ++below) {
    INFO(below << " bits below");
    auto c = mx_accumulator_below(below);
    CHECK((check(c, c.sums()).by_model > 0) == (below > 25));
  }
}

TEST_CASE("device gemm f16: lowest bits of A and of B in different products", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  const auto check_reach = []<class F, class G>(F, G) {
    using of_a = typename F::element;
    using of_b = typename G::element;
    for (int above = 0; above < 8; ++above)
      for (int bits = 22; bits < 36; ++bits) {
        INFO(F::name << " by " << G::name << ": products " << above << " bits above, accumulator " << bits
                     << " bits");
        auto c = mx_apart_in_place<F, G>(above, bits);
        const gemm_steps steps = check(c, c.sums());
        // The sum of the products of reaches, and what it is multiplied by, in units of both lowest bits.
        const double reaches = std::min(1.0, std::ldexp(1.0, -std::min(above, 6)) +
                                                 std::ldexp(1.0, -std::min(-subnormal_exponent<of_a>, 6)));
        const double most = std::ldexp(1.0, bits) +
                            std::ldexp(1.0, std::max(above, of_b::mantissa_bits) - subnormal_exponent<of_a>);
        const bool certified = most * reaches < std::ldexp(1.0, 26);
        CHECK((steps.by_model > 0) == (bits > 25 && !certified));
      }
  };
  check_reach(mxfp8_e4m3{}, mxfp8_e4m3{});
  check_reach(mxfp8_e5m2{}, mxfp8_e5m2{});
  check_reach(mxfp8_e4m3{}, mxfp6_e3m2{});
  check_reach(mxfp6_e3m2{}, mxfp8_e4m3{});
}

TEST_CASE("device gemm f16: blocks of zeros under far scales", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  // They make the adder drop bits of the accumulator, and of nothing else.
  mx_case<mxfp8_e4m3> c({60, 70, 960});
  for (size_t i = 0; i < c.a.data.scales.size(); ++i) {
    c.a.data.scales[i] = static_cast<u8>(mix(i + 5) % 2 == 0 ? mix(i) >> 8 : 127);
    if (mix(i + 5) % 2 == 0)
      std::fill_n(c.a.data.codes.begin() + static_cast<std::ptrdiff_t>(32 * i), 32, u8{0});
  }
  check(c, c.sums());
}

TEST_CASE("device gemm f16: zeros that meet large elements", "[device][gemm][blackwell][racecheck]") {
  if (!gpu_or_warn()) return;
  // Their products have no exponent: else the small accumulator of the first block would lose bits.
  constexpr i64 rows = 20, cols = 36;
  mx_case<mxfp8_e4m3> c({rows, cols, 64});
  const auto fill = [](gemm_operand_data<mxfp8_e4m3, linear>& x, i64 count, int exponent) {
    for (i64 row = 0; row < count; ++row) {
      const size_t at = static_cast<size_t>(64 * row);
      x.scales[static_cast<size_t>(2 * row)] = static_cast<u8>(e8m0::bias + exponent);
      x.scales[static_cast<size_t>(2 * row + 1)] = e8m0::bias;
      for (size_t i = 0; i < 32; ++i) {
        x.codes[at + i] = static_cast<u8>(mix(static_cast<u64>(count * 64 + row) + 100 * i) % 0x7f);
        x.codes[at + 32 + i] = i % 4 != 0 ? u8{0x01} : row % 2 == 0 ? u8{0} : u8{0x7e};  // 2^-9; 0 or 448
      }
    }
  };
  fill(c.a.data, rows, -16), fill(c.b.data, cols, -16);
  check(c, c.sums());
}

TEST_CASE("device gemm f16: kinds of data, compared with the CPU's", "[device][gemm][blackwell][large]") {
  if (!gpu_or_warn()) return;
  for (const kind what : kinds) {
    INFO("kind " << name_of(what));
    check_data<mxfp8_e4m3, mxfp8_e4m3>({300, 410, 2048}, what, what);
    check_data<mxfp8_e5m2, mxfp8_e4m3>({300, 410, 2048}, what, kind::gaussian);
    check_data<mxfp8_e4m3, mxfp6_e3m2>({300, 410, 1024}, what, what);
    check_data<mxfp8_e4m3, mxfp4>({300, 410, 1024}, what, what);
  }
  const gemm_steps steps =
      check_data<mxfp6_e2m3, mxfp6_e2m3>({515, 777, 2048}, kind::gaussian, kind::gaussian);
  CHECK(steps.in_double + steps.by_model == 0);
  CHECK(steps.in_f32 == 515 * 777 * 64);
}

TEST_CASE("device gemm f16: D as each way to store it takes it", "[device][gemm][blackwell][racecheck]") {
  if (!gpu_or_warn()) return;
  for (const float beta : {0.0f, -0.75f})
    for (gemm_options o : std::vector<gemm_options>{
             {128, 192, 64}, {17, 72, 96, {}, 8}, {143, 584, 64, {}, 16}, {150, 391, 32, {}, 1}}) {
      o.factors = {0.7f, beta};
      gemm_case<mxfp8_e4m3, linear, mxfp8_e4m3, linear, bf16> c(o);
      CHECK(same_bits(c.on_device(f16_gemm{}), c.oracle()));
      gemm_case<mxfp6_e3m2, linear, mxfp6_e3m2, linear, fp16> d(o);
      CHECK(same_bits(d.on_device(f16_gemm{}), d.oracle()));
    }
}

TEST_CASE("device gemm: MXFP8 and MXFP6 by the call, and broken rules", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  gemm_case<mxfp6_e2m3, linear, mxfp8_e4m3, linear, float> c({30, 20, 64});
  CHECK(same_bits(c.on_device(blackwell_gemm{}), c.oracle()));
  const device_gemm_operand<mxfp6_e2m3, linear> a(c.a);
  const device_gemm_operand<mxfp8_e4m3, linear> b(c.b);
  const device_buffer<float> d(c.before);
  const i64 bytes = device::gemm_workspace_bytes(30, 20, 64);
  const device_buffer<u8> workspace(bytes + 1);
  const auto refused = [&](device::gemm_workspace w, errc e) {
    CHECK(device::gemm(a.view, b.view, c.view_of(d.data()), {}, accumulate::blackwell{}, w) == e);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(same_bits(d.to_host(), c.before));
  };
  CHECK(device::kernel_of_gemm(a.view, b.view, c.view_of(d.data())) == device::gemm_kernel::f16);
  refused({workspace.data(), bytes - 1}, errc::no_workspace);
  refused({nullptr, bytes}, errc::no_workspace);
  refused({d.data(), bytes}, errc::overlap);
  CHECK(device::gemm(a.view, b.view, c.view_of(d.data()), {}, accumulate::blackwell{},
                     {workspace.data() + 1, bytes}) == errc::ok);
  CHECK(same_bits(d.to_host(), c.oracle()));
}

TEST_CASE("device gemm f16: no operand takes more workspace than the others'", "[device][gemm][blackwell]") {
  for (const i64 rows : {1, 7, 64, 65, 1000})
    for (const i64 k : {32, 64, 96, 4096})
      CHECK(mma::f16_operand::in(nullptr, rows, k).bytes() <=
            mma::decoded_operand::in(nullptr, rows, k).bytes());
}

TEST_CASE("device gemm f16: drawn at random, compared with the CPU's", "[device][gemm][blackwell]") {
  check_random<mxfp8_e4m3, mxfp8_e5m2, linear, float>();
  check_random<mxfp6_e2m3, mxfp4, swizzled_128x4, bf16>();
  check_random<mxfp6_e3m2, mxfp6_e3m2, linear, float>();
  check_random<mxfp6_e3m2, mxfp8_e5m2, linear, float>();
  check_random<mxfp8_e5m2, mxfp6_e3m2, swizzled_128x4, bf16>();
}

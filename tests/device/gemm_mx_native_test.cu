// SPDX-License-Identifier: Apache-2.0
// accumulate::native of MXFP8, MXFP6 and MXFP4 by one another: within the bound of the exact product, by the
// kernel of each GPU, whatever the codes and scales; and which scales another kernel is for.
#include "mma/gemm_mx_cases.hpp"
#include "mma/gemm_native_cases.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// The kernel that any GPU from sm_80 on has, likewise.
struct native_by_bf16 {
  template <class F, class LA, class BA, class G, class LB, class BB, class T>
  errc operator()(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                  matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    using kernels = device::detail::native_mx_kernels<F, LA, G, LB, T>;
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols, accumulate::native{});
    return in_workspace(bytes, nullptr, [&](u8* workspace, gemm_steps*) {
      return device::detail::run_decoded<kernels, false>(device::gemm_kernel::bf16, a, b, d, factors,
                                                         {workspace, bytes}, nullptr, nullptr);
    });
  }
};

constexpr bool scales_are_those_of_floats() {
  using device::detail::tile_in_double;
  for (u32 bits = 0; bits < e8m0::nan_bits; ++bits) {
    const e8m0 scale{static_cast<u8>(bits)};
    if (tile_in_double::scale_of(scale) != double{decode(scale)}) return false;
  }
  const double of_nan = tile_in_double::scale_of({e8m0::nan_bits});
  return of_nan != of_nan;
}
static_assert(scales_are_those_of_floats());

template <class Gemm, class F, class G = F>
void check_mx_shapes() {
  check_native<Gemm, linear, linear, float, F, G>({
      {1, 1, 32},
      {16, 8, 64},
      {128, 192, 64},
      {127, 193, 320},
      {33, 17, 96},
      {300, 2, 160},
      {65, 50, 192, {}, 3, 1, 0},
      {50, 65, 224, {}, 0, 0, 7},
      {40, 50, 96, {0.5f, 2.0f}, 2, 2, 4},
      {70, 90, 160, {-1.5f, 0.75f}, 5},
      {70, 90, 160, {0.0f, 1.0f}},
      {20, 30, 4128},
  });
  check_native<Gemm, swizzled_128x4, swizzled_128x4, bf16, F, G>({
      {1, 1, 32},
      {129, 127, 224},
      {31, 130, 384, {2.0f, -0.5f}, 1},
      {515, 777, 1056},
  });
}

/// Whether decoding says that another kernel is to multiply.
template <class F>
bool is_refused(gemm_case<F, linear, F, linear, float> const& c) {
  const device_gemm_operand<F, linear> a(c.a), b(c.b);
  const device_buffer<float> d(c.before);
  const device_buffer<u8> workspace(device::gemm_workspace_bytes(c.o.m, c.o.n, c.o.k));
  using kernels = device::detail::native_mx_kernels<F, linear, F, linear, float>;
  const typename kernels::by_mma_sync call(a.view, b.view, c.view_of(d.data()), c.o.factors, workspace.data(),
                                           nullptr);
  REQUIRE(call.template decode<false>(nullptr) == errc::ok);
  mma::wgmma::way_sample samples[mma::wgmma::way_samples];
  REQUIRE(cudaMemcpy(samples, call.p.samples, sizeof samples, cudaMemcpyDeviceToHost) == cudaSuccess);
  int refused = 0;
  for (auto const& sample : samples) refused += sample.refused;
  return refused != 0;
}

/// Every code and scale there is, one infinity or NaN among numbers, and a scale at each end of the range.
template <class Gemm>
void check_mx_codes() {
  if (!gpu_or_warn()) return;
  const auto check = [](auto c) { check_within_bound(c, c.on_device(Gemm{})); };
  for_all_mx_codes(check);
  for_each_not_finite(check);
  for (const int exponent : {-127, -101, -100, 32, 33, 127})
    for (const bool in_a : {true, false}) {
      INFO("2^" << exponent << (in_a ? " in A" : " in B"));
      mx_case<mxfp8_e5m2> c({130, 70, 2080, {0.5f, 1.0f}});
      const auto set = [&](auto& x, int e) {
        x.data.scales[static_cast<size_t>(x.data.rows - 1) * 65 + 64] = static_cast<u8>(e8m0::bias + e);
      };
      set(in_a ? c.a : c.b, exponent), set(in_a ? c.b : c.a, exponent > 100 ? -100 : 32);
      check(c);
    }
  // More tiles than there are CTAs for; small sums, so that D's part counts; no zeros under a NaN.
  mx_case<mxfp8_e4m3> many({1500, 1500, 32, {0.5f, 1.0f}}), small = mx_zeros<mxfp8_e4m3>(70, 96),
                                                            ones = small;
  many.a.data.scales[7] = 200;
  check(many);
  mx_set(small.a.data, 3, 1.0f), mx_set(small.b.data, 3, 1.0f), mx_set(small.a.data, 40, 1.0f, -110);
  small.o.factors = {0.5f, 2.0f};
  check(small);
  for (i64 k = 0; k < 96; ++k) mx_set(ones.a.data, k, 1.0f), mx_set(ones.b.data, k, 1.0f);
  ones.a.data.scales[4] = e8m0::nan_bits;
  check(ones);
}

}  // namespace

TEST_CASE("device gemm native mx: shapes", "[device][gemm][native]") {
  check_mx_shapes<native_gemm, mxfp8_e4m3>();
  check_mx_shapes<native_gemm, mxfp8_e5m2, mxfp8_e4m3>();
  check_mx_shapes<native_gemm, mxfp6_e3m2, mxfp6_e2m3>();
  check_native<native_gemm, linear, swizzled_128x4, fp16, mxfp6_e2m3, mxfp4>(
      {{130, 131, 160, {0.001f, 0.0f}}, {17, 33, 448, {0.001f, 0.25f}, 7}});
}

TEST_CASE("device gemm native mx: shapes by sm_80's kernel", "[device][gemm][native]") {
  check_mx_shapes<native_by_bf16, mxfp8_e4m3>();
  check_mx_shapes<native_by_bf16, mxfp4, mxfp8_e5m2>();
}

TEST_CASE("device gemm native mx: all codes and scales", "[device][gemm][native]") {
  check_mx_codes<native_gemm>();
  check_mx_codes<native_by_bf16>();
}

TEST_CASE("device gemm native mx: drawn at random", "[device][gemm][native]") {
  check_random_native<native_gemm, mxfp8_e4m3, mxfp8_e4m3, linear, float>(40, 1000);
  check_random_native<native_by_bf16, mxfp8_e4m3, mxfp8_e4m3, linear, float>(40, 1000);
}

TEST_CASE("device gemm native mx: kinds of data", "[device][gemm][native]") {
  if (!gpu_or_warn()) return;
  const auto check = []<class F>(F, kind of_a, kind of_b) {
    INFO(F::name << ' ' << name_of(of_a) << " by " << name_of(of_b));
    using data = gemm_operand_data<F, linear>;
    mx_case<F> c({150, 210, 1024}, data(operand<F, linear>(of_a, 150, 1024, 1)),
                 data(operand<F, linear>(of_b, 210, 1024, 2)));
    CHECK_FALSE(is_refused(c));
    check_within_bound(c, c.on_device(native_gemm{}));
  };
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      check(mxfp8_e4m3{}, what, other);
      check(mxfp6_e2m3{}, what, other);
    }
}

TEST_CASE("device gemm native mx: clusters go on with the sums of others", "[device][gemm][native]") {
  if (!gpu_or_warn()) return;
  mx_case<mxfp8_e4m3> c({1800, 1700, 2080});  // where an H100 and an H200 share the last tiles
  const std::vector<float> got = c.on_device(native_gemm{});
  constexpr i64 first = 1650, rows = 150;
  const block_scaled_view<mxfp8_e4m3> a = c.a.on_host(),
                                      last(a.codes + a.code_offset(first, 0),
                                           a.scales + a.scale_offset(first, 0), rows, a.cols);
  const std::vector<float> of_last(got.begin() + first * c.ld(), got.begin() + (first + rows) * c.ld());
  CHECK(distance_from_exact(last, c.b.on_host(), c.o.factors, c.ld(), {}, of_last).wrong == 0);
}

TEST_CASE("device gemm native mx: only a value under a far scale is refused", "[device][gemm][native]") {
  if (!gpu_or_warn()) return;
  using format = mxfp8_e4m3;
  for (const bool in_a : {true, false})
    for (const i64 row : {0, 1099}) {  // more blocks than one look of all threads takes
      auto c = mx_zeros<format>(1100, 4128);
      if (!in_a) c = mx_case<format>({4, 1100, 4128}, c.b.data, c.a.data);
      auto& x = in_a ? c.a.data : c.b.data;
      const size_t last = static_cast<size_t>(row) * 129 + 128;  // of the row's blocks
      x.codes[last * 32 + 31] = 0x80;                            // -0
      for (const int scale : {0, 26, 27, 159, 160, 254, 255}) {
        x.scales[last] = static_cast<u8>(scale);
        CHECK_FALSE(is_refused(c));
      }
      x.codes[last * 32 + 31] = 0x81;
      for (const int scale : {0, 26, 27, 159, 160, 254, 255}) {
        INFO(scale);
        x.scales[last] = static_cast<u8>(scale);
        CHECK(is_refused(c) == (scale != 255 && (scale < 27 || scale > 159)));
      }
    }
}

TEST_CASE("device gemm native mx: D is not read where beta is 0", "[device][gemm][native]") {
  if (!gpu_or_warn()) return;
  for (const u8 scale : {u8{127}, u8{200}}) {
    mx_case<mxfp8_e4m3> c({64, 96, 256});
    c.a.data.scales[100] = scale;
    for (float& x : c.before) x = bit_cast<float>(0x7fc0'0000u);
    check_within_bound(c, c.on_device(native_gemm{}));
  }
}

TEST_CASE("device gemm native mx: broken rules are refused and D stays as it was", "[device][gemm][native]") {
  if (!gpu_or_warn()) return;
  const mx_case<mxfp8_e4m3> c({30, 20, 64});
  const device_gemm_operand<mxfp8_e4m3, linear> a(c.a), b(c.b);
  const device_buffer<float> d(c.before);
  const i64 bytes = device::gemm_workspace_bytes(30, 20, 64, accumulate::native{});
  const device_buffer<u8> workspace(bytes);
  const matrix_view<float> to = c.view_of(d.data());
  const auto refused = [&](auto const& y, device::gemm_workspace w, errc e) {
    CHECK(device::gemm(a.view, y, to, {}, accumulate::native{}, w) == e);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(same_bits(d.to_host(), c.before));
  };
  refused(a.view, {workspace.data(), bytes}, errc::shape_mismatch);
  if (device::kernel_of_gemm(a.view, b.view, to) != device::gemm_kernel::f16) return;
  refused(b.view, {workspace.data(), bytes - 1}, errc::no_workspace);
  refused(b.view, {nullptr, bytes}, errc::no_workspace);
  refused(b.view, {d.data(), bytes}, errc::overlap);
  refused(b.view, {b.codes.data(), bytes}, errc::overlap);
}

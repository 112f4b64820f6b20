// SPDX-License-Identifier: Apache-2.0
// The GEMM of FP8. Data whose sums the tensor core holds exactly must give the exact bits, wherever the codes
// lie in memory; any other data is within the bound that docs/native_gemm.md derives.
#include <fourscale/device/gemm_native.cuh>

#include "matches_host.cuh"
#include "mma/gemm_bound.hpp"
#include "mma/gemm_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// What codes are: small whole numbers, ones, any number there is, or one large product among small ones; or
/// in each block of 32 a subnormal number times a large one, and numbers that such a sum loses.
enum class codes_of { whole, ones, any, outlier, subnormal };

/// Of so many rows of B each has the same scales; scales of `zeros` are 0 now and then. So many bytes more
/// lie before them than before the codes.
struct scales_of {
  i64 rows = 1;
  bool zeros = false;
  i64 start = 0;
};

/// An operand of `rows` x `cols`; `start` bytes lie before its codes, and as many or more before its scales.
template <class F>
struct fp8_operand {
  static constexpr bool scaled = block_scale_bytes<F> != 0;
  using E = typename F::element;
  i64 rows, cols, start, scales_start;
  std::vector<u8> codes, scales;
  std::vector<float> amaxes;

  fp8_operand(i64 r, i64 c, u64 seed, codes_of what, i64 first = 0, scales_of by = {})
      : rows(r),
        cols(c),
        start(first),
        scales_start(scaled ? first + by.start : 0),
        codes(static_cast<size_t>(first + r * c)),
        scales(static_cast<size_t>(scales_start + scale_bytes<F>(r, c))) {
    const E one = encode<E>(1.0f), two = encode<E>(2.0f);
    const u8 whole[8] = {
        0, 0, one.bits, one.bits, two.bits, u8(one.bits | 0x80), u8(one.bits | 0x80), u8(two.bits | 0x80)};
    for (i64 i = 0; i < r * c; ++i) {
      const u64 x = mix(static_cast<u64>(i) * 31 + seed);
      u8 code = static_cast<u8>(x >> 9);
      if (!(decode(E{code}) - decode(E{code}) == 0.0f)) code = 0;  // NaN, infinity
      if (what == codes_of::whole) code = whole[x >> 20 & 7];
      if (what == codes_of::ones) code = one.bits;
      if (what == codes_of::subnormal) {  // 2^-9 * 256 and 1.875 * 2^-6 * 2^-6 in E4M3
        const bool first = i % 32 == 0;
        code = seed == 1 ? first ? u8{0x01} : u8{0x0f} : first ? u8{0x78} : u8{0x08};
      }
      if (what == codes_of::outlier)
        code = i % 128 == 5 ? u8{E::max_bits} : static_cast<u8>((x & 0x80) | (x >> 9 & 0x1f));
      codes[static_cast<size_t>(first + i)] = code;
    }
    for (i64 i = 0; i < r; ++i) {
      amaxes.push_back(std::fabs(gaussian(static_cast<u64>(i) + seed)) + 0.5f);
      if constexpr (scaled)
        for (i64 j = 0; j < c / 128; ++j) {
          const u64 x = mix(static_cast<u64>(i / by.rows * by.rows * 1000 + j) + seed);
          const float scale = by.zeros && (x >> 50 & 3) == 0 ? 0.0f
                              : what == codes_of::ones       ? 1.0f
                              : what == codes_of::whole
                                  ? std::ldexp(1.0f, static_cast<int>(x >> 8 & 3))
                                  : std::ldexp(1.0f + static_cast<float>(x >> 40) * 0x1p-24f,
                                               static_cast<int>(x >> 8 & 15) - 8);
          view(codes.data(), scales.data()).store_scale(i, j, {bit_cast<u32>(scale)});
        }
    }
  }
  block_scaled_view<F> view(u8* at, u8* s, amax_reference amax = unit_scale) const {
    return {at + start, s + scales_start, rows, cols, tensor_amax<F>(amax)};
  }
  block_scaled_view<F> view(amax_reference amax = unit_scale) {
    return view(codes.data(), scales.data(), amax);
  }
};

/// Which tensor scales are not 1.
enum class amaxes { none, of_both, of_rows, of_rows_of_b };

struct fp8_options {
  i64 m, n, k;
  gemm_factors factors{};
  i64 gap = 0, start_a = 0, start_b = 0;
  amaxes scaled = amaxes::none;
  scales_of by{};
};

/// A sum of products in double, which is exact for `codes_of::whole`, and that of their magnitudes.
struct fp8_sum {
  double sum = 0, magnitude = 0;
};

template <class F, class G, class T>
struct fp8_case {
  fp8_options o;
  fp8_operand<F> a;
  fp8_operand<G> b;
  std::vector<T> before;

  fp8_case(fp8_options const& options, codes_of what)
      : o(options),
        a(o.m, o.k, 1, what, o.start_a, {1, o.by.zeros, o.by.start}),
        b(o.n, o.k, 2, what, o.start_b, o.by),
        before(static_cast<size_t>(o.m * ld() + 64)) {
    for (size_t i = 0; i < before.size(); ++i) before[i] = from_float<T>(gaussian(i) * 100.0f);
  }
  i64 ld() const { return o.n + o.gap; }
  amax_reference amax_of_a(float const* from) const {
    return o.scaled == amaxes::of_rows ? amax_of_rows(from)
           : o.scaled == amaxes::none  ? unit_scale
                                       : amax_in(from);
  }
  amax_reference amax_of_b(float const* from) const {
    return o.scaled == amaxes::of_rows_of_b ? amax_of_rows(from) : amax_of_a(from);
  }

  std::vector<fp8_sum> sums() {
    const auto values = [&](auto& x) {
      std::vector<double> v;
      const auto q = x.view();
      for (i64 i = 0; i < x.rows; ++i)
        for (i64 k = 0; k < x.cols; ++k)
          v.push_back(
              static_cast<double>(decode(q.load_code(i, k))) *
              (a.scaled ? static_cast<double>(bit_cast<float>(u32(q.load_scale(i, k / 128).bits))) : 1.0));
      return v;
    };
    const std::vector<double> x = values(a), y = values(b);
    std::vector<fp8_sum> s(static_cast<size_t>(o.m * o.n));
    for (i64 i = 0; i < o.m; ++i)
      for (i64 j = 0; j < o.n; ++j)
        for (i64 k = 0; k < o.k; ++k) {
          const double product = x[static_cast<size_t>(i * o.k + k)] * y[static_cast<size_t>(j * o.k + k)];
          fp8_sum& to = s[static_cast<size_t>(i * o.n + j)];
          to.sum += product, to.magnitude += std::fabs(product);
        }
    return s;
  }
  float factor(i64 row, i64 col) {
    if constexpr (F::has_tensor_scale) {
      const float of_a = a.view(amax_of_a(a.amaxes.data())).amax.scale_of_row(row).decode,
                  of_b = b.view(amax_of_b(b.amaxes.data())).amax.scale_of_row(col).decode;
      return o.factors.alpha * of_a * of_b;
    } else {
      return o.factors.alpha;
    }
  }
  /// By tiles of so many columns on Hopper; 0: as gemm_fp8() chooses.
  std::vector<T> on_device(int columns = 0) const {
    const device_buffer<u8> codes_a(a.codes), scales_a(a.scales), codes_b(b.codes), scales_b(b.scales);
    const device_buffer<float> amax_a(a.amaxes), amax_b(b.amaxes);
    const device_buffer<T> d(before);
    CHECK(device::detail::gemm_fp8_by(
              columns, a.view(codes_a.data(), scales_a.data(), amax_of_a(amax_a.data())),
              b.view(codes_b.data(), scales_b.data(), amax_of_b(amax_b.data())),
              matrix_view<T>{d.data(), o.m, o.n, ld()}, o.factors, nullptr) == errc::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return d.to_host();
  }
};

bool is_hopper() {
  int major = 0;
  REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  return major == 9;
}

/// Whole numbers: every bit of D, and of what lies around it.
template <class F, class G, class T>
void check_whole(std::vector<fp8_options> const& list, codes_of what = codes_of::whole) {
  if (!gpu_or_warn()) return;
  for (fp8_options const& o : list) {
    INFO(F::name << " by " << G::name << ", " << o.m << " x " << o.n << " x " << o.k << ", codes at "
                 << o.start_a << ", rows under a scale " << o.by.rows);
    fp8_case<F, G, T> c(o, what);
    const std::vector<fp8_sum> sums = c.sums();
    std::vector<T> want = c.before;
    for (i64 i = 0; i < o.m; ++i)
      for (i64 j = 0; j < o.n; ++j)
        store_output(want[static_cast<size_t>(i * c.ld() + j)], c.factor(i, j),
                     static_cast<float>(sums[static_cast<size_t>(i * o.n + j)].sum), o.factors.beta);
    for (const int columns : {0, 128, 192}) CHECK(same_bits(c.on_device(columns), want));
  }
}

template <class F, class G>
void check_bound(codes_of what, scales_of by = {}) {
  if (!gpu_or_warn()) return;
  for (const i64 start : {0, 1}) {  // at 1 by mma.sync, in f32
    fp8_case<F, G, float> c({150, 210, 1024, {}, 0, start, start, amaxes::none, by}, what);
    const std::vector<fp8_sum> sums = c.sums();
    for (const int columns : {128, 192}) {
      const std::vector<float> got = c.on_device(columns);
      double worst = 0;
      for (size_t i = 0; i < sums.size(); ++i) {
        const double bound = start == 0 && is_hopper() ? fp8_bound(1024, sums[i].magnitude)
                                                       : native_bound(1024, sums[i].magnitude),
                     error = std::fabs(static_cast<double>(got[i]) - sums[i].sum) / bound;
        if (!(error <= worst)) worst = error;  // NaN, too
      }
      std::printf("gemm_fp8, %s by %s%s: the largest error is %.4f of its bound\n", F::name, G::name,
                  start == 0 ? "" : ", codes at any address", worst);
      CHECK(worst <= 1);
    }
  }
}

}  // namespace

TEST_CASE("device gemm fp8: whole numbers, every shape", "[device][gemm][fp8]") {
  check_whole<fp8_e4m3, fp8_e4m3, float>({{1, 1, 16},
                                          {16, 8, 64},
                                          {128, 192, 128},
                                          {1, 200, 256},
                                          {200, 1, 272},
                                          {127, 193, 1040},
                                          {257, 385, 96},
                                          {65, 50, 192, {}, 3},
                                          {70, 90, 160, {-1.5f, 0.75f}, 5},
                                          {70, 90, 160, {0.0f, 1.0f}},
                                          {70, 133, 384, {1.1f, 0.5f}, 0, 0, 0, amaxes::of_rows},
                                          {70, 136, 384, {1.1f, 0.5f}, 0, 0, 0, amaxes::of_both},
                                          {70, 133, 384, {1.1f, 0.0f}, 0, 1, 0, amaxes::of_rows_of_b},
                                          {130, 200, 528, {}, 1, 1, 0},
                                          {130, 200, 528, {}, 1, 0, 3}});
  check_whole<fp8_e5m2, fp8_e4m3, bf16>({{129, 127, 208},
                                         {31, 136, 384, {2.0f, -0.5f}},
                                         {515, 304, 2064},
                                         {300, 400, 256, {0.75f, 0.0f}, 0, 0, 0, amaxes::of_both},
                                         {300, 400, 256, {0.75f, 0.5f}, 0, 0, 0, amaxes::of_rows}});
  check_whole<fp8_e4m3, fp8_e5m2, fp16>({{129, 127, 208}, {31, 136, 384, {0.5f, 0.0f}}, {61, 64, 2064}});
  check_whole<fp8_e5m2, fp8_e5m2, float>({{129, 127, 208}, {300, 520, 1024}});
}

TEST_CASE("device gemm fp8: whole numbers under scales of 128", "[device][gemm][fp8]") {
  check_whole<fp8_block_e4m3, fp8_block_e4m3, float>({{1, 1, 128},
                                                      {16, 8, 256},
                                                      {128, 192, 128},
                                                      {257, 385, 640},
                                                      {70, 90, 1280, {-1.5f, 0.75f}, 5},
                                                      {130, 200, 512, {}, 1, 1, 1},
                                                      {130, 200, 512, {}, 1, 16, 2}});
  for (const i64 start : {4, 8})  // where four scales cannot be read at a time
    for (const i64 rows : {1, 128})
      check_whole<fp8_block_e4m3, fp8_block_e4m3, float>(
          {{130, 200, 1024, {}, 0, 0, 0, amaxes::none, {rows, false, start}}});
  check_whole<fp8_block_e5m2, fp8_block_e4m3, bf16>({{129, 127, 384}, {515, 304, 2048}});
}

TEST_CASE("device gemm fp8: whole numbers where columns share scales", "[device][gemm][fp8]") {
  for (const i64 rows : {128, 64, 32, 48}) {
    const scales_of by{rows};
    check_whole<fp8_block_e4m3, fp8_block_e4m3, float>(
        {{1, 1, 128, {}, 0, 0, 0, amaxes::none, by},
         {128, 192, 128, {}, 0, 0, 0, amaxes::none, by},
         {257, 385, 640, {}, 0, 0, 0, amaxes::none, by},
         {70, 90, 1280, {-1.5f, 0.75f}, 5, 0, 0, amaxes::none, by},
         {257, 385, 640, {}, 0, 0, 0, amaxes::none, {rows, true}},
         {130, 200, 512, {}, 1, 1, 1, amaxes::none, {rows, true}}});
    check_whole<fp8_block_e5m2, fp8_block_e4m3, bf16>({{515, 304, 2048, {}, 0, 0, 0, amaxes::none, by}});
  }
  check_whole<fp8_block_e4m3, fp8_block_e4m3, bf16>(
      {{2100, 2504, 256, {}, 0, 0, 0, amaxes::none, {128, true}}});
}

TEST_CASE("device gemm fp8: scales whose product is no normal number", "[device][gemm][fp8]") {
  if (!gpu_or_warn()) return;
  for (const i64 start : {0, 1}) {  // 2^23, times 2^-70 (1 + 2^-23), times 2^-70
    fp8_case<fp8_block_e4m3, fp8_block_e4m3, float> c({20, 30, 128, {}, 0, start, 0}, codes_of::ones);
    for (auto* codes : {&c.a.codes, &c.b.codes})
      std::fill(codes->begin(), codes->end(), encode<e4m3>(256.0f).bits);
    for (i64 i = 0; i < 20; ++i) c.a.view().store_scale(i, 0, {bit_cast<u32>(0x1.000002p-70f)});
    for (i64 i = 0; i < 30; ++i) c.b.view().store_scale(i, 0, {bit_cast<u32>(0x1p-70f)});
    const std::vector<float> got = c.on_device();
    for (size_t i = 0; i < 20 * 30; ++i) CHECK(got[i] == 0x1.000002p-117f);
  }
}

TEST_CASE("device gemm fp8: more tiles than a GPU has processors", "[device][gemm][fp8]") {
  check_whole<fp8_e4m3, fp8_e4m3, bf16>({{2100, 2500, 256}, {2100, 2504, 256}});
  check_whole<fp8_block_e4m3, fp8_block_e4m3, bf16>({{2100, 2500, 256}, {2100, 2504, 256}});
}

TEST_CASE("device gemm fp8: sums beyond the bits of the tensor core", "[device][gemm][fp8]") {
  check_whole<fp8_e4m3, fp8_e4m3, float>({{40, 24, 65536}}, codes_of::ones);
  check_whole<fp8_e5m2, fp8_e4m3, float>({{40, 24, 65536}}, codes_of::ones);
  check_whole<fp8_block_e4m3, fp8_block_e4m3, float>({{40, 24, 65536}}, codes_of::ones);
}

TEST_CASE("device gemm fp8: any numbers, within the bound", "[device][gemm][fp8]") {
  for (const codes_of what : {codes_of::any, codes_of::outlier}) {
    check_bound<fp8_e4m3, fp8_e4m3>(what);
    check_bound<fp8_e5m2, fp8_e4m3>(what);
    check_bound<fp8_block_e4m3, fp8_block_e4m3>(what);
    check_bound<fp8_block_e4m3, fp8_block_e5m2>(what);
    check_bound<fp8_block_e4m3, fp8_block_e4m3>(what, {128});
  }
  check_bound<fp8_e4m3, fp8_e4m3>(codes_of::subnormal);
}

TEST_CASE("device gemm fp8: NaN and infinity stay in their rows", "[device][gemm][fp8]") {
  if (!gpu_or_warn()) return;
  for (const i64 start : {0, 1}) {
    fp8_case<fp8_e5m2, fp8_e4m3, float> c({70, 90, 256, {}, 0, start, 0}, codes_of::whole);
    const std::vector<float> plain = c.on_device();
    c.a.codes[static_cast<size_t>(start + 3 * 256 + 200)] = 0x7f;  // NaN in row 3
    c.a.codes[static_cast<size_t>(start + 40 * 256 + 17)] = 0xfc;  // -infinity in row 40
    for (i64 k = 0; k < 90; ++k) c.b.codes[static_cast<size_t>(k * 256 + 17)] = encode<e4m3>(2.0f).bits;
    const std::vector<float> got = c.on_device();
    for (i64 i = 0; i < 70; ++i)
      for (i64 j = 0; j < 90; ++j) {
        const float x = got[static_cast<size_t>(i * 90 + j)];
        if (i == 3) CHECK(x != x);
        if (i == 40) CHECK(x == -std::numeric_limits<float>::infinity());
        if (i != 3 && i != 40) CHECK(x - x == 0.0f);
      }
    CHECK(plain[0] == plain[0]);
  }
  for (const i64 start : {0, 1}) {
    fp8_case<fp8_block_e4m3, fp8_block_e4m3, float> c({20, 30, 256, {}, 0, start, 0}, codes_of::whole);
    c.b.view().store_scale(7, 1, {0xffc0'0000u});
    const std::vector<float> got = c.on_device();
    for (i64 i = 0; i < 20; ++i)
      for (i64 j = 0; j < 30; ++j) {
        const float x = got[static_cast<size_t>(i * 30 + j)];
        CHECK((x != x) == (j == 7));
      }
  }
}

TEST_CASE("device gemm fp8: a sum of zero stays zero under scales whose product is infinite",
          "[device][gemm][fp8]") {
  if (!gpu_or_warn()) return;
  for (const i64 start : {0, 1}) {
    fp8_case<fp8_block_e4m3, fp8_block_e4m3, float> c({20, 30, 128, {}, 0, start, 0}, codes_of::whole);
    std::fill(c.a.codes.begin(), c.a.codes.end(), u8{0});
    for (i64 i = 0; i < 20; ++i) c.a.view().store_scale(i, 0, {bit_cast<u32>(0x1p100f)});
    for (i64 i = 0; i < 30; ++i) c.b.view().store_scale(i, 0, {bit_cast<u32>(0x1p100f)});
    const std::vector<float> got = c.on_device();
    for (size_t i = 0; i < 20 * 30; ++i) CHECK(got[i] == 0.0f);
  }
}

TEST_CASE("device gemm fp8: broken rules are refused and D stays as it was", "[device][gemm][fp8]") {
  if (!gpu_or_warn()) return;
  const fp8_case<fp8_e4m3, fp8_e4m3, float> c({30, 20, 64}, codes_of::whole);
  const device_buffer<u8> codes_a(c.a.codes), codes_b(c.b.codes);
  const device_buffer<float> d(c.before);
  const auto a = c.a.view(codes_a.data(), nullptr), b = c.b.view(codes_b.data(), nullptr);
  const matrix_view<float> to{d.data(), 30, 20, 20};
  const auto refused = [&](auto const& x, auto const& y, auto const& z, errc e) {
    CHECK(device::gemm(x, y, z, {}, accumulate::native{}) == e);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(same_bits(d.to_host(), c.before));
  };
  refused(a, a, to, errc::shape_mismatch);
  refused(a, b, matrix_view<float>{d.data(), 30, 20, 19}, errc::bad_leading_dimension);
  refused(a, b, matrix_view<float>{nullptr, 30, 20, 20}, errc::null_pointer);
  auto partial = a;
  partial.cols = 60;
  refused(partial, b, to, errc::partial_block);
  auto no_amax = a;
  no_amax.amax = {};
  refused(no_amax, b, to, errc::no_amax);
  refused(a, b, matrix_view<float>{reinterpret_cast<float*>(codes_b.data()), 30, 20, 20}, errc::overlap);
}

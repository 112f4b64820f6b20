// SPDX-License-Identifier: Apache-2.0
// device::gemm_weight_only compared with sums in double of the values that codes and scales stand for: bit by
// bit where no sum of FP32 is rounded, within a derived bound elsewhere; and what lies around D.
#include <cmath>
#include <cstring>
#include <fourscale/device/gemm_small.cuh>

#include "device/matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

enum class amax_from { view, device, rows, unit, encode };

/// Sizes and what a user may choose. `gap`: elements between rows of D, `gap_x` of X; `start_x`: elements
/// before X, `start_w` and `start_s`: bytes before codes and scales, so that they are unaligned.
struct small_options {
  i64 m, n, k;
  gemm_factors factors{};
  i64 gap = 0, gap_x = 0, start_x = 0, start_w = 0, start_s = 0;
  amax_from amax = amax_from::view;
};

/// Exact: whole numbers times scales that are powers of two. Products are multiples of 1/8 whose magnitudes
/// sum up to less than 2^23 / 8, so that no sum in any order is rounded, nor cut short by a tensor core.
enum class data { exact, random };

template <class T, class Layout, class TD>
struct small_case {
  small_options o;
  std::vector<T> x;
  std::vector<u8> codes, scales;
  std::vector<float> row_amax;
  std::vector<TD> before;
  float amax = 5.3f;

  small_case(small_options const& options, data kind, u64 seed = 1)
      : o(options),
        x(static_cast<size_t>(o.start_x + o.m * (o.k + o.gap_x))),
        codes(static_cast<size_t>(o.start_w + code_bytes<nvfp4>(o.n, o.k))),
        scales(static_cast<size_t>(o.start_s + scale_bytes<nvfp4, Layout>(o.n, o.k)), u8{0xff}),
        before(static_cast<size_t>(o.m * (o.n + o.gap) + canary)) {
    const bool exact = kind == data::exact;
    const int most = o.k > 8192 ? 1 : 4;
    for (size_t i = 0; i < x.size(); ++i) {
      const int whole = static_cast<int>(mix(i + seed) % static_cast<u64>(2 * most + 1)) - most;
      x[i] = from_float<T>(exact ? static_cast<float>(whole) : gaussian(i + seed));
    }
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<u8>(mix(i * 7 + seed) >> 13);
    for (i64 r = 0; r < o.n; ++r)
      for (i64 b = 0; b < o.k / 16; ++b) {
        const u64 random = mix(static_cast<u64>(r * (o.k / 16) + b) * 3 + seed + 100);
        // 2^-2 to 2^2, or any from the least subnormal to 448.
        view().store_scale(
            r, b, {static_cast<u8>(exact ? 0x28u + 8u * static_cast<u32>(random % 5) : random % 0x7f)});
      }
    for (i64 r = 0; r < o.n; ++r) row_amax.push_back(std::fabs(gaussian(static_cast<u64>(r) + seed)) + 0.5f);
    for (size_t i = 0; i < before.size(); ++i)
      before[i] = from_float<TD>(exact ? static_cast<float>(i % 31) - 15.0f : gaussian(i) * 100.0f);
  }

  block_scaled_view<nvfp4, Layout> view() {
    block_scaled_view<nvfp4, Layout> w{codes.data() + o.start_w, scales.data() + o.start_s, o.n, o.k};
    w.amax = amax_reference_to(row_amax.data(), &amax);
    return w;
  }
  amax_reference amax_reference_to(float const* rows, float const* one) const {
    switch (o.amax) {
      case amax_from::view:
        return amax_value(amax);
      case amax_from::device:
        return amax_in(one);
      case amax_from::rows:
        return amax_of_rows(rows);
      case amax_from::unit:
        return unit_scale;
      default:
        return encode_scale_value(amax);
    }
  }
  T& x_at(i64 row, i64 col) { return x[static_cast<size_t>(o.start_x + row * (o.k + o.gap_x) + col)]; }

  /// The sum of a row of X and a row of W in double, and of its products' magnitudes.
  struct sum {
    double value = 0, magnitudes = 0;
  };
  std::vector<sum> sums() {
    std::vector<sum> all(static_cast<size_t>(o.m * o.n));
    std::vector<double> xs(static_cast<size_t>(o.m * o.k)), w(static_cast<size_t>(o.k));
    for (i64 i = 0; i < o.m * o.k; ++i)
      xs[static_cast<size_t>(i)] = static_cast<double>(to_float(x_at(i / o.k, i % o.k)));
    const auto q = view();
    for (i64 n = 0; n < o.n; ++n) {
      for (i64 k = 0; k < o.k; ++k)
        w[static_cast<size_t>(k)] = static_cast<double>(decode(q.load_code(n, k))) *
                                    static_cast<double>(decode(q.load_scale(n, k / 16)));
      for (i64 m = 0; m < o.m; ++m) {
        sum s;
        double const* const row = &xs[static_cast<size_t>(m * o.k)];
        for (size_t k = 0; k < w.size(); ++k) {
          const double product = row[k] * w[k];
          s.value += product, s.magnitudes += std::fabs(product);
        }
        all[static_cast<size_t>(m * o.n + n)] = s;
      }
    }
    return all;
  }
  float factor_of(i64 n) {
    const auto q = view();
    return weight_factor(o.factors.alpha, q.amax.range, amax_of_row(q, n));
  }
  size_t place(i64 m, i64 n) const { return static_cast<size_t>(m * (o.n + o.gap) + n); }

  /// D if the sums in FP32 are exact.
  std::vector<TD> oracle() {
    std::vector<TD> d = before;
    const std::vector<sum> all = sums();
    for (i64 m = 0; m < o.m; ++m)
      for (i64 n = 0; n < o.n; ++n)
        store_output(d[place(m, n)], factor_of(n),
                     static_cast<float>(all[static_cast<size_t>(m * o.n + n)].value), o.factors.beta);
    return d;
  }

  std::vector<TD> on_device(errc expected = errc::ok, cudaStream_t stream = nullptr) {
    return on_device_by(
        [&](auto const&... arguments) { return device::gemm_weight_only(arguments..., o.factors, stream); },
        expected);
  }
  template <class Gemm>
  std::vector<TD> on_device_by(Gemm gemm, errc expected = errc::ok) {
    const device_buffer<T> dx(x);
    const device_buffer<u8> dc(codes), ds(scales);
    const device_buffer<float> rows(row_amax), one(std::vector<float>{amax});
    const device_buffer<TD> d(before);
    block_scaled_view<nvfp4, Layout> w{dc.data() + o.start_w, ds.data() + o.start_s, o.n, o.k};
    w.amax = amax_reference_to(rows.data(), one.data());
    const matrix_view<T const> xs{dx.data() + o.start_x, o.m, o.k, o.k + o.gap_x};
    CHECK(gemm(xs, w, matrix_view<TD>{d.data(), o.m, o.n, o.n + o.gap}) == expected);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return d.to_host();
  }
};

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// The first element that differs, for the message.
template <class T>
std::string first_difference(std::vector<T> const& got, std::vector<T> const& want, i64 ld) {
  for (size_t i = 0; i < got.size() && i < want.size(); ++i)
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0)
      return row_and_column(static_cast<i64>(i) / ld, static_cast<i64>(i) % ld) + ": " +
             std::to_string(to_float(got[i])) + ", not " + std::to_string(to_float(want[i]));
  return "none";
}

template <class T, class Layout, class TD>
void check_exact(std::vector<small_options> const& list) {
  if (!gpu_or_warn()) return;
  for (small_options const& o : list) {
    INFO(o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
    small_case<T, Layout, TD> c(o, data::exact);
    const std::vector<TD> got = c.on_device(), want = c.oracle();
    INFO(first_difference(got, want, o.n + o.gap));
    CHECK(same_bits(got, want));
  }
}

/// |error| of the sum: an instruction adds 17 numbers, none larger than the sum S of all magnitudes, and may
/// cut each at 2^-23 of the largest of them; there are K / 16 of them. Then up to 128 parts are added, each
/// rounded to 2^-24. The epilogue rounds up to four times, and once to the type of D.
template <class T, class Layout, class TD>
void check_random(small_options const& o) {
  if (!gpu_or_warn()) return;
  INFO(o.m << " x " << o.n << " x " << o.k);
  small_case<T, Layout, TD> c(o, data::random);
  const std::vector<TD> got = c.on_device();
  CHECK(same_bits(got, c.on_device()));
  const auto all = c.sums();
  const double unit = sizeof(TD) == 4 ? 0x1p-24 : __is_same(TD, bf16) ? 0x1p-8 : 0x1p-11;
  const double least = __is_same(TD, fp16) ? 0x1p-25 : 0.0;
  double worst = 0;
  for (i64 m = 0; m < o.m; ++m)
    for (i64 n = 0; n < o.n; ++n) {
      const auto& s = all[static_cast<size_t>(m * o.n + n)];
      const double factor = static_cast<double>(c.factor_of(n)),
                   added = static_cast<double>(o.factors.beta) *
                           static_cast<double>(to_float(c.before[c.place(m, n)])),
                   want = factor * s.value + added;
      const double in_sum =
          (static_cast<double>(o.k) * 17 / 16 + 64) * 0x1p-23 * s.magnitudes * std::fabs(factor);
      const double magnitude = std::fabs(factor * s.value) + std::fabs(added) + in_sum;
      const double bound = in_sum + 4 * 0x1p-24 * magnitude + unit * magnitude + least;
      worst = std::fmax(worst, std::fabs(static_cast<double>(to_float(got[c.place(m, n)])) - want) / bound);
    }
  CHECK(worst <= 1.0);
}

std::vector<small_options> sizes() {
  return {
      {1, 1, 16},                      // one block
      {1, 1, 256},                     // one stage
      {8, 32, 256},                    // one warp
      {3, 40, 48},                     // rows of 24 bytes: read byte by byte
      {8, 100, 64},                    // rows of 32 bytes
      {9, 129, 4112},                  // a block more than 16 stages, a row more than a band
      {16, 512, 1024},                 //
      {16, 513, 2048},                 // a row more than 16 tiles
      {16, 64, 8192},                  // fewer rows than warps
      {17, 33, 4112},                  //
      {32, 300, 2304},                 // nine stages for eight CTAs
      {33, 31, 1040},                  // rows of 520 bytes
      {64, 260, 4096},                 //
      {64, 40, 28672},                 // X in several passes
      {3, 9001, 2304},                 // several tiles for a cluster
      {16, 20001, 256},                //
      {100, 70, 544},                  // four launches
      {100, 64, 512},                  // two by TMA
      {16, 96, 320},                   // K ends in a stage, by TMA if swizzled
      {40, 4128, 28672},               // several units, and passes of X
      {5, 300, 1024, {}, 0, 8},        // a gap between rows of X
      {16, 300, 1024, {}, 5},          // gaps between rows of D
      {16, 300, 1024, {}, 0, 3},       // X: rows unaligned
      {5, 300, 1024, {}, 0, 8, 3},     // X: start unaligned
      {5, 300, 1024, {}, 0, 0, 0, 4},  // codes unaligned
      {5, 300, 1024, {}, 0, 0, 0, 1},
      {5, 300, 1024, {}, 0, 0, 0, 0, 1},  // scales unaligned
      {5, 300, 1024, {}, 0, 0, 0, 0, 4},
      {16, 200, 512, {0.37f, 0.0f}},
      {16, 200, 512, {-1.5f, 0.75f}, 7},
      {16, 200, 512, {0.0f, 1.0f}},
      {16, 200, 512, {1.25f, 0.5f}, 0, 0, 0, 0, 0, amax_from::device},
      {16, 200, 512, {1.25f, 0.5f}, 1, 0, 0, 0, 0, amax_from::rows},
      {2, 700, 512, {}, 0, 0, 0, 0, 0, amax_from::rows},
      {16, 200, 512, {}, 0, 0, 0, 0, 0, amax_from::unit},
      {16, 200, 512, {}, 0, 0, 0, 0, 0, amax_from::encode},
  };
}

}  // namespace

TEST_CASE("device gemm_weight_only: exact sums, bf16 and linear scales", "[device][gemm][small]") {
  check_exact<bf16, linear, float>(sizes());
}

TEST_CASE("device gemm_weight_only: exact sums, bf16 and swizzled scales", "[device][gemm][small]") {
  check_exact<bf16, swizzled_128x4, bf16>(sizes());
}

TEST_CASE("device gemm_weight_only: exact sums, fp16", "[device][gemm][small]") {
  check_exact<fp16, linear, fp16>(sizes());
  check_exact<fp16, swizzled_128x4, float>({{16, 513, 2048}, {7, 130, 4112}, {40, 200, 528}});
}

TEST_CASE("device gemm_weight_only: random values are within the bound, and the same twice",
          "[device][gemm][small]") {
  for (const i64 m : {1, 8, 16, 33, 64}) {
    check_random<bf16, linear, float>({m, 300, 4112});
    check_random<bf16, swizzled_128x4, bf16>({m, 257, 2048, {1.5f, -0.5f}, 3});
    check_random<fp16, linear, float>({m, 130, 1024, {1.5f, 0.0f}});
    check_random<fp16, swizzled_128x4, fp16>({m, 130, 272, {0x1p-6f, 0.5f}});
  }
  check_random<bf16, linear, float>({16, 1024, 8192});
}

TEST_CASE("device gemm_weight_only: other plans have the same sums where those are exact",
          "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  using mma::weight_only::tuning;
  const auto check = [](auto c, tuning const& t) {
    INFO(c.o.m << " x " << c.o.n << " x " << c.o.k << ", " << t.ctas << " CTAs, " << t.warps << " warps, "
               << t.depth << " halves, " << t.rows << " rows");
    const auto planned = [&](auto const&... arguments) {
      return device::detail::gemm_weight_only_by(t, arguments..., c.o.factors, nullptr);
    };
    const auto got = c.on_device_by(planned), want = c.oracle();
    INFO(first_difference(got, want, c.o.n + c.o.gap));
    CHECK(same_bits(got, want));
    CHECK(same_bits(got, c.on_device_by(planned)));
  };
  for (const tuning t : {tuning{1}, tuning{2}, tuning{4}, tuning{8}, tuning{2, 8, 4}, tuning{8, 4, 2},
                         tuning{0, 6, 3}, tuning{0, 0, 0, 64}, tuning{1, 4, 2, 64}, tuning{0, 0, 0, 8}}) {
    check(small_case<bf16, linear, float>({16, 1300, 2304}, data::exact), t);
    check(small_case<bf16, swizzled_128x4, bf16>({7, 9001, 1040}, data::exact), t);
    check(small_case<fp16, linear, float>({64, 260, 4112, {1.5f, 0.5f}, 3}, data::exact), t);
    check(small_case<fp16, swizzled_128x4, float>({40, 100, 28672}, data::exact), t);
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
  const auto check = [](auto c) {
    const auto q = c.view();
    q.store_scale(5, 7, {0x7f});   // a NaN
    q.store_scale(17, 0, {0xff});  // another
    q.store_scale(20, 1, {0x00});  // zero
    q.store_scale(21, 1, {0x80});  // -0
    q.store_scale(22, 1, {0xb8});  // -1
    for (i64 k = 0; k < c.o.k; ++k) {
      u8& byte = c.codes[static_cast<size_t>((30 * c.o.k + k) / 2)];
      byte = static_cast<u8>(k % 2 ? byte | 0x80 : 0x08);  // row 30: -0
    }
    c.x_at(2, 3) = from_float<typename decltype(c.x)::value_type>(bit_cast<float>(float_inf_bits));
    c.x_at(4, 190) = from_float<typename decltype(c.x)::value_type>(-bit_cast<float>(float_inf_bits));
    c.x_at(6, 100) = from_float<typename decltype(c.x)::value_type>(bit_cast<float>(0x7fc0'0000u));
    for (auto& d : c.before) d = {};
    const auto got = c.on_device();
    CHECK(same_values(got, c.oracle()));
    for (i64 m = 0; m < 9; ++m)
      for (const i64 n : {5, 17}) CHECK(std::isnan(got[static_cast<size_t>(m * c.o.n + n)]));
    CHECK(!std::isnan(got[0]));
  };
  for (const i64 n : {50, 64})  // 64 by TMA
    for (const i64 k : {192, 256}) {
      check(small_case<bf16, linear, float>({9, n, k}, data::exact));
      check(small_case<fp16, swizzled_128x4, float>({9, n, k}, data::exact));
    }
}

TEST_CASE("device gemm_weight_only: each code and scale has its value", "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  // Row r has scale r in its last block and zero in others, and codes in turn; row m of X picks one of them.
  const auto check = [](auto c) {
    const i64 last = c.o.k - 16;
    for (i64 r = 0; r < 256; ++r) {
      for (i64 b = 0; b <= last / 16; ++b)
        c.view().store_scale(r, b, {static_cast<u8>(b < last / 16 ? 0 : r)});
      for (i64 k = 0; k < 8; ++k)
        c.codes[static_cast<size_t>((r * c.o.k + last) / 2 + k)] = static_cast<u8>(2 * k | (2 * k + 1) << 4);
    }
    for (i64 m = 0; m < 16; ++m)
      for (i64 k = 0; k < c.o.k; ++k)
        c.x_at(m, k) = from_float<typename decltype(c.x)::value_type>(m + last == k ? 1.0f : 0.0f);
    CHECK(same_values(c.on_device(), c.oracle()));
  };
  for (const i64 k : {16, 64, 256}) {
    const small_options o{16, 256, k, {}, 0, 0, 0, 0, 0, amax_from::unit};
    check(small_case<bf16, linear, float>(o, data::exact));
    check(small_case<fp16, linear, float>(o, data::exact));
    check(small_case<bf16, swizzled_128x4, float>(o, data::exact));
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
  small_case<bf16, linear, bf16> c({16, 1030, 2304}, data::exact);
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

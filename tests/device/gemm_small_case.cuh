// SPDX-License-Identifier: Apache-2.0
// A case of device::gemm_weight_only: operands of any address and gap, and what the sums in double of the
// values that codes and scales stand for are; bit by bit where no sum of FP32 is rounded, within a derived
// bound elsewhere.
#pragma once

#include <cmath>
#include <cstring>
#include <fourscale/device/gemm_small.cuh>

#include "device/matches_host.cuh"
#include "support/same_bits.hpp"

namespace fourscale::test::weight_only {

enum class amax_place { view, device, rows, unit, encode };

/// Sizes and what a user may choose. `gap`: elements between rows of D, `gap_x` of X; `start_x`: elements
/// before X, `start_w` and `start_s`: bytes before codes and scales, so that they are unaligned.
struct small_options {
  i64 m, n, k;
  gemm_factors factors{};
  i64 gap = 0, gap_x = 0, start_x = 0, start_w = 0, start_s = 0;
  amax_place amax = amax_place::view;
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
      case amax_place::view:
        return amax_value(amax);
      case amax_place::device:
        return amax_in(one);
      case amax_place::rows:
        return amax_of_rows(rows);
      case amax_place::unit:
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
  std::vector<TD> by_plan(mma::weight_only::tuning const& tuning) {
    return on_device_by([&](auto const&... arguments) {
      return device::detail::gemm_weight_only_by(tuning, arguments..., o.factors, nullptr);
    });
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
void check_exact(std::vector<small_options> const& list, mma::weight_only::tuning const& tuning = {}) {
  if (!gpu_or_warn()) return;
  for (small_options const& o : list) {
    INFO(o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
    small_case<T, Layout, TD> c(o, data::exact);
    const std::vector<TD> got = c.by_plan(tuning), want = c.oracle();
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

inline std::vector<small_options> sizes() {
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
      {16, 200, 512, {1.25f, 0.5f}, 0, 0, 0, 0, 0, amax_place::device},
      {16, 200, 512, {1.25f, 0.5f}, 1, 0, 0, 0, 0, amax_place::rows},
      {2, 700, 512, {}, 0, 0, 0, 0, 0, amax_place::rows},
      {16, 200, 512, {}, 0, 0, 0, 0, 0, amax_place::unit},
      {16, 200, 512, {}, 0, 0, 0, 0, 0, amax_place::encode},
  };
}

}  // namespace fourscale::test::weight_only

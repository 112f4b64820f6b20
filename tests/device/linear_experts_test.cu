// SPDX-License-Identifier: Apache-2.0
// Experts whose GEMMs go at once on Hopper: every bit is that of each alone, whatever the data and however
// many there are.
#include <algorithm>

#include "linear_grouped_case.cuh"
#include "mma/gemm_data.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

template <class T>
void fill(std::vector<T>& x, i64 cols, kind what, u64 seed) {
  for (size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<i64>(i);
    x[i] = from_float<T>(value_of(what, at / cols, at % cols, seed));
  }
}

/// `count` elements from `first` on.
template <class T>
std::vector<T> part_of(device_buffer<T> const& all, i64 first, i64 count) {
  std::vector<T> r(static_cast<size_t>(count));
  REQUIRE(cudaMemcpy(r.data(), all.data() + first, r.size() * sizeof(T), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  return r;
}

/// `change` changes the data, `prepare` what is on the device.
template <linear_recipe R, class L = linear, class How = accumulate::blackwell>
void check_at_once(linear_shape all, std::vector<i64> const& offsets, kind what, auto const& change,
                   auto const& prepare) {
  if (!gpu_or_warn()) return;
  INFO(name_of(what) << ", " << all.tokens << " x " << all.in << " x " << all.out);
  grouped_case<R, L> h(all, offsets);
  fill(h.x, all.in, what, 1), fill(h.w, all.in, what, 2), fill(h.dy, all.out, what, 3);
  change(h);
  grouped_on_device<R, L, How> d(h);
  prepare(d);
  const i64 size = all.out * all.in;
  for (const bool add : {false, true}) {
    const std::vector<float> before = d.dw.to_host();
    REQUIRE(d.forward() == errc::ok);
    REQUIRE(d.backward(add) == errc::ok);
    for (i64 i = 0; i < h.count; ++i) {
      const i64 first = h.first_of(i), count = h.tokens_of(i);
      INFO("expert " << i << ", " << count << " tokens, added " << add);
      const std::vector<float> dw = part_of(d.dw, i * size, size), dw_before = part(before, i * size, size);
      if (count == 0) {
        CHECK(same_values(dw, add ? dw_before : std::vector<float>(dw.size())));
        continue;
      }
      linear_case<R, L> of_expert = h.alone(i, before);
      linear_on_device<R, L, How> alone(of_expert);
      REQUIRE(alone.step(add ? 1.0f : 0.0f, nullptr) == errc::ok);
      CHECK(same_values(part_of(d.y, first * all.out, count * all.out), alone.y.to_host()));
      CHECK(same_values(part_of(d.dx, first * all.in, count * all.in), alone.dx.to_host()));
      CHECK(same_values(dw, alone.dw.to_host()));
    }
  }
  const i64 end = offsets.back(), rest = all.tokens - end;  // rows of no expert
  CHECK(same_values(part_of(d.y, end * all.out, rest * all.out), part(h.y, end * all.out, rest * all.out)));
  CHECK(same_values(part_of(d.dx, end * all.in, rest * all.in), part(h.dx, end * all.in, rest * all.in)));
}
template <linear_recipe R, class L = linear, class How = accumulate::blackwell>
void check_at_once(linear_shape all, std::vector<i64> const& offsets, kind what) {
  check_at_once<R, L, How>(
      all, offsets, what, [](auto const&) {}, [](auto const&) {});
}

/// Offsets of `count` experts with 16 to 16 * most tokens, some of them none.
std::vector<i64> offsets_of(i64 count, i64 most) {
  std::vector<i64> offsets{0};
  for (i64 i = 0; i < count; ++i) offsets.push_back(offsets.back() + 16 * (i * 7 % (most + 1)));
  return offsets;
}

}  // namespace

TEST_CASE("device linear: experts at once have the bits of each alone, for all kinds of data",
          "[device][recipe][linear][grouped]") {
  for (const kind what : kinds) check_at_once<te>({640, 320, 272}, {0, 16, 16, 160, 416, 624}, what);
}

TEST_CASE("device linear: experts at once have the bits of each alone, for all kinds of shapes",
          "[device][recipe][linear][grouped]") {
  const kind t2 = kind::student_2;
  check_at_once<te, swizzled_128x4>({448, 1280, 1008}, {0, 304, 304, 320, 448}, t2);  // tiles of 192 columns
  check_at_once<te>({96, 64, 80}, {0, 32, 96}, t2);
  check_at_once<te>({1024, 2048, 208}, {0, 512, 1024}, kind::gaussian);
  const std::vector<i64> many = offsets_of(150, 3);  // more than a launch takes
  check_at_once<te>({many.back() + 16, 96, 144}, many, t2);
}

TEST_CASE("device linear: experts at once, other formats and ways to add",
          "[device][recipe][linear][grouped]") {
  const std::vector<i64> offsets{0, 32, 32, 160, 256};
  check_at_once<presets::mxfp4().linear>({256, 320, 288}, offsets, kind::student_2);
  check_at_once<te, linear, accumulate::native<>>({256, 320, 288}, offsets, kind::student_2);
  check_at_once<presets::te_nvfp4_no_rht().linear, swizzled_128x4, accumulate::native<>>(
      {256, 640, 272}, offsets, kind::lognormal_blocks);
}

TEST_CASE("device linear: experts wait for each other where memory is short",
          "[device][recipe][linear][grouped]") {
  const linear_shape all{512, 256, 384};
  const std::vector<i64> offsets = offsets_of(12, 5);
  const i64 least = device::linear_layer<te>::gemm_bytes(all);  // for one GEMM, whichever expert's
  check_at_once<te>(
      all, offsets, kind::gaussian, [](auto const&) {},
      [least](auto& d) {
        REQUIRE(d.t[0].gemm.bytes > least);
        for (auto& of_expert : d.t) of_expert.gemm.bytes = least;
      });
}

TEST_CASE("device linear: NaN and zeros stay with their expert", "[device][recipe][linear][grouped]") {
  check_at_once<te>(
      {320, 192, 256}, {0, 64, 128, 256, 320}, kind::gaussian,
      [](auto& h) {
        std::fill(h.x.begin() + 64 * 192, h.x.begin() + 128 * 192, bf16{0x7fc0});
        std::fill(h.dy.begin() + 128 * 256, h.dy.begin() + 256 * 256, bf16{});
      },
      [](auto const&) {});
}

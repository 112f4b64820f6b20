// SPDX-License-Identifier: Apache-2.0
// Groups of packed rows on the CPU: each as quantize() does it by itself, scales one group behind the other.
#include <fourscale/host/dequantize.hpp>
#include <fourscale/host/quantize.hpp>
#include <fourscale/host/quantize_grouped.hpp>
#include <fourscale/rounding/stochastic.hpp>
#include <vector>

#include "support/amax.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr i64 cols = 96, ld = 100;
const std::vector<i64> offsets{0, 5, 5, 133, 261, 264, 265};  // the last row belongs to no group
constexpr i64 rows = 266, count = 6;
const row_groups groups{offsets.data(), count};

std::vector<bf16> values() {
  std::vector<bf16> x(static_cast<size_t>(rows * ld));
  for (size_t i = 0; i < x.size(); ++i) x[i] = from_float<bf16>(test::activation(i / ld, i));
  return x;
}
matrix_view<bf16 const> group_rows(std::vector<bf16> const& x, i64 g) {
  return {x.data() + offsets[static_cast<size_t>(g)] * ld,
          offsets[static_cast<size_t>(g + 1)] - offsets[static_cast<size_t>(g)], cols, ld};
}

/// Each group by itself, appended; `tail` bytes behind them are not written.
template <class F, class Layout>
void check_each() {
  INFO(F::name);
  const std::vector<bf16> x = values();
  std::vector<float> amax(count);
  REQUIRE(host::amax_grouped(matrix_view<bf16 const>{x, rows, cols, ld}, groups, amax.data()) == errc::ok);
  std::vector<u8> want_codes, want_scales;
  for (i64 g = 0; g < count; ++g) {
    const auto m = group_rows(x, g);
    if (m.rows == 0) CHECK(amax[static_cast<size_t>(g)] == 0.0f);
    if (m.rows == 0) continue;
    CHECK(amax[static_cast<size_t>(g)] == test::amax_of(m));
    std::vector<u8> c(static_cast<size_t>(code_bytes<F>(m.rows, cols)));
    std::vector<u8> s(static_cast<size_t>(scale_bytes<F, Layout>(m.rows, cols)));
    REQUIRE(host::quantize(m, block_scaled_view<F, Layout>{c, s, m.rows, cols,
                                                           amax_value(test::amax_of(m))}) == errc::ok);
    want_codes.insert(want_codes.end(), c.begin(), c.end());
    want_scales.insert(want_scales.end(), s.begin(), s.end());
  }
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(rows, cols)), 0xa5);
  std::vector<u8> scales(static_cast<size_t>(grouped_scale_bytes<F, Layout>(rows, cols, count)), 0xa5);
  want_codes.resize(codes.size(), 0xa5);
  REQUIRE(want_scales.size() <= scales.size());
  want_scales.resize(scales.size(), 0xa5);
  const block_scaled_view<F, Layout> q{codes, scales, rows, cols, amax_of_groups(amax.data())};
  REQUIRE(host::quantize_grouped(matrix_view<bf16 const>{x, rows, cols, ld}, q, groups) == errc::ok);
  CHECK(codes == want_codes);
  CHECK(scales == want_scales);
}

}  // namespace

TEST_CASE("grouped: each group is quantized as it is by itself", "[host][grouped]") {
  check_each<nvfp4, linear>();
  check_each<nvfp4, swizzled_128x4>();
  check_each<mxfp4, swizzled_128x4>();
  check_each<mxfp8_e4m3, linear>();
}

TEST_CASE("grouped: without tensor scales, random rounding is that of the packed matrix", "[host][grouped]") {
  const std::vector<bf16> x = values();
  const matrix_view<bf16 const> m{x.data(), 265, cols, ld};
  const quantizer random{stochastic{philox{1, 2}}};
  std::vector<u8> c(265 * cols / 2), s(265 * cols / 32), want_c = c, want_s = s;
  REQUIRE(host::quantize(m, block_scaled_view<mxfp4>{want_c, want_s, 265, cols}, random) == errc::ok);
  REQUIRE(host::quantize_grouped(m, block_scaled_view<mxfp4>{c, s, 265, cols}, groups, random) == errc::ok);
  CHECK(c == want_c);
  CHECK(s == want_s);
}

TEST_CASE("grouped: group_of gives one group to functions of whole matrices", "[host][grouped]") {
  const std::vector<bf16> x = values();
  std::vector<float> amax(count), y(128 * cols), want = y;
  const matrix_view<bf16 const> m{x, rows, cols, ld};
  std::vector<u8> c(rows * cols / 2);
  std::vector<u8> s(static_cast<size_t>(grouped_scale_bytes<nvfp4, swizzled_128x4>(rows, cols, count)));
  const block_scaled_view<nvfp4, swizzled_128x4> q{c, s, rows, cols, amax_of_groups(amax.data())};
  REQUIRE(host::amax_grouped(m, groups, amax.data()) == errc::ok);
  REQUIRE(host::quantize_grouped(m, q, groups) == errc::ok);
  const auto third = group_of(q, 3, 133, 128, 128 + 0 + 128);
  CHECK(third.amax == tensor_amax<nvfp4>(amax_in(&amax[3])));
  REQUIRE(host::dequantize(third, matrix_view<float>{y, 128, cols}) == errc::ok);

  std::vector<u8> alone_c(128 * cols / 2), alone_s(128 * 8);
  const block_scaled_view<nvfp4, swizzled_128x4> alone{alone_c, alone_s, 128, cols, amax_value(amax[3])};
  REQUIRE(host::quantize(group_rows(x, 3), alone) == errc::ok);
  REQUIRE(host::dequantize(alone, matrix_view<float>{want, 128, cols}) == errc::ok);
  CHECK(y == want);
}

TEST_CASE("grouped: rows of a group have their own amaxes", "[host][grouped]") {
  const std::vector<bf16> x = values();
  const matrix_view<bf16 const> m{x, rows, cols, ld};
  std::vector<float> amax(rows);
  REQUIRE(host::row_amax(m, amax.data()) == errc::ok);
  std::vector<u8> codes(rows * cols / 2), scales(rows * cols / 16), want_codes = codes, want_scales = scales;
  const amax_reference of_rows = amax_of_rows(amax.data());
  const block_scaled_view<nvfp4> q{codes, scales, rows, cols, of_rows};
  REQUIRE(host::quantize(matrix_view<bf16 const>{x.data(), 265, cols, ld},
                         block_scaled_view<nvfp4>{want_codes, want_scales, 265, cols, of_rows}) == errc::ok);
  REQUIRE(host::quantize_grouped(m, q, groups) == errc::ok);
  CHECK(codes == want_codes);
  CHECK(scales == want_scales);
  CHECK(group_of(q, 3, 133, 128, 133).amax == tensor_amax<nvfp4>(amax_of_rows(&amax[133])));
}

TEST_CASE("grouped: what a call writes lies apart from what it reads, padding included", "[host][grouped]") {
  using blocks = block_scaled_view<nvfp4, swizzled_128x4>;
  constexpr i64 of_codes = rows * cols / 2, of_scales = 8 * 128 * 8, of_x = (rows + 1) * cols * 4;
  // Scales, the last of which are padding; then, each in turn, what must not begin before they end.
  alignas(16) static u8 bytes[of_scales + of_x + of_codes + 64];
  for (u8& b : bytes) b = 0x5a;
  float const* const behind = reinterpret_cast<float const*>(bytes + of_scales);
  const auto result = [&](float const* x, u8* codes, amax_reference amax) {
    return host::quantize_grouped(matrix_view<float const>{x, rows, cols},
                                  blocks{codes, bytes, rows, cols, amax}, groups);
  };
  u8* const codes = bytes + of_scales + of_x;
  const float amax[count] = {};
  CHECK(result(behind - 4, codes, amax_of_groups(amax)) == errc::overlap);
  CHECK(result(behind, bytes + of_scales - 16, amax_of_groups(amax)) == errc::overlap);
  // Amaxes of which only the first, or only the last, lies in what is written.
  float const* const before_codes = reinterpret_cast<float const*>(codes) - count;
  CHECK(result(behind, codes, amax_of_groups(behind - 1)) == errc::overlap);
  CHECK(result(behind, codes, amax_of_groups(before_codes + 1)) == errc::overlap);
  CHECK(result(behind, codes, amax_of_groups(before_codes)) == errc::ok);
}

TEST_CASE("grouped: offsets of 32 bits are those of 64", "[host][grouped]") {
  const std::vector<bf16> x = values();
  const matrix_view<bf16 const> m{x, rows, cols, ld};
  const std::vector<i32> narrow(offsets.begin(), offsets.end());
  std::vector<float> amax(count), want(count);
  REQUIRE(host::amax_grouped(m, groups, want.data()) == errc::ok);
  REQUIRE(host::amax_grouped(m, {narrow.data(), count}, amax.data()) == errc::ok);
  CHECK(amax == want);
  std::vector<u8> codes(rows * cols / 2, 0xa5), want_codes = codes;
  std::vector<u8> scales(static_cast<size_t>(grouped_scale_bytes<nvfp4, swizzled_128x4>(rows, cols, count)),
                         0xa5);
  std::vector<u8> want_scales = scales;
  using blocks = block_scaled_view<nvfp4, swizzled_128x4>;
  const amax_reference amaxes = amax_of_groups(want.data());
  REQUIRE(host::quantize_grouped(m, blocks{want_codes, want_scales, rows, cols, amaxes}, groups) == errc::ok);
  REQUIRE(host::quantize_grouped(m, blocks{codes, scales, rows, cols, amaxes}, {narrow.data(), count}) ==
          errc::ok);
  CHECK(codes == want_codes);
  CHECK(scales == want_scales);
  // An odd address of four bytes is in order for 32 bits, one of two is not.
  CHECK(validate(row_groups{narrow.data() + 1, 3}) == errc::ok);
  CHECK(validate(row_groups{reinterpret_cast<i32 const*>(reinterpret_cast<u8 const*>(narrow.data()) + 2),
                            3}) == errc::misaligned);
  CHECK(validate(row_groups{static_cast<i32 const*>(nullptr), 3}) == errc::null_pointer);
}

TEST_CASE("grouped: a format without a tensor scale reads no amaxes", "[host][grouped]") {
  // Constant evaluation refuses an address that is computed from null.
  constexpr bool left_alone = [] {
    u8 codes[4 * 16] = {}, scales[4] = {};
    const block_scaled_view<mxfp4> q{codes, scales, 4, 32, tensor_amax<mxfp4>(amax_of_groups(nullptr))};
    return group_of(q, 1, 2, 2, 2).amax.data == nullptr;
  }();
  CHECK(left_alone);
}

TEST_CASE("grouped: broken rules are named", "[host][grouped]") {
  const std::vector<bf16> x = values();
  const matrix_view<bf16 const> m{x, rows, cols, ld};
  std::vector<u8> c(rows * cols / 2),
      enough(static_cast<size_t>(grouped_scale_bytes<nvfp4>(rows, cols, count)));
  float amax[count] = {};
  const amax_reference amaxes = amax_of_groups(amax);
  const block_scaled_view<nvfp4> q{c, enough, rows, cols, amaxes};
  CHECK(host::quantize_grouped(m, q, {nullptr, 3}) == errc::null_pointer);
  CHECK(host::quantize_grouped(m, q, {offsets.data(), 0}) == errc::empty_matrix);
  CHECK(host::quantize_grouped(m, q, {offsets.data(), i64{1} << 31}) == errc::too_large);
  CHECK(host::quantize_grouped(m, block_scaled_view<nvfp4>{c, enough, rows - 1, cols, amaxes}, groups) ==
        errc::shape_mismatch);
  CHECK(host::amax_grouped(m, groups, nullptr) == errc::null_pointer);
  CHECK(grouped_scale_bytes<nvfp4>(rows, cols, count) == rows * 6);
  // The most that six groups of 266 rows need: 261 rows in one, one row in each of the others.
  CHECK(grouped_scale_bytes<nvfp4, swizzled_128x4>(266, cols, 6) == 8 * 128 * 8);
  std::vector<u8> swizzled(8 * 128 * 8 - 1);
  CHECK(host::quantize_grouped(m, block_scaled_view<nvfp4, swizzled_128x4>{c, swizzled, rows, cols, amaxes},
                               groups) == errc::buffer_too_small);
  // Beyond what the scales of one matrix take, but not beyond those of six.
  std::vector<u8> both(8 * 128 * 8 + rows * cols / 2);
  const block_scaled_view<nvfp4, swizzled_128x4> close{both.data() + 3 * 128 * 8, both.data(), rows, cols,
                                                       amaxes};
  CHECK(host::quantize_grouped(m, close, groups) == errc::overlap);
}

TEST_CASE("grouped: offsets that lead out of the matrix are refused, and nothing is written",
          "[host][grouped]") {
  const std::vector<bf16> x = values();
  const matrix_view<bf16 const> m{x, rows, cols, ld};
  std::vector<u8> codes(rows * cols / 2, 0xa5), scales(rows * 6, 0xa5);
  const std::vector<u8> untouched = codes;
  float amax[3] = {-1, -1, -1};
  const block_scaled_view<nvfp4> q{codes, scales, rows, cols, amax_of_groups(amax)};
  const auto check = [&](row_groups const& bad) {
    CHECK(host::amax_grouped(m, bad, amax) == errc::bad_offsets);
    CHECK(host::quantize_grouped(m, q, bad) == errc::bad_offsets);
  };
  for (std::vector<i64> const& bad : std::vector<std::vector<i64>>{{0, 32, rows + 1},
                                                                   {0, 64, 0},
                                                                   {0, rows + 1, rows},
                                                                   {1, 2, 3},
                                                                   {-1, 0, 1},
                                                                   {0, -1, 1},
                                                                   {0, 1, i64{1} << 62}}) {
    CAPTURE(bad);
    check({bad.data(), 2});
    const std::vector<i32> narrow(bad.begin(), bad.end());
    if (bad[2] < rows + 2) check({narrow.data(), 2});
  }
  block_scaled_view<nvfp4> edited = q;
  edited.amax.number = scale_number::encode;  // no function of groups reads these
  CHECK(host::quantize_grouped(m, edited, groups) == errc::no_amax);
  CHECK((amax[0] == -1 && amax[1] == -1 && amax[2] == -1));
  CHECK(codes == untouched);
  const i64 all[] = {0, 0, rows, rows};
  CHECK(host::amax_grouped(m, {all, 3}, amax) == errc::ok);
}

// SPDX-License-Identifier: Apache-2.0
// host::dequantize equals dequantize_block in every bit: formats, layouts, types, any bytes as codes and
// scales, an amax for each row, into a matrix and into its transpose.
#include <fourscale/host/dequantize.hpp>

#include "naive.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

template <class T>
bool same_bits(T a, T b) {
  if constexpr (sizeof(T) == 4)
    return bit_cast<u32>(a) == bit_cast<u32>(b);
  else
    return a == b;
}

template <real T, class Layout, block_format F>
i64 count_differences(output<F, Layout> const& q, std::vector<T> const& y, bool is_transposed) {
  i64 differences = 0;
  for (i64 row = 0; row < q.view.rows; ++row)
    for (i64 block = 0; block < q.view.blocks(); ++block) {
      float want[F::block_size];
      dequantize_block(q.view.load(row, block), want, q.view.amax.scale_of_row(row));
      for (i64 i = 0; i < F::block_size; ++i) {
        const i64 col = block * F::block_size + i;
        const i64 at = is_transposed ? col * q.view.rows + row : row * (q.view.cols + 3) + col;
        differences += !same_bits(y[size(at)], from_float<T>(want[i]));
      }
    }
  return differences;
}

template <block_format F, class Layout, real T>
void check(i64 rows, i64 blocks, float amax, bool by_row) {
  const i64 cols = blocks * F::block_size;
  output<F, Layout> q(rows, cols);
  for (i64 i = 0; i < q.codes.count(); ++i) q.codes.data()[i] = static_cast<u8>(mix(static_cast<u64>(i)));
  for (i64 i = 0; i < q.scales.count(); ++i) q.scales.data()[i] = static_cast<u8>(i * 7 + rows);
  std::vector<float> amaxes(size(rows));
  for (std::size_t i = 0; i < amaxes.size(); ++i) amaxes[i] = 0.5f + static_cast<float>(i);
  q.view.amax = by_row ? amax_of_rows(amaxes.data()) : amax_value(amax);
  std::vector<T> y(size(rows * (cols + 3))), yt(size(rows * cols));
  REQUIRE(host::dequantize(q.view, matrix_view<T>(y.data(), rows, cols, cols + 3)) == errc::ok);
  REQUIRE(host::dequantize(q.view, transposed(matrix_view<T>(yt.data(), cols, rows))) == errc::ok);
  CHECK(count_differences(q, y, false) == 0);
  CHECK(count_differences(q, yt, true) == 0);
}

template <block_format F>
void check_format() {
  INFO(F::name);
  check<F, linear, float>(69, test_cols<F> / F::block_size, 300.0f, false);
  check<F, swizzled_128x4, bf16>(69, test_cols<F> / F::block_size, 1e-30f, F::has_tensor_scale);
  check<F, linear, fp16>(259, 1, 2688.0f, false);
  check<F, swizzled_128x4, bf16>(259, 3, 3.0f, F::has_tensor_scale);
  check<F, linear, float>(259, 1, 1e38f, F::has_tensor_scale);
}

}  // namespace

TEST_CASE("host::dequantize: every NaN in f32 is that of a GPU", "[host][dequantize]") {
  output<nvfp4, linear> q(1, 32);
  for (i64 i = 0; i < 16; ++i) q.codes.data()[i] = 0x2a;  // -1 and 1 in turns
  for (const u8 scale : {u8{0x7f}, u8{0xff}})             // NaN of either sign
    for (const float amax : {0.0f, 1.0f, bit_cast<float>(float_inf_bits), bit_cast<float>(0xffc0'0001u)}) {
      q.scales.data()[0] = scale, q.scales.data()[1] = 0;  // 0 times infinity
      q.view.amax = amax_value(amax);
      float y[32];
      REQUIRE(host::dequantize(q.view, matrix_view<float>(y, 1, 32)) == errc::ok);
      for (int i = 0; i < 32; ++i) {
        INFO(i << ", amax " << amax);
        const bool nan = i < 16 || !(amax <= 1.0f);
        CHECK((nan ? bit_cast<u32>(y[i]) == 0x7fff'ffffu : y[i] == 0.0f));
      }
    }
}

TEST_CASE("host::dequantize: every bit is that of dequantize_block", "[host][dequantize]") {
  check_format<nvfp4>();
  check_format<nvint4>();
  check_format<mxfp4>();
  check_format<mxfp6_e2m3>();
  check_format<mxfp6_e3m2>();
  check_format<mxfp8_e4m3>();
  check_format<mxfp8_e5m2>();
  check_format<fp8_block_e4m3>();
  check_format<fp8_e4m3>();
  check_format<fp8_e5m2>();
}

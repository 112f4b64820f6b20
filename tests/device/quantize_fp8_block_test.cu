// SPDX-License-Identifier: Apache-2.0
// FP8 under one FP32 scale for 128 values of a row or for 128 x 128: the device's bytes are the host's,
// padding and what lies behind the buffers included.
#include <fourscale/fourscale.cuh>
#include <vector>

#include "device/matches_host.cuh"
#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr u8 poison = 0xa5;

/// Bytes in device memory, `start` bytes behind a multiple of 256, with 64 bytes of poison behind them.
struct device_bytes {
  i64 start, count;
  u8* all = nullptr;

  device_bytes(i64 n, i64 first) : start(first), count(n) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&all), static_cast<size_t>(start + count + 64)) ==
            cudaSuccess);
    REQUIRE(cudaMemset(all, poison, static_cast<size_t>(start + count + 64)) == cudaSuccess);
  }
  ~device_bytes() { cudaFree(all); }
  device_bytes(device_bytes const&) = delete;
  device_bytes& operator=(device_bytes const&) = delete;

  u8* data() const { return all + start; }
  /// The bytes and the poison before and behind them.
  std::vector<u8> to_host() const {
    std::vector<u8> bytes(static_cast<size_t>(start + count + 64));
    REQUIRE(cudaMemcpy(bytes.data(), all, bytes.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return bytes;
  }
};

/// What to_host() is if the device wrote `bytes`.
std::vector<u8> poisoned(std::vector<u8> const& bytes, i64 start) {
  std::vector<u8> all(static_cast<size_t>(start) + bytes.size() + 64, poison);
  for (size_t i = 0; i < bytes.size(); ++i) all[static_cast<size_t>(start) + i] = bytes[i];
  return all;
}

/// The number of the first byte that differs, or -1.
i64 first_difference(std::vector<u8> const& a, std::vector<u8> const& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return static_cast<i64>(i);
  return -1;
}

float activations(u64 row, u64 i) { return activation(row, i); }
float ugly_values(u64, u64 i) { return ugly(i); }
/// Infinities, NaNs and signed zeros among ordinary values: one kind to a run of 128, some of them whole.
float special_values(u64 row, u64 i) {
  constexpr float inf = bit_cast<float>(float_inf_bits), nan = bit_cast<float>(0x7fc0'0000u);
  constexpr float kinds[] = {inf, -inf, nan, 0.0f, -0.0f};
  const u64 run = i / 128;
  if (run % 7 >= 5) return activation(row, i);
  return run % 3 == 0 || mix(i) % 64 == 0 ? kinds[run % 7] : activation(row, i);
}
float zeros(u64, u64 i) { return i % 2 == 0 ? 0.0f : -0.0f; }
/// So small that 448 / amax overflows, and so large that its inverse is no normal number.
float extreme_values(u64 row, u64 i) {
  return activation(row, i) * (i / 128 % 2 == 0 ? 0x1p-130f : 0x1p115f);
}

/// A matrix and its start: elements before its first row, bytes before codes and scales of a copy.
struct shape {
  i64 rows, cols, ld, start = 0, code_start = 0, scale_start = 0;
};

/// Of a matrix or, `Columns`, of its transpose.
template <class F, class T, class Layout, class Blocks, bool Columns, class Quantizer>
void check_form(std::vector<T> const& values, T const* d_values, shape const& s, Quantizer const& recipe) {
  const auto view = [&](T const* data) {
    const matrix_view<T const> x{data + s.start, s.rows, s.cols, s.ld};
    if constexpr (Columns)
      return transposed(x);
    else
      return x;
  };
  const auto x = view(values.data()), d_x = view(d_values);
  const i64 rows = Columns ? s.cols : s.rows, cols = Columns ? s.rows : s.cols;
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(rows, cols)), poison);
  std::vector<u8> scales(static_cast<size_t>(scale_bytes<F, Layout>(rows, cols)), poison);
  const device_bytes d_codes(static_cast<i64>(codes.size()), s.code_start),
      d_scales(static_cast<i64>(scales.size()), s.scale_start);
  const block_scaled_view<F, Layout> q{codes, scales, rows, cols},
      d_q{d_codes.data(), d_scales.data(), rows, cols};
  INFO(F::name << (Blocks::is_2d ? " 2-D " : " 1-D ") << (Columns ? "columns " : "")
               << (Layout::has_padding ? "swizzled " : "linear ") << s.rows << 'x' << s.cols << " ld " << s.ld
               << " start " << s.start << ", codes at " << s.code_start << ", scales at " << s.scale_start
               << ", values of " << sizeof(T) << " bytes");
  REQUIRE(host::quantize(x, q, recipe, Blocks{}) == errc::ok);
  REQUIRE(device::quantize(d_x, d_q, recipe, Blocks{}) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(first_difference(d_codes.to_host(), poisoned(codes, s.code_start)) == -1);
  CHECK(first_difference(d_scales.to_host(), poisoned(scales, s.scale_start)) == -1);
}

/// The values of a shape.
template <class T>
std::vector<T> values_of(shape const& s, float (*value)(u64 row, u64 i)) {
  std::vector<T> values(static_cast<size_t>(s.start + s.rows * s.ld));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = from_float<T>(value(i / static_cast<size_t>(s.ld), i));
  return values;
}

/// Both kinds of blocks, both layouts.
template <class F, class T, bool Columns = false, class Quantizer = quantizer<>>
void check(shape const& s, float (*value)(u64 row, u64 i), Quantizer const& recipe = {}) {
  const std::vector<T> values = values_of<T>(s, value);
  const device_buffer<T> copy(values);
  T const* const d_values = copy.data();
  check_form<F, T, linear, blocks_1d, Columns>(values, d_values, s, recipe);
  check_form<F, T, swizzled_128x4, blocks_1d, Columns>(values, d_values, s, recipe);
  check_form<F, T, linear, blocks_2d<128, 128>, Columns>(values, d_values, s, recipe);
  check_form<F, T, swizzled_128x4, blocks_2d<128, 128>, Columns>(values, d_values, s, recipe);
}

constexpr shape even[] = {{128, 128, 128}, {256, 512, 512}, {130, 384, 384}, {130, 384, 392},
                          {1, 128, 128},   {3, 1280, 1280}, {600, 640, 640}};
/// Rows that are no vectors; codes and scales that are no vectors or words.
constexpr shape odd[] = {{130, 384, 385},          {130, 384, 387, 3},   {130, 384, 384, 1},
                         {130, 384, 384, 0, 8},    {33, 256, 256, 0, 1}, {130, 384, 384, 0, 0, 4},
                         {130, 384, 384, 0, 16, 1}};

/// The same for columns, which are whole blocks.
constexpr shape even_columns[] = {{128, 128, 128}, {256, 512, 512}, {384, 130, 136}, {128, 1, 8},
                                  {1280, 3, 8},    {640, 600, 600}, {128, 264, 264}};
constexpr shape odd_columns[] = {{384, 130, 130},           {384, 130, 131, 3},      {256, 133, 133},
                                 {384, 130, 136, 0, 8},     {256, 33, 40, 0, 1},     {384, 130, 136, 0, 0, 4},
                                 {384, 130, 136, 0, 16, 1}, {384, 130, 136, 4, 0, 0}};

template <class F, class T, bool Columns = false, class Quantizer = quantizer<>>
void check_shapes(float (*value)(u64 row, u64 i), Quantizer const& recipe = {}) {
  if (!gpu_or_warn()) return;
  const auto all = [&](auto const& list) {
    for (shape const& s : list) check<F, T, Columns>(s, value, recipe);
  };
  if constexpr (Columns)
    all(even_columns), all(odd_columns);
  else
    all(even), all(odd);
}

template <class F, class T, bool Columns = false>
void check_values() {
  if (!gpu_or_warn()) return;
  for (auto* value : {activations, ugly_values, special_values, zeros, extreme_values}) {
    check<F, T, Columns>({256, 512, 512}, value);
    check<F, T, Columns>(Columns ? shape{384, 130, 131, 1} : shape{130, 384, 385, 1}, value);
  }
}

/// Both copies in one call.
template <class F, class T, class Layout, class LayoutT, class Blocks, class Quantizer>
void check_both_of(shape const& s, Quantizer const& rowwise, Quantizer const& columnwise) {
  const std::vector<T> values = values_of<T>(s, special_values);
  const device_buffer<T> copy(values);
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(s.rows, s.cols)), poison),
      codes_t = codes, scales(static_cast<size_t>(scale_bytes<F, Layout>(s.rows, s.cols)), poison),
      scales_t(static_cast<size_t>(scale_bytes<F, LayoutT>(s.cols, s.rows)), poison);
  const device_bytes d_codes(s.rows * s.cols, s.code_start), d_codes_t(s.rows * s.cols, 0),
      d_scales(static_cast<i64>(scales.size()), 0),
      d_scales_t(static_cast<i64>(scales_t.size()), s.scale_start);
  INFO(F::name << (Blocks::is_2d ? " 2-D " : " 1-D ") << s.rows << 'x' << s.cols << " ld " << s.ld
               << " start " << s.start << ", codes at " << s.code_start << ", transposed scales at "
               << s.scale_start);
  using view = block_scaled_view<F, Layout>;
  using view_t = block_scaled_view<F, LayoutT>;
  REQUIRE(host::quantize_both(matrix_view<T const>{values.data() + s.start, s.rows, s.cols, s.ld},
                              view{codes, scales, s.rows, s.cols}, view_t{codes_t, scales_t, s.cols, s.rows},
                              rowwise, columnwise, Blocks{}) == errc::ok);
  T const* const d_values = copy.data() + s.start;
  REQUIRE(device::quantize_both(matrix_view<T const>{d_values, s.rows, s.cols, s.ld},
                                view{d_codes.data(), d_scales.data(), s.rows, s.cols},
                                view_t{d_codes_t.data(), d_scales_t.data(), s.cols, s.rows}, rowwise,
                                columnwise, Blocks{}) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(first_difference(d_codes.to_host(), poisoned(codes, s.code_start)) == -1);
  CHECK(first_difference(d_scales.to_host(), poisoned(scales, 0)) == -1);
  CHECK(first_difference(d_codes_t.to_host(), poisoned(codes_t, 0)) == -1);
  CHECK(first_difference(d_scales_t.to_host(), poisoned(scales_t, s.scale_start)) == -1);
}
template <class F, class T, class Blocks, class Quantizer = quantizer<>>
void check_both(Quantizer const& rowwise = {}, Quantizer const& columnwise = {}) {
  if (!gpu_or_warn()) return;
  for (const shape s :
       {shape{256, 384, 384}, shape{128, 128, 136}, shape{128, 640, 640}, shape{1152, 256, 256},
        shape{256, 128, 131, 1}, shape{128, 256, 256, 0, 8}, shape{256, 384, 384, 0, 0, 1}}) {
    check_both_of<F, T, linear, linear, Blocks>(s, rowwise, columnwise);
    check_both_of<F, T, swizzled_128x4, linear, Blocks>(s, rowwise, columnwise);
    check_both_of<F, T, swizzled_128x4, swizzled_128x4, Blocks>(s, rowwise, columnwise);
  }
}

}  // namespace

TEST_CASE("device: FP8 blocks of bf16 equal the host in every shape", "[device][fp8_block]") {
  check_shapes<fp8_block_e4m3, bf16>(activations);
}

TEST_CASE("device: FP8 blocks of float and fp16 equal the host in every shape", "[device][fp8_block]") {
  check_shapes<fp8_block_e4m3, float>(activations);
  check_shapes<fp8_block_e5m2, fp16>(activations);
}

TEST_CASE("device: FP8 blocks of NaNs, infinities, zeros and extremes equal the host",
          "[device][fp8_block]") {
  check_values<fp8_block_e4m3, bf16>();
  check_values<fp8_block_e4m3, float>();
  check_values<fp8_block_e5m2, fp16>();
}

TEST_CASE("device: FP8 blocks with stochastic rounding equal the host", "[device][fp8_block]") {
  const quantizer recipe{stochastic{philox{0x0123'4567'89ab'cdef, 42}}, fp8_block_scale{}};
  check_shapes<fp8_block_e4m3, bf16>(activations, recipe);
}

TEST_CASE("device: FP8 blocks under scales that are no powers of two equal the host", "[device][fp8_block]") {
  const quantizer recipe{nearest_even{}, fp8_block_scale{false}};
  check_shapes<fp8_block_e4m3, bf16>(ugly_values, recipe);
}

TEST_CASE("device: columns of FP8 blocks equal the host in every shape", "[device][fp8_block]") {
  check_shapes<fp8_block_e4m3, bf16, true>(activations);
  check_shapes<fp8_block_e4m3, float, true>(activations);
  check_shapes<fp8_block_e5m2, fp16, true>(activations);
}

TEST_CASE("device: columns of FP8 blocks of NaNs, infinities, zeros and extremes equal the host",
          "[device][fp8_block]") {
  check_values<fp8_block_e4m3, bf16, true>();
  check_values<fp8_block_e4m3, float, true>();
}

TEST_CASE("device: columns of FP8 blocks with stochastic rounding equal the host", "[device][fp8_block]") {
  const quantizer recipe{stochastic{philox{0x0123'4567'89ab'cdef, 42}}, fp8_block_scale{}};
  check_shapes<fp8_block_e4m3, bf16, true>(activations, recipe);
}

TEST_CASE("device: both copies of FP8 blocks equal the host", "[device][fp8_block]") {
  const quantizer drawing{stochastic{philox{0x0123'4567'89ab'cdef, 42}}, fp8_block_scale{}},
      drawing_others{stochastic{philox{0x0123'4567'89ab'cdef, 43}}, fp8_block_scale{}};
  const quantizer other_scales{nearest_even{}, fp8_block_scale{false}};
  check_both<fp8_block_e4m3, bf16, blocks_1d>();
  check_both<fp8_block_e4m3, float, blocks_1d>();
  check_both<fp8_block_e4m3, bf16, blocks_1d>(drawing, drawing_others);
  check_both<fp8_block_e4m3, bf16, blocks_2d<128, 128>>();
  check_both<fp8_block_e4m3, float, blocks_2d<128, 128>>();
  check_both<fp8_block_e4m3, bf16, blocks_2d<128, 128>>(drawing, drawing);
  check_both<fp8_block_e4m3, bf16, blocks_2d<128, 128>>(other_scales, other_scales);
}

// SPDX-License-Identifier: Apache-2.0
// Whole matrices against an oracle that shares no code with the library: golden.hpp was written by oracle.py,
// with numpy and ml_dtypes.
#include <cstdio>
#include <fourscale/fourscale.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "golden.hpp"
#include "support/amax.hpp"
#if FOURSCALE_CUDA
#include "device/matches_host.cuh"
#endif

namespace {

using namespace fourscale;
namespace golden = fourscale::test::golden;

template <golden::format_name Name>
constexpr auto format_of() {
  if constexpr (Name == golden::nvfp4) return nvfp4{};
  if constexpr (Name == golden::mxfp4) return mxfp4{};
  if constexpr (Name == golden::mxfp6_e2m3) return mxfp6_e2m3{};
  if constexpr (Name == golden::mxfp6_e3m2) return mxfp6_e3m2{};
  if constexpr (Name == golden::mxfp8_e4m3) return mxfp8_e4m3{};
  if constexpr (Name == golden::mxfp8_e5m2) return mxfp8_e5m2{};
}

template <golden::source_name Name>
constexpr auto source_of() {
  if constexpr (Name == golden::bf16) return bf16{};
  if constexpr (Name == golden::fp16) return fp16{};
  if constexpr (Name == golden::fp32) return 0.0f;
}

template <golden::rule_name Name>
constexpr auto rule_of() {
  if constexpr (Name == golden::two_level || Name == golden::power_of_two_up) return amax_scale{};
  if constexpr (Name == golden::two_level_division) return two_level_division{};
  if constexpr (Name == golden::over_six_mae_256) return four_over_six<error_norm::mean_absolute, 256>{};
  if constexpr (Name == golden::over_six_mae_448) return four_over_six<error_norm::mean_absolute, 448>{};
  if constexpr (Name == golden::over_six_mse_256) return four_over_six<error_norm::mean_square, 256>{};
  if constexpr (Name == golden::over_six_mse_448) return four_over_six<error_norm::mean_square, 448>{};
  if constexpr (Name == golden::power_of_two_floor) return power_of_two_floor{};
}

template <golden::form Form>
auto recipe_for(u64 seed) {
  constexpr auto transform = [] {
    if constexpr (Form.transform == golden::hadamard_16)
      return hadamard<16>{te_signs};
    else
      return identity{};
  }();
  constexpr auto scale = rule_of<Form.rule>();
  if constexpr (Form.rounding == golden::stochastic) {
    const stochastic<> round{philox<>{0x0123'4567'89ab'cdefull + seed, (seed << 33) + 5}};
    return quantizer{round, scale, transform};
  } else {
    return quantizer{nearest_even{}, scale, transform};
  }
}

template <class T>
constexpr golden::field_widths widths = {8, 23};
template <>
constexpr golden::field_widths widths<bf16> = {8, 7};
template <>
constexpr golden::field_widths widths<fp16> = {5, 10};

template <class T>
T element(u32 bits) {
  if constexpr (std::is_same_v<T, float>)
    return bit_cast<float>(bits);
  else
    return {static_cast<u16>(bits)};
}

/// The stored matrix, with the largest finite number wherever nobody may look.
template <class T>
std::vector<T> input_of(golden::golden_case const& c) {
  constexpr golden::field_widths w = widths<T>;
  const T gap = element<T>((((1u << w.exponent) - 1) << w.mantissa) - 1);
  std::vector<T> x(static_cast<size_t>(c.rows * c.ld), gap);
  for (i64 r = 0; r < c.rows; ++r)
    for (i64 k = 0; k < c.cols; ++k)
      x[static_cast<size_t>(r * c.ld + k)] = element<T>(golden::pattern(w, c, r, k));
  return x;
}

constexpr u8 unwritten = 0xa5;
constexpr size_t guard = 64;

/// What the library made of a case. The guard bytes behind codes and scales are checked and removed.
struct outcome {
  float amax = 0;
  std::vector<u8> codes, scales;
  std::vector<u32> values;
};

void remove_guard(std::vector<u8>& bytes) {
  CHECK(std::vector<u8>(bytes.end() - guard, bytes.end()) == std::vector<u8>(guard, unwritten));
  bytes.resize(bytes.size() - guard);
}

#if FOURSCALE_CUDA

/// Forms that the device quantizes as well: a few of each kind, as kernels take long to compile and
/// tests/device/ holds all of them equal to the host.
template <golden::form Form>
constexpr bool on_device = Form.source == golden::bf16 &&
                           (Form.layout == golden::swizzled || Form.rounding == golden::stochastic ||
                            Form.rule == golden::over_six_mae_256 || Form.amaxes == golden::of_each_row);

template <class T>
matrix_view<T> with_data(matrix_view<T> x, T* data) {
  return {data, x.rows, x.cols, x.ld};
}
template <class T>
transposed_view<T> with_data(transposed_view<T> x, T* data) {
  return transposed(with_data(x.base, data));
}

/// The device writes the bytes that the host has written to q.
template <class M, class F, class Layout, class Blocks, class Quantizer>
void check_device(M const& x, block_scaled_view<F, Layout> q, Blocks shape, Quantizer const& recipe,
                  outcome const& want, std::vector<float> const& of_rows) {
  using T = typename M::value_type;
  const auto* first = &x.at(0, 0);
  const test::device_buffer<T> data(std::vector<T>(first, &x.at(x.rows - 1, x.cols - 1) + 1));
  const test::device_buffer<float> amax(std::vector<float>{want.amax}), amaxes(of_rows);
  const test::device_buffer<u8> codes(static_cast<i64>(want.codes.size()));
  const test::device_buffer<u8> scales(static_cast<i64>(want.scales.size()));
  q.codes = codes.data();
  q.scales = scales.data();
  const bool by_rows = q.amax.kind == amax_kind::per_row;
  q.amax = {by_rows ? amax_of_rows(amaxes.data()) : amax_in(amax.data()), recipe};
  REQUIRE(device::quantize(with_data(x, static_cast<T const*>(data.data())), q, recipe, shape) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  test::check_same_codes(q, codes.to_host(), want.codes);
  test::check_same_scales(q, scales.to_host(), want.scales);
}

#endif

/// Quantizes x, a matrix or a transposed one, and writes the values back to y.
template <golden::form Form, class M, class Y>
outcome quantize_there_and_back(M const& x, Y const& y, float amax, u64 seed) {
  using F = decltype(format_of<Form.format>());
  using layout = std::conditional_t<Form.layout == golden::linear, linear, swizzled_128x4>;
  constexpr int n = Form.blocks == golden::blocks_2d ? F::block_size : 0;
  using blocks = std::conditional_t<n == 0, blocks_1d, blocks_2d<n, n>>;
  const auto recipe = recipe_for<Form>(seed);
  outcome out;
  out.amax = amax;
  if constexpr (Form.transform != golden::identity) out.amax = test::amax_of<F>(x, recipe.transform);
  out.codes.assign(static_cast<size_t>(code_bytes<F>(x.rows, x.cols)) + guard, unwritten);
  out.scales.assign(static_cast<size_t>(scale_bytes<F, layout>(x.rows, x.cols)) + guard, unwritten);
  block_scaled_view<F, layout> q{out.codes, out.scales, x.rows, x.cols};
  q.amax = {amax_value(out.amax), recipe};
  std::vector<float> of_rows(static_cast<size_t>(x.rows));
  if constexpr (Form.amaxes == golden::of_each_row) {
    REQUIRE(host::row_amax(x, of_rows.data()) == errc::ok);
    q.amax = {amax_of_rows(of_rows.data()), recipe};
  }
  REQUIRE(host::quantize(x, q, recipe, blocks{}) == errc::ok);
  REQUIRE(host::dequantize(q, y) == errc::ok);
#if FOURSCALE_CUDA
  if constexpr (on_device<Form>)
    if (test::has_gpu()) check_device(x, q, blocks{}, recipe, out, of_rows);
#endif
  remove_guard(out.codes);
  remove_guard(out.scales);
  return out;
}

template <golden::form Form>
outcome run(golden::golden_case const& c) {
  using T = decltype(source_of<Form.source>());
  const std::vector<T> data = input_of<T>(c);
  const matrix_view<T const> x{data, c.rows, c.cols, c.ld};
  std::vector<float> values(static_cast<size_t>(c.rows * c.cols));
  const matrix_view<float> y{values, c.rows, c.cols};
  outcome out;
  if constexpr (Form.copy == golden::rowwise)
    out = quantize_there_and_back<Form>(x, y, test::amax_of(x), c.seed);
  else
    out = quantize_there_and_back<Form>(transposed(x), transposed(y), test::amax_of(x), c.seed);
  for (const float v : values) out.values.push_back(v == v ? bit_cast<u32>(v) : 0x7fc0'0000u);
  return out;
}

template <class T>
u64 digest_of(std::vector<T> const& values) {
  golden::digest d;
  for (const T v : values) d.add(v);
  return d.sum;
}

template <class T>
std::string hexadecimal(std::vector<T> const& values) {
  std::string text;
  for (const T v : values) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%0*x", static_cast<int>(2 * sizeof v), static_cast<unsigned>(v));
    text += digits;
  }
  return text;
}

/// Compares case I of a table of golden.hpp.
template <auto const& Cases, size_t I>
void check_case() {
  constexpr golden::golden_case c = Cases[I];
  INFO("case " << I << " of the table (from 0), " << c.rows << " x " << c.cols << ", seed " << c.seed);
  const outcome got = run<c.what>(c);
  CHECK(bit_cast<u32>(got.amax) == c.amax);
  CHECK(digest_of(got.scales) == c.scales);
  CHECK(digest_of(got.codes) == c.codes);
  CHECK(digest_of(got.values) == c.values);
}

template <auto const& Cases, size_t... I>
void check_each(std::index_sequence<I...>) {
  (check_case<Cases, I>(), ...);
}
template <auto const& Cases>
void check_table() {
  check_each<Cases>(std::make_index_sequence<std::size(Cases)>{});
}

template <size_t I>
void check_bytes() {
  constexpr golden::readable_case c = golden::readable_cases[I];
  INFO("readable case " << I);
  const outcome got = run<c.as_digests.what>(c.as_digests);
  CHECK(hexadecimal(got.scales) == c.scales);
  CHECK(hexadecimal(got.codes) == c.codes);
  CHECK(hexadecimal(got.values) == c.values);
}
template <size_t... I>
void check_all_bytes(std::index_sequence<I...>) {
  (check_bytes<I>(), ...);
}

}  // namespace

TEST_CASE("oracle: small blocks, byte for byte", "[oracle][readable]") {
  check_all_bytes(std::make_index_sequence<std::size(golden::readable_cases)>{});
}

TEST_CASE("oracle: NVFP4 matrices, both orders of the scale formula", "[oracle][nvfp4]") {
  check_table<golden::nvfp4_cases>();
}

TEST_CASE("oracle: NVFP4 with a choice of four over six", "[oracle][four_over_six]") {
  check_table<golden::four_over_six_cases>();
}

TEST_CASE("oracle: NVFP4 with an amax for each row", "[oracle][row_amax]") {
  check_table<golden::row_scaled_cases>();
}

TEST_CASE("oracle: MX matrices, scales rounded up and down", "[oracle][mx]") {
  check_table<golden::mx_cases>();
}

TEST_CASE("oracle: stochastic rounding and the random Hadamard transform", "[oracle][recipe]") {
  check_table<golden::recipe_cases>();
}

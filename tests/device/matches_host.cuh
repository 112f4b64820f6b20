// SPDX-License-Identifier: Apache-2.0
// The device functions beside the host functions on the same matrix: every byte of codes and scales, the
// padding and what lies behind the buffers included.
#pragma once

#include <cstdio>
#include <fourscale/fourscale.cuh>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"

namespace fourscale::test {

inline constexpr u8 poison = 0xa5;
inline constexpr i64 canary = 64;  ///< bytes behind each output that must keep their poison

/// Device memory that lives as long as this object.
template <class T>
class device_buffer {
 public:
  explicit device_buffer(i64 count) : count_(static_cast<size_t>(count)) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemset(data_, poison, count_ * sizeof(T)) == cudaSuccess);
  }
  explicit device_buffer(std::vector<T> const& values) : device_buffer(static_cast<i64>(values.size())) {
    REQUIRE(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~device_buffer() { cudaFree(data_); }
  device_buffer(device_buffer const&) = delete;
  device_buffer& operator=(device_buffer const&) = delete;

  T* data() const { return data_; }
  std::vector<T> to_host() const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

/// A matrix on both machines. `start` elements lie before it, so that its first row may be misaligned for
/// vectors.
template <class T>
struct test_matrix {
  i64 rows, cols, ld, start;
  std::vector<T> values;
  device_buffer<T> copy;

  static std::vector<T> make(i64 rows, i64 ld, i64 start, float (*value)(u64 row, u64 i)) {
    std::vector<T> v(static_cast<size_t>(start + rows * ld));
    for (size_t i = 0; i < v.size(); ++i) v[i] = from_float<T>(value(i / static_cast<size_t>(ld), i));
    return v;
  }
  test_matrix(i64 r, i64 c, i64 leading, i64 first, float (*value)(u64, u64) = activation)
      : rows(r), cols(c), ld(leading), start(first), values(make(r, leading, first, value)), copy(values) {}

  matrix_view<T const> on_host() const { return {values.data() + start, rows, cols, ld}; }
  matrix_view<T const> on_device() const { return {copy.data() + start, rows, cols, ld}; }
};

/// A value that is not a NaN compares by bits; NaNs are equal.
template <class T>
bool same_values(std::vector<T> const& a, std::vector<T> const& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = to_float(a[i]), y = to_float(b[i]);
    if (bit_cast<u32>(x) != bit_cast<u32>(y) && (x == x || y == y)) return false;
  }
  return a.size() == b.size();
}

template <class F, class Layout, class M, class Blocks, class Quantizer>
void check_quantize(M const& host, M const& device, Blocks shape, float amax, float const* d_amax,
                    Quantizer const& recipe) {
  const i64 codes = code_bytes<F>(host.rows, host.cols),
            scales = scale_bytes<F, Layout>(host.rows, host.cols);
  const std::vector<u8> empty_codes(static_cast<size_t>(codes + canary), poison);
  const std::vector<u8> empty_scales(static_cast<size_t>(scales + canary), poison);
  std::vector<u8> host_codes = empty_codes, host_scales = empty_scales;
  device_buffer<u8> d_codes(empty_codes), d_scales(empty_scales);
  block_scaled_view<F, Layout> q{host_codes, host_scales, host.rows, host.cols};
  q.tensor_scale = tensor_scale_for<F>(recipe.scale, amax);
  REQUIRE(host::quantize(host, q, recipe, shape) == errc::ok);
  block_scaled_view<F, Layout> d{d_codes.data(), d_scales.data(), host.rows, host.cols};
  d.tensor_scale = q.tensor_scale;
  REQUIRE(device::quantize(device, d, shape, d_amax, recipe) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(d_codes.to_host() == host_codes);
  CHECK(d_scales.to_host() == host_scales);

  using value = typename M::value_type;
  const i64 stored_rows = M::is_transposed ? host.cols : host.rows,
            stored_cols = M::is_transposed ? host.rows : host.cols;
  std::vector<value> y(static_cast<size_t>(stored_rows * stored_cols));
  device_buffer<value> d_y(stored_rows * stored_cols);
  const matrix_view<value> to{y.data(), stored_rows, stored_cols}, d_to{d_y.data(), stored_rows, stored_cols};
  if constexpr (M::is_transposed) {
    REQUIRE(host::dequantize(q, transposed(to)) == errc::ok);
    REQUIRE(device::dequantize(d, transposed(d_to), d_amax) == cudaSuccess);
  } else {
    REQUIRE(host::dequantize(q, to) == errc::ok);
    REQUIRE(device::dequantize(d, d_to, d_amax) == cudaSuccess);
  }
  CHECK(same_values(d_y.to_host(), y));
}

/// Which forms of a matrix to compare: all, or one of each kind, for rules that do not care about layouts.
enum class forms { all, some };

/// Format F from a matrix: 1-D blocks, and 2-D ones if nothing is transformed, both copies, both layouts.
/// `print` says what was compared.
template <class F, forms Which = forms::all, class T, class Quantizer = quantizer<>>
void check_all_forms(test_matrix<T> const& m, bool print = false, Quantizer const& recipe = {}) {
  constexpr int n = F::block_size;
  constexpr bool all = Which == forms::all, plain = __is_same(decltype(Quantizer::transform), identity);
  device_buffer<float> d_amax(1);
  REQUIRE(device::amax(m.on_device(), d_amax.data()) == cudaSuccess);
  const float amax = host::amax(m.on_host());
  CHECK(bit_cast<u32>(d_amax.to_host()[0]) == bit_cast<u32>(amax));
  const auto form = [&](auto layout, auto shape, auto host, auto device, char const* what) {
    INFO(F::name << ' ' << what << ' ' << m.rows << 'x' << m.cols << " ld " << m.ld << " start " << m.start);
    check_quantize<F, decltype(layout)>(host, device, shape, amax, d_amax.data(), recipe);
    if (print) std::printf("  host = device: %-10s %-32s %lld x %lld bf16\n", F::name, what, m.rows, m.cols);
  };
  const auto x = m.on_host(), dx = m.on_device();
  const auto xt = transposed(x), dxt = transposed(dx);
  if (m.cols % n == 0) {
    form(linear{}, blocks_1d{}, x, dx, "1-D rowwise linear");
    if constexpr (all) form(swizzled_128x4{}, blocks_1d{}, x, dx, "1-D rowwise swizzled");
    if constexpr (all && plain) form(linear{}, blocks_2d<n, n>{}, x, dx, "2-D rowwise linear");
    if constexpr (plain) form(swizzled_128x4{}, blocks_2d<n, n>{}, x, dx, "2-D rowwise swizzled");
  }
  if (m.rows % n == 0) {
    if constexpr (all) form(linear{}, blocks_1d{}, xt, dxt, "1-D columnwise linear");
    form(swizzled_128x4{}, blocks_1d{}, xt, dxt, "1-D columnwise swizzled");
    if constexpr (all && plain) form(linear{}, blocks_2d<n, n>{}, xt, dxt, "2-D columnwise linear");
    if constexpr (all && plain) form(swizzled_128x4{}, blocks_2d<n, n>{}, xt, dxt, "2-D columnwise swizzled");
  }
}

inline float ugly_value(u64, u64 i) { return ugly(i); }
inline float constant_zero(u64, u64) { return 0.0f; }

/// Everything about format F: a large bf16 matrix, ragged and strided ones, the ugly values.
template <class F>
void check_device_format() {
  if (!gpu_or_warn()) return;
  check_all_forms<F>(test_matrix<bf16>(4096, 4096, 4096, 0), true);
  check_all_forms<F>(test_matrix<bf16>(160, 192, 200, 0));  // rows end inside a 128-row tile
  check_all_forms<F>(test_matrix<bf16>(33, 352, 357, 3));   // odd rows and stride, misaligned start
  check_all_forms<F>(test_matrix<bf16>(96, 1, 1, 1));       // one column: only the columnwise copies exist
  check_all_forms<F>(test_matrix<bf16>(1, 32, 32, 0));
  check_all_forms<F>(test_matrix<bf16>(64, 96, 96, 0, ugly_value));
  check_all_forms<F>(test_matrix<bf16>(32, 32, 32, 0, constant_zero));
}

}  // namespace fourscale::test

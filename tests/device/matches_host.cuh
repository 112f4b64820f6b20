// SPDX-License-Identifier: Apache-2.0
// The device functions compared with the host functions on the same matrix: every byte of codes and scales,
// the padding and what lies behind the buffers included.
#pragma once

#include <cstdio>
#include <fourscale/fourscale.cuh>
#include <string>
#include <vector>

#include "support/amax.hpp"
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

/// `count` elements of device memory.
template <class T>
std::vector<T> copied(T const* from, i64 count) {
  std::vector<T> x(static_cast<size_t>(count));
  REQUIRE(cudaMemcpy(x.data(), from, x.size() * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
  return x;
}

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
      : test_matrix(r, c, leading, first, make(r, leading, first, value)) {}
  test_matrix(i64 r, i64 c, i64 leading, i64 first, std::vector<T> const& v)
      : rows(r), cols(c), ld(leading), start(first), values(v), copy(values) {}

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

/// Two buffers of bytes: `place` says what lies at the first index in which they differ.
template <class Place>
void check_same_bytes(std::vector<u8> const& got, std::vector<u8> const& want, Place place) {
  const size_t both = got.size() < want.size() ? got.size() : want.size();
  size_t at = 0;
  while (at < both && got[at] == want[at]) ++at;
  const bool same = at == got.size() && at == want.size();
  std::string where = "index " + std::to_string(at) + ": ";
  if (!same && at == both) where += std::to_string(got.size()) + " bytes, not " + std::to_string(want.size());
  if (at < both)
    where +=
        place(static_cast<i64>(at)) + ": " + std::to_string(got[at]) + ", not " + std::to_string(want[at]);
  INFO(where);
  CHECK(same);
}
inline void check_same_bytes(std::vector<u8> const& got, std::vector<u8> const& want) {
  check_same_bytes(got, want, [](i64) { return std::string("byte"); });
}

inline std::string row_and_column(i64 row, i64 col) {
  return "row " + std::to_string(row) + ", column " + std::to_string(col);
}

/// The codes of q, canary included: the first byte that differs, with the first element that it holds.
template <class F, class Layout>
void check_same_codes(block_scaled_view<F, Layout> const& q, std::vector<u8> const& got,
                      std::vector<u8> const& want) {
  check_same_bytes(got, want, [&](i64 at) {
    const i64 in_row = q.blocks() * block_code_bytes<F>;
    if (at >= q.rows * in_row) return std::string("behind the codes");
    return row_and_column(at / in_row, at % in_row * 8 / F::element::width);
  });
}

/// The scales of q in their layout: the first byte that differs, with the first element of its block.
template <class F, class Layout>
void check_same_scales(block_scaled_view<F, Layout> const& q, std::vector<u8> const& got,
                       std::vector<u8> const& want) {
  check_same_bytes(got, want, [&](i64 at) {
    for (i64 row = 0; row < q.rows; ++row)
      for (i64 block = 0; block < q.blocks(); ++block)
        if (const i64 first = q.scale_offset(row, block); first <= at && at < first + block_scale_bytes<F>)
          return row_and_column(row, block * F::block_size);
    return std::string("in the padding or behind it");
  });
}

template <class F, class Layout, class M, class Blocks, class Quantizer>
void check_quantize(M const& host, M const& device, Blocks shape, amax_reference amax, amax_reference d_amax,
                    Quantizer const& recipe) {
  const i64 codes = code_bytes<F>(host.rows, host.cols),
            scales = scale_bytes<F, Layout>(host.rows, host.cols);
  const std::vector<u8> empty_codes(static_cast<size_t>(codes + canary), poison);
  const std::vector<u8> empty_scales(static_cast<size_t>(scales + canary), poison);
  std::vector<u8> host_codes = empty_codes, host_scales = empty_scales;
  device_buffer<u8> d_codes(empty_codes), d_scales(empty_scales);
  const block_scaled_view<F, Layout> q{host_codes, host_scales, host.rows, host.cols, {amax, recipe}};
  const block_scaled_view<F, Layout> d{
      d_codes.data(), d_scales.data(), host.rows, host.cols, {d_amax, recipe}};
  REQUIRE(host::quantize(host, q, recipe, shape) == errc::ok);
  REQUIRE(device::quantize(device, d, recipe, shape) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  check_same_codes(q, d_codes.to_host(), host_codes);
  check_same_scales(q, d_scales.to_host(), host_scales);

  using value = typename M::value_type;
  const i64 stored_rows = M::is_transposed ? host.cols : host.rows,
            stored_cols = M::is_transposed ? host.rows : host.cols;
  std::vector<value> y(static_cast<size_t>(stored_rows * stored_cols));
  device_buffer<value> d_y(stored_rows * stored_cols);
  const matrix_view<value> to{y.data(), stored_rows, stored_cols}, d_to{d_y.data(), stored_rows, stored_cols};
  if constexpr (M::is_transposed) {
    REQUIRE(host::dequantize(q, transposed(to)) == errc::ok);
    REQUIRE(device::dequantize(d, transposed(d_to)) == errc::ok);
  } else {
    REQUIRE(host::dequantize(q, to) == errc::ok);
    REQUIRE(device::dequantize(d, d_to) == errc::ok);
  }
  CHECK(same_values(d_y.to_host(), y));
}

/// Which forms of a matrix to compare: all, or one of each kind, for rules that do not care about layouts.
enum class forms { all, some };
/// Whether to print what was compared.
enum class report { quiet, printed };

/// Format F from a matrix: 1-D blocks, and 2-D ones if nothing is transformed, both copies, both layouts.
template <class F, forms Which = forms::all, class T, class Quantizer = quantizer<>>
void check_all_forms(test_matrix<T> const& m, report how = report::quiet, Quantizer const& recipe = {}) {
  constexpr int n = F::block_size;
  constexpr bool all = Which == forms::all, plain = same_type<decltype(Quantizer::transform), identity>;
  device_buffer<float> d_amax(1);
  REQUIRE(device::amax(m.on_device(), d_amax.data()) == errc::ok);
  const float amax = amax_of(m.on_host());
  CHECK(bit_cast<u32>(d_amax.to_host()[0]) == bit_cast<u32>(amax));
  const auto form = [&](auto layout, auto shape, auto host, auto device, char const* what) {
    INFO(F::name << ' ' << what << ' ' << m.rows << 'x' << m.cols << " ld " << m.ld << " start " << m.start);
    check_quantize<F, decltype(layout)>(host, device, shape, amax_value(amax), amax_in(d_amax.data()),
                                        recipe);
    if (how == report::printed)
      std::printf("  host = device: %-10s %-32s %lld x %lld bf16\n", F::name, what, m.rows, m.cols);
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
  check_all_forms<F>(test_matrix<bf16>(4096, 4096, 4096, 0), report::printed);
  check_all_forms<F>(test_matrix<bf16>(160, 192, 200, 0));  // rows end inside a 128-row tile
  check_all_forms<F>(test_matrix<bf16>(33, 352, 357, 3));   // odd rows and stride, misaligned start
  check_all_forms<F>(test_matrix<bf16>(96, 1, 1, 1));       // one column: only the columnwise copies exist
  check_all_forms<F>(test_matrix<bf16>(1, 32, 32, 0));
  check_all_forms<F>(test_matrix<bf16>(64, 96, 96, 0, ugly_value));
  check_all_forms<F>(test_matrix<bf16>(32, 32, 32, 0, constant_zero));
}

}  // namespace fourscale::test

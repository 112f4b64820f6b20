// SPDX-License-Identifier: Apache-2.0
// The statistics of a quantized matrix: the device gives every bit that the host gives.
#include <cstring>
#include <fourscale/device/statistics.cuh>
#include <fourscale/host/statistics.hpp>

#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

enum class scaled_by { tensor_on_host, tensor_on_device, rows };

/// Quantizes on the host, copies, and compares.
template <class F, class Layout, class M>
void check_statistics(M const& x, M const& dx, scaled_by by) {
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(x.rows, x.cols)));
  std::vector<u8> scales(static_cast<size_t>(scale_bytes<F, Layout>(x.rows, x.cols)) + 1);  // fp8_e4m3: none
  std::vector<float> amax(static_cast<size_t>(x.rows));
  REQUIRE(host::row_amax(x, amax.data()) == errc::ok);
  block_scaled_view<F, Layout> q(codes, scales, x.rows, x.cols, amax_value(3.0f));  // scales saturate
  if (by == scaled_by::rows) q.amax = amax_of_rows(amax.data());
  REQUIRE(host::quantize(x, q) == errc::ok);
  statistics expected;
  REQUIRE(host::statistics_of(x, q, &expected) == errc::ok);

  device_buffer<u8> d_codes(codes), d_scales(scales);
  device_buffer<u8> out(sizeof(statistics) + canary), workspace(device::statistics_workspace_bytes + canary);
  device_buffer<float> d_row_amax(amax), d_amax(std::vector<float>{3.0f});
  block_scaled_view<F, Layout> d(d_codes.data(), d_scales.data(), x.rows, x.cols, amax_value(3.0f));
  if (by == scaled_by::tensor_on_device) d.amax = amax_in(d_amax.data());
  if (by == scaled_by::rows) d.amax = amax_of_rows(d_row_amax.data());
  REQUIRE(device::statistics_of(dx, d, reinterpret_cast<statistics*>(out.data()), workspace.data()) ==
          errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const std::vector<u8> bytes = out.to_host(), used = workspace.to_host();
  statistics s;
  std::memcpy(static_cast<void*>(&s), bytes.data(), sizeof s);
  CHECK(s == expected);
  CHECK(std::vector<u8>(bytes.end() - canary, bytes.end()) == std::vector<u8>(canary, poison));
  CHECK(std::vector<u8>(used.end() - canary, used.end()) == std::vector<u8>(canary, poison));
}

/// Format F from a matrix and from its transpose.
template <class F, class T>
void check_forms(test_matrix<T> const& m) {
  INFO(F::name << ' ' << m.rows << 'x' << m.cols << " ld " << m.ld << " start " << m.start);
  const auto x = m.on_host(), dx = m.on_device();
  for (const scaled_by by : {scaled_by::tensor_on_host, scaled_by::tensor_on_device, scaled_by::rows}) {
    if (!F::has_tensor_scale && by != scaled_by::tensor_on_host) continue;
    if (m.cols % F::block_size == 0) check_statistics<F, linear>(x, dx, by);
    if (m.rows % F::block_size == 0) check_statistics<F, swizzled_128x4>(transposed(x), transposed(dx), by);
  }
}

/// Many strips a lane, few, ragged ones, and the ugly values.
template <class F, class T = bf16>
void check_format() {
  if (!gpu_or_warn()) return;
  check_forms<F>(test_matrix<T>(2176, 2048, 2056, 0));
  check_forms<F>(test_matrix<T>(160, 640, 640, 0));
  check_forms<F>(test_matrix<T>(33, 1408, 1413, 3));
  check_forms<F>(test_matrix<T>(128, 1, 1, 1));
  check_forms<F>(test_matrix<T>(2, 131072, 131072, 0));
  check_forms<F>(test_matrix<T>(96, 384, 384, 0, ugly_value));
  check_forms<F>(test_matrix<T>(256, 131, 131, 1, ugly_value));
}

}  // namespace

TEST_CASE("device: statistics of 4-bit formats equal the host's", "[device][statistics]") {
  check_format<nvfp4>();
  check_format<nvfp4, float>();
  check_format<mxfp4>();
}

TEST_CASE("device: statistics of 6- and 8-bit formats equal the host's", "[device][statistics]") {
  check_format<mxfp6_e2m3>();
  check_format<mxfp8_e4m3>();
  check_format<fp8_block_e4m3>();
  check_format<fp8_e4m3>();
}

TEST_CASE("device: statistics check their arguments and then write nothing", "[device][statistics]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(16, 32, 32, 0);
  device_buffer<u8> codes(16 * 16), scales(16 * 2), workspace(device::statistics_workspace_bytes);
  device_buffer<u8> bytes(2 * sizeof(statistics));
  auto* const out = reinterpret_cast<statistics*>(bytes.data());
  const auto x = m.on_device();
  const block_scaled_view<nvfp4> q(codes.data(), scales.data(), 16, 32, unit_scale);
  CHECK(device::statistics_of(transposed(x), q, out, workspace.data()) == errc::shape_mismatch);
  CHECK(device::statistics_of(x, q, nullptr, workspace.data()) == errc::null_pointer);
  CHECK(device::statistics_of(x, q, out, nullptr) == errc::null_pointer);
  CHECK(device::statistics_of(x, q, out, workspace.data() + 4) == errc::misaligned);
  const block_scaled_view<nvfp4> forgotten(codes.data(), scales.data(), 16, 32);
  CHECK(device::statistics_of(x, forgotten, out, workspace.data()) == errc::no_amax);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(bytes.to_host() == std::vector<u8>(2 * sizeof(statistics), poison));
}

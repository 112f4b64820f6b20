// SPDX-License-Identifier: Apache-2.0
// A quantized matrix that owns device memory: what the host quantizes comes back from the device unchanged,
// and is what the device quantizes itself.
#include <fourscale/device/buffer.cuh>
#include <fourscale/device/quantize.cuh>
#include <fourscale/fourscale.hpp>
#include <fourscale/host/buffer.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"
#include "support/everywhere.hpp"

namespace {

namespace f4 = fourscale;
using f4::errc, f4::i64, f4::nvfp4;

constexpr i64 rows = 40, cols = 96;

static_assert(!std::is_copy_constructible_v<f4::device_buffer<nvfp4>>);

template <class F, class Layout>
void check_round_trip() {
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = f4::test::gaussian(i);
  f4::host_buffer<F, Layout> want(rows, cols, f4::amax_value(4.0f)), got(rows, cols);
  REQUIRE(f4::host::quantize(f4::matrix_view<float>(x, rows, cols), want.view()) == errc::ok);

  f4::device_buffer<F, Layout> q(rows, cols);
  REQUIRE(q.status() == errc::ok);
  CHECK(q.bytes() == want.bytes());
  REQUIRE(f4::device::copy(std::as_const(want).view(), q.view()) == errc::ok);
  f4::device_buffer<F, Layout> second(rows, cols);
  REQUIRE(f4::device::copy(std::as_const(q).view(), second.view()) == errc::ok);
  REQUIRE(f4::device::copy(second.view(), got.view()) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(got.codes == want.codes);
  CHECK(got.scales == want.scales);
}

}  // namespace

TEST_CASE("device_buffer: bytes go there and come back", "[device][buffer]") {
  if (!f4::test::gpu_or_warn()) return;
  check_round_trip<nvfp4, f4::linear>();
  check_round_trip<nvfp4, f4::swizzled_128x4>();
  check_round_trip<f4::mxfp8, f4::swizzled_128x4>();
  check_round_trip<f4::fp8_e4m3, f4::linear>();
}

TEST_CASE("device_buffer: device functions take its view", "[device][buffer]") {
  if (!f4::test::gpu_or_warn()) return;
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = f4::test::gaussian(i);
  float* d_x = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&d_x), x.size() * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
  f4::host_buffer<nvfp4> want(rows, cols, f4::amax_value(4.0f)), got(rows, cols);
  REQUIRE(f4::host::quantize(f4::matrix_view<float>(x, rows, cols), want.view()) == errc::ok);
  f4::device_buffer<nvfp4> q(rows, cols, f4::amax_value(4.0f));
  CHECK(f4::device::quantize(f4::matrix_view<float>(d_x, rows, cols), q.view()) == errc::ok);
  CHECK(f4::device::copy(q.view(), got.view()) == errc::ok);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(got.codes == want.codes);
  CHECK(got.scales == want.scales);
  cudaFree(d_x);
}

TEST_CASE("device_buffer: a moved one is empty, and its memory lives on", "[device][buffer]") {
  if (!f4::test::gpu_or_warn()) return;
  f4::device_buffer<nvfp4> a(rows, cols, f4::unit_scale), b(16, 16);
  f4::u8* const codes = a.view().codes;
  b = std::move(a);
  CHECK(b.view().codes == codes);
  CHECK(b.rows == rows);
  CHECK(validate(b.view()) == errc::ok);
  CHECK(a.status() == errc::empty_matrix);
  CHECK(a.bytes() == 0);
  CHECK(validate(a.view()) == errc::empty_matrix);
  const f4::device_buffer<nvfp4> c(std::move(b));
  CHECK(c.view().codes == codes);
}

// Out of memory on purpose, which memcheck would report: [large].
TEST_CASE("device_buffer: what cannot be had says why", "[device][buffer][large]") {
  CHECK(f4::device_buffer<nvfp4>(16, 24).status() == errc::partial_block);
  CHECK(f4::device_buffer<nvfp4>(0, 16).status() == errc::empty_matrix);
  CHECK(f4::device_buffer<nvfp4>(i64{1} << 31, 16).status() == errc::too_large);
  f4::device_buffer<nvfp4> small(16, 16, f4::unit_scale), other(16, 32);
  if (!f4::test::gpu_or_warn()) return;
  CHECK(f4::device::copy(small.view(), other.view()) == errc::shape_mismatch);
  CHECK(f4::device::copy(small.view(), small.view()) == errc::overlap);
  // 2^42 values: more memory than any device has.
  f4::device_buffer<f4::mxfp8> huge(i64{1} << 21, i64{1} << 21);
  CHECK(huge.status() == errc::cuda_failed);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(huge.bytes() == 0);
  CHECK(validate(huge.view()) == errc::null_pointer);
}

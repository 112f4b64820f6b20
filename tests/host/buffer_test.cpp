// SPDX-License-Identifier: Apache-2.0
// A quantized matrix that owns its memory: sizes, its view, copies, and shapes that no matrix can have.
#include <fourscale/fourscale.hpp>
#include <fourscale/host/buffer.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr i64 rows = 40, cols = 96;

std::vector<float> source() {
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = test::gaussian(i);
  return x;
}

template <class F, class Layout>
void check_sizes() {
  host_buffer<F, Layout> q(rows, cols, unit_scale);
  CHECK(q.bytes() == code_bytes<F>(rows, cols) + scale_bytes<F, Layout>(rows, cols));
  CHECK(validate(q.view()) == errc::ok);
  CHECK(validate(std::as_const(q).view()) == errc::ok);
  CHECK(q.view().code_capacity == code_bytes<F>(rows, cols));
  CHECK(q.view().scale_capacity == scale_bytes<F, Layout>(rows, cols));
}

}  // namespace

TEST_CASE("host_buffer: as large as its matrix needs", "[host][buffer]") {
  check_sizes<nvfp4, linear>();
  check_sizes<nvfp4, swizzled_128x4>();
  check_sizes<mxfp6, swizzled_128x4>();
  check_sizes<mxfp8, linear>();
  check_sizes<fp8_e4m3, linear>();  // no scales at all
}

TEST_CASE("host_buffer: its view has the amax of now", "[host][buffer]") {
  const std::vector<float> x = source();
  const matrix_view<float const> m(x, rows, cols);
  host_buffer<nvfp4> q(rows, cols);
  CHECK(host::quantize(m, q.view()) == errc::no_amax);
  float amax = 0;
  REQUIRE(host::amax(m, &amax) == errc::ok);
  q.amax = amax_in(&amax);
  REQUIRE(host::quantize(m, q.view()) == errc::ok);
  const quantizer headroom{nearest_even{}, two_level_headroom{}};
  CHECK(host::quantize(m, q.view(), headroom) == errc::other_range);
  q.amax = {amax_value(amax), headroom};
  CHECK(host::quantize(m, q.view(), headroom) == errc::ok);
  CHECK(host_buffer<nvfp4>(rows, cols, amax_value(2.0f)).view().amax == tensor_amax<nvfp4>(amax_value(2.0f)));
}

TEST_CASE("host_buffer: a copy has its own bytes, a moved one has them still", "[host][buffer]") {
  const std::vector<float> x = source();
  host_buffer<nvfp4> q(rows, cols, amax_value(4.0f));
  REQUIRE(host::quantize(matrix_view<float const>(x, rows, cols), q.view()) == errc::ok);
  host_buffer<nvfp4> copy = q;
  CHECK(copy.codes == q.codes);
  CHECK(copy.view().codes != q.view().codes);
  u8 const* const codes = q.view().codes;
  const host_buffer<nvfp4> moved = std::move(q);
  CHECK(moved.view().codes == codes);
  CHECK(moved.codes == copy.codes);
  CHECK(moved.view().amax == copy.view().amax);
}

TEST_CASE("host_buffer: a shape that no matrix can have gets no memory", "[host][buffer]") {
  const auto result = [](i64 r, i64 c) {
    host_buffer<nvfp4> q(r, c, unit_scale);
    CHECK(q.bytes() == 0);
    return validate(q.view());
  };
  CHECK(result(0, 16) == errc::empty_matrix);
  CHECK(result(16, -16) == errc::empty_matrix);
  CHECK(result(16, 24) == errc::partial_block);
  CHECK(result(i64{1} << 31, 16) == errc::too_large);
  CHECK(result(i64{1} << 30, i64{1} << 30) == errc::too_large);
  host_buffer<nvfp4> none;
  CHECK(validate(none.view()) == errc::empty_matrix);
}

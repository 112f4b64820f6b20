// SPDX-License-Identifier: Apache-2.0
// Gate and up as one quantized matrix on the device: refused under amaxes of their own, even equal ones,
// since nobody reads device memory to compare them; made under the larger one from 4 bits, every bit is the
// host's.
#include <fourscale/device/amax.cuh>
#include <fourscale/recipe/linear.hpp>

#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr i64 out = 48, in = 64;

/// Two matrices, each with an amax of its own, and both once more under the larger one: as codes, scales,
/// amaxes in memory of one machine.
struct stacked {
  u8 *codes, *scales;  ///< of gate, of up, of both together
  float* amax;         ///< of gate, of up, the larger one

  block_scaled_view<nvfp4> part(i64 first, i64 rows, float* of) const {
    return {codes + first * in / 2, scales + first * in / 16, rows, in, amax_in(of)};
  }
  block_scaled_view<nvfp4> gate() const { return part(0, out, amax); }
  block_scaled_view<nvfp4> up() const { return part(out, out, amax + 1); }
  block_scaled_view<nvfp4> new_gate() const { return part(2 * out, out, amax + 2); }
  block_scaled_view<nvfp4> new_up() const { return part(3 * out, out, amax + 2); }
  matrix_view<float const> both_amaxes() const { return {amax, 1, 2}; }
};

}  // namespace

TEST_CASE("device: rows under different amaxes are merged after requantization only",
          "[device][recipe][linear]") {
  if (!gpu_or_warn()) return;
  std::vector<bf16> x;
  for (u64 i = 0; i < 2 * out * in; ++i)
    x.push_back(from_float<bf16>(gaussian(i) * (i < out * in ? 1.0f : 3.0f)));
  std::vector<u8> codes(4 * out * in / 2, poison), scales(4 * out * in / 16, poison);
  std::vector<float> amax(3);
  const device_buffer<bf16> d_x(x);
  const device_buffer<u8> d_codes(codes), d_scales(scales);
  const device_buffer<float> d_amax(amax);
  const stacked h{codes.data(), scales.data(), amax.data()},
      d{d_codes.data(), d_scales.data(), d_amax.data()};
  for (i64 i = 0; i < 2; ++i) {
    const matrix_view<bf16 const> on_host{x.data() + i * out * in, out, in},
        on_device{d_x.data() + i * out * in, out, in};
    REQUIRE(host::amax(on_host, h.amax + i) == errc::ok);
    REQUIRE(host::quantize(on_host, i == 0 ? h.gate() : h.up()) == errc::ok);
    REQUIRE(device::amax(on_device, d.amax + i) == errc::ok);
    REQUIRE(device::quantize(on_device, i == 0 ? d.gate() : d.up()) == errc::ok);
  }
  block_scaled_view<nvfp4> all;
  CHECK(merge_rows(d.gate(), d.up(), &all) == errc::other_amax);
  CHECK(all.codes == nullptr);

  REQUIRE(host::amax(h.both_amaxes(), h.amax + 2) == errc::ok);
  REQUIRE(host::quantize(dequantized(h.gate()), h.new_gate()) == errc::ok);
  REQUIRE(host::quantize(dequantized(h.up()), h.new_up()) == errc::ok);
  REQUIRE(device::amax(d.both_amaxes(), d.amax + 2) == errc::ok);
  REQUIRE(device::quantize(dequantized(d.gate()), d.new_gate()) == errc::ok);
  REQUIRE(device::quantize(dequantized(d.up()), d.new_up()) == errc::ok);
  REQUIRE(merge_rows(d.new_gate(), d.new_up(), &all) == errc::ok);
  CHECK((all.rows == 2 * out && all.codes == d.new_gate().codes && all.amax.data == d.amax + 2));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(d_amax.to_host() == amax);
  CHECK(amax[0] != amax[1]);
  const bool same = d_codes.to_host() == codes && d_scales.to_host() == scales;
  CHECK(same);
}

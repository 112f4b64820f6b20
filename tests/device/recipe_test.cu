// SPDX-License-Identifier: Apache-2.0
// Operands of the named recipes: the device quantizes them to the bits of the host.
#include <fourscale/recipe/fake_quantize.cuh>
#include <fourscale/recipe/fake_quantize.hpp>
#include <fourscale/recipe/presets.hpp>

#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr i64 rows = 128, cols = 256;
constexpr operand_place place{{7, 3, 1000, 2}, tensor_role::gradient, 2};
constexpr operand_recipe stored{.format = format_name::nvfp4};

/// Memory of one machine for fake_quantize(); Vector is std::vector or device_buffer.
template <template <class...> class Vector>
struct scratch {
  Vector<u8> codes{make<u8>(rows * cols)}, scales{make<u8>(rows * cols / 4)};
  Vector<float> amax{std::vector<float>{3.0f}}, row_amax{make<float>(cols)},
      original{make<float>(rows * cols)}, y{make<float>(rows * cols)};
  Vector<percentile_workspace> percentile{make<percentile_workspace>(1)};

  template <class T>
  static std::vector<T> make(i64 count) {
    return std::vector<T>(static_cast<size_t>(count));
  }
  fake_quantize_buffers buffers() {
    return {codes.data(),    scales.data(),     amax.data(), row_amax.data(),
            original.data(), percentile.data(), 0.99};
  }
};
template <class T, class...>
using device_vector = device_buffer<T>;

void check_operand(operand_recipe const& o, test_matrix<bf16> const& m) {
  scratch<std::vector> h;
  scratch<device_vector> d;
  const bool t = o.copy == copy_kind::columnwise;
  const i64 r = t ? cols : rows, c = t ? rows : cols;
  REQUIRE(host::fake_quantize(o, stored, place, m.on_host(), matrix_view<float>{h.y.data(), r, c},
                              h.buffers()) == errc::ok);
  REQUIRE(device::fake_quantize(o, stored, place, m.on_device(), matrix_view<float>{d.y.data(), r, c},
                                d.buffers()) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(same_values(d.y.to_host(), h.y));
}

}  // namespace

TEST_CASE("device: every operand of every preset equals the host", "[device][recipe]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(rows, cols, cols, 0), ugly(rows, cols, cols, 0, ugly_value);
  for (precision_policy const& p : {presets::te_nvfp4(), presets::te_nvfp4_no_rht(), presets::mxfp4(),
                                    presets::mxfp8(), presets::fp8_current(), presets::fp8_delayed(),
                                    presets::fp8_block(), presets::four_over_six(), presets::quartet2()})
    for (gemm_recipe const& g : {p.linear.fprop, p.linear.dgrad, p.linear.wgrad})
      for (operand_recipe const& o : {g.a, g.b}) {
        check_operand(o, m);
        check_operand(o, ugly);
      }
}

TEST_CASE("device: every source of an amax, and stochastic scales, equal the host", "[device][recipe]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(rows, cols, cols, 0), ugly(rows, cols, cols, 0, ugly_value);
  for (amax_source a :
       {amax_source::current, amax_source::delayed, amax_source::per_row, amax_source::percentile})
    for (scale_rule s : {scale_rule::headroom, scale_rule::stochastic_scale, scale_rule::two_level_division})
      for (copy_kind c : {copy_kind::rowwise, copy_kind::columnwise}) {
        operand_recipe o{.format = format_name::nvfp4, .copy = c, .scale = s, .amax = a};
        check_operand(o, m);
        check_operand(o, ugly);
      }
  for (format_name f : {format_name::fp8_e4m3, format_name::fp8_e5m2, format_name::nvint4})
    check_operand({.format = f, .rounding = rounding_rule::stochastic, .amax = amax_source::per_row}, ugly);
}

TEST_CASE("device: percentile amax equals the host", "[device][percentile]") {
  if (!gpu_or_warn()) return;
  const test_matrix<float> m(300, 70, 71, 1), ugly(64, 64, 64, 0, ugly_value);
  std::vector<percentile_workspace> w(1);
  device_buffer<percentile_workspace> d_w(1);
  device_buffer<float> d_amax(1);
  for (test_matrix<float> const* x : {&m, &ugly})
    for (double share : {0.0, 0.5, 0.999, 1.0}) {
      float amax = -1;
      REQUIRE(host::percentile_amax(x->on_host(), share, w.data(), &amax) == errc::ok);
      REQUIRE(device::percentile_amax(x->on_device(), share, d_w.data(), d_amax.data()) == errc::ok);
      CHECK(bit_cast<u32>(d_amax.to_host()[0]) == bit_cast<u32>(amax));
    }
}

TEST_CASE("device: the history of delayed scaling rolls as on the host", "[device][delayed]") {
  if (!gpu_or_warn()) return;
  for (i64 length : {1, 2, 5, 1024, 2500})
    for (amax_of_history rule : {amax_of_history::largest, amax_of_history::most_recent}) {
      std::vector<float> history(static_cast<size_t>(length));
      for (size_t i = 0; i < history.size(); ++i) history[i] = gaussian(i) * gaussian(i);
      for (float newest :
           {1.5f, 0.0f, bit_cast<float>(float_inf_bits), bit_cast<float>(0x7fc0'0000u), 1e-3f}) {
        history[0] = newest;
        float amax = 2.0f;
        device_buffer<float> d_history(history), d_amax(std::vector<float>{amax});
        REQUIRE(host::update({history.data(), length, &amax, rule}) == errc::ok);
        REQUIRE(device::update({d_history.data(), length, d_amax.data(), rule}) == errc::ok);
        CHECK(same_values(d_history.to_host(), history));
        CHECK(d_amax.to_host()[0] == amax);
      }
    }
}

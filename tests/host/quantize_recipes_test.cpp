// SPDX-License-Identifier: Apache-2.0
// host::quantize with 16-bit sources and with every other policy, and on any number of threads.
#include <fourscale/host/quantize_grouped.hpp>
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/transform/hadamard.hpp>

#include "naive.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace fourscale;
using namespace fourscale::test;

/// A bf16 of a user, like the toolkit's.
struct own_bf16 {
  u16 bits;
};
template <>
struct fourscale::real_traits<own_bf16> {
  using same_bits = bf16;
  static float to_float(own_bf16 x) { return fourscale::to_float(bf16{x.bits}); }
  static own_bf16 from_float(float x) { return {fourscale::from_float<bf16>(x).bits}; }
};

namespace {

static_assert(host::detail::is_bf16<own_bf16>() && !host::detail::is_bf16<fp16>());

template <real T, block_format F>
void check_source() {
  INFO(F::name);
  constexpr int n = F::block_size;
  for (const values kind : {values::activations, values::ugly}) {
    const source<T> x(test_rows<F>, test_cols<F>, 7, kind), y(test_cols<F>, test_rows<F>, 1, kind);
    check_quantize<F, linear>(x.view);
    check_quantize<F, swizzled_128x4>(transposed(y.view));
    check_quantize<F, swizzled_128x4>(x.view, quantizer{}, blocks_2d<n, n>{});
    check_quantize<F, linear>(transposed(y.view), quantizer{}, blocks_2d<n, n>{});
  }
}

/// A recipe on both copies of a 1-D quantization, and on tiles where it takes no transform.
template <block_format F, class Quantizer>
void check_recipe(Quantizer const& recipe) {
  constexpr int n = F::block_size;
  const source<bf16> x(test_rows<F>, test_cols<F>, 2, values::activations);
  const source<bf16> y(test_cols<F>, test_rows<F>, 0, values::activations);
  check_quantize<F, linear>(x.view, recipe);
  check_quantize<F, swizzled_128x4>(transposed(y.view), recipe);
  if constexpr (same_type<decltype(recipe.transform), identity>) {
    check_quantize<F, swizzled_128x4>(x.view, recipe, blocks_2d<n, n>{});
    check_quantize<F, linear>(transposed(y.view), recipe, blocks_2d<n, n>{});
  }
}

}  // namespace

TEST_CASE("host::quantize: bf16 sources", "[host][quantize]") {
  check_source<bf16, nvfp4>();
  check_source<bf16, mxfp4>();
  check_source<bf16, mxfp6_e2m3>();
  check_source<bf16, mxfp6_e3m2>();
  check_source<bf16, mxfp8_e5m2>();
  check_source<bf16, fp8_block_e4m3>();
  check_source<own_bf16, nvfp4>();
}
TEST_CASE("host::quantize: fp16 sources", "[host][quantize]") {
  check_source<fp16, nvfp4>();
  check_source<fp16, mxfp8_e4m3>();
}

TEST_CASE("host::quantize: stochastic rounding", "[host][quantize]") {
  check_recipe<nvfp4>(quantizer{stochastic{philox{1, 2}}});
  check_recipe<mxfp6_e2m3>(quantizer{stochastic{philox<7>{1, 2}}});
  check_recipe<fp8_block_e5m2>(quantizer{stochastic{philox{3}}});
  check_recipe<nvfp4>(quantizer{stochastic_te_software{philox{1, 2}}, two_level_headroom{}});
}

TEST_CASE("host::quantize: other scaling rules", "[host][quantize]") {
  check_recipe<nvfp4>(quantizer{nearest_even{}, two_level_division{}});
  check_recipe<mxfp4>(quantizer{nearest_even{}, power_of_two_floor{}});
  check_recipe<fp8_block_e4m3>(quantizer{nearest_even{}, fp8_block_scale{false}});
}

TEST_CASE("host::quantize: an FP8 block scale that overflows is the largest value of the matrix's type",
          "[host][quantize]") {
  std::vector<bf16> x(128 * 128);
  x[0].bits = 1;
  const matrix_view<bf16 const> m{x, 128, 128};
  const quantizer recipe{nearest_even{}, fp8_block_scale{false}};
  const auto first_scale = [](auto const& q) { return q.view.load_scale(0, 0).bits; };
  output<fp8_block_e4m3, linear> q(128, 128), qt(128, 128);
  REQUIRE(host::quantize(m, q.view, recipe) == errc::ok);
  CHECK(first_scale(q) == 0x0020'2020);
  REQUIRE(host::quantize(transposed(m), qt.view, recipe, blocks_2d<128, 128>{}) == errc::ok);
  CHECK(first_scale(qt) == 0x0020'2020);
  i64 const ends[2] = {0, 128};
  REQUIRE(host::quantize_grouped(m, qt.view, row_groups{ends, 1}, recipe) == errc::ok);
  CHECK(first_scale(qt) == 0x0020'2020);
  std::vector<float> floats(128 * 128);
  floats[0] = to_float(x[0]);
  REQUIRE(host::quantize(matrix_view<float const>{floats, 128, 128}, q.view, recipe) == errc::ok);
  CHECK(first_scale(q) == 0x0020'0000);
  const quantizer named{nearest_even{}, recipe.scale.for_input<bf16>()};
  REQUIRE(host::quantize(matrix_view<float const>{floats, 128, 128}, q.view, named) == errc::ok);
  CHECK(first_scale(q) == 0x0020'2020);
}

TEST_CASE("host::quantize: four over six, by rows and by tiles", "[host][quantize]") {
  check_recipe<nvfp4>(quantizer{nearest_even{}, four_over_six<>{}});
  check_recipe<nvfp4>(quantizer{stochastic{philox{1}}, four_over_six<error_norm::mean_square, 448>{}});
}

TEST_CASE("host::quantize: with a transform", "[host][quantize]") {
  check_recipe<nvfp4>(quantizer{nearest_even{}, amax_scale{}, hadamard<16>{te_signs}});
  check_recipe<mxfp8>(quantizer{stochastic{philox{8}}, amax_scale{}, hadamard<32, float>{no_signs}});
}

TEST_CASE("host::quantize: an amax for each row", "[host][quantize]") {
  const source<float> x(test_rows<nvfp4>, test_cols<nvfp4>, 0, values::activations);
  const source<float> y(test_cols<nvfp4>, test_rows<nvfp4>, 0, values::activations);
  std::vector<float> amaxes(size(test_rows<nvfp4>));
  for (std::size_t i = 0; i < amaxes.size(); ++i) amaxes[i] = 0.5f + static_cast<float>(i);
  check_quantize<nvfp4, linear>(x.view, quantizer{}, blocks_1d{}, amax_of_rows(amaxes.data()));
  check_quantize<nvfp4, linear>(transposed(y.view), quantizer{}, blocks_1d{}, amax_of_rows(amaxes.data()));
  const quantizer weighing{nearest_even{}, four_over_six<>{}};
  check_quantize<nvfp4, swizzled_128x4>(x.view, weighing, blocks_1d{}, amax_of_rows(amaxes.data()));
}

#ifdef _OPENMP
TEST_CASE("host::quantize: the number of threads changes no byte", "[host][quantize]") {
  const source<float> x(257, 512, 0, values::activations), y(512, 257, 0, values::activations);
  const int threads = omp_get_max_threads();
  const quantizer recipe{stochastic{philox{4, 5}}};
  output<nvfp4, swizzled_128x4> rowwise[2] = {{257, 512}, {257, 512}}, tiles[2] = {{257, 512}, {257, 512}};
  for (int k = 0; k < 2; ++k) {
    rowwise[k].view.amax = tiles[k].view.amax = unit_scale;
    omp_set_num_threads(k ? 4 : 1);
    CHECK(host::quantize(x.view, rowwise[k].view, recipe) == errc::ok);
    CHECK(host::quantize(transposed(y.view), tiles[k].view, quantizer{}, blocks_2d<16, 16>{}) == errc::ok);
  }
  omp_set_num_threads(threads);
  for (auto const& of : {rowwise, tiles}) {
    CHECK(first_difference(of[0].codes, of[1].codes) == -1);
    CHECK(first_difference(of[0].scales, of[1].scales) == -1);
  }
}
#endif

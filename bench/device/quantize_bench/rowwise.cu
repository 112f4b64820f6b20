// SPDX-License-Identifier: Apache-2.0
#include "quantize_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  const auto plain = [](auto& state, setup const& s) { rowwise<nvfp4, linear>(state, s, nearest); };
  add_shapes_of_llms("nvfp4_rowwise_nearest", plain);
  add_shapes("nvfp4_rowwise_nearest_swizzled",
             [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, nearest); });
  add_shapes_of_llms("nvfp4_rowwise_stochastic",
                     [](auto& state, setup const& s) { rowwise<nvfp4, linear>(state, s, by_chance); });
  add_shapes("nvfp4_rowwise_stochastic_swizzled",
             [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, by_chance); });
  add_shapes("nvfp4_rowwise_four_over_six",
             [](auto& state, setup const& s) { rowwise<nvfp4, linear>(state, s, four_over_six); });
  add_shapes("nvfp4_rowwise_four_over_six_swizzled",
             [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, four_over_six); });
  add_shape("nvfp4_rowwise_nearest_graph", setup{.size = {4096, 4096}, .graph = true}, plain);
  add_shape("nvfp4_rowwise_nearest_gaps", setup{.size = {16384, 14336}, .gap = 64}, plain);
  add_shape("nvfp4_rowwise_nearest_beyond_2^31", setup{.size = {65536, 40960}}, plain);
  add_shapes("mxfp4_rowwise", [](auto& state, setup const& s) { rowwise<f4::mxfp4, linear>(state, s); });
  add_shapes("mxfp8_rowwise", [](auto& state, setup const& s) { rowwise<f4::mxfp8, linear>(state, s); });
  add_shapes("fp8_tensor", [](auto& state, setup const& s) { rowwise<f4::fp8_e4m3, linear>(state, s); });
  return true;
}();

}  // namespace

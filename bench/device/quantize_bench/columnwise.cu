// SPDX-License-Identifier: Apache-2.0
#include "quantize_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_shapes("nvfp4_columnwise_nearest",
             [](auto& state, setup const& s) { columnwise<nvfp4, linear>(state, s, nearest); });
  add_shapes_of_llms("nvfp4_columnwise_rht_nearest",
                     [](auto& state, setup const& s) { columnwise<nvfp4, linear>(state, s, rht_nearest); });
  add_shapes("nvfp4_columnwise_rht_nearest_swizzled",
             [](auto& state, setup const& s) { columnwise<nvfp4, swizzled_128x4>(state, s, rht_nearest); });
  add_shapes("nvfp4_columnwise_rht_stochastic",
             [](auto& state, setup const& s) { columnwise<nvfp4, linear>(state, s, rht_by_chance); });
  add_shapes("nvfp4_columnwise_rht_stochastic_swizzled",
             [](auto& state, setup const& s) { columnwise<nvfp4, swizzled_128x4>(state, s, rht_by_chance); });
  return true;
}();

}  // namespace

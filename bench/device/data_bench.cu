// SPDX-License-Identifier: Apache-2.0
// Speed is for all data: kernels of each kind over values that fill the range, leave most of it empty, or are
// mostly zero. Swizzled scales. Here the rowwise kernels; the others in data_bench/.
#include "data_bench/data_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_for_all_data("rowwise_nearest",
                   [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, nearest); });
  add_for_all_data("rowwise_stochastic",
                   [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, by_chance); });
  add_for_all_data("rowwise_four_over_six", [](auto& state, setup const& s) {
    rowwise<nvfp4, swizzled_128x4>(state, s, four_over_six);
  });
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
#include "quantize_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_shapes("nvfp4_both_stochastic",
             [](auto& state, setup const& s) { both<nvfp4, linear>(state, s, by_chance, by_other_chance); });
  add_shapes("nvfp4_both_stochastic_column_rht_swizzled", [](auto& state, setup const& s) {
    both<nvfp4, swizzled_128x4>(state, s, by_chance, rht_by_chance);
  });
  return true;
}();

}  // namespace

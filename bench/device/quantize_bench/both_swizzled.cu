// SPDX-License-Identifier: Apache-2.0
#include "quantize_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_shapes("nvfp4_both_nearest_swizzled",
             [](auto& state, setup const& s) { both<nvfp4, swizzled_128x4>(state, s, nearest, nearest); });
  add_shapes("nvfp4_both_row_plain_column_rht_swizzled", [](auto& state, setup const& s) {
    both<nvfp4, swizzled_128x4>(state, s, nearest, rht_nearest);
  });
  add_shapes("nvfp4_both_16x16_swizzled", [](auto& state, setup const& s) {
    both<nvfp4, swizzled_128x4>(state, s, nearest, nearest, squares);
  });
  return true;
}();

}  // namespace

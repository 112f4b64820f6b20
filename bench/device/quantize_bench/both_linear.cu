// SPDX-License-Identifier: Apache-2.0
#include "quantize_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_shapes_of_llms("nvfp4_both_nearest",
                     [](auto& state, setup const& s) { both<nvfp4, linear>(state, s, nearest, nearest); });
  add_shapes_of_llms("nvfp4_both_row_plain_column_rht", [](auto& state, setup const& s) {
    both<nvfp4, linear>(state, s, nearest, rht_nearest);
  });
  add_shapes_of_llms("nvfp4_both_16x16", [](auto& state, setup const& s) {
    both<nvfp4, linear>(state, s, nearest, nearest, squares);
  });
  return true;
}();

}  // namespace

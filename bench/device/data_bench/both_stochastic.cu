// SPDX-License-Identifier: Apache-2.0
#include "data_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  // What a training recipe makes of a gradient.
  add_for_all_data("both_stochastic_column_rht", [](auto& state, setup const& s) {
    both<nvfp4, swizzled_128x4>(state, s, by_chance, rht_by_chance);
  });
  return true;
}();

}  // namespace

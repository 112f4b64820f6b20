// SPDX-License-Identifier: Apache-2.0
#include "data_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_for_all_data("columnwise_rht_stochastic", [](auto& state, setup const& s) {
    columnwise<nvfp4, swizzled_128x4>(state, s, rht_by_chance);
  });
  return true;
}();

}  // namespace

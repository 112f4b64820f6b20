// SPDX-License-Identifier: Apache-2.0
#include "data_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_for_all_data("both_nearest", [](auto& state, setup const& s) {
    both<nvfp4, swizzled_128x4>(state, s, nearest, nearest);
  });
  add_for_all_data("both_16x16", [](auto& state, setup const& s) {
    both<nvfp4, swizzled_128x4>(state, s, nearest, nearest, squares);
  });
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Matrices of one wave of CTAs or two, in a CUDA graph.
#include "types_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  for (const shape size : {shape{2048, 4096}, shape{4096, 4096}}) {
    const setup one{.size = size, .graph = true};
    add_type<swizzled_128x4>("graph_both", one, [](auto layout, auto& state, setup const& s) {
      both<nvfp4, decltype(layout)>(state, s, nearest, nearest);
    });
    add_type<swizzled_128x4>("graph_both_stochastic_column_rht", one,
                             [](auto layout, auto& state, setup const& s) {
                               both<nvfp4, decltype(layout)>(state, s, by_chance, rht_by_chance);
                             });
    add_type<swizzled_128x4>("graph_both_16x16", one, [](auto layout, auto& state, setup const& s) {
      both<nvfp4, decltype(layout)>(state, s, nearest, nearest, squares);
    });
  }
  return true;
}();

}  // namespace

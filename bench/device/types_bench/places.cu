// SPDX-License-Identifier: Apache-2.0
// Sources one element off alignment, and rows an odd number of elements apart.
#include "types_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  constexpr setup off{.size = {16384, 8192}, .offset = 1}, odd{.size = {16384, 8192}, .gap = 1};
  for (auto const& [place, where] : {std::pair<char const*, setup>{"off_by_one", off}, {"odd_stride", odd}}) {
    const std::string name = place;
    add_type_in_layouts(name + "_rowwise", where, [](auto layout, auto& state, setup const& s) {
      rowwise<nvfp4, decltype(layout)>(state, s, nearest);
    });
    add_type_in_layouts(name + "_columnwise_rht", where, [](auto layout, auto& state, setup const& s) {
      columnwise<nvfp4, decltype(layout)>(state, s, rht_nearest);
    });
    add_type_in_layouts(name + "_both_16x16", where, [](auto layout, auto& state, setup const& s) {
      both<nvfp4, decltype(layout)>(state, s, nearest, nearest, squares);
    });
  }
  return true;
}();

}  // namespace

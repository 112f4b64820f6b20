// SPDX-License-Identifier: Apache-2.0
// MXFP8; FP8 in blocks of 1x128 and 128x128; NVFP4 under an amax for each row.
#include "types_bench.cuh"

using namespace bench;

namespace {

using f4::fp8_block_e4m3, f4::mxfp8;

const bool registered = [] {
  add_type_in_layouts("mxfp8_rowwise", usual_setup, [](auto layout, auto& state, setup const& s) {
    rowwise<mxfp8, decltype(layout)>(state, s);
  });
  add_type_in_layouts("mxfp8_columnwise", usual_setup, [](auto layout, auto& state, setup const& s) {
    columnwise<mxfp8, decltype(layout)>(state, s);
  });
  add_type_in_layouts("mxfp8_both", usual_setup, [](auto layout, auto& state, setup const& s) {
    both<mxfp8, decltype(layout)>(state, s);
  });
  add_type<linear>("fp8_1x128_rowwise", usual_setup, [](auto layout, auto& state, setup const& s) {
    rowwise<fp8_block_e4m3, decltype(layout)>(state, s);
  });
  add_type<linear>("fp8_1x128_columnwise", usual_setup, [](auto layout, auto& state, setup const& s) {
    columnwise<fp8_block_e4m3, decltype(layout)>(state, s);
  });
  add_type<linear>("fp8_1x128_both", usual_setup, [](auto layout, auto& state, setup const& s) {
    both<fp8_block_e4m3, decltype(layout)>(state, s);
  });
  add_type<linear>("fp8_128x128", usual_setup, [](auto layout, auto& state, setup const& s) {
    rowwise<fp8_block_e4m3, decltype(layout)>(state, s, nearest, f4::blocks_2d<128, 128>{});
  });
  add_type<linear>("fp8_128x128_both", usual_setup, [](auto layout, auto& state, setup const& s) {
    both<fp8_block_e4m3, decltype(layout)>(state, s, nearest, nearest, f4::blocks_2d<128, 128>{});
  });
  constexpr setup by_rows{.size = {16384, 8192}, .row_amax = true};
  add_type_in_layouts("row_amax_rowwise", by_rows, [](auto layout, auto& state, setup const& s) {
    rowwise<nvfp4, decltype(layout)>(state, s, nearest);
  });
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Scale layouts against the figure of the PTX manual restated as nested tiles: one to one, inside their size.
#include <fourscale/view/block_scaled_view.hpp>
#include <vector>

#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

/// Where 128 x 4 tiles put a scale, written as nested arrays:
/// [rows / 128][blocks / 4][row % 32][row % 128 / 32][block % 4].
i64 restated(i64 row, i64 block, i64 blocks) {
  const i64 index[5] = {row / 128, block / 4, row % 32, row % 128 / 32, block % 4};
  const i64 extent[5] = {0, (blocks + 3) / 4, 32, 4, 4};
  i64 offset = 0;
  for (int k = 0; k < 5; ++k) offset = offset * (k ? extent[k] : 1) + index[k];
  return offset;
}

template <scale_layout Layout>
void check_layout(i64 rows, i64 blocks, i64 (*expected)(i64, i64, i64), i64 expected_size) {
  CAPTURE(rows, blocks);
  const i64 size = Layout::padded_rows(rows) * Layout::padded_blocks(blocks);
  CHECK(size == expected_size);
  CHECK(scale_bytes<nvfp4, Layout>(rows, blocks * 16) == size);
  CHECK(scale_bytes<mxfp8, Layout>(rows, blocks * 32) == size);
  CHECK(scale_bytes<fp8_block_e4m3, Layout>(rows, blocks * 128) == 4 * size);
  std::vector<int> visits(static_cast<std::size_t>(size));
  i64 wrong = 0;
  for (i64 row = 0; row < rows; ++row)
    for (i64 block = 0; block < blocks; ++block) {
      const i64 offset = Layout::offset(row, block, blocks);
      wrong += offset != expected(row, block, blocks);
      REQUIRE(offset >= 0);
      REQUIRE(offset < size);
      wrong += ++visits[static_cast<std::size_t>(offset)] != 1;
    }
  CHECK(wrong == 0);
}

i64 row_major(i64 row, i64 block, i64 blocks) { return row * blocks + block; }

constexpr i64 shapes[][2] = {{1, 1},   {1, 4},   {31, 3},  {32, 5}, {33, 4},
                             {127, 7}, {128, 4}, {129, 8}, {300, 9}};

// The corners of the first tile, and its neighbours along both axes.
static_assert(swizzled_128x4::offset(0, 3, 8) == 3 && swizzled_128x4::offset(1, 0, 8) == 16);
static_assert(swizzled_128x4::offset(32, 0, 8) == 4 && swizzled_128x4::offset(127, 3, 8) == 511);
static_assert(swizzled_128x4::offset(0, 4, 8) == 512 && swizzled_128x4::offset(128, 0, 8) == 1024);
static_assert(swizzled_128x4::offset(128, 0, 9) == 1536, "a partial tile is as long as a full one");
static_assert(scale_bytes<nvfp4, swizzled_128x4>(1, 16) == 512 && scale_bytes<nvfp4>(3, 48) == 9);

// Sizes at the limit of what validate() lets through do not overflow.
static_assert(code_bytes<mxfp8>((i64{1} << 31) - 1, i64{1} << 17) == ((i64{1} << 31) - 1) << 17);
static_assert(code_bytes<mxfp6>(2, 64) == 96 && code_bytes<nvfp4>(3, 32) == 48);

}  // namespace

TEST_CASE("swizzled_128x4: the nested tiles of the tensor cores, one to one", "[view][scale_layout]") {
  for (auto const& [rows, blocks] : shapes)
    check_layout<swizzled_128x4>(rows, blocks, restated, (rows + 127) / 128 * 128 * ((blocks + 3) / 4 * 4));
}

TEST_CASE("linear: row-major without padding", "[view][scale_layout]") {
  for (auto const& [rows, blocks] : shapes) check_layout<linear>(rows, blocks, row_major, rows * blocks);
}

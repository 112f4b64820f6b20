// SPDX-License-Identifier: Apache-2.0
// What a GEMM asks of its operands. First, blocks must run along the dimension that is summed over. So a
// tensor of a linear layer is quantized twice, as it is and transposed: quantize_both(). Second, the scales
// must lie where the tensor cores look for them: in the layout swizzled_128x4.
#include "support/tools.hpp"

using namespace example;
using nvfp4_operand = quantized<f4::nvfp4, f4::swizzled_128x4>;

/// The number of elements for which q and its transpose qt hold the same value.
int agreeing(nvfp4_operand const& q, nvfp4_operand const& qt) {
  const matrix a = values_of(q.view()), b = values_of(qt.view());
  int same = 0;
  for (int r = 0; r < a.rows; ++r)
    for (int c = 0; c < a.cols; ++c) same += a(r, c) == b(c, r);
  return same;
}

int main() {
  constexpr int rows = 160, cols = 192;
  const matrix w = normal(rows, cols, 0.05f, 1);
  float amax = 0;
  check(f4::host::amax(w.view(), &amax));

  // For activations and gradients: blocks of 1 x 16. In the first copy they run along the rows of w, in the
  // second along its columns. So the two copies may round an element differently.
  nvfp4_operand q(rows, cols, f4::amax_value(amax)), qt(cols, rows, f4::amax_value(amax));
  check(f4::host::quantize_both(w.view(), q.view(), qt.view()));
  const int with_1d = agreeing(q, qt);

  // For weights: tiles of 16 x 16 values with one scale, so that forward and backward pass see the same
  // numbers.
  nvfp4_operand tiles(rows, cols, f4::amax_value(amax)), tiles_t(cols, rows, f4::amax_value(amax));
  check(f4::host::quantize_both(w.view(), tiles.view(), tiles_t.view(), f4::quantizer{}, f4::quantizer{},
                                f4::blocks_2d<16, 16>{}));
  const int with_2d = agreeing(tiles, tiles_t);

  std::printf("Values that the matrix and its transpose agree on:\n");
  std::printf("  blocks of 1 x 16    %6.2f %%\n", 100.0 * with_1d / (rows * cols));
  std::printf("  tiles of 16 x 16    %6.2f %%\n\n", 100.0 * with_2d / (rows * cols));

  // The layout of the scales is part of the type of a view. The codes are the same in every layout.
  quantized<f4::nvfp4, f4::linear> plain(rows, cols, f4::amax_value(amax));
  check(f4::host::quantize(w.view(), plain.view()));
  bool same_scales = plain.codes == q.codes;
  for (int r = 0; r < rows; ++r)
    for (int b = 0; b < cols / 16; ++b)
      same_scales &= plain.view().load_scale(r, b) == q.view().load_scale(r, b);

  std::printf("%d x %d scales: %zu bytes in rows, %zu in tiles of 128 x 4 (padded with zeros)\n", rows,
              cols / 16, plain.scales.size(), q.scales.size());
  std::printf("%14s  %7s  %7s\n", "row, block", "linear", "128x4");
  for (const int row : {0, 1, 32, 33, 128})
    std::printf("%10d, %2d  %7d  %7d\n", row, 5, static_cast<int>(plain.view().scale_offset(row, 5)),
                static_cast<int>(q.view().scale_offset(row, 5)));
  // A swizzled tile of 128 rows x 4 scales has 512 bytes: 16 for each row % 32, and of these 4 for each row /
  // 32. So row 33, block 5 lies in the second tile, at row % 32 = 1, row / 32 = 1, block % 4 = 1.
  same_scales &= q.view().scale_offset(33, 5) == 512 + 16 + 4 + 1;
  return with_2d == rows * cols && with_1d < with_2d && same_scales ? 0 : 1;
}

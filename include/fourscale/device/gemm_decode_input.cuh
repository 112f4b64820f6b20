// SPDX-License-Identifier: Apache-2.0
// row_reader: how a warp brings its row of a packed operand to shared memory, a part at a time, while it
// decodes the parts before. Copies go by cp.async; where alignment forbids that, by ordinary loads.
#pragma once

#include "../mma/decoded_operand.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/mbarrier.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

inline constexpr int decode_warps = mma::bounds_rows;  ///< a warp for each of the rows
inline constexpr int lane_values = 32;  ///< codes of a lane in a part of the row, in groups of 16
inline constexpr int lane_groups = lane_values / mma::group_values;
inline constexpr int lanes_a_step = mma::decoded_step / lane_values;
inline constexpr int decode_steps = 32 / lanes_a_step;  ///< that a warp takes in a part of the row
static_assert(lane_groups == 2 && lanes_a_step == 2);

/// A part of a warp's row in shared memory: for each lane 32 codes, and a word with the scales of its two
/// groups of 16. Zeros beyond the matrix.
struct decode_input {
  uint4 codes[32];
  u32 scales[32];
};

/// The scales of a lane's groups.
struct lane_scales {
  model::scale_parts of[lane_groups];

  /// Their exponents. That of NaN is the least, below that of 0.
  FOURSCALE_D int exponent(int i) const { return of[i].nan ? int{mma::nan_exponent} : of[i].exponent; }
};

/// Reads what one lane has of a row, a part at a time: 32 codes from column `first` on, and in each further
/// part the 32 codes that are 32 * lane_values columns further.
template <class F, class Layout>
struct row_reader {
  static constexpr int together = 32 * lane_values, blocks_together = together / F::block_size;
  static constexpr int blocks_in_word = 4;
  /// Four blocks have their scales in a word, and parts are a constant distance apart: addresses are added.
  static constexpr bool has_strides = same_type<Layout, linear> || same_type<Layout, swizzled_128x4>;
  static constexpr i64 stride = Layout::offset(0, blocks_together, 0) - Layout::offset(0, 0, 0);
  static_assert(!has_strides || (blocks_together % blocks_in_word == 0 && Layout::offset(0, 1, 0) == 1));

  static_assert(F::block_size % mma::group_values == 0, "Rows have whole groups.");

  /// Whether codes can be read a group at a time, eight bytes.
  FOURSCALE_HD static bool has_groups_of_codes(block_scaled_view<F, Layout, u8 const> const& q) {
    return reinterpret_cast<u64>(q.codes) % 8 == 0;
  }
  /// Whether they can be read two groups at a time, 16 bytes.
  FOURSCALE_HD static bool has_wide_codes(block_scaled_view<F, Layout, u8 const> const& q) {
    return reinterpret_cast<u64>(q.codes) % 16 == 0 && q.cols % lane_values == 0;
  }
  /// Whether scales can be read four at a time.
  FOURSCALE_HD static bool has_words_of_scales(block_scaled_view<F, Layout, u8 const> const& q) {
    return has_strides && reinterpret_cast<u64>(q.scales) % blocks_in_word == 0 &&
           (!same_type<Layout, linear> || q.cols % (blocks_in_word * F::block_size) == 0);
  }

  block_scaled_view<F, Layout, u8 const> const& q;
  u8 const *codes, *scales;
  i64 row;
  int col, left;  ///< the lane's first column in the next part; how many values the row has from there on
  u32 first_bit;  ///< position of the lane's first scale in its word
  bool groups;    ///< has_groups_of_codes()
  bool words;     ///< has_words_of_scales()
  bool whole;     ///< `words` and has_wide_codes(): one copy of codes and one of scales are all

  FOURSCALE_D row_reader(block_scaled_view<F, Layout, u8 const> const& from, i64 of_row, int first)
      : q(from),
        codes(q.codes + of_row * (q.cols / 2) + first / 2),
        scales(q.scales + q.scale_offset(of_row, first / F::block_size)),
        row(of_row),
        col(first),
        left(of_row < q.rows ? static_cast<int>(q.cols) - col : 0),
        first_bit(static_cast<u32>(first) / F::block_size % blocks_in_word * 8),
        groups(has_groups_of_codes(q)),
        words(has_words_of_scales(q)),
        whole(words && has_wide_codes(q)) {
    if (words)
      scales -= first_bit / 8;
    else
      first_bit = 0;
    ptx::keep(first_bit);  // else it is found again for each part
  }

  /// Starts to copy the lane's next part to its place in `to`, as one cp.async group. All lanes call it.
  FOURSCALE_D void start(decode_input& to) {
    uint4& of_codes = to.codes[threadIdx.x % 32];
    u32& of_scales = to.scales[threadIdx.x % 32];
    if (whole) [[likely]] {
      ptx::cp_async_cg_16(ptx::shared_address(&of_codes), codes, left > 0 ? 16 : 0);
      ptx::cp_async_ca_4(ptx::shared_address(&of_scales), scales, left > 0 ? 4 : 0);
    } else {
      start_parts(of_codes, of_scales);
    }
    ptx::cp_async_commit_group();
    codes += together / 2, scales += stride, col += together, left -= together;
  }
  /// The scales of the lane's groups, from the lane's word in decode_input.
  FOURSCALE_D lane_scales scales_of(u32 word) const {
    using scale = typename F::scale;
    word >>= first_bit;
    if constexpr (F::block_size == lane_values) {
      const model::scale_parts both(scale{static_cast<u8>(word)});
      return {{both, both}};
    } else {
      word &= 0x7f7fu;  // the MMA ignores their signs
      float x[lane_groups];
      decode(packed<scale, lane_groups>{static_cast<u16>(word)}, x);
      return {{model::scale_parts(scale{static_cast<u8>(word)}, x[0]),
               model::scale_parts(scale{static_cast<u8>(word >> 8)}, x[1])}};
    }
  }

 private:
  /// start() where two copies are not all.
  FOURSCALE_D void start_parts(uint4& of_codes, u32& of_scales) const {
    u8 const *code = codes, *scale = scales;
    ptx::keep(code), ptx::keep(scale);  // else the compiler has two of each, one for each branch
    if (groups) {
      const u32 to = ptx::shared_address(&of_codes);
      ptx::cp_async_ca_8(to, code, left > 0 ? 8 : 0);
      ptx::cp_async_ca_8(to + 8, code + 8, left > mma::group_values ? 8 : 0);
    } else {
      of_codes = read_codes(code);
    }
    if (words && left != mma::group_values)  // with 16 left, the word's second scale is of no values
      ptx::cp_async_ca_4(ptx::shared_address(&of_scales), scale, left > 0 ? 4 : 0);
    else
      of_scales = read_scales(scale + first_bit / 8) << first_bit;
  }
  FOURSCALE_D uint4 read_codes(u8 const* from) const {
    u32 x[4] = {};
#pragma unroll 1
    for (int i = 0; i < lane_values / 2 && 2 * i < left; ++i) {
      const u32 byte = u32{from[i]} << (8 * (i % 4));
      FOURSCALE_UNROLL
      for (int k = 0; k < 4; ++k) x[k] |= k == i / 4 ? byte : 0u;
    }
    return {x[0], x[1], x[2], x[3]};
  }
  FOURSCALE_D u32 read_scales(u8 const* from) const {
    if (left <= 0) return 0;
    const bool has_second = left > mma::group_values && F::block_size == mma::group_values;
    const auto read = [&](int i) {
      if constexpr (has_strides) return u32{from[i]};
      return u32{q.load_scale(row, col / F::block_size + i).bits};
    };
    return read(0) | (has_second ? read(1) << 8 : 0u);
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

// SPDX-License-Identifier: Apache-2.0
// What store() writes load() reads, in every format and layout, and no two blocks share a byte.
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/view/dequantized_view.hpp>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

using bytes = std::vector<u8>;
std::size_t size(i64 n) { return static_cast<std::size_t>(n); }

template <block_format F>
packed_block<F> nth_block(u64 n) {
  packed_block<F> b{{}, {}};
  if (block_scale_bytes < F >> 0) b.scale.bits = static_cast<decltype(F::scale::bits)>(test::mix(n));
  for (u64 i = 0; i < block_code_bytes<F>; ++i) b.codes[i] = static_cast<u8>(test::mix(n * 1000 + i));
  return b;
}

template <block_format F, scale_layout Layout>
void check_view() {
  INFO(F::name);
  constexpr i64 rows = 35, blocks = 5, cols = blocks * F::block_size;
  bytes codes(size(code_bytes<F>(rows, cols))), scales(size(scale_bytes<F, Layout>(rows, cols)), u8{0xa5});
  block_scaled_view<F, Layout> q{codes, scales, rows, cols};
  for (i64 i = 0; i < rows * blocks; ++i) q.store(i / blocks, i % blocks, nth_block<F>(static_cast<u64>(i)));
  const block_scaled_view<F, Layout, u8 const> in = q;
  i64 wrong = 0;
  for (i64 i = 0; i < rows * blocks; ++i) {
    const packed_block<F> b = in.load(i / blocks, i % blocks);
    wrong += !(b == nth_block<F>(static_cast<u64>(i)));
    // Codes are row-major bytes whatever the layout of the scales.
    for (i64 k = 0; k < block_code_bytes<F>; ++k)
      wrong += codes[size(i * block_code_bytes<F> + k)] != b.codes[k];
    // A scale is little-endian.
    for (std::size_t k = 0; k < size(block_scale_bytes<F>); ++k)
      wrong += scales[size(in.scale_offset(i / blocks, i % blocks)) + k] !=
               static_cast<u8>(b.scale.bits >> (8 * k));
  }
  CHECK(wrong == 0);
  const std::size_t used = size(rows * blocks * block_scale_bytes<F>);
  CHECK(in.code_capacity == static_cast<i64>(codes.size()));
  CHECK(in.scale_capacity == static_cast<i64>(scales.size()));
  CHECK(used <= scales.size());
}

template <block_format F>
void check_format() {
  check_view<F, linear>();
  check_view<F, swizzled_128x4>();
}

}  // namespace

TEST_CASE("block_scaled_view: load gives what store took", "[view][block_scaled_view]") {
  check_format<nvfp4>();
  check_format<nvint4>();
  check_format<mxfp4>();
  check_format<mxfp6_e2m3>();
  check_format<mxfp6_e3m2>();
  check_format<mxfp8_e4m3>();
  check_format<mxfp8_e5m2>();
  check_format<fp8_block_e4m3>();
  check_format<fp8_block_e5m2>();
  check_format<fp8_e4m3>();
}

TEST_CASE("block_scaled_view: an amax is the tensor's or a row's, brought to the same range",
          "[view][block_scaled_view]") {
  const float amaxes[2] = {3.0f, 7.0f};
  block_scaled_view<nvfp4> q;
  q.amax = {amax_value(5.0f), four_over_six<>{}};
  CHECK(q.amax.scale_of_row(1).amax == 5.0f);
  q.amax = {amax_of_rows(amaxes), four_over_six<>{}};
  CHECK(q.amax.scale_of_row(1).amax == 7.0f);
  CHECK(q.amax.scale_of_row(0).amax == 3.0f);
  CHECK(q.amax.scale_of_row(0).encode == 512.0f);
  CHECK(q.amax.scale_of_row(0).largest == 1536.0f);
  const block_scaled_view<nvfp4, linear, u8 const> in = q;
  CHECK(in.amax == q.amax);
  CHECK(in.amax.data == amaxes);
}

TEST_CASE("block_scaled_view: an amax of a group is brought to the range of all",
          "[view][block_scaled_view]") {
  const float amaxes[3] = {3.0f, 7.0f, 5.0f};
  const tensor_amax<nvfp4> of_groups{amax_of_groups(amaxes), four_over_six<>{}};
  const tensor_amax<nvfp4> of_all{amax_in(amaxes + 2), four_over_six<>{}};
  for (i64 group = 0; group < 3; ++group) {
    CHECK(of_groups.scale_of_group(group).amax == amaxes[group]);
    CHECK(of_groups.scale_of_group(group).largest == 1536.0f);
    CHECK(of_all.scale_of_group(group).amax == 5.0f);
  }
}

/// A byte that counts how often it is read.
struct watched_byte {
  u8 value = 0;
  mutable int reads = 0;
  operator u32() const { return ++reads, value; }
};

/// load_code() reads the bytes that an element has bits in, and no other: not the one behind the last.
template <block_format F>
void check_reads() {
  INFO(F::name);
  constexpr int width = F::element::width;
  std::vector<watched_byte> codes(size(code_bytes<F>(2, F::block_size)) + 1);
  const block_scaled_view<F, linear, watched_byte> q{codes.data(), nullptr, 2, F::block_size};
  for (i64 i = 0; i < 2 * F::block_size; ++i) {
    for (watched_byte& b : codes) b.reads = 0;
    static_cast<void>(q.load_code(i / F::block_size, i % F::block_size));
    i64 wrong = 0;
    for (i64 b = 0; b < static_cast<i64>(codes.size()); ++b)
      wrong += codes[size(b)].reads != (i * width < 8 * b + 8 && 8 * b < i * width + width);
    CHECK(wrong == 0);
  }
}

TEST_CASE("block_scaled_view: a code is read from its own bytes alone", "[view][block_scaled_view]") {
  check_reads<nvfp4>();
  check_reads<mxfp6_e2m3>();
  check_reads<mxfp6_e3m2>();
  check_reads<mxfp8_e4m3>();
}

TEST_CASE("matrix_view: elements, transposes and sizes of containers", "[view][matrix_view]") {
  std::vector<float> x(23);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const matrix_view<float const> m{x, 3, 5, 9};
  CHECK(m.at(2, 4) == 22.0f);
  CHECK(m.extent() == 23);
  CHECK(m.capacity == 23);
  CHECK(transposed(m).at(4, 2) == 22.0f);
  CHECK(transposed(m).rows == 5);
  CHECK(transposed(m).cols == 3);
  CHECK(matrix_view<float>{x.data(), 4, 5}.ld == 5);
  CHECK(matrix_view<float>{x.data(), 4, 5}.capacity == -1);
  CHECK(matrix_view<float const>{matrix_view<float>{x, 4, 5}}.capacity == 23);
  CHECK(matrix_view<float>{}.extent() == 0);
}

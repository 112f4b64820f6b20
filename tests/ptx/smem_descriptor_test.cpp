// SPDX-License-Identifier: Apache-2.0
// Shared-memory descriptors against PTX ISA table 40 and the canonical K-major layouts (9.7.16.3.3): a reader
// that knows only the descriptor must find each byte where the tile has put it.
#include <fourscale/ptx/descriptors.hpp>
#include <string>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::ptx;

namespace {

FOURSCALE_HD swizzle nth_swizzle(u64 i) {
  constexpr swizzle all[] = {swizzle::none, swizzle::b128_atom_32b, swizzle::b128, swizzle::b64,
                             swizzle::b32};
  return all[i % 5];
}

FOURSCALE_HD smem_descriptor_fields nth_fields(u64 i) {
  const u64 random = test::mix(i);
  smem_descriptor_fields f;
  f.start_address = static_cast<u32>(random & 0x3fff) * 16;
  f.leading_byte_offset = static_cast<u32>(random >> 14 & 0x3fff) * 16;
  f.stride_byte_offset = static_cast<u32>(random >> 28 & 0x3fff) * 16;
  f.base_offset = static_cast<u32>(random >> 42 & 7);
  f.absolute_leading = (random >> 45 & 1) != 0;
  f.pattern = nth_swizzle(random >> 46);
  return f;
}

/// Table 40 as one sum of products: nothing may overlap, so a sum is as good as an or.
FOURSCALE_HD u64 by_table_40(smem_descriptor_fields const& f) {
  constexpr u64 bit_16 = 65536, bit_32 = bit_16 * bit_16, bit_46 = bit_32 * 16384;
  const u64 mode = f.pattern == swizzle::none            ? 0
                   : f.pattern == swizzle::b128_atom_32b ? 1
                   : f.pattern == swizzle::b128          ? 2
                   : f.pattern == swizzle::b64           ? 4
                                                         : 6;
  return f.start_address / 16 + f.leading_byte_offset / 16 * bit_16 + f.stride_byte_offset / 16 * bit_32 +
         bit_46 + f.base_offset * bit_46 * 8 + (f.absolute_leading ? bit_46 * 64 : 0) + mode * bit_46 * 32768;
}

struct says_what_table_40_says {
  FOURSCALE_HD bool operator()(u64 i) const {
    const smem_descriptor_fields f = nth_fields(i);
    const u64 word = smem_descriptor(f);
    const auto back = parse_smem_descriptor(word);
    return refusal(f) == nullptr && word == by_table_40(f) && back.refusal == nullptr && back.fields == f;
  }
};

struct any_word_is_built_or_refused {
  FOURSCALE_HD bool operator()(u64 i) const {
    const smem_descriptor_fields f = nth_fields(i);
    const u64 word = smem_descriptor(f) ^ u64 { 1 } << i % 64;
    const auto p = parse_smem_descriptor(word);
    const bool noticed = p.refusal != nullptr || p.fields != f;
    return noticed && (p.refusal != nullptr || smem_descriptor(p.fields) == word);
  }
};

/// The hardware's side: where it reads byte `b` of row `r` of one instruction (32 bytes of K), from the
/// descriptor alone. Swizzle<B, 4, 3> exchanges address bits 4 to 3 + B by the bits three above them.
u32 read_from(u64 descriptor, u32 r, u32 b) {
  const u32 start = static_cast<u32>(descriptor % 16384) * 16;
  const u32 leading = static_cast<u32>(descriptor / 65536 % 16384) * 16;
  const u32 stride = static_cast<u32>(descriptor / 65536 / 65536 % 16384) * 16;
  const u64 mode = descriptor / 65536 / 65536 / 65536 / 8192;
  if (mode == 0) return start + r / 8 * stride + r % 8 * 16 + b / 16 * leading + b % 16;
  const u32 row_pitch = mode == 2 ? 128 : mode == 4 ? 64 : 32;
  const u32 linear = start + r / 8 * stride + r % 8 * row_pitch + b;
  const u32 above = linear / 128 % (row_pitch / 16);
  const u32 chunk = linear / 16 % (row_pitch / 16);
  return linear / row_pitch * row_pitch + (chunk ^ above) * 16 + linear % 16;
}

template <k_major_tile Tile>
void check_tile() {
  CAPTURE(Tile.rows, Tile.k, Tile.bits, static_cast<int>(Tile.pattern));
  REQUIRE(refusal(Tile) == nullptr);
  const u32 address = static_cast<u32>(3 * Tile.alignment());
  std::vector<int> times(static_cast<std::size_t>(Tile.size_bytes()));
  int elsewhere = 0;
  for (int step = 0; step < Tile.k_steps(); ++step)
    for (int r = 0; r < Tile.rows; ++r)
      for (int b = 0; b < 32; ++b) {
        const int at = Tile.offset(r, 32 * step + b);
        const u64 word = smem_descriptor<Tile>(address, step);
        elsewhere +=
            read_from(word, static_cast<u32>(r), static_cast<u32>(b)) != address + static_cast<u32>(at);
        REQUIRE((at >= 0 && at < Tile.size_bytes()));
        ++times[static_cast<std::size_t>(at)];
      }
  CHECK(elsewhere == 0);
  int not_once = 0;
  for (int n : times) not_once += n != 1;
  CHECK(not_once == 0);
}

bool says(char const* sentence, char const* part) {
  return sentence != nullptr && std::string(sentence).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("smem descriptors: golden words", "[ptx][descriptors]") {
  // 128 rows of 256 nibbles, 128-byte swizzle, at 0x400; the next K step is 32 bytes on.
  static_assert(smem_descriptor<k_major_tile{}>(0x400) == 0x4000'4040'0001'0040);
  static_assert(smem_descriptor<k_major_tile{}>(0x400, 1) == 0x4000'4040'0001'0042);
  static_assert(advanced(smem_descriptor<k_major_tile{}>(0x400), 96) ==
                smem_descriptor<k_major_tile{}>(0x400, 3));
  static_assert(smem_descriptor<k_major_tile{.k = 128, .pattern = swizzle::b64}>(0) == 0x8000'4020'0001'0000);
  static_assert(smem_descriptor<k_major_tile{.k = 64, .pattern = swizzle::b32}>(0) == 0xc000'4010'0001'0000);
  static_assert(smem_descriptor<k_major_tile{.k = 64, .pattern = swizzle::none}>(0) == 0x0000'4008'0080'0000);
  static_assert(scale_tile_descriptor(0x400) == 0x0000'4008'0000'0040);
}

TEST_CASE("smem descriptors: words are what table 40 says, and read back", "[ptx][descriptors]") {
  test::check_everywhere(200'000, says_what_table_40_says{});
}

TEST_CASE("smem descriptors: a flipped bit is another layout or none", "[ptx][descriptors]") {
  test::check_everywhere(200'000, any_word_is_built_or_refused{});
}

TEST_CASE("smem descriptors: what a descriptor reads is where the tile has it", "[ptx][descriptors]") {
  check_tile<k_major_tile{}>();
  check_tile<k_major_tile{.rows = 256, .k = 512}>();
  check_tile<k_major_tile{.rows = 24, .k = 128, .pattern = swizzle::b64}>();
  check_tile<k_major_tile{.rows = 128, .k = 256, .pattern = swizzle::b64}>();
  check_tile<k_major_tile{.rows = 40, .k = 192, .pattern = swizzle::b32}>();
  check_tile<k_major_tile{.rows = 128, .k = 256, .pattern = swizzle::none}>();
  check_tile<k_major_tile{.rows = 8, .k = 32, .bits = 8, .pattern = swizzle::none}>();
  check_tile<k_major_tile{.rows = 128, .k = 128, .bits = 8}>();
  check_tile<k_major_tile{.rows = 64, .k = 64, .bits = 8, .pattern = swizzle::b64}>();
}

TEST_CASE("smem descriptors: the 128-byte swizzle exchanges 16-byte chunks by row", "[ptx][descriptors]") {
  constexpr k_major_tile tile;
  int wrong = 0;
  for (int r = 0; r < 128; ++r)
    for (int b = 0; b < 128; ++b)
      wrong += tile.offset(r, b) != r * 128 + ((b >> 4) ^ (r & 7)) * 16 + (b & 15);
  CHECK(wrong == 0);
}

TEST_CASE("smem descriptors: a scale tile is 32 rows of 16 bytes, one after the other",
          "[ptx][descriptors]") {
  for (u32 r = 0; r < 32; ++r)
    for (u32 b = 0; b < 16; ++b) CHECK(read_from(scale_tile_descriptor(0x800), r, b) == 0x800 + 16 * r + b);
}

TEST_CASE("smem descriptors: each refusal is a sentence about its cause", "[ptx][descriptors]") {
  CHECK(says(refusal(smem_descriptor_fields{.start_address = 8}), "multiples of 16"));
  CHECK(says(refusal(smem_descriptor_fields{.stride_byte_offset = 1 << 18}), "below 2^18"));
  CHECK(says(refusal(smem_descriptor_fields{.base_offset = 8}), "three bits"));
  for (int code : {3, 5, 7})
    CHECK(says(refusal(smem_descriptor_fields{.pattern = static_cast<swizzle>(code)}), "0, 1, 2, 4 or 6"));
  CHECK(says(parse_smem_descriptor(0x4000'0040'0001'0040).refusal, "not 0b001"));
  CHECK(says(parse_smem_descriptor(0x4020'4040'0001'0040).refusal, "reserved"));
  CHECK(refusal(k_major_tile{.rows = 256, .k = 2048}) == nullptr);
  CHECK(says(refusal(k_major_tile{.rows = 256, .k = 2304}), "2^18 bytes"));
  CHECK(says(refusal(k_major_tile{.k = 0x4000'0000}), "2^18 bytes"));  // 2^32 bits, 0 in an int
  CHECK(says(refusal(k_major_tile{.k = 0}), "at least one element"));
  CHECK(says(refusal(k_major_tile{.bits = 6}), "4 bits in shared memory"));
  CHECK(says(refusal(k_major_tile{.rows = 12}), "groups of eight"));
  CHECK(says(refusal(k_major_tile{.rows = 264}), "groups of eight"));
  CHECK(says(refusal(k_major_tile{.pattern = swizzle::b128_atom_32b}), "32-byte atoms"));
  CHECK(says(refusal(k_major_tile{.k = 128}), "whole number of swizzle spans"));
  CHECK(says(refusal(k_major_tile{.k = 32, .pattern = swizzle::none}), "whole number of swizzle spans"));
}

TEST_CASE("smem descriptors: a word in words", "[ptx][descriptors]") {
  CHECK(std::string(describe(parse_smem_descriptor(0x4000'4040'0001'0040)).c_str()) ==
        "at 0x400, 128B swizzle, next eight rows at +1024, leading offset 16");
  smem_descriptor_fields f{.leading_byte_offset = 0x2000, .base_offset = 5, .absolute_leading = true};
  f.pattern = swizzle::b32;
  CHECK(std::string(describe(parse_smem_descriptor(smem_descriptor(f))).c_str()) ==
        "at 0x0, 32B swizzle, next eight rows at +0, leading address 0x2000, base offset 5");
}

// SPDX-License-Identifier: Apache-2.0
// Instruction descriptors against PTX ISA tables 39, 43, 44 and 57, restated here as rows of a table, and
// tensor-memory addresses. The golden words are those on which the manual, CUTLASS and ThunderKittens agree.
#include <fourscale/ptx/descriptors.hpp>
#include <string>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::ptx;

namespace {

/// One row of the manual's table: `size` bits from bit `first` hold `value`.
struct row {
  int first, size;
  u32 value;
};

/// The word of a table whose rows cover its bits from 0 upwards without a gap.
template <int Rows>
FOURSCALE_HD u32 word_of(row const (&rows)[Rows], bool& covers) {
  u64 word = 0, weight = 1;
  int next = 0;
  covers = true;
  for (row const& r : rows) {
    covers = covers && r.first == next && r.value < 1u << r.size;
    word += weight * r.value;
    for (int i = 0; i < r.size; ++i) weight *= 2;
    next += r.size;
  }
  covers = covers && next == 32;
  return static_cast<u32>(word);
}

FOURSCALE_HD u32 type_code(element_type t) {
  return t == element_type::e4m3   ? 0
         : t == element_type::e5m2 ? 1
         : t == element_type::e2m3 ? 3
         : t == element_type::e3m2 ? 4
                                   : 5;
}

/// Tables 43 (mxf8f6f4) and 44 (mxf4, mxf4nvf4).
FOURSCALE_HD u32 by_the_tables(block_scaled_mma const& s, bool& covers) {
  const bool wide = s.kind == mma_kind::mxf8f6f4;
  const u32 sfa = static_cast<u32>(s.sfa_id), sfb = static_cast<u32>(s.sfb_id);
  const u32 n = static_cast<u32>(s.n) / 8, m = static_cast<u32>(s.m) / 128;
  const u32 scale = s.scale == scale_type::ue8m0 ? 1 : 0;
  const row table_43[] = {{0, 2, 0},
                          {2, 1, 0},
                          {3, 1, 0},
                          {4, 2, sfb},
                          {6, 1, 0},
                          {7, 3, type_code(s.a)},
                          {10, 3, type_code(s.b)},
                          {13, 1, s.negate_a},
                          {14, 1, s.negate_b},
                          {15, 1, s.mn_major_a},
                          {16, 1, s.mn_major_b},
                          {17, 6, n},
                          {23, 1, 1},
                          {24, 3, 0},
                          {27, 2, m},
                          {29, 2, sfa},
                          {31, 1, 0}};
  const row table_44[] = {{0, 2, 0},           {2, 1, 0},      {3, 1, 0},
                          {4, 2, sfb},         {6, 1, 0},      {7, 3, 1},
                          {10, 2, 1},          {12, 1, 0},     {13, 1, s.negate_a},
                          {14, 1, s.negate_b}, {15, 1, 0},     {16, 1, 0},
                          {17, 6, n},          {23, 1, scale}, {24, 3, 0},
                          {27, 2, m},          {29, 2, sfa},   {31, 1, s.k == 96 ? 1u : 0u}};
  return wide ? word_of(table_43, covers) : word_of(table_44, covers);
}

FOURSCALE_HD int pick(u64& random, int count) {
  const int value = static_cast<int>(random % static_cast<u64>(count));
  random /= static_cast<u64>(count);
  return value;
}

/// Any instruction of table 39 or of CUTLASS, with a word of tables 43 and 44.
FOURSCALE_HD block_scaled_mma nth_mma(u64 i) {
  constexpr element_type types[] = {element_type::e4m3, element_type::e5m2, element_type::e2m3,
                                    element_type::e3m2, element_type::e2m1};
  u64 random = test::mix(i);
  block_scaled_mma s;
  s.kind = static_cast<mma_kind>(pick(random, 3));
  s.cta_group = 1 + pick(random, 2);
  s.m = s.cta_group == 2 ? 128 + 128 * pick(random, 2) : 128;
  s.n = 8 * s.cta_group * (1 + pick(random, s.cta_group == 2 ? 16 : 32));
  s.negate_a = pick(random, 2) != 0;
  s.negate_b = pick(random, 2) != 0;
  s.scale = scale_type::ue8m0;
  s.block_size = 32;
  if (s.kind == mma_kind::mxf8f6f4) {
    s.k = 32;
    const int a = pick(random, 5), b = pick(random, 5);
    s.a = types[a];
    s.b = types[b];
    s.mn_major_a = a < 2 && pick(random, 2) != 0;
    s.mn_major_b = b < 2 && pick(random, 2) != 0;
    s.sfa_id = pick(random, 4);
    s.sfb_id = pick(random, 4);
    return s;
  }
  s.k = pick(random, 4) == 0 ? 96 : 64;
  if (s.kind == mma_kind::mxf4nvf4 && pick(random, 2) != 0) {
    s.block_size = 16;
    s.scale = static_cast<scale_type>(pick(random, 2));
  }
  const bool only_zero = s.block_size == 16 && s.k == 64;
  s.sfa_id = only_zero ? 0 : 2 * pick(random, 2);
  s.sfb_id = only_zero ? 0 : 2 * pick(random, 2);
  return s;
}

struct says_what_the_tables_say {
  FOURSCALE_HD bool operator()(u64 i) const {
    const block_scaled_mma s = nth_mma(i);
    bool covers = false;
    const u32 expected = by_the_tables(s, covers), word = instruction_descriptor(s);
    const auto back = parse_instruction_descriptor(word, s.kind, s.cta_group, s.block_size);
    return covers && refusal(s) == nullptr && word == expected && back.refusal == nullptr && back.mma == s;
  }
};

/// A word that the parser accepts is one that the builder builds, and each bit of it matters.
struct any_word_is_built_or_refused {
  FOURSCALE_HD bool operator()(u64 i) const {
    u64 random = test::mix(i);
    const u32 flipped = 1u << pick(random, 32);
    const block_scaled_mma s = nth_mma(i + 1'000'000);
    const u32 word = instruction_descriptor(s) ^ flipped;
    const auto p = parse_instruction_descriptor(word, s.kind, s.cta_group, s.block_size);
    const bool noticed = p.refusal != nullptr || p.mma != s;
    const bool rebuilt = p.refusal != nullptr || instruction_descriptor(p.mma) == word;
    return noticed && rebuilt;
  }
};

/// Table 39, dense, of the block-scaled kinds, and table 57, each written as the list that it is.
bool in_the_tables(block_scaled_mma const& s) {
  bool n = false;
  for (int steps = 1; steps <= (s.cta_group == 2 ? 16 : 32); ++steps)
    n = n || s.n == steps * (s.cta_group == 2 ? 16 : 8);
  const bool m = s.cta_group == 1 ? s.m == 128 : s.m == 128 || s.m == 256;
  bool k = false, scales = false;
  switch (s.kind) {
    case mma_kind::mxf8f6f4:
      k = s.k == 32;
      scales = s.scale == scale_type::ue8m0 && s.block_size == 32;
      break;
    case mma_kind::mxf4:
      k = s.k == 64 || (s.k == 96 && s.m == 256);
      scales = s.scale == scale_type::ue8m0 && s.block_size == 32;
      break;
    case mma_kind::mxf4nvf4:
      k = s.k == 64 || (s.k == 96 && s.m == 256);
      scales = s.scale == scale_type::ue4m3 ? s.block_size == 16 : s.block_size == 16 || s.block_size == 32;
      break;
  }
  return n && m && k && scales;
}

/// What CUTLASS instantiates for sm_103a beyond table 39: K = 96 with M = 128, on one CTA and on a pair
/// (SM103_MXF4_ULTRA_SS_VS and its form of two CTAs), under the N and the scales of K = 64.
bool only_in_cutlass(block_scaled_mma s) {
  if (s.k != 96 || s.m != 128) return false;
  s.k = 64;
  return s.kind != mma_kind::mxf8f6f4 && in_the_tables(s);
}

bool says(char const* sentence, char const* part) {
  return sentence != nullptr && std::string(sentence).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("descriptors: golden words of NVFP4 and MX", "[ptx][descriptors]") {
  constexpr block_scaled_mma nvfp4;
  static_assert(instruction_descriptor<nvfp4>() == 0x0820'0480);
  static_assert(instruction_descriptor<block_scaled_mma{.n = 256}>() == 0x0840'0480);
  static_assert(instruction_descriptor<block_scaled_mma{.cta_group = 2, .m = 256, .n = 256}>() ==
                0x1040'0480);
  constexpr block_scaled_mma mxfp4{.kind = mma_kind::mxf4, .block_size = 32, .scale = scale_type::ue8m0};
  static_assert(instruction_descriptor<mxfp4>() == 0x08a0'0480);
  static_assert(with_scale_ids(instruction_descriptor<mxfp4>(), 2, 2) == 0x48a0'04a0);
  static_assert(with_scale_ids(with_scale_ids(0x08a0'0480, 3, 3), 0, 0) == 0x08a0'0480);
  constexpr block_scaled_mma mxfp8{.kind = mma_kind::mxf8f6f4,
                                   .k = 32,
                                   .block_size = 32,
                                   .scale = scale_type::ue8m0,
                                   .a = element_type::e4m3,
                                   .b = element_type::e5m2,
                                   .sfa_id = 3,
                                   .sfb_id = 1,
                                   .mn_major_b = true};
  static_assert(instruction_descriptor<mxfp8>() == 0x68a1'0410);
}

TEST_CASE("descriptors: words are what the manual's tables say, and read back", "[ptx][descriptors]") {
  test::check_everywhere(200'000, says_what_the_tables_say{});
}

TEST_CASE("descriptors: a flipped bit is another instruction or none", "[ptx][descriptors]") {
  test::check_everywhere(200'000, any_word_is_built_or_refused{});
}

TEST_CASE("descriptors: refused are exactly the shapes outside tables 39 and 57, and of CUTLASS",
          "[ptx][descriptors]") {
  constexpr int ms[] = {0, 64, 128, 192, 256, 384}, ks[] = {16, 32, 64, 96, 128}, blocks[] = {8, 16, 32, 64};
  int possible = 0, from_cutlass = 0, wrong = 0;
  for (int kind = 0; kind < 3; ++kind)
    for (int group = 1; group <= 2; ++group)
      for (int m : ms)
        for (int n = -8; n <= 272; n += 4)
          for (int k : ks)
            for (int block : blocks)
              for (int scale = 0; scale < 2; ++scale) {
                block_scaled_mma s;
                s.kind = static_cast<mma_kind>(kind);
                s.cta_group = group, s.m = m, s.n = n, s.k = k, s.block_size = block;
                s.scale = static_cast<scale_type>(scale);
                possible += in_the_tables(s);
                from_cutlass += only_in_cutlass(s);
                wrong += (in_the_tables(s) || only_in_cutlass(s)) != (refusal(s) == nullptr);
                wrong += in_the_tables(s) && only_in_cutlass(s);
              }
  CHECK(wrong == 0);
  // N: 32 with one CTA, 16 with M = 128 of two, 16 with M = 256, which has a second K. Scales: 1 + 1 + 3
  // kinds.
  CHECK(possible == (32 + 16 + 16) + (32 + 16 + 32) * (1 + 3));
  CHECK(from_cutlass == (32 + 16) * (1 + 3));
}

TEST_CASE("descriptors: K = 96 with every M of 4-bit kinds, and with nothing else", "[ptx][descriptors]") {
  static_assert(instruction_descriptor<block_scaled_mma{.k = 96}>() == 0x8820'0480);
  static_assert(instruction_descriptor<block_scaled_mma{.cta_group = 2, .k = 96}>() == 0x8820'0480);
  static_assert(instruction_descriptor<block_scaled_mma{.cta_group = 2, .m = 256, .n = 256, .k = 96}>() ==
                0x9040'0480);
  for (int group = 1; group <= 2; ++group) {
    const auto p = parse_instruction_descriptor(0x8820'0480, mma_kind::mxf4nvf4, group, 16);
    CHECK(p.refusal == nullptr);
    CHECK(p.mma == block_scaled_mma{.cta_group = group, .k = 96});
  }
  CHECK(says(refusal(block_scaled_mma{.m = 256, .k = 96}), "M of a block-scaled"));
  CHECK(says(refusal(block_scaled_mma{.m = 64, .k = 96}), "M of a block-scaled"));
  CHECK(says(refusal(block_scaled_mma{.cta_group = 2, .n = 24, .k = 96}), "N of a block-scaled"));
  for (int k : {48, 80, 95, 97, 128, 192})
    CHECK(says(refusal(block_scaled_mma{.k = k}), "(or 96, on sm_103a)"));
  for (element_type t : {element_type::e2m1, element_type::e4m3}) {
    block_scaled_mma s{.kind = mma_kind::mxf8f6f4, .k = 96, .block_size = 32, .scale = scale_type::ue8m0};
    s.a = s.b = t;
    CHECK(says(refusal(s), "K of one tcgen05.mma"));
  }
  CHECK(says(refusal(block_scaled_mma{.k = 96, .sfa_id = 1}), "A scale id"));
  CHECK(refusal(block_scaled_mma{.k = 96, .sfa_id = 2}) == nullptr);
}

TEST_CASE("descriptors: each refusal is a sentence about its cause", "[ptx][descriptors]") {
  constexpr auto mx8 = [](element_type a, element_type b) {
    block_scaled_mma s{.kind = mma_kind::mxf8f6f4, .k = 32, .block_size = 32, .scale = scale_type::ue8m0};
    s.a = a, s.b = b;
    return s;
  };
  CHECK(says(refusal(block_scaled_mma{.cta_group = 3}), "cta_group is 1"));
  CHECK(says(refusal(block_scaled_mma{.m = 64}), "M of a block-scaled"));
  CHECK(says(refusal(block_scaled_mma{.n = 12}), "N of a block-scaled"));
  CHECK(says(refusal(block_scaled_mma{.k = 32}), "K of one tcgen05.mma"));
  CHECK(says(refusal(block_scaled_mma{.a = element_type::e4m3}), "take E2M1 only"));
  CHECK(says(refusal(mx8(static_cast<element_type>(2), element_type::e4m3)), "An operand"));
  CHECK(says(refusal(block_scaled_mma{.mn_major_a = true}), "K-major only"));
  for (element_type t : {element_type::e2m1, element_type::e2m3, element_type::e3m2}) {
    block_scaled_mma s = mx8(element_type::e4m3, t);
    CHECK(refusal(s) == nullptr);
    s.mn_major_a = true;
    CHECK(refusal(s) == nullptr);
    s.mn_major_b = true;
    CHECK(says(refusal(s), "K-major only"));
  }
  CHECK(says(refusal(block_scaled_mma{.block_size = 32}), "Scales are UE8M0"));
  CHECK(says(refusal(block_scaled_mma{.sfa_id = 2}), "A scale id"));
  const block_scaled_mma mxfp4{.kind = mma_kind::mxf4, .block_size = 32, .scale = scale_type::ue8m0};
  CHECK(says(
      parse_instruction_descriptor(with_scale_ids(instruction_descriptor(mxfp4), 3, 0), mma_kind::mxf4, 1, 32)
          .refusal,
      "A scale id"));
  CHECK(says(parse_instruction_descriptor(0x0820'0484, mma_kind::mxf4nvf4, 1, 16).refusal, "sparse"));
  CHECK(says(parse_instruction_descriptor(0x0820'0280, mma_kind::mxf4nvf4, 1, 16).refusal, "code 1"));
  CHECK(says(parse_instruction_descriptor(0x0920'0480, mma_kind::mxf4nvf4, 1, 16).refusal, "reserved"));
}

TEST_CASE("descriptors: scale ids are bytes at which a row's scales can begin", "[ptx][descriptors]") {
  struct rule {
    mma_kind kind;
    int k, block_size;
    unsigned ids;  ///< bit i: id i exists
  };
  struct grid {
    int cta_group, m;
  };
  constexpr rule rules[] = {{mma_kind::mxf4nvf4, 64, 16, 0b0001}, {mma_kind::mxf4nvf4, 64, 32, 0b0101},
                            {mma_kind::mxf4, 64, 32, 0b0101},     {mma_kind::mxf8f6f4, 32, 32, 0b1111},
                            {mma_kind::mxf4nvf4, 96, 16, 0b0101}, {mma_kind::mxf4, 96, 32, 0b1111}};
  for (rule const& r : rules)
    for (int id = -1; id <= 4; ++id) {
      const bool exists = id >= 0 && (r.ids >> id & 1) != 0;
      for (auto const& [ctas, m] : {grid{1, 128}, grid{2, 128}, grid{2, 256}}) {
        block_scaled_mma s{.kind = r.kind, .cta_group = ctas, .m = m, .k = r.k, .block_size = r.block_size};
        s.scale = scale_type::ue8m0;
        s.sfa_id = id;
        CHECK((refusal(s) == nullptr) == exists);
        s.sfa_id = 0;
        s.sfb_id = id;
        CHECK((refusal(s) == nullptr) == exists);
      }
    }
}

TEST_CASE("descriptors: a word in words", "[ptx][descriptors]") {
  CHECK(std::string(describe(parse_instruction_descriptor(0x0820'0480, mma_kind::mxf4nvf4, 1, 16)).c_str()) ==
        "kind::mxf4nvf4, cta_group::1, M 128, N 128, K 64, A E2M1 K-major, B E2M1 K-major, "
        "UE4M3 scales per 16, ids 0 and 0");
  const auto pair = parse_instruction_descriptor(0x68a1'4410, mma_kind::mxf8f6f4, 2, 32);
  CHECK(std::string(describe(pair).c_str()) ==
        "kind::mxf8f6f4, cta_group::2, M 128, N 128, K 32, A E4M3 K-major, B -E5M2 MN-major, "
        "UE8M0 scales per 32, ids 3 and 1");
  CHECK(says(describe(parse_instruction_descriptor(0x1040'0480, mma_kind::mxf4nvf4, 1, 16)).c_str(),
             "ids 0 and 0. Impossible: M of a block-scaled"));
  CHECK(std::string(describe(parse_tmem_address(0x0060'01ff)).c_str()) == "lane 96, column 511");
  CHECK(says(describe(parse_tmem_address(0x0080'0000)).c_str(), "Impossible: Tensor memory has lanes"));
  CHECK(says(describe(parse_tmem_address(0x0000'0200)).c_str(), "Impossible: Tensor memory has columns"));
  CHECK(std::string(describe(tmem_location{-1, 0}).c_str()).rfind("lane -1, column 0. Impossible", 0) == 0);
  CHECK(says(describe(tmem_location{-2147483647 - 1, 0}).c_str(), "lane -2147483648,"));
}

TEST_CASE("descriptors: tensor memory addresses and columns", "[ptx][descriptors]") {
  static_assert(tmem_address({96, 511}) == 0x0060'01ff);
  static_assert(tmem_offset(0x0000'0100, 32, 16) == 0x0020'0110);
  static_assert(allocation<512>() == 512 && allocation_for<1>() == 32 && allocation_for<33>() == 64 &&
                allocation_for<257>() == 512 && allocation_for<256>() == 256);
  int wrong = 0;
  for (int lane = 0; lane < 128; ++lane)
    for (int column = 0; column < 512; ++column)
      wrong += parse_tmem_address(tmem_address({lane, column})) != tmem_location{lane, column} ||
               refusal(tmem_location{lane, column}) != nullptr;
  CHECK(wrong == 0);
  for (int columns = -32; columns <= 1024; ++columns)
    wrong += can_allocate(columns) !=
             (columns == 32 || columns == 64 || columns == 128 || columns == 256 || columns == 512);
  CHECK(wrong == 0);
  CHECK(accumulator_columns({.n = 256}) == 256);
  CHECK(accumulator_columns({.cta_group = 2, .m = 256, .n = 256}) == 256);
  CHECK(accumulator_columns({.cta_group = 2, .m = 128, .n = 256}) == 128);
  CHECK(sfa_columns({}) == 4);
  CHECK(sfb_columns({.n = 64}) == 4);
  CHECK(sfb_columns({.n = 256}) == 8);
}

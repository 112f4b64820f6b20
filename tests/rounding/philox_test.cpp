// SPDX-License-Identifier: Apache-2.0
// Philox against the known answers of Random123 and words computed with Transformer Engine's generator, and
// the contract of philox: which word belongs to which element.
#include <fourscale/rounding/philox.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

struct known_answer {
  int rounds;
  u32 counter[4];
  u64 key;
  u32 words[4];
};

constexpr known_answer answers[] = {
    // Random123, kat_vectors: philox4x32 with 7 and 10 rounds; zeros, ones, digits of pi.
    {7, {0, 0, 0, 0}, 0, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
    {7,
     {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     0xffffffff'ffffffff,
     {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
    {7,
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0x299f31d0'a4093822,
     {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
    {10, {0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {10,
     {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     0xffffffff'ffffffff,
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {10,
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0x299f31d0'a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    // Transformer Engine: key = seed, counter = {offset, subsequence}.
    {10, {0, 0, 0, 0}, 1, {0xe3e80670, 0xe50a0ebc, 0x95f222c0, 0xb615aa27}},
    {10, {7, 0, 5, 0}, 0x12345678'9abcdef0, {0xfe110f5b, 0xdf654570, 0xad95b243, 0x1a5accd7}},
    {7, {0, 0, 0, 0}, 1, {0xf422b57b, 0x780e92b0, 0x574dd0f2, 0x5e9558ea}},
};

FOURSCALE_HD constexpr bool gives(known_answer const& a) {
  u32 const(&c)[4] = a.counter;
  const philox_words w = a.rounds == 7 ? philox4x32<7>(c[0], c[1], c[2], c[3], a.key)
                                       : philox4x32<10>(c[0], c[1], c[2], c[3], a.key);
  for (int i = 0; i < 4; ++i)
    if (w.words[i] != a.words[i]) return false;
  return true;
}
static_assert(gives(answers[3]) && gives(answers[5]), "constant expressions too");

struct gives_known_answers {
  known_answer all[9];
  FOURSCALE_HD bool operator()(u64 i) const { return gives(all[i]); }
};

/// Rounds written as the paper's permutation of a 4-vector, one at a time.
template <int Rounds>
struct equals_restated_rounds {
  FOURSCALE_HD bool operator()(u64 i) const {
    u64 v[4], key[2];
    for (u64 k = 0; k < 4; ++k) v[k] = test::mix(6 * i + k) >> 32;
    for (u64 k = 0; k < 2; ++k) key[k] = test::mix(6 * i + 4 + k) >> 32;
    const auto word = [](u64 x) { return static_cast<u32>(x); };
    const philox_words w =
        philox4x32<Rounds>(word(v[0]), word(v[1]), word(v[2]), word(v[3]), key[1] << 32 | key[0]);
    for (u64 round = 0; round < Rounds; ++round) {
      const u64 k0 = (key[0] + round * 2654435769u) % (u64{1} << 32);  // 2^32 / golden ratio
      const u64 k1 = (key[1] + round * 3144134277u) % (u64{1} << 32);  // 2^32 * (sqrt(3) - 1)
      const u64 p = v[0] * 3528531795u, q = v[2] * 3449720151u;
      const u64 next[4] = {(q >> 32) ^ v[1] ^ k0, q % (u64{1} << 32), (p >> 32) ^ v[3] ^ k1,
                           p % (u64{1} << 32)};
      for (int k = 0; k < 4; ++k) v[k] = next[k];
    }
    for (int k = 0; k < 4; ++k)
      if (w.words[k] != v[k]) return false;
    return true;
  }
};

/// The four elements at (row, col) share word (col / 4) % 4 of counter {col / 16, row, stream}, key seed.
struct word_of_an_element {
  FOURSCALE_HD bool operator()(u64 i) const {
    const u64 seed = test::mix(i), stream = test::mix(i + 1) >> (i % 40);
    const i64 row = static_cast<i64>(test::mix(i + 2) >> (32 + i % 32));
    const i64 col = static_cast<i64>(test::mix(i + 3) >> (28 + i % 32));
    const philox bits{seed, stream};
    const philox_words w = philox4x32(static_cast<u32>(col / 16), static_cast<u32>(row),
                                      static_cast<u32>(stream), static_cast<u32>(stream >> 32), seed);
    const i64 group = col / 4 * 4;
    return bits({row, col}) == w.words[col / 4 % 4] && bits({row, group}) == bits({row, group + 3});
  }
};

}  // namespace

TEST_CASE("philox4x32: known answers for 7 and 10 rounds", "[rounding][philox]") {
  gives_known_answers body{};
  for (int i = 0; i < 9; ++i) body.all[i] = answers[i];
  check_everywhere(9, body);
}

TEST_CASE("philox4x32: equal to its rounds written one by one", "[rounding][philox]") {
  check_everywhere(2000, equals_restated_rounds<7>{});
  check_everywhere(2000, equals_restated_rounds<10>{});
}

TEST_CASE("philox: the word of an element is a function of its position", "[rounding][philox]") {
  check_everywhere(5000, word_of_an_element{});
}

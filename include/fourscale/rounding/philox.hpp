// SPDX-License-Identifier: Apache-2.0
// Philox4x32: random bits as a function of a counter. J. K. Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011. For the same key and counter, the words are those of Random123, cuRAND and
// Transformer Engine.
#pragma once

#include "../position.hpp"
#include "../ptx/arith.hpp"

namespace FOURSCALE_NAMESPACE {

/// The 128 random bits of one counter.
struct philox_words {
  u32 words[4];
};

/// The keys of all rounds, which follow from the key of the first.
template <int Rounds>
struct philox_schedule {
  u32 keys[Rounds][2];

  FOURSCALE_HD constexpr explicit philox_schedule(u64 key) : keys{} {
    u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
    FOURSCALE_UNROLL
    for (int round = 0; round < Rounds; ++round) {
      keys[round][0] = k0;
      keys[round][1] = k1;
      k0 += 0x9e37'79b9u;
      k1 += 0xbb67'ae85u;
    }
  }
};

/// Philox4x32 with `Rounds` rounds: 10 is the published strength, 7 the fewest that pass BigCrush.
template <int Rounds = 10>
FOURSCALE_HD constexpr philox_words philox4x32(u32 c0, u32 c1, u32 c2, u32 c3,
                                               philox_schedule<Rounds> const& schedule) {
  FOURSCALE_UNROLL
  for (int round = 0; round < Rounds; ++round) {
    const u64 p0 = ptx::mul_wide_u32(c0, 0xd251'1f53u), p1 = ptx::mul_wide_u32(c2, 0xcd9e'8d57u);
    c0 = static_cast<u32>(p1 >> 32) ^ c1 ^ schedule.keys[round][0];
    c1 = static_cast<u32>(p1);
    c2 = static_cast<u32>(p0 >> 32) ^ c3 ^ schedule.keys[round][1];
    c3 = static_cast<u32>(p0);
  }
  return {{c0, c1, c2, c3}};
}
template <int Rounds = 10>
FOURSCALE_HD constexpr philox_words philox4x32(u32 c0, u32 c1, u32 c2, u32 c3, u64 key) {
  return philox4x32<Rounds>(c0, c1, c2, c3, philox_schedule<Rounds>(key));
}

template <int Rounds>
struct prepared_philox;

/// Random words indexed by element. Every kernel, grid and machine keeps this contract:
///
///   The four elements (row, col) .. (row, col + 3), col a multiple of 4, share word (col / 4) % 4 of
///   philox4x32(counter = {col / 16, row, stream low, stream high}, key = seed).
///
/// Row and column are those of the matrix whose rows hold the blocks: of the transpose, for a columnwise
/// copy. Give the two copies of a tensor different streams, or their errors correlate. Rows must be below
/// 2^32, columns below 2^36.
template <int Rounds = 10>
struct philox {
  u64 seed = 0, stream = 0;

  FOURSCALE_HD constexpr philox(u64 s = 0, u64 which = 0) : seed(s), stream(which) {}

  /// The word of the four elements at `where`.
  FOURSCALE_HD constexpr u32 operator()(position where) const {
    return prepared_philox<Rounds>(*this)(where);
  }
  /// The form that kernels take: the keys of all rounds are computed once, on the host.
  FOURSCALE_H constexpr prepared_philox<Rounds> prepared() const { return prepared_philox<Rounds>(*this); }

  /// Fast form: see lane_random_bits.
  FOURSCALE_HD constexpr void draw_lanes(position where, int count, u32* words) const {
    prepared_philox<Rounds>(*this).draw_lanes(where, count, words);
  }
};

/// The same words as philox, from keys that are computed once, on the host before the launch of a kernel.
template <int Rounds>
struct prepared_philox {
  philox_schedule<Rounds> schedule;
  u64 stream;

  FOURSCALE_HD constexpr explicit prepared_philox(philox<Rounds> const& p)
      : schedule(p.seed), stream(p.stream) {}

  /// The four words of the sixteen elements of a row that include the one at `where`.
  FOURSCALE_HD constexpr philox_words of_sixteen(position where) const {
    return philox4x32<Rounds>(static_cast<u32>(where.col >> 4), static_cast<u32>(where.row),
                              static_cast<u32>(stream), static_cast<u32>(stream >> 32), schedule);
  }
  FOURSCALE_HD constexpr u32 operator()(position where) const {
    const philox_words four = of_sixteen(where);
    // A selection, not an index: the word must stay in a register.
    const u32 which = static_cast<u32>(where.col >> 2) & 3u;
    const u32 low = which & 1u ? four.words[1] : four.words[0],
              high = which & 1u ? four.words[3] : four.words[2];
    return which & 2u ? high : low;
  }

  /// Fast form: see lane_random_bits. The upper halves of the u64 lanes hold leftovers of products; only the
  /// lower halves count.
  FOURSCALE_HD constexpr void draw_lanes(position where, int count, u32* words) const {
    const u32 first = static_cast<u32>(where.col >> 4);
    for (int i = 0; i < count; ++i) {
      u64 c0 = first + static_cast<u32>(i), c1 = static_cast<u32>(where.row), c2 = stream, c3 = stream >> 32;
      FOURSCALE_UNROLL_ON_HOST
      for (int round = 0; round < Rounds; ++round) {
        const u64 p0 = (c0 & 0xffff'ffffu) * 0xd251'1f53u, p1 = (c2 & 0xffff'ffffu) * 0xcd9e'8d57u;
        c0 = p1 >> 32 ^ c1 ^ schedule.keys[round][0];
        c1 = p1;
        c2 = p0 >> 32 ^ c3 ^ schedule.keys[round][1];
        c3 = p0;
      }
      words[4 * i] = static_cast<u32>(c0);
      words[4 * i + 1] = static_cast<u32>(c1);
      words[4 * i + 2] = static_cast<u32>(c2);
      words[4 * i + 3] = static_cast<u32>(c3);
    }
  }
};

}  // namespace FOURSCALE_NAMESPACE

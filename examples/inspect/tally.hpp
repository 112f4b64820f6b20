// SPDX-License-Identifier: Apache-2.0
// Tallies: counts and sums that compare quantized values with the original ones. Tallies can be added, so
// that a checkpoint has one, too. Also a histogram of errors.
#pragma once

#include <array>
#include <cmath>
#include <fourscale/block/statistics.hpp>

namespace inspect {

using fourscale::i64;
using fourscale::u32;
using fourscale::u64;

/// The formats, in the order of the columns.
struct format_info {
  char const *key, *name, *block;
};
inline constexpr std::array<format_info, 5> formats = {{{"nvfp4_1x16", "NVFP4", "1x16"},
                                                        {"nvfp4_16x16", "NVFP4", "16x16"},
                                                        {"mxfp4_1x32", "MXFP4", "1x32"},
                                                        {"mxfp8_1x32", "MXFP8", "1x32"},
                                                        {"fp8_tensor", "FP8", "tensor"}}};

/// What a format did to the finite values of tensors, and the room that it takes.
struct tally {
  fourscale::statistics sums;
  u64 values = 0;  ///< finite ones; `sums` also counts the zeros put in for the others
  u64 stored_values = 0, stored_bits = 0;  ///< values without padding; bits of codes and scales

  tally& operator+=(tally const& t) {
    sums += t.sums;
    values += t.values, stored_values += t.stored_values, stored_bits += t.stored_bits;
    return *this;
  }

  double bits_per_value() const {
    return static_cast<double>(stored_bits) / static_cast<double>(stored_values);
  }
  double flushed_share() const { return share(sums.dead_zone); }
  double saturated_share() const { return share(sums.clipped); }

 private:
  double share(u64 part) const { return static_cast<double>(part) / static_cast<double>(values); }
};

/// A histogram of |x - Q| / rms(x), with eight bins to an octave.
struct error_histogram {
  static constexpr int first_octave = -24, last_octave = 6, per_octave = 8;
  static constexpr int bins = (last_octave - first_octave) * per_octave;

  u64 exact = 0;  ///< no error, or one below the first bin
  std::array<u64, bins> counts{};

  void add(float error) {
    // Exponent and the first three bits of the mantissa give the bin.
    const int key =
        static_cast<int>(fourscale::bit_cast<u32>(error) >> 20) - (127 + first_octave) * per_octave;
    if (key < 0)
      ++exact;
    else
      ++counts[static_cast<std::size_t>(key < bins ? key : bins - 1)];
  }
  error_histogram& operator+=(error_histogram const& h) {
    exact += h.exact;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += h.counts[i];
    return *this;
  }
  /// The error where bin i begins.
  static double edge(int i) {
    return std::ldexp(1 + static_cast<double>(i % per_octave) / per_octave, first_octave + i / per_octave);
  }
};

}  // namespace inspect

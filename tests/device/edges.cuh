// SPDX-License-Identifier: Apache-2.0
// What the tests of edges share: values with NaNs among them, and outputs on both machines.
#pragma once

#include "matches_host.cuh"

namespace fourscale::test {

/// Ordinary values among NaNs: runs of nothing else, and single ones beside every block's largest value.
inline float holed_value(u64 row, u64 i) {
  constexpr float nan = bit_cast<float>(0x7fc0'0000u);
  return i / 32 % 5 == 0 || mix(i) % 4 == 0 ? nan : activation(row, i);
}

/// Codes and scales on both machines, poisoned, canaries behind them. So many bytes lie before each.
template <class F, class Layout>
struct outputs {
  i64 before_codes, before_scales;
  std::vector<u8> codes, scales;
  device_buffer<u8> d_codes, d_scales;
  block_scaled_view<F, Layout> host, device;

  outputs(i64 rows, i64 cols, tensor_amax<F> amax, i64 start_of_codes = 0, i64 start_of_scales = 0)
      : before_codes(start_of_codes),
        before_scales(start_of_scales),
        codes(static_cast<size_t>(before_codes + code_bytes<F>(rows, cols) + canary), poison),
        scales(static_cast<size_t>(before_scales + scale_bytes<F, Layout>(rows, cols) + canary), poison),
        d_codes(codes),
        d_scales(scales),
        host(codes.data() + before_codes, scales.data() + before_scales, rows, cols, amax),
        device(d_codes.data() + before_codes, d_scales.data() + before_scales, rows, cols, amax) {}

  void check() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const auto from = [](i64 start, std::vector<u8> x) {
      x.erase(x.begin(), x.begin() + start);
      return x;
    };
    check_same_codes(host, from(before_codes, d_codes.to_host()), from(before_codes, codes));
    check_same_scales(host, from(before_scales, d_scales.to_host()), from(before_scales, scales));
  }
};

}  // namespace fourscale::test

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

/// Codes and scales on both machines, poisoned, canaries behind them.
template <class F, class Layout>
struct outputs {
  std::vector<u8> codes, scales;
  device_buffer<u8> d_codes, d_scales;
  block_scaled_view<F, Layout> host, device;

  outputs(i64 rows, i64 cols, tensor_amax<F> amax)
      : codes(static_cast<size_t>(code_bytes<F>(rows, cols) + canary), poison),
        scales(static_cast<size_t>(scale_bytes<F, Layout>(rows, cols) + canary), poison),
        d_codes(codes),
        d_scales(scales),
        host(codes, scales, rows, cols, amax),
        device(d_codes.data(), d_scales.data(), rows, cols, amax) {}

  void check() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    check_same_codes(host, d_codes.to_host(), codes);
    check_same_scales(host, d_scales.to_host(), scales);
  }
};

}  // namespace fourscale::test

// SPDX-License-Identifier: Apache-2.0
// The percentile amax, which leaves out the few largest values (view/percentile.hpp), on the CPU.
#pragma once

#include "../view/percentile.hpp"
#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

/// Writes the exact percentile amax of x to *amax. share = 1 gives amax(); 0.999 lets one element in a
/// thousand saturate. NaN counts as 0. `workspace` is scratch. It makes two passes over x. Errors: see
/// validate(), null or misaligned pointers; *amax is then untouched.
template <matrix_like M>
errc percentile_amax(M const& x, double share, percentile_workspace* workspace, float* amax) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_percentile(workspace, amax); e != errc::ok) return e;
  using fourscale::detail::percentile_bin;
  u64 rank = fourscale::detail::percentile_rank(share, x.rows * x.cols), found[2] = {0, 0};
  for (int pass = 0; pass < 2; ++pass) {
    __builtin_memset(workspace->counts, 0, sizeof workspace->counts);
    for (i64 r = 0; r < x.rows; ++r)
      for (i64 c = 0; c < x.cols; ++c)
        if (const i64 bin = percentile_bin(pass, amax_bits(to_float(x.at(r, c))), found[0]); bin >= 0)
          ++workspace->counts[bin];
    u64 bin = 0;
    while (rank > workspace->counts[bin]) rank -= workspace->counts[bin++];
    found[pass] = bin;
  }
  *amax = bit_cast<float>(static_cast<u32>(found[0] << 15 | found[1]));
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host

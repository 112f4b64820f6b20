// SPDX-License-Identifier: Apache-2.0
// fourscale_dequantize() of calls.hpp, for the CPU and, included in a .cu file, for the GPU.
#include "../buffers.hpp"
#include "../machine.hpp"

namespace fourscale_jax {

errc fourscale_dequantize(void* stream, tensor codes, tensor scales, tensor amaxes, tensor y, i32 format,
                          float range, i32 at) {
  const machine m(stream);
  return visit_format(static_cast<f4::format_name>(format), errc::bad_recipe, [&]<class F>(F) {
    const auto q = view_of(codes, scales, amax_at<F>(amaxes, at, with_largest<F>(range)));
    return visit_output(y, [&](auto const& values) { return m.dequantize(q, values); });
  });
}

}  // namespace fourscale_jax

// SPDX-License-Identifier: Apache-2.0
// fourscale_gemm() of calls.hpp, for the CPU and, included in a .cu file, for the GPU.
#include "../buffers.hpp"
#include "../machine.hpp"

namespace fourscale_jax {

/// The formats that may meet in a GEMM: two of FP8 per tensor, or two equal ones of those below.
template <class F>
inline constexpr bool is_fp8_per_tensor = f4::same_type<F, f4::fp8_e4m3> || f4::same_type<F, f4::fp8_e5m2>;
template <class F, class G>
inline constexpr bool multiplies = (is_fp8_per_tensor<F> && is_fp8_per_tensor<G>) ||
                                   (f4::same_type<F, G> &&
                                    (f4::same_type<F, f4::nvfp4> || f4::same_type<F, f4::mxfp4> ||
                                     f4::same_type<F, f4::fp8_block_e4m3>));

errc fourscale_gemm(void* stream, tensor codes_a, tensor scales_a, tensor amaxes_a, tensor codes_b,
                    tensor scales_b, tensor amaxes_b, tensor d, tensor workspace, i32 format, float range,
                    i32 at, i32 format_b, float range_b, i32 at_b) {
  const machine m(stream);
  const auto multiply = [&]<class F, class G>(F, G) {
    if constexpr (multiplies<F, G>) {
      const auto a = view_of(codes_a, scales_a, amax_at<F>(amaxes_a, at, with_largest<F>(range)));
      const auto b = view_of(codes_b, scales_b, amax_at<G>(amaxes_b, at_b, with_largest<G>(range_b)));
      return visit_output(
          d, [&](auto const& values) { return m.gemm(a, b, values, workspace.data, workspace.count()); });
    }
    return errc::bad_recipe;
  };
  return visit_format(static_cast<f4::format_name>(format), errc::bad_recipe, [&]<class F>(F of_a) {
    return visit_format(static_cast<f4::format_name>(format_b), errc::bad_recipe,
                        [&]<class G>(G of_b) { return multiply(of_a, of_b); });
  });
}

}  // namespace fourscale_jax

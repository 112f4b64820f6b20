// SPDX-License-Identifier: Apache-2.0
// fourscale_amax() of calls.hpp, for the CPU and, included in a .cu file, for the GPU.
#include "../copies.hpp"
#include "../machine.hpp"

namespace fourscale_jax {

errc fourscale_amax(void* stream, tensor x, tensor to, i32 recipe, i32 role, i32 columnwise) {
  const machine m(stream);
  return visit_copy(recipe, role, columnwise != 0, [&]<class Copy>(Copy const& copy) {
    if (to.count() != Copy::amax_count) return errc::shape_mismatch;
    return visit_values(x, [&](auto const& values) {
      float* const amaxes = data_of<float>(to);
      if constexpr (Copy::amax_count == 2)
        return m.template amax_both<typename Copy::format>(values, Copy::transform(), amaxes,
                                                           amaxes ? amaxes + 1 : nullptr);
      else if constexpr (f4::same_type<Copy, ms_eden_copy>)
        return m.amax(values, copy.quantizer({}).transform, amaxes);
      else
        return m.amax(values, amaxes);
    });
  });
}

}  // namespace fourscale_jax

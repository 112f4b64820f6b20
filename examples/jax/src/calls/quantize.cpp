// SPDX-License-Identifier: Apache-2.0
// fourscale_quantize() of calls.hpp, for the CPU and, included in a .cu file, for the GPU.
#include "../copies.hpp"
#include "../machine.hpp"

namespace fourscale_jax {

errc fourscale_quantize(void* stream, tensor x, tensor amaxes, tensor key, tensor codes, tensor scales,
                        i32 recipe, i32 role, i32 columnwise, i32 transposed) {
  if (!words_of(key)) return errc::shape_mismatch;
  const machine m(stream);
  const keyed_bits bits{words_of(key), 0, transposed != 0};
  return visit_copy(recipe, role, columnwise != 0, [&]<class Copy>(Copy const& copy) {
    const auto of = [&](auto const& values) {
      const auto to = view_for(copy, codes, scales, values.rows, values.cols, amaxes);
      if constexpr (f4::same_type<Copy, ms_eden_copy>)
        return m.quantize(values, to, copy.quantizer(bits));
      else
        return m.quantize(values, to, copy.quantizer(bits), typename Copy::blocks{});
    };
    return visit_values(
        x, [&](auto const& values) { return transposed != 0 ? of(f4::transposed(values)) : of(values); });
  });
}

}  // namespace fourscale_jax

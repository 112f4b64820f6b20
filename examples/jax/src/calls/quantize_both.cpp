// SPDX-License-Identifier: Apache-2.0
// fourscale_quantize_both() of calls.hpp, for the CPU and, included in a .cu file, for the GPU.
#include "../copies.hpp"
#include "../machine.hpp"

namespace fourscale_jax {

errc fourscale_quantize_both(void* stream, tensor x, tensor amaxes, tensor key, tensor codes, tensor scales,
                             tensor codes_t, tensor scales_t, i32 recipe, i32 role) {
  if (!words_of(key)) return errc::shape_mismatch;
  const machine m(stream);
  const keyed_bits bits{words_of(key), 0, false}, bits_t{words_of(key), 0, true};
  return visit_operand(recipe, role, [&]<class Operand>(Operand) {
    const linear_copy<Operand, false> rowwise;
    const linear_copy<Operand, true> columnwise;
    return visit_values(x, [&](auto const& values) {
      return m.quantize_both(values, view_for(rowwise, codes, scales, values.rows, values.cols, amaxes),
                             view_for(columnwise, codes_t, scales_t, values.cols, values.rows, amaxes),
                             rowwise.quantizer(bits), columnwise.quantizer(bits_t),
                             typename linear_copy<Operand, false>::blocks{});
    });
  });
}

}  // namespace fourscale_jax

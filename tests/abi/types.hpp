// SPDX-License-Identifier: Apache-2.0
// What may cross from a unit of one compiler, CPU or architecture to another has one name in all of them.
#pragma once

#include <fourscale/fourscale.hpp>

template <class...>
struct list;
using every_type =
    list<fourscale::nvfp4, fourscale::e2m1, fourscale::bf16, fourscale::errc, fourscale::quantizer<>,
         fourscale::matrix_view<fourscale::bf16 const>, fourscale::transposed_view<float const>,
         fourscale::block_scaled_view<fourscale::nvfp4, fourscale::swizzled_128x4>,
         fourscale::packed_block<fourscale::mxfp8_e4m3>, fourscale::tensor_amax<fourscale::nvfp4>,
         fourscale::stochastic<fourscale::philox<>>, fourscale::hadamard<16>, fourscale::statistics>;

void take(every_type const&, fourscale::block_scaled_view<fourscale::nvfp4, fourscale::swizzled_128x4> const&,
          fourscale::errc);

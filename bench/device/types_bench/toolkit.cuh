// SPDX-License-Identifier: Apache-2.0
// The toolkit's types as sources. What fills them and the host see the same bits as ours.
#pragma once

#include <fourscale/interop/cuda_fp.hpp>

#include "types_bench.cuh"

namespace bench {

template <>
struct same_bits<__nv_bfloat16> {
  using type = f4::bf16;
};
template <>
struct same_bits<__half> {
  using type = f4::fp16;
};

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// The rivals of NVFP4 in 4 and 8 bits, each by what multiplies it fastest.
#include "linear_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  for (const linear_shape s : {linear_shape{8192, 4096, 14336}, {8192, 14336, 4096}}) {
    add_one("mxfp4", &measure<f4::presets::mxfp4().linear, bf16, by_blackwell>, s);
    add_one("mxfp8", &measure<f4::presets::mxfp8().linear, bf16, by_native>, s);
    add_one("fp8_current", &measure<f4::presets::fp8_current().linear, bf16, by_native>, s);
    add_one("fp8_block", &measure<f4::presets::fp8_block().linear, bf16, by_native>, s);
  }
  return true;
}();

}  // namespace

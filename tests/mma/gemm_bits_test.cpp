// SPDX-License-Identifier: Apache-2.0
// The one hash of Blackwell's bits, on a CPU. device/gemm_bits_test.cu has the GPUs.
#include "gemm_bits.hpp"

#include "cpu_gemm.hpp"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("gemm bits: the chained model and host::gemm", "[mma][gemm_bits]") {
  check_bits_of_list("CPU, model::block_scaled_dot", [](auto& c) { return c.oracle(); });
  check_bits_of_list("CPU, host::gemm", [](auto& c) { return c.on_host(cpu_gemm{}); });
}

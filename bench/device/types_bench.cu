// SPDX-License-Identifier: Apache-2.0
// Speed is for all types: formats, types of the source, places in memory, policies of users, small matrices.
// Here sources of type bf16, what the others are compared with; the others in types_bench/.
#include "types_bench/types_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_source<f4::bf16>("bf16");
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
#include "types_bench.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_source<float>("fp32");
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
#include "toolkit.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_source<__nv_bfloat16>("nv_bfloat16");
  return true;
}();

}  // namespace

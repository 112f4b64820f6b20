// SPDX-License-Identifier: Apache-2.0
#include "toolkit.cuh"

using namespace bench;

namespace {

const bool registered = [] {
  add_source<__half>("half");
  return true;
}();

}  // namespace

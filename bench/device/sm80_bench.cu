// SPDX-License-Identifier: Apache-2.0
// What a GPU without FP8 instructions runs: kernels of data_bench compiled for sm_80, whatever GPU this is.
// bench/CMakeLists.txt sees to that.
#include "quantizers.cuh"

using namespace bench;

namespace {

using f4::nvfp4, f4::swizzled_128x4;

template <class Run>
void add_gaussian(std::string const& kernel, Run run) {
  const setup s{.size = {16384, 8192}, .values = data::gaussian};
  add("sm80/" + kernel + "/gaussian/" + to_string(s.size), [=](benchmark::State& state) { run(state, s); });
}

const bool registered = [] {
  add_gaussian("rowwise_nearest",
               [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, nearest); });
  add_gaussian("rowwise_stochastic",
               [](auto& state, setup const& s) { rowwise<nvfp4, swizzled_128x4>(state, s, by_chance); });
  add_gaussian("both_nearest",
               [](auto& state, setup const& s) { both<nvfp4, swizzled_128x4>(state, s, nearest, nearest); });
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// A kernel over shapes.
#pragma once

#include "device/quantizers.cuh"

namespace bench {

using f4::linear, f4::nvfp4, f4::swizzled_128x4;

inline constexpr shape shapes[] = {{16384, 16384}, {8192, 28672}, {2048, 8192}, {4096, 4096}};

template <class Run>
void add_shape(std::string const& kernel, setup const& s, Run run) {
  add(kernel + "/" + to_string(s.size), [=](benchmark::State& state) { run(state, s); });
}
template <class Run>
void add_shapes(std::string const& kernel, Run run) {
  for (const shape s : shapes) add_shape(kernel, setup{.size = s}, run);
}
/// As well for the other shapes of an LLM's activations.
template <class Run>
void add_shapes_of_llms(std::string const& kernel, Run run) {
  add_shapes(kernel, run);
  for (const i64 tokens : {2048, 4096, 8192, 16384})
    for (const i64 features : {4096, 8192, 14336, 28672})
      if (std::none_of(std::begin(shapes), std::end(shapes),
                       [=](shape s) { return s.rows == tokens && s.cols == features; }))
        add_shape(kernel, setup{.size = {tokens, features}}, run);
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// A row of the table of types, sources, policies and sizes.
#pragma once

#include "device/quantizers.cuh"

namespace bench {

using f4::linear, f4::nvfp4, f4::swizzled_128x4;

/// `run(layout, state, setup)`, of Gaussian values unless `s` says otherwise.
template <class Layout, class Run>
void add_type(std::string const& name, setup s, Run run) {
  if (s.values == data::usual) s.values = data::gaussian;
  char const* const layout = Layout::has_padding ? "/swizzled/" : "/linear/";
  add("types/" + name + layout + to_string(s.size),
      [=](benchmark::State& state) { run(Layout{}, state, s); });
}
/// With both layouts of scales.
template <class Run>
void add_type_in_layouts(std::string const& name, setup const& s, Run run) {
  add_type<swizzled_128x4>(name, s, run);
  add_type<linear>(name, s, run);
}

inline constexpr setup usual_setup{.size = {16384, 8192}};

/// A source of type T: each kernel.
template <class T>
void add_source(std::string const& type) {
  add_type_in_layouts(type + "_rowwise", usual_setup, [](auto layout, auto& state, setup const& s) {
    rowwise<nvfp4, decltype(layout), T>(state, s, nearest);
  });
  add_type_in_layouts(type + "_columnwise", usual_setup, [](auto layout, auto& state, setup const& s) {
    columnwise<nvfp4, decltype(layout), T>(state, s, nearest);
  });
  add_type_in_layouts(type + "_both", usual_setup, [](auto layout, auto& state, setup const& s) {
    both<nvfp4, decltype(layout), T>(state, s, nearest, nearest);
  });
}

}  // namespace bench

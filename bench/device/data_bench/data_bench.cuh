// SPDX-License-Identifier: Apache-2.0
// A kernel over all data.
#pragma once

#include "device/quantizers.cuh"

namespace bench {

using f4::nvfp4, f4::swizzled_128x4;

template <class Run>
void add_for_all_data(std::string const& kernel, Run run) {
  const auto add_one = [&](std::string const& name, data::kind_of values, shape s) {
    add("data/" + kernel + "/" + name + "/" + to_string(s),
        [=](benchmark::State& state) { run(state, setup{.size = s, .values = values}); });
  };
  constexpr shape usual{16384, 8192};
  add_one("gaussian", data::gaussian, usual);
  add_one("rows_exp2", data::rows_2, usual);
  add_one("rows_exp3.5", data::rows_3_5, usual);
  add_one("pairs", data::pairs, usual);
  add_one("student_t2", data::student, usual);
  add_one("half_zero_rows", data::half_zero, usual);
  add_one("channels_x50", data::channels, usual);
  add_one("one_in_100", data::sparse, usual);
  add_one("gaussian", data::gaussian, {8192, 28672});
  add_one("pairs", data::pairs, {8192, 28672});
}

}  // namespace bench

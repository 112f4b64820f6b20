// SPDX-License-Identifier: Apache-2.0
// Quantizes each matrix of a checkpoint to each format and back, and measures what was lost. The results do
// not depend on the number of threads: the library's sums do not, and the sums of bands are added in order.
#pragma once

#include <functional>

#include "checkpoint.hpp"
#include "tally.hpp"

namespace inspect {

struct tensor_report {
  std::string name, type;
  u64 rows = 0, cols = 0;
  float amax = 0;  ///< of the finite values
  u64 nan = 0, inf = 0;
  std::array<tally, formats.size()> by_format;
};

struct skipped_tensor {
  tensor_info info;
  std::string reason;
};

struct checkpoint_report {
  std::vector<tensor_report> tensors;
  std::vector<skipped_tensor> skipped;
  std::array<tally, formats.size()> total;
  std::array<error_histogram, formats.size()> errors;  ///< of all tensors, if asked for
  u64 file_bytes = 0;
};

/// Called before each matrix: how many are done, how many there are, the name of the next.
using progress_function = std::function<void(std::size_t, std::size_t, std::string const&)>;

checkpoint_report measure(byte_source const& file, checkpoint const& content, bool with_histograms,
                          progress_function const& progress = {});

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// --write: the checkpoint with its matrices in NVFP4, as compressed-tensors stores them
// ("nvfp4-pack-quantized").
#pragma once

#include "measure.hpp"
#include "report.hpp"

namespace inspect {

/// Writes the whole checkpoint to `out` and finishes it; the caller commits. `report` is that of measure()
/// for this checkpoint.
written_file write_packed(byte_source const& file, checkpoint const& content, checkpoint_report const& report,
                          output_file& out);

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// The report as a picture: how errors are distributed, and how tensors differ.
#pragma once

#include "measure.hpp"

namespace inspect {

/// An SVG document. `report` must hold at least one tensor, and histograms.
std::string plot_svg(checkpoint_report const& report, std::string const& path);

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// The report as text: a table for people, JSON for programs.
#pragma once

#include "measure.hpp"

namespace inspect {

/// What --write did.
struct written_file {
  std::string path;
  u64 bytes = 0;
  std::vector<std::string> packed;
  std::vector<skipped_tensor> copied;  ///< 2-D tensors of an analysed type that could not be packed
};

/// `with_details`: all five numbers for each tensor, and the names of all tensors that were skipped.
std::string table_text(checkpoint_report const& report, bool with_details);
std::string json_text(checkpoint_report const& report, std::string const& path, written_file const* written);
std::string written_text(written_file const& written);

/// The fourscale version: "0.1.0".
std::string version_text();

}  // namespace inspect

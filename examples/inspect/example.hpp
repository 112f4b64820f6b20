// SPDX-License-Identifier: Apache-2.0
// --make-example: a small checkpoint with what real ones have: outlier channels, several types, awkward
// shapes.
#pragma once

#include <string>

namespace inspect {

/// Writes the same bytes on every machine. Throws file_error if `path` is a file that it did not write.
void write_example(std::string const& path);

}  // namespace inspect

// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy, versions 1 to 3: one array, little-endian f2, f4 or f8, in C order.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "checkpoint.hpp"

namespace inspect {

/// True if the file begins as an .npy file does.
bool has_npy_magic(byte_source const& file);

/// One tensor of the given name. Throws file_error with one line if the file is anything else.
checkpoint read_npy(byte_source const& file, std::string const& name);

}  // namespace inspect

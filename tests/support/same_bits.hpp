// SPDX-License-Identifier: Apache-2.0
// Whether two vectors hold the same bytes: NaNs count, and the signs of zeros.
#pragma once

#include <cstring>
#include <vector>

namespace fourscale::test {

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace fourscale::test

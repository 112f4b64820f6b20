// SPDX-License-Identifier: Apache-2.0
// Printing: operator<< and, where fmt is installed, fmt::formatter. Opt-in, because streams and fmt are
// heavy. A code prints as its value ("1.5", "-0", "nan"); fmt takes the format specs of float.
#pragma once

#include <ostream>

#include "convert.hpp"
#include "real.hpp"

// fmt 9 does not compile under nvcc in C++20.
#if __has_include(<fmt/format.h>) && !FOURSCALE_CUDA
#define FOURSCALE_HAS_FMT 1
#include <fmt/format.h>
#else
#define FOURSCALE_HAS_FMT 0
#endif

namespace FOURSCALE_NAMESPACE {

/// Prints the value of a code.
template <format F>
std::ostream& operator<<(std::ostream& out, F code) {
  return out << decode(code);
}
inline std::ostream& operator<<(std::ostream& out, bf16 x) { return out << to_float(x); }
inline std::ostream& operator<<(std::ostream& out, fp16 x) { return out << to_float(x); }

/// Prints the values of a packed word: [1, -0.5].
template <element_format F, int N>
std::ostream& operator<<(std::ostream& out, packed<F, N> codes) {
  for (int i = 0; i < N; ++i) out << (i ? ", " : "[") << decode(codes.get(i));
  return out << ']';
}

}  // namespace FOURSCALE_NAMESPACE

#if FOURSCALE_HAS_FMT
template <fourscale::format F>
struct fmt::formatter<F> : fmt::formatter<float> {
  template <class Context>
  auto format(F code, Context& context) const {
    return fmt::formatter<float>::format(fourscale::decode(code), context);
  }
};
template <>
struct fmt::formatter<fourscale::bf16> : fmt::formatter<float> {
  template <class Context>
  auto format(fourscale::bf16 x, Context& context) const {
    return fmt::formatter<float>::format(fourscale::to_float(x), context);
  }
};
template <>
struct fmt::formatter<fourscale::fp16> : fmt::formatter<float> {
  template <class Context>
  auto format(fourscale::fp16 x, Context& context) const {
    return fmt::formatter<float>::format(fourscale::to_float(x), context);
  }
};
#endif

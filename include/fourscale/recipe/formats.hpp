// SPDX-License-Identifier: Apache-2.0
// The formats that a recipe may name (`format_name`). This file is their only list: their names, block sizes
// and the types that visit() finds follow from it.
#pragma once

#include "../formats/block_formats.hpp"

namespace FOURSCALE_NAMESPACE {

/// The name of a format at run time. bf16: the operand is left as it is.
enum class format_name : u8 {
  bf16,
  nvfp4,
  nvint4,
  mxfp4,
  mxfp8_e4m3,
  mxfp8_e5m2,
  fp8_e4m3,
  fp8_e5m2,
  fp8_block_e4m3,
  fp8_block_e5m2,
};

/// Returns v(F{}) for the format F that f names. Returns `otherwise` where f names no block format: bf16, and
/// any number that is not listed.
template <class Result, class Visitor>
FOURSCALE_H constexpr Result visit_format(format_name f, Result otherwise, Visitor const& v) {
  switch (f) {  // compilers warn of a name that is missing here
    case format_name::bf16:
      return otherwise;
    case format_name::nvfp4:
      return v(nvfp4{});
    case format_name::nvint4:
      return v(nvint4{});
    case format_name::mxfp4:
      return v(mxfp4{});
    case format_name::mxfp8_e4m3:
      return v(mxfp8_e4m3{});
    case format_name::mxfp8_e5m2:
      return v(mxfp8_e5m2{});
    case format_name::fp8_e4m3:
      return v(fp8_e4m3{});
    case format_name::fp8_e5m2:
      return v(fp8_e5m2{});
    case format_name::fp8_block_e4m3:
      return v(fp8_block_e4m3{});
    case format_name::fp8_block_e5m2:
      return v(fp8_block_e5m2{});
  }
  return otherwise;
}

/// The name, such as "nvfp4"; "?" for a number that names no format.
FOURSCALE_H constexpr char const* name(format_name f) {
  return visit_format(f, f == format_name::bf16 ? "bf16" : "?", []<class F>(F) { return F::name; });
}

/// How many values share a scale; 0 for formats whose blocks have no scale.
FOURSCALE_H constexpr int block_size_of(format_name f) {
  return visit_format(f, 0, []<class F>(F) { return block_scale_bytes<F> == 0 ? 0 : F::block_size; });
}

}  // namespace FOURSCALE_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// visit_types(): from types that are known only at run time, as in inference engines, to the types of the
// templates.
#pragma once

#include "../formats/real.hpp"
#include "../view/scale_layout.hpp"
#include "formats.hpp"

namespace FOURSCALE_NAMESPACE {

/// The type of a matrix's values.
enum class element_name : u8 { f32, bf16, fp16 };

/// How block scales lie in memory.
enum class layout_name : u8 { linear, swizzled_128x4 };

/// Returns v(T{}) for the type that e names, or `otherwise` where the number e names none.
template <class Result, class Visitor>
FOURSCALE_H constexpr Result visit_element(element_name e, Result otherwise, Visitor const& v) {
  switch (e) {
    case element_name::f32:
      return v(float{});
    case element_name::bf16:
      return v(bf16{});
    case element_name::fp16:
      return v(fp16{});
  }
  return otherwise;
}

/// Returns v(Layout{}) for the layout that l names, or `otherwise` where the number l names none.
template <class Result, class Visitor>
FOURSCALE_H constexpr Result visit_layout(layout_name l, Result otherwise, Visitor const& v) {
  switch (l) {
    case layout_name::linear:
      return v(linear{});
    case layout_name::swizzled_128x4:
      return v(swizzled_128x4{});
  }
  return otherwise;
}

/// The types of a call of quantize() or dequantize().
struct type_names {
  element_name element = element_name::bf16;
  format_name format = format_name::nvfp4;
  layout_name layout = layout_name::linear;
};

/// Returns v(T{}, F{}, Layout{}) for the types of these names, or `otherwise` where F is not one of Formats
/// or a number names nothing. Only the listed formats are compiled; without a list, all of format_name:
///
///     auto call = [&]<class T, class F, class Layout>(T, F, Layout) {
///       return device::quantize(matrix_view<T const>{static_cast<T const*>(x), rows, cols},
///                               block_scaled_view<F, Layout>{codes, scales, rows, cols, amax_in(amax)});
///     };
///     return visit_types<nvfp4, mxfp8_e4m3>(names, errc::bad_recipe, call);
template <block_format... Formats, class Result, class Visitor>
FOURSCALE_H constexpr Result visit_types(type_names const& names, Result otherwise, Visitor const& v) {
  return visit_format(names.format, otherwise, [&]<class F>(F format) {
    if constexpr (sizeof...(Formats) == 0 || (same_type<F, Formats> || ...))
      return visit_layout(names.layout, otherwise, [&](auto layout) {
        return visit_element(names.element, otherwise,
                             [&](auto element) { return v(element, format, layout); });
      });
    else
      return otherwise;
  });
}

}  // namespace FOURSCALE_NAMESPACE

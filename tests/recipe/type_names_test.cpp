// SPDX-License-Identifier: Apache-2.0
// Types by name at run time: each name leads to its type, formats that are not listed and numbers that name
// nothing lead to none, and the bytes are those of the typed call.
#include <fourscale/host/quantize.hpp>
#include <fourscale/recipe/type_names.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr i64 rows = 130, cols = 256;
constexpr float amax = 3.0f;

/// As an engine would offer it: pointers without types.
errc quantize_untyped(void const* x, u8* codes, u8* scales, type_names const& names) {
  return visit_types<nvfp4, mxfp8_e4m3>(
      names, errc::bad_recipe, [&]<class T, class F, class Layout>(T, F, Layout) {
        return host::quantize(matrix_view<T const>{static_cast<T const*>(x), rows, cols},
                              block_scaled_view<F, Layout>{codes, scales, rows, cols, amax_value(amax)});
      });
}

template <class T, class F, class Layout>
void check(element_name element, format_name format, layout_name layout) {
  INFO(F::name << ' ' << static_cast<int>(element) << ' ' << static_cast<int>(layout));
  std::vector<T> x(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < x.size(); ++i) x[i] = from_float<T>(test::gaussian(i));
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(rows, cols))), want_codes = codes;
  std::vector<u8> scales(static_cast<size_t>(scale_bytes<F, Layout>(rows, cols))), want_scales = scales;
  REQUIRE(host::quantize(matrix_view<T const>{x, rows, cols},
                         block_scaled_view<F, Layout>{want_codes, want_scales, rows, cols,
                                                      amax_value(amax)}) == errc::ok);
  REQUIRE(quantize_untyped(x.data(), codes.data(), scales.data(), {element, format, layout}) == errc::ok);
  CHECK(codes == want_codes);
  CHECK(scales == want_scales);
}

template <class T>
void check_element(element_name e) {
  check<T, nvfp4, linear>(e, format_name::nvfp4, layout_name::linear);
  check<T, nvfp4, swizzled_128x4>(e, format_name::nvfp4, layout_name::swizzled_128x4);
  check<T, mxfp8_e4m3, linear>(e, format_name::mxfp8_e4m3, layout_name::linear);
  check<T, mxfp8_e4m3, swizzled_128x4>(e, format_name::mxfp8_e4m3, layout_name::swizzled_128x4);
}

}  // namespace

TEST_CASE("type_names: untyped pointers are quantized as typed ones", "[recipe][type_names]") {
  check_element<float>(element_name::f32);
  check_element<bf16>(element_name::bf16);
  check_element<fp16>(element_name::fp16);
}

TEST_CASE("type_names: what is not listed, or names nothing, is refused", "[recipe][type_names]") {
  std::vector<float> x(rows * cols);
  std::vector<u8> codes(rows * cols, 0xa5), scales(rows * cols, 0xa5), before = codes;
  const type_names good{element_name::f32, format_name::nvfp4, layout_name::linear};
  auto result = [&](auto change) {
    type_names n = good;
    change(n);
    return quantize_untyped(x.data(), codes.data(), scales.data(), n);
  };
  CHECK(result([](type_names& n) { n.format = format_name::mxfp4; }) == errc::bad_recipe);
  CHECK(result([](type_names& n) { n.format = format_name::bf16; }) == errc::bad_recipe);
  CHECK(result([](type_names& n) { n.format = static_cast<format_name>(99); }) == errc::bad_recipe);
  CHECK(result([](type_names& n) { n.layout = static_cast<layout_name>(2); }) == errc::bad_recipe);
  CHECK(result([](type_names& n) { n.element = static_cast<element_name>(3); }) == errc::bad_recipe);
  CHECK(codes == before);
  CHECK(result([](type_names&) {}) == errc::ok);
}

TEST_CASE("type_names: without a list, every format that has a name", "[recipe][type_names]") {
  int found = 0;
  for (int f = 0; f < 256; ++f)
    found += visit_types(
        {element_name::bf16, static_cast<format_name>(f), layout_name::linear}, 0,
        []<class T, class F, class L>(T, F, L) -> int { return same_type<T, bf16> && same_type<L, linear>; });
  CHECK(found == 9);
}

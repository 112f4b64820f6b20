// SPDX-License-Identifier: Apache-2.0
// The tables of formats and scale rules; and numbers that name nothing: no name is read beyond its table, and
// no recipe that holds one is carried out.
#include <fourscale/recipe/describe.hpp>
#include <fourscale/recipe/fake_quantize.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr i64 rows = 128, cols = 256;

/// What a recipe comes to on an ordinary matrix.
struct outcome {
  errc result;
  bool changed;  ///< y is not x
};
outcome run(operand_recipe const& o) {
  std::vector<float> x(rows * cols), y(rows * cols), original(rows * cols), row_amax(cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = test::gaussian(i);
  std::vector<u8> codes(rows * cols), scales(rows * cols / 4);
  std::vector<percentile_workspace> percentile(1);
  float amax = 3.0f;
  const errc e = host::fake_quantize(
      o, {.format = format_name::nvfp4}, {}, matrix_view<float const>{x, rows, cols},
      matrix_view<float>{y, rows, cols},
      {codes.data(), scales.data(), &amax, row_amax.data(), original.data(), percentile.data()});
  return {e, y != x};
}

constexpr format_name formats[] = {
    format_name::nvfp4,          format_name::nvint4,   format_name::mxfp4,    format_name::mxfp8_e4m3,
    format_name::mxfp8_e5m2,     format_name::fp8_e4m3, format_name::fp8_e5m2, format_name::fp8_block_e4m3,
    format_name::fp8_block_e5m2, format_name::bf16};

template <class E>
constexpr bool is_named(int i) {
  return std::string_view(name(static_cast<E>(i))) != "?";
}

/// How many names an enumeration has: those from 0 on, all different, then only "?".
template <class E>
int count_names() {
  std::set<std::string> names;
  int count = 0;
  for (int i = 0; i < 256; ++i) {
    const std::string text = name(static_cast<E>(i));
    if (text == "?") continue;
    CHECK(i == count);
    CHECK(names.insert(text).second);
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("recipe: each value has a name of its own, and what is no value has none", "[recipe][tables]") {
  static_assert(is_named<format_name>(9) && !is_named<format_name>(77));
  CHECK(count_names<format_name>() == 10);
  CHECK(count_names<scale_rule>() == 11);
  CHECK(count_names<rounding_rule>() == 3);
  CHECK(count_names<sign_source>() == 3);
  CHECK(count_names<amax_source>() == 5);
  CHECK(std::string(name(format_name::bf16)) == "bf16");
  CHECK(std::string(name(format_name::fp8_block_e5m2)) == "fp8_block_e5m2");
  CHECK(std::string(name(scale_rule::four_over_six_mse_448)) == "four_over_six_mse_448");
  CHECK(std::string(name(scale_rule::fp32_scale)) == "fp32_scale");
}

TEST_CASE("recipe: a recipe with a number that names nothing is described and refused", "[recipe][tables]") {
  for (format_name const f : formats)
    for (const int out : {11, 77, 255}) {
      const auto bad = static_cast<u8>(out);
      for (int field = 0; field < 8; ++field) {
        operand_recipe o{.format = f};
        if (field == 0) o.format = static_cast<format_name>(bad);
        if (field == 1) o.blocks = static_cast<block_kind>(bad);
        if (field == 2) o.copy = static_cast<copy_kind>(bad);
        if (field == 3) o.rounding = static_cast<rounding_rule>(bad);
        if (field == 4) o.scale = static_cast<scale_rule>(bad);
        if (field == 5) o.hadamard = 16, o.signs = static_cast<sign_source>(bad);
        if (field == 6) o.amax = static_cast<amax_source>(bad);
        if (field == 7) o.source = static_cast<value_source>(bad);
        INFO("field " << field << ", " << describe(o).c_str());
        CHECK(run(o).result == errc::bad_recipe);
      }
    }
}

TEST_CASE("recipe: the first number beyond each enumeration is refused too", "[recipe][tables]") {
  for (format_name const f : formats) {
    INFO(name(f));
    CHECK(run({.format = f, .rounding = static_cast<rounding_rule>(3)}).result == errc::bad_recipe);
    CHECK(run({.format = f, .rounding = static_cast<rounding_rule>(9)}).result == errc::bad_recipe);
    CHECK(run({.format = f, .scale = static_cast<scale_rule>(11)}).result == errc::bad_recipe);
    CHECK(run({.format = f, .amax = static_cast<amax_source>(5)}).result == errc::bad_recipe);
  }
  CHECK(run({.format = static_cast<format_name>(10)}).result == errc::bad_recipe);
}

TEST_CASE("recipe: each scale rule goes with the formats that it is for", "[recipe][tables]") {
  for (format_name const f : formats) {
    int accepted = 0;
    for (int rule = 0; rule < 11; ++rule) {
      operand_recipe o{.format = f, .scale = static_cast<scale_rule>(rule)};
      if (o.scale == scale_rule::ms_eden) o.hadamard = 128;
      const outcome r = run(o);
      INFO(describe(o).c_str());
      CHECK((r.result == errc::ok || r.result == errc::bad_recipe));
      if (r.result == errc::ok) CHECK(r.changed == (f != format_name::bf16));
      accepted += r.result == errc::ok;
    }
    const bool mx = f == format_name::mxfp4 || f == format_name::mxfp8_e4m3 || f == format_name::mxfp8_e5m2;
    const bool blocks = f == format_name::fp8_block_e4m3 || f == format_name::fp8_block_e5m2;
    INFO(name(f));
    CHECK(accepted == (f == format_name::nvfp4 ? 9 : mx || blocks ? 2 : 1));
  }
}

// SPDX-License-Identifier: Apache-2.0
// Recipes as values: presets, scopes, lines, randomness; and that no switch is accepted and ignored.
#include <fourscale/recipe/describe.hpp>
#include <fourscale/recipe/fake_quantize.hpp>
#include <fourscale/recipe/presets.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr precision_policy all_presets[] = {
    presets::bf16(),        presets::te_nvfp4(),       presets::te_nvfp4_no_rht(), presets::paper(),
    presets::mlp_only(),    presets::nemotron3(),      presets::mxfp4(),           presets::mxfp8(),
    presets::fp8_current(), presets::fp8_delayed(),    presets::fp8_block(),       presets::four_over_six(),
    presets::quartet2(),    presets::te_nvfp4_no_sr(), presets::te_nvfp4_no_2d()};

constexpr i64 rows = 128, cols = 256;
constexpr operand_place place{{7, 3, 1000, 2}, tensor_role::gradient, 2};

/// Buffers for an operand, and the values that it is quantized to.
struct fake_quantized {
  std::vector<u8> codes = std::vector<u8>(rows * cols), scales = std::vector<u8>(rows * cols / 4);
  std::vector<float> row_amax = std::vector<float>(cols), original = std::vector<float>(rows * cols);
  std::vector<percentile_workspace> percentile = std::vector<percentile_workspace>(1);
  float amax = 3.0f;  // what delayed and fixed work under: some values saturate
  std::vector<float> y = std::vector<float>(rows * cols);
  errc result = errc::ok;

  fake_quantized(operand_recipe const& o, operand_place const& at = place,
                 operand_recipe const& stored = {.format = format_name::nvfp4}) {
    std::vector<bf16> x(rows * cols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = from_float<bf16>(test::activation(i / cols, i));
    const bool t = o.copy == copy_kind::columnwise;
    const matrix_view<float> to{y, t ? cols : rows, t ? rows : cols};
    fake_quantize_buffers b{codes.data(),    scales.data(),     &amax, row_amax.data(),
                            original.data(), percentile.data(), 0.99};
    result = host::fake_quantize(o, stored, at, matrix_view<bf16 const>{x, rows, cols}, to, b);
  }
};

constexpr operand_recipe nvfp4_operand{.format = format_name::nvfp4};

/// Base changed by one field.
template <class Change>
operand_recipe with(operand_recipe o, Change change) {
  change(o);
  return o;
}

}  // namespace

TEST_CASE("presets: all differ, as values and as lines", "[recipe][presets]") {
  std::set<std::string> lines;
  for (precision_policy const& p : all_presets) {
    const description d = describe(p);
    CHECK(d.length < static_cast<int>(sizeof d.text) - 1);
    lines.insert(d.c_str());
    for (precision_policy const& q : all_presets) CHECK((p == q) == (&p == &q));
  }
  CHECK(lines.size() == sizeof all_presets / sizeof *all_presets);
}

TEST_CASE("presets: te_nvfp4 reads as the recipe does", "[recipe][presets]") {
  CHECK(std::string(describe(presets::te_nvfp4()).c_str()) ==
        "fprop x nvfp4 1x16, w nvfp4 16x16; dgrad dy nvfp4 1x16 stochastic, w nvfp4 16x16 columnwise; "
        "wgrad dy nvfp4 1x16 columnwise hadamard16:te stochastic, x nvfp4 1x16 columnwise hadamard16:te");
  CHECK(std::string(describe(presets::paper()).c_str())
            .find("; first 2 layers in bf16; last 8 layers in bf16") != std::string::npos);
}

TEST_CASE("presets: each operand of each can be quantized", "[recipe][presets]") {
  for (precision_policy const& p : all_presets)
    for (gemm_recipe const& g : {p.linear.fprop, p.linear.dgrad, p.linear.wgrad})
      for (operand_recipe const& o : {g.a, g.b}) {
        INFO(describe(o).c_str());
        CHECK(fake_quantized(o).result == errc::ok);
      }
}

TEST_CASE("policy: which layers are quantized, and when", "[recipe][policy]") {
  const linear_recipe none{};
  const precision_policy paper = presets::paper();
  int quantized = 0;
  for (int layer = 0; layer < 62; ++layer) quantized += !(paper.at(layer_kind::mlp, layer, 62, 0) == none);
  CHECK(quantized == 52);
  CHECK(paper.at(layer_kind::mlp, 1, 62, 0) == none);
  CHECK(paper.at(layer_kind::attention, 2, 62, 0) == paper.linear);
  CHECK(paper.at(layer_kind::mlp, 53, 62, 0) == paper.linear);
  CHECK(paper.at(layer_kind::mlp, 54, 62, 0) == none);
  CHECK(presets::mlp_only().at(layer_kind::attention, 5, 62, 0) == none);
  CHECK_FALSE(presets::mlp_only().at(layer_kind::mlp, 0, 62, 0) == none);
  const precision_policy nemotron = presets::nemotron3();  // 15 % of 88 layers: 13.2, so 14
  CHECK_FALSE(nemotron.at(layer_kind::mlp, 73, 88, 0) == none);
  CHECK(nemotron.at(layer_kind::mlp, 74, 88, 0) == none);
  CHECK(nemotron.at(layer_kind::attention, 0, 88, 0) == none);

  precision_policy switched = presets::te_nvfp4();
  switched.switched = switch_scope::forward;
  switched.switch_step = 100;
  CHECK(switched.at(layer_kind::mlp, 0, 8, 99) == switched.linear);
  CHECK(switched.at(layer_kind::mlp, 0, 8, 100).fprop == gemm_recipe{});
  CHECK(switched.at(layer_kind::mlp, 0, 8, 100).dgrad == switched.linear.dgrad);
  switched.switched = switch_scope::both;
  CHECK(switched.at(layer_kind::mlp, 0, 8, 100) == none);
  switched.mlp = false;
  CHECK(switched.at(layer_kind::mlp, 0, 8, 0) == none);
}

TEST_CASE("recipe: a switch that is accepted and ignored is a defect", "[recipe][switches]") {
  using o = operand_recipe;
  const o base = nvfp4_operand;
  const o mxfp4{.format = format_name::mxfp4}, blocks{.format = format_name::fp8_block_e4m3};
  const o rotated{.format = format_name::nvfp4, .hadamard = 16};
  const o columnwise{.format = format_name::nvfp4, .copy = copy_kind::columnwise};
  struct change {
    char const* what;
    o from, to;
  };
  const change changes[] = {
      {"format nvint4", base, with(base, [](o& r) { r.format = format_name::nvint4; })},
      {"format mxfp4", base, mxfp4},
      {"format mxfp8_e4m3", base, with(base, [](o& r) { r.format = format_name::mxfp8_e4m3; })},
      {"format mxfp8_e5m2", base, with(base, [](o& r) { r.format = format_name::mxfp8_e5m2; })},
      {"format fp8_e4m3", base, with(base, [](o& r) { r.format = format_name::fp8_e4m3; })},
      {"format fp8_e5m2", base, with(base, [](o& r) { r.format = format_name::fp8_e5m2; })},
      {"format fp8_block_e4m3", base, blocks},
      {"format fp8_block_e5m2", base, with(base, [](o& r) { r.format = format_name::fp8_block_e5m2; })},
      {"tiles", base, with(base, [](o& r) { r.blocks = block_kind::tiles; })},
      {"stochastic", base, with(base, [](o& r) { r.rounding = rounding_rule::stochastic; })},
      {"te_software", with(base, [](o& r) { r.rounding = rounding_rule::stochastic; }),
       with(base, [](o& r) { r.rounding = rounding_rule::te_software; })},
      {"two_level_division", base, with(base, [](o& r) { r.scale = scale_rule::two_level_division; })},
      {"headroom", base, with(base, [](o& r) { r.scale = scale_rule::headroom; })},
      {"stochastic_scale", base, with(base, [](o& r) { r.scale = scale_rule::stochastic_scale; })},
      {"four_over_six_mae", base, with(base, [](o& r) { r.scale = scale_rule::four_over_six_mae; })},
      {"four_over_six_mse", with(base, [](o& r) { r.scale = scale_rule::four_over_six_mae; }),
       with(base, [](o& r) { r.scale = scale_rule::four_over_six_mse; })},
      {"four_over_six_mae_448", with(base, [](o& r) { r.scale = scale_rule::four_over_six_mae; }),
       with(base, [](o& r) { r.scale = scale_rule::four_over_six_mae_448; })},
      {"four_over_six_mse_448", with(base, [](o& r) { r.scale = scale_rule::four_over_six_mse; }),
       with(base, [](o& r) { r.scale = scale_rule::four_over_six_mse_448; })},
      {"hadamard 16", base, rotated},
      {"hadamard 2", rotated, with(rotated, [](o& r) { r.hadamard = 2; })},
      {"hadamard 128", rotated, with(rotated, [](o& r) { r.hadamard = 128; })},
      {"TE's signs", rotated, with(rotated, [](o& r) { r.signs = sign_source::te_fixed; })},
      {"drawn signs", with(rotated, [](o& r) { r.signs = sign_source::te_fixed; }),
       with(rotated, [](o& r) { r.signs = sign_source::drawn; })},
      {"ms_eden", with(rotated, [](o& r) { r.hadamard = 128; }),
       with(rotated, [](o& r) { r.hadamard = 128, r.scale = scale_rule::ms_eden; })},
      {"amax delayed", base, with(base, [](o& r) { r.amax = amax_source::delayed; })},
      {"amax fixed", base, with(base, [](o& r) { r.amax = amax_source::fixed; })},
      {"amax per row", base, with(base, [](o& r) { r.amax = amax_source::per_row; })},
      {"amax percentile", base, with(base, [](o& r) { r.amax = amax_source::percentile; })},
      {"mxfp4 floor", mxfp4, with(mxfp4, [](o& r) { r.scale = scale_rule::floor; })},
      {"fp8 block, fp32 scales", blocks, with(blocks, [](o& r) { r.scale = scale_rule::fp32_scale; })},
      {"columnwise", base, columnwise},
      {"requantized", columnwise, with(columnwise, [](o& r) { r.source = value_source::dequantized; })},
  };
  for (change const& c : changes) {
    INFO(c.what << ": " << describe(c.to).c_str());
    const fake_quantized from(c.from), to(c.to);
    CHECK(to.result == errc::ok);
    const bool changed = from.y != to.y;
    CHECK(changed);
  }
}

TEST_CASE("recipe: parts that do not go together are refused", "[recipe][switches]") {
  using o = operand_recipe;
  for (o const& bad : {
           o{.format = format_name::bf16, .rounding = rounding_rule::stochastic},
           o{.format = format_name::bf16, .hadamard = 16},
           o{.format = format_name::nvfp4, .signs = sign_source::te_fixed},
           o{.format = format_name::nvfp4, .hadamard = 24},
           o{.format = format_name::nvfp4,
           .blocks = block_kind::tiles,
           .rounding = rounding_rule::stochastic},
           o{.format = format_name::nvfp4, .blocks = block_kind::tiles, .hadamard = 16},
           o{.format = format_name::nvfp4, .blocks = block_kind::tiles, .amax = amax_source::per_row},
           o{.format = format_name::nvfp4, .scale = scale_rule::floor},
           o{.format = format_name::nvfp4, .scale = scale_rule::ms_eden, .hadamard = 16},
           o{.format = format_name::nvfp4,
           .rounding = rounding_rule::stochastic,
           .scale = scale_rule::four_over_six_mae},
           o{.format = format_name::mxfp4, .amax = amax_source::delayed},
           o{.format = format_name::mxfp4, .scale = scale_rule::headroom},
           o{.format = format_name::mxfp8_e4m3, .rounding = rounding_rule::te_software},
           o{.format = format_name::fp8_e4m3, .blocks = block_kind::tiles},
       }) {
    INFO(describe(bad).c_str());
    CHECK(fake_quantized(bad).result == errc::bad_recipe);
  }
}

TEST_CASE("describe: what an operand is made from, and numbers of either sign", "[recipe][presets]") {
  operand_recipe o = nvfp4_operand;
  const std::string original = describe(o).c_str();
  o.source = value_source::dequantized;
  CHECK(describe(o).c_str() == original + " requantized");
  for (const i64 number : {i64{0}, i64{7}, i64{-42}, i64{1} << 62, -(i64{1} << 62)})
    CHECK(description{}.add(number).c_str() == std::to_string(number));
}

TEST_CASE("presets: four over six weighs activations and weights in every GEMM, and no gradient",
          "[recipe][presets]") {
  const linear_recipe r = presets::four_over_six().linear;
  for (operand_recipe const& o : {r.fprop.a, r.fprop.b, r.dgrad.b, r.wgrad.b})
    CHECK(o.scale == scale_rule::four_over_six_mae);
  for (operand_recipe const& o : {r.dgrad.a, r.wgrad.a}) CHECK(o.scale == scale_rule::standard);
}

TEST_CASE("presets: quartet2 makes backward operands from the stored copies, but for gradients",
          "[recipe][presets]") {
  const linear_recipe r = presets::quartet2().linear;
  for (operand_recipe const& o : {r.dgrad.b, r.wgrad.b}) CHECK(o.source == value_source::dequantized);
  for (operand_recipe const& o : {r.fprop.a, r.fprop.b, r.dgrad.a, r.wgrad.a})
    CHECK(o.source == value_source::original);
}

TEST_CASE("recipe: an operand from a stored copy depends on how that is stored", "[recipe][switches]") {
  operand_recipe o = nvfp4_operand;
  const fake_quantized original(o);
  o.source = value_source::dequantized;
  CHECK(fake_quantized(o, place, {}).y == original.y);  // stored in bf16: as it was
  for (const copy_kind copy : {copy_kind::rowwise, copy_kind::columnwise}) {
    o.copy = copy;
    const fake_quantized from_nvfp4(o), from_mxfp4(o, place, {.format = format_name::mxfp4});
    CHECK(from_nvfp4.result == errc::ok);
    CHECK(from_mxfp4.result == errc::ok);
    CHECK(from_nvfp4.y != from_mxfp4.y);
  }
}

TEST_CASE("draws: every tensor, copy, step and layer has randomness of its own", "[recipe][draws]") {
  std::set<u64> streams;
  int count = 0;
  for (u64 step : {0u, 1u, 77u})
    for (u32 layer : {0u, 1u, 4095u})
      for (u32 microbatch : {0u, 1u})
        for (tensor_role role : {tensor_role::activation, tensor_role::weight, tensor_role::gradient})
          for (bool columnwise : {false, true}) {
            const draw_key key{5, layer, step, microbatch};
            streams.insert(key.elements(role, columnwise).stream);
            streams.insert(key.scales(role, columnwise).stream);
            count += 2;
          }
  CHECK(static_cast<int>(streams.size()) == count);

  const draw_key key{5, 1, 2, 3};
  CHECK(key.signs(2) == draw_key{5, 1, 2, 3}.signs(2));
  for (draw_key const& other :
       {draw_key{6, 1, 2, 3}, draw_key{5, 2, 2, 3}, draw_key{5, 1, 3, 3}, draw_key{5, 1, 2, 4}})
    CHECK_FALSE(other.signs(2) == key.signs(2));
  CHECK_FALSE(key.signs(1) == key.signs(2));
}

TEST_CASE("draws: stochastic operands follow seed, step, layer and microbatch", "[recipe][draws]") {
  const operand_recipe o{.format = format_name::nvfp4, .rounding = rounding_rule::stochastic};
  const fake_quantized base(o);
  const auto same = [&](fake_quantized const& e) { return e.y == base.y; };
  CHECK(same(fake_quantized(o)));
  for (draw_key const& key :
       {draw_key{8, 3, 1000, 2}, draw_key{7, 4, 1000, 2}, draw_key{7, 3, 1001, 2}, draw_key{7, 3, 1000, 3}})
    CHECK_FALSE(same(fake_quantized(o, {key, place.role, place.gemm})));
  CHECK_FALSE(same(fake_quantized(o, {place.key, tensor_role::activation, place.gemm})));
}

TEST_CASE("draws: no two layers below 4096 share a stream, and no two microbatches below 65536",
          "[recipe][draws]") {
  std::set<u64> streams;
  for (u32 layer = 0; layer < 4096; ++layer)
    streams.insert(draw_key{5, layer, 1, 2}.elements(tensor_role::weight, false).stream);
  CHECK(streams.size() == 4096);
  streams.clear();
  for (u32 microbatch = 0; microbatch < 65536; ++microbatch)
    streams.insert(draw_key{5, 1, 1, microbatch}.elements(tensor_role::weight, false).stream);
  CHECK(streams.size() == 65536);
}

TEST_CASE("draws: signs beyond the 64th are drawn as well", "[recipe][draws]") {
  std::set<u64> words;
  for (u32 layer = 0; layer < 100; ++layer) {
    const sign_vector signs = draw_key{5, layer, 1, 2}.signs(2);
    words.insert(signs.words[0]);
    words.insert(signs.words[1]);
  }
  CHECK(words.size() == 200);
}

TEST_CASE("draws: a GEMM beyond the fourth takes signs of its layer, not of the next", "[recipe][draws]") {
  const draw_key key{5, 2, 1, 2};
  for (u32 gemm = 0; gemm < 4; ++gemm)
    for (u32 beyond : {4u, 16u, 0xffff'fffcu}) CHECK(key.signs(gemm + beyond) == key.signs(gemm));
  CHECK_FALSE(key.signs(16 + 2) == draw_key{5, 3, 1, 2}.signs(2));
}

TEST_CASE("draws: a copy that is rounded stochastically draws from the stream of that copy",
          "[recipe][draws]") {
  for (const copy_kind copy : {copy_kind::rowwise, copy_kind::columnwise}) {
    operand_recipe o = nvfp4_operand;
    o.copy = copy;
    o.rounding = rounding_rule::stochastic;
    u64 stream = 0;
    const auto look = [&](auto, auto const& q, auto) {
      if constexpr (requires { q.round.bits.stream; }) stream = q.round.bits.stream;
    };
    REQUIRE(visit(o, place, look));
    CHECK(stream == place.key.elements(place.role, copy == copy_kind::columnwise).stream);
  }
}

// SPDX-License-Identifier: Apache-2.0
// What linear layers refuse: recipes, shapes, memory, orders of calls; outputs are then untouched. And what
// merge_rows() refuses.
#include "recipe/linear_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear, no_rht = presets::te_nvfp4_no_rht().linear,
                        drawn = te_with_drawn_signs();

template <class Change>
constexpr linear_recipe with(Change change) {
  linear_recipe r = te;
  change(r);
  return r;
}

/// All that a call may write.
struct contents {
  std::vector<u8> memory;
  std::vector<bf16> y, dx;
  std::vector<float> dw;

  template <class Case>
  explicit contents(Case const& c) : y(c.y), dx(c.dx), dw(c.dw) {
    for (auto const* part : {&c.weights, &c.saved, &c.workspace})
      memory.insert(memory.end(), part->begin(), part->end());
  }
  bool operator==(contents const& o) const {
    return memory == o.memory && dw == o.dw &&
           __builtin_memcmp(y.data(), o.y.data(), y.size() * sizeof(bf16)) == 0 &&
           __builtin_memcmp(dx.data(), o.dx.data(), dx.size() * sizeof(bf16)) == 0;
  }
};

/// The call must fail with `want`, and write nothing.
template <class Case, class Call>
void check_refused(Case& c, errc want, Call call) {
  const contents before(c);
  CHECK(call() == want);
  const bool untouched = before == contents(c);
  CHECK(untouched);
}

/// The types that visit() finds are those of quantizer_of(), but for the transform.
template <operand_recipe O>
void check_types() {
  bool same = false;
  REQUIRE(visit(O, {}, [&]<class F, class Q, class B>(F, Q const&, B) {
    using found = decltype(quantizer_of<O>({}));
    if constexpr (requires { Q::round; })  // ms_eden has none
      same = same_type<F, format_of<O>> && same_type<B, decltype(blocks_of<O>())> &&
             same_type<decltype(Q::round), decltype(found::round)> &&
             same_type<decltype(Q::scale), decltype(found::scale)>;
  }));
  CHECK(same);
}
/// Both copies of dY may be in the `other` format of a family, but not one of them; and not W in a format
/// `outside` of it.
void check_family(linear_recipe r, format_name other, format_name outside) {
  r.wgrad.a.format = other;
  CHECK(validate(r) == errc::bad_recipe);
  r.dgrad.a.format = other;
  CHECK(validate(r) == errc::ok);
  r.fprop.b.format = r.dgrad.b.format = outside;
  CHECK(validate(r) == errc::bad_recipe);
}
constexpr operand_recipe nvfp4_by(scale_rule s) { return {.format = format_name::nvfp4, .scale = s}; }

}  // namespace

TEST_CASE("linear: recipes that it does not take", "[recipe][linear]") {
  for (precision_policy const& p :
       {presets::te_nvfp4(), presets::te_nvfp4_no_rht(), presets::paper(), presets::mxfp4(), presets::mxfp8(),
        presets::four_over_six(), presets::fp8_current(), presets::fp8_delayed(), presets::fp8_block()})
    CHECK(validate(p.linear) == errc::ok);
  CHECK(validate(drawn) == errc::ok);
  for (precision_policy const& p : {presets::bf16(), presets::quartet2()})
    CHECK(validate(p.linear) == errc::bad_recipe);
  using r = linear_recipe;
  CHECK(validate(with([](r& l) { l.wgrad.b.signs = sign_source::drawn; })) == errc::other_signs);
  CHECK(validate(with([](r& l) { l.wgrad.a.signs = sign_source::none; })) == errc::other_signs);
  CHECK(validate(with([](r& l) { l.wgrad.b.hadamard = 8; })) == errc::other_signs);
  CHECK(validate(with([](r& l) { l.wgrad.b.hadamard = 0, l.wgrad.b.signs = sign_source::none; })) ==
        errc::other_signs);
  CHECK(validate(with([](r& l) { l.wgrad.a.hadamard = l.wgrad.b.hadamard = 32; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.fprop.a.hadamard = l.fprop.b.hadamard = 16; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.fprop = {}; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.wgrad.a.format = l.wgrad.b.format = format_name::mxfp4; })) ==
        errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.dgrad.b.copy = copy_kind::rowwise; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.dgrad.b.blocks = block_kind::along_rows; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.dgrad.b.scale = scale_rule::headroom; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.fprop.a.amax = amax_source::per_row; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.wgrad.b.amax = amax_source::delayed; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.wgrad.b.source = value_source::dequantized; })) == errc::bad_recipe);
  CHECK(validate(with([](r& l) { l.fprop.a.scale = scale_rule::floor; })) == errc::bad_recipe);
  check_family(presets::fp8_current().linear, format_name::fp8_e4m3, format_name::fp8_block_e4m3);
  check_family(presets::mxfp8().linear, format_name::mxfp8_e5m2, format_name::mxfp4);
  for (r rotated : {presets::fp8_block().linear, presets::mxfp8().linear}) {
    rotated.wgrad.a.hadamard = rotated.wgrad.b.hadamard = 16;
    CHECK(validate(rotated) == errc::bad_recipe);
  }
}

TEST_CASE("linear: the types of a constant recipe are those that visit() finds", "[recipe][linear]") {
  check_types<te.fprop.a>(), check_types<te.fprop.b>(), check_types<te.dgrad.a>(), check_types<te.dgrad.b>();
  check_types<te.wgrad.a>(), check_types<te.wgrad.b>();
  check_types<presets::mxfp4().linear.fprop.b>(), check_types<presets::mxfp4().linear.wgrad.a>();
  check_types<presets::mxfp8().linear.fprop.b>(), check_types<presets::mxfp8().linear.wgrad.a>();
  check_types<operand_recipe{.format = format_name::nvfp4, .rounding = rounding_rule::te_software}>();
  check_types<operand_recipe{.format = format_name::mxfp4, .scale = scale_rule::floor}>();
  check_types<presets::fp8_current().linear.fprop.a>(), check_types<presets::fp8_current().linear.dgrad.a>();
  check_types<presets::fp8_block().linear.fprop.b>(), check_types<presets::fp8_block().linear.wgrad.a>();
  check_types<operand_recipe{.format = format_name::fp8_block_e5m2, .scale = scale_rule::fp32_scale}>();
  using enum scale_rule;
  check_types<nvfp4_by(two_level_division)>(), check_types<nvfp4_by(headroom)>();
  check_types<nvfp4_by(stochastic_scale)>(), check_types<nvfp4_by(four_over_six_mae)>();
  check_types<nvfp4_by(four_over_six_mse)>(), check_types<nvfp4_by(four_over_six_mae_448)>();
  check_types<nvfp4_by(four_over_six_mse_448)>();
}

TEST_CASE("linear: shapes and memory that it refuses", "[recipe][linear]") {
  linear_case<te> c({48, 64, 80});
  using layer = decltype(c)::layer;
  const auto place = [&](linear_shape s, linear_memory w, linear_memory saved, linear_memory work) {
    const auto before = c.t;
    const errc e = layer::place(s, w, saved, work, &c.t);
    CHECK((c.t.x.amax == before.x.amax && c.t.w.rowwise.codes == before.w.rowwise.codes));
    return e;
  };
  const linear_memory w = c.all_of(c.weights), saved = c.all_of(c.saved), work = c.all_of(c.workspace);
  const auto smaller = [](linear_memory m) { return linear_memory{m.data, m.bytes - 1}; };
  const auto later = [](linear_memory m) { return linear_memory{static_cast<u8*>(m.data) + 1, m.bytes}; };
  CHECK(place(c.s, smaller(w), saved, work) == errc::no_workspace);
  CHECK(place(c.s, w, smaller(saved), work) == errc::no_workspace);
  CHECK(place(c.s, w, saved, smaller(work)) == errc::no_workspace);
  CHECK(place(c.s, later(w), saved, work) == errc::misaligned);
  CHECK(place(c.s, w, later(saved), work) == errc::misaligned);
  CHECK(place(c.s, w, saved, later(work)) == errc::misaligned);
  CHECK(place(c.s, w, saved, {}) == errc::null_pointer);
  CHECK(place(c.s, w, saved, w) == errc::overlap);
  CHECK(place(c.s, w, w, work) == errc::overlap);
  for (const linear_shape s : {linear_shape{40, 64, 80}, {48, 72, 80}, {48, 64, 81}})
    CHECK(place(s, w, saved, work) == errc::partial_block);
  CHECK(place({0, 64, 80}, w, saved, work) == errc::empty_matrix);
  CHECK(place({48, i64{1} << 31, 80}, w, saved, work) == errc::too_large);
  CHECK(layer::place(c.s, w, saved, work, nullptr) == errc::null_pointer);
  CHECK(c.t.x.place(c.s, work) == errc::ok);
  CHECK(c.t.x.place(c.s, smaller({work.data, c.t.x.bytes(c.s)})) == errc::no_workspace);
}

TEST_CASE("linear: steps refuse what does not fit, and write nothing", "[recipe][linear]") {
  linear_case<te> c({48, 64, 80});
  using layer = decltype(c)::layer;
  const layer run;
  const matrix_view<bf16 const> short_x{c.x, 32, 64}, null_x{static_cast<bf16 const*>(nullptr), 48, 64};
  layer::tensors nowhere;
  check_refused(c, errc::shape_mismatch, [&] { return run.amax(short_x, c.key, c.t.x); });
  check_refused(c, errc::null_pointer, [&] { return run.amax(null_x, c.key, c.t.x); });
  check_refused(c, errc::shape_mismatch, [&] { return run.quantize(short_x, c.key, &c.t.x); });
  check_refused(c, errc::shape_mismatch, [&] { return run.quantize(c.in_x(), c.key, &c.t.w); });
  check_refused(c, errc::shape_mismatch, [&] { return run.quantize(c.in_x(), c.key, &nowhere.x); });
  check_refused(c, errc::empty_matrix, [&] { return run.fprop(nowhere, c.out_y()); });
  check_refused(c, errc::shape_mismatch, [&] { return run.fprop(c.t, c.out_dx()); });
  check_refused(c, errc::shape_mismatch,
                [&] { return run.forward(short_x, c.in_w(), c.key, &c.t, c.out_y()); });
  check_refused(c, errc::null_pointer,
                [&] { return run.forward(c.in_x(), c.in_w(), c.key, nullptr, c.out_y()); });
  check_refused(c, errc::shape_mismatch,
                [&] { return run.forward(c.in_x(), c.in_w(), c.key, &c.t, c.out_dx()); });
  check_refused(c, errc::shape_mismatch, [&] {
    return run.forward(c.in_x(), matrix_view<float const>{c.w, 64, 80}, c.key, &c.t, c.out_y());
  });
  const matrix_view<bf16> in_saved{reinterpret_cast<bf16*>(c.t.x.rowwise.codes), 48, 80};
  check_refused(c, errc::overlap, [&] { return run.forward(c.in_x(), c.in_w(), c.key, &c.t, in_saved); });
  const matrix_view<bf16 const> x_in_y{c.y, 48, 64};
  check_refused(c, errc::overlap, [&] { return run.forward(x_in_y, c.in_w(), c.key, &c.t, c.out_y()); });
  const matrix_view<bf16> over_w{reinterpret_cast<bf16*>(c.w.data()), 48, 80};
  check_refused(c, errc::overlap, [&] { return run.forward(c.in_x(), c.in_w(), c.key, &c.t, over_w); });

  REQUIRE(c.forward() == errc::ok);
  const matrix_view<float> small_dw{c.dw, 64, 64}, over_dx{reinterpret_cast<float*>(c.dw.data()), 80, 64};
  const matrix_view<bf16> in_dw{reinterpret_cast<bf16*>(c.dw.data()), 48, 64};
  check_refused(c, errc::shape_mismatch,
                [&] { return run.backward(c.in_dy(), c.key, &c.t, c.out_dx(), small_dw, 0.0f); });
  check_refused(c, errc::overlap, [&] { return run.backward(c.in_dy(), c.key, &c.t, in_dw, over_dx, 0.0f); });
  check_refused(c, errc::shape_mismatch,
                [&] { return run.backward(c.in_x(), c.key, &c.t, c.out_dx(), c.out_dw(), 0.0f); });
}

TEST_CASE("linear: no matrix may lie in what the layer's tensors view", "[recipe][linear]") {
  linear_case<te> c({48, 64, 80});
  using layer = decltype(c)::layer;
  const layer run;
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward() == errc::ok);
  // A call that begins would now write other bits.
  c.x = random_values<bf16>(48 * 64, 4), c.dy = random_values<bf16>(48 * 80, 5);
  c.w = random_values<float>(80 * 64, 6);
  std::vector<u8> gemm(64);  // on a CPU GEMMs need none
  c.t.gemm = {gemm.data(), 64};
  auto const& t = c.t;
  for (void* in : {static_cast<void*>(t.x.rowwise.codes), static_cast<void*>(t.x.columnwise.scales),
                   static_cast<void*>(t.x.amax), static_cast<void*>(t.w.rowwise.scales),
                   static_cast<void*>(t.w.columnwise.codes), static_cast<void*>(t.dy.rowwise.codes),
                   static_cast<void*>(t.dy.columnwise.codes), t.gemm.data}) {
    const matrix_view<bf16> tokens_out{static_cast<bf16*>(in), 48, 80}, tokens_in{tokens_out.data, 48, 64};
    const matrix_view<float> weights{static_cast<float*>(in), 80, 64};
    const matrix_view<bf16 const> x = tokens_in, dy = tokens_out;
    const matrix_view<float const> w = weights;
    check_refused(c, errc::overlap, [&] { return run.forward(x, c.key, &c.t, c.out_y()); });
    check_refused(c, errc::overlap, [&] { return run.forward(c.in_x(), w, c.key, &c.t, c.out_y()); });
    check_refused(c, errc::overlap, [&] { return run.forward(c.in_x(), c.key, &c.t, tokens_out); });
    check_refused(c, errc::overlap, [&] { return run.fprop(t, tokens_out); });
    check_refused(c, errc::overlap, [&] { return run.dgrad(t, tokens_in); });
    check_refused(c, errc::overlap, [&] { return run.wgrad(t, weights, 0.0f); });
    check_refused(c, errc::overlap,
                  [&] { return run.backward(dy, c.key, &c.t, c.out_dx(), c.out_dw(), 0.0f); });
    check_refused(c, errc::overlap,
                  [&] { return run.backward(c.in_dy(), c.key, &c.t, tokens_in, c.out_dw(), 0.0f); });
    check_refused(c, errc::overlap,
                  [&] { return run.backward(c.in_dy(), c.key, &c.t, c.out_dx(), weights, 0.0f); });
  }
}

TEST_CASE("linear: X and dY under other signs are refused", "[recipe][linear]") {
  linear_case<drawn> c({48, 64, 80});
  const decltype(c)::layer run;
  check_refused(c, errc::no_copy, [&] { return c.backward(); });  // no X was quantized
  REQUIRE(c.forward() == errc::ok);
  const draw_key key = c.key;
  c.key.step += 1;
  check_refused(c, errc::other_signs, [&] { return c.backward(); });
  REQUIRE(run.quantize(c.in_dy(), c.key, &c.t.dy) == errc::ok);
  check_refused(c, errc::other_signs, [&] { return run.wgrad(c.t, c.out_dw(), 0.0f); });
  c.key = key;
  CHECK(c.backward() == errc::ok);
}

TEST_CASE("linear: no GEMM reads a columnwise copy that is not of its tensor", "[recipe][linear]") {
  linear_case<no_rht> c({48, 64, 80});  // no transform, so that no signs tell
  const decltype(c)::layer run;
  const auto backward = [&] { return c.backward(); };
  const auto dgrad = [&] { return run.dgrad(c.t, c.out_dx()); };
  const auto wgrad = [&] { return run.wgrad(c.t, c.out_dw(), 0.0f); };
  check_refused(c, errc::no_copy, backward);
  REQUIRE(c.forward() == errc::ok);
  check_refused(c, errc::no_copy, wgrad);  // there is no dY
  REQUIRE(run.quantize(c.in_dy(), c.key, &c.t.dy) == errc::ok);
  CHECK(wgrad() == errc::ok);
  c.x = random_values<bf16>(48 * 64, 11);  // a forward without a backward
  REQUIRE(run.quantize_rows(c.in_x(), c.key, &c.t.x) == errc::ok);
  check_refused(c, errc::no_copy, wgrad);
  check_refused(c, errc::no_copy, backward);
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(run.quantize_rows(c.in_w(), c.key, &c.t.w) == errc::ok);
  check_refused(c, errc::no_copy, dgrad);
  check_refused(c, errc::no_copy, backward);
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward() == errc::ok);
  CHECK(expected_dw(c).outside(c.dw) == 0);
}

TEST_CASE("linear: what is kept of X may not lie where dY is put", "[recipe][linear]") {
  linear_case<no_rht> c({48, 64, 80});
  const i64 at = decltype(c.t.x)::rowwise_bytes(c.s), left = c.n.workspace - at;
  REQUIRE(c.t.x.place(c.s, c.all_of(c.workspace), {c.workspace.data() + at, left}) == errc::ok);
  check_refused(c, errc::overlap, [&] { return c.forward(); });
  c.t.x.made_under(c.key);
  check_refused(c, errc::overlap, [&] { return c.backward(); });
}

TEST_CASE("linear: tensors that are placed again over their copies say so", "[recipe][linear]") {
  linear_case<drawn> c({48, 64, 80});
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.place() == errc::ok);
  check_refused(c, errc::no_copy, [&] { return c.backward(); });
  c.t.x.made_under(c.key);
  REQUIRE(c.backward() == errc::ok);
  CHECK(expected_dw(c).outside(c.dw) == 0);
}

TEST_CASE("linear: an amax of the caller's stays", "[recipe][linear]") {
  constexpr linear_recipe delayed = with([](linear_recipe& r) {
    for (operand_recipe* o : {&r.fprop.a, &r.fprop.b, &r.dgrad.a, &r.dgrad.b, &r.wgrad.a, &r.wgrad.b})
      o->amax = amax_source::delayed;
  });
  linear_case<delayed> c({48, 64, 80});
  c.t.x.amax[0] = 2.5f, c.t.x.amax[1] = 3.5f, *c.t.w.amax = 0.25f;
  REQUIRE(c.forward() == errc::ok);
  CHECK(c.t.x.amax[0] == 2.5f);
  CHECK(c.t.x.amax[1] == 3.5f);
  CHECK(c.t.x.rowwise.amax.scale_of_row(0).amax == 2.5f);
  CHECK(c.t.x.columnwise.amax.scale_of_row(0).amax == 3.5f);
}

TEST_CASE("linear: rows are merged under one amax only", "[recipe][linear]") {
  std::vector<u8> codes(96 * 32), scales(96 * 4);
  const auto rows = [&](i64 first, i64 count, float amax) {
    return block_scaled_view<nvfp4>{codes.data() + first * 32, scales.data() + first * 4, count, 64,
                                    amax_value(amax)};
  };
  block_scaled_view<nvfp4> all;
  CHECK(merge_rows(rows(0, 32, 2.0f), rows(32, 64, 3.0f), &all) == errc::other_amax);
  CHECK(merge_rows(rows(0, 32, 2.0f), rows(48, 48, 2.0f), &all) == errc::not_adjacent);
  auto narrow = rows(32, 64, 2.0f);
  narrow.cols = 48;
  CHECK(merge_rows(rows(0, 32, 2.0f), narrow, &all) == errc::shape_mismatch);
  CHECK(merge_rows(rows(0, 32, 2.0f), rows(32, 64, 2.0f), static_cast<decltype(&all)>(nullptr)) ==
        errc::null_pointer);
  block_scaled_view<nvfp4> by_row = rows(0, 32, 2.0f);
  std::vector<float> amaxes(96);
  by_row.amax = amax_of_rows(amaxes.data());
  auto second = rows(32, 64, 2.0f);
  second.amax = by_row.amax;
  CHECK(merge_rows(by_row, second, &all) == errc::other_amax);
  CHECK(all.codes == nullptr);
  REQUIRE(merge_rows(rows(0, 32, 2.0f), rows(32, 64, 2.0f), &all) == errc::ok);
  CHECK((all.rows == 96 && all.cols == 64 && all.codes == codes.data()));
  block_scaled_view<nvfp4, swizzled_128x4> tile{codes.data(), scales.data(), 32, 64, amax_value(1.0f)},
      next{codes.data() + 32 * 32, scales.data() + 512, 64, 64, amax_value(1.0f)}, both;
  CHECK(merge_rows(tile, next, &both) == errc::not_adjacent);
}

// SPDX-License-Identifier: Apache-2.0
// Experts in one call: each has the bits of a linear layer by itself; what is refused.
#include <algorithm>
#include <utility>

#include "recipe/grouped_case.hpp"
#include "support/same_bits.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

/// Every expert by itself, with the matrices of the group; its dW goes on top of `dw_before`.
template <linear_recipe R, class L>
void check_expert(grouped_case<R, L>& g, std::vector<float> const& dw_before, i64 i, bool add) {
  const auto [tokens, in, out] = g.all;
  const i64 first = g.first_of(i), count = g.tokens_of(i), size = out * in;
  const std::vector<float> dw = part(g.dw, i * size, size), before = part(dw_before, i * size, size);
  if (count == 0) {
    CHECK(same_bits(dw, add ? before : std::vector<float>(static_cast<size_t>(size))));
    return;
  }
  linear_case<R, L> alone = g.alone(i, dw_before);
  REQUIRE(alone.forward() == errc::ok);
  REQUIRE(alone.backward(add ? 1.0f : 0.0f) == errc::ok);
  CHECK(same_bits(part(g.y, first * out, count * out), alone.y));
  CHECK(same_bits(part(g.dx, first * in, count * in), alone.dx));
  CHECK(same_bits(dw, alone.dw));
}

template <linear_recipe R, class L = linear>
void check_experts(linear_shape all, std::vector<i64> const& offsets) {
  grouped_case<R, L> g(all, offsets);
  const std::vector<bf16> y = g.y, dx = g.dx;
  for (const bool add : {false, true}) {
    const std::vector<float> dw = g.dw;
    REQUIRE(g.forward() == errc::ok);
    REQUIRE(g.backward(add) == errc::ok);
    for (i64 i = 0; i < g.count; ++i) check_expert(g, dw, i, add);
  }
  const i64 end = offsets.back(), rest = all.tokens - end;  // rows of no expert
  CHECK(same_bits(part(g.y, end * all.out, rest * all.out), part(y, end * all.out, rest * all.out)));
  CHECK(same_bits(part(g.dx, end * all.in, rest * all.in), part(dx, end * all.in, rest * all.in)));
}

/// All that a call may write.
template <class Case>
auto contents(Case const& g) {
  std::vector<u8> all = g.weights;
  const auto append = [&](auto const& v) {
    const auto* bytes = reinterpret_cast<u8 const*>(v.data());
    all.insert(all.end(), bytes, bytes + v.size() * sizeof(v[0]));
  };
  append(g.saved), append(g.workspace), append(g.y), append(g.dx), append(g.dw);
  return all;
}
template <class Case, class Call>
void check_refused(Case& g, errc want, Call call) {
  const auto before = contents(g);
  CHECK(call() == want);
  const bool untouched = before == contents(g);
  CHECK(untouched);
}

}  // namespace

TEST_CASE("linear: experts in one call have the bits of each alone", "[recipe][linear][grouped]") {
  check_experts<te>({160, 64, 80}, {0, 48, 48, 64, 144});
  check_experts<te, swizzled_128x4>({160, 80, 48}, {0, 0, 144, 160, 160});
  check_experts<presets::te_nvfp4_no_rht().linear>({64, 48, 32}, {0, 16, 64});
  check_experts<presets::mxfp4().linear>({128, 64, 32}, {0, 32, 32, 128});
  check_experts<presets::mxfp8().linear>({128, 64, 32}, {0, 32, 32, 128});
  check_experts<te_with_drawn_signs()>({64, 48, 32}, {0, 16, 64});
  check_experts<te>({32, 16, 16}, {0, 0, 0});  // nobody has tokens
}

namespace {

/// Copies of all experts lie one behind the other, before what GEMMs work in, however the tokens fall.
template <linear_recipe R, class L>
void check_places(linear_shape all, i64 count, u64 seed) {
  using layer = host::grouped_linear_layer<R, L>;
  using tensors = typename layer::tensors;
  const linear_bytes n = layer::bytes(all, count);
  std::vector<u8> weights(static_cast<size_t>(n.weights)), saved(static_cast<size_t>(n.saved)),
      workspace(static_cast<size_t>(n.workspace));
  std::vector<i64> offsets{0};
  for (i64 i = 0; i < count; ++i) {
    const i64 left = (all.tokens - offsets.back()) / layer::block,
              share = static_cast<i64>(mix(seed * 1000 + static_cast<u64>(i)) % static_cast<u64>(left + 1));
    offsets.push_back(offsets.back() + layer::block * (i + 1 == count ? left : share / 2));
  }
  std::vector<tensors> t(static_cast<size_t>(count));
  REQUIRE(layer::place(all, {offsets.data(), count}, {weights.data(), n.weights}, {saved.data(), n.saved},
                       {workspace.data(), n.workspace}, t.data()) == errc::ok);
  u8* end = workspace.data();
  u8* saved_end = saved.data();
  for (tensors const& x : t) {
    if (x.x.rowwise.rows == 0) continue;
    const linear_shape of_expert{x.x.rowwise.rows, all.in, all.out};
    CHECK(x.x.rowwise.codes == end);
    void const* const first_saved =
        x.x.amax == nullptr ? x.x.columnwise.codes : static_cast<void const*>(x.x.amax);
    CHECK(first_saved == saved_end);
    end += tensors::before_gemm(of_expert);
    saved_end += decltype(x.x)::columnwise_bytes(of_expert);
    CHECK(end <= static_cast<u8*>(x.gemm.data));
    CHECK(x.gemm.bytes == workspace.data() + n.workspace - static_cast<u8*>(x.gemm.data));
  }
  CHECK(saved_end <= saved.data() + n.saved);
}

}  // namespace

TEST_CASE("linear: the bytes of experts suffice however the tokens fall", "[recipe][linear][grouped]") {
  for (u64 seed = 0; seed < 50; ++seed) {
    const auto count = static_cast<i64>(seed % 7 + 1);
    check_places<te, linear>({480, 48, 80}, count, seed);
    check_places<te, swizzled_128x4>({480, 48, 336}, count, seed);
    check_places<presets::mxfp4().linear, swizzled_128x4>({480, 96, 32}, count, seed);
    check_places<presets::mxfp8().linear, linear>({480, 32, 96}, count, seed);
  }
}

TEST_CASE("linear: experts draw independently, and not as the layer itself", "[recipe][linear][grouped]") {
  const draw_key key{5, 1, 17, 3};
  const draw_key a = key.of_expert(0), b = key.of_expert(1);
  CHECK((a.seed != b.seed && a.seed != key.seed && b.seed != key.seed));
  CHECK((a.layer == key.layer && a.step == key.step && a.microbatch == key.microbatch));
  grouped_case<te> g({64, 64, 64}, {0, 32, 64});
  std::copy(g.x.begin(), g.x.begin() + 32 * 64, g.x.begin() + 32 * 64);
  std::copy(g.dy.begin(), g.dy.begin() + 32 * 64, g.dy.begin() + 32 * 64);
  std::copy(g.w.begin(), g.w.begin() + 64 * 64, g.w.begin() + 64 * 64);
  REQUIRE(g.forward() == errc::ok);
  REQUIRE(g.backward() == errc::ok);
  CHECK(same_bits(part(g.y, 0, 32 * 64), part(g.y, 32 * 64, 32 * 64)));
  CHECK_FALSE(same_bits(part(g.dx, 0, 32 * 64), part(g.dx, 32 * 64, 32 * 64)));
}

TEST_CASE("linear: rows of 0 behind an expert's tokens change nothing", "[recipe][linear][grouped]") {
  grouped_case<te> padded({96, 64, 80}, {0, 48, 96}), exact({80, 64, 80}, {0, 32, 80});
  for (auto [v, cols] : {std::pair{&padded.x, 64}, std::pair{&padded.dy, 80}})
    std::fill(v->begin() + 32 * cols, v->begin() + 48 * cols, bf16{});
  const auto without = [](std::vector<bf16> const& v, i64 cols) {
    std::vector<bf16> r = part(v, 0, 32 * cols);
    r.insert(r.end(), v.begin() + 48 * cols, v.end());
    return r;
  };
  exact.x = without(padded.x, 64);
  exact.dy = without(padded.dy, 80);
  for (auto* g : {&padded, &exact}) {
    REQUIRE(g->forward() == errc::ok);
    REQUIRE(g->backward() == errc::ok);
  }
  CHECK(same_bits(without(padded.y, 80), exact.y));
  CHECK(same_bits(without(padded.dx, 64), exact.dx));
  CHECK(same_bits(padded.dw, exact.dw));
}

TEST_CASE("linear: other tokens, the same quantized weights", "[recipe][linear][grouped]") {
  grouped_case<te> g({96, 64, 80}, {0, 48, 48, 96}), other({96, 64, 80}, {0, 16, 96, 96});
  REQUIRE(g.forward() == errc::ok);
  REQUIRE(other.forward() == errc::ok);
  REQUIRE(g.place(other.offsets) == errc::ok);
  REQUIRE(decltype(g)::layer{}.forward(g.in_x(), g.key, g.experts(), g.out_y()) == errc::ok);
  CHECK(same_bits(g.y, other.y));
  CHECK(same_bits(g.weights, other.weights));
}

TEST_CASE("linear: the memory for experts suffices however tokens fall", "[recipe][linear][grouped]") {
  using swizzled = host::grouped_linear_layer<te, swizzled_128x4>;
  const linear_shape all{256, 48, 16};
  for (i64 count : {1, 3, 16, 40}) {
    const linear_bytes need = swizzled::bytes(all, count);
    for (u64 seed = 0; seed < 20; ++seed) {
      i64 left = all.tokens, used = 0;
      for (i64 i = 0; i < count; ++i) {
        const i64 most = left / 16 + 1,
                  blocks = static_cast<i64>(mix(seed * 64 + static_cast<u64>(i)) % static_cast<u64>(most)) /
                           (seed % 2 == 0 ? 1 : 8);
        left -= 16 * blocks;
        if (blocks > 0) used += host::linear_layer<te, swizzled_128x4>::bytes({16 * blocks, 48, 16}).saved;
      }
      CHECK(used <= need.saved);
    }
    CHECK(need.weights == count * host::linear_layer<te, swizzled_128x4>::bytes(all).weights);
  }
}

TEST_CASE("linear: what experts refuse", "[recipe][linear][grouped]") {
  grouped_case<te> g({96, 64, 80}, {0, 48, 48, 96});
  using layer = decltype(g)::layer;
  const layer run;
  using memory = linear_memory;
  const memory w = decltype(g)::case_alone::all_of(g.weights),
               saved = decltype(g)::case_alone::all_of(g.saved),
               work = decltype(g)::case_alone::all_of(g.workspace);
  const auto smaller = [](memory m) { return memory{m.data, m.bytes - 1}; };
  const auto place = [&](std::vector<i64> const& o, memory a, memory b, memory c) {
    const auto before = g.t[1].w.rowwise.codes;
    const errc e = layer::place(g.all, {o.data(), static_cast<i64>(o.size()) - 1}, a, b, c, g.t.data());
    CHECK((g.t[0].x.rowwise.rows == 48 && g.t[1].w.rowwise.codes == before));
    return e;
  };
  CHECK(place({0, 48, 40, 96}, w, saved, work) == errc::bad_offsets);
  CHECK(place({16, 48, 48, 96}, w, saved, work) == errc::bad_offsets);
  CHECK(place({0, 48, 48, 112}, w, saved, work) == errc::bad_offsets);
  CHECK(place({0, 40, 48, 96}, w, saved, work) == errc::partial_block);
  CHECK(place(g.offsets, smaller(w), saved, work) == errc::no_workspace);
  CHECK(place(g.offsets, w, smaller(saved), work) == errc::no_workspace);
  CHECK(place(g.offsets, w, saved, smaller(work)) == errc::no_workspace);
  CHECK(place(g.offsets, w, w, work) == errc::overlap);
  CHECK(place({0}, w, saved, work) == errc::empty_matrix);
  CHECK(layer::place(g.all, {static_cast<i64 const*>(nullptr), 3}, w, saved, work, g.t.data()) ==
        errc::null_pointer);
  CHECK(layer::place(g.all, {g.offsets.data(), 3}, w, saved, work, nullptr) == errc::null_pointer);
  // The weights of so many experts would be no matrix.
  constexpr linear_shape huge{16, i64{1} << 20, i64{1} << 21};
  const std::vector<i64> of_many((i64{1} << 10) + 1);
  CHECK(layer::place(huge, {of_many.data(), i64{1} << 10}, w, saved, work, g.t.data()) == errc::too_large);
  for (const i64 count : {i64{0}, i64{-1}, i64{1} << 10, i64{1} << 22, i64{1} << 62})
    CHECK(layer::bytes(huge, count) == linear_bytes{});
  CHECK(layer::bytes({0, 64, 80}, 3) == linear_bytes{});

  const auto forward = [&](matrix_view<bf16 const> x, matrix_view<float const> m, matrix_view<bf16> y) {
    return run.forward(x, m, g.key, g.experts(), y);
  };
  const matrix_view<bf16 const> short_x{g.x, 80, 64},
      in_saved{reinterpret_cast<bf16*>(g.saved.data()), 96, 64};
  const matrix_view<float const> two{g.w, 160, 64};
  const matrix_view<bf16> short_y{g.y, 80, 80},
      in_codes{reinterpret_cast<bf16*>(g.t[2].x.columnwise.codes), 96, 80};
  check_refused(g, errc::shape_mismatch, [&] { return forward(short_x, g.in_w(), g.out_y()); });
  check_refused(g, errc::shape_mismatch, [&] { return forward(g.in_x(), two, g.out_y()); });
  check_refused(g, errc::shape_mismatch, [&] { return forward(g.in_x(), g.in_w(), short_y); });
  check_refused(g, errc::overlap, [&] { return forward(g.in_x(), g.in_w(), in_codes); });
  check_refused(g, errc::overlap, [&] { return forward(in_saved, g.in_w(), g.out_y()); });
  check_refused(g, errc::null_pointer, [&] { return run.forward(g.in_x(), g.key, {nullptr, 3}, g.out_y()); });
  check_refused(g, errc::empty_matrix, [&] {
    return run.forward(g.in_x(), g.key, {g.t.data(), 0}, g.out_y());
  });
  check_refused(g, errc::no_copy, [&] { return g.backward(); });
  REQUIRE(g.forward() == errc::ok);
  check_refused(g, errc::overlap, [&] {
    return run.backward(g.in_dy(), g.key, g.experts(),
                        matrix_view<bf16>{reinterpret_cast<bf16*>(g.dw.data()), 96, 64}, g.out_dw(), false);
  });
  check_refused(g, errc::shape_mismatch, [&] {
    return run.backward(g.in_dy(), g.key, g.experts(), g.out_dx(), matrix_view<float>{g.dw, 160, 64}, false);
  });
}

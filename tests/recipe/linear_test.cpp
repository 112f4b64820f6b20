// SPDX-License-Identifier: Apache-2.0
// The three GEMMs of a linear layer against an emulation in double and against finite differences of its own
// forward; accumulation, bytes, tensor-parallel columns.
#include "recipe/linear_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear, no_rht = presets::te_nvfp4_no_rht().linear,
                        mx = presets::mxfp4().linear, mx8 = presets::mxfp8().linear,
                        weighed = presets::four_over_six().linear;

template <linear_recipe R, class L = linear>
void check_emulation(linear_shape s) {
  INFO(s.tokens << " x " << s.in << " x " << s.out);
  linear_case<R, L> c(s);
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward() == errc::ok);
  CHECK(expected_y(c).outside(c.y) == 0);
  CHECK(expected_dx(c).outside(c.dx) == 0);
  CHECK(expected_dw(c).outside(c.dw) == 0);
  if (R.dgrad.a.rounding == rounding_rule::stochastic) {
    // The bounds tell randomness, signs and copies apart: another step rounds gradients otherwise.
    c.key.step = 18;
    CHECK(expected_dx(c).outside(c.dx) > s.tokens * s.in / 4);
    CHECK(expected_dw(c).outside(c.dw) > s.in * s.out / 2);
  } else {
    c.dw[5] *= 1.001f;
    CHECK(expected_dw(c).outside(c.dw) == 1);
  }
}

/// |got - want| / |want| over all elements.
template <class T>
double relative_error(std::vector<T> const& got, std::vector<double> const& want) {
  double error = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double e = static_cast<double>(to_float(got[i])) - want[i];
    error += e * e, all += want[i] * want[i];
  }
  return std::sqrt(error / all);
}

template <class T, class U>
std::vector<double> product(T const& a, U const& b, i64 m, i64 n, i64 k) {
  std::vector<double> d;
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < n; ++j) {
      double sum = 0;
      for (i64 l = 0; l < k; ++l)
        sum += static_cast<double>(to_float(a.at(i, l))) * static_cast<double>(to_float(b.at(j, l)));
      d.push_back(sum);
    }
  return d;
}

/// Each GEMM is near what it is without quantization: it would not be if transforms did not cancel.
template <linear_recipe R>
void check_meaning() {
  linear_case<R> c({128, 64, 96});
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward() == errc::ok);
  const auto [tokens, in, out] = c.s;
  CHECK(relative_error(c.y, product(c.in_x(), c.in_w(), tokens, out, in)) < 0.18);
  CHECK(relative_error(c.dx, product(c.in_dy(), transposed(c.in_w()), tokens, in, out)) < 0.25);
  CHECK(relative_error(c.dw, product(transposed(c.in_dy()), transposed(c.in_x()), out, in, tokens)) < 0.25);
}

/// Values that a format has in blocks of n along rows and along columns: codes times `unit`, the largest one
/// once in each row and column of each tile of n x n. Units are such that no factor of a GEMM
/// rounds: 7 under the range of 6 * 448, powers of two under 6 * 256 and for MXFP4.
struct grid {
  u64 n;
  float unit;

  float value(u64 row, u64 col, u64 seed) const {
    constexpr float codes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    const u64 r = mix(row * 1000 + col + (seed << 40));
    const float sign = (r >> 8 & 1) != 0 ? -unit : unit;
    return row % n == col % n ? 6.0f * sign : codes[r % 8] * sign;
  }
  template <class T>
  void fill(std::vector<T>& v, i64 cols, u64 seed) const {
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = from_float<T>(value(i / static_cast<u64>(cols), i % static_cast<u64>(cols), seed));
  }
  bool is_largest(float x) const { return std::fabs(x) == 6.0f * unit; }
  /// Another value of the grid, which leaves all scales as they are.
  float other(float x) const {
    const float size = std::fabs(x) / unit;
    return size == 0.0f ? 0.5f * unit : size == 4.0f ? 0.75f * x : size == 3.0f ? 4.0f * unit : 0.0f;
  }
};

/// Sum of dy * y, the loss whose gradient by y is dy, with y in float.
template <linear_recipe R>
double loss(linear_case<R>& c) {
  std::vector<float> y(c.y.size());
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(typename linear_case<R>::layer{}.fprop(c.t, matrix_view<float>{y, c.s.tokens, c.s.out}) ==
          errc::ok);
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i)
    sum += static_cast<double>(y[i]) * static_cast<double>(to_float(c.dy[i]));
  return sum;
}

/// Changes some of `values` one after the other, and compares the loss with what `gradient` says of it.
template <linear_recipe R, class T>
int compare_differences(linear_case<R>& c, std::vector<T>& values, std::vector<float> const& gradient,
                        size_t step, grid const& g) {
  const double before = loss(c);
  int checked = 0;
  for (size_t i = 0; i < values.size(); i += step) {
    const T old = values[i];
    if (g.is_largest(to_float(old))) continue;
    const float next = g.other(to_float(old));
    values[i] = from_float<T>(next);
    CHECK((loss(c) - before) / static_cast<double>(next - to_float(old)) == static_cast<double>(gradient[i]));
    values[i] = old;
    ++checked;
  }
  return checked;
}

/// dX, and where nothing is transformed dW, from data on the grid.
template <linear_recipe R>
void check_differences(linear_shape s, grid const& g, grid const& of_dy) {
  linear_case<R> c(s);
  g.fill(c.x, s.in, 1);
  g.fill(c.w, s.in, 2);
  of_dy.fill(c.dy, s.out, 3);
  std::vector<float> dx(c.x.size()), dw(c.w.size());
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward() == errc::ok);
  const typename linear_case<R>::layer run;
  REQUIRE(run.dgrad(c.t, matrix_view<float>{dx, s.tokens, s.in}) == errc::ok);
  REQUIRE(run.wgrad(c.t, matrix_view<float>{dw, s.out, s.in}, 0.0f) == errc::ok);
  CHECK(compare_differences(c, c.x, dx, 37, g) > 30);
  if (R.wgrad.a.hadamard == 0) CHECK(compare_differences(c, c.w, dw, 53, g) > 30);
}

}  // namespace

TEST_CASE("linear: te_nvfp4 equals its emulation in double", "[recipe][linear]") {
  check_emulation<te>({48, 64, 80});
  check_emulation<te>({32, 128, 64});
  check_emulation<te>({160, 16, 144});
  check_emulation<te, swizzled_128x4>({48, 64, 80});
}

TEST_CASE("linear: the other recipes equal their emulation in double", "[recipe][linear]") {
  check_emulation<no_rht>({48, 64, 80});
  check_emulation<weighed>({48, 64, 80});
  check_emulation<weighed>({32, 128, 64});
  check_emulation<mx>({32, 128, 64});
  check_emulation<mx>({96, 64, 160});
  check_emulation<mx8>({32, 128, 64});
  check_emulation<mx8>({96, 64, 160});
  check_emulation<mxfp8_with_e5m2_gradients()>({32, 128, 64});
  check_emulation<te_with_drawn_signs()>({48, 64, 80});
}

TEST_CASE("linear: each GEMM is near the one without quantization", "[recipe][linear]") {
  check_meaning<te>();
  check_meaning<no_rht>();
  check_meaning<weighed>();
  check_meaning<mx>();
  check_meaning<mx8>();
  check_meaning<te_with_drawn_signs()>();
}

// X, W and dY lie on the grid, so that rounding, stochastic too, changes nothing, and a step to another code
// is a step of X itself: differences are the derivatives of the quantized forward, without an error. A
// transform leaves the grid: then dW has its emulation alone.
TEST_CASE("linear: gradients are the finite differences of the quantized forward", "[recipe][linear]") {
  constexpr grid sevens{16, 7.0f}, eighths{16, 0.125f}, quarters{32, 0.25f};
  check_differences<no_rht>({32, 48, 64}, sevens, sevens);
  check_differences<te>({32, 48, 64}, sevens, sevens);
  check_differences<weighed>({32, 48, 64}, eighths, sevens);
  check_differences<mx>({32, 64, 96}, quarters, quarters);
  check_differences<mx8>({32, 64, 96}, quarters, quarters);
}

// The straight-through estimator: off the grid, dX is the derivative by the quantized X, under the same W as
// in the forward, because its tiles are the same in both copies.
TEST_CASE("linear: with 2-D weights the backward sees the weights of the forward", "[recipe][linear]") {
  linear_case<te> c({32, 64, 48});
  REQUIRE(c.forward() == errc::ok);
  using layer = decltype(c)::layer;
  for (i64 row = 0; row < c.s.out; ++row)
    for (i64 block = 0; block < c.t.w.rowwise.blocks(); ++block)
      for (i64 i = 0; i < 16; ++i) {
        const i64 col = block * 16 + i;
        const bool same =
            c.t.w.rowwise.load_code(row, col).bits == c.t.w.columnwise.load_code(col, row).bits &&
            c.t.w.rowwise.load_scale(row, block).bits == c.t.w.columnwise.load_scale(col, row / 16).bits;
        REQUIRE(same);
      }
  CHECK(c.t.w.rowwise.amax == c.t.w.columnwise.amax);
  static_assert(layer::tensors{}.w.amax_count == 1 && layer::tensors{}.x.amax_count == 2);
}

TEST_CASE("linear: beta = 1 adds a microbatch to dW in float, in order", "[recipe][linear]") {
  linear_case<te> first({48, 64, 80}), second({48, 64, 80});
  second.x = random_values<bf16>(second.s.tokens * second.s.in, 11);
  second.dy = random_values<bf16>(second.s.tokens * second.s.out, 12);
  second.key.microbatch = 1;
  for (auto* c : {&first, &second}) REQUIRE(c->forward() == errc::ok);
  for (auto* c : {&first, &second}) REQUIRE(c->backward() == errc::ok);
  std::vector<float> sum = first.dw;
  REQUIRE(decltype(first)::layer{}.wgrad(second.t, matrix_view<float>{sum, 80, 64}, 1.0f) == errc::ok);
  bool same = true;
  for (size_t i = 0; i < sum.size(); ++i) same &= sum[i] == first.dw[i] + second.dw[i];
  CHECK(same);
  const bool other = first.dw != second.dw;
  CHECK(other);
}

TEST_CASE("linear: a microbatch shares weights and workspace, and has saved memory of its own",
          "[recipe][linear]") {
  linear_case<te> c({48, 64, 80}), alone({48, 64, 80});
  const auto second_x = random_values<bf16>(48 * 64, 11);
  alone.x = second_x;
  for (auto* each : {&c, &alone}) REQUIRE(each->forward() == errc::ok);
  using layer = decltype(c)::layer;
  std::vector<u8> saved = c.bytes(c.n.saved);
  layer::tensors second = c.t;
  REQUIRE(second.x.place(c.s, c.all_of(c.workspace), c.all_of(saved)) == errc::ok);
  std::vector<bf16> y(c.y.size());
  REQUIRE(layer{}.forward(matrix_view<bf16 const>{second_x, 48, 64}, c.key, &second,
                          matrix_view<bf16>{y, 48, 80}) == errc::ok);
  for (size_t i = 0; i < y.size(); ++i) REQUIRE(y[i].bits == alone.y[i].bits);
  const bool same_bytes = saved == alone.saved;
  CHECK(same_bytes);
  REQUIRE(c.backward() == errc::ok);  // of the first microbatch, after the second's forward
  CHECK(expected_dw(c).outside(c.dw) == 0);
}

TEST_CASE("linear: a forward alone needs no columnwise copy", "[recipe][linear]") {
  linear_case<te> c({48, 64, 80}), rows({48, 64, 80});
  const decltype(c)::layer run;
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(run.amax(rows.in_x(), rows.key, rows.t.x) == errc::ok);
  REQUIRE(run.amax(rows.in_w(), rows.key, rows.t.w) == errc::ok);
  REQUIRE(run.quantize_rows(rows.in_x(), rows.key, &rows.t.x) == errc::ok);
  REQUIRE(run.quantize_rows(rows.in_w(), rows.key, &rows.t.w) == errc::ok);
  REQUIRE(run.fprop(rows.t, rows.out_y()) == errc::ok);
  for (size_t i = 0; i < c.y.size(); ++i) REQUIRE(c.y[i].bits == rows.y[i].bits);
  CHECK(rows.t.x.columnwise.codes[0] == 0xa5);
  CHECK(rows.backward() == errc::no_copy);
  CHECK(run.quantize_rows(rows.in_w(), rows.key, &rows.t.x) == errc::shape_mismatch);
}

TEST_CASE("linear: what a layer asks for", "[recipe][linear]") {
  constexpr linear_shape s{64, 96, 128};
  // W: 128 x 96 values in 6144 bytes and 768 of scales, twice, and amaxes in 256. X: 3072 + 384, rounded up.
  CHECK(host::linear_layer<te>::bytes(s) == linear_bytes{2 * (6144 + 768) + 256, 3072 + 512 + 256, 9472});
  CHECK(host::linear_layer<mx>::bytes(s) == linear_bytes{2 * (6144 + 512), 3072 + 256, 2 * (4096 + 256)});
  CHECK(host::linear_layer<mx8>::bytes(s) == linear_bytes{2 * (12288 + 512), 6144 + 256, 2 * (8192 + 256)});
  // The workspace holds dY twice: 64 x 128 values in 4096 + 512, and amaxes.
  CHECK(9472 == 2 * (4096 + 512) + 256);
  for (const linear_shape none :
       {linear_shape{0, 96, 128}, {64, -16, 128}, {64, 96, 100}, {i64{1} << 31, 96, 128}})
    CHECK(host::linear_layer<te>::bytes(none) == linear_bytes{});
  constexpr linear_shape large{8192, 4096, 14336};
  CHECK(host::linear_layer<te>::bytes(large).saved == 8192 * 4096 / 16 * 9 + 256);  // a bf16 copy: 3.6 times
}

// A column-parallel layer: each rank has rows of W and columns of dY. Under the reduced amax, each has the
// codes and the outputs of the whole layer.
TEST_CASE("linear: columns on two ranks under one amax are those of one rank", "[recipe][linear]") {
  linear_case<te> all({48, 64, 96}), half[2]{linear_case<te>({48, 64, 48}), linear_case<te>({48, 64, 48})};
  using layer = decltype(all)::layer;
  REQUIRE(all.forward() == errc::ok);
  float reduced = 0;
  for (u64 rank = 0; rank < 2; ++rank) {
    auto& c = half[rank];
    c.w.assign(all.w.begin() + static_cast<i64>(rank) * 48 * 64,
               all.w.begin() + static_cast<i64>(rank + 1) * 48 * 64);
    REQUIRE(layer{}.amax(c.in_x(), c.key, c.t.x) == errc::ok);
    REQUIRE(layer{}.amax(c.in_w(), c.key, c.t.w) == errc::ok);
    reduced = std::fmax(reduced, *c.t.w.amax);
  }
  CHECK(*half[0].t.w.amax != *half[1].t.w.amax);
  for (i64 rank = 0; rank < 2; ++rank) {
    auto& c = half[rank];
    *c.t.w.amax = reduced;
    REQUIRE(layer{}.quantize(c.in_x(), c.key, &c.t.x) == errc::ok);
    REQUIRE(layer{}.quantize(c.in_w(), c.key, &c.t.w) == errc::ok);
    REQUIRE(layer{}.fprop(c.t, c.out_y()) == errc::ok);
    for (i64 r = 0; r < 48; ++r)
      for (i64 j = 0; j < 48; ++j) REQUIRE(c.out_y().at(r, j).bits == all.out_y().at(r, rank * 48 + j).bits);
  }
}

// A row-parallel layer: each rank has columns of W and of X, and a sum over half of K.
TEST_CASE("linear: halves of K on two ranks add up as under beta = 1", "[recipe][linear]") {
  linear_case<te> all({48, 128, 80}), half[2]{linear_case<te>({48, 64, 80}), linear_case<te>({48, 64, 80})};
  using layer = decltype(all)::layer;
  const layer run;
  REQUIRE(all.forward() == errc::ok);
  REQUIRE(all.backward() == errc::ok);
  std::vector<float> y[2] = {std::vector<float>(48 * 80), std::vector<float>(48 * 80)};
  for (i64 rank = 0; rank < 2; ++rank) {
    auto& c = half[rank];
    for (i64 i = 0; i < 64; ++i) {
      for (i64 r = 0; r < 48; ++r) c.x[static_cast<size_t>(r * 64 + i)] = all.in_x().at(r, rank * 64 + i);
      for (i64 r = 0; r < 80; ++r) c.w[static_cast<size_t>(r * 64 + i)] = all.in_w().at(r, rank * 64 + i);
    }
    *c.t.w.amax = *all.t.w.amax;
    c.t.x.amax[0] = all.t.x.amax[0], c.t.x.amax[1] = all.t.x.amax[1];
    REQUIRE(run.quantize(c.in_x(), c.key, &c.t.x) == errc::ok);
    REQUIRE(run.quantize(c.in_w(), c.key, &c.t.w) == errc::ok);
    REQUIRE(run.fprop(c.t, matrix_view<float>{y[rank], 48, 80}) == errc::ok);
    REQUIRE(c.backward() == errc::ok);  // dY is on both ranks, and rounded alike
    for (i64 i = 0; i < 64; ++i) {
      for (i64 r = 0; r < 48; ++r)
        REQUIRE(c.out_dx().at(r, i).bits == all.out_dx().at(r, rank * 64 + i).bits);
      for (i64 r = 0; r < 80; ++r) REQUIRE(c.out_dw().at(r, i) == all.out_dw().at(r, rank * 64 + i));
    }
  }
  std::vector<float> chained = y[0];
  REQUIRE(run.quantize(half[1].in_x(), all.key, &half[1].t.x) == errc::ok);  // dY is in its place
  REQUIRE(run.fprop(half[1].t, matrix_view<float>{chained, 48, 80}, 1.0f) == errc::ok);
  for (size_t i = 0; i < chained.size(); ++i) REQUIRE(chained[i] == y[0][i] + y[1][i]);
}

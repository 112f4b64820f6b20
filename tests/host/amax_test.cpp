// SPDX-License-Identifier: Apache-2.0
// amax of a matrix, of each row, and after a transform; and transforms of whole matrices.
#include "support/amax.hpp"

#include <fourscale/host/amax.hpp>
#include <fourscale/host/transform.hpp>
#include <fourscale/transform/hadamard.hpp>

#include "naive.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0xffc0'0000u);

float larger(float amax, float x) {
  const float magnitude = x < 0 ? -x : x;
  return magnitude > amax ? magnitude : amax;  // false for NaN
}

/// amax and row_amax against a loop of comparisons.
template <real T>
void check_amax(values kind) {
  const source<T> x(67, 43, 6, kind);
  std::vector<float> rows(67), columns(43);
  REQUIRE(host::row_amax(x.view, rows.data()) == errc::ok);
  REQUIRE(host::row_amax(transposed(x.view), columns.data()) == errc::ok);
  float all = 0;
  for (i64 r = 0; r < 67; ++r) {
    float in_row = 0;
    for (i64 c = 0; c < 43; ++c) in_row = larger(in_row, to_float(x.view.at(r, c)));
    CHECK(rows[size(r)] == in_row);
    all = larger(all, in_row);
  }
  for (i64 c = 0; c < 43; ++c) {
    float in_column = 0;
    for (i64 r = 0; r < 67; ++r) in_column = larger(in_column, to_float(x.view.at(r, c)));
    CHECK(columns[size(c)] == in_column);
  }
  CHECK(amax_of(x.view) == all);
}

/// A matrix of zeros but for one value, at each corner and in the middle.
void check_one_value(float value, float expected) {
  constexpr i64 rows = 300, cols = 301;  // enough for several threads
  std::vector<float> x(size(rows * cols));
  for (const i64 at : {i64{0}, cols - 1, rows / 2 * cols + 7, (rows - 1) * cols, rows * cols - 1}) {
    x[size(at)] = value;
    CHECK(amax_of(matrix_view<float const>{x, rows, cols}) == expected);
    x[size(at)] = 0;
  }
}

template <int N, class Transform, bool Turned>
void check_transform(Transform const& t) {
  constexpr i64 rows = 33, cols = 3 * N;
  const source<bf16> x(Turned ? cols : rows, Turned ? rows : cols, 2, values::activations);
  std::vector<float> y(size(rows * (cols + 1)), -5.0f);
  const matrix_view<float> out{y.data(), rows, cols, cols + 1};
  if constexpr (Turned)
    REQUIRE(host::transform<N>(transposed(x.view), out, t) == errc::ok);
  else
    REQUIRE(host::transform<N>(x.view, out, t) == errc::ok);
  i64 wrong = 0;
  for (i64 r = 0; r < rows; ++r) {
    for (i64 first = 0; first < cols; first += N) {
      float v[N];
      for (i64 i = 0; i < N; ++i) v[i] = to_float(Turned ? x.view.at(first + i, r) : x.view.at(r, first + i));
      t(v);
      for (i64 i = 0; i < N; ++i) wrong += bit_cast<u32>(out.at(r, first + i)) != bit_cast<u32>(v[i]);
    }
    wrong += y[size(r * (cols + 1) + cols)] != -5.0f;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("host::amax: the largest magnitude, by rows and as a whole", "[host][amax]") {
  for (const values kind : {values::activations, values::ugly}) {
    check_amax<float>(kind);
    check_amax<bf16>(kind);
    check_amax<fp16>(kind);
  }
}

TEST_CASE("host::amax: finds a value wherever it is; NaN is dropped, infinity stays", "[host][amax]") {
  check_one_value(-3.5f, 3.5f);
  check_one_value(-0x1p-149f, 0x1p-149f);
  check_one_value(-infinity, infinity);
  check_one_value(quiet_nan, 0.0f);
  check_one_value(-0.0f, 0.0f);
  const float gap[] = {1, 9, 2, 9, 3, 9};
  CHECK(amax_of(matrix_view<float const>{gap, 3, 1, 2}) == 3.0f);
}

TEST_CASE("host::amax: after a transform it is the amax of the transformed matrix", "[host][amax]") {
  const source<bf16> x(64, 96, 0, values::activations);
  std::vector<float> y(64 * 96);
  const hadamard<16> t{te_signs};
  REQUIRE(host::transform<16>(x.view, matrix_view<float>{y, 64, 96}, t) == errc::ok);
  CHECK(amax_of<nvfp4>(x.view, t) == amax_of(matrix_view<float>{y, 64, 96}));
  REQUIRE(host::transform<16>(transposed(x.view), matrix_view<float>{y, 96, 64}, t) == errc::ok);
  CHECK(amax_of<nvfp4>(transposed(x.view), t) == amax_of(matrix_view<float>{y, 96, 64}));
  CHECK(amax_of<nvfp4>(x.view, identity{}) == amax_of(x.view));
  float amax = -1, amax_t = -1;
  REQUIRE(host::amax_both<nvfp4>(x.view, t, &amax, &amax_t) == errc::ok);
  CHECK(amax == amax_of(x.view));
  CHECK(amax_t == amax_of<nvfp4>(transposed(x.view), t));
}

TEST_CASE("host::amax: broken rules are named and nothing is written", "[host][amax]") {
  const float x[32] = {1, 2};
  float amax[2] = {-1, -1};
  const matrix_view<float const> m{x, 16, 2}, ragged{x, 2, 15}, none{nullptr, 2, 16};
  float* const odd = reinterpret_cast<float*>(reinterpret_cast<u8*>(amax) + 1);
  CHECK(host::amax(matrix_view<float const>{x, 0, 16}, amax) == errc::empty_matrix);
  CHECK(host::amax(none, amax) == errc::null_pointer);
  CHECK(host::amax(m, nullptr) == errc::null_pointer);
  CHECK(host::amax(m, odd) == errc::misaligned);
  CHECK(host::row_amax(none, amax) == errc::null_pointer);
  CHECK(host::row_amax(m, nullptr) == errc::null_pointer);
  CHECK(host::row_amax(transposed(m), odd) == errc::misaligned);
  CHECK(host::amax<nvfp4>(ragged, identity{}, amax) == errc::partial_block);
  CHECK(host::amax<nvfp4>(transposed(m), identity{}, nullptr) == errc::null_pointer);
  CHECK(host::amax_both<nvfp4>(ragged, identity{}, amax, amax + 1) == errc::partial_block);
  CHECK(host::amax_both<nvfp4>(m, identity{}, nullptr, amax) == errc::null_pointer);
  CHECK(host::amax_both<nvfp4>(m, identity{}, amax, nullptr) == errc::null_pointer);
  CHECK(host::amax_both<nvfp4>(none, identity{}, amax, amax + 1) == errc::null_pointer);
  CHECK((amax[0] == -1 && amax[1] == -1));
  float y[2 * 24] = {3};
  CHECK(host::transform_in_place<16>(matrix_view<float>{y, 2, 24}, hadamard<16>{}) == errc::partial_block);
  CHECK(y[0] == 3);
}

TEST_CASE("host::transform: each run of N values by itself, of a matrix or its transpose",
          "[host][transform]") {
  check_transform<16, hadamard<16>, false>({te_signs});
  check_transform<16, hadamard<16>, true>({te_signs});
  check_transform<128, hadamard<128, float>, false>({sign_vector{0x123456789abcdef0, 0xfedcba987654321}});
  check_transform<128, hadamard<128>, true>({});
}

// SPDX-License-Identifier: Apache-2.0
// The law of views: what one call wrote, any other call reads right with the same view, or refuses. One body
// for both machines; `Machine` has memory<T>, fetch() and the functions of whole matrices.
#pragma once

#include <cmath>
#include <fourscale/fourscale.hpp>
#include <vector>

#include "amax.hpp"
#include "data.hpp"

namespace fourscale::test::law {

/// As what the amax of a view can be given.
enum class given { value, one, unit, encode_value, encode_one, decode_value, decode_one, rows };
inline constexpr given all_givens[] = {given::value,      given::one,          given::unit,
                                       given::encode_one, given::encode_value, given::decode_value,
                                       given::decode_one, given::rows};

/// Of normal values every quantizer's gain <x, Q> / <x, x> lies within 0.02 of 1 (error_table_test.cpp). The
/// smallest change of range there is, 16 / 17, would move it by 0.059.
inline constexpr double gain_bound = 0.029;

inline constexpr i64 cols = 256;
inline constexpr u8 unwritten = 0xa5;
inline std::size_t size(i64 n) { return static_cast<std::size_t>(n); }

/// A matrix of numbers that both machines see, row-major, in bf16, so that fast paths are taken.
template <class Machine>
struct values {
  i64 rows;
  std::vector<bf16> numbers;
  typename Machine::template memory<bf16> copy;

  values(i64 r, u64 seed) : rows(r), numbers(make(r, seed)), copy(numbers) {}
  static std::vector<bf16> make(i64 rows, u64 seed) {
    std::vector<bf16> x(size(rows * cols));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float size_of_row = static_cast<float>(1 + i / size(cols) % 3);
      x[i] = from_float<bf16>(gaussian(i + (seed << 32)) * size_of_row);
    }
    return x;
  }
  matrix_view<bf16 const> view() { return {copy.data(), rows, cols}; }

  /// What the recipe quantizes: floats after its transform, of the matrix or of its transpose.
  template <class F, class Recipe>
  std::vector<float> transformed(Recipe const& recipe, bool turned = false) const {
    constexpr i64 n = requires { recipe.scale; }
    ? F::block_size : 128;
    const i64 r = turned ? cols : rows, c = turned ? rows : cols;
    std::vector<float> t(numbers.size());
    for (i64 i = 0; i < r * c; i += n) {
      float x[n];
      for (i64 k = 0; k < n; ++k) {
        const i64 at = i + k;
        x[k] = to_float(numbers[size(turned ? at % c * cols + at / c : at)]);
      }
      recipe.transform(x);
      for (i64 k = 0; k < n; ++k) t[size(i + k)] = x[k];
    }
    return t;
  }
};

/// The tensor scale of an amax by the rule of a recipe, and its range.
template <class F, class Recipe>
tensor_scale<F> rule(Recipe const& recipe, float amax) {
  if constexpr (requires { recipe.scale; })
    return tensor_scale_for<F>(recipe.scale, amax);
  else
    return recipe.tensor(F{}, amax);
}

/// An amax of `t`, given in a way, in the machine's memory; and the tensor scale of each row, worked out from
/// the scaling rule, not by the view.
template <class Machine, class F>
struct amaxes {
  std::vector<float> numbers;
  std::vector<tensor_scale<F>> of_row;
  typename Machine::template memory<float> copy;
  amax_reference reference;

  template <class Recipe>
  amaxes(given how, std::vector<float> const& t, i64 rows, Recipe const& recipe)
      : numbers(size(rows)),
        of_row(size(rows)),
        copy(fill(how, matrix_view<float const>{t, rows, static_cast<i64>(t.size()) / rows}, recipe)),
        reference(refer(how)) {}

 private:
  template <class Recipe>
  std::vector<float> const& fill(given how, matrix_view<float const> t, Recipe const& recipe) {
    if constexpr (F::has_tensor_scale) {
      REQUIRE(host::row_amax(t, numbers.data()) == errc::ok);
      const float all = amax_of(t), range = rule<F>(recipe, 1.0f).largest;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (how != given::rows) numbers[i] = how == given::unit ? range : all;
        of_row[i] = rule<F>(recipe, numbers[i]);
        if (how == given::encode_value || how == given::encode_one) {
          numbers[i] = range / all;
          of_row[i] = tensor_scale<F>::from_encode_scale(numbers[i], range);
        }
        if (how == given::decode_value || how == given::decode_one) {
          numbers[i] = all / range;
          of_row[i] = tensor_scale<F>::from_decode_scale(numbers[i], range);
        }
      }
    }
    return numbers;
  }
  amax_reference refer(given how) {
    if (how == given::value) return amax_value(numbers[0]);
    if (how == given::one) return amax_in(copy.data());
    if (how == given::encode_value) return encode_scale_value(numbers[0]);
    if (how == given::encode_one) return encode_scale_in(copy.data());
    if (how == given::decode_value) return decode_scale_value(numbers[0]);
    if (how == given::decode_one) return decode_scale_in(copy.data());
    return how == given::unit ? unit_scale : amax_of_rows(copy.data());
  }
};

/// A quantized matrix in the machine's memory.
template <class Machine, class F, class Layout>
struct quantized {
  typename Machine::template memory<u8> codes, scales;
  block_scaled_view<F, Layout> view;

  quantized(i64 rows, i64 width, tensor_amax<F> amax, i64 bytes_of_scales = -1)
      : codes(std::vector<u8>(size(code_bytes<F>(rows, width)), unwritten)),
        scales(std::vector<u8>(
            size(1 + (bytes_of_scales < 0 ? scale_bytes<F, Layout>(rows, width) : bytes_of_scales)),
            unwritten)),
        view(codes.data(), scales.data(), rows, width, amax) {}
  quantized(quantized const&) = delete;

  bool untouched() {
    for (u8 b : Machine::fetch(codes))
      if (b != unwritten) return false;
    for (u8 b : Machine::fetch(scales))
      if (b != unwritten) return false;
    return true;
  }
};

/// Codes and scales of q on the host; its view has no amax.
template <class Machine, class F, class Layout>
struct bytes {
  std::vector<u8> codes, scales;
  block_scaled_view<F, Layout> view;

  explicit bytes(quantized<Machine, F, Layout>& q)
      : codes(Machine::fetch(q.codes)),
        scales(Machine::fetch(q.scales)),
        view(codes.data(), scales.data(), q.view.rows, q.view.cols) {}
};

/// What codes and scales stand for under these tensor scales, block by block.
template <class F, class Layout>
std::vector<float> values_of(block_scaled_view<F, Layout> const& q,
                             std::vector<tensor_scale<F>> const& of_row) {
  std::vector<float> y(size(q.rows * q.cols));
  for (i64 row = 0; row < q.rows; ++row)
    for (i64 block = 0; block < q.blocks(); ++block) {
      float x[F::block_size];
      dequantize_block(q.load(row, block), x, of_row[size(row)]);
      for (i64 i = 0; i < F::block_size; ++i) y[size(row * q.cols + block * F::block_size + i)] = x[i];
    }
  return y;
}

inline i64 first_difference(std::vector<float> const& a, std::vector<float> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (bit_cast<u32>(a[i]) != bit_cast<u32>(b[i])) return static_cast<i64>(i);
  return -1;
}

inline double gain_of(std::vector<float> const& x, std::vector<float> const& q) {
  double xx = 0, xq = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    xq += static_cast<double>(x[i]) * static_cast<double>(q[i]);
  }
  return xq / xx;
}

/// D = A * B^T of two views compared with the product of their values in double.
template <class Machine, class F, class Layout>
void check_gemm(block_scaled_view<F, Layout> const& a, std::vector<float> const& values_a,
                block_scaled_view<F, Layout> const& b, std::vector<float> const& values_b) {
  if constexpr (Machine::template has_gemm<F>) {
    typename Machine::template memory<float> d_copy(std::vector<float>(size(a.rows * b.rows)));
    REQUIRE(Machine::gemm(a, b, matrix_view<float>{d_copy.data(), a.rows, b.rows}) == errc::ok);
    const std::vector<float> d = Machine::fetch(d_copy);
    i64 wrong = 0;
    for (i64 i = 0; i < a.rows; ++i)
      for (i64 j = 0; j < b.rows; ++j) {
        double sum = 0, magnitudes = 0;
        for (i64 k = 0; k < a.cols; ++k) {
          const double product = static_cast<double>(values_a[size(i * a.cols + k)]) *
                                 static_cast<double>(values_b[size(j * a.cols + k)]);
          sum += product, magnitudes += std::abs(product);
        }
        wrong += !(std::abs(static_cast<double>(d[size(i * b.rows + j)]) - sum) <=
                   Machine::gemm_tolerance * magnitudes);
      }
    CHECK(wrong == 0);
  }
}

/// Requantized through the view as from the floats that it stands for, in both orientations.
template <class Machine, class F, class Layout>
void check_requantize(block_scaled_view<F, Layout> const& q, matrix_view<float const> y, float amax) {
  const auto same = [&](auto const& through_view, auto const& floats) {
    quantized<Machine, F, Layout> a(floats.rows, floats.cols, amax_value(amax)),
        b(floats.rows, floats.cols, amax_value(amax));
    REQUIRE(Machine::quantize(through_view, a.view, quantizer{}, blocks_1d{}) == errc::ok);
    REQUIRE(Machine::quantize(floats, b.view, quantizer{}, blocks_1d{}) == errc::ok);
    CHECK((Machine::fetch(a.codes) == Machine::fetch(b.codes)));
    CHECK((Machine::fetch(a.scales) == Machine::fetch(b.scales)));
  };
  same(dequantized(q), y);
  if (q.rows % F::block_size == 0) same(transposed(dequantized(q)), transposed(y));
}

/// Every reader of q: x is what was quantized, `expected` what q stands for; w is another operand.
template <class Machine, class F, class Layout>
void check_readers(block_scaled_view<F, Layout> const& q, std::vector<float> const& x,
                   std::vector<float> const& expected, block_scaled_view<F, Layout> const& w,
                   std::vector<float> const& values_w) {
  const double gain = gain_of(x, expected);
  INFO("gain " << gain);
  CHECK(std::abs(gain - 1) < gain_bound);

  typename Machine::template memory<float> y(std::vector<float>(expected.size())),
      yt(std::vector<float>(expected.size())), x_copy(std::vector<float>(x.begin(), x.end()));
  REQUIRE(Machine::dequantize(q, matrix_view<float>{y.data(), q.rows, q.cols}) == errc::ok);
  CHECK(first_difference(Machine::fetch(y), expected) == -1);
  REQUIRE(Machine::dequantize(q, transposed(matrix_view<float>{yt.data(), q.cols, q.rows})) == errc::ok);
  const std::vector<float> turned = Machine::fetch(yt);
  i64 wrong = 0;
  for (i64 r = 0; r < q.rows; ++r)
    for (i64 c = 0; c < q.cols; ++c) wrong += turned[size(c * q.rows + r)] != expected[size(r * q.cols + c)];
  CHECK(wrong == 0);

  statistics s;
  REQUIRE(Machine::statistics_of(matrix_view<float const>{x_copy.data(), q.rows, q.cols}, q, s) == errc::ok);
  CHECK(std::abs(s.gain() - gain) < 1e-12);
  CHECK(s.elements == x.size());

  check_gemm<Machine>(q, expected, w, values_w);
  check_gemm<Machine>(w, values_w, q, expected);
  check_requantize<Machine>(q, {y.data(), q.rows, q.cols},
                            amax_of(matrix_view<float const>{expected, q.rows, q.cols}));
}

/// The bytes that quantize_block() gives under these tensor scales.
template <class F, class Layout, class Recipe>
void check_blocks(block_scaled_view<F, Layout> const& q, std::vector<bf16> const& x, Recipe const& recipe,
                  std::vector<tensor_scale<F>> const& of_row) {
  i64 wrong = 0;
  for (i64 row = 0; row < q.rows; ++row)
    for (i64 block = 0; block < q.blocks(); ++block) {
      float values[F::block_size];
      const i64 col = block * F::block_size;
      for (i64 i = 0; i < F::block_size; ++i) values[i] = to_float(x[size(row * q.cols + col + i)]);
      wrong += !(q.load(row, block) == quantize_block<F>(values, recipe, of_row[size(row)], {row, col}));
    }
  CHECK(wrong == 0);
}

/// No amax, and an amax with another range, are refused and nothing is written.
template <class Machine, class F, class Layout, class Recipe, class Blocks>
void check_refusals(values<Machine>& x, amax_reference amax, Recipe const& recipe, Blocks shape) {
  if constexpr (F::has_tensor_scale) {
    tensor_range<F> own = rule<F>(recipe, 1.0f).range(), half = own;
    half.largest *= 0.5f;
    quantized<Machine, F, Layout> q(x.rows, cols, {});
    CHECK(Machine::quantize(x.view(), q.view, recipe, shape) == errc::no_amax);
    q.view.amax = {amax, half};
    CHECK(Machine::quantize(x.view(), q.view, recipe, shape) == errc::other_range);
    q.view.amax = amax;
    if (!(own == tensor_range<F>{}))
      CHECK(Machine::quantize(x.view(), q.view, recipe, shape) == errc::other_range);
    q.view.amax = {amax_of_groups(amax.data), recipe};
    CHECK(Machine::quantize(x.view(), q.view, recipe, shape) == errc::amax_of_groups);
    CHECK(q.untouched());
  }
}

/// Both copies in one call, each with its view.
template <class Machine, class F, class Layout, class Recipe, class Blocks>
void check_both(given how, values<Machine>& x, quantized<Machine, F, Layout>& alone,
                std::vector<float> const& expected, Recipe const& recipe, Blocks shape) {
  const std::vector<float> t = x.template transformed<F>(recipe, true);
  amaxes<Machine, F> amax(how, t, cols, recipe);
  quantized<Machine, F, Layout> q(x.rows, cols, alone.view.amax), qt(cols, x.rows, {amax.reference, recipe}),
      moved(cols, x.rows, alone.view.amax);
  if (Blocks::is_2d) qt.view.amax = alone.view.amax;
  REQUIRE(Machine::quantize_both(x.view(), q.view, qt.view, recipe, recipe, shape) == errc::ok);
  CHECK((Machine::fetch(q.codes) == Machine::fetch(alone.codes)));
  CHECK((Machine::fetch(q.scales) == Machine::fetch(alone.scales)));
  typename Machine::template memory<float> y(std::vector<float>(expected.size()));
  if constexpr (Blocks::is_2d) {
    REQUIRE(Machine::transpose(q.view, moved.view) == errc::ok);
    for (auto* copy : {&qt, &moved}) {
      REQUIRE(Machine::dequantize(copy->view, transposed(matrix_view<float>{y.data(), x.rows, cols})) ==
              errc::ok);
      CHECK(first_difference(Machine::fetch(y), expected) == -1);
    }
  } else {
    REQUIRE(Machine::dequantize(qt.view, matrix_view<float>{y.data(), cols, x.rows}) == errc::ok);
    const std::vector<float> values = values_of(bytes<Machine, F, Layout>(qt).view, amax.of_row);
    CHECK(first_difference(Machine::fetch(y), values) == -1);
    CHECK(std::abs(gain_of(t, values) - 1) < gain_bound);
  }
}

/// The law for one recipe and one kind of amax.
template <class Machine, class Layout, class F, class Recipe, class Blocks>
void check(F, Recipe const& recipe, Blocks shape, given how) {
  constexpr bool plain = requires { recipe.scale; };
  INFO(F::name << (Blocks::is_2d ? " 2-D" : " 1-D") << ", given as " << static_cast<int>(how));
  values<Machine> x(F::block_size > 32 ? F::block_size : 32, 1), w(17, 2);
  const std::vector<float> t = x.template transformed<F>(recipe), tw = w.template transformed<F>(recipe);
  amaxes<Machine, F> amax(how, t, x.rows, recipe), amax_w(how, tw, w.rows, recipe);
  quantized<Machine, F, Layout> q(x.rows, cols, {amax.reference, recipe}),
      qw(w.rows, cols, {amax_w.reference, recipe});
  REQUIRE(Machine::quantize(x.view(), q.view, recipe, shape) == errc::ok);
  REQUIRE(Machine::quantize(w.view(), qw.view, recipe, shape) == errc::ok);
  const bytes<Machine, F, Layout> of_q(q), of_w(qw);
  if constexpr (plain && !Blocks::is_2d) check_blocks(of_q.view, x.numbers, recipe, amax.of_row);
  const std::vector<float> expected = values_of(of_q.view, amax.of_row);
  check_readers<Machine>(q.view, t, expected, qw.view, values_of(of_w.view, amax_w.of_row));
  if constexpr (plain) check_both<Machine>(how, x, q, expected, recipe, shape);
  check_refusals<Machine, F, Layout>(x, amax.reference, recipe, shape);
}

/// Every kind of amax that goes with the format and the blocks, one layout for each shape; for some formats,
/// the others are left to another file.
template <class Machine, class... Formats>
struct checks {
  template <class F, class Recipe, class Blocks>
  void operator()(F format, Recipe const& recipe, Blocks shape) const {
    using layout = std::conditional_t<Blocks::is_2d, swizzled_128x4, linear>;
    if constexpr ((same_type<F, Formats> || ...))
      for (const given how : all_givens) {
        if (!F::has_tensor_scale && how != given::value) continue;
        if (Blocks::is_2d && how == given::rows) continue;
        check<Machine, layout>(format, recipe, shape, how);
      }
  }
};

}  // namespace fourscale::test::law

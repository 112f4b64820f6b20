// SPDX-License-Identifier: Apache-2.0
// The finest certificate: floors bound the lowest bits of a row's blocks, and where the sum of the magnitudes
// of two rows' own products passes, every partial sum of these products has 24 bits.
#include <algorithm>
#include <cmath>
#include <fourscale/model/certificate.hpp>
#include <vector>

#include "mma/gemm_data.hpp"
#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// A row's values in the step that begins at `col`, what is known of them, and the exponents of its scales.
template <class F>
struct known_row {
  double values[64];
  model::value_facts facts;
  u32 exponents = 0;

  known_row(host_buffer<F> const& q, i64 row, i64 col) {
    for (int group = 0; group < 4; ++group) {
      const auto packed = q.view().load(row, (col + 16 * group) / F::block_size);
      const int first = static_cast<int>((col + 16 * group) % F::block_size);
      const model::scale_parts scale(packed.scale);
      model::code_facts codes;
      for (int i = 0; i < 16; ++i) {
        const u32 code = packed.get(first + i).bits;
        codes.add(code);
        values[16 * group + i] = double{decode(e2m1{static_cast<u8>(code)})} * double{scale.value};
      }
      facts.add(model::value_facts(codes, scale));
      exponents |= (static_cast<u32>(scale.nan ? -128 : scale.exponent) & 0xffu) << (8 * group);
    }
  }
  model::block_floors floors() const { return model::floors_of_blocks(exponents, facts.lowest); }
};

/// Exponent of the lowest bit of x; 1000 for 0.
int lowest_bit(double x) {
  int exponent = 0;
  if (x == 0) return 1000;
  for (x = std::frexp(x, &exponent); x != std::trunc(x); --exponent) x *= 2;
  return exponent;
}

/// Exponents of the lowest bits of a row's blocks are no less than its floors. How many are the floor itself.
template <class F>
int check_floors(known_row<F> const& x) {
  int closest = 0;
  for (int block = 0; block < 4; ++block) {
    int lowest = 1000;
    for (int i = 0; i < 16; ++i) lowest = std::min(lowest, lowest_bit(x.values[16 * block + i]));
    const int floor = static_cast<int>(x.floors().of_block(block)) - 64;
    CHECK(floor <= lowest);
    closest += floor == lowest;
  }
  return closest;
}

/// How often the certificate holds, and how often it could.
struct counts {
  int passed = 0, could_pass = 0;
};
/// Where it holds, the sum of magnitudes, which no partial sum exceeds, is below 2^24 times the lowest bit of
/// any product.
template <class F>
counts check_products(known_row<F> const& x, known_row<F> const& y) {
  double sum = 0;
  int lowest = 1000;
  for (int i = 0; i < 64; ++i) {
    const double product = std::abs(x.values[i] * y.values[i]);
    sum += product, lowest = std::min(lowest, lowest_bit(product));
  }
  const bool could_pass = sum < std::ldexp(0x1p24, lowest);
  // Nearly the largest error of the sum that is allowed.
  const bool passes =
      model::products_are_exact(static_cast<float>(sum * (1 - 0x1.fp-13)), x.floors(), y.floors());
  if (passes) CHECK(could_pass);
  return {passes, could_pass};
}

template <class F>
counts check_kinds(kind of_a, kind of_b) {
  constexpr i64 rows = 32, k = 1024;
  const auto a = operand<F, linear>(of_a, rows, k, 1), b = operand<F, linear>(of_b, rows, k, 2);
  counts all;
  int closest = 0;
  for (i64 col = 0; col < k; col += 64) {
    std::vector<known_row<F>> cols;
    for (i64 j = 0; j < rows; ++j) cols.emplace_back(b, j, col);
    for (i64 i = 0; i < rows; ++i) {
      const known_row<F> x(a, i, col);
      closest += check_floors(x);
      for (auto const& y : cols) {
        const counts more = check_products(x, y);
        all.passed += more.passed, all.could_pass += more.could_pass;
      }
    }
  }
  CHECK(closest > rows * k / 64);  // at least one of the four blocks
  return all;
}

}  // namespace

TEST_CASE("certificate of products: the largest sum that passes", "[model][certificate]") {
  for (int least = 20; least <= 208; ++least) {
    // The least of four floors decides, in each place.
    for (int block = 0; block < 4; ++block) {
      u32 floors[4] = {104, 104, 104, 104};
      floors[block] = static_cast<u32>(std::max(least - 104, 0));
      const model::block_floors a{floors[0] | floors[1] << 16, floors[2] | floors[3] << 16};
      const u32 other = static_cast<u32>(least) - floors[block];
      const model::block_floors b{other * 0x1'0001u, other * 0x1'0001u};
      const float limit = std::ldexp(1.0f - 0x1p-12f, 24 + least - 128);
      CHECK(model::products_are_exact(std::nextafter(limit, 0.0f), a, b));
      CHECK(model::products_are_exact(0.0f, a, b));
      CHECK_FALSE(model::products_are_exact(limit, a, b));
      CHECK_FALSE(model::products_are_exact(bit_cast<float>(float_inf_bits), a, b));
      CHECK_FALSE(model::products_are_exact(bit_cast<float>(model::mma_nan_bits), a, b));
    }
  }
}

TEST_CASE("certificate of products: floors of all scales", "[model][certificate]") {
  for (u32 bits = 1; bits < 0x7f; ++bits) {
    const e4m3 scale{static_cast<u8>(bits)};
    // A code of 1/2 has the lowest bit, and no floor is above it.
    const int lowest = lowest_bit(0.5 * double{decode(scale)});
    const u32 exponent = static_cast<u32>(model::scale_parts(scale).exponent) & 0xffu;
    for (int block = 0; block < 4; ++block) {
      const model::block_floors floors = model::floors_of_blocks(exponent << (8 * block), -41);
      CHECK(static_cast<int>(floors.of_block(block)) - 64 <= lowest);
      CHECK(static_cast<int>(floors.of_block(block)) - 64 >= lowest - 3);
      CHECK(model::floors_of_blocks(exponent << (8 * block), 7).of_block(block) == 64 + 7);
    }
  }
  // Blocks of zeros, whose scale is 0 or far from 1, have the row's floor or the largest there is.
  CHECK(model::floors_of_blocks(0x8082'7f40u, -10).first == ((64 + 40) << 16 | (64 + 40)));
  CHECK(model::floors_of_blocks(0x8082'7f40u, -10).last == ((64 - 10) << 16 | (64 - 10)));
}

TEST_CASE("certificate of products: where it holds, every partial sum has 24 bits", "[model][certificate]") {
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << name_of(what) << " and " << name_of(other));
      const counts of_nvfp4 = check_kinds<nvfp4>(what, other), of_mxfp4 = check_kinds<mxfp4>(what, other);
      CHECK(of_nvfp4.passed > of_nvfp4.could_pass * 9 / 10);
      CHECK(of_mxfp4.passed > of_mxfp4.could_pass * 9 / 10);
    }
}

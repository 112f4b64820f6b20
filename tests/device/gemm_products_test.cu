// SPDX-License-Identifier: Apache-2.0
// Strips that are certified by the products of each row with each column, where magnitudes leave them open.
#include <bit>

#include "mma/decoded_on_host.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;
using device::detail::open_word, device::detail::open_words;
using mma::wgmma::certified_strips;

namespace {

/// Where word `index` is: its step, its strip, and its first group of columns.
struct place_of_word {
  i64 step, strip, group;

  place_of_word(certified_strips const& x, i64 index)
      : step(index / (x.words_of_strip * x.strips)),
        strip(index % x.strips),
        group(index / x.strips % x.words_of_strip * open_word::groups) {}
};
/// The group of a bit, among those of its word: as certified_strips says.
i64 group_of(int bit) { return (7 - bit % 8) / 2 * 8 + (7 - bit % 8) % 2 * 4 + bit / 8; }

/// What the products of two groups of eight rows tell: proved, not proved, or too near to say.
enum class verdict { no, near, yes };

struct products_on_host {
  decoded_on_host a, b;

  static model::block_floors floors(decoded_on_host const& x, i64 row, i64 step) {
    u32 exponents = 0;
    for (int i = 0; i < 4; ++i)
      exponents |=
          (static_cast<u32>(x.exponents[static_cast<size_t>(row * x.of.row_exponents() + 4 * step + i)]) &
           0xffu)
          << (8 * i);
    return model::floors_of_blocks(exponents, 40 - x.depths_at(row / 8, step).of_row[row % 8]);
  }
  double sum(i64 row, i64 col, i64 step) const {
    double sum = 0;
    for (i64 i = 0; i < 64; ++i)
      sum += std::abs(double{to_float(a.values[static_cast<size_t>(row * a.of.padded_k() + 64 * step + i)])} *
                      double{to_float(b.values[static_cast<size_t>(col * b.of.padded_k() + 64 * step + i)])});
    return sum;
  }
  verdict of(i64 strip, i64 group, i64 step) const {
    const auto unbounded = [&](decoded_on_host const& x, i64 g) {
      return g < x.of.row_groups() && x.bounds_at(g, step).width == model::unbounded;
    };
    if (unbounded(a, 2 * strip) || unbounded(a, 2 * strip + 1) || unbounded(b, group)) return verdict::no;
    verdict all = verdict::yes;
    for (i64 row = 16 * strip; row < std::min(16 * strip + 16, a.of.rows); ++row)
      for (i64 col = 8 * group; col < std::min(8 * group + 8, b.of.rows); ++col) {
        const double x = sum(row, col, step);
        const model::block_floors of_row = floors(a, row, step), of_col = floors(b, col, step);
        const auto exact = [&](double y) {
          return model::products_are_exact(static_cast<float>(y), of_row, of_col);
        };
        if (!exact(x * (1 - 0x1p-15))) return verdict::no;
        if (!exact(x * (1 + 0x1p-15))) all = verdict::near;
      }
    return all;
  }
};

/// What the kernel should make of words, by its own rules: a word is left after so many failures, and a CTA
/// ends if few of its first words have certificates. Near a limit, as the device says.
struct expected_words {
  products_on_host const& products;
  certified_strips strips;
  std::vector<u32> const &before, &found;
  std::vector<u32> words = before;
  i64 set = 0, ended = 0;  ///< bits; CTAs

  open_word::result look(i64 index) {
    const place_of_word at(strips, index);
    open_word::result x;
    if (16 * at.strip >= products.a.of.rows) return x;
    const size_t i = static_cast<size_t>(index);
    for (int bit = 0; bit < 32 && x.asked - x.certified < open_word::most_failures; ++bit) {
      if ((before[i] >> bit & 1) != 0) continue;
      ++x.asked;
      const verdict v = products.of(at.strip, at.group + group_of(bit), at.step);
      if (v == verdict::yes || (v == verdict::near && (found[i] >> bit & 1) != 0))
        ++x.certified, ++set, words[i] |= 1u << bit;
    }
    return x;
  }
  void cta(i64 number, i64 ctas) {
    constexpr i64 threads = 32 * device::detail::products_warps, each_thread = open_words::of_thread;
    const i64 count = static_cast<i64>(before.size()) / each_thread, rounds = ceil_div(count, ctas * threads),
              each = ceil_div(count, rounds);
    for (i64 first = 0; first < count; first += each) {
      std::vector<i64> open;
      for (i64 i = first + number; i < std::min(first + each, count); i += ctas)
        for (i64 word = each_thread * i; word < each_thread * (i + 1); ++word)
          if (before[static_cast<size_t>(word)] != ~0u) open.push_back(word);
      open_word::result all;
      for (size_t i = 0; i < open.size(); ++i) {
        if (i == open_words::first_few && all.certified * 8 < all.asked * 3) break;
        const open_word::result x = look(open[i]);
        if (i < open_words::first_few) all.asked += x.asked, all.certified += x.certified;
      }
      if (all.certified * 8 < all.asked * 3) {
        ++ended;
        return;
      }
    }
  }
};

struct certified_counts {
  i64 set = 0, left = 0, ended = 0;
};
/// That the device certifies what these rules and the model say, of a case whose strips are all looked at.
template <class F, class LA, class LB>
void check_products(gemm_case<F, LA, F, LB, bf16> const& c, int processors, certified_counts& counts) {
  INFO(c.a.data.rows << " x " << c.b.data.rows << " x " << c.a.data.cols << " by " << processors);
  const device_gemm_operand<F, LA> a(c.a);
  const device_gemm_operand<F, LB> b(c.b);
  const device_buffer<bf16> d(c.before);
  const device_buffer<u8> workspace(device::gemm_workspace_bytes(a.view.rows, b.view.rows, a.view.cols));
  const device::detail::wgmma_call call(a.view, b.view, c.view_of(d.data()), c.o.factors, workspace.data(),
                                        nullptr);
  REQUIRE(call.decode(nullptr) == errc::ok);
  auto strips = certified_strips::in(nullptr, a.view.rows, b.view.rows);
  const device_buffer<u32> words(std::vector<u32>(
      static_cast<size_t>(call.p.a.steps * strips.words_of_strip * strips.strips), 0x5555'aaaau));
  strips.words = words.data(), strips.least_open = 0;
  const device::detail::certify_problem<!same_type<typename F::scale, e4m3>> ahead{
      call.p.a, call.p.b, call.p.samples, 1.0f, strips};
  REQUIRE(device::detail::launch_certify(ahead, 132, nullptr) == errc::ok);
  const std::vector<u32> before = words.to_host();
  REQUIRE(device::detail::launch_certify_products(ahead, processors, nullptr) == errc::ok);
  const std::vector<u32> found = words.to_host();
  const products_on_host products{decoded_on_host(call.p.a), decoded_on_host(call.p.b)};
  expected_words expected{products, strips, before, found};
  const i64 ctas = i64{device::detail::products_ctas} * processors;
  for (i64 cta = 0; cta < ctas; ++cta) expected.cta(cta, ctas);
  CHECK(found == expected.words);
  counts.set += expected.set, counts.ended += expected.ended;
  for (const u32 x : found) counts.left += std::popcount(~x);
}

}  // namespace

TEST_CASE("device gemm products: strips are certified as the model says", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  certified_counts counts;
  const auto check = [&](kind of_a, kind of_b, i64 m, i64 n, i64 k, int processors) {
    check_products(case_of_kinds<nvfp4, linear, swizzled_128x4>(of_a, of_b, m, n, k), processors, counts);
  };
  check(kind::gaussian, kind::gaussian, 1, 1, 16, 132);
  check(kind::student_2, kind::lognormal_blocks, 9, 17, 1040, 132);
  check(kind::lognormal_blocks, kind::gaussian, 300, 400, 512, 132);
  check(kind::lognormal_tokens, kind::lognormal_tokens, 300, 400, 512, 8);
  check(kind::lognormal_blocks, kind::gaussian, 200, 4200, 192, 1);  // several rounds
  CHECK((counts.set > 2000 && counts.left > 2000));
}

TEST_CASE("device gemm products: a CTA that finds few certificates ends", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  certified_counts counts;
  check_products(
      case_of_kinds<nvfp4, linear, linear>(kind::lognormal_blocks, kind::lognormal_blocks, 300, 600, 512), 1,
      counts);
  CHECK((counts.ended > 0 && counts.left > 1000));
}

TEST_CASE("device gemm products: MXFP4 has scales far from 1", "[device][gemm][blackwell]") {
  if (!hopper_or_warn()) return;
  certified_counts counts;
  auto c = case_of_kinds<mxfp4, linear, linear>(kind::gaussian, kind::gaussian, 130, 300, 1024);
  const auto a = c.a.data.view(c.a.data.codes.data(), c.a.data.scales.data()),
             b = c.b.data.view(c.b.data.codes.data(), c.b.data.scales.data());
  for (i64 row = 0; row < a.rows; ++row)
    for (i64 block = 0; block < a.blocks(); ++block)
      a.store_scale(row, block,
                    {static_cast<u8>(118 + (row * 7919 + block * 104729 + row * block * 31) % 18)});
  // Not in the values: from here on nothing of these rows has bounds.
  for (auto const& x : {a, b})
    for (i64 row = 0; row < x.rows; row += 21)
      x.store_scale(row, row % x.blocks(), {static_cast<u8>(row % 2 == 0 ? 20 : 230)});
  check_products(c, 132, counts);
  CHECK((counts.set > 200 && counts.left > 1000));
}

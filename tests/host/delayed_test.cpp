// SPDX-License-Identifier: Apache-2.0
// Delayed and percentile amax against their definitions.
#include <algorithm>
#include <cmath>
#include <fourscale/fourscale.hpp>
#include <vector>

#include "support/amax.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), nan_value = bit_cast<float>(0x7fc0'0000u);

/// A history of `length` and the amax in use; step(amax) records one and ends the step.
struct training {
  std::vector<float> history;
  float in_use = largest_block_value<fp8_e4m3>;
  amax_of_history rule;

  training(size_t length, amax_of_history r) : history(length), rule(r) {}
  float step(float amax) {
    history[0] = amax;
    REQUIRE(host::update({history.data(), static_cast<i64>(history.size()), &in_use, rule}) == errc::ok);
    return in_use;
  }
};

}  // namespace

TEST_CASE("delayed amax: the largest of the last steps", "[host][delayed]") {
  training t(4, amax_of_history::largest);
  CHECK(tensor_scale<fp8_e4m3>(t.in_use).encode == 1.0f);  // before the first step
  CHECK(t.step(2.0f) == 2.0f);
  CHECK(t.step(5.0f) == 5.0f);
  CHECK(t.step(1.0f) == 5.0f);
  CHECK(t.history[0] == 0.0f);  // where the next amax goes
  CHECK(t.step(1.5f) == 5.0f);
  CHECK(t.step(1.5f) == 5.0f);
  CHECK(t.step(1.5f) == 1.5f);  // 5 has left: of 4 places one is the current step's
}

TEST_CASE("delayed amax: the most recent", "[host][delayed]") {
  training t(8, amax_of_history::most_recent);
  CHECK(t.step(2.0f) == 2.0f);
  CHECK(t.step(5.0f) == 5.0f);
  CHECK(t.step(1.0f) == 1.0f);
}

TEST_CASE("delayed amax: zero, infinity and NaN", "[host][delayed]") {
  training t(4, amax_of_history::most_recent);
  CHECK(t.step(3.0f) == 3.0f);
  const std::vector<float> before = t.history;
  CHECK(t.step(0.0f) == 3.0f);  // not seen in this step: nothing rolls
  CHECK(t.history == before);
  CHECK(t.step(infinity) == 3.0f);  // keeps the scale
  CHECK(t.step(nan_value) == 3.0f);
  CHECK(t.step(2.0f) == 2.0f);

  training m(4, amax_of_history::largest);
  CHECK(m.step(3.0f) == 3.0f);
  CHECK(m.step(nan_value) == 3.0f);  // NaN counts for nothing
  CHECK(m.step(infinity) == 3.0f);   // infinity wins the maximum, and then keeps the scale
  CHECK(m.step(7.0f) == 3.0f);       // still in the history
  CHECK(m.step(7.0f) == 3.0f);
  CHECK(m.step(7.0f) == 3.0f);
  CHECK(m.step(7.0f) == 7.0f);
}

TEST_CASE("delayed amax: a history of one, and bad arguments", "[host][delayed]") {
  training t(1, amax_of_history::largest);
  CHECK(t.step(2.0f) == 2.0f);
  CHECK(t.history[0] == 0.0f);
  CHECK(t.step(1.0f) == 1.0f);
  float x = 1;
  CHECK(host::update({nullptr, 4, &x}) == errc::null_pointer);
  CHECK(host::update({&x, 4, nullptr}) == errc::null_pointer);
  CHECK(host::update({&x, 0, &x}) == errc::empty_matrix);

  float history[5] = {3, 5, 0, 0, 7}, amax = 1;
  float* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(history) + 1);
  CHECK(host::update({odd, 4, &amax}) == errc::misaligned);
  CHECK(host::update({history, 4, odd}) == errc::misaligned);
  CHECK(host::update({history, i64{1} << 44, &amax}) == errc::too_large);
  CHECK(host::update({history, 4, history + 3}) == errc::overlap);
  CHECK(host::update({history, 4, &amax, static_cast<amax_of_history>(9)}) == errc::bad_recipe);
  CHECK((history[0] == 3 && amax == 1));
  CHECK(host::update({history, 4, history + 4}) == errc::ok);
  CHECK(history[4] == 5);
}

TEST_CASE("percentile amax: the order statistic that a sort gives", "[host][percentile]") {
  std::vector<percentile_workspace> w(1);
  for (i64 count : {1, 2, 63, 1000, 4096}) {
    std::vector<float> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i) x[i] = count % 2 ? test::ugly(i) : test::gaussian(i / 3);
    std::vector<float> sorted;
    for (float v : x) sorted.push_back(v != v ? 0.0f : std::abs(v));
    std::sort(sorted.begin(), sorted.end());
    for (double share : {0.0, 0.1, 0.5, 0.999, 1.0}) {
      float amax = -1;
      REQUIRE(host::percentile_amax(matrix_view<float const>{x, 1, count}, share, w.data(), &amax) ==
              errc::ok);
      const double rank = std::max(1.0, std::ceil(share * static_cast<double>(count)));
      CHECK(amax == sorted[static_cast<size_t>(rank) - 1]);
      REQUIRE(host::percentile_amax(transposed(matrix_view<float const>{x, 1, count}), share, w.data(),
                                    &amax) == errc::ok);
      CHECK(amax == sorted[static_cast<size_t>(rank) - 1]);
    }
    float all = -1;
    REQUIRE(host::percentile_amax(matrix_view<float const>{x, 1, count}, 1.0, w.data(), &all) == errc::ok);
    CHECK(all == test::amax_of(matrix_view<float const>{x, 1, count}));
  }
  float untouched = -1;
  CHECK(host::percentile_amax(matrix_view<float const>{nullptr, 4, 4}, 1.0, w.data(), &untouched) ==
        errc::null_pointer);
  CHECK(host::percentile_amax(matrix_view<float const>{&untouched, 1, 1}, 1.0, nullptr, &untouched) ==
        errc::null_pointer);
  CHECK(host::percentile_amax(matrix_view<float const>{&untouched, 1, 1}, 1.0, w.data(), nullptr) ==
        errc::null_pointer);
  float pair[2] = {2, 3};
  float* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(pair) + 1);
  auto* const odd_workspace =
      reinterpret_cast<percentile_workspace*>(reinterpret_cast<char*>(w.data()) + sizeof(u64) / 2);
  CHECK(host::percentile_amax(matrix_view<float const>{pair, 1, 1}, 1.0, w.data(), odd) == errc::misaligned);
  CHECK(host::percentile_amax(matrix_view<float const>{pair, 1, 1}, 1.0, odd_workspace, &untouched) ==
        errc::misaligned);
  CHECK(untouched == -1);
}

TEST_CASE("percentile amax: a share that is no number lets all but the smallest saturate",
          "[host][percentile]") {
  std::vector<percentile_workspace> w(1);
  const std::vector<float> x = {4.0f, -1.0f, 3.0f, 2.0f};
  for (const double share : {0.0, -1.0, static_cast<double>(bit_cast<float>(0x7fc0'0000u))}) {
    float amax = -1;
    REQUIRE(host::percentile_amax(matrix_view<float const>{x, 2, 2}, share, w.data(), &amax) == errc::ok);
    CHECK(amax == 1.0f);
  }
}

TEST_CASE("percentile amax: of four values, half a share is the second", "[host][percentile]") {
  std::vector<percentile_workspace> w(1);
  const std::vector<float> x = {4.0f, -1.0f, 3.0f, 2.0f};
  for (int rank = 1; rank <= 4; ++rank)
    for (const double less : {0.0, 0.125}) {
      float amax = -1;
      REQUIRE(host::percentile_amax(matrix_view<float const>{x, 2, 2}, 0.25 * rank - less, w.data(), &amax) ==
              errc::ok);
      CHECK(amax == static_cast<float>(rank));
    }
}

// SPDX-License-Identifier: Apache-2.0
// The adder in pairs of floats: what it cuts, and sums that two floats hold only just, or not.
#include <fourscale/mma/exact_step.cuh>
#include <vector>

#include "device/matches_host.cuh"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

/// Sums of four blocks, integers times 2^(exponent - 8), and an accumulator.
struct adder_case {
  i32 units[4];
  int exponents[4];
  float c;
};
struct adder_results {
  float by_floats, by_model;
};

__global__ void add_all(adder_case const* cases, adder_results* to, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  float sums[4];
  u32 exponents = 0;
  for (int j = 0; j < 4; ++j) {
    const int e = cases[i].exponents[j];
    sums[j] = ldexpf(static_cast<float>(cases[i].units[j]), e - 8);
    exponents |= (static_cast<u32>(e) & 0xffu) << (8 * j);
  }
  const float4 x{sums[0], sums[1], sums[2], sums[3]};
  to[i] = {mma::detail::add_and_drop(cases[i].c, x, exponents, 0),
           mma::detail::add_by_model(cases[i].c, x, exponents, 0)};
}

void check(std::vector<adder_case> const& cases) {
  const test::device_buffer<adder_case> from(cases);
  const test::device_buffer<adder_results> to(std::vector<adder_results>(cases.size()));
  add_all<<<static_cast<unsigned>(cases.size() / 256 + 1), 256>>>(from.data(), to.data(),
                                                                  static_cast<int>(cases.size()));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  int wrong = 0;
  for (adder_results const& r : to.to_host())
    wrong += bit_cast<u32>(r.by_floats) != bit_cast<u32>(r.by_model);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("exact step: sums that two floats do not hold go to the model", "[mma]") {
  if (!test::gpu_or_warn()) return;
  // Remainders of -2^-35, -2^-12 and -2^-12 make 25 bits, the last of which decides.
  const adder_case just{{518400, 518400, 100 * 4096 - 1, -1}, {0, 0, -4, -27}, 2.0f - 0x1p-12f};
  std::vector<adder_case> cases;
  for (const int sign : {1, -1})
    for (int shift = -40; shift <= 30; ++shift) {
      adder_case x = just;
      for (i32& units : x.units) units *= sign;
      for (int& e : x.exponents) e += shift;
      x.c = std::ldexp(x.c, shift) * static_cast<float>(sign);
      cases.push_back(x);
    }
  check(cases);
}

TEST_CASE("exact step: the adder's cut in floats is the model's", "[mma]") {
  if (!test::gpu_or_warn()) return;
  std::vector<adder_case> cases;
  u64 state = 1;
  const auto draw = [&state](int count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % static_cast<u64>(count));
  };
  for (int i = 0; i < 1 << 18; ++i) {
    adder_case x{};
    for (int j = 0; j < 4; ++j) {
      x.exponents[j] = draw(41) - 20 - draw(2) * draw(20);
      x.units[j] = (draw(1036801) - 518400) >> draw(20);
    }
    x.c = std::ldexp(static_cast<float>(draw(1 << 25) - (1 << 24)), draw(60) - 50);
    cases.push_back(x);
  }
  for (adder_case& x : cases)
    if (draw(16) == 0) x.c = 0.0f;
  check(cases);
}

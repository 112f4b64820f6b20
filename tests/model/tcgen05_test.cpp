// SPDX-License-Identifier: Apache-2.0
// Whole GEMMs through the model of tcgen05: shared memory, tcgen05.cp of the scales, mma, commit, ld; equal
// to the chained dot, bit for bit. And the same program with one thing wrong: each time the model says which.
#include <cstring>
#include <memory>

#include "model/program_cases.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::model;
using test::fault, test::gemm_case;

namespace {

/// Runs a program on cleared memory.
misuse run(test::gemm_memory& memory, gemm_case const& c, fault f = fault::none) {
  memory.check = {};
  std::memset(memory.tensor, 0x5a, sizeof memory.tensor);
  std::memset(memory.shared, 0xa5, sizeof memory.shared);
  return test::gemm_program{memory, c, f}.run();
}

}  // namespace

TEST_CASE("tcgen05: a whole GEMM equals the chained dot", "[model][tcgen05]") {
  const auto memory = std::make_unique<test::gemm_memory>();
  for (gemm_case const& c : test::good) {
    CAPTURE(static_cast<int>(c.format.kind), c.format.block, c.m, c.n, c.ctas, c.steps, c.a_in_tensor);
    CHECK(message(run(*memory, c)) == std::string("ok"));
    CHECK(test::wrong_outputs(*memory, c) == 0);
    CHECK(memory->check.count == 0);
  }
}

TEST_CASE("tcgen05: each planted fault is caught, with the sentence that mends it", "[model][tcgen05]") {
  const auto memory = std::make_unique<test::gemm_memory>();
  for (test::planted const& p : test::faults) {
    const misuse e = run(*memory, p.in, p.what);
    CAPTURE(static_cast<int>(p.what), message(e));
    CHECK(e == p.expected);
    CHECK(std::strstr(message(e), p.words) != nullptr);
    CHECK(memory->check.first == e);
    CHECK(memory->check.count == 1);
  }
}

TEST_CASE("tcgen05: what is legal but wrong shows in the numbers", "[model][tcgen05]") {
  const auto memory = std::make_unique<test::gemm_memory>();
  for (auto const& [what, c] : test::silent) {
    CAPTURE(static_cast<int>(what), c.format.block);
    CHECK(run(*memory, c, what) == misuse::ok);
    CHECK(test::wrong_outputs(*memory, c) > 0);
  }
}

TEST_CASE("misuse: every value has a sentence of its own", "[model][misuse]") {
  constexpr int last = static_cast<int>(misuse::would_hang);
  CHECK(std::strcmp(message(static_cast<misuse>(last + 1)), "not a misuse") == 0);
  for (int i = 0; i <= last; ++i)
    for (int j = 0; j <= i; ++j) {
      CAPTURE(i, j);
      CHECK((std::strcmp(message(static_cast<misuse>(i)), message(static_cast<misuse>(j))) == 0) == (i == j));
      CHECK(std::strcmp(message(static_cast<misuse>(i)), "not a misuse") != 0);
    }
}

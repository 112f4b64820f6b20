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

namespace {

/// An instruction of NVFP4, of any M and N, that exists or not.
mma_instruction nvfp4_instruction(int ctas, int m, int n) {
  return {mma_kind::mxf4nvf4, 16, ptx::instruction_descriptor({.cta_group = ctas, .m = m, .n = n})};
}

/// A pair of CTAs with M = 128, A in tensor memory, all of which one thread has written with zeros.
struct pair_of_ctas {
  std::unique_ptr<test::gemm_memory> memory = std::make_unique<test::gemm_memory>();
  tensor_core core;
  mma_call call{
      .instruction = nvfp4_instruction(2, 128, 64),
      .d = 0,
      .a = 400,
      .b = ptx::smem_descriptor(
          {.start_address = test::shared_first, .stride_byte_offset = 1024, .pattern = ptx::swizzle::b128}),
      .scale_a = 256,
      .scale_b = 300,
      .a_in_tensor_memory = true};
  agent thread{0, 0};

  pair_of_ctas() {
    memory->check = {};
    core.check = &memory->check, core.group = 2;
    for (u32 cta = 0; cta < 2; ++cta) {
      core.cta[cta] = {{memory->tensor[cta]}, {memory->shared[cta], test::shared_first, test::shared_bytes}};
      std::memset(memory->tensor[cta], 0, sizeof memory->tensor[cta]);
      u32 first = 0;
      REQUIRE(memory->check.columns[cta].alloc(tensor_columns, first) == misuse::ok);
      memory->check.note_write(thread, flow::tensor, memory->check.issue(thread), {cta, 0, tensor_columns});
    }
  }
  u32& word(u32 cta, u32 lane, u32 column) const { return core.cta[cta].tensor.at(lane, column); }
};

}  // namespace

TEST_CASE("tcgen05.mma: N is a multiple of 8 on one CTA, of 16 on a pair", "[model][tcgen05]") {
  for (int n = 8; n <= 256; n += 8) {
    CHECK(check_instruction(nvfp4_instruction(1, 128, n), 1) == misuse::ok);
    CHECK((check_instruction(nvfp4_instruction(2, 256, n), 2) == misuse::ok) == (n % 16 == 0));
  }
}

TEST_CASE("tcgen05.mma: the rows of a tile stay inside their span", "[model][tcgen05]") {
  const auto memory = std::make_unique<test::gemm_memory>();
  const shared_memory shared{memory->shared[0], test::shared_first, test::shared_bytes};
  for (const u32 in_span : {0u, 16u, 32u, 48u}) {
    const u64 word = ptx::smem_descriptor({.start_address = test::shared_first + in_span,
                                           .stride_byte_offset = 512,
                                           .pattern = ptx::swizzle::b64});
    CHECK(check_shared(decode_shared(word), 16, 32, shared) ==
          (in_span + 32 <= 64 ? misuse::ok : misuse::off_swizzle_boundary));
  }
}

TEST_CASE("tcgen05.mma: accumulators are the same by address, M and N", "[model][tcgen05]") {
  const auto accumulator = [](int m, int n, u32 column) {
    return mma_plan({.instruction = nvfp4_instruction(2, m, n), .d = column}, 2).accumulator();
  };
  CHECK(accumulator(256, 64, 32) == accumulator(256, 64, 32));
  CHECK(accumulator(256, 64, 32) != accumulator(128, 64, 32));
  CHECK(accumulator(256, 64, 32) != accumulator(256, 80, 32));
  CHECK(accumulator(256, 64, 32) != accumulator(256, 64, 33));
}

TEST_CASE("tcgen05.mma: D lies apart from all that is read", "[model][tcgen05]") {
  const pair_of_ctas pair;
  const auto with = [&](u32 scale_a, u32 scale_b, u64 a) {
    mma_call c = pair.call;
    c.scale_a = scale_a, c.scale_b = scale_b, c.a = a;
    return mma_plan(c, 2).check_addresses();
  };
  // D has columns 0 to 31 of each CTA: 64 of N, halved.
  CHECK(with(256, 300, 400) == misuse::ok);
  CHECK(with(32, 34, 36) == misuse::ok);
  CHECK(with(31, 300, 400) == misuse::overlapping_operands);
  CHECK(with(256, 31, 400) == misuse::overlapping_operands);
  CHECK(with(256, 300, 31) == misuse::overlapping_operands);
}

TEST_CASE("tcgen05.mma: copies of scales, and of A in a pair, must agree", "[model][tcgen05]") {
  // The last word of each copy: of scales, 32 lanes apart, and of A, 64.
  struct place {
    u32 lane, column;
  };
  CHECK(pair_of_ctas().core.begin_mma({0, 0}, pair_of_ctas().call) == misuse::ok);
  for (const u32 cta : {0u, 1u})
    for (const place p : {place{63, 257}, place{127, 257}, place{63, 300}, place{63, 301}, place{127, 407}}) {
      CAPTURE(cta, p.lane, p.column);
      const pair_of_ctas pair;
      pair.word(cta, p.lane, p.column) = 1;
      CHECK(pair.core.begin_mma(pair.thread, pair.call) == misuse::copies_differ);
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

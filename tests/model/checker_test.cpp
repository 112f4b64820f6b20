// SPDX-License-Identifier: Apache-2.0
// The canonical synchronisation patterns of PTX ISA 9.7.16.6.4: each is accepted as it stands, and without
// any one of its steps the missing step is named.
#include <fourscale/model/model.hpp>
#include <memory>
#include <vector>

#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::model;

namespace {

enum class op {
  mma,        // writes D
  other_mma,  // writes D in another shape
  mma_reads,  // reads the scales
  cp,         // writes the scales
  ld,         // reads D
  st,         // writes D
  commit,
  arrive,
  wait,
  sync,
  fence_before,
  fence_after,
  wait_ld,
  wait_st,
  store_shared,
  proxy_fence,
  read_shared,  // an mma reads what store_shared wrote
};

struct step {
  op what;
  u32 warp = 0;
  misuse if_missing = misuse::ok;  ///< what is said without this step
  u32 barrier = 0;
};

constexpr region d{0, 0, 8}, scales{0, 16, 4};

misuse touch(checker& c, agent a, flow how, region const& r, bool writes, u32 accumulator = 0) {
  const misuse e = writes ? c.can_write(a, how, r, accumulator) : c.can_read(a, how, r, accumulator);
  if (e != misuse::ok) return e;
  const u32 ticket = c.issue(a);
  writes ? c.note_write(a, how, ticket, r, accumulator) : c.note_read(a, how, ticket, r);
  return e;
}

misuse shared_step(checker& c, step const& s) {
  const agent a{0, s.warp};
  const strided_range tile{1024, 128, 1024, 2};
  if (s.what == op::store_shared) return c.write_shared(a, 2048 + 64, 2048 + 80, false);
  const misuse e = c.can_read_shared(a, 0, tile);
  if (e == misuse::ok) c.note_read_shared(a, 0, tile, c.issue(a));
  return e;
}

misuse carry_out(checker& c, step const& s) {
  const agent a{0, s.warp};
  switch (s.what) {
    case op::mma:
      return touch(c, a, flow::tensor, d, true, 7);
    case op::other_mma:
      return touch(c, a, flow::tensor, d, true, 8);
    case op::mma_reads:
      return touch(c, a, flow::tensor, scales, false);
    case op::cp:
      return touch(c, a, flow::tensor, scales, true);
    case op::ld:
      return touch(c, a, flow::load, d, false);
    case op::st:
      return touch(c, a, flow::store, d, true);
    case op::commit:
      return c.commit(a, s.barrier, 1);
    case op::arrive:
      return c.arrive(a, 0, s.barrier);
    case op::wait:
      return c.wait(a, s.barrier, 0);
    case op::sync:
      return c.sync(0b11), misuse::ok;
    case op::fence_before:
      return c.fence_before(a), misuse::ok;
    case op::fence_after:
      return c.fence_after(a), misuse::ok;
    case op::wait_ld:
      return c.wait_ld(a), misuse::ok;
    case op::wait_st:
      return c.wait_st(a), misuse::ok;
    case op::proxy_fence:
      return c.proxy_fence(a), misuse::ok;
    default:
      return shared_step(c, s);
  }
}

/// The first misuse of the steps but number `missing`.
misuse run(std::vector<step> const& steps, std::size_t missing) {
  const auto c = std::make_unique<checker>();
  u32 address = 0;
  misuse e = c->columns[0].alloc(32, address);
  for (u32 barrier = 0; barrier < 2 && e == misuse::ok; ++barrier) e = c->barrier_init(0, barrier, 1);
  for (std::size_t i = 0; i < steps.size() && e == misuse::ok; ++i)
    if (i != missing) e = carry_out(*c, steps[i]);
  return e;
}

void check_pattern(char const* name, std::vector<step> const& steps) {
  CAPTURE(name);
  CHECK(run(steps, steps.size()) == misuse::ok);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i, message(run(steps, i)));
    if (steps[i].if_missing != misuse::ok) CHECK(run(steps, i) == steps[i].if_missing);
  }
}

/// Allocation through the whole interface, in a constant expression.
constexpr bool constant_allocation() {
  checker c{};
  tensor_core core;
  core.check = &c;
  u32 address = 1;
  bool ok = core.alloc({0, 0}, 256, address) == misuse::ok && address == 0;
  ok = ok && core.relinquish({0, 0}) == misuse::ok && core.alloc({0, 0}, 32, address) != misuse::ok;
  ok = ok && c.first == misuse::alloc_after_relinquish && c.count == 1 &&
       c.finish(0) == misuse::dealloc_forgotten;
  return ok && core.dealloc({0, 0}, 0, 256) == misuse::ok && c.finish(0) == misuse::ok;
}
static_assert(constant_allocation());

}  // namespace

TEST_CASE("checker: pipelined instructions of one thread need nothing", "[model][checker]") {
  check_pattern("mma, mma", {{op::mma}, {op::mma}});
  check_pattern("cp, mma, cp", {{op::cp}, {op::mma_reads}, {op::cp}});
  CHECK(run({{op::mma}, {op::other_mma}}, 9) == misuse::other_accumulator_shape);
  check_pattern("another shape", {{op::mma},
                                  {op::commit, 0, misuse::would_hang},
                                  {op::wait, 0, misuse::other_accumulator_shape},
                                  {op::fence_after, 0, misuse::other_accumulator_shape},
                                  {op::other_mma}});
}

TEST_CASE("checker: instructions of one thread that are not pipelined need their wait", "[model][checker]") {
  check_pattern("st, ld", {{op::st}, {op::wait_st, 0, misuse::missing_wait_st}, {op::ld}});
  check_pattern("st, mma", {{op::st}, {op::wait_st, 0, misuse::missing_wait_st}, {op::mma}});
  check_pattern("ld, mma", {{op::st},
                            {op::wait_st, 0, misuse::missing_wait_st},
                            {op::ld},
                            {op::wait_ld, 0, misuse::missing_wait_ld},
                            {op::mma}});
  check_pattern("mma, ld", {{op::mma, 0, misuse::uninitialized_cells},
                            {op::commit, 0, misuse::would_hang},
                            {op::wait, 0, misuse::missing_wait},
                            {op::fence_after, 0, misuse::missing_fence_after},
                            {op::ld}});
  CHECK(run({{op::mma}, {op::ld}}, 9) == misuse::missing_commit);
  CHECK(run({{op::commit}, {op::mma}, {op::wait}, {op::fence_after}, {op::ld}}, 9) == misuse::missing_commit);
}

TEST_CASE("checker: a wait says nothing of what is not waited for", "[model][checker]") {
  CHECK(run({{op::st}, {op::wait_ld}, {op::ld}}, 9) == misuse::missing_wait_st);
  CHECK(run({{op::st}, {op::wait_st}, {op::ld}, {op::wait_st}, {op::mma}}, 9) == misuse::missing_wait_ld);
}

TEST_CASE("checker: columns are given back once reads and writes are over", "[model][checker]") {
  const auto c = std::make_unique<checker>();
  const agent a{0, 0};
  u32 first = 0;
  REQUIRE(c->columns[0].alloc(32, first) == misuse::ok);
  REQUIRE(touch(*c, a, flow::store, d, true) == misuse::ok);
  CHECK(c->dealloc(a, first, 32) == misuse::dealloc_in_use);
  c->wait_st(a);
  REQUIRE(touch(*c, a, flow::load, d, false) == misuse::ok);
  CHECK(c->dealloc(a, first, 32) == misuse::dealloc_in_use);
  c->wait_ld(a);
  CHECK(c->dealloc(a, first, 32) == misuse::ok);
}

TEST_CASE("checker: pipelined instructions of two threads need fences, not completion", "[model][checker]") {
  check_pattern("cp | mma", {{op::cp, 0, misuse::uninitialized_cells},
                             {op::fence_before, 0, misuse::missing_fence_before},
                             {op::arrive, 0, misuse::would_hang},
                             {op::wait, 1, misuse::missing_barrier},
                             {op::fence_after, 1, misuse::missing_fence_after},
                             {op::mma_reads, 1}});
  check_pattern("the same over a barrier of both", {{op::cp},
                                                    {op::fence_before, 0, misuse::missing_fence_before},
                                                    {op::sync, 0, misuse::missing_barrier},
                                                    {op::fence_after, 1, misuse::missing_fence_after},
                                                    {op::mma_reads, 1}});
}

TEST_CASE("checker: other instructions of two threads need completion and fences", "[model][checker]") {
  check_pattern("ld | mma", {{op::st},
                             {op::wait_st, 0, misuse::missing_wait_st},
                             {op::ld},
                             {op::wait_ld, 0, misuse::missing_wait_ld},
                             {op::fence_before, 0, misuse::missing_fence_before},
                             {op::arrive, 0, misuse::would_hang},
                             {op::wait, 1, misuse::missing_barrier},
                             {op::fence_after, 1, misuse::missing_fence_after},
                             {op::mma, 1}});
  check_pattern("mma | ld", {{op::mma, 0, misuse::uninitialized_cells},
                             {op::commit, 0, misuse::would_hang},
                             {op::wait, 1, misuse::missing_wait},
                             {op::fence_after, 1, misuse::missing_fence_after},
                             {op::ld, 1}});
  check_pattern("mma | | ld", {{op::mma, 0, misuse::uninitialized_cells},
                               {op::commit, 0, misuse::would_hang},
                               {op::wait, 0, misuse::missing_wait},
                               {op::fence_after, 0, misuse::missing_wait},
                               {op::fence_before, 0, misuse::missing_wait, 1},
                               {op::arrive, 0, misuse::would_hang, 1},
                               {op::wait, 1, misuse::missing_wait, 1},
                               {op::fence_after, 1, misuse::missing_fence_after},
                               {op::ld, 1}});
}

TEST_CASE("tcgen05.st and ld: 16x32bx2 leaves the columns between its halves alone", "[model][tcgen05]") {
  const auto c = std::make_unique<checker>();
  std::vector<u32> words(tensor_words, 5), out(32 * 2), in(32 * 2);
  tensor_core core;
  core.check = c.get(), core.cta[0].tensor.words = words.data();
  u32 base = 0;
  REQUIRE(core.alloc({0, 1}, 32, base) == misuse::ok);
  for (u32 i = 0; i < 64; ++i) in[i] = 100 + i;
  const ld_call call{ld_shape::s16x32bx2, 2, base + (48u << 16) + 3, 10};
  CHECK(core.st({0, 1}, call, in.data()) == misuse::ok);
  c->wait_st({0, 1});
  CHECK(core.ld({0, 1}, call, out.data()) == misuse::ok);
  CHECK(out == in);
  CHECK((words[48 * 512 + 3] == 100 && words[49 * 512 + 4] == 103));  // thread 0, then thread 1
  CHECK((words[48 * 512 + 13] == 132 && words[63 * 512 + 14] == 163 && words[48 * 512 + 5] == 5));
  CHECK(core.ld({0, 1}, {ld_shape::s16x64b, 1, base + (48u << 16) + 5}, out.data()) ==
        misuse::uninitialized_cells);
  CHECK(core.ld({0, 1}, {ld_shape::s32x32b, 1, base + (48u << 16) + 3}, out.data()) ==
        misuse::wrong_lane_quarter);
  CHECK(core.ld({0, 1}, {ld_shape::s16x32bx2, 2, base + (32u << 16) + 3, 30}, out.data()) ==
        misuse::unallocated_columns);
}

TEST_CASE("checker: shared memory needs a proxy fence going in and a commit coming out", "[model][checker]") {
  check_pattern("stores, mma", {{op::store_shared},
                                {op::proxy_fence, 0, misuse::missing_proxy_fence},
                                {op::sync, 0, misuse::missing_barrier},
                                {op::read_shared, 1}});
  check_pattern("stores | mma", {{op::store_shared},
                                 {op::proxy_fence, 0, misuse::missing_proxy_fence},
                                 {op::arrive, 0, misuse::would_hang},
                                 {op::wait, 1, misuse::missing_barrier},
                                 {op::read_shared, 1}});
  check_pattern("mma, stores", {{op::read_shared, 1},
                                {op::commit, 1, misuse::would_hang},
                                {op::wait, 0, misuse::shared_in_use},
                                {op::store_shared}});
}

TEST_CASE("checker: a write next to an earlier one takes back nothing that others were told",
          "[model][checker]") {
  const auto c = std::make_unique<checker>();
  const agent writer{0, 1}, reader{0, 2};
  const strided_range first{0, 64, 64, 1}, second{64, 64, 64, 1};
  REQUIRE(c->barrier_init(0, 0, 1) == misuse::ok);
  REQUIRE(c->write_shared(writer, 0, 64, true) == misuse::ok);
  REQUIRE(c->arrive(writer, 0, 0) == misuse::ok);
  REQUIRE(c->write_shared(writer, 64, 128, true) == misuse::ok);
  CHECK(c->can_read_shared(reader, 0, first) == misuse::missing_barrier);
  REQUIRE(c->wait(reader, 0, 0) == misuse::ok);
  CHECK(c->can_read_shared(reader, 0, first) == misuse::ok);
  CHECK(c->can_read_shared(reader, 0, second) == misuse::missing_barrier);
  c->sync(1u << writer.index() | 1u << reader.index());
  CHECK(c->can_read_shared(reader, 0, second) == misuse::ok);
}

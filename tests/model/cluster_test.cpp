// SPDX-License-Identifier: Apache-2.0
// The checks of two pairs of CTAs that share an operand: a copy of one pair to the shared memory of the other
// needs the consent of both, and counts where it arrives. And of bulk copies from shared memory.
#include <fourscale/model/model.hpp>
#include <memory>
#include <vector>

#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::model;

namespace {

// Rank 0 leads the first pair, rank 2 the other one. Both load the halves of a stage for ranks 0 and 2.
constexpr u32 full = 0, empty = 1, load_warp = 4, issue_warp = 5, half = 1024;
constexpr u32 everyone = 0b1111, leaders = 0b101;
constexpr strided_range stage{1024, 2 * half, 0, 1};

struct cluster {
  std::unique_ptr<checker> checks = std::make_unique<checker>();

  explicit cluster(u32 releases = 2) {
    for (const u32 cta : {0u, 2u}) {
      REQUIRE(checks->barrier_init(cta, full, 1) == misuse::ok);
      REQUIRE(checks->barrier_init(cta, empty, releases) == misuse::ok);
    }
  }
  /// A pair's half of the stage, to these CTAs.
  misuse copy(u32 leader, u32 ctas = leaders, u32 bytes = half) const {
    const u32 begin = 1024 + leader / 2 * half;
    return checks->copy_to_shared({leader, load_warp}, ctas, begin, begin + bytes, full);
  }
  misuse expect(u32 leader, u32 bytes = 2 * half) const {
    return checks->arrive({leader, load_warp}, leader, full, bytes);
  }
  /// The pair's mma reads the stage.
  misuse multiply(u32 leader, u32 parity = 0) const {
    const agent a{leader, issue_warp};
    if (const misuse e = checks->wait(a, full, parity); e != misuse::ok) return e;
    const misuse e = checks->can_read_shared(a, leader, stage);
    if (e == misuse::ok) checks->note_read_shared(a, leader, stage, checks->issue(a));
    return e;
  }
  misuse release(u32 leader, u32 ctas = everyone) const {
    return checks->commit({leader, issue_warp}, empty, ctas & leaders);
  }
  misuse wait_empty(u32 leader, u32 parity = 0) const {
    return checks->wait({leader, load_warp}, empty, parity);
  }
  void fill() const {
    for (const u32 leader : {0u, 2u}) {
      REQUIRE(copy(leader) == misuse::ok);
      REQUIRE(expect(leader) == misuse::ok);
    }
  }
};

}  // namespace

TEST_CASE("cluster: a stage is full when both halves are there, whoever is first", "[model][checker]") {
  for (const bool early : {false, true}) {
    const cluster c;
    if (early) REQUIRE(c.copy(2) == misuse::ok);  // before rank 0 expects it
    REQUIRE(c.expect(0) == misuse::ok);
    CHECK(c.multiply(0) == misuse::would_hang);
    REQUIRE(c.copy(0) == misuse::ok);
    if (!early) {
      CHECK(c.multiply(0) == misuse::would_hang);
      REQUIRE(c.copy(2) == misuse::ok);
    }
    CHECK(c.multiply(0) == misuse::ok);
    CHECK(c.multiply(2) == misuse::would_hang);  // which has not said how many bytes it expects
    REQUIRE(c.expect(2) == misuse::ok);
    CHECK(c.multiply(2) == misuse::ok);
  }
}

TEST_CASE("cluster: a stage is filled again when both pairs have released it", "[model][checker]") {
  const cluster c;
  c.fill();
  REQUIRE(c.multiply(0) == misuse::ok);
  REQUIRE(c.multiply(2) == misuse::ok);
  CHECK(c.copy(0) == misuse::shared_in_use);
  REQUIRE(c.release(0) == misuse::ok);
  CHECK(c.wait_empty(0) == misuse::would_hang);
  REQUIRE(c.release(2) == misuse::ok);
  CHECK(c.copy(0) == misuse::shared_in_use);  // it has not waited
  CHECK(c.wait_empty(0) == misuse::ok);
}

TEST_CASE("cluster: two rounds of a stage, in step", "[model][checker]") {
  const cluster c;
  for (const u32 round : {0u, 1u}) {
    c.fill();
    for (const u32 leader : {0u, 2u}) {
      CHECK(c.multiply(leader, round) == misuse::ok);
      CHECK(c.release(leader) == misuse::ok);
    }
    for (const u32 leader : {0u, 2u}) CHECK(c.wait_empty(leader, round) == misuse::ok);
  }
  CHECK(c.checks->count == 0);
}

TEST_CASE("cluster: the consent of one pair is not that of the other", "[model][checker]") {
  const cluster c(1);  // `empty` counts one release only
  c.fill();
  REQUIRE(c.multiply(0) == misuse::ok);
  REQUIRE(c.multiply(2) == misuse::ok);
  REQUIRE(c.release(0) == misuse::ok);
  REQUIRE(c.wait_empty(0) == misuse::ok);
  CHECK(c.copy(0, 0b001) == misuse::ok);
  CHECK(c.copy(0, 0b100) == misuse::shared_in_use);  // the other pair may still read
}

TEST_CASE("cluster: a release for the own pair only, and a copy for it only, leave the other one waiting",
          "[model][checker]") {
  const cluster c;
  REQUIRE(c.copy(0, 0b001) == misuse::ok);
  REQUIRE(c.copy(2) == misuse::ok);
  for (const u32 leader : {0u, 2u}) REQUIRE(c.expect(leader) == misuse::ok);
  CHECK(c.multiply(0) == misuse::ok);
  CHECK(c.multiply(2) == misuse::would_hang);
  REQUIRE(c.release(0, 0b11) == misuse::ok);
  REQUIRE(c.release(2, 0b1100) == misuse::ok);
  CHECK(c.wait_empty(0) == misuse::would_hang);
  CHECK(c.wait_empty(2) == misuse::would_hang);
}

TEST_CASE("cluster: bytes that nobody expects, or that do not come, end no phase", "[model][checker]") {
  const cluster c;
  REQUIRE(c.copy(0) == misuse::ok);
  REQUIRE(c.copy(2) == misuse::ok);
  REQUIRE(c.expect(0, 2 * half + 16) == misuse::ok);
  REQUIRE(c.expect(2, 2 * half - 16) == misuse::ok);
  CHECK(c.multiply(0) == misuse::would_hang);
  CHECK(c.multiply(2) == misuse::would_hang);
  CHECK(c.expect(0) == misuse::bad_barrier);  // more arrivals than the phase has
  CHECK(c.checks->copy_to_shared({0, load_warp}, 0b10, 0, 16, full) == misuse::bad_barrier);
}

TEST_CASE("cluster: a release is passed on, by who waited for it", "[model][checker]") {
  const cluster c;
  c.fill();
  for (const u32 leader : {0u, 2u}) {
    REQUIRE(c.multiply(leader) == misuse::ok);
    REQUIRE(c.release(leader) == misuse::ok);
  }
  const agent third{0, 3};  // as a warp that writes over scales which TMA has brought
  CHECK(c.checks->write_shared(third, 1024, 1040, false) == misuse::shared_in_use);
  for (const u32 leader : {0u, 2u}) REQUIRE(c.wait_empty(leader) == misuse::ok);
  CHECK(c.checks->write_shared(third, 1024, 1040, false) == misuse::shared_in_use);
  c.fill();
  REQUIRE(c.checks->wait(third, full, 1) == misuse::ok);
  CHECK(c.checks->write_shared(third, 1024, 1040, false) == misuse::ok);
}

TEST_CASE("cluster: the pairs have memory and tensor cores of their own", "[model][tcgen05]") {
  const auto c = std::make_unique<checker>();
  std::vector<u32> words(4 * tensor_words, 0);
  std::vector<u8> bytes(4 * 1024);
  tensor_core core;
  core.check = c.get(), core.group = 2;
  for (u32 i = 0; i < 4; ++i) {
    core.cta[i] = {{words.data() + i * tensor_words}, {bytes.data() + i * 1024, 1024, 1024}};
    for (u32 j = 0; j < 512; ++j) bytes[i * 1024 + j] = static_cast<u8>(i + 1);
  }
  u32 base = 0;
  for (u32 i = 0; i < 4; ++i) REQUIRE(core.alloc({i, 0}, 32, base) == misuse::ok);
  const u64 from = u64{1} << 46 | u64{128 / 16} << 32 | 1024 / 16;  // 32 rows of 16 bytes
  REQUIRE(core.cp({2, 0}, {cp_shape::s32x128b_warpx4, base, from}) == misuse::ok);
  for (u32 i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(core.cta[i].tensor.at(0, 0) == (i < 2 ? 0 : 0x01010101u * (i + 1)));
    const ld_call ld{ld_shape::s32x32b, 1, base};
    CHECK(core.begin_ld({i, 0}, ld, flow::load) ==
          (i < 2 ? misuse::uninitialized_cells : misuse::missing_commit));
  }
}

TEST_CASE("checker: a bulk copy has read shared memory before that is written again", "[model][checker]") {
  const auto c = std::make_unique<checker>();
  const agent a{0, 1}, other{0, 2};
  const auto copy = [&](u32 begin) {
    if (const misuse e = c->write_shared(a, begin, begin + 64, false); e != misuse::ok) return e;
    c->proxy_fence(a);
    return c->copy_from_shared(a, begin, begin + 64);
  };
  REQUIRE(copy(0) == misuse::ok);
  REQUIRE(copy(64) == misuse::ok);
  CHECK(copy(0) == misuse::bulk_copy_pending);
  c->wait_copied(a, 1);  // all but the second one
  CHECK(copy(64) == misuse::bulk_copy_pending);
  CHECK(copy(0) == misuse::ok);
  c->wait_copied(a, 1);
  CHECK(copy(64) == misuse::ok);
  CHECK(c->finish(0) == misuse::bulk_copy_pending);
  c->wait_copied(a, 0);
  CHECK(c->write_shared(other, 0, 64, false) == misuse::bulk_copy_pending);  // it was not told
  c->sync(1u << a.index() | 1u << other.index());
  CHECK(c->write_shared(other, 0, 64, false) == misuse::ok);
  CHECK(c->finish(0) == misuse::ok);
}

TEST_CASE("checker: a bulk copy reads what was fenced, and what others have told of", "[model][checker]") {
  const auto c = std::make_unique<checker>();
  const agent a{0, 1}, other{0, 2};
  REQUIRE(c->write_shared(a, 0, 64, false) == misuse::ok);
  CHECK(c->copy_from_shared(a, 0, 64) == misuse::missing_proxy_fence);
  c->proxy_fence(a);
  CHECK(c->copy_from_shared(other, 0, 64) == misuse::missing_barrier);
  CHECK(c->copy_from_shared(a, 0, 64) == misuse::ok);
  CHECK(c->copy_from_shared(a, 32, 96) == misuse::ok);
}

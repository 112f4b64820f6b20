// SPDX-License-Identifier: Apache-2.0
// The fast form of the Hadamard transform compared with its definition, subnormal values and NaN included.
#include <fourscale/transform/hadamard.hpp>
#include <fourscale/transform/identity.hpp>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

static_assert(lane_transform_policy<hadamard<16>, 32> && !lane_transform_policy<identity, 16>);

float value(u64 i) {
  switch (i / 4096 % 3) {
    case 0:
      return test::activation(i / 128, i);
    case 1:  // subnormal, where a product with 1/4 is rounded
      return bit_cast<float>(static_cast<u32>(test::mix(i)) & 0x80ff'ffffu);
    default:
      return test::ugly(i);
  }
}

template <int Length, class Transform>
u64 differences(Transform const& transform) {
  constexpr int count = 5;
  u64 sum = 0;
  for (u64 first = 0; first < 100000; first += count * Length) {
    float got[count * Length];
    for (u64 i = 0; i < count * Length; ++i) got[i] = value(first + i);
    transform.template transform_lanes<Length>(got, count);
    for (u64 b = 0; b < count; ++b) {
      float want[Length];
      for (u64 i = 0; i < Length; ++i) want[i] = value(first + b * Length + i);
      transform(want);
      for (u64 i = 0; i < Length; ++i) {
        const float x = got[b * Length + i];
        sum += bit_cast<u32>(x) != bit_cast<u32>(want[i]) && !(x != x && want[i] != want[i]);
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("lanes: the Hadamard transform is the definition", "[transform][lanes]") {
  const sign_vector signs{0x0123'4567'89ab'd7e8ull, 0xfedc'ba98'7654'3210ull};
  CHECK(differences<16>(hadamard<2>{signs}) == 0);
  CHECK(differences<16>(hadamard<4, float>{signs}) == 0);
  CHECK(differences<16>(hadamard<8>{signs}) == 0);
  CHECK(differences<16>(hadamard<16>{te_signs}) == 0);
  CHECK(differences<16>(hadamard<16, float>{signs}) == 0);
  CHECK(differences<32>(hadamard<16>{signs}) == 0);
  CHECK(differences<32>(hadamard<32, float>{signs}) == 0);
  CHECK(differences<128>(hadamard<64, fp16>{signs}) == 0);
  CHECK(differences<128>(hadamard<128>{signs}) == 0);
}

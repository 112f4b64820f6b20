// SPDX-License-Identifier: Apache-2.0
// A transform over lanes has the bits of the transform in one thread.
#include <fourscale/warp/hadamard.cuh>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

constexpr sign_vector signs{0x0123'4567'89ab'cdef, 0xfeed'beef'd7e8'1234};

/// One warp transforms 32 * PerLane values: as one group or several.
template <int N, int PerLane>
__global__ void transform(float const* x, float* y) {
  float mine[PerLane];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < PerLane; ++i) mine[i] = x[lane * PerLane + i];
  warp::hadamard<N>(mine, signs, lane);
  for (int i = 0; i < PerLane; ++i) y[lane * PerLane + i] = mine[i];
}

template <int N, int PerLane>
void check_lanes() {
  constexpr size_t count = 32 * PerLane;
  std::vector<float> x(count), y(count), want(count);
  for (size_t i = 0; i < count; ++i) x[i] = to_float(from_float<bf16>(test::activation(i / 7, i)));
  for (size_t first = 0; first < count; first += N) {
    float group[N];
    for (size_t i = 0; i < N; ++i) group[i] = x[first + i];
    hadamard<N>{signs}(group);
    for (size_t i = 0; i < N; ++i) want[first + i] = group[i];
  }
  float *d_x = nullptr, *d_y = nullptr;
  REQUIRE(cudaMalloc(&d_x, count * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMalloc(&d_y, count * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMemcpy(d_x, x.data(), count * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
  transform<N, PerLane><<<1, 32>>>(d_x, d_y);
  REQUIRE(cudaMemcpy(y.data(), d_y, count * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  REQUIRE(cudaFree(d_x) == cudaSuccess);
  REQUIRE(cudaFree(d_y) == cudaSuccess);
  INFO("N = " << N << ", " << PerLane << " a lane");
  CHECK(y == want);
}

}  // namespace

TEST_CASE("warp: a Hadamard transform over lanes equals the one in a thread", "[warp][hadamard]") {
  if (!test::gpu_or_warn()) return;
  check_lanes<2, 1>();
  check_lanes<2, 2>();
  check_lanes<16, 1>();
  check_lanes<16, 2>();
  check_lanes<16, 8>();
  check_lanes<16, 16>();
  check_lanes<32, 1>();
  check_lanes<64, 4>();
  check_lanes<128, 4>();
  check_lanes<128, 32>();
}

// SPDX-License-Identifier: Apache-2.0
// The programs of tcgen05_test.cpp inside a kernel, one to a block: the same outputs, the same misuses.
#include <cstring>
#include <memory>
#include <vector>

#include "model/program_cases.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::model;
using test::fault, test::gemm_case, test::gemm_memory;

namespace {

struct job {
  gemm_case what;
  fault planted;
};

__global__ void run_programs(gemm_memory* memory, job const* jobs, misuse* results) {
  const u32 i = blockIdx.x;
  results[i] = test::gemm_program{memory[i], jobs[i].what, jobs[i].planted}.run();
}

std::vector<job> all_jobs() {
  std::vector<job> jobs;
  for (gemm_case const& c : test::good) jobs.push_back({c, fault::none});
  for (test::planted const& p : test::faults) jobs.push_back({p.in, p.what});
  for (test::unseen const& u : test::silent) jobs.push_back({u.in, u.what});
  return jobs;
}

template <class T>
T* device_array(std::size_t n, T const* from) {
  T* p = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&p), n * sizeof(T)) == cudaSuccess);
  REQUIRE(cudaMemset(p, 0, n * sizeof(T)) == cudaSuccess);
  if (from) REQUIRE(cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  return p;
}

}  // namespace

TEST_CASE("tcgen05: in a kernel the programs end as on the host", "[model][tcgen05]") {
  if (!test::gpu_or_warn()) return;
  const std::vector<job> jobs = all_jobs();
  const std::size_t n = jobs.size();
  gemm_memory* const d_memory = device_array<gemm_memory>(n, nullptr);
  job* const d_jobs = device_array(n, jobs.data());
  misuse* const d_results = device_array<misuse>(n, nullptr);
  run_programs<<<static_cast<u32>(n), 1>>>(d_memory, d_jobs, d_results);
  std::vector<misuse> results(n);
  REQUIRE(cudaMemcpy(results.data(), d_results, n * sizeof(misuse), cudaMemcpyDeviceToHost) == cudaSuccess);
  const auto device = std::make_unique<gemm_memory>(), host = std::make_unique<gemm_memory>();
  for (std::size_t i = 0; i < n; ++i) {
    CAPTURE(i, static_cast<int>(jobs[i].planted));
    REQUIRE(cudaMemcpy(device.get(), d_memory + i, sizeof(gemm_memory), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    std::memset(static_cast<void*>(host.get()), 0, sizeof(gemm_memory));
    CHECK(results[i] == test::gemm_program{*host, jobs[i].what, jobs[i].planted}.run());
    CHECK(std::memcmp(device->d, host->d, sizeof host->d) == 0);
    CHECK((device->check.first == host->check.first && device->check.count == host->check.count));
  }
  CHECK(cudaFree(d_memory) == cudaSuccess);
  CHECK(cudaFree(d_jobs) == cudaSuccess);
  CHECK(cudaFree(d_results) == cudaSuccess);
}

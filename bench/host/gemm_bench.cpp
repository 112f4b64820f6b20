// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on a CPU: data that certificates prove exact, and data that they do not, on
// one thread and on all; MX formats by themselves on one. `certified_%` is the share of steps that were sums
// in f32; `fma_%` is percent of what the same threads do in a loop of fused multiply-adds that stays in
// registers.
#include <cmath>
#include <fourscale/host/amax.hpp>
#include <fourscale/host/buffer.hpp>
#include <fourscale/host/gemm_blackwell.hpp>
#include <fourscale/host/quantize.hpp>

#include "machine.hpp"
#include "support/data.hpp"

namespace {

using namespace fourscale;

/// A square of `rows` outputs.
struct sizes {
  i64 rows, k;
};

enum class data { gaussian, lognormal_blocks };

template <class F>
host_buffer<F> operand(data kind, sizes n, u64 seed) {
  std::vector<float> x(static_cast<u64>(n.rows * n.k));
  for (u64 i = 0; i < x.size(); ++i) {
    x[i] = test::gaussian(i * 64 + seed);
    if (kind == data::lognormal_blocks) x[i] *= std::exp(1.5f * test::gaussian((i / 16) * 64 + seed + 32));
  }
  const matrix_view<float const> m{x, n.rows, n.k};
  host_buffer<F> q(n.rows, n.k, unit_scale);
  if (host::quantize(m, q.view()) != errc::ok) std::abort();
  return q;
}

template <class F>
void run(benchmark::State& state, data kind, sizes n, int threads) {
  const host_buffer<F> a = operand<F>(kind, n, 1), b = operand<F>(kind, n, 2);
  std::vector<float> d(static_cast<u64>(n.rows * n.rows));
  bench::use_threads(threads);
  gemm_steps steps;
  for (auto _ : state) {
    const double seconds = bench::best_seconds(
        [&] {
          const errc e = host::gemm(a.view(), b.view(), matrix_view<float>{d, n.rows, n.rows}, {},
                                    accumulate::blackwell{}, &steps);
          if (e != errc::ok) std::abort();
        },
        threads);
    const double flop = 2.0 * static_cast<double>(n.rows * n.rows * n.k),
                 all = static_cast<double>(steps.in_f32 + steps.in_double + steps.by_model);
    state.SetIterationTime(seconds);
    state.counters["GFLOP/s"] = flop / seconds * 1e-9;
    state.counters["certified_%"] = 100.0 * static_cast<double>(steps.in_f32) / all;
  }
}

template <class F>
void add(std::string const& name, data kind, sizes n, int threads) {
  benchmark::RegisterBenchmark(("gemm_blackwell/" + name + "/" + std::to_string(threads)).c_str(),
                               [=](benchmark::State& state) { run<F>(state, kind, n, threads); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

const bench::describe_machine head;
const bool registered = [] {
  for (const int threads : {1, bench::all_threads()}) {
    add<nvfp4>("gaussian", data::gaussian, {1024, 4096}, threads);
    add<nvfp4>("lognormal_blocks", data::lognormal_blocks, {1024, 4096}, threads);
  }
  add<mxfp4>("mxfp4", data::gaussian, {512, 2048}, 1);
  add<mxfp6_e2m3>("mxfp6_e2m3", data::gaussian, {512, 2048}, 1);
  add<mxfp8_e4m3>("mxfp8_e4m3", data::gaussian, {512, 2048}, 1);
  return true;
}();

}  // namespace

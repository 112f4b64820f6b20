// SPDX-License-Identifier: Apache-2.0
// Copies along columns on the CPU, as a training recipe makes them: with a Hadamard transform, with random
// rounding, both copies in one call; of a large matrix, and of small ones, whose columns are short. On one
// thread and on all. `memcpy_%` is percent of the bytes a second of memcpy of the same source, in the same
// run.
#include <fourscale/fourscale.hpp>
#include <vector>

#include "machine.hpp"
#include "support/data.hpp"

namespace {

using namespace fourscale;

struct shape {
  i64 rows, cols;
};

constexpr quantizer nearest{};
constexpr quantizer random_rows{stochastic{philox{1, 1}}};
constexpr hadamard<16> rht{te_signs};
constexpr quantizer rotated{nearest_even{}, two_level{}, rht};
constexpr quantizer rotated_random{stochastic{philox{1, 2}}, two_level{}, rht};

/// A source, and room for both copies of it.
struct matrices {
  std::vector<bf16> values;
  std::vector<u8> codes, scales, codes_t, scales_t, back;
  matrix_view<bf16 const> x;
  block_scaled_view<nvfp4> q, qt;

  explicit matrices(shape s)
      : values(static_cast<u64>(s.rows * s.cols)),
        codes(values.size() / 2),
        scales(values.size() / 16),
        codes_t(codes),
        scales_t(scales),
        back(2 * values.size()),
        x(values, s.rows, s.cols),
        q(codes, scales, s.rows, s.cols),
        qt(codes_t, scales_t, s.cols, s.rows) {
    for (i64 i = 0; i < s.rows * s.cols; ++i)
      values[static_cast<u64>(i)] =
          from_float<bf16>(test::activation(static_cast<u64>(i / s.cols), static_cast<u64>(i)));
  }
};

using call = errc (*)(matrices&);

errc columnwise(matrices& m) { return host::quantize(transposed(m.x), m.qt, nearest); }
errc columnwise_hadamard(matrices& m) { return host::quantize(transposed(m.x), m.qt, rotated); }
errc columnwise_hadamard_random(matrices& m) { return host::quantize(transposed(m.x), m.qt, rotated_random); }
errc both(matrices& m) { return host::quantize_both(m.x, m.q, m.qt, nearest, nearest); }
errc both_random_hadamard(matrices& m) {
  return host::quantize_both(m.x, m.q, m.qt, random_rows, rotated_random);
}

void run(benchmark::State& state, call action, shape s, int threads, int copies) {
  bench::use_threads(threads);
  matrices m(s);
  float amax = 0.0f, amax_t = 0.0f;
  bool good = host::amax_both<nvfp4>(m.x, rht, &amax, &amax_t) == errc::ok;
  m.q.amax = amax_value(amax);
  m.qt.amax = amax_value(amax_t);
  good = good && action(m) == errc::ok;
  if (!good) return state.SkipWithError("a function of the library refused its arguments");
  for (auto _ : state) {
    benchmark::DoNotOptimize(action(m));
    benchmark::ClobberMemory();
  }
  const i64 calls = std::max<i64>(1, (i64{1} << 20) / (s.rows * s.cols));
  const auto seconds_of = [&](auto what) {
    return bench::best_seconds(
               [&] {
                 for (i64 i = 0; i < calls; ++i) what();
               },
               bench::all_threads() + 1) /
           static_cast<double>(calls);
  };
  const double seconds = seconds_of([&] { benchmark::DoNotOptimize(action(m)); });
  const double moving = seconds_of([&] {
    const i64 row = 2 * s.cols;
#pragma omp parallel for schedule(static) if (s.rows * s.cols > 65536)
    for (i64 r = 0; r < s.rows; ++r)
      __builtin_memcpy(m.back.data() + r * row, m.x.data + r * s.cols, static_cast<u64>(row));
  });
  const double elements = static_cast<double>(s.rows * s.cols);
  const double bytes = elements * (2 + copies * 0.5625);
  state.counters["GB/s"] = bytes / seconds * 1e-9;
  state.counters["Gelem/s"] = elements / seconds * 1e-9;
  state.counters["per_core"] = elements / seconds / threads * 1e-9;
  state.counters["memcpy_%"] = 100 * (bytes / seconds) / (4 * elements / moving);
}

void add(std::string const& what, call action, int copies) {
  const auto one = [&](shape s, int threads) {
    const std::string name = what + "/nvfp4/" + std::to_string(s.rows) + "x" + std::to_string(s.cols) +
                             "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), run, action, s, threads, copies)
        ->Unit(benchmark::kMicrosecond);
  };
  for (const shape s : {shape{64, 64}, shape{256, 256}, shape{1024, 1024}}) one(s, 1);
  one({8192, 8192}, bench::all_threads());
}

const bench::describe_machine describe;
const bool registered = [] {
  add("columnwise", columnwise, 1);
  add("columnwise/hadamard", columnwise_hadamard, 1);
  add("columnwise/hadamard_stochastic", columnwise_hadamard_random, 1);
  add("both", both, 2);
  add("both/stochastic_column_hadamard", both_random_hadamard, 2);
  return true;
}();

}  // namespace

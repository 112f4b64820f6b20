// SPDX-License-Identifier: Apache-2.0
// Whole matrices on the CPU: from bf16 and back, on one thread and on all. `copy_%` is the speed in percent
// of a plain loop that reads and writes as many bytes and computes nothing, on the same threads, in the same
// run.
#include <fourscale/fourscale.hpp>
#include <vector>

#include "machine.hpp"
#include "support/data.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

using namespace fourscale;

int all_threads() {
#ifdef _OPENMP
  return omp_get_num_procs();
#else
  return 1;
#endif
}
void use_threads([[maybe_unused]] int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

constexpr i64 cols = 4096;

/// 256 KiB: for the second cache of one core.
constexpr i64 small_rows = 32;

/// Twice the last cache, as far as the benchmark library sees it, and at least 32 MiB.
i64 large_rows() {
  i64 cache = 16 << 20;
  for (auto const& c : benchmark::CPUInfo::Get().caches) cache = std::max<i64>(cache, c.size);
  return round_up<i64>(2 * cache / (2 * cols), 128);
}

/// The source, made once: Gaussian, with outliers and rows of different size.
std::vector<bf16> const& source() {
  static const std::vector<bf16> x = [] {
    const i64 rows = large_rows();
    std::vector<bf16> v(static_cast<u64>(rows * cols));
    use_threads(all_threads());
#pragma omp parallel for
    for (i64 i = 0; i < rows * cols; ++i)
      v[static_cast<u64>(i)] =
          from_float<bf16>(test::activation(static_cast<u64>(i / cols), static_cast<u64>(i)));
    return v;
  }();
  return x;
}

/// What a benchmark works on: `rows` rows of the source, and room for them in format F.
template <class F>
struct matrices {
  std::vector<u8> codes, scales;
  std::vector<bf16> back;
  matrix_view<bf16 const> x;
  block_scaled_view<F> q;

  matrices(i64 rows, bool columnwise)
      : codes(static_cast<u64>(code_bytes<F>(rows, cols))),
        scales(static_cast<u64>(scale_bytes<F>(rows, cols))),
        back(static_cast<u64>(rows * cols)),
        x(source().data(), rows, cols),
        q(codes.data(), scales.data(), columnwise ? cols : rows, columnwise ? rows : cols) {
    if constexpr (F::has_tensor_scale) q.tensor_scale = tensor_scale<F>(host::amax(x));
  }
};

// What is measured: each a call on those matrices.

template <class F>
struct rowwise {
  using format = F;
  static constexpr bool columnwise = false, to_bf16 = false;
  static errc call(matrices<F>& m) { return host::quantize(m.x, m.q); }
};
template <class F>
struct along_columns {
  using format = F;
  static constexpr bool columnwise = true, to_bf16 = false;
  static errc call(matrices<F>& m) { return host::quantize(transposed(m.x), m.q); }
};
template <class F>
struct tiles {
  using format = F;
  static constexpr bool columnwise = false, to_bf16 = false;
  static errc call(matrices<F>& m) {
    return host::quantize(m.x, m.q, quantizer{}, blocks_2d<F::block_size, F::block_size>{});
  }
};
template <class F>
struct weighed : rowwise<F> {
  static errc call(matrices<F>& m) {
    return host::quantize(m.x, m.q, quantizer{nearest_even{}, four_over_six<>{}});
  }
};
template <class F>
struct random_rounding : rowwise<F> {
  static errc call(matrices<F>& m) { return host::quantize(m.x, m.q, quantizer{stochastic{philox{1, 2}}}); }
};
template <class F>
struct rotated : rowwise<F> {
  static errc call(matrices<F>& m) {
    return host::quantize(m.x, m.q, quantizer{nearest_even{}, amax_scale{}, hadamard<16>{te_signs}});
  }
};
template <class F>
struct back_again {
  using format = F;
  static constexpr bool columnwise = false, to_bf16 = true;
  static errc call(matrices<F>& m) {
    return host::dequantize(m.q, matrix_view<bf16>{m.back.data(), m.x.rows, m.x.cols});
  }
};

/// The bytes of Case and no arithmetic: a row of bf16 is folded into as many bytes as it quantizes to, or
/// unfolded.
template <class Case>
void copy(matrices<typename Case::format>& m) {
  using F = typename Case::format;
  constexpr i64 codes = code_bytes<F>(1, cols), scales = scale_bytes<F>(1, cols), halves = codes / 2;
#pragma omp parallel for if (m.x.rows * cols > 65536)
  for (i64 row = 0; row < m.x.rows; ++row) {
    u8* const c = m.codes.data() + row * codes;
    u8* const s = m.scales.data() + row * scales;
    u16 const* const from = reinterpret_cast<u16 const*>(&m.x.at(row, 0));
    u16* const to = reinterpret_cast<u16*>(&m.back[static_cast<u64>(row * cols)]);
    for (i64 part = 0; part < cols; part += halves)
      if constexpr (Case::to_bf16) {
        __builtin_memcpy(to + part, c, static_cast<u64>(codes));
      } else {
        u16 word;
        for (i64 i = 0; i < halves; ++i) {
          __builtin_memcpy(&word, c + 2 * i, 2);
          word = static_cast<u16>(part ? word ^ from[part + i] : from[part + i]);
          __builtin_memcpy(c + 2 * i, &word, 2);
        }
      }
    if constexpr (Case::to_bf16)
      for (i64 i = 0; i < scales; ++i) to[i] = static_cast<u16>(to[i] ^ s[i]);
    else
      __builtin_memcpy(s, c, static_cast<u64>(scales));
  }
}

template <class Case>
void run(benchmark::State& state, i64 rows, int threads) {
  using F = typename Case::format;
  use_threads(threads);
  matrices<F> m(rows, Case::columnwise);
  const double copy_seconds = bench::best_seconds([&] { copy<Case>(m); }, threads);
  // dequantize() needs codes, and the first call pays for the pages.
  if (host::quantize(m.x, block_scaled_view<F>{m.codes, m.scales, rows, cols}) != errc::ok ||
      Case::call(m) != errc::ok)
    return state.SkipWithError("a function of the library refused its arguments");

  const bench::stopwatch watch(threads);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Case::call(m));
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  const double elements = static_cast<double>(rows * cols);
  const i64 bytes = rows * cols * 2 + code_bytes<F>(rows, cols) + scale_bytes<F>(rows, cols);
  state.counters["GB/s"] = static_cast<double>(bytes) / seconds * 1e-9;
  state.counters["Gelem/s"] = elements / seconds * 1e-9;
  state.counters["per_core"] = elements / seconds / threads * 1e-9;
  state.counters["copy_%"] = 100 * copy_seconds / seconds;
}

template <class Case>
void add(std::string const& what) {
  const auto one = [&](std::string const& size, i64 rows, int threads) {
    const std::string name =
        what + "/" + Case::format::name + "/" + size + "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), run<Case>, rows, threads)->Unit(benchmark::kMicrosecond);
  };
  one("small", small_rows, 1);
  one("large", large_rows(), 1);
  if (all_threads() > 1) one("large", large_rows(), all_threads());
}

const bench::describe_machine describe;
const bool registered = [] {
  benchmark::AddCustomContext(
      "Matrices", "bf16; small: 256 KiB, large: " + std::to_string(large_rows() * cols * 2 >> 20) + " MiB");
  benchmark::AddCustomContext("Columns",
                              "Gelem/s, per_core: 10^9 elements a second; copy_%: of the speed of a copy "
                              "of the same bytes");
  add<rowwise<nvfp4>>("quantize/rowwise");
  add<along_columns<nvfp4>>("quantize/columnwise");
  add<tiles<nvfp4>>("quantize/16x16");
  add<weighed<nvfp4>>("quantize/4over6");
  add<random_rounding<nvfp4>>("quantize/stochastic");
  add<rotated<nvfp4>>("quantize/hadamard");
  add<rowwise<mxfp4>>("quantize/rowwise");
  add<rowwise<mxfp8>>("quantize/rowwise");
  add<along_columns<mxfp8>>("quantize/columnwise");
  add<back_again<nvfp4>>("dequantize");
  add<back_again<mxfp4>>("dequantize");
  add<back_again<mxfp8>>("dequantize");
  return true;
}();

}  // namespace

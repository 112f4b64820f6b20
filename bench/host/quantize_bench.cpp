// SPDX-License-Identifier: Apache-2.0
// Whole matrices on the CPU: from bf16 and back, on one thread and on all. `copy_%` is the speed in percent
// of a plain loop that reads and writes as many bytes and computes nothing, `memcpy_%` in percent of the
// bytes a second of memcpy; on the same threads, on pages that they touched first, in the same run.
#include <fourscale/fourscale.hpp>
#include <memory>
#include <vector>

#include "machine.hpp"
#include "support/data.hpp"

namespace {

using namespace fourscale;

constexpr i64 wide = 8192;

/// 8192, and at least four times the last cache, as the benchmark library reports it.
i64 large_rows() {
  i64 cache = 0;
  for (auto const& c : benchmark::CPUInfo::Get().caches) cache = std::max<i64>(cache, c.size);
  return std::max<i64>(8192, round_up<i64>(4 * cache / (2 * wide), 128));
}

/// Of a matrix. All but the large one are 128 or 256 KiB: for the second cache of one core.
struct shape {
  char const* name;
  i64 rows, cols;
};
constexpr shape small{"small", 16, wide}, square{"256x256", 256, 256}, narrow{"8192x16", 8192, 16};
shape large() { return {"large", large_rows(), wide}; }

/// Memory that nobody has touched: whoever writes first decides where its pages lie.
template <class T>
struct buffer {
  std::unique_ptr<T[]> owned;
  explicit buffer(i64 size) : owned(new T[static_cast<u64>(size)]) {}
  T* data() const { return owned.get(); }
};

/// Calls action(row) for all rows, on the threads that will work on them.
template <class Action>
void for_each_row(i64 rows, [[maybe_unused]] i64 cols, Action action) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (rows * cols > 65536)
#endif
  for (i64 row = 0; row < rows; ++row) action(row);
}

/// The source, made once: Gaussian, with outliers and rows of different size.
buffer<bf16> const& source() {
  static const buffer<bf16> x = [] {
    buffer<bf16> v(large_rows() * wide);
    bench::use_threads(bench::all_threads());
    for_each_row(large_rows(), wide, [&](i64 row) {
      for (i64 i = row * wide; i < (row + 1) * wide; ++i)
        v.data()[i] = from_float<bf16>(test::activation(static_cast<u64>(row), static_cast<u64>(i)));
    });
    return v;
  }();
  return x;
}

/// What a benchmark works on: as much of the source as a shape has, and room for it in format F.
template <class F>
struct matrices {
  i64 code_row, scale_row;
  buffer<u8> codes, scales;
  buffer<bf16> back;
  matrix_view<bf16 const> x;
  block_scaled_view<F> q;

  matrices(shape const& of, bool columnwise)
      : code_row(code_bytes<F>(1, of.cols)),
        scale_row(scale_bytes<F>(1, of.cols)),
        codes(of.rows * code_row),
        scales(of.rows * scale_row),
        back(of.rows * of.cols),
        x(source().data(), of.rows, of.cols),
        q(codes.data(), scales.data(), columnwise ? of.cols : of.rows, columnwise ? of.rows : of.cols) {
    for_each_row(x.rows, x.cols, [&](i64 row) {
      __builtin_memset(codes.data() + row * code_row, 0, static_cast<u64>(code_row));
      __builtin_memset(scales.data() + row * scale_row, 0, static_cast<u64>(scale_row));
    });
    plain_memcpy();
    float amax = 0.0f;
    if (host::amax(x, &amax) == errc::ok) q.amax = amax_value(amax);
  }

  void plain_memcpy() const {
    for_each_row(x.rows, x.cols, [&](i64 row) {
      __builtin_memcpy(back.data() + row * x.cols, x.data + row * x.cols, static_cast<u64>(2 * x.cols));
    });
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
    constexpr quantizer recipe{nearest_even{}, four_over_six<>{}};
    block_scaled_view<F> q = m.q;
    q.amax = {q.amax, recipe};
    return host::quantize(m.x, q, recipe);
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
/// The columnwise copy of a backward GEMM: rotated, and rounded by random bits.
template <class F>
struct rotated_columns : along_columns<F> {
  static errc call(matrices<F>& m) {
    return host::quantize(transposed(m.x), m.q,
                          quantizer{stochastic{philox{1, 2}}, amax_scale{}, hadamard<16>{te_signs}});
  }
};
template <class F>
struct back_again {
  using format = F;
  static constexpr bool columnwise = false, to_bf16 = true;
  static errc call(matrices<F>& m) {
    return host::dequantize(m.q, matrix_view<bf16>(m.back.data(), m.x.rows, m.x.cols));
  }
};

/// to = from, or to ^= from; `to` need not be aligned.
void fold(u16 const* from, u8* to, i64 count, bool first) {
  if (first) return static_cast<void>(__builtin_memcpy(to, from, static_cast<u64>(2 * count)));
  u16 word;
  for (i64 i = 0; i < count; ++i) {
    __builtin_memcpy(&word, to + 2 * i, 2);
    word = static_cast<u16>(word ^ from[i]);
    __builtin_memcpy(to + 2 * i, &word, 2);
  }
}

/// The bytes of Case and no arithmetic: a row of bf16 is folded into as many bytes as it quantizes to, or
/// unfolded.
template <class Case>
void copy(matrices<typename Case::format> const& m) {
  const i64 codes = m.code_row, scales = m.scale_row, halves = codes / 2, cols = m.x.cols;
  for_each_row(m.x.rows, cols, [&, codes, scales, halves, cols](i64 row) {
    u8* const c = m.codes.data() + row * codes;
    u8* const s = m.scales.data() + row * scales;
    u16 const* const from = reinterpret_cast<u16 const*>(m.x.data + row * cols);
    u16* const to = reinterpret_cast<u16*>(m.back.data() + row * cols);
    for (i64 part = 0; part < cols; part += halves)
      if constexpr (Case::to_bf16)
        __builtin_memcpy(to + part, c, static_cast<u64>(codes));
      else
        fold(from + part, c, halves, part == 0);
    if constexpr (Case::to_bf16)
      for (i64 i = 0; i < scales; ++i) to[i] = static_cast<u16>(to[i] ^ s[i]);
    else
      __builtin_memcpy(s, c, static_cast<u64>(scales));
  });
}

/// Seconds of one call on the wall's clock (that of the process also counts threads that wait): the best of
/// many, as other programs can only make it longer.
template <class Action>
double seconds_of(Action action, i64 elements) {
  const int calls = elements <= small.rows * small.cols ? 32 : 1;
  return bench::best_seconds(
             [&] {
               for (int i = 0; i < calls; ++i) action();
             },
             bench::all_threads() + 1) /
         calls;
}

template <class Case>
void run(benchmark::State& state, shape const& of, int threads) {
  using F = typename Case::format;
  bench::use_threads(threads);
  matrices<F> m(of, Case::columnwise);
  // dequantize() needs codes.
  const block_scaled_view<F> by_rows{m.codes.data(), m.scales.data(), of.rows, of.cols, m.q.amax};
  if (host::quantize(m.x, by_rows) != errc::ok || Case::call(m) != errc::ok)
    return state.SkipWithError("a function of the library refused its arguments");
  const auto best = [&](auto action) { return seconds_of(action, of.rows * of.cols); };
  const double seconds = best([&] { benchmark::DoNotOptimize(Case::call(m)); });
  for (auto _ : state) state.SetIterationTime(seconds);
  const double copying = best([&] { copy<Case>(m); }), moving = best([&] { m.plain_memcpy(); });
  const double elements = static_cast<double>(of.rows * of.cols);
  const double bytes = elements * 2 + static_cast<double>(of.rows * (m.code_row + m.scale_row));
  const double rate = bytes / seconds * 1e-9, memcpy_rate = 4 * elements / moving * 1e-9;
  state.counters["GB/s"] = rate;
  state.counters["copy_GB/s"] = bytes / copying * 1e-9;
  state.counters["memcpy_GB/s"] = memcpy_rate;
  state.counters["Gelem/s"] = elements / seconds * 1e-9;
  state.counters["per_core"] = elements / seconds / threads * 1e-9;
  state.counters["copy_%"] = 100 * copying / seconds;
  state.counters["memcpy_%"] = 100 * rate / memcpy_rate;
}

template <class Case>
void add(std::string const& what, shape const& of, int threads) {
  const std::string name =
      what + "/" + Case::format::name + "/" + of.name + "/threads:" + std::to_string(threads);
  // One run: the library would make the matrices and all measurements anew for each number of iterations it
  // tries.
  benchmark::RegisterBenchmark(name.c_str(), run<Case>, of, threads)
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(1)
      ->UseManualTime();
}

/// One core on a large matrix: only for what could be bound by memory.
template <class Case>
void add(std::string const& what, bool memory_bound = true) {
  if (!Case::columnwise || small.rows % Case::format::block_size == 0) add<Case>(what, small, 1);
  if (memory_bound || bench::all_threads() == 1) add<Case>(what, large(), 1);
  if (bench::all_threads() > 1) add<Case>(what, large(), bench::all_threads());
}

const bench::describe_machine describe;
const bool registered = [] {
  benchmark::AddCustomContext("Matrices", "bf16; small: 16x8192 (256 KiB), large: " +
                                              std::to_string(large_rows() * wide * 2 >> 20) + " MiB");
  benchmark::AddCustomContext(
      "Columns",
      "Gelem/s, per_core: 10^9 elements a second; copy_%: of the speed of a copy of the same "
      "bytes; memcpy_%: of the bytes read and written a second by memcpy; all by the "
      "best of many calls");
  add<rowwise<nvfp4>>("quantize/rowwise");
  add<along_columns<nvfp4>>("quantize/columnwise", false);
  add<tiles<nvfp4>>("quantize/16x16");
  add<weighed<nvfp4>>("quantize/4over6", false);
  add<random_rounding<nvfp4>>("quantize/stochastic", false);
  add<rotated<nvfp4>>("quantize/hadamard", false);
  add<rotated_columns<nvfp4>>("quantize/columnwise_hadamard_stochastic", false);
  for (shape const& of : {square, narrow}) {
    add<rowwise<nvfp4>>("quantize/rowwise", of, 1);
    add<along_columns<nvfp4>>("quantize/columnwise", of, 1);
    add<back_again<nvfp4>>("dequantize", of, 1);
  }
  add<rowwise<mxfp4>>("quantize/rowwise");
  add<rowwise<mxfp8>>("quantize/rowwise");
  add<along_columns<mxfp8>>("quantize/columnwise", false);
  add<back_again<nvfp4>>("dequantize");
  add<back_again<mxfp4>>("dequantize");
  add<back_again<mxfp8>>("dequantize");
  return true;
}();

}  // namespace

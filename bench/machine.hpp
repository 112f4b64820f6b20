// SPDX-License-Identifier: Apache-2.0
// What a number of a CPU benchmark depends on, printed above the table; and how fast something else is, for
// ratios.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace fourscale::bench {

inline std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

/// The widest vectors that this file was compiled for; -march=native is what our CMakeLists.txt asks for.
inline char const* vectors() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__SSE4_1__)
  return "SSE4.1";
#elif defined(__SSE2__)
  return "SSE2";
#elif defined(__ARM_NEON)
  return "NEON";
#else
  return "none known";
#endif
}

inline int all_threads() {
#ifdef _OPENMP
  return omp_get_num_procs();
#else
  return 1;
#endif
}
inline void use_threads([[maybe_unused]] int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

/// A global of this type puts its lines into the head of the report.
struct describe_machine {
  describe_machine() {
    benchmark::AddCustomContext("CPU", cpu_model());
    benchmark::AddCustomContext("Compiled by",
                                std::string("version ") + __VERSION__ + ", vectors: " + vectors());
  }
};

/// Time since its construction: that of the CPU for one thread, which other programs do not touch; else that
/// of the clock on the wall.
class stopwatch {
 public:
  explicit stopwatch(int threads = 1) : threads_(threads) {}
  double seconds() const {
    if (threads_ == 1) return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(clock::now() - wall_).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  int threads_;
  std::clock_t cpu_ = std::clock();
  clock::time_point wall_ = clock::now();
};

/// Seconds that one call of `action` takes: the best of many, so that a ratio to it never flatters us. Five
/// calls and 0.2 seconds, but no third call after a second.
template <class Action>
double best_seconds(Action action, int threads = 1) {
  double best = 1e9;
  int calls = 0;
  const stopwatch all(threads);
  const auto enough = [&] {
    return calls >= 2 && (all.seconds() > 1 || (calls >= 5 && all.seconds() > 0.2));
  };
  for (; !enough(); ++calls) {
    const stopwatch one(threads);
    action();
    best = std::min(best, one.seconds());
  }
  return best;
}

}  // namespace fourscale::bench

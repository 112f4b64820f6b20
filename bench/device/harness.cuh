// SPDX-License-Identifier: Apache-2.0
// How kernels are timed and judged: against a kernel with the same reads and writes and no arithmetic, in the
// same run, on random data, in turns, with buffers larger than the L2 cache.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fourscale/fourscale.cuh>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/data.hpp"

namespace bench {

namespace f4 = fourscale;
using f4::i64;
using f4::u64;
using f4::u8;

/// A condition that does not hold ends the measurement, not the program: see add().
inline void require(bool condition, char const* what) {
  if (!condition) throw std::runtime_error(what);
}
inline void require(cudaError_t e) { require(e == cudaSuccess, cudaGetErrorString(e)); }
inline void require(f4::errc e) { require(e == f4::errc::ok, f4::message(e)); }

/// Device memory, filled with 0xA5.
template <class T>
class buffer {
 public:
  explicit buffer(i64 count) : count_(count) {
    require(cudaMalloc(&data_, bytes()));
    require(cudaMemset(data_, 0xa5, bytes()));
  }
  ~buffer() { cudaFree(data_); }
  buffer(buffer&& other) noexcept : count_(other.count_), data_(std::exchange(other.data_, nullptr)) {}
  buffer& operator=(buffer&&) = delete;
  T* data() const { return data_; }
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(T); }
  std::vector<T> to_host() const {
    std::vector<T> v(static_cast<size_t>(count_));
    require(cudaMemcpy(v.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return v;
  }

 private:
  i64 count_;
  T* data_ = nullptr;
};

/// A type of ours with the bits of T: what a matrix is filled as, and what the host reads it as.
template <class T>
struct same_bits {
  using type = T;
};
template <class T>
using same_bits_t = typename same_bits<T>::type;

/// What the toolkit's types are, too: the same memory as a view of ours.
template <class T>
auto as_ours(f4::matrix_view<T const> const& m) {
  using ours = same_bits_t<T>;
  return f4::matrix_view<ours const>{reinterpret_cast<ours const*>(m.data), m.rows, m.cols, m.ld};
}

/// Values of matrices are functors of row, column and a number that no other element has, whose upper 24 bits
/// are those of the copy.
struct activations {
  FOURSCALE_HD float operator()(u64 row, u64, u64 i) const { return f4::test::activation(row, i); }
};

template <class Value, class T>
__global__ void fill_kernel(Value value, T* x, i64 rows, i64 cols, u64 copy) {
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < rows * cols; i += i64{gridDim.x} * 256)
    x[i] = f4::from_float<T>(
        value(static_cast<u64>(i / cols), static_cast<u64>(i % cols), static_cast<u64>(i) + (copy << 40)));
}

/// Several matrices of random values, together larger than the L2 cache, so that no call finds its input
/// there. `gap` elements between rows, `offset` before the first.
template <class T>
struct inputs {
  i64 rows, cols, ld, offset;
  std::vector<buffer<T>> matrices;

  template <class Value = activations>
  inputs(i64 r, i64 c, i64 gap = 0, i64 before = 0, Value const& value = {})
      : rows(r), cols(c), ld(c + gap), offset(before) {
    int l2 = 0;
    require(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
    const i64 bytes = r * ld * static_cast<i64>(sizeof(T)), wanted = 3 * i64{l2};
    const i64 copies = std::clamp<i64>((wanted + bytes - 1) / bytes, 1, 64);
    for (i64 i = 0; i < copies; ++i) {
      matrices.emplace_back(r * ld + offset);
      fill_kernel<<<2048, 256>>>(value, reinterpret_cast<same_bits_t<T>*>(matrices.back().data() + offset), r,
                                 ld, static_cast<u64>(i));
    }
    require(cudaDeviceSynchronize());
  }
  i64 count() const { return static_cast<i64>(matrices.size()); }
  T* data(i64 i) const { return matrices[static_cast<size_t>(i % count())].data() + offset; }
  f4::matrix_view<T const> view(i64 i) const { return {data(i), rows, cols, ld}; }
};

/// One launch of something, on copy i of its buffers.
using launch = std::function<void(i64 i)>;

/// Median time in seconds of each launch, measured in turns. A turn runs each `batch` times, so that the time
/// of one call of a small problem is not that of the event.
inline std::vector<double> medians(std::vector<launch> const& launches, int turns = 31, int batch = 4) {
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin));
  require(cudaEventCreate(&end));
  std::vector<std::vector<double>> times(launches.size());
  i64 copy = 0;
  for (int turn = -2; turn < turns; ++turn)
    for (size_t k = 0; k < launches.size(); ++k) {
      require(cudaEventRecord(begin));
      for (int b = 0; b < batch; ++b) launches[k](copy++);
      require(cudaEventRecord(end));
      require(cudaEventSynchronize(end));
      float ms = 0;
      require(cudaEventElapsedTime(&ms, begin, end));
      if (turn >= 0) times[k].push_back(static_cast<double>(ms) * 1e-3 / batch);
    }
  require(cudaGetLastError());
  require(cudaEventDestroy(begin));
  require(cudaEventDestroy(end));
  std::vector<double> result;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + static_cast<long>(t.size() / 2), t.end());
    result.push_back(t[t.size() / 2]);
  }
  return result;
}

struct alignas(16) word16 {
  f4::u32 w[4];
};

/// Reads 16 values of `Width` bytes, writes what they become: the traffic of a quantizer, and nothing else.
/// `Codes` bytes of codes a thread; `Scales` bytes of scales for `Sharing` threads; each with its own buffer,
/// all accesses in vectors.
template <int Width, int Codes, int Scales, int Sharing>
__global__ void __launch_bounds__(256) ceiling_kernel(word16 const* x, i64 count, u8* codes, u8* scales) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= count) return;
  word16 v[Width];
  for (int k = 0; k < Width; ++k) v[k] = x[Width * i + k];
  f4::u32 all[8] = {};
  for (int k = 0; k < 4 * Width; ++k) all[k % 8] ^= v[k / 4].w[k % 4];
  if constexpr (Codes == 32) {
    reinterpret_cast<word16*>(codes)[2 * i] = word16{{all[0], all[1], all[2], all[3]}};
    reinterpret_cast<word16*>(codes)[2 * i + 1] = word16{{all[4], all[5], all[6], all[7]}};
  } else if constexpr (Codes == 16) {
    reinterpret_cast<word16*>(codes)[i] =
        word16{{all[0] ^ all[1], all[2] ^ all[3], all[4] ^ all[5], all[6] ^ all[7]}};
  } else if constexpr (Codes == 8) {
    reinterpret_cast<u64*>(codes)[i] =
        u64{all[0] ^ all[1] ^ all[2] ^ all[3]} << 32 | (all[4] ^ all[5] ^ all[6] ^ all[7]);
  } else {
    f4::u32 any = 0;
    for (int k = 0; k < 8; ++k) any |= all[k];
    if (any == 0x1234'5678u) codes[i] = 1;
  }
  if (i % Sharing != 0) return;
  if constexpr (Scales == 1) scales[i / Sharing] = static_cast<u8>(all[0]);
  if constexpr (Scales == 2) reinterpret_cast<f4::u16*>(scales)[i / Sharing] = static_cast<f4::u16>(all[0]);
}

/// Launches of a graph each, so that the time is the GPU's own. A graph has `calls` launches, of copies one
/// after the other.
class graphs {
 public:
  graphs(launch const& what, i64 copies, i64 calls) {
    cudaStream_t stream;
    require(cudaStreamCreate(&stream));
    for (i64 i = 0; i < copies; ++i) {
      cudaGraph_t graph;
      require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      capturing() = stream;
      for (i64 k = 0; k < calls; ++k) what(i * calls + k);
      capturing() = nullptr;
      require(cudaStreamEndCapture(stream, &graph));
      execs_.emplace_back();
      require(cudaGraphInstantiate(&execs_.back(), graph, 0));
      require(cudaGraphDestroy(graph));
    }
    require(cudaStreamDestroy(stream));
  }
  graphs(graphs const&) = delete;
  ~graphs() {
    for (cudaGraphExec_t exec : execs_) cudaGraphExecDestroy(exec);
  }
  /// The stream that launches go to.
  static cudaStream_t& capturing() {
    static cudaStream_t stream = nullptr;
    return stream;
  }
  launch replay() const {
    return
        [this](i64 i) { require(cudaGraphLaunch(execs_[static_cast<size_t>(i) % execs_.size()], nullptr)); };
  }

 private:
  std::vector<cudaGraphExec_t> execs_;
};

/// As medians(), from graphs of so many calls each: seconds of one. `launches` go to graphs::capturing().
inline std::vector<double> medians_from_graphs(std::vector<launch> const& launches, int turns, i64 calls) {
  std::deque<graphs> all;
  std::vector<launch> replays;
  for (launch const& what : launches) replays.push_back(all.emplace_back(what, 1, calls).replay());
  std::vector<double> t = medians(replays, turns, 1);
  for (double& x : t) x /= static_cast<double>(calls);
  return t;
}

/// The ceiling of `x`, whose rows have no gaps; as many bytes as ceiling_kernel says.
template <int Codes, int Scales, int Sharing = 1, class T>
launch ceiling(inputs<T> const& x, buffer<u8> const& codes, buffer<u8> const& scales) {
  return [&](i64 i) {
    const i64 threads = x.rows * x.cols / 16;
    ceiling_kernel<sizeof(T), Codes, Scales, Sharing>
        <<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256, 0, graphs::capturing()>>>(
            reinterpret_cast<word16 const*>(x.data(i)), threads, codes.data(), scales.data());
  };
}

/// Reports one kernel compared with its ceiling: time of one of `calls` that a launch makes, bandwidth and
/// percent of the ceiling.
inline void report(benchmark::State& state, double bytes, launch const& kernel, launch const& ceiling,
                   int batch = 4, int calls = 1) {
  for (auto _ : state) {
    const std::vector<double> t = medians({ceiling, kernel}, 31, batch);
    state.SetIterationTime(t[1] / calls);
    state.counters["GB/s"] = calls * bytes / t[1] * 1e-9;
    state.counters["ceiling_GB/s"] = calls * bytes / t[0] * 1e-9;
    state.counters["percent_of_ceiling"] = 100 * t[0] / t[1];
  }
}

struct shape {
  i64 rows, cols;
};
inline std::string to_string(shape s) { return std::to_string(s.rows) + "x" + std::to_string(s.cols); }

/// One measurement, which repeats its kernels itself. If it fails, that is in its row, and table.py says so.
template <class Run>
void add(std::string const& name, Run run) {
  const auto guarded = [=](benchmark::State& state) {
    try {
      run(state);
    } catch (std::exception const& e) {
      graphs::capturing() = nullptr;
      state.SkipWithError(e.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), guarded)
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// How kernels are timed and judged: against a kernel with the same reads and writes and no arithmetic, in the
// same run, on random data, in turns, with buffers larger than the L2 cache; and bit for bit against the
// host.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fourscale/fourscale.cuh>
#include <functional>
#include <string>
#include <vector>

#include "support/data.hpp"

namespace bench {

namespace f4 = fourscale;
using f4::i64;
using f4::u64;
using f4::u8;

inline void require(bool condition, char const* what) {
  if (condition) return;
  std::fprintf(stderr, "benchmark: %s\n", what);
  std::exit(1);
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

/// Element i, of row `row`.
struct activations {
  FOURSCALE_HD float operator()(u64 row, u64 i) const { return f4::test::activation(row, i); }
};

template <class Value, class T>
__global__ void fill_kernel(T* x, i64 rows, i64 cols, u64 seed) {
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < rows * cols; i += i64{gridDim.x} * 256)
    x[i] = f4::from_float<T>(Value{}(static_cast<u64>(i / cols), static_cast<u64>(i) + (seed << 40)));
}

/// Several matrices of random values, together larger than the L2 cache, so that no call finds its input
/// there.
template <class T, class Value = activations>
struct inputs {
  i64 rows, cols, ld;
  std::vector<buffer<T>> matrices;

  inputs(i64 r, i64 c, i64 gap = 0) : rows(r), cols(c), ld(c + gap) {
    int l2 = 0;
    require(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
    const i64 bytes = r * ld * static_cast<i64>(sizeof(T)), wanted = 3 * i64{l2};
    const i64 copies = std::clamp<i64>((wanted + bytes - 1) / bytes, 1, 64);
    for (i64 i = 0; i < copies; ++i) {
      matrices.emplace_back(r * ld);
      fill_kernel<Value><<<2048, 256>>>(matrices.back().data(), r, ld, static_cast<u64>(i));
    }
    require(cudaDeviceSynchronize());
  }
  i64 count() const { return static_cast<i64>(matrices.size()); }
  f4::matrix_view<T const> view(i64 i) const {
    return {matrices[static_cast<size_t>(i % count())].data(), rows, cols, ld};
  }
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

/// Reads 32 bytes, writes what 16 bf16 values become: the traffic of a quantizer, and nothing else. `Codes`
/// bytes of codes and `Scales` bytes of scales for 32 bytes of input; each with its own buffer, all accesses
/// in vectors.
template <int Codes, int Scales>
__global__ void __launch_bounds__(256) ceiling_kernel(word16 const* x, i64 count, u8* codes, u8* scales) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= count) return;
  const word16 a = x[2 * i], b = x[2 * i + 1];
  f4::u32 all[8];
  for (int k = 0; k < 4; ++k) all[k] = a.w[k], all[4 + k] = b.w[k];
  if constexpr (Codes == 32) {
    reinterpret_cast<word16*>(codes)[2 * i] = a;
    reinterpret_cast<word16*>(codes)[2 * i + 1] = b;
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
  if constexpr (Scales == 1) scales[i] = static_cast<u8>(all[0]);
  if constexpr (Scales == 2) reinterpret_cast<f4::u16*>(scales)[i] = static_cast<f4::u16>(all[0]);
}

/// The same for 16 values of four bytes, eight bytes of codes and one of scales.
__global__ void __launch_bounds__(256)
    wide_ceiling_kernel(word16 const* x, i64 count, u8* codes, u8* scales) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= count) return;
  f4::u32 any[2] = {};
  for (int k = 0; k < 4; ++k) {
    const word16 v = x[4 * i + k];
    any[k % 2] ^= v.w[0] ^ v.w[1] ^ v.w[2] ^ v.w[3];
  }
  reinterpret_cast<u64*>(codes)[i] = u64{any[0]} << 32 | any[1];
  scales[i] = static_cast<u8>(any[0]);
}

/// The other way: reads 4 bytes of codes and a byte of scales for two threads, writes 16 bytes of values.
__global__ void __launch_bounds__(256)
    dequantize_ceiling_kernel(f4::u32 const* codes, u8 const* scales, i64 count, word16* y) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= count) return;
  const f4::u32 word = codes[i], scale = scales[i / 2];
  y[i] = word16{{word, word ^ scale, word + scale, scale}};
}

/// Copies to the host, quantizes there, compares every byte.
template <class F, class Layout, class HostView, class Quantizer>
void check(f4::block_scaled_view<F, Layout> const& d, HostView const& x, Quantizer const& recipe, float amax,
           buffer<u8> const& codes, buffer<u8> const& scales) {
  std::vector<u8> want_codes(static_cast<size_t>(f4::code_bytes<F>(d.rows, d.cols)));
  std::vector<u8> want_scales(static_cast<size_t>(f4::scale_bytes<F, Layout>(d.rows, d.cols)) + 1);
  f4::block_scaled_view<F, Layout> q{want_codes, want_scales, d.rows, d.cols};
  q.tensor_scale = f4::tensor_scale_for<F>(recipe.scale, amax);
  require(f4::host::quantize(x, q, recipe));
  require(codes.to_host() == want_codes, "the codes differ from the host's");
  want_scales.pop_back();
  require(scales.to_host() == want_scales, "the scales differ from the host's");
}

/// Launches of a graph each, so that the time is the GPU's own.
class graphs {
 public:
  graphs(launch const& what, i64 copies) {
    cudaStream_t stream;
    require(cudaStreamCreate(&stream));
    for (i64 i = 0; i < copies; ++i) {
      cudaGraph_t graph;
      require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      capturing() = stream;
      what(i);
      capturing() = nullptr;
      require(cudaStreamEndCapture(stream, &graph));
      execs_.emplace_back();
      require(cudaGraphInstantiate(&execs_.back(), graph, 0));
      require(cudaGraphDestroy(graph));
    }
    require(cudaStreamDestroy(stream));
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

/// The ceiling for `count` values of two bytes.
template <int Codes, int Scales>
launch ceiling(inputs<f4::bf16> const& x, buffer<u8> const& codes, buffer<u8> const& scales) {
  return [&](i64 i) {
    const i64 threads = x.rows * x.cols / 16;
    ceiling_kernel<Codes, Scales>
        <<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256, 0, graphs::capturing()>>>(
            reinterpret_cast<word16 const*>(x.view(i).data), threads, codes.data(), scales.data());
  };
}

/// Reports one kernel beside its ceiling: time, bandwidth and percent of the ceiling.
inline void report(benchmark::State& state, double bytes, launch const& kernel, launch const& ceiling,
                   int batch = 4) {
  for (auto _ : state) {
    const std::vector<double> t = medians({ceiling, kernel}, 31, batch);
    state.SetIterationTime(t[1]);
    state.counters["GB/s"] = bytes / t[1] * 1e-9;
    state.counters["ceiling_GB/s"] = bytes / t[0] * 1e-9;
    state.counters["percent_of_ceiling"] = 100 * t[0] / t[1];
  }
}

}  // namespace bench

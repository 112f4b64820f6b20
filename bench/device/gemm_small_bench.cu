// SPDX-License-Identifier: Apache-2.0
// The weight-only GEMM for few rows, in graphs, so that times are the GPU's own: compared with a kernel that
// only reads the same codes and scales and, where cuBLAS is found, with its GEMM of bf16 weights. Copies of
// the weights make up for more than the L2 cache, so that every launch reads them from memory.
#include <fourscale/device/gemm_small.cuh>

#include "harness.cuh"

#if FOURSCALE_BENCH_CUBLAS
#include <cublas_v2.h>
#endif

using namespace bench;

namespace {

constexpr i64 least_bytes = 256 << 20;  ///< of all copies of the weights
constexpr int turns = 31;

using f4::mma::weight_only::tuning;

/// Random codes; scales between 2^-3 and 2^2.
__global__ void fill_weights_kernel(u8* codes, i64 code_bytes, u8* scales, i64 scale_bytes, u64 copy) {
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < code_bytes; i += i64{gridDim.x} * 256) {
    const u64 random = f4::test::mix(static_cast<u64>(i) + (copy << 40));
    codes[i] = static_cast<u8>(random >> 7);
    if (i < scale_bytes) scales[i] = static_cast<u8>(0x20 + random % 40);
  }
}

/// Codes with their scales behind them, 16 bytes aligned.
template <class Layout>
struct weights {
  i64 rows, cols, code_bytes, scale_bytes;
  std::vector<buffer<u8>> copies;

  weights(i64 n, i64 k)
      : rows(n),
        cols(k),
        code_bytes(f4::code_bytes<f4::nvfp4>(n, k)),
        scale_bytes(f4::scale_bytes<f4::nvfp4, Layout>(n, k)) {
    const i64 count = least_bytes / bytes() + 2;
    for (i64 i = 0; i < count; ++i) {
      copies.emplace_back(bytes());
      u8* const codes = copies.back().data();
      fill_weights_kernel<<<2048, 256>>>(codes, code_bytes, codes + code_bytes, scale_bytes,
                                         static_cast<u64>(i));
    }
    require(cudaDeviceSynchronize());
  }
  i64 bytes() const { return code_bytes + scale_bytes; }
  i64 count() const { return static_cast<i64>(copies.size()); }
  u8* data(i64 i) const { return copies[static_cast<size_t>(i % count())].data(); }
  f4::block_scaled_view<f4::nvfp4, Layout> view(i64 i) const {
    return {data(i), data(i) + code_bytes, rows, cols, f4::amax_value(3.0f)};
  }
};

/// Reads 16-byte words, four by each thread, and writes nothing.
constexpr int words_of_thread = 4;
__global__ void __launch_bounds__(512) read_kernel(uint4 const* from, i64 count, f4::u32* never) {
  const i64 first = blockIdx.x * i64{512 * words_of_thread} + threadIdx.x;
  uint4 v[words_of_thread];
#pragma unroll
  for (int k = 0; k < words_of_thread; ++k)
    v[k] = first + k * 512 < count ? __ldg(from + first + k * 512) : uint4{0, 0, 0, 0};
  f4::u32 all = 0;
#pragma unroll
  for (int k = 0; k < words_of_thread; ++k) all |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  if (all == 0x1234'5678u) *never = all;
}

/// Seconds of one launch.
double time_of(launch const& what, i64 calls) { return medians_from_graphs({what}, turns, calls)[0]; }

#if FOURSCALE_BENCH_CUBLAS
void must(cublasStatus_t s) { require(s == CUBLAS_STATUS_SUCCESS, "cuBLAS failed"); }

/// Seconds of X * W^T by cuBLAS, W in bf16.
double time_of_cublas(i64 m, i64 n, i64 k, f4::bf16 const* x, f4::bf16* d) {
  std::vector<buffer<f4::bf16>> w;
  for (i64 i = 0; i < least_bytes / (2 * n * k) + 2; ++i) {
    w.emplace_back(n * k);
    fill_kernel<<<2048, 256>>>(activations{}, w.back().data(), n, k, static_cast<u64>(i));
  }
  buffer<u8> workspace(32 << 20);
  cublasHandle_t handle{};
  must(cublasCreate(&handle));
  const launch run = [&](i64 i) {
    must(cublasSetStream(handle, graphs::capturing()));
    must(cublasSetWorkspace(handle, workspace.data(), workspace.bytes()));
    const float one = 1.0f, zero = 0.0f;
    const int rows = static_cast<int>(n), cols = static_cast<int>(m), depth = static_cast<int>(k);
    must(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, cols, depth, &one,
                      w[static_cast<size_t>(i) % w.size()].data(), CUDA_R_16BF, depth, x, CUDA_R_16BF, depth,
                      &zero, d, CUDA_R_16BF, rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  };
  run(0);
  require(cudaDeviceSynchronize());
  const double seconds = time_of(run, 2 * static_cast<i64>(w.size()));
  must(cublasDestroy(handle));
  return seconds;
}
#endif

/// A few values of D against sums in double.
template <class Layout>
void check_some(weights<Layout> const& w, i64 m, std::vector<f4::bf16> const& x,
                std::vector<f4::bf16> const& d) {
  std::vector<u8> bytes = w.copies[0].to_host();
  const f4::block_scaled_view<f4::nvfp4, Layout> q{bytes.data(), bytes.data() + w.code_bytes, w.rows, w.cols,
                                                   f4::amax_value(3.0f)};
  const double factor = 3.0 / 2688.0;
  for (i64 i = 0; i < 64; ++i) {
    const i64 row = i % m, n = (i * 7919) % w.rows;
    double sum = 0, magnitudes = 0;
    for (i64 k = 0; k < w.cols; ++k) {
      const double product = static_cast<double>(f4::decode(q.load_code(n, k))) *
                             static_cast<double>(f4::decode(q.load_scale(n, k / 16))) *
                             static_cast<double>(f4::to_float(x[static_cast<size_t>(row * w.cols + k)]));
      sum += product, magnitudes += product < 0 ? -product : product;
    }
    const double got = static_cast<double>(f4::to_float(d[static_cast<size_t>(row * w.rows + n)]));
    const double error = got - factor * sum,
                 most = factor * (0x1p-8 * (sum < 0 ? -sum : sum) + 0x1p-9 * magnitudes);
    require(error <= most && -error <= most, "D differs from a sum in double");
  }
}

template <class Layout>
void decode(benchmark::State& state, i64 m, shape s, tuning const& t, bool with_cublas) {
  const i64 n = s.rows, k = s.cols;
  const weights<Layout> w(n, k);
  buffer<f4::bf16> x(m * k), d(m * n);
  buffer<f4::u32> never(1);
  fill_kernel<<<256, 256>>>(activations{}, x.data(), m, k, u64{0});
  const launch run = [&](i64 i) {
    require(f4::device::detail::gemm_weight_only_by(t, f4::matrix_view<f4::bf16 const>{x.data(), m, k},
                                                    w.view(i), f4::matrix_view<f4::bf16>{d.data(), m, n}, {},
                                                    graphs::capturing()));
  };
  const launch read = [&](i64 i) {
    const i64 words = w.bytes() / 16;
    read_kernel<<<static_cast<unsigned>(f4::ceil_div<i64>(words, 512 * words_of_thread)), 512, 0,
                  graphs::capturing()>>>(reinterpret_cast<uint4 const*>(w.data(i)), words, never.data());
  };
  run(0);
  check_some(w, m, x.to_host(), d.to_host());
  const i64 calls = 4 * w.count();
  for (auto _ : state) {
    const double ours = time_of(run, calls), reading = time_of(read, calls);
    state.SetIterationTime(ours);
    state.counters["GB/s"] = static_cast<double>(w.bytes()) / ours * 1e-9;
    state.counters["read_GB/s"] = static_cast<double>(w.bytes()) / reading * 1e-9;
    state.counters["percent_of_read"] = 100 * reading / ours;
#if FOURSCALE_BENCH_CUBLAS
    if (!with_cublas) continue;
    const double theirs = time_of_cublas(m, n, k, x.data(), d.data());
    state.counters["cublas_us"] = theirs * 1e6;
    state.counters["times_cublas"] = theirs / ours;
#endif
  }
}

/// Plans to compare with the one that the library makes. Not part of a run unless asked for by name. More
/// than eight warps are for loads without TMA.
const tuning plans[] = {{2},
                        {4},
                        {8},
                        {0, 0, 0, 0, true},
                        {1, 4, 2, 0, true},
                        {1, 8, 2, 0, true},
                        {2, 4, 2, 0, true},
                        {2, 8, 2, 0, true},
                        {2, 8, 3, 0, true},
                        {4, 4, 2, 0, true},
                        {4, 8, 2, 0, true},
                        {4, 8, 3, 0, true},
                        {8, 8, 2, 0, true},
                        {2, 10, 4, 0, true},
                        {4, 12, 3, 0, true},
                        {8, 16, 2, 0, true}};

std::string to_string(tuning const& t) {
  return std::to_string(t.ctas) + "_ctas_" + std::to_string(t.warps) + "_warps_" + std::to_string(t.depth) +
         "_halves_" + std::to_string(t.rows) + "_rows" + (t.mma_sync ? "_mma_sync" : "");
}

const bool registered = [] {
  for (const shape s : {shape{8192, 8192}, shape{28672, 8192}, shape{8192, 28672}, shape{4096, 4096}})
    for (const i64 m : {1, 8, 16, 32, 64}) {
      const std::string what = std::to_string(m) + "/" + bench::to_string(s);
      add("gemm_weight_only/" + what, [=](auto& state) { decode<f4::linear>(state, m, s, {}, true); });
      if (m == 16)
        add("gemm_weight_only_swizzled/" + what,
            [=](auto& state) { decode<f4::swizzled_128x4>(state, m, s, {}, true); });
      if (std::getenv("FOURSCALE_BENCH_PLANS") == nullptr) continue;
      for (const tuning t : plans)
        add("gemm_weight_only_plan/" + what + "/" + to_string(t),
            [=](auto& state) { decode<f4::linear>(state, m, s, t, false); });
      if (m == 64)
        add("gemm_weight_only_plan/" + what + "/" + to_string(tuning{0, 0, 0, 64}), [=](auto& state) {
          decode<f4::linear>(state, m, s, {0, 0, 0, 64}, false);
        });
    }
  return true;
}();

}  // namespace

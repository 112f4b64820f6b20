// SPDX-License-Identifier: Apache-2.0
// GEMMs with Blackwell's bits, and within a bound, compared with cublasLt's bf16 on the same values in the
// same run: from decoded operands, and from packed ones. `certified` is the share of steps whose sum a
// certificate proved exact; `native` is accumulate::native by cublasLt, `own` the same by our kernel;
// `distance` is the largest between native and Blackwell's bits, in percent of the bound; decoding is
// compared with a kernel that only reads and writes as many bytes.
//
// gemm_ways: both ways of the kernel by wgmma, by certificates and by blocks, packed, for blocks of growing
// spread and other hard data; by `uncertified`, a percentage of samples, and how much these are `alike` it
// chooses.
//
// gemm_draws: eight draws of heavy-tailed data, packed, in percent of the speed of Gaussian values: as fast
// as all together, the slowest, and the fastest one.
//
// gemm_plans: tiles of each width, the last ones shared along K or not, from decoded operands.
//
// gemm_fp32: decoded operands to FP32, added to D or stored.
#include <algorithm>
#include <deque>
#include <fourscale/interop/cublaslt.cuh>
#include <numeric>

#include "cublaslt.cuh"
#include "data.cuh"
#include "gemm_shape.cuh"
#include "mma/gemm_bound.hpp"

using namespace bench;

namespace {

using f4::nvfp4, f4::swizzled_128x4, f4::bf16;

/// A call of the kernel by wgmma.
template <class T>
using wgmma_call = f4::device::detail::wgmma_call<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, T>;

/// A quantized matrix of this data, and its values without the tensor scale.
struct operand {
  i64 rows, cols;
  buffer<u8> codes, scales;
  buffer<float> amax;
  buffer<bf16> values;
  f4::block_scaled_view<nvfp4, swizzled_128x4> view;

  operand(i64 r, i64 c, data kind, u64 copy)
      : rows(r),
        cols(c),
        codes(f4::code_bytes<nvfp4>(r, c)),
        scales(f4::scale_bytes<nvfp4, swizzled_128x4>(r, c)),
        amax(1),
        values(r * c),
        view(codes.data(), scales.data(), r, c, f4::amax_in(amax.data())) {
    fill_kernel<<<2048, 256>>>(kind, values.data(), r, c, copy);
    const f4::matrix_view<bf16 const> x{values.data(), r, c};
    require(f4::device::amax(x, amax.data()));
    require(f4::device::quantize(x, view));
    require(f4::device::dequantize(view, f4::matrix_view<bf16>{values.data(), r, c}));
    require(cudaDeviceSynchronize());
  }
};

/// accumulate::native with its workspace, for D of type T.
template <class T>
struct native_gemm {
  operand const &a, &b;
  cublasLtHandle_t handle{};
  buffer<T> d;
  f4::matrix_view<T> to;
  f4::interop::cublaslt_plan plan;
  i64 bytes;
  buffer<u8> memory;

  native_gemm(operand const& x, operand const& y)
      : a(x),
        b(y),
        d(x.rows * y.rows),
        to{d.data(), x.rows, y.rows},
        bytes(f4::device::gemm_workspace_bytes(x.rows, y.rows, x.cols, f4::accumulate::native{&plan})),
        memory(bytes) {
    require(cublasLtCreate(&handle));
    require(f4::device::plan_native(handle, a.view, b.view, to, workspace(), plan));
  }
  native_gemm(native_gemm const&) = delete;
  ~native_gemm() { cublasLtDestroy(handle); }
  f4::device::gemm_workspace workspace() const { return {memory.data(), bytes}; }
  void run() const {
    require(f4::device::gemm(a.view, b.view, to, {}, f4::accumulate::native{&plan}, workspace(),
                             graphs::capturing()));
  }
  /// From operands that are decoded: by the plan, and by our kernel, in memory that no plan has written to.
  launch by_plan() const {
    return [this, call = f4::device::detail::planned_call(a.view, b.view, to, {}, memory.data())](i64) {
      require(call.multiply(plan, graphs::capturing()));
    };
  }
  launch by_own(u8* of_own) const {
    const wgmma_call<T> call(a.view, b.view, to, {}, of_own, nullptr);
    require(call.template decode<false>(nullptr));
    return [call](i64) { require(call.multiply(graphs::capturing())); };
  }
};

/// The Euclidean norm of each row.
__global__ void norms_kernel(bf16 const* x, i64 cols, float* norms) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  float mine = 0;
  for (i64 i = threadIdx.x; i < cols; i += blockDim.x) {
    const float value = f4::to_float(x[blockIdx.x * cols + i]);
    mine += value * value;
  }
  atomicAdd(&sum, mine);
  __syncthreads();
  if (threadIdx.x == 0) norms[blockIdx.x] = sqrtf(sum);
}
/// The largest distance between x and y in products of norms, as the bits of a float.
__global__ void distance_kernel(float const* x, float const* y, i64 rows, i64 cols, float const* of_rows,
                                float const* of_cols, f4::i32* largest) {
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < rows * cols; i += i64{gridDim.x} * 256) {
    const float norm = of_rows[i / cols] * of_cols[i % cols], distance = fabsf(x[i] - y[i]);
    atomicMax(largest, __float_as_int(distance == 0.0f ? 0.0f : distance / norm));
  }
}

/// Between accumulate::native and accumulate::blackwell, in percent of the bound.
double distance(operand const& a, operand const& b) {
  const native_gemm<float> native(a, b);
  const buffer<float> of_model(a.rows * b.rows), norms_a(a.rows), norms_b(b.rows);
  native.run();
  require(f4::device::gemm(a.view, b.view, f4::matrix_view<float>{of_model.data(), a.rows, b.rows}, {},
                           f4::accumulate::blackwell{}, native.workspace()));
  norms_kernel<<<static_cast<unsigned>(a.rows), 256>>>(a.values.data(), a.cols, norms_a.data());
  norms_kernel<<<static_cast<unsigned>(b.rows), 256>>>(b.values.data(), b.cols, norms_b.data());
  const buffer<f4::i32> largest(1);
  require(cudaMemset(largest.data(), 0, largest.bytes()));
  distance_kernel<<<2048, 256>>>(native.d.data(), of_model.data(), a.rows, b.rows, norms_a.data(),
                                 norms_b.data(), largest.data());
  require(cudaDeviceSynchronize());
  const double bound = f4::test::native_bound(a.cols, 1) + f4::test::model_bound(a.cols, 1, 0);
  return 100 * static_cast<double>(f4::bit_cast<float>(largest.to_host()[0])) / bound;
}

/// Bytes that decoding reads and writes for each value: code and scale; value, magnitude and bounds.
constexpr double read_bytes = 0.5625, written_bytes = 2.0 + 1.0 / 16 + 1.0 / 8;

/// Writes each word of 16 bytes that it reads four times: what decoding does, within 3 %.
__global__ void __launch_bounds__(256) traffic_kernel(uint4 const* from, uint4* to, i64 words) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= words) return;
  uint4 x = from[i];
  for (int k = 0; k < 4; ++k, ++x.x) to[i / 32 * 128 + k * 32 + i % 32] = x;
}

/// Memory for traffic_kernel, for so many values that are decoded.
struct traffic {
  i64 words;
  buffer<uint4> from, to;

  explicit traffic(i64 values)
      : words(f4::ceil_div<i64>(static_cast<i64>(static_cast<double>(values) * written_bytes / 64), 32) * 32),
        from(words),
        to(4 * words) {
    require(cudaMemset(from.data(), 0, from.bytes()));
  }
  void run() const {
    traffic_kernel<<<static_cast<unsigned>(f4::ceil_div<i64>(words, 256)), 256, 0, graphs::capturing()>>>(
        from.data(), to.data(), words);
  }
};

/// What all kernels do in turns: seconds.
struct gemm_times {
  double cublaslt, decoded, packed, decode, ceiling, bf16, native_decoded, native_packed, own_decoded;
};

/// `call`: of the GEMM with Blackwell's bits.
template <class Call>
gemm_times time_all(operand const& a, operand const& b, f4::matrix_view<bf16> to, u8* workspace,
                    Call const& call) {
  const buffer<bf16> of_peer(a.rows * b.rows);
  cublaslt_gemm peer(a.rows, b.rows, a.cols);
  peer.choose(a.values.data(), b.values.data(), of_peer.data());
  const native_gemm<bf16> native(a, b);
  const buffer<u8> of_own(f4::device::gemm_workspace_bytes(a.rows, b.rows, a.cols));
  const traffic of_decoding((a.rows + b.rows) * a.cols);
  native.run();
  const wgmma_call<bf16> prepared(a.view, b.view, to, {}, workspace, nullptr);
  const f4::device::detail::bf16_call by_mma_sync(a.view, b.view, to, {}, workspace, nullptr);
  const std::vector<double> t = medians_from_graphs(
      {[&](i64) { peer.run(a.values.data(), b.values.data(), of_peer.data()); },
       [&](i64) { require(prepared.multiply(graphs::capturing())); }, [&](i64) { call(nullptr); },
       [&](i64) { require(prepared.decode_operands(graphs::capturing())); }, [&](i64) { of_decoding.run(); },
       [&](i64) { require(by_mma_sync.multiply(graphs::capturing())); }, native.by_plan(),
       [&](i64) { native.run(); }, native.by_own(of_own.data())},
      31, gemm_shape{a.rows, b.rows, a.cols}.calls());
  return {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]};
}

void measure(benchmark::State& state, gemm_shape s, data kind_a, data kind_b) {
  const operand a(s.m, s.k, kind_a, 1), b(s.n, s.k, kind_b, 2);
  const buffer<bf16> d(s.m * s.n);
  const i64 bytes = f4::device::gemm_workspace_bytes(s.m, s.n, s.k);
  const buffer<u8> workspace(bytes);
  const buffer<f4::gemm_steps> steps(1);
  const f4::matrix_view<bf16> to{d.data(), s.m, s.n};
  const auto call = [&](f4::gemm_steps* count) {
    require(f4::device::gemm(a.view, b.view, to, {}, f4::accumulate::blackwell{}, {workspace.data(), bytes},
                             graphs::capturing(), count));
  };
  require(cudaMemset(steps.data(), 0, steps.bytes()));
  call(steps.data());
  require(cudaDeviceSynchronize());
  const f4::gemm_steps counted = steps.to_host()[0];
  const double all = static_cast<double>(counted.in_f32 + counted.in_double + counted.by_model);
  for (auto _ : state) {
    const gemm_times t = time_all(a, b, to, workspace.data(), call);
    const double flop = s.flop();
    const double decoded = static_cast<double>((s.m + s.n) * s.k) * (read_bytes + written_bytes);
    state.SetIterationTime(t.packed);
    state.counters["cublasLt_TFLOP/s"] = flop / t.cublaslt * 1e-12;
    state.counters["TFLOP/s"] = flop / t.packed * 1e-12;
    state.counters["percent_decoded"] = 100 * t.cublaslt / t.decoded;
    state.counters["percent_packed"] = 100 * t.cublaslt / t.packed;
    state.counters["native_decoded"] = 100 * t.cublaslt / t.native_decoded;
    state.counters["native_packed"] = 100 * t.cublaslt / t.native_packed;
    state.counters["own_decoded"] = 100 * t.cublaslt / t.own_decoded;
    state.counters["distance"] = distance(a, b);
    state.counters["decode_GB/s"] = decoded / t.decode * 1e-9;
    state.counters["decode_percent_of_ceiling"] = 100 * t.ceiling / t.decode;
    state.counters["percent_bf16_of_wgmma"] = 100 * t.decoded / t.bf16;
    state.counters["bf16_TFLOP/s"] = flop / t.bf16 * 1e-12;
    state.counters["certified"] = 100 * static_cast<double>(counted.in_f32) / all;
    state.counters["by_model"] = 100 * static_cast<double>(counted.by_model) / all;
  }
}

void add_gemm(gemm_shape s, std::string const& name, data a, data b) {
  add("gemm/" + name + "/" + s.name(), [=](benchmark::State& state) { measure(state, s, a, b); });
}

__global__ void sum_kernel(f4::mma::wgmma::way_sample const* samples, f4::mma::wgmma::sample_sums* sums) {
  const auto all = f4::mma::wgmma::sum_of_samples(samples);
  if (threadIdx.x == 0) *sums = all;
}
/// What a decoded call's samples say.
template <class Call>
f4::mma::wgmma::sample_sums samples_of(Call const& call) {
  const buffer<f4::mma::wgmma::sample_sums> sums(1);
  sum_kernel<<<1, 32>>>(call.p.samples, sums.data());
  f4::mma::wgmma::sample_sums all;
  require(cudaMemcpy(&all, sums.data(), sizeof all, cudaMemcpyDefault));
  return all;
}

void measure_ways(benchmark::State& state, gemm_shape s, data kind_a, data kind_b) {
  const operand a(s.m, s.k, kind_a, 1), b(s.n, s.k, kind_b, 2);
  const buffer<bf16> d(s.m * s.n);
  const buffer<u8> workspace(f4::device::gemm_workspace_bytes(s.m, s.n, s.k));
  wgmma_call<bf16> certified(a.view, b.view, f4::matrix_view<bf16>{d.data(), s.m, s.n}, {}, workspace.data(),
                             nullptr);
  wgmma_call<bf16> by_blocks = certified;
  certified.p.by_blocks_above = 1.0f;
  by_blocks.p.by_blocks_above = -1.0f;
  for (auto _ : state) {
    const auto run = [](auto const& call) {
      return [&call](i64) {
        require(call.decode(nullptr));
        require(call.multiply(nullptr));
      };
    };
    const std::vector<double> t = medians({run(certified), run(by_blocks)}, 9, 2);
    state.SetIterationTime(t[0] < t[1] ? t[0] : t[1]);
    const f4::mma::wgmma::sample_sums all = samples_of(certified);
    state.counters["uncertified"] = 100 * static_cast<double>(all.share());
    state.counters["alike"] = static_cast<double>(all.alike());
    state.counters["goes_by_blocks"] = is_faster_by_blocks(all);
    state.counters["certified_TFLOP/s"] = s.flop() / t[0] * 1e-12;
    state.counters["by_blocks_TFLOP/s"] = s.flop() / t[1] * 1e-12;
  }
}

/// Of A of this kind, B of the same or Gaussian.
std::string of_operands(std::string const& name, bool both) {
  return name + (both ? "_both" : "_by_gaussian");
}
void add_ways(gemm_shape s, std::string const& name, data kind, bool both) {
  add("gemm_ways/" + of_operands(name, both),
      [=](benchmark::State& state) { measure_ways(state, s, kind, both ? kind : data{data::gaussian}); });
}

/// Where a few values outweigh all others, the time depends on which these are. Eight draws of such data,
/// packed.
void measure_draws(benchmark::State& state, gemm_shape s, data kind, bool both) {
  constexpr u64 count = 8;
  std::deque<operand> a, b;
  a.emplace_back(s.m, s.k, data{data::gaussian}, 1), b.emplace_back(s.n, s.k, data{data::gaussian}, 2);
  for (u64 i = 1; i <= count; ++i) {
    a.emplace_back(s.m, s.k, kind, 10 * i);
    if (both) b.emplace_back(s.n, s.k, kind, 10 * i + 1);
  }
  const buffer<bf16> d(s.m * s.n);
  const i64 bytes = f4::device::gemm_workspace_bytes(s.m, s.n, s.k);
  const buffer<u8> workspace(bytes);
  std::vector<launch> launches;
  for (size_t i = 0; i <= count; ++i)
    launches.push_back([&, i](i64) {
      require(f4::device::gemm(a[i].view, b[both ? i : 0].view, f4::matrix_view<bf16>{d.data(), s.m, s.n}, {},
                               f4::accumulate::blackwell{}, {workspace.data(), bytes}));
    });
  for (auto _ : state) {
    const std::vector<double> t = medians(launches, 9, 2);
    const auto first = t.begin() + 1;
    const double mean = std::accumulate(first, t.end(), 0.0) / count;
    state.SetIterationTime(mean);
    state.counters["mean"] = 100 * t[0] / mean;
    state.counters["slowest"] = 100 * t[0] / *std::max_element(first, t.end());
    state.counters["fastest"] = 100 * t[0] / *std::min_element(first, t.end());
  }
}

void add_draws(gemm_shape s, std::string const& name, data kind, bool both) {
  add("gemm_draws/" + of_operands(name, both),
      [=](benchmark::State& state) { measure_draws(state, s, kind, both); });
}

/// Percent of cublasLt's speed by each plan there is.
void measure_plans(benchmark::State& state, gemm_shape s) {
  const operand a(s.m, s.k, {data::gaussian}, 1), b(s.n, s.k, {data::gaussian}, 2);
  const buffer<bf16> d(s.m * s.n), of_peer(s.m * s.n);
  const buffer<u8> workspace(f4::device::gemm_workspace_bytes(s.m, s.n, s.k));
  cublaslt_gemm peer(s.m, s.n, s.k);
  peer.choose(a.values.data(), b.values.data(), of_peer.data());
  std::vector<std::string> names{"cublasLt"};
  std::vector<launch> launches{[&](i64) { peer.run(a.values.data(), b.values.data(), of_peer.data()); }};
  using plan = f4::device::detail::wgmma_plan;
  using enum f4::mma::cluster_tiles;
  for (plan::cut const& cut : plan::cuts)
    for (const bool split : {true, false}) {
      if (split && cut.lie == low) continue;
      const auto may = [&](plan::cut const& x) { return x.cols == cut.cols && x.lie == cut.lie; };
      wgmma_call<bf16> call(a.view, b.view, f4::matrix_view<bf16>{d.data(), s.m, s.n}, {}, workspace.data(),
                            nullptr, may);
      if (split && (call.carries < call.plan.clusters ||
                    f4::device::detail::clusters_of(s.m, s.n, cut.cols, cut.lie) <= call.plan.clusters))
        continue;
      call.plan.split = call.p.split = split;
      require(call.decode(nullptr));
      launches.push_back([call](i64) { require(call.multiply(graphs::capturing())); });
      names.push_back(std::to_string(cut.cols) +
                      (cut.lie == stacked ? ""
                       : cut.lie == low   ? "_low"
                                          : "_side_by_side") +
                      (split ? "_shared" : ""));
    }
  for (auto _ : state) {
    const std::vector<double> t = medians_from_graphs(launches, 21, s.calls());
    state.SetIterationTime(*std::min_element(t.begin() + 1, t.end()));
    state.counters["cublasLt_TFLOP/s"] = s.flop() / t[0] * 1e-12;
    for (size_t i = 1; i < t.size(); ++i) state.counters[names[i]] = 100 * t[0] / t[i];
  }
}

void add_plans(gemm_shape s) {
  add("gemm_plans/" + s.name(), [=](benchmark::State& state) { measure_plans(state, s); });
}

/// Decoded operands to FP32, percent of cublasLt's speed: added to D, as wgrad does, and not.
void measure_fp32(benchmark::State& state, gemm_shape s) {
  const operand a(s.m, s.k, {data::gaussian}, 1), b(s.n, s.k, {data::gaussian}, 2);
  const buffer<float> d(s.m * s.n);
  const buffer<u8> workspace(f4::device::gemm_workspace_bytes(s.m, s.n, s.k));
  cublaslt_gemm adds(s.m, s.n, s.k, {.adds_to_f32 = true}), stores(s.m, s.n, s.k, {.to_f32 = true});
  for (cublaslt_gemm* peer : {&adds, &stores}) peer->choose(a.values.data(), b.values.data(), d.data());
  const auto ours = [&](float beta) {
    return wgmma_call<float>(a.view, b.view, f4::matrix_view<float>{d.data(), s.m, s.n}, {1.0f, beta},
                             workspace.data(), nullptr);
  };
  const auto add = ours(1.0f), store = ours(0.0f);
  require(add.decode(nullptr));
  const auto by_peer = [&](cublaslt_gemm const& peer) {
    return [&](i64) { peer.run(a.values.data(), b.values.data(), d.data()); };
  };
  for (auto _ : state) {
    const std::vector<double> t = medians({by_peer(adds), [&](i64) { require(add.multiply(nullptr)); },
                                           by_peer(stores), [&](i64) { require(store.multiply(nullptr)); }},
                                          21, 2);
    state.SetIterationTime(t[1]);
    state.counters["cublasLt_TFLOP/s"] = s.flop() / t[0] * 1e-12;
    state.counters["added"] = 100 * t[0] / t[1];
    state.counters["stored"] = 100 * t[2] / t[3];
  }
}

constexpr gemm_shape large[] = {{4096, 4096, 4096}, {8192, 8192, 8192}, {8192, 14336, 4096}};
constexpr gemm_shape hard{8192, 8192, 4096};
constexpr gemm_shape ragged_and_small[] = {{512, 512, 4096},   {1024, 1024, 1024}, {2048, 2048, 2048},
                                           {3072, 3072, 3072}, {1000, 3000, 2000}, {4000, 4080, 4096},
                                           {512, 14336, 4096}, {100, 4096, 4096},  {300, 4096, 4096}};

const bool registered = [] {
  constexpr data gaussian{data::gaussian};
  for (const gemm_shape s : large) add_gemm(s, "gaussian", gaussian, gaussian);
  add_gemm(hard, "lognormal_rows", {data::rows_2}, gaussian);
  add_gemm(hard, "x50_channels", {data::channels}, gaussian);
  add_gemm(hard, "half_zero", {data::half_zero}, gaussian);
  add_gemm(hard, "t3_by_gaussian", {data::student_3}, gaussian);
  add_gemm(hard, "lognormal_tokens_by_gaussian", {data::cols, 2.0f}, gaussian);
  add_gemm(hard, "t2_by_t2", {data::student}, {data::student});
  add_gemm(hard, "lognormal_blocks_by_gaussian", {data::blocks}, gaussian);
  add_gemm(hard, "lognormal_blocks", {data::blocks}, {data::blocks});
  for (const gemm_shape s : ragged_and_small) add_gemm(s, "gaussian", gaussian, gaussian);
  for (const gemm_shape s : large) add_plans(s);
  for (const gemm_shape s : {hard, gemm_shape{2048, 4096, 14336}}) add_plans(s);
  for (const gemm_shape s : ragged_and_small) add_plans(s);
  for (const gemm_shape s : {gemm_shape{14336, 4096, 8192}, gemm_shape{4096, 14336, 8192}, large[1]})
    add("gemm_fp32/" + s.name(), [=](benchmark::State& state) { measure_fp32(state, s); });
  for (const bool both : {false, true})
    for (const int percent : {30, 50, 60, 70, 85, 100, 150})
      add_ways(hard, "blocks_" + std::to_string(percent), {data::blocks, 0.01f * static_cast<float>(percent)},
               both);
  for (const bool both : {false, true}) add_draws(hard, "tokens_2", {data::cols, 2.0f}, both);
  add_draws(hard, "t2", {data::student}, true);
  add_ways(hard, "t2", {data::student}, true);
  add_ways(hard, "x50_channels", {data::channels}, true);
  add_ways(hard, "tokens_2", {data::cols, 2.0f}, true);
  add_ways(hard, "tokens_3", {data::cols, 3.0f}, false);
  add_ways(hard, "tokens_3", {data::cols, 3.0f}, true);
  add_ways(hard, "outliers", {data::usual}, true);
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// GEMMs of MXFP8, MXFP6 and MXFP8 by MXFP4 with Blackwell's bits, and within a bound by accumulate::native,
// compared with cublasLt's bf16 on the same values in the same run. Blackwell's bits with MXFP8 are by
// mma.sync of fp16. Those of MXFP6 are by wgmma, except for the outputs `left` to mma.sync. `certified` is
// the share of outputs of steps whose certificate holds, `by_model` that of those where the adder may drop
// bits; decoding is part of `percent` and `percent_native`. gemm_mx_far: native with a scale that sums in f32
// may not hold, which is added in double.
#include <bit>
#include <fourscale/device/gemm_native.cuh>
#include <type_traits>
#include <vector>

#include "cublaslt.cuh"
#include "data.cuh"
#include "gemm_shape.cuh"

using namespace bench;

namespace {

using f4::linear, f4::bf16;

/// A quantized matrix of this data, and its values.
template <class F>
struct operand {
  i64 rows, cols;
  buffer<u8> codes, scales;
  buffer<bf16> values;
  f4::block_scaled_view<F, linear> view;

  operand(i64 r, i64 c, data kind, u64 copy)
      : rows(r),
        cols(c),
        codes(f4::code_bytes<F>(r, c)),
        scales(f4::scale_bytes<F, linear>(r, c)),
        values(r * c),
        view(codes.data(), scales.data(), r, c) {
    fill_kernel<<<2048, 256>>>(kind, values.data(), r, c, copy);
    require(f4::device::quantize(f4::matrix_view<bf16 const>{values.data(), r, c}, view));
    require(f4::device::dequantize(view, f4::matrix_view<bf16>{values.data(), r, c}));
    require(cudaDeviceSynchronize());
  }
};

/// D of a quantized A and B, by accumulate::native in memory of its own.
template <class F, class G>
struct native_gemm {
  operand<F> const& a;
  operand<G> const& b;
  f4::matrix_view<bf16> d;
  i64 bytes;
  buffer<u8> workspace;

  native_gemm(operand<F> const& x, operand<G> const& y, f4::matrix_view<bf16> const& to)
      : a(x),
        b(y),
        d(to),
        bytes(f4::device::gemm_workspace_bytes(x.rows, y.rows, x.cols)),
        workspace(bytes) {}
  void operator()(i64) const {
    require(f4::device::gemm(a.view, b.view, d, {}, f4::accumulate::native{}, {workspace.data(), bytes},
                             graphs::capturing()));
  }
};

/// The share of outputs, in percent, that a call has left to gemm_kernel::f16.
template <class Call>
double percent_left(Call const& call, i64 m, i64 n) {
  if constexpr (requires { call.failed; }) {
    const i64 count = call.failed.words(m, n);
    std::vector<f4::u32> words(static_cast<size_t>(count));
    require(cudaMemcpy(words.data(), call.failed.any, words.size() * 4, cudaMemcpyDeviceToHost));
    i64 failed = 0;
    for (size_t i = 1; i < words.size(); ++i) failed += std::popcount(words[i]);  // bytes of 0 or 1
    return 100 * static_cast<double>(failed * call.failed.rows * call.failed.cols) /
           static_cast<double>(m * n);
  }
  return 100;
}

template <class F, class G>
void measure(benchmark::State& state, gemm_shape s, data kind_a, data kind_b) {
  const operand<F> a(s.m, s.k, kind_a, 1);
  const operand<G> b(s.n, s.k, kind_b, 2);
  const buffer<bf16> d(s.m * s.n), of_peer(s.m * s.n);
  const buffer<f4::gemm_steps> steps(1);
  const f4::matrix_view<bf16> to{d.data(), s.m, s.n};
  const native_gemm native(a, b, to);
  using kernels = f4::device::detail::kernels_of_gemm<F, linear, G, linear, bf16>;
  using call_type =
      std::conditional_t<kernels::in_32s, typename kernels::by_wgmma_in_32s, typename kernels::by_f16>;
  const call_type counting(a.view, b.view, to, {}, native.workspace.data(), steps.data()),
      call(a.view, b.view, to, {}, native.workspace.data(), nullptr);
  require(cudaMemset(steps.data(), 0, steps.bytes()));
  require(counting.decode(nullptr));
  require(counting.multiply(nullptr));
  require(cudaDeviceSynchronize());
  const f4::gemm_steps counted = steps.to_host()[0];
  const double left = percent_left(counting, s.m, s.n);
  const double all = static_cast<double>(counted.in_f32 + counted.in_double + counted.by_model);
  cublaslt_gemm peer(s.m, s.n, s.k);
  peer.choose(a.values.data(), b.values.data(), of_peer.data());
  const launch by_peer = [&](i64) { peer.run(a.values.data(), b.values.data(), of_peer.data()); };
  for (auto _ : state) {
    const std::vector<double> of_native =
        medians_from_graphs({by_peer, [&](i64 i) { native(i); }}, 31, s.calls());
    const std::vector<double> t =
        medians_from_graphs({by_peer, [&](i64) { require(call.multiply(graphs::capturing())); },
                             [&](i64) {
                               require(call.decode(graphs::capturing()));
                               require(call.multiply(graphs::capturing()));
                             }},
                            5, s.calls());
    state.SetIterationTime(t[2]);
    state.counters["cublasLt_TFLOP/s"] = s.flop() / t[0] * 1e-12;
    state.counters["TFLOP/s"] = s.flop() / t[2] * 1e-12;
    state.counters["percent"] = 100 * t[0] / t[2];
    // What makes strips that are left decodes to the same memory, so multiply() alone runs once.
    if (!kernels::in_32s || left == 0) state.counters["percent_decoded"] = 100 * t[0] / t[1];
    state.counters["native_TFLOP/s"] = s.flop() / of_native[1] * 1e-12;
    state.counters["percent_native"] = 100 * of_native[0] / of_native[1];
    state.counters["certified"] = 100 * static_cast<double>(counted.in_f32) / all;
    state.counters["left"] = left;
    state.counters["by_model"] = 100 * static_cast<double>(counted.by_model) / all;
  }
}

/// accumulate::native with a scale of 2^73.
template <class F>
void measure_far(benchmark::State& state, gemm_shape s) {
  const operand<F> a(s.m, s.k, {data::gaussian}, 1), b(s.n, s.k, {data::gaussian}, 2);
  require(cudaMemset(a.scales.data(), 200, 1));
  const buffer<bf16> d(s.m * s.n);
  const native_gemm native(a, b, f4::matrix_view<bf16>{d.data(), s.m, s.n});
  for (auto _ : state) {
    const double t = medians_from_graphs({[&](i64 i) { native(i); }}, 5, 1)[0];
    state.SetIterationTime(t);
    state.counters["native_TFLOP/s"] = s.flop() / t * 1e-12;
  }
}

template <class F, class G = F>
void add_gemm(gemm_shape s, std::string const& name, data a, data b) {
  const std::string formats(std::is_same_v<F, G> ? std::string(F::name)
                                                 : std::string(F::name) + "_by_" + G::name);
  add("gemm_mx/" + formats + "/" + name + "/" + s.name(),
      [=](benchmark::State& state) { measure<F, G>(state, s, a, b); });
}

const bool registered = [] {
  constexpr data gaussian{data::gaussian}, student{data::student}, blocks{data::blocks};
  for (const gemm_shape s : {gemm_shape{4096, 4096, 4096}, {8192, 8192, 4096}}) {
    add_gemm<f4::mxfp8_e4m3>(s, "gaussian", gaussian, gaussian);
    add_gemm<f4::mxfp8_e4m3>(s, "t2", student, student);
    add_gemm<f4::mxfp8_e4m3>(s, "lognormal_blocks", blocks, blocks);
    add_gemm<f4::mxfp8_e5m2>(s, "gaussian", gaussian, gaussian);
    add_gemm<f4::mxfp8_e4m3, f4::mxfp4>(s, "gaussian", gaussian, gaussian);
    add_gemm<f4::mxfp8_e4m3, f4::mxfp4>(s, "t2", student, student);
    add_gemm<f4::mxfp8_e4m3, f4::mxfp4>(s, "lognormal_blocks", blocks, blocks);
    add_gemm<f4::mxfp6_e2m3>(s, "gaussian", gaussian, gaussian);
    add_gemm<f4::mxfp6_e2m3>(s, "t2", student, student);
    add_gemm<f4::mxfp6_e2m3>(s, "lognormal_blocks", blocks, blocks);
    add_gemm<f4::mxfp6_e3m2>(s, "gaussian", gaussian, gaussian);
    add_gemm<f4::mxfp6_e3m2>(s, "t2", student, student);
    add_gemm<f4::mxfp6_e3m2>(s, "lognormal_blocks", blocks, blocks);
    add("gemm_mx_far/mxfp8_e4m3/" + s.name(),
        [=](benchmark::State& state) { measure_far<f4::mxfp8_e4m3>(state, s); });
  }
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// GEMMs with Blackwell's bits, compared with cublasLt's bf16 on the same values in the same run: from decoded
// operands, and from packed ones. `certified` is the share of steps whose sum a certificate proved exact.
#include <fourscale/device/gemm.cuh>
#include <fourscale/device/gemm_bf16.cuh>

#include "cublaslt.cuh"
#include "data.cuh"

using namespace bench;

namespace {

using f4::nvfp4, f4::swizzled_128x4, f4::bf16;

struct gemm_shape {
  i64 m, n, k;
};

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

void measure(benchmark::State& state, gemm_shape s, data kind_a, data kind_b) {
  const operand a(s.m, s.k, kind_a, 1), b(s.n, s.k, kind_b, 2);
  const buffer<bf16> d(s.m * s.n), of_peer(s.m * s.n);
  const i64 bytes = f4::device::gemm_workspace_bytes(s.m, s.n, s.k);
  const buffer<u8> workspace(bytes);
  const buffer<f4::gemm_steps> steps(1);
  const f4::matrix_view<bf16> to{d.data(), s.m, s.n};
  const auto call = [&](f4::gemm_steps* count) {
    require(f4::device::gemm(a.view, b.view, to, {}, f4::accumulate::blackwell{}, {workspace.data(), bytes},
                             nullptr, count));
  };
  require(cudaMemset(steps.data(), 0, steps.bytes()));
  call(steps.data());
  require(cudaDeviceSynchronize());
  const f4::gemm_steps counted = steps.to_host()[0];
  cublaslt_gemm peer(s.m, s.n, s.k);
  peer.choose(a.values.data(), b.values.data(), of_peer.data());
  using call_type = f4::device::detail::wgmma_call<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16>;
  const call_type prepared(a.view, b.view, to, {}, workspace.data(), nullptr);
  const f4::device::detail::bf16_call by_mma_sync(a.view, b.view, to, {}, workspace.data(), nullptr);
  for (auto _ : state) {
    const std::vector<double> t =
        medians({[&](i64) { peer.run(a.values.data(), b.values.data(), of_peer.data()); },
                 [&](i64) { require(prepared.multiply(nullptr)); }, [&](i64) { call(nullptr); },
                 [&](i64) { require(prepared.decode(nullptr)); },
                 [&](i64) { require(by_mma_sync.multiply(nullptr)); }},
                31, 2);
    const double flop = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const double decoded = static_cast<double>((s.m + s.n) * s.k) * (2.0 + 0.5625 + 1.0 / 16);
    state.SetIterationTime(t[2]);
    state.counters["cublasLt_TFLOP/s"] = flop / t[0] * 1e-12;
    state.counters["TFLOP/s"] = flop / t[2] * 1e-12;
    state.counters["percent_decoded"] = 100 * t[0] / t[1];
    state.counters["percent_packed"] = 100 * t[0] / t[2];
    state.counters["decode_GB/s"] = decoded / t[3] * 1e-9;
    state.counters["percent_bf16_of_wgmma"] = 100 * t[1] / t[4];
    state.counters["bf16_TFLOP/s"] = flop / t[4] * 1e-12;
    state.counters["certified"] = 100.0 * static_cast<double>(counted.in_f32) /
                                  static_cast<double>(counted.in_f32 + counted.in_double + counted.by_model);
    state.counters["by_model"] = 100.0 * static_cast<double>(counted.by_model) /
                                 static_cast<double>(counted.in_f32 + counted.in_double + counted.by_model);
  }
}

void add_gemm(gemm_shape s, std::string const& name, data a, data b) {
  add("gemm/" + name + "/" + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k),
      [=](benchmark::State& state) { measure(state, s, a, b); });
}

const bool registered = [] {
  constexpr data gaussian{data::gaussian};
  for (const gemm_shape s : {gemm_shape{4096, 4096, 4096}, {8192, 8192, 8192}, {8192, 14336, 4096}})
    add_gemm(s, "gaussian", gaussian, gaussian);
  constexpr gemm_shape hard{8192, 8192, 4096};
  add_gemm(hard, "lognormal_rows", {data::rows_2}, gaussian);
  add_gemm(hard, "x50_channels", {data::channels}, gaussian);
  add_gemm(hard, "half_zero", {data::half_zero}, gaussian);
  add_gemm(hard, "t3_by_gaussian", {data::student_3}, gaussian);
  add_gemm(hard, "lognormal_tokens_by_gaussian", {data::cols_2}, gaussian);
  add_gemm(hard, "t2_by_t2", {data::student}, {data::student});
  add_gemm(hard, "lognormal_blocks_by_gaussian", {data::blocks_1_5}, gaussian);
  add_gemm(hard, "lognormal_blocks", {data::blocks_1_5}, {data::blocks_1_5});
  for (const gemm_shape s : {gemm_shape{512, 512, 4096},
                             {1024, 1024, 1024},
                             {2048, 2048, 2048},
                             {3072, 3072, 3072},
                             {1000, 3000, 2000},
                             {4000, 4080, 4096},
                             {512, 14336, 4096},
                             {100, 4096, 4096}})
    add_gemm(s, "gaussian", gaussian, gaussian);
  return true;
}();

}  // namespace

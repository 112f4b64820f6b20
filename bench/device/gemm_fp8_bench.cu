// SPDX-License-Identifier: Apache-2.0
// The GEMM of FP8 compared with cublasLt's on the same codes in the same run: `percent` of cublasLt with sums
// in FP32, `percent_of_fast` of cublasLt with the tensor core's own sums, `percent_of_bf16`; under scales of
// 128 values, too (`blocks`), and with B under scales of 128 x 128, as weights are (`weights`). `error`: the
// root of the mean square distance from the exact product, in millionths of the sum of magnitudes, ours and
// cublasLt's two.
#include <fourscale/device/gemm_native.cuh>

#include "cublaslt.cuh"
#include "data.cuh"
#include "gemm_shape.cuh"

using namespace bench;

namespace {

using f4::fp8_e4m3, f4::fp8_block_e4m3, f4::bf16;

/// A matrix of Gaussian data in FP8, per tensor and under scales of 128 and of 128 x 128 values, and in bf16.
struct operand {
  buffer<bf16> values;
  buffer<u8> codes, block_codes, block_scales, tile_codes, tile_scales;
  buffer<float> amax;
  f4::block_scaled_view<fp8_e4m3> view;
  f4::block_scaled_view<fp8_block_e4m3> blocks, tiles;

  operand(i64 r, i64 c, u64 copy)
      : values(r * c),
        codes(r * c),
        block_codes(r * c),
        block_scales(f4::scale_bytes<fp8_block_e4m3>(r, c)),
        tile_codes(r * c),
        tile_scales(f4::scale_bytes<fp8_block_e4m3>(r, c)),
        amax(1),
        view(codes.data(), nullptr, r, c, f4::amax_in(amax.data())),
        blocks(block_codes.data(), block_scales.data(), r, c),
        tiles(tile_codes.data(), tile_scales.data(), r, c) {
    fill_kernel<<<2048, 256>>>(data{data::gaussian}, values.data(), r, c, copy);
    const f4::matrix_view<bf16 const> x{values.data(), r, c};
    require(f4::device::amax(x, amax.data()));
    require(f4::device::quantize(x, view));
    require(f4::device::quantize(x, blocks));
    require(f4::device::quantize(x, tiles, f4::quantizer<>{}, f4::blocks_2d<128, 128>{}));
    require(cudaDeviceSynchronize());
  }
};

/// Of some outputs of `d`, a product of codes in bf16.
double error(operand const& a, operand const& b, gemm_shape s, buffer<bf16> const& d) {
  const std::vector<u8> x = a.codes.to_host(), y = b.codes.to_host();
  const std::vector<bf16> got = d.to_host();
  double squares = 0;
  constexpr int samples = 500;
  for (int i = 0; i < samples; ++i) {
    const i64 row = i * 7919 % s.m, col = i * 104729 % s.n;
    double sum = 0, magnitude = 0;
    for (i64 k = 0; k < s.k; ++k) {
      const double p = static_cast<double>(f4::decode(f4::e4m3{x[u64(row * s.k + k)]})) *
                       static_cast<double>(f4::decode(f4::e4m3{y[u64(col * s.k + k)]}));
      sum += p, magnitude += std::fabs(p);
    }
    const double off = (static_cast<double>(f4::to_float(got[u64(row * s.n + col)])) - sum) / magnitude;
    squares += off * off;
  }
  return 1e6 * std::sqrt(squares / samples);
}

void measure(benchmark::State& state, gemm_shape s) {
  const operand a(s.m, s.k, 1), b(s.n, s.k, 2);
  const buffer<bf16> d(s.m * s.n), of_blocks(s.m * s.n), of_peer(s.m * s.n), of_fast(s.m * s.n),
      of_bf16(s.m * s.n);
  cublaslt_gemm peer(s.m, s.n, s.k, {.element = CUDA_R_8F_E4M3}),
      fast(s.m, s.n, s.k, {.element = CUDA_R_8F_E4M3, .fast_sums = true}), in_bf16(s.m, s.n, s.k);
  peer.choose(a.codes.data(), b.codes.data(), of_peer.data());
  fast.choose(a.codes.data(), b.codes.data(), of_fast.data());
  in_bf16.choose(a.values.data(), b.values.data(), of_bf16.data());
  auto of_codes_a = a.view, of_codes_b = b.view;
  of_codes_a.amax = of_codes_b.amax = f4::tensor_amax<fp8_e4m3>(f4::unit_scale);
  const auto ours = [&](auto const& x, auto const& y, buffer<bf16> const& to) {
    return [x, y, out = f4::matrix_view<bf16>{to.data(), s.m, s.n}](i64) {
      require(f4::device::gemm(x, y, out, {}, f4::accumulate::native{}, {}, graphs::capturing()));
    };
  };
  for (auto _ : state) {
    const std::vector<double> t =
        medians_from_graphs({[&](i64) { peer.run(a.codes.data(), b.codes.data(), of_peer.data()); },
                             [&](i64) { fast.run(a.codes.data(), b.codes.data(), of_fast.data()); },
                             [&](i64) { in_bf16.run(a.values.data(), b.values.data(), of_bf16.data()); },
                             ours(of_codes_a, of_codes_b, d), ours(a.blocks, b.blocks, of_blocks),
                             ours(a.blocks, b.tiles, of_blocks)},
                            31, s.calls());
    state.SetIterationTime(t[3]);
    state.counters["TFLOP/s"] = s.flop() / t[3] * 1e-12;
    state.counters["blocks_TFLOP/s"] = s.flop() / t[4] * 1e-12;
    state.counters["weights_TFLOP/s"] = s.flop() / t[5] * 1e-12;
    state.counters["cublasLt_TFLOP/s"] = s.flop() / t[0] * 1e-12;
    state.counters["percent"] = 100 * t[0] / t[3];
    state.counters["percent_of_fast"] = 100 * t[1] / t[3];
    state.counters["percent_of_bf16"] = 100 * t[2] / t[3];
    state.counters["blocks_percent"] = 100 * t[0] / t[4];
    state.counters["weights_percent"] = 100 * t[0] / t[5];
    state.counters["error"] = error(a, b, s, d);
    state.counters["cublasLt_error"] = error(a, b, s, of_peer);
    state.counters["fast_error"] = error(a, b, s, of_fast);
  }
}

const bool registered = [] {
  for (const gemm_shape s : {gemm_shape{4096, 4096, 4096},
                             {8192, 8192, 8192},
                             {8192, 14336, 4096},
                             {1024, 1024, 1024},
                             {512, 14336, 4096},
                             {4000, 4080, 4096}})
    add("gemm_fp8/" + s.name(), [=](benchmark::State& state) { measure(state, s); });
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Producers that quantize what they make, compared with the ceiling of the same traffic and with the same
// producer writing bf16, amax() and quantize(), one after the other. The kernels are those of the examples.
#include "../../examples/fused/rmsnorm.cuh"
#include "../../examples/fused/swiglu.cuh"
#include "check.cuh"

using namespace bench;

namespace {

using f4::bf16;

/// Reads `Inputs` streams of 32 bytes a thread, writes eight bytes, a byte, and 32 bytes more if `Sum`.
template <int Inputs, bool Sum>
__global__ void __launch_bounds__(256)
    producer_ceiling_kernel(word16 const* x, word16 const* r, i64 count, u8* codes, u8* scales, word16* sum) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= count) return;
  word16 v[2] = {x[2 * i], x[2 * i + 1]};
  if (Inputs == 2) {
    const word16 other[2] = {r[2 * i], r[2 * i + 1]};
    for (int k = 0; k < 2; ++k)
      for (int j = 0; j < 4; ++j) v[k].w[j] ^= other[k].w[j];
  }
  if (Sum) sum[2 * i] = v[0], sum[2 * i + 1] = v[1];
  reinterpret_cast<u64*>(codes)[i] = u64{v[0].w[0] ^ v[0].w[1] ^ v[0].w[2] ^ v[0].w[3]} << 32 |
                                     (v[1].w[0] ^ v[1].w[1] ^ v[1].w[2] ^ v[1].w[3]);
  scales[i] = static_cast<u8>(v[0].w[0]);
}

/// The output of a GEMM: Gaussian, one value in 500 eight times larger. (The product of two activations{}
/// would span so many binades that most blocks were lost under one tensor scale.)
struct projections {
  FOURSCALE_HD float operator()(u64, u64, u64 i) const {
    return f4::test::gaussian(i) * (f4::test::mix(i ^ 0x5bd1'e995) % 500 == 0 ? 8.0f : 1.0f);
  }
};
/// What a norm multiplies by.
struct gains {
  FOURSCALE_HD float operator()(u64, u64, u64 i) const { return 1.0f + 0.125f * f4::test::gaussian(i); }
};

/// Everything a producer of rows x cols activations works on. Inputs are several, outputs one each.
struct workplace {
  shape s;
  inputs<bf16> x, residual;
  buffer<bf16> gamma, sum, y;
  buffer<u8> codes, scales, other_codes, other_scales;
  buffer<float> amax;  ///< the delayed one, this step's fused, this step's unfused

  template <class Value>
  workplace(shape of, i64 input_cols, Value value)
      : s(of),
        x(s.rows, input_cols, 0, 0, value),
        residual(s.rows, s.cols, 0, 0, value),
        gamma(s.cols),
        sum(s.rows * s.cols),
        y(s.rows * s.cols),
        codes(s.rows * s.cols / 2),
        scales(s.rows * s.cols / 16),
        other_codes(s.rows * s.cols / 2),
        other_scales(s.rows * s.cols / 16),
        amax(3) {
    fill_kernel<<<64, 256>>>(gains{}, gamma.data(), 1, s.cols, u64{77});
    require(cudaMemset(amax.data(), 0, amax.bytes()));
  }
  f4::block_scaled_view<f4::nvfp4> q() const {
    return {codes.data(), scales.data(), s.rows, s.cols, f4::amax_in(amax.data())};
  }
  f4::block_scaled_view<f4::nvfp4> other_q() const {
    return {other_codes.data(), other_scales.data(), s.rows, s.cols, f4::amax_in(amax.data())};
  }
  f4::matrix_view<bf16> output() const { return {y.data(), s.rows, s.cols}; }
};

/// `producer(i)`: on input i. `bytes` of an activation.
template <class Make>
void measure(benchmark::State& state, workplace const& w, double bytes, Make producer,
             launch const& ceiling) {
  const launch run = [&](i64 i) {
    require(fused::launch(producer(i), fused::to_nvfp4<f4::linear>{w.q(), w.amax.data() + 1}));
  };
  const launch unfused = [&](i64 i) {
    require(fused::launch(producer(i), fused::to_bf16{w.output()}));
    require(f4::device::amax(w.output(), w.amax.data() + 2));
    require(f4::device::quantize(w.output(), w.other_q()));
  };
  // Delayed scaling whose step before was like this one.
  require(fused::launch(producer(0), fused::to_bf16{w.output()}));
  require(f4::device::amax(w.output(), w.amax.data()));
  run(0);
  unfused(0);
  check(w.q(), f4::matrix_view<bf16 const>{w.output()}, f4::quantizer{});
  require(w.codes.to_host() == w.other_codes.to_host(), "the codes differ from the unfused ones");
  require(w.scales.to_host() == w.other_scales.to_host(), "the scales differ from the unfused ones");
  require(w.amax.to_host()[1] == w.amax.to_host()[2], "the amax differs from the unfused one");
  for (auto _ : state) {
    const std::vector<double> t = medians({ceiling, run, unfused});
    state.SetIterationTime(t[1]);
    state.counters["GB/s"] = bytes * static_cast<double>(w.s.rows * w.s.cols) / t[1] * 1e-9;
    state.counters["percent_of_ceiling"] = 100 * t[0] / t[1];
    state.counters["unfused_us"] = 1e6 * t[2];
    state.counters["times_unfused"] = t[2] / t[1];
  }
}

void swiglu(benchmark::State& state, shape s) {
  const workplace w(s, 2 * s.cols, projections{});
  measure(
      state, w, 4.5625, [&](i64 i) { return fused::swiglu{w.x.view(i)}; },
      [&](i64 i) {
        const i64 threads = s.rows * s.cols / 16;
        auto* const first = reinterpret_cast<word16 const*>(w.x.view(i).data);
        producer_ceiling_kernel<2, false><<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256>>>(
            first, first + 2 * threads, threads, w.codes.data(), w.scales.data(), nullptr);
      });
}

template <bool Residual>
void rmsnorm(benchmark::State& state, shape s) {
  const workplace w(s, s.cols, activations{});
  measure(
      state, w, Residual ? 6.5625 : 2.5625,
      [&](i64 i) {
        return fused::rmsnorm{w.x.view(i), w.gamma.data(), 1e-5f,
                              Residual ? w.residual.view(i).data : nullptr,
                              Residual ? w.sum.data() : nullptr};
      },
      [&](i64 i) {
        const i64 threads = s.rows * s.cols / 16;
        producer_ceiling_kernel<Residual ? 2 : 1, Residual>
            <<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256>>>(
                reinterpret_cast<word16 const*>(w.x.view(i).data),
                reinterpret_cast<word16 const*>(w.residual.view(i).data), threads, w.codes.data(),
                w.scales.data(), reinterpret_cast<word16*>(w.sum.data()));
      });
}

void add_shapes(std::string const& what, void (*run)(benchmark::State&, shape),
                std::initializer_list<shape> shapes) {
  for (const shape s : shapes)
    add(what + "/" + to_string(s), [=](benchmark::State& state) { run(state, s); });
}

const bool registered = [] {
  add_shapes("swiglu_nvfp4", swiglu, {{16384, 14336}, {8192, 4096}, {2048, 28672}});
  add_shapes("rmsnorm_nvfp4", rmsnorm<false>, {{16384, 4096}, {16384, 8192}, {8192, 14336}, {2048, 4096}});
  add_shapes("residual_rmsnorm_nvfp4", rmsnorm<true>,
             {{16384, 4096}, {16384, 8192}, {8192, 14336}, {2048, 4096}});
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// A step of a linear layer in 4 bits: all operands quantized both ways, fprop, dgrad, wgrad onto FP32,
// compared with the bf16 layer, which is the same three GEMMs by the fastest of cublasLt's heuristics, in the
// same run.
//   of_bf16                  time of the step / time of the bf16 layer
//   quantization, decoding   percent of the step: amaxes and copies; packed operands to bf16
//   cublasLt_of_bf16         the same quantization and decoding, then cublasLt's GEMMs on what was decoded,
//   in
//                            place of ours: what GEMMs without Blackwell's bits would give
#include <fourscale/recipe/linear.cuh>
#include <fourscale/recipe/presets.hpp>

#include "cublaslt.cuh"
#include "data.cuh"

using namespace bench;

namespace {

using f4::bf16, f4::linear_shape, f4::matrix_view;

/// A matrix of Gaussian values.
template <class T>
struct random_matrix : buffer<T> {
  i64 rows, cols;
  random_matrix(i64 r, i64 c, u64 copy) : buffer<T>(r * c), rows(r), cols(c) {
    fill_kernel<<<2048, 256>>>(data{data::gaussian}, this->data(), r, c, copy);
  }
  matrix_view<T> view() const { return {this->data(), rows, cols}; }
};

/// The matrices of a layer; W in bf16 or FP32.
template <class Weight>
struct matrices {
  linear_shape s;
  random_matrix<bf16> x{s.tokens, s.in, 1}, dy{s.tokens, s.out, 2}, y{s.tokens, s.out, 3},
      dx{s.tokens, s.in, 4};
  random_matrix<Weight> w{s.out, s.in, 5};
  random_matrix<float> dw{s.out, s.in, 6};
};

/// One of the three GEMMs, from packed operands: A * B^T to D.
template <class F, class L, class T>
struct packed_gemm {
  static constexpr bool adds = sizeof(T) == 4;
  T* d;
  buffer<u8> workspace;  ///< of its own, so that what it decodes stays
  f4::device::detail::wgmma_call<F, L, F, L, T> ours;
  cublaslt_gemm peer;

  packed_gemm(f4::block_scaled_view<F, L> const& a, f4::block_scaled_view<F, L> const& b,
              matrix_view<T> const& to)
      : d(to.data),
        workspace(f4::device::gemm_workspace_bytes(a.rows, b.rows, a.cols)),
        ours(a, b, to, {1.0f, adds ? 1.0f : 0.0f}, workspace.data(), nullptr),
        peer(a.rows, b.rows, a.cols, {.adds_to_f32 = adds}) {
    require(ours.decode(nullptr));
    peer.choose(ours.p.a.values, ours.p.b.values, d);
  }
  void run_peer() const { peer.run(ours.p.a.values, ours.p.b.values, d); }
};

/// The bf16 layer: three GEMMs on the matrices as they lie.
struct bf16_layer {
  cublaslt_gemm fprop, dgrad, wgrad;

  explicit bf16_layer(linear_shape s)
      : fprop(s.tokens, s.out, s.in),
        dgrad(s.tokens, s.in, s.out, {.b_by_columns = true}),
        wgrad(s.out, s.in, s.tokens, {true, true, true}) {}
  void choose(matrices<bf16> const& m) {
    fprop.choose(m.x.data(), m.w.data(), m.y.data());
    dgrad.choose(m.dy.data(), m.w.data(), m.dx.data());
    wgrad.choose(m.dy.data(), m.x.data(), m.dw.data());
  }
  void run(matrices<bf16> const& m) const {
    fprop.run(m.x.data(), m.w.data(), m.y.data());
    dgrad.run(m.dy.data(), m.w.data(), m.dx.data());
    wgrad.run(m.dy.data(), m.x.data(), m.dw.data());
  }
};

/// A layer under recipe R with its memory.
template <f4::linear_recipe R, class Weight>
struct step {
  using layer = f4::device::linear_layer<R>;
  matrices<Weight> const& m;
  f4::linear_bytes need = layer::bytes(m.s);
  buffer<u8> weights{need.weights}, saved{need.saved}, workspace{need.workspace};
  typename layer::tensors t{};
  layer run{};
  f4::draw_key key{1, 2, 3, 4};

  explicit step(matrices<Weight> const& of) : m(of) {
    require(layer::place(m.s, {weights.data(), need.weights}, {saved.data(), need.saved},
                         {workspace.data(), need.workspace}, &t));
  }
  void operator()() {
    require(run.forward(m.x.view(), m.w.view(), key, &t, m.y.view()));
    require(run.backward(m.dy.view(), key, &t, m.dx.view(), m.dw.view(), 1.0f));
  }
  void quantize_gradient() {
    require(run.amax(m.dy.view(), key, t.dy));
    require(run.quantize(m.dy.view(), key, &t.dy));
  }
  void quantize() {
    require(run.amax(m.w.view(), key, t.w));
    require(run.quantize(m.w.view(), key, &t.w));
    require(run.amax(m.x.view(), key, t.x));
    require(run.quantize(m.x.view(), key, &t.x));
    quantize_gradient();
  }
};

template <f4::linear_recipe R, class Weight>
void measure(benchmark::State& state, linear_shape s) {
  const matrices<bf16> of_bf16{s};
  const matrices<Weight> m{s};
  step<R, Weight> ours(m);
  // The rowwise copy of X is in forward where those of dY are in backward; here it has a place of its own.
  const buffer<u8> rowwise_x(ours.t.x.rowwise_bytes(s));
  const f4::linear_memory saved{ours.saved.data(), ours.need.saved},
      apart{rowwise_x.data(), ours.t.x.rowwise_bytes(s)};
  require(ours.t.x.place(s, apart, saved));
  ours.quantize();
  bf16_layer peer(s);
  peer.choose(of_bf16);
  const packed_gemm fprop(ours.t.x.rowwise, ours.t.w.rowwise, m.y.view()),
      dgrad(ours.t.dy.rowwise, ours.t.w.columnwise, m.dx.view());
  const packed_gemm wgrad(ours.t.dy.columnwise, ours.t.x.columnwise, m.dw.view());
  const auto decode = [&] {
    require(fprop.ours.decode(nullptr)), require(dgrad.ours.decode(nullptr)),
        require(wgrad.ours.decode(nullptr));
  };
  const auto multiply = [&] {
    require(fprop.ours.multiply(nullptr)), require(dgrad.ours.multiply(nullptr));
    require(wgrad.ours.multiply(nullptr));
  };
  for (auto _ : state) {
    const std::vector<double> t =
        medians({[&](i64) { peer.run(of_bf16); }, [&](i64) { ours(); }, [&](i64) { ours.quantize(); },
                 [&](i64) { decode(); }, [&](i64) { multiply(); },
                 [&](i64) {
                   ours.quantize();
                   decode();
                   fprop.run_peer(), dgrad.run_peer(), wgrad.run_peer();
                 },
                 [&](i64) { ours.quantize_gradient(); }},
                21, 1);
    const double flop =
        6.0 * static_cast<double>(s.tokens) * static_cast<double>(s.in) * static_cast<double>(s.out);
    state.SetIterationTime(t[1]);
    state.counters["TFLOP/s"] = flop / t[1] * 1e-12;
    state.counters["bf16_TFLOP/s"] = flop / t[0] * 1e-12;
    state.counters["of_bf16"] = t[1] / t[0];
    state.counters["cublasLt_of_bf16"] = t[5] / t[0];
    state.counters["quantization"] = 100 * t[2] / t[1];
    state.counters["quantization_of_dY"] = 100 * t[6] / t[1];
    state.counters["decoding"] = 100 * t[3] / t[1];
    state.counters["GEMMs_of_bf16"] = t[4] / t[0];
  }
}

template <f4::linear_recipe R, class Weight>
void add_step(std::string const& name, linear_shape s) {
  const std::string size =
      std::to_string(s.tokens) + "x" + std::to_string(s.in) + "x" + std::to_string(s.out);
  add("linear/" + name + "/" + size, [=](benchmark::State& state) { measure<R, Weight>(state, s); });
}

const bool registered = [] {
  constexpr f4::linear_recipe te = f4::presets::te_nvfp4().linear,
                              no_rht = f4::presets::te_nvfp4_no_rht().linear;
  for (const linear_shape s : {linear_shape{8192, 4096, 14336}, {8192, 14336, 4096}}) {
    add_step<te, bf16>("te_nvfp4", s);
    add_step<no_rht, bf16>("te_nvfp4_no_rht", s);
    add_step<te, float>("te_nvfp4_fp32_weights", s);
  }
  return true;
}();

}  // namespace

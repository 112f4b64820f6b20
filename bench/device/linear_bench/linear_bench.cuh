// SPDX-License-Identifier: Apache-2.0
// A step of a linear layer in 4 or 8 bits: all operands quantized both ways, fprop, dgrad, wgrad onto FP32,
// compared with the bf16 layer, which is the same three GEMMs by the fastest of cublasLt's heuristics, in the
// same run.
//   of_bf16        time of the step / time of the bf16 layer
//   quantization   percent of the step: amaxes and copies
#pragma once

#include <fourscale/interop/cublaslt.cuh>
#include <fourscale/recipe/linear.cuh>
#include <fourscale/recipe/presets.hpp>

#include "device/cublaslt.cuh"
#include "device/data.cuh"

namespace bench {

using f4::bf16, f4::linear_shape, f4::matrix_view;

template <class T>
struct random_matrix : buffer<T> {
  i64 rows, cols;
  random_matrix(i64 r, i64 c, u64 copy, data of = {data::gaussian}) : buffer<T>(r * c), rows(r), cols(c) {
    fill_kernel<<<2048, 256>>>(of, this->data(), r, c, copy);
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

/// Products and sums of a step.
inline double flop_of(linear_shape const& s) {
  return 6.0 * static_cast<double>(s.tokens) * static_cast<double>(s.in) * static_cast<double>(s.out);
}
inline std::string to_string(linear_shape const& s) {
  return std::to_string(s.tokens) + "x" + std::to_string(s.in) + "x" + std::to_string(s.out);
}

/// Where the matrices of a bf16 layer lie.
struct layer_data {
  bf16 *x, *w, *dy, *y, *dx;
  float* dw;

  explicit layer_data(matrices<bf16> const& m)
      : layer_data(m.x.data(), m.w.data(), m.dy.data(), m.y.data(), m.dx.data(), m.dw.data()) {}
  layer_data(bf16* of_x, bf16* of_w, bf16* of_dy, bf16* of_y, bf16* of_dx, float* of_dw)
      : x(of_x), w(of_w), dy(of_dy), y(of_y), dx(of_dx), dw(of_dw) {}
};

/// The bf16 layer: three GEMMs on the matrices as they lie.
struct bf16_layer {
  cublaslt_gemm fprop, dgrad, wgrad;

  explicit bf16_layer(linear_shape s)
      : fprop(s.tokens, s.out, s.in),
        dgrad(s.tokens, s.in, s.out, {.b_by_columns = true}),
        wgrad(s.out, s.in, s.tokens, {true, true, true}) {}
  void choose(layer_data const& m) {
    fprop.choose(m.x, m.w, m.y);
    dgrad.choose(m.dy, m.w, m.dx);
    wgrad.choose(m.dy, m.x, m.dw);
  }
  void run(layer_data const& m) const {
    fprop.run(m.x, m.w, m.y);
    dgrad.run(m.dy, m.w, m.dx);
    wgrad.run(m.dy, m.x, m.dw);
  }
};

using by_blackwell = f4::accumulate::blackwell;
using by_native = f4::accumulate::native<>;
using by_cublaslt = f4::accumulate::native<f4::interop::cublaslt_linear_plans>;

/// What a layer by cublasLt has besides its memory.
struct cublaslt_plans {
  cublasLtHandle_t handle{};
  f4::interop::cublaslt_linear_plans plans;
  cublaslt_plans() { require(cublasLtCreate(&handle)); }
  cublaslt_plans(cublaslt_plans const&) = delete;
  ~cublaslt_plans() { cublasLtDestroy(handle); }
};

/// A layer under recipe R with its memory.
template <f4::linear_recipe R, class Weight, class How>
struct step {
  using layer = f4::device::linear_layer<R, f4::linear, How>;
  matrices<Weight> const& m;
  f4::linear_bytes need = layer::bytes(m.s);
  buffer<u8> weights{need.weights}, saved{need.saved}, workspace{need.workspace};
  // The rowwise copy of X is in forward where those of dY are in backward; here it has a place of its own.
  buffer<u8> rowwise_x;
  cublaslt_plans lt;
  layer run{nullptr, how()};
  typename layer::tensors t{};
  f4::draw_key key{1, 2, 3, 4};

  explicit step(matrices<Weight> const& of) : m(of), rowwise_x(decltype(t.x)::rowwise_bytes(of.s)) {
    require(layer::place(m.s, {weights.data(), need.weights}, {saved.data(), need.saved},
                         {workspace.data(), need.workspace}, &t));
    const f4::linear_memory apart{rowwise_x.data(), decltype(t.x)::rowwise_bytes(m.s)};
    require(t.x.place(m.s, apart, {saved.data(), need.saved}));
    quantize();
    if constexpr (f4::same_type<How, by_cublaslt>)
      require(f4::device::plan_native(lt.handle, t, m.y.view(), m.dx.view(), m.dw.view(), lt.plans));
  }
  How how() const {
    if constexpr (f4::same_type<How, by_cublaslt>)
      return {&lt.plans};
    else
      return {};
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

/// A step, its quantization, and the bf16 layer.
template <f4::linear_recipe R, class Weight, class How>
struct trial {
  linear_shape s;
  matrices<bf16> of_bf16{s};
  matrices<Weight> m{s};
  step<R, Weight, How> ours{m};
  bf16_layer peer{s};

  explicit trial(linear_shape shape) : s(shape) { peer.choose(layer_data(of_bf16)); }
  trial(trial const&) = delete;

  std::vector<launch> launches() {
    return {[this](i64) { peer.run(layer_data(of_bf16)); }, [this](i64) { ours(); },
            [this](i64) { ours.quantize(); }, [this](i64) { ours.quantize_gradient(); }};
  }
  /// `t`: of the launches, and of others after them.
  void report(benchmark::State& state, std::vector<double> const& t) const {
    const double flop = flop_of(s);
    state.SetIterationTime(t[1]);
    state.counters["TFLOP/s"] = flop / t[1] * 1e-12;
    state.counters["bf16_TFLOP/s"] = flop / t[0] * 1e-12;
    state.counters["of_bf16"] = t[1] / t[0];
    state.counters["quantization"] = 100 * t[2] / t[1];
    state.counters["quantization_of_dY"] = 100 * t[3] / t[1];
  }
};

template <f4::linear_recipe R, class Weight, class How>
void measure(benchmark::State& state, linear_shape s) {
  trial<R, Weight, How> x(s);
  for (auto _ : state) x.report(state, medians(x.launches(), 21, 1));
}

template <class Run>
void add_one(std::string const& name, Run run, linear_shape s) {
  add("linear/" + name + "/" + to_string(s), [=](benchmark::State& state) { run(state, s); });
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// Experts with as many tokens each, in one call: their steps under te_nvfp4, compared with as many bf16
// layers one after the other; with the weights of all experts quantized in the step, and as quantized before.
#include "linear_bench.cuh"

using namespace bench;

namespace {

/// `of_one`: the shape of one expert.
template <f4::linear_recipe R>
struct experts_trial {
  using layer = f4::device::grouped_linear_layer<R>;
  linear_shape of_one;
  i64 count;
  linear_shape all{of_one.tokens * count, of_one.in, of_one.out};
  random_matrix<bf16> x{all.tokens, all.in, 1}, dy{all.tokens, all.out, 2}, y{all.tokens, all.out, 3},
      dx{all.tokens, all.in, 4};
  random_matrix<bf16> w{count * all.out, all.in, 5};
  random_matrix<float> dw{count * all.out, all.in, 6};
  f4::linear_bytes need = layer::bytes(all, count);
  buffer<u8> weights{need.weights}, saved{need.saved}, workspace{need.workspace};
  std::vector<typename layer::tensors> t;
  bf16_layer peer{of_one};
  layer run;
  f4::draw_key key{1, 2, 3, 4};

  experts_trial(linear_shape s, i64 n) : of_one(s), count(n), t(static_cast<size_t>(n)) {
    std::vector<i64> offsets;
    for (i64 i = 0; i <= count; ++i) offsets.push_back(i * of_one.tokens);
    require(layer::place(all, {offsets.data(), count}, {weights.data(), need.weights},
                         {saved.data(), need.saved}, {workspace.data(), need.workspace}, t.data()));
    peer.fprop.choose(x.data(), w.data(), y.data());
    peer.dgrad.choose(dy.data(), w.data(), dx.data());
    peer.wgrad.choose(dy.data(), x.data(), dw.data());
  }
  typename layer::experts experts() { return {t.data(), count}; }
  void backward() { require(run.backward(dy.view(), key, experts(), dx.view(), dw.view(), true)); }
  void step() {
    require(run.forward(x.view(), w.view(), key, experts(), y.view()));
    backward();
  }
  void step_with_weights() {
    require(run.forward(x.view(), key, experts(), y.view()));
    backward();
  }
  void peers() const {
    for (i64 i = 0; i < count; ++i) {
      const i64 token = i * of_one.tokens, value = i * of_one.out * of_one.in;
      bf16 *const x_of = x.data() + token * of_one.in, *const dy_of = dy.data() + token * of_one.out,
                  *const w_of = w.data() + value;
      peer.fprop.run(x_of, w_of, y.data() + token * of_one.out);
      peer.dgrad.run(dy_of, w_of, dx.data() + token * of_one.in);
      peer.wgrad.run(dy_of, x_of, dw.data() + value);
    }
  }
};

void measure_experts(benchmark::State& state, linear_shape s, i64 count) {
  experts_trial<f4::presets::te_nvfp4().linear> x(s, count);
  for (auto _ : state) {
    const std::vector<double> times = medians(
        {[&](i64) { x.peers(); }, [&](i64) { x.step(); }, [&](i64) { x.step_with_weights(); }}, 11, 1);
    const double flop =
        6.0 * static_cast<double>(x.all.tokens) * static_cast<double>(s.in) * static_cast<double>(s.out);
    state.SetIterationTime(times[1]);
    state.counters["bf16_TFLOP/s"] = flop / times[0] * 1e-12;
    state.counters["of_bf16"] = times[1] / times[0];
    state.counters["of_bf16_weights_kept"] = times[2] / times[0];
  }
}

void add_experts(linear_shape s, i64 count) {
  add("linear_experts/" + std::to_string(count) + "/" + std::to_string(s.tokens) + "x" +
          std::to_string(s.in) + "x" + std::to_string(s.out),
      [=](benchmark::State& state) { measure_experts(state, s, count); });
}

const bool registered = [] {
  add_experts({1024, 4096, 14336}, 8);
  add_experts({512, 2048, 1408}, 64);
  add_experts({128, 2048, 1408}, 64);
  return true;
}();

}  // namespace

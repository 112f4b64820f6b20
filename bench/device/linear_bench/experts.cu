// SPDX-License-Identifier: Apache-2.0
// Experts with as many tokens each, in one call: their steps under te_nvfp4, compared with as many bf16
// layers one after the other; with the weights of all experts quantized in the step, and as quantized before;
// and in four calls, for parts of the experts, in streams that run at the same time. From graphs, and launch
// by launch.
#include "linear_bench.cuh"

using namespace bench;

namespace {

/// A part of the experts, with memory and a stream of its own.
template <f4::linear_recipe R>
struct experts_part {
  using layer = f4::device::grouped_linear_layer<R>;
  linear_shape all;
  i64 count, first_token;
  f4::linear_bytes need = layer::bytes(all, count);
  buffer<u8> weights{need.weights}, saved{need.saved}, workspace{need.workspace};
  std::vector<typename layer::tensors> t;
  cudaStream_t stream{};
  cudaEvent_t done{};

  /// `s`: of one expert. The part begins with expert `first`.
  experts_part(linear_shape s, i64 first, i64 n)
      : all{s.tokens * n, s.in, s.out}, count(n), first_token(first * s.tokens), t(static_cast<size_t>(n)) {
    std::vector<i64> offsets;
    for (i64 i = 0; i <= count; ++i) offsets.push_back(i * s.tokens);
    require(layer::place(all, {offsets.data(), count}, {weights.data(), need.weights},
                         {saved.data(), need.saved}, {workspace.data(), need.workspace}, t.data()));
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    require(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  }
  experts_part(experts_part const&) = delete;
  ~experts_part() { cudaStreamDestroy(stream), cudaEventDestroy(done); }
  typename layer::experts experts() { return {t.data(), count}; }
};

/// `of_one`: the shape of one expert.
template <f4::linear_recipe R>
struct experts_trial {
  using part = experts_part<R>;
  linear_shape of_one;
  i64 count, parts;
  data kind;
  linear_shape all{of_one.tokens * count, of_one.in, of_one.out};
  random_matrix<bf16> x{all.tokens, all.in, 1, kind}, dy{all.tokens, all.out, 2, kind};
  random_matrix<bf16> y{all.tokens, all.out, 3}, dx{all.tokens, all.in, 4};
  random_matrix<bf16> w{count * all.out, all.in, 5};
  random_matrix<float> dw{count * all.out, all.in, 6};
  std::deque<part> all_parts;
  bf16_layer peer{of_one};
  cudaEvent_t begun{};
  f4::draw_key key{1, 2, 3, 4};

  /// So many parts, in streams that run at the same time; one part is in the stream that everything is in.
  experts_trial(linear_shape s, i64 n, data of, i64 of_parts)
      : of_one(s), count(n), parts(of_parts), kind(of) {
    for (i64 i = 0; i < parts; ++i) all_parts.emplace_back(s, i * count / parts, count / parts);
    require(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
    peer.choose(data_of(0));
  }
  experts_trial(experts_trial const&) = delete;
  ~experts_trial() { cudaEventDestroy(begun); }

  template <class T>
  static matrix_view<T> rows(random_matrix<T> const& m, i64 first, i64 n) {
    return {m.data() + first * m.cols, n, m.cols};
  }
  void run(part& p, cudaStream_t stream, bool with_weights) {
    const typename part::layer layer(stream);
    const i64 first = p.first_token, tokens = p.all.tokens, first_out = first / of_one.tokens * all.out,
              outs = p.count * all.out;
    const auto x_of = rows(x, first, tokens);
    const auto y_of = rows(y, first, tokens);
    require(with_weights ? layer.forward(x_of, rows(w, first_out, outs), key, p.experts(), y_of)
                         : layer.forward(x_of, key, p.experts(), y_of));
    require(layer.backward(rows(dy, first, tokens), key, p.experts(), rows(dx, first, tokens),
                           rows(dw, first_out, outs), true));
  }
  void step(bool with_weights) {
    const cudaStream_t main = graphs::capturing();
    if (parts == 1) return run(all_parts[0], main, with_weights);
    require(cudaEventRecord(begun, main));
    for (part& p : all_parts) {
      require(cudaStreamWaitEvent(p.stream, begun));
      run(p, p.stream, with_weights);
      require(cudaEventRecord(p.done, p.stream));
    }
    for (part& p : all_parts) require(cudaStreamWaitEvent(main, p.done));
  }
  layer_data data_of(i64 expert) const {
    const i64 token = expert * of_one.tokens, value = expert * of_one.out * of_one.in;
    return {x.data() + token * of_one.in,   w.data() + value,
            dy.data() + token * of_one.out, y.data() + token * of_one.out,
            dx.data() + token * of_one.in,  dw.data() + value};
  }
  void peers() const {
    for (i64 i = 0; i < count; ++i) peer.run(data_of(i));
  }
};

/// X and dY are of this kind, W is Gaussian.
void measure_experts(benchmark::State& state, linear_shape s, i64 count, data kind) {
  constexpr f4::linear_recipe te = f4::presets::te_nvfp4().linear;
  experts_trial<te> x(s, count, kind, 1), in_streams(s, count, kind, 4);
  for (auto _ : state) {
    const std::vector<launch> launches = {[&](i64) { x.peers(); }, [&](i64) { x.step(true); },
                                          [&](i64) { x.step(false); }, [&](i64) { in_streams.step(true); }};
    const std::vector<double> launched = medians(launches, 11, 1),
                              times = medians_from_graphs(launches, 11, 1);
    const double flop = flop_of(x.all);
    state.SetIterationTime(times[1]);
    state.counters["bf16_TFLOP/s"] = flop / times[0] * 1e-12;
    state.counters["of_bf16"] = times[1] / times[0];
    state.counters["of_bf16_weights_kept"] = times[2] / times[0];
    state.counters["of_bf16_in_streams"] = times[3] / times[0];
    state.counters["of_bf16_launched"] = launched[1] / launched[0];
  }
}

void add_experts(linear_shape s, i64 count, std::string const& name = "gaussian",
                 data kind = {data::gaussian}) {
  add("linear_experts/" + name + "/" + std::to_string(count) + "/" + to_string(s),
      [=](benchmark::State& state) { measure_experts(state, s, count, kind); });
}

const bool registered = [] {
  add_experts({1024, 4096, 14336}, 8);
  add_experts({512, 2048, 1408}, 64);
  add_experts({128, 2048, 1408}, 64);
  add_experts({512, 2048, 1408}, 64, "lognormal_tokens", {data::rows_2});
  add_experts({512, 2048, 1408}, 64, "lognormal_blocks", {data::blocks});
  return true;
}();

}  // namespace

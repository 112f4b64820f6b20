// SPDX-License-Identifier: Apache-2.0
// One linear layer trained in 4 bits on the CPU. Forward and backward follow a named recipe; activations and
// gradients are bf16, the master weight is FP32. A step has two microbatches, whose weight gradients add up
// in FP32. The layer learns the weights of a teacher. What backward needs of X is kept quantized. On a GPU,
// f4::device::linear_layer (recipe/linear.cuh) takes the place of f4::host::linear_layer: the code reads the
// same, and gives the same bits.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fourscale/recipe/linear_host.hpp>
#include <fourscale/recipe/presets.hpp>
#include <vector>

namespace f4 = fourscale;
using f4::bf16, f4::i64;

namespace {

constexpr f4::linear_shape shape{128, 192, 64};  // tokens, inputs, outputs
constexpr int steps = 30, microbatches = 2;

void require(f4::errc e) {
  if (e == f4::errc::ok) return;
  std::printf("fourscale: %s\n", message(e));
  std::exit(1);
}

/// Numbers that are about N(0, size^2) distributed, the same on every machine.
template <class T>
std::vector<T> normal(i64 count, float size, f4::u64 stream) {
  std::vector<T> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    const f4::philox_words w = f4::philox4x32(static_cast<f4::u32>(i), 0, static_cast<f4::u32>(stream), 0, 1);
    float sum = 0;
    for (const f4::u32 word : w.words) sum += static_cast<float>(word) * 0x1p-32f - 0.5f;
    x[i] = f4::from_float<T>(sum * 1.732f * size);
  }
  return x;
}

/// Memory for a layer. In a model, every layer has `weights` and `saved` of its own; all layers share one
/// `workspace`.
struct memory {
  std::vector<f4::u8> bytes;
  explicit memory(i64 count) : bytes(static_cast<size_t>(count)) {}
  operator f4::linear_memory() { return {bytes.data(), static_cast<i64>(bytes.size())}; }
};

/// The loss: half the square of Y - target, summed over outputs and averaged over tokens. Also writes its
/// gradient.
double loss_and_gradient(std::vector<bf16> const& y, std::vector<float> const& target,
                         std::vector<bf16>& dy) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const float error = f4::to_float(y[i]) - target[i];
    sum += 0.5 * static_cast<double>(error * error);
    dy[i] = f4::from_float<bf16>(error / static_cast<float>(shape.tokens));
  }
  return sum / static_cast<double>(shape.tokens);
}

/// The target: X * W^T with the weights of the teacher.
std::vector<float> teach(std::vector<bf16> const& x, std::vector<float> const& w) {
  const auto [tokens, in, out] = shape;
  std::vector<float> y;
  for (i64 t = 0; t < tokens; ++t)
    for (i64 o = 0; o < out; ++o) {
      double sum = 0;
      for (i64 i = 0; i < in; ++i)
        sum += static_cast<double>(f4::to_float(x[static_cast<size_t>(t * in + i)])) *
               static_cast<double>(w[static_cast<size_t>(o * in + i)]);
      y.push_back(static_cast<float>(sum));
    }
  return y;
}

/// Trains under recipe R and prints the losses; true if the loss fell to less than a tenth.
template <f4::linear_recipe R>
bool train(char const* name) {
  using layer_type = f4::host::linear_layer<R>;
  const auto [tokens, in, out] = shape;
  const f4::linear_bytes need = layer_type::bytes(shape);
  memory weights(need.weights), saved(need.saved), workspace(need.workspace);
  typename layer_type::tensors t;
  require(layer_type::place(shape, weights, saved, workspace, &t));

  const layer_type layer;
  const std::vector<float> teacher = normal<float>(out * in, 0.1f, 1);
  std::vector<float> w = normal<float>(out * in, 0.1f, 2), dw(w.size());
  std::vector<bf16> y(static_cast<size_t>(tokens * out)), dy(y.size()), dx(static_cast<size_t>(tokens * in));
  const f4::matrix_view<float const> w_view{w, out, in};
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    double loss = 0;
    for (int m = 0; m < microbatches; ++m) {
      // Seed, layer, step, microbatch: all random bits follow from these four.
      const f4::draw_key key{42, 0, static_cast<f4::u64>(step), static_cast<f4::u32>(m)};
      const auto x = normal<bf16>(tokens * in, 1.0f, static_cast<f4::u64>(3 + step * microbatches + m));
      const f4::matrix_view<bf16 const> x_view{x, tokens, in}, dy_view{dy, tokens, out};
      const f4::matrix_view<bf16> y_view{y, tokens, out}, dx_view{dx, tokens, in};
      if (m == 0)
        require(layer.forward(x_view, w_view, key, &t, y_view));  // quantizes W and X
      else
        require(layer.forward(x_view, key, &t, y_view));  // uses W as quantized before
      loss += loss_and_gradient(y, teach(x, teacher), dy) / microbatches;
      const f4::matrix_view<float> dw_view{dw, out, in};
      // The last argument is beta: 1 adds to the dW of the first microbatch.
      require(layer.backward(dy_view, key, &t, dx_view, dw_view, m == 0 ? 0.0f : 1.0f));
    }
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.25f / microbatches * dw[i];
    if (step == 0) first = loss;
    last = loss;
  }
  const double of_bf16 = static_cast<double>(tokens * in * 2);
  std::printf("%-16s loss %6.3f -> %6.4f   kept for backward: %lld bytes, %.2f of bf16's\n", name, first,
              last, static_cast<long long>(need.saved), static_cast<double>(need.saved) / of_bf16);
  return last < 0.1 * first;
}

}  // namespace

int main() {
  bool ok = train<f4::presets::te_nvfp4().linear>("te_nvfp4");
  ok &= train<f4::presets::te_nvfp4_no_rht().linear>("te_nvfp4_no_rht");
  ok &= train<f4::presets::four_over_six().linear>("four_over_six");
  ok &= train<f4::presets::mxfp4().linear>("mxfp4");
  return ok ? 0 : 1;
}

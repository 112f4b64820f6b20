// SPDX-License-Identifier: Apache-2.0
// A linear layer whose input is never in memory as bf16. In place of X, forward() takes a producer, here
// RMSNorm or SwiGLU, and makes both quantized copies from it: one for fprop, and one that is kept for wgrad.
// Y, dX, dW and what is kept have the bits of the same layer on activations in memory.
//
// The producer is evaluated twice, once for the amaxes and once for the codes. That saves the write of 2
// bytes a value and one of the reads, and costs the arithmetic twice. Where the amax is that of the step
// before (amax_source::delayed), the producer is evaluated once.
#include <fourscale/recipe/linear.cuh>
#include <fourscale/recipe/presets.hpp>

#include "fused/compare.cuh"
#include "fused/producers.cuh"

using namespace fused;
using f4::u8;

namespace {

using layer = f4::device::linear_layer<f4::presets::te_nvfp4().linear>;
constexpr f4::linear_shape shape{512, 1024, 768};
constexpr f4::draw_key key{7, 0, 3, 0};

/// A layer with memory of its own.
struct layer_memory {
  f4::linear_bytes need = layer::bytes(shape);
  array<u8> weights{need.weights}, saved{need.saved}, workspace{need.workspace};
  array<bf16> y{shape.tokens * shape.out}, dx{shape.tokens * shape.in};
  array<float> dw{shape.out * shape.in};
  layer::tensors t;

  layer_memory() {
    require(layer::place(shape, {weights.data, need.weights}, {saved.data, need.saved},
                         {workspace.data, need.workspace}, &t));
    require(cudaMemset(saved.data, 0, static_cast<size_t>(need.saved)));
  }
  /// Forward and backward; x is a matrix or a producer.
  template <class X>
  void step(X const& x, array<float> const& w, array<bf16> const& dy) {
    const layer run;
    require(run.forward(x, f4::matrix_view<float const>{w.data, shape.out, shape.in}, key, &t,
                        f4::matrix_view<bf16>{y.data, shape.tokens, shape.out}));
    require(run.backward(f4::matrix_view<bf16 const>{dy.data, shape.tokens, shape.out}, key, &t,
                         f4::matrix_view<bf16>{dx.data, shape.tokens, shape.in},
                         f4::matrix_view<float>{dw.data, shape.out, shape.in}, 0.0f));
    require(cudaDeviceSynchronize());
  }
};

template <class T>
bool same(array<T> const& a, array<T> const& b) {
  return __builtin_memcmp(a.data, b.data, static_cast<size_t>(a.count) * sizeof(T)) == 0;
}

/// Compares a step from the producer with one from the matrix that the producer stands for.
template <class Producer>
bool compare(char const* what, Producer const& producer) {
  array<bf16> x(shape.tokens * shape.in), dy(shape.tokens * shape.out);
  array<float> w(shape.out * shape.in);
  fill(dy, 1e-3f, 5);
  for (i64 i = 0; i < w.count; ++i) w[i] = static_cast<float>(i * 7919 % 2003 - 1001) * 1e-4f;
  store_blocks<<<static_cast<unsigned>(shape.tokens), 256>>>(producer, x.data);
  layer_memory fused, unfused;
  fused.step(producer, w, dy);
  unfused.step(f4::matrix_view<bf16 const>{x.data, shape.tokens, shape.in}, w, dy);
  const bool good = same(fused.y, unfused.y) && same(fused.saved, unfused.saved) &&
                    same(fused.dx, unfused.dx) && same(fused.dw, unfused.dw);
  std::printf("%-8s Y, dX, dW and what is kept: fused = unfused %s\n", what,
              good ? "in every bit" : "NOT EQUAL");
  return good;
}

}  // namespace

int main() {
  need_gpu();
  array<bf16> gate_up(shape.tokens * 2 * shape.in), x(shape.tokens * shape.in), gamma(shape.in);
  array<float> factors(shape.tokens);
  fill(gate_up, 6.0f, 1);
  fill(x, 2.0f, 2);
  fill(gamma, 1.0f, 3);
  const f4::matrix_view<bf16 const> residual_stream{x.data, shape.tokens, shape.in};
  write_factors<<<static_cast<unsigned>(shape.tokens), 256>>>(residual_stream, 1e-5f, factors.data);
  bool good = compare("SwiGLU", swiglu_blocks{{{gate_up.data, shape.tokens, 2 * shape.in}}});
  good &= compare("RMSNorm", rmsnorm_blocks{residual_stream, gamma.data, factors.data});
  return good ? 0 : 1;
}

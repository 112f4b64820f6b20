// SPDX-License-Identifier: Apache-2.0
// What the tests compare with: host::linear_layer and host::fake_quantize, called without XLA.
#include <cstddef>
#include <fourscale/recipe/fake_quantize.hpp>
#include <fourscale/recipe/linear_host.hpp>
#include <vector>

#include "../src/recipes.hpp"

using namespace fourscale_jax;
using f4::bf16, f4::matrix_view;

#define FOURSCALE_JAX_EXPORT extern "C" __attribute__((visibility("default")))

struct key {
  u64 seed;
  u32 layer;
  u64 step;
  u32 microbatch;
  f4::draw_key draw() const { return {seed, layer, step, microbatch}; }
};

/// Forward and backward of a linear layer; W and dW are [out, in]. The errc.
FOURSCALE_JAX_EXPORT i32 reference_linear(i32 which, i64 tokens, i64 in, i64 out, bf16 const* x,
                                          float const* w, bf16 const* dy, key k, bf16* y, bf16* dx,
                                          float* dw) {
  return static_cast<i32>(visit_linear(which, [&]<f4::linear_recipe R>(recipe_tag<R>) {
    using layer = f4::host::linear_layer<R>;
    const f4::linear_shape s{tokens, in, out};
    const f4::linear_bytes need = layer::bytes(s);
    std::vector<u8> memory[3];
    f4::linear_memory parts[3];
    const i64 bytes[3] = {need.weights, need.saved, need.workspace};
    for (int i = 0; i < 3; ++i) {
      memory[i].resize(static_cast<std::size_t>(bytes[i]));
      parts[i] = {memory[i].data(), bytes[i]};
    }
    typename layer::tensors t;
    if (const errc e = layer::place(s, parts[0], parts[1], parts[2], &t); e != errc::ok) return e;
    const layer run;
    const errc e = run.forward(matrix_view<bf16 const>{x, tokens, in}, matrix_view<float const>{w, out, in},
                               k.draw(), &t, matrix_view<bf16>{y, tokens, out});
    if (e != errc::ok) return e;
    return run.backward(matrix_view<bf16 const>{dy, tokens, out}, k.draw(), &t,
                        matrix_view<bf16>{dx, tokens, in}, matrix_view<float>{dw, out, in}, 0.0f);
  }));
}

/// The values of one copy of a tensor [rows, cols] as an operand of its GEMM; *amax is read where the recipe
/// takes one of the past. The errc.
FOURSCALE_JAX_EXPORT i32 reference_operand(i32 which, i32 role, i32 columnwise, i64 rows, i64 cols,
                                           float const* tensor, key k, float* amax, float* values) {
  const auto r = static_cast<f4::tensor_role>(role);
  const f4::linear_recipe recipe = presets[which].policy.linear;
  const u32 gemm = columnwise                       ? (r == f4::tensor_role::weight ? 1u : 2u)
                   : r == f4::tensor_role::gradient ? 1u
                                                    : 0u;
  std::vector<u8> codes(static_cast<std::size_t>(rows * cols)), scales(codes.size());
  std::vector<float> original(codes.size());
  const f4::fake_quantize_buffers b{
      .codes = codes.data(), .scales = scales.data(), .amax = amax, .original = original.data()};
  return static_cast<i32>(f4::host::fake_quantize(
      operand_of(recipe, r, columnwise != 0), operand_of(recipe, r, false), {k.draw(), r, gemm},
      matrix_view<float const>{tensor, rows, cols},
      matrix_view<float>{values, columnwise ? cols : rows, columnwise ? rows : cols}, b));
}

/// The 128 signs of a GEMM, 1 for each that is negative.
FOURSCALE_JAX_EXPORT void reference_signs(key k, u32 gemm, u8* negative) {
  const f4::sign_vector signs = k.draw().signs(gemm);
  for (int i = 0; i < 128; ++i) negative[i] = signs.negative(i);
}

// SPDX-License-Identifier: Apache-2.0
// The weights of gate and up as one quantized matrix, for one GEMM instead of two. Codes mean nothing without
// their tensor scale, so merge_rows() refuses two matrices under different amaxes. Quantize both under the
// larger amax: from the original weights or, where a checkpoint has only 4 bits, from the dequantized ones,
// which rounds a second time. On a GPU the code reads the same with f4::device in place of f4::host.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fourscale/fourscale.hpp>
#include <fourscale/recipe/linear.hpp>
#include <vector>

namespace f4 = fourscale;
using f4::bf16, f4::i64, f4::u8;
using quantized = f4::block_scaled_view<f4::nvfp4>;

namespace {

constexpr i64 out = 96, in = 128;

void require(f4::errc e) {
  if (e == f4::errc::ok) return;
  std::printf("fourscale: %s\n", message(e));
  std::exit(1);
}

std::vector<bf16> weights(float size, f4::u32 seed) {
  std::vector<bf16> w;
  for (i64 i = 0; i < out * in; ++i) {
    seed = seed * 1664525u + 1013904223u;
    w.push_back(f4::from_float<bf16>(static_cast<float>(static_cast<f4::i32>(seed)) * 0x1p-31f * size));
  }
  return w;
}

/// Memory for gate and up. Their rows follow one another, as merge_rows() requires.
struct memory {
  std::vector<u8> codes = std::vector<u8>(2 * out * in / 2), scales = std::vector<u8>(2 * out * in / 16);
  /// The view of gate (`which` = 0) or of up (1). Its amax is the float at `amax`.
  quantized part(int which, float const* amax) {
    return {codes.data() + which * out * in / 2, scales.data() + which * out * in / 16, out, in,
            f4::amax_in(amax)};
  }
};

/// The relative square error, |Q - w|^2 / |w|^2, of the rows of q from `first` on.
double error(quantized const& q, std::vector<bf16> const& w, i64 first) {
  double off = 0, all = 0;
  for (i64 i = 0; i < out * in; ++i) {
    const double x = static_cast<double>(f4::to_float(w[static_cast<size_t>(i)]));
    const double e = static_cast<double>(f4::dequantized(q).at(first + i / in, i % in)) - x;
    off += e * e, all += x * x;
  }
  return off / all;
}

}  // namespace

int main() {
  const std::vector<bf16> gate = weights(0.03f, 1), up = weights(0.05f, 2);
  const f4::matrix_view<bf16 const> sources[] = {{gate, out, in}, {up, out, in}};
  float amax[3];  // of gate, of up, the larger one
  memory apart, from_weights, from_4_bits;
  for (int i = 0; i < 2; ++i) {
    require(f4::host::amax(sources[i], amax + i));
    require(f4::host::quantize(sources[i], apart.part(i, amax + i)));
  }
  quantized both;
  const f4::errc refused = f4::merge_rows(apart.part(0, amax), apart.part(1, amax + 1), &both);
  std::printf("merged as they are: %s\n", message(refused));

  require(f4::host::amax(f4::matrix_view<float const>{amax, 1, 2}, amax + 2));
  for (int i = 0; i < 2; ++i) {
    require(f4::host::quantize(sources[i], from_weights.part(i, amax + 2)));
    require(f4::host::quantize(f4::dequantized(apart.part(i, amax + i)), from_4_bits.part(i, amax + 2)));
  }
  bool good = refused == f4::errc::other_amax;
  for (memory* m : {&from_weights, &from_4_bits}) {
    require(f4::merge_rows(m->part(0, amax + 2), m->part(1, amax + 2), &both));
    const double of_gate = error(both, gate, 0), of_up = error(both, up, out);
    std::printf("%s: %lld rows, square error of gate %.4f, of up %.4f\n",
                m == &from_weights ? "from the weights" : "from 4 bits", static_cast<long long>(both.rows),
                of_gate, of_up);
    good &= both.rows == 2 * out && of_gate < 0.02 && of_up < 0.02;
  }
  return good ? 0 : 1;
}

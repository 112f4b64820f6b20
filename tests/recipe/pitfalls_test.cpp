// SPDX-License-Identifier: Apache-2.0
// Mistakes that others made in training stacks, each as a test with its name.
#include <cmath>
#include <fourscale/fourscale.hpp>
#include <fourscale/recipe/describe.hpp>
#include <fourscale/recipe/draws.hpp>
#include <fourscale/recipe/presets.hpp>
#include <string>
#include <vector>

#include "support/amax.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

/// A quantized matrix that owns its memory.
struct quantized {
  std::vector<u8> codes, scales;
  block_scaled_view<nvfp4> view;

  template <class M, class Quantizer>
  quantized(M const& x, Quantizer const& recipe, float amax)
      : codes(static_cast<size_t>(code_bytes<nvfp4>(x.rows, x.cols))),
        scales(static_cast<size_t>(scale_bytes<nvfp4>(x.rows, x.cols))),
        view(codes, scales, x.rows, x.cols, {amax_value(amax), recipe}) {
    REQUIRE(host::quantize(x, view, recipe) == errc::ok);
  }
  template <class M>
  explicit quantized(M const& x) : quantized(x, quantizer{}, test::amax_of(x)) {}

  std::vector<float> values() const {
    std::vector<float> y(static_cast<size_t>(view.rows * view.cols));
    REQUIRE(host::dequantize(view, matrix_view<float>{y, view.rows, view.cols}) == errc::ok);
    return y;
  }
};

std::vector<float> normal(size_t count, u64 seed = 0) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = to_float(from_float<bf16>(test::gaussian(i + (seed << 32))));
  return x;
}

using view = matrix_view<float const>;

/// <T(a), T(b)> in double, N values at a time.
template <int N, int M>
double rotated_dot(std::vector<float> a, std::vector<float> b, hadamard<N, float> ta, hadamard<M, float> tb) {
  for (size_t i = 0; i < a.size(); i += 128) {
    float x[128], y[128];
    for (size_t k = 0; k < 128; ++k) x[k] = a[i + k], y[k] = b[i + k];
    ta(x), tb(y);
    for (size_t k = 0; k < 128; ++k) a[i + k] = x[k], b[i + k] = y[k];
  }
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

TEST_CASE("pitfall: NaN is probed on the amax, which has dropped it", "[recipe][pitfalls]") {
  std::vector<float> x = normal(256);
  const float clean = test::amax_of(view{x, 4, 64});
  x[130] = bit_cast<float>(0xffc0'0000u);
  const float amax = test::amax_of(view{x, 4, 64});
  CHECK(amax == clean);  // the amax cannot tell
  bool found = false;
  for (float v : x) found = found || v != v;
  CHECK(found);
  CHECK(quantized(view{x, 4, 64}).view.load_code(2, 2).bits == 7);  // and the code is +6, not a NaN
}

TEST_CASE("pitfall: every group is decoded with the tensor scale of group 0", "[recipe][pitfalls]") {
  std::vector<float> x = normal(2 * 1024);
  for (size_t i = 1024; i < x.size(); ++i) x[i] *= 37.0f;  // expert 1 is larger
  quantized first(view{x.data(), 16, 64}), second(view{x.data() + 1024, 16, 64});
  const std::vector<float> right = second.values();
  second.view.amax = first.view.amax;
  const std::vector<float> wrong = second.values();
  double right_error = 0, wrong_error = 0, energy = 0;
  for (size_t i = 0; i < 1024; ++i) {
    const double v = static_cast<double>(x[1024 + i]);
    right_error += std::pow(static_cast<double>(right[i]) - v, 2);
    wrong_error += std::pow(static_cast<double>(wrong[i]) - v, 2);
    energy += v * v;
  }
  CHECK(right_error < 0.02 * energy);
  CHECK(wrong_error > 0.5 * energy);
}

TEST_CASE("pitfall: two Hadamard sizes, only one of them changed", "[recipe][pitfalls]") {
  const std::vector<float> a = normal(1024), b = normal(1024, 1);
  double exact = 0;
  for (size_t i = 0; i < a.size(); ++i) exact += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  const hadamard<16, float> h16{te_signs};
  const hadamard<32, float> h32{te_signs};
  CHECK(std::abs(rotated_dot(a, b, h16, h16) - exact) < 1e-4);
  CHECK(std::abs(rotated_dot(a, b, h32, h32) - exact) < 1e-4);
  CHECK(std::abs(rotated_dot(a, b, h16, h32) - exact) > 1.0);
}

TEST_CASE("pitfall: the signs are on the wrong side of H", "[recipe][pitfalls]") {
  // H x * s in place of H (s * x) cancels in a GEMM just as well, and a block quantizer does not notice it:
  // the magnitudes of the codes stay the same. Ours must change.
  const std::vector<float> x = normal(1024);
  const auto magnitudes = [&](sign_vector s) {
    const quantizer recipe{nearest_even{}, two_level{}, hadamard<16>{s}};
    const view m{x, 16, 64};
    std::vector<u8> codes = quantized(m, recipe, test::amax_of<nvfp4>(m, recipe.transform)).codes;
    for (u8& c : codes) c &= 0x77;
    return codes;
  };
  const std::vector<u8> plain = magnitudes(no_signs);
  for (int i = 1; i < 16; ++i) CHECK_FALSE(magnitudes({u64{1} << i}) == plain);
}

TEST_CASE("pitfall: a sign buffer is cached by its identity", "[recipe][pitfalls]") {
  const std::vector<float> x = normal(1024);
  const view m{x, 16, 64};
  const auto codes = [&](sign_vector const& s) {
    return quantized(m, quantizer{nearest_even{}, two_level{}, hadamard<16>{s}}, 4.0f).codes;
  };
  sign_vector signs = te_signs;
  const std::vector<u8> before = codes(signs);
  signs.words[0] ^= 0x11;  // the same object with another value
  CHECK_FALSE(codes(signs) == before);
  const sign_vector other_object = te_signs;
  CHECK(codes(other_object) == before);
}

TEST_CASE("pitfall: the signs are never drawn again", "[recipe][pitfalls]") {
  sign_vector last = draw_key{1, 0, 0, 0}.signs(2);
  for (u64 step = 1; step < 100; ++step) {
    const sign_vector s = draw_key{1, 0, step, 0}.signs(2);
    CHECK_FALSE(s == last);
    last = s;
  }
  // And a run that forgot to says so in its log.
  CHECK(std::string(describe(presets::quartet2()).c_str()).find("hadamard128:drawn") != std::string::npos);
  CHECK(std::string(describe(presets::te_nvfp4()).c_str()).find("hadamard16:te") != std::string::npos);
}

TEST_CASE("pitfall: the codes of MS-EDEN are not unbiased, its reconstruction is", "[recipe][pitfalls]") {
  // Estimates of <x, w> for a fixed w, over signs and scale bits; in the rotated space w is rotated too.
  const std::vector<float> x = normal(128), w = normal(128, 9);
  constexpr int trials = 4000;
  double exact = 0, sum = 0, squares = 0, shrunk = 0, energy = 0;
  for (size_t i = 0; i < 128; ++i) {
    exact += static_cast<double>(x[i]) * static_cast<double>(w[i]);
    energy += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  for (u64 t = 0; t < trials; ++t) {
    const draw_key key{t, 0, 0, 0};
    const ms_eden recipe{key.scales(tensor_role::gradient, false), key.signs(2)};
    float y[128], v[128];
    for (size_t i = 0; i < 128; ++i) y[i] = x[i], v[i] = w[i];
    recipe.transform(y);
    hadamard<128, float>{key.signs(2)}(v);
    const tensor_scale<nvfp4> tensor = recipe.tensor(nvfp4{}, block_amax(y));
    packed_block<nvfp4> blocks[8];
    recipe(y, tensor, {}, blocks);
    double estimate = 0, nearest = 0;
    for (int b = 0; b < 8; ++b) {
      float q[16], in[16];
      dequantize_block(blocks[b], q, tensor);
      for (int i = 0; i < 16; ++i) in[i] = y[b * 16 + i];
      const auto uncorrected = quantize_block<nvfp4>(in, quantizer{}, tensor_scale<nvfp4>(block_amax(y)));
      float r[16];
      dequantize_block(uncorrected, r, tensor_scale<nvfp4>(block_amax(y)));
      for (int i = 0; i < 16; ++i) {
        estimate += static_cast<double>(q[i]) * static_cast<double>(v[b * 16 + i]);
        nearest += static_cast<double>(r[i]) * static_cast<double>(y[b * 16 + i]);
      }
    }
    sum += estimate, squares += estimate * estimate, shrunk += nearest / energy;
  }
  const double mean = sum / trials, standard_error = std::sqrt((squares / trials - mean * mean) / trials);
  INFO("mean " << mean << ", exact " << exact << ", standard error " << standard_error);
  CHECK(std::abs(mean - exact) < 5 * standard_error);
  CHECK(shrunk / trials < 0.998);  // codes alone give x back too small
}

TEST_CASE("pitfall: stochastic scales in another layout look plausible", "[recipe][pitfalls]") {
  // Each is one of the two E4M3 neighbours of the wanted scale: a wrong layout would not be.
  const std::vector<float> x = normal(64 * 64);
  const view m{x, 64, 64};
  const float amax = test::amax_of(m);
  const quantized q(m, quantizer{nearest_even{}, two_level_stochastic{philox{3, 4}}}, amax);
  int up = 0;
  for (i64 row = 0; row < 64; ++row)
    for (i64 block = 0; block < 4; ++block) {
      float values[16];
      for (i64 i = 0; i < 16; ++i) values[i] = m.at(row, block * 16 + i);
      const float wanted = block_amax(values) * (tensor_scale<nvfp4>(amax).encode * (1.0f / 6.0f));
      const u8 stored = q.view.load_scale(row, block).bits, below = encode_down<e4m3>(wanted).bits;
      CHECK((stored == below || stored == encode_up<e4m3>(wanted).bits));
      up += stored != below;
    }
  CHECK(up > 64);
  CHECK(up < 192);
}

TEST_CASE("pitfall: requantization under its own amax cannot show a lost amax", "[recipe][pitfalls]") {
  const std::vector<float> x = normal(64 * 64);
  const view m{x, 64, 64};
  const float amax = test::amax_of(m);
  // The tensor's own amax survives quantization in every bit, so it proves nothing ...
  const quantized own(m, quantizer{}, amax);
  const std::vector<float> again = own.values();
  CHECK(test::amax_of(view{again, 64, 64}) == amax);
  // ... a larger one does not: a requantizer that recomputed it would differ.
  const quantized over(m, quantizer{}, amax * 1.7f);
  const std::vector<float> values = over.values();
  CHECK_FALSE(test::amax_of(view{values, 64, 64}) == amax * 1.7f);
  const auto source = dequantized(over.view);
  const quantized kept(source, quantizer{}, amax * 1.7f),
      lost(source, quantizer{}, test::amax_of(view{values, 64, 64}));
  CHECK(kept.scales == over.scales);
  CHECK(kept.codes == over.codes);
  CHECK_FALSE(lost.scales == over.scales);
}

TEST_CASE("pitfall: the tensor scale is folded into a bf16 operand", "[recipe][pitfalls]") {
  // code * scale is exact in bf16 for every pair, so an emulated GEMM may use bf16 operands; times a tensor
  // scale it is not.
  int inexact = 0;
  const float tensor = 1.0f / tensor_scale<nvfp4>(3.3f).encode;
  for (int scale = 0; scale < 0x7f; ++scale)
    for (int code = 0; code < 16; ++code) {
      const float v = decode(e2m1{static_cast<u8>(code)}) * decode(e4m3{static_cast<u8>(scale)});
      CHECK(to_float(from_float<bf16>(v)) == v);
      inexact += to_float(from_float<bf16>(v * tensor)) != v * tensor;
    }
  CHECK(inexact > 1000);
}

TEST_CASE("pitfall: a giant outlier flushes the scales of the other blocks", "[recipe][pitfalls]") {
  std::vector<float> x(64 * 64, 0.001f);
  x[5] = 1e6f;
  const quantized q(view{x, 64, 64});
  const std::vector<float> y = q.values();
  CHECK(y[5] == 1e6f);
  for (size_t i = 16; i < y.size(); ++i) CHECK(y[i] == 0.0f);  // lost, but neither NaN nor infinite
  std::vector<percentile_workspace> w(1);
  float amax = 0;
  REQUIRE(host::percentile_amax(view{x, 64, 64}, 0.999, w.data(), &amax) == errc::ok);
  const std::vector<float> saved = quantized(view{x, 64, 64}, quantizer{}, amax).values();
  CHECK(std::abs(saved[100] - 0.001f) < 1e-5f);
}

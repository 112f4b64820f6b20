// SPDX-License-Identifier: Apache-2.0
// A small language model, trained on a CPU in each number format: a multilayer perceptron that reads 8 bytes
// of text and predicts the next one. Prints a table of losses, with the difference from BF16 over pairs of
// runs that share initial weights and batches.
//
//   example_train_mlp [STEPS [TEXT FILE]...]    (this repository's documentation, if no file is named)
//
// Hidden layers follow the recipe, forward and backward; embedding, logits and optimizer do not, as in
// published recipes. 4-bit and 8-bit recipes use the library's linear layer: NVFP4, MXFP4 and MXFP8 have the
// bits of Blackwell's GEMMs. BF16 has no such layer: its operands are rounded (fake_quantize) and multiplied
// in FP32.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fourscale/recipe/fake_quantize.hpp>
#include <fourscale/recipe/linear_host.hpp>
#include <fourscale/recipe/presets.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

namespace f4 = fourscale;
using f4::bf16, f4::i64, f4::u32;

namespace {

constexpr i64 context = 8, embedding = 16, width = 128, symbols = 128, batch = 128;
constexpr int seeds = 3, layers = 3;
constexpr double t_quantile = 4.303;  // Student's t for 95 % and seeds - 1 = 2 degrees of freedom

using floats = std::vector<float>;
using bf16s = std::vector<bf16>;
size_t count(i64 rows, i64 cols) { return static_cast<size_t>(rows * cols); }

void require(f4::errc e) {
  if (e == f4::errc::ok) return;
  std::fprintf(stderr, "fourscale: %s\n", message(e));
  std::exit(1);
}

/// Word i of a sequence: the same on every machine.
u32 random_word(u32 i, u32 sequence, u32 seed) { return f4::philox4x32(i, 0, sequence, 0, seed).words[0]; }

/// Uniform numbers of mean 0 and variance size^2.
floats uniform(i64 rows, i64 cols, float size, u32 sequence, u32 seed) {
  floats x(count(rows, cols));
  for (size_t i = 0; i < x.size(); ++i) {
    const u32 word = random_word(static_cast<u32>(i), sequence, seed) >> 8;
    x[i] = (static_cast<float>(word) * 0x1p-24f - 0.5f) * 3.4641016f * size;
  }
  return x;
}

/// A matrix of FP32 master weights, its gradient, and Adam's moments (0.9, 0.95).
struct parameters {
  floats w, gradient, mean, square;
  explicit parameters(floats initial)
      : w(std::move(initial)), gradient(w.size()), mean(w.size()), square(w.size()) {}

  void update(float rate, u32 step) {
    const float of_mean = 1 - std::pow(0.9f, static_cast<float>(step + 1)),
                of_square = 1 - std::pow(0.95f, static_cast<float>(step + 1));
    for (size_t i = 0; i < w.size(); ++i) {
      mean[i] += 0.1f * (gradient[i] - mean[i]);
      square[i] += 0.05f * (gradient[i] * gradient[i] - square[i]);
      w[i] -= rate * (mean[i] / of_mean) / (std::sqrt(square[i] / of_square) + 1e-8f);
    }
  }
};

/// Y = X W^T under some recipe: X [tokens, in], W [out, in], Y [tokens, out].
struct linear : parameters {
  f4::linear_shape shape;
  linear(f4::linear_shape s, floats initial) : parameters(std::move(initial)), shape(s) {}
  virtual ~linear() = default;
  virtual void forward(bf16s const& x, f4::draw_key const& key, bf16s& y) = 0;
  /// With the key of forward(). Also sets the gradient of W.
  virtual void backward(bf16s const& dy, f4::draw_key const& key, bf16s& dx) = 0;
};

/// The library's layer. It keeps X quantized from forward to backward.
template <f4::linear_recipe R>
struct library_linear : linear {
  using machine = f4::host::linear_layer<R>;
  std::vector<f4::u8> weights, saved, workspace;
  typename machine::tensors t;

  library_linear(f4::linear_shape s, floats initial) : linear(s, std::move(initial)) {
    const f4::linear_bytes need = machine::bytes(s);
    const auto memory = [](std::vector<f4::u8>& bytes, i64 size) {
      bytes.resize(static_cast<size_t>(size));
      return f4::linear_memory{bytes.data(), size};
    };
    require(machine::place(s, memory(weights, need.weights), memory(saved, need.saved),
                           memory(workspace, need.workspace), &t));
  }
  void forward(bf16s const& x, f4::draw_key const& key, bf16s& y) override {
    const f4::matrix_view<bf16 const> from(x, shape.tokens, shape.in);
    const f4::matrix_view<float const> by(w, shape.out, shape.in);
    require(machine{}.forward(from, by, key, &t, f4::matrix_view<bf16>(y, shape.tokens, shape.out)));
  }
  void backward(bf16s const& dy, f4::draw_key const& key, bf16s& dx) override {
    const f4::matrix_view<bf16 const> from(dy, shape.tokens, shape.out);
    const f4::matrix_view<float> dw(gradient, shape.out, shape.in);
    require(machine{}.backward(from, key, &t, f4::matrix_view<bf16>(dx, shape.tokens, shape.in), dw, 0.0f));
  }
};

/// D = A B^T, A [m, k], B [n, k], in FP32.
template <class T>
void multiply(floats const& a, floats const& b, std::vector<T>& d, i64 m, i64 n, i64 k) {
  floats bt(b.size()), sums(static_cast<size_t>(n));
  for (i64 j = 0; j < n; ++j)
    for (i64 l = 0; l < k; ++l) bt[count(l, n) + static_cast<size_t>(j)] = b[static_cast<size_t>(j * k + l)];
  for (i64 i = 0; i < m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (i64 l = 0; l < k; ++l) {
      const float factor = a[static_cast<size_t>(i * k + l)];
      float const* const row = bt.data() + l * n;
      for (size_t j = 0; j < sums.size(); ++j) sums[j] += factor * row[j];
    }
    for (size_t j = 0; j < sums.size(); ++j) d[count(i, n) + j] = f4::from_float<T>(sums[j]);
  }
}

/// A layer under any recipe: operands are rounded to what they would hold, then multiplied in FP32.
struct emulated_linear : linear {
  f4::linear_recipe recipe;
  bf16s saved;

  emulated_linear(f4::linear_recipe const& r, f4::linear_shape s, floats initial)
      : linear(s, std::move(initial)), recipe(r) {}

  /// x, or its transpose, rounded to what the operand of a GEMM would hold.
  template <class T>
  static floats operand(f4::operand_recipe o, bool columnwise, f4::operand_place const& at,
                        std::vector<T> const& x, i64 rows, i64 cols) {
    floats y(x.size());
    std::vector<f4::u8> codes(x.size()), scales(x.size());
    float amax = 0;
    f4::fake_quantize_buffers buffers;
    buffers.codes = codes.data(), buffers.scales = scales.data(), buffers.amax = &amax;
    const f4::matrix_view<T const> from(x, rows, cols);
    const f4::matrix_view<float> to(y, columnwise ? cols : rows, columnwise ? rows : cols);
    o.copy = columnwise ? f4::copy_kind::columnwise : f4::copy_kind::rowwise;
    require(f4::host::fake_quantize(o, o, at, from, to, buffers));
    return y;
  }
  /// Weights that stay in BF16 are rounded to it; others are quantized from FP32.
  floats weights(f4::operand_recipe const& o, bool columnwise, f4::operand_place const& at) const {
    floats from = w;
    if (o.format == f4::format_name::bf16)
      for (float& x : from) x = f4::to_float(f4::from_float<bf16>(x));
    return operand(o, columnwise, at, from, shape.out, shape.in);
  }
  void forward(bf16s const& x, f4::draw_key const& key, bf16s& y) override {
    using role = f4::tensor_role;
    saved = x;
    const auto [tokens, in, out] = shape;
    multiply(operand(recipe.fprop.a, false, {key, role::activation, 0}, x, tokens, in),
             weights(recipe.fprop.b, false, {key, role::weight, 0}), y, tokens, out, in);
  }
  void backward(bf16s const& dy, f4::draw_key const& key, bf16s& dx) override {
    using role = f4::tensor_role;
    const auto [tokens, in, out] = shape;
    multiply(operand(recipe.dgrad.a, false, {key, role::gradient, 1}, dy, tokens, out),
             weights(recipe.dgrad.b, true, {key, role::weight, 1}), dx, tokens, in, out);
    multiply(operand(recipe.wgrad.a, true, {key, role::gradient, 2}, dy, tokens, out),
             operand(recipe.wgrad.b, true, {key, role::activation, 2}, saved, tokens, in), gradient, out, in,
             tokens);
  }
};

/// A layer under R: the library's if it has one for R, else an emulated one.
template <f4::linear_recipe R>
std::unique_ptr<linear> make_linear(f4::linear_shape s, floats initial) {
  if constexpr (f4::validate(R) == f4::errc::ok)
    return std::make_unique<library_linear<R>>(s, std::move(initial));
  else
    return std::make_unique<emulated_linear>(R, s, std::move(initial));
}

constexpr struct recipe {
  char const* name;
  std::unique_ptr<linear> (*make)(f4::linear_shape, floats);
} recipes[] = {
    {"bf16", make_linear<f4::presets::bf16().linear>},
    {"fp8_current", make_linear<f4::presets::fp8_current().linear>},
    {"mxfp8", make_linear<f4::presets::mxfp8().linear>},
    {"te_nvfp4", make_linear<f4::presets::te_nvfp4().linear>},
    {"te_nvfp4_no_rht", make_linear<f4::presets::te_nvfp4_no_rht().linear>},
    {"mxfp4", make_linear<f4::presets::mxfp4().linear>},
};

/// Text as symbols below 128. The last of every ten chunks is held out.
struct corpus {
  static constexpr i64 chunk = 512;
  std::vector<f4::u8> text;

  void add(std::filesystem::path const& file) {
    std::ifstream in(file, std::ios::binary);
    for (auto c = std::istreambuf_iterator<char>(in); c != std::istreambuf_iterator<char>(); ++c)
      text.push_back(static_cast<f4::u8>(static_cast<f4::u8>(*c) < 128 ? *c : '?'));
    if (!in.bad() && in.is_open()) return;
    std::fprintf(stderr, "cannot read %s\n", file.c_str());
    std::exit(1);
  }
  void add_documentation(std::filesystem::path const& root) {
    std::vector<std::filesystem::path> files{root / "README.md"};
    for (auto const& entry : std::filesystem::directory_iterator(root / "docs"))
      if (entry.path().extension() == ".md") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (auto const& file : files) add(file);
  }
  i64 chunks(bool held_out) const {
    const i64 all = static_cast<i64>(text.size()) / chunk;
    return held_out ? all / 10 : all - all / 10;
  }
  /// The symbol to predict, `i` symbols into chunk n. The symbols of its context are in the same chunk.
  f4::u8 const* at(i64 n, i64 i, bool held_out) const {
    return text.data() + (held_out ? n * 10 + 9 : n + n / 9) * chunk + context + i % (chunk - context);
  }
  /// Nats per symbol of a prediction that knows how frequent symbols are, and nothing else.
  double entropy() const {
    double frequency[symbols] = {}, sum = 0;
    for (const f4::u8 s : text) frequency[s] += 1 / static_cast<double>(text.size());
    for (const double p : frequency) sum -= p > 0 ? p * std::log(p) : 0;
    return sum;
  }
};

/// Pointers to the symbols to predict.
using examples = std::vector<f4::u8 const*>;
examples training_batch(corpus const& c, u32 step, u32 seed) {
  examples result;
  for (u32 i = 0; i < batch; ++i) {
    const u32 n = random_word(2 * i, 1000 + step, seed), at = random_word(2 * i + 1, 1000 + step, seed);
    result.push_back(c.at(n % c.chunks(false), at, false));
  }
  return result;
}

examples validation_batch(corpus const& c, i64 n) {
  examples result;
  for (i64 i = n * batch; i < (n + 1) * batch; ++i)
    result.push_back(c.at(i % c.chunks(true), i / c.chunks(true), true));
  return result;
}

/// The perceptron: embeddings of the context side by side, hidden layers with ReLU, logits.
struct network {
  parameters table;
  std::vector<std::unique_ptr<linear>> all;  ///< the last one gives the logits, in BF16
  std::vector<bf16s> x, dx;                  ///< inputs of each layer, then logits; their gradients

  network(recipe const& r, u32 seed) : table(uniform(symbols, embedding, 1.0f, 0, seed)) {
    for (u32 l = 0; l <= layers; ++l) {
      const i64 in = l == 0 ? context * embedding : width, out = l == layers ? symbols : width;
      const float size = std::sqrt((l == layers ? 1.0f : 2.0f) / static_cast<float>(in));
      const auto make = l == layers ? recipes[0].make : r.make;
      all.push_back(make({batch, in, out}, uniform(out, in, size, 1 + l, seed)));
      x.emplace_back(count(batch, in));
    }
    x.emplace_back(count(batch, symbols));
    dx = x;
  }

  /// The index in the embedding table of value i of the input.
  static size_t in_table(examples const& e, size_t i) {
    constexpr size_t values = embedding, all_values = context * embedding;
    return *(e[i / all_values] - context + i % all_values / values) * values + i % values;
  }
  /// The mean loss in nats per symbol.
  double forward(examples const& e, f4::draw_key key) {
    for (size_t i = 0; i < x[0].size(); ++i) x[0][i] = f4::from_float<bf16>(table.w[in_table(e, i)]);
    for (u32 l = 0; l <= layers; ++l) {
      key.layer = l;
      all[l]->forward(x[l], key, x[l + 1]);
      if (l < layers)
        for (bf16& v : x[l + 1]) v = f4::to_float(v) < 0.0f ? bf16{} : v;  // NaN stays
    }
    return loss_and_gradient(e);
  }
  double loss_and_gradient(examples const& e) {
    double loss = 0;
    for (size_t i = 0; i < e.size(); ++i) {
      bf16 const* const logits = x.back().data() + i * symbols;
      float most = f4::to_float(logits[0]), sum = 0, exponentials[symbols];
      for (i64 j = 0; j < symbols; ++j) most = std::max(most, f4::to_float(logits[j]));
      for (i64 j = 0; j < symbols; ++j) sum += exponentials[j] = std::exp(f4::to_float(logits[j]) - most);
      for (i64 j = 0; j < symbols; ++j)
        dx.back()[i * symbols + static_cast<size_t>(j)] =
            f4::from_float<bf16>((exponentials[j] / sum - (j == *e[i])) / static_cast<float>(batch));
      loss += std::log(sum) + most - f4::to_float(logits[*e[i]]);
    }
    return loss / static_cast<double>(e.size());
  }
  void backward(examples const& e, f4::draw_key key) {
    for (u32 l = layers + 1; l-- > 0;) {
      key.layer = l;
      all[l]->backward(dx[l + 1], key, dx[l]);
      if (l > 0)
        for (size_t i = 0; i < x[l].size(); ++i) dx[l][i] = f4::to_float(x[l][i]) == 0.0f ? bf16{} : dx[l][i];
    }
    std::fill(table.gradient.begin(), table.gradient.end(), 0.0f);
    for (size_t i = 0; i < x[0].size(); ++i) table.gradient[in_table(e, i)] += f4::to_float(dx[0][i]);
  }
};

/// Losses in nats per symbol: the mean over the last fifth of the steps, and that on the held-out text.
struct losses {
  double train = 0, validation = 0;  ///< validation: by the forward of the same recipe
};

losses train(recipe const& r, corpus const& text, u32 steps, u32 seed) {
  network n(r, seed);
  losses result;
  const u32 decay = (steps + 4) / 5, batches = 32;
  for (u32 step = 0; step < steps; ++step) {
    const examples e = training_batch(text, step, seed);
    const double loss = n.forward(e, {seed, 0, step});
    n.backward(e, {seed, 0, step});
    const u32 left = steps - step;
    const float rate = 4e-3f * std::min(1.0f, static_cast<float>(left) / static_cast<float>(decay));
    n.table.update(rate, step);
    for (auto& l : n.all) l->update(rate, step);
    if (left <= decay) result.train += loss / decay;
  }
  for (u32 i = 0; i < batches; ++i)
    result.validation += n.forward(validation_batch(text, i), {seed, 0, steps}) / batches;
  return result;
}

/// The mean over seeds, and half the width of its 95 % interval.
struct interval {
  double mean = 0, half = 0;
  explicit interval(double const (&d)[seeds]) {
    double variance = 0;
    for (const double x : d) mean += x / seeds;
    for (const double x : d) variance += (x - mean) * (x - mean) / (seeds - 1);
    half = t_quantile * std::sqrt(variance / seeds);
  }
};

char const* verdict(interval const& gap) {
  return gap.mean > gap.half ? "worse" : gap.mean < -gap.half ? "better" : "not told apart";
}

void print(char const* name, losses const (&of)[seeds], losses const (&bf16)[seeds]) {
  double train[seeds], held_out[seeds], gap[seeds];
  for (int s = 0; s < seeds; ++s) {
    train[s] = of[s].train, held_out[s] = of[s].validation;
    gap[s] = of[s].train - bf16[s].train;
  }
  std::printf("%-16s %7.4f %10.4f", name, interval(train).mean, interval(held_out).mean);
  const interval g(gap);
  if (&of != &bf16) std::printf("   %+.4f +- %.4f   %s", g.mean, g.half, verdict(g));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 400;
  corpus text;
  for (int i = 2; i < argc; ++i) text.add(argv[i]);
#ifdef FOURSCALE_ROOT
  if (argc <= 2) text.add_documentation(FOURSCALE_ROOT);
#endif
  if (steps < 1 || text.chunks(true) < 1) {
    std::fprintf(stderr, "usage: %s [STEPS [TEXT FILE]...], with 5 KB of text or more\n", argv[0]);
    return 2;
  }
  constexpr int runs = static_cast<int>(std::size(recipes)) * seeds;
  losses of[std::size(recipes)][seeds];
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic)
#endif
  for (int run = 0; run < runs; ++run)
    of[run / seeds][run % seeds] =
        train(recipes[run / seeds], text, static_cast<u32>(steps), static_cast<u32>(run % seeds));

  std::printf(
      "%zu bytes of text, %d steps, %d seeds. Loss in nats per byte; from frequencies alone: %.4f\n\n",
      text.text.size(), steps, seeds, text.entropy());
  std::printf("recipe             train validation   train - bf16\n");
  bool ok = true;
  for (size_t r = 0; r < std::size(recipes); ++r) {
    print(recipes[r].name, of[r], of[0]);
    for (losses const& l : of[r]) ok &= l.validation < text.entropy();
  }
  std::printf(
      "\n+- is half of a 95 %% interval over seeds. \"not told apart\": it includes 0; no proof of "
      "equality.\n");
  if (!ok) std::puts("A run has learnt no more than frequencies.");
  return ok ? 0 : 1;
}

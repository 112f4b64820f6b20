// SPDX-License-Identifier: Apache-2.0
// Whole-matrix quantizers on the GPU, each beside the ceiling of its traffic.
#include "harness.cuh"

using namespace bench;

namespace {

struct shape {
  i64 rows, cols;
};
constexpr shape shapes[] = {{16384, 16384}, {8192, 28672}, {2048, 8192}, {4096, 4096}};
constexpr f4::philox<> draws{1234, 1};

std::string name(char const* what, shape s) {
  return std::string(what) + "/" + std::to_string(s.rows) + "x" + std::to_string(s.cols);
}

/// quantize() of format F, rowwise.
template <class F, class Layout = f4::linear, class Quantizer = f4::quantizer<>>
void rowwise(benchmark::State& state, shape s, Quantizer const& recipe = {}) {
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<u8> codes(f4::code_bytes<F>(s.rows, s.cols)), scales(f4::scale_bytes<F, Layout>(s.rows, s.cols));
  buffer<float> amax(1);
  require(f4::device::amax(x.view(0), amax.data()));
  const f4::block_scaled_view<F, Layout> q{codes.data(), scales.data(), s.rows, s.cols};
  require(f4::device::quantize(x.view(0), q, amax.data(), recipe));
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  check(q, f4::matrix_view<f4::bf16 const>{host, s.rows, s.cols}, recipe, amax.to_host()[0], codes, scales);
  const double bytes =
      2.0 * static_cast<double>(s.rows * s.cols) + static_cast<double>(codes.bytes() + scales.bytes());
  constexpr int code_bytes = f4::block_code_bytes<F> * 16 / F::block_size;
  buffer<u8> other(s.rows * s.cols / 16);
  report(
      state, bytes, [&](i64 i) { require(f4::device::quantize(x.view(i), q, amax.data(), recipe)); },
      ceiling<code_bytes, 1>(x, codes, other));
}

constexpr f4::hadamard<16> rht{f4::te_signs};

/// quantize() of the transpose: blocks along columns.
template <class Layout = f4::linear, class Quantizer>
void columnwise(benchmark::State& state, shape s, Quantizer const& recipe) {
  using F = f4::nvfp4;
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<u8> codes(f4::code_bytes<F>(s.cols, s.rows)), scales(f4::scale_bytes<F, Layout>(s.cols, s.rows));
  buffer<float> amax(1);
  require(f4::device::amax<F>(f4::transposed(x.view(0)), recipe.transform, amax.data()));
  const f4::block_scaled_view<F, Layout> q{codes.data(), scales.data(), s.cols, s.rows};
  require(f4::device::quantize(f4::transposed(x.view(0)), q, amax.data(), recipe));
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  const f4::matrix_view<f4::bf16 const> on_host{host, s.rows, s.cols};
  check(q, f4::transposed(on_host), recipe, amax.to_host()[0], codes, scales);
  const double bytes =
      2.0 * static_cast<double>(s.rows * s.cols) + static_cast<double>(codes.bytes() + scales.bytes());
  report(
      state, bytes,
      [&](i64 i) { require(f4::device::quantize(f4::transposed(x.view(i)), q, amax.data(), recipe)); },
      ceiling<8, 1>(x, codes, scales));
}

/// Both copies in one pass.
template <class Layout = f4::linear, class Blocks, class Rowwise, class Columnwise>
void both(benchmark::State& state, shape s, Blocks blocks, Rowwise const& rowwise,
          Columnwise const& columnwise) {
  using F = f4::nvfp4;
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<u8> codes(f4::code_bytes<F>(s.rows, s.cols)), scales(f4::scale_bytes<F, Layout>(s.rows, s.cols));
  buffer<u8> codes_t(f4::code_bytes<F>(s.cols, s.rows)), scales_t(f4::scale_bytes<F, Layout>(s.cols, s.rows));
  buffer<float> amax(1), amax_t(1);
  require(f4::device::amax(x.view(0), amax.data()));
  require(f4::device::amax<F>(f4::transposed(x.view(0)), columnwise.transform, amax_t.data()));
  const f4::block_scaled_view<F, Layout> q{codes.data(), scales.data(), s.rows, s.cols};
  const f4::block_scaled_view<F, Layout> qt{codes_t.data(), scales_t.data(), s.cols, s.rows};
  const auto run = [&](i64 i) {
    require(
        f4::device::quantize_both(x.view(i), q, qt, blocks, amax.data(), amax_t.data(), rowwise, columnwise));
  };
  run(0);
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  const f4::matrix_view<f4::bf16 const> on_host{host, s.rows, s.cols};
  std::vector<u8> c(codes.bytes()), sc(scales.bytes()), ct(codes_t.bytes()), sct(scales_t.bytes());
  f4::block_scaled_view<F, Layout> h{c, sc, s.rows, s.cols}, ht{ct, sct, s.cols, s.rows};
  h.tensor_scale = f4::tensor_scale_for<F>(rowwise.scale, amax.to_host()[0]);
  ht.tensor_scale =
      Blocks::is_2d ? h.tensor_scale : f4::tensor_scale_for<F>(columnwise.scale, amax_t.to_host()[0]);
  require(f4::host::quantize_both(on_host, h, ht, rowwise, columnwise, blocks));
  require(codes.to_host() == c && scales.to_host() == sc, "the rowwise copy differs from the host's");
  require(codes_t.to_host() == ct && scales_t.to_host() == sct,
          "the columnwise copy differs from the host's");
  buffer<u8> other(s.rows * s.cols), other_scales(s.rows * s.cols / 8);
  report(state, 3.125 * static_cast<double>(s.rows * s.cols), run, ceiling<16, 2>(x, other, other_scales));
}

void amax(benchmark::State& state, shape s) {
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<float> out(1);
  buffer<u8> nothing(s.rows * s.cols / 16);
  report(
      state, 2.0 * static_cast<double>(s.rows * s.cols),
      [&](i64 i) { require(f4::device::amax(x.view(i), out.data())); }, ceiling<0, 0>(x, nothing, nothing));
}

/// Both amaxes from one read.
void amax_both(benchmark::State& state, shape s) {
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<float> out(2);
  const auto run = [&](i64 i) {
    require(f4::device::amax_both<f4::nvfp4>(x.view(i), rht, out.data(), out.data() + 1));
  };
  run(0);
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  const f4::matrix_view<f4::bf16 const> on_host{host, s.rows, s.cols};
  require(out.to_host()[0] == f4::host::amax(on_host) &&
              out.to_host()[1] == f4::host::amax<f4::nvfp4>(f4::transposed(on_host), rht),
          "an amax differs from the host's");
  buffer<u8> nothing(s.rows * s.cols / 16);
  report(state, 2.0 * static_cast<double>(s.rows * s.cols), run, ceiling<0, 0>(x, nothing, nothing));
}

/// dequantize() to bf16, with several outputs in place of several inputs.
void dequantize(benchmark::State& state, shape s) {
  using F = f4::nvfp4;
  inputs<f4::bf16> x(s.rows, s.cols);  // overwritten
  buffer<u8> codes(f4::code_bytes<F>(s.rows, s.cols)), scales(f4::scale_bytes<F>(s.rows, s.cols));
  f4::block_scaled_view<F> q{codes.data(), scales.data(), s.rows, s.cols};
  q.tensor_scale = f4::tensor_scale<F>(37.0f);
  require(f4::device::quantize(x.view(0), q));
  const auto output = [&](i64 i) { return x.matrices[static_cast<size_t>(i % x.count())].data(); };
  const auto run = [&](i64 i) {
    require(f4::device::dequantize(q, f4::matrix_view<f4::bf16>{output(i), s.rows, s.cols}));
  };
  run(0);
  const std::vector<u8> c = codes.to_host(), sc = scales.to_host();
  std::vector<f4::bf16> want(static_cast<size_t>(s.rows * s.cols));
  f4::block_scaled_view<F, f4::linear, u8 const> h{c.data(), sc.data(), s.rows, s.cols};
  h.tensor_scale = q.tensor_scale;
  require(f4::host::dequantize(h, f4::matrix_view<f4::bf16>{want, s.rows, s.cols}));
  const std::vector<f4::bf16> got = x.matrices[0].to_host();
  require(std::equal(got.begin(), got.end(), want.begin(),
                     [](f4::bf16 a, f4::bf16 b) { return a.bits == b.bits; }),
          "the values differ from the host's");
  report(state, 2.5625 * static_cast<double>(s.rows * s.cols), run, [&](i64 i) {
    const i64 threads = s.rows * s.cols / 8;
    dequantize_ceiling_kernel<<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256>>>(
        reinterpret_cast<f4::u32 const*>(codes.data()), scales.data(), threads,
        reinterpret_cast<word16*>(output(i)));
  });
}

/// transform() of a whole matrix to bf16.
template <int N>
void hadamard(benchmark::State& state, shape s) {
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<f4::bf16> y(s.rows * s.cols);
  buffer<u8> bytes(s.rows * s.cols * 2), nothing(s.rows * s.cols / 16);
  constexpr f4::hadamard<N> transform{{0x0123'4567'89ab'cdefu, 0xd7e8u}};
  const auto run = [&](i64 i) {
    require(
        f4::device::transform<N>(x.view(i), f4::matrix_view<f4::bf16>{y.data(), s.rows, s.cols}, transform));
  };
  run(0);
  const std::vector<f4::bf16> host = x.matrices[0].to_host(), got = y.to_host();
  std::vector<f4::bf16> want(got.size());
  require(f4::host::transform<N>(f4::matrix_view<f4::bf16 const>{host, s.rows, s.cols},
                                 f4::matrix_view<f4::bf16>{want, s.rows, s.cols}, transform));
  require(std::equal(got.begin(), got.end(), want.begin(),
                     [](f4::bf16 a, f4::bf16 b) { return a.bits == b.bits; }),
          "the transform differs from the host's");
  report(state, 4.0 * static_cast<double>(s.rows * s.cols), run, ceiling<32, 0>(x, bytes, nothing));
}

/// amax() and quantize(), beside both ceilings one after the other.
void whole_call(benchmark::State& state, shape s) {
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<u8> codes(s.rows * s.cols / 2), scales(s.rows * s.cols / 16);
  buffer<float> amax(1);
  const f4::block_scaled_view<f4::nvfp4> q{codes.data(), scales.data(), s.rows, s.cols};
  const launch reading = ceiling<0, 0>(x, codes, scales), quantizing = ceiling<8, 1>(x, codes, scales);
  report(
      state, 4.5625 * static_cast<double>(s.rows * s.cols),
      [&](i64 i) {
        require(f4::device::amax(x.view(i), amax.data()));
        require(f4::device::quantize(x.view(i), q, amax.data()));
      },
      [&](i64 i) {
        reading(i);
        quantizing(i);
      });
}

/// One call in a graph, one replay to a measurement.
void graph_replay(benchmark::State& state, shape s) {
  inputs<f4::bf16> x(s.rows, s.cols);
  buffer<u8> codes(s.rows * s.cols / 2), scales(s.rows * s.cols / 16);
  buffer<float> amax(1);
  const f4::block_scaled_view<f4::nvfp4> q{codes.data(), scales.data(), s.rows, s.cols};
  require(f4::device::amax(x.view(0), amax.data()));
  const launch call = [&](i64 i) {
    require(f4::device::quantize(x.view(i), q, amax.data(), f4::quantizer{}, graphs::capturing()));
  };
  const graphs ours(call, x.count()), theirs(ceiling<8, 1>(x, codes, scales), x.count());
  report(state, 2.5625 * static_cast<double>(s.rows * s.cols), ours.replay(), theirs.replay(), 1);
}

/// Rows with a gap between them; the ceiling's have none.
void strided(benchmark::State& state, shape s) {
  inputs<f4::bf16> x(s.rows, s.cols, 64), packed(s.rows, s.cols);
  buffer<u8> codes(s.rows * s.cols / 2), scales(s.rows * s.cols / 16);
  buffer<float> amax(1);
  const f4::block_scaled_view<f4::nvfp4> q{codes.data(), scales.data(), s.rows, s.cols};
  require(f4::device::amax(x.view(0), amax.data()));
  require(f4::device::quantize(x.view(0), q, amax.data()));
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  check(q, f4::matrix_view<f4::bf16 const>{host.data(), s.rows, s.cols, x.ld}, f4::quantizer{},
        amax.to_host()[0], codes, scales);
  report(
      state, 2.5625 * static_cast<double>(s.rows * s.cols),
      [&](i64 i) { require(f4::device::quantize(x.view(i), q, amax.data())); },
      ceiling<8, 1>(packed, codes, scales));
}

/// fp32 and fp16 inputs, RNE.
template <class T>
void source_type(benchmark::State& state, shape s) {
  inputs<T> x(s.rows, s.cols);
  buffer<u8> codes(s.rows * s.cols / 2), scales(s.rows * s.cols / 16);
  buffer<float> amax(1);
  const f4::block_scaled_view<f4::nvfp4> q{codes.data(), scales.data(), s.rows, s.cols};
  require(f4::device::amax(x.view(0), amax.data()));
  require(f4::device::quantize(x.view(0), q, amax.data()));
  const std::vector<T> host = x.matrices[0].to_host();
  check(q, f4::matrix_view<T const>{host, s.rows, s.cols}, f4::quantizer{}, amax.to_host()[0], codes, scales);
  report(
      state, (sizeof(T) + 0.5625) * static_cast<double>(s.rows * s.cols),
      [&](i64 i) { require(f4::device::quantize(x.view(i), q, amax.data())); },
      [&](i64 i) {
        const i64 threads = s.rows * s.cols / 16;
        if constexpr (sizeof(T) == 4)
          wide_ceiling_kernel<<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256>>>(
              reinterpret_cast<word16 const*>(x.view(i).data), threads, codes.data(), scales.data());
        else
          ceiling_kernel<8, 1><<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256>>>(
              reinterpret_cast<word16 const*>(x.view(i).data), threads, codes.data(), scales.data());
      });
}

template <class Run>
void add_one(char const* what, shape s, Run run) {
  benchmark::RegisterBenchmark(name(what, s).c_str(), [=](benchmark::State& state) { run(state, s); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}
template <class Run>
void add(char const* what, Run run) {
  for (shape s : shapes) add_one(what, s, run);
}
/// As well for the other shapes of an LLM's activations.
template <class Run>
void add_for_llms(char const* what, Run run) {
  add(what, run);
  for (i64 tokens : {2048, 4096, 8192, 16384})
    for (i64 features : {4096, 8192, 14336, 28672})
      if (std::none_of(std::begin(shapes), std::end(shapes),
                       [=](shape s) { return s.rows == tokens && s.cols == features; }))
        add_one(what, {tokens, features}, run);
}

const bool registered = [] {
  add("amax", amax);
  add_for_llms("nvfp4_rowwise_nearest", [](auto& state, shape s) { rowwise<f4::nvfp4>(state, s); });
  add("nvfp4_rowwise_nearest_swizzled",
      [](auto& state, shape s) { rowwise<f4::nvfp4, f4::swizzled_128x4>(state, s); });
  add_for_llms("nvfp4_rowwise_stochastic", [](auto& state, shape s) {
    rowwise<f4::nvfp4, f4::linear>(state, s, f4::quantizer{f4::stochastic{draws}});
  });
  add("nvfp4_rowwise_four_over_six", [](auto& state, shape s) {
    rowwise<f4::nvfp4, f4::linear>(state, s, f4::quantizer{f4::nearest_even{}, f4::four_over_six{}});
  });
  const f4::quantizer nearest{};
  const f4::quantizer random{f4::stochastic{draws}};
  const f4::quantizer rht_nearest{f4::nearest_even{}, f4::two_level{}, rht};
  const f4::quantizer rht_random{f4::stochastic{f4::philox{1234, 2}}, f4::two_level{}, rht};
  add("nvfp4_columnwise_nearest", [=](auto& state, shape s) { columnwise(state, s, nearest); });
  add_for_llms("nvfp4_columnwise_rht_nearest",
               [=](auto& state, shape s) { columnwise(state, s, rht_nearest); });
  add("nvfp4_columnwise_rht_stochastic", [=](auto& state, shape s) { columnwise(state, s, rht_random); });
  add_for_llms("nvfp4_both_nearest",
               [=](auto& state, shape s) { both(state, s, f4::blocks_1d{}, nearest, nearest); });
  add("nvfp4_both_stochastic", [=](auto& state, shape s) {
    both(state, s, f4::blocks_1d{}, random, f4::quantizer{f4::stochastic{f4::philox{1234, 2}}});
  });
  add_for_llms("nvfp4_both_row_plain_column_rht",
               [=](auto& state, shape s) { both(state, s, f4::blocks_1d{}, nearest, rht_nearest); });
  add_for_llms("nvfp4_both_16x16",
               [=](auto& state, shape s) { both(state, s, f4::blocks_2d<16, 16>{}, nearest, nearest); });
  using f4::swizzled_128x4;
  add("nvfp4_columnwise_rht_nearest_swizzled",
      [=](auto& state, shape s) { columnwise<swizzled_128x4>(state, s, rht_nearest); });
  add("nvfp4_both_nearest_swizzled",
      [=](auto& state, shape s) { both<swizzled_128x4>(state, s, f4::blocks_1d{}, nearest, nearest); });
  add("nvfp4_both_row_plain_column_rht_swizzled",
      [=](auto& state, shape s) { both<swizzled_128x4>(state, s, f4::blocks_1d{}, nearest, rht_nearest); });
  add("nvfp4_both_16x16_swizzled", [=](auto& state, shape s) {
    both<swizzled_128x4>(state, s, f4::blocks_2d<16, 16>{}, nearest, nearest);
  });
  add("nvfp4_dequantize", dequantize);
  add("amax_both_rht", amax_both);
  add("hadamard_16", hadamard<16>);
  add("hadamard_128", hadamard<128>);
  add("nvfp4_amax_and_quantize", whole_call);
  add_one("nvfp4_rowwise_nearest_graph", {4096, 4096}, graph_replay);
  add_one("nvfp4_rowwise_nearest_gaps", {16384, 14336}, strided);
  add_one("nvfp4_rowwise_nearest_fp32", {16384, 16384}, source_type<float>);
  add_one("nvfp4_rowwise_nearest_fp16", {16384, 16384}, source_type<f4::fp16>);
  add_one("nvfp4_rowwise_nearest_beyond_2^31", {65536, 40960},
          [](auto& state, shape s) { rowwise<f4::nvfp4>(state, s); });
  add("mxfp4_rowwise", [](auto& state, shape s) { rowwise<f4::mxfp4>(state, s); });
  add("mxfp8_rowwise", [](auto& state, shape s) { rowwise<f4::mxfp8>(state, s); });
  add("fp8_tensor", [](auto& state, shape s) { rowwise<f4::fp8_e4m3>(state, s); });
  return true;
}();

}  // namespace

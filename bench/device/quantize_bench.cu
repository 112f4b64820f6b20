// SPDX-License-Identifier: Apache-2.0
// Whole matrices on the GPU, each kernel compared with the ceiling of its traffic. Here: everything but
// quantizers; the quantizers in quantize_bench/.
#include "quantize_bench/quantize_bench.cuh"

using namespace bench;

namespace {

double values(shape s) { return static_cast<double>(s.rows * s.cols); }

void amax(benchmark::State& state, setup const& s) {
  const inputs<f4::bf16> x(s.size.rows, s.size.cols);
  buffer<float> out(1);
  buffer<u8> nothing(1);
  report(
      state, 2.0 * values(s.size), [&](i64 i) { require(f4::device::amax(x.view(i), out.data())); },
      ceiling<0, 0>(x, nothing, nothing));
}

/// Both amaxes from one read.
void amax_both(benchmark::State& state, setup const& s) {
  const inputs<f4::bf16> x(s.size.rows, s.size.cols);
  buffer<float> out(2);
  const launch run = [&](i64 i) {
    require(f4::device::amax_both<nvfp4>(x.view(i), rht, out.data(), out.data() + 1));
  };
  run(0);
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  std::vector<float> want(2);
  require(f4::host::amax_both<nvfp4>(f4::matrix_view<f4::bf16 const>{host, x.rows, x.cols}, rht, &want[0],
                                     &want[1]));
  require(out.to_host() == want, "an amax differs from the host's");
  buffer<u8> nothing(1);
  report(state, 2.0 * values(s.size), run, ceiling<0, 0>(x, nothing, nothing));
}

/// The other way: reads 4 bytes of codes and a byte of scales for two threads, writes 16 bytes of values.
__global__ void __launch_bounds__(256)
    dequantize_ceiling_kernel(f4::u32 const* codes, u8 const* scales, i64 count, word16* y) {
  const i64 i = blockIdx.x * i64{256} + threadIdx.x;
  if (i >= count) return;
  const f4::u32 word = codes[i], scale = scales[i / 2];
  y[i] = word16{{word, word ^ scale, word + scale, scale}};
}

/// dequantize() to bf16, with several outputs in place of several inputs.
void dequantize(benchmark::State& state, setup const& s) {
  const i64 rows = s.size.rows, cols = s.size.cols, compared = std::min<i64>(rows, 2048);
  const inputs<f4::bf16> x(rows, cols);  // overwritten
  const output<nvfp4, linear> from(x.view(0), nearest);
  require(f4::device::quantize(x.view(0), from.q));
  const launch run = [&](i64 i) {
    require(f4::device::dequantize(from.q, f4::matrix_view<f4::bf16>{x.data(i), rows, cols}));
  };
  run(0);
  const std::vector<u8> codes = to_host<u8>(from.q.codes, f4::code_bytes<nvfp4>(compared, cols)),
                        scales = to_host<u8>(from.q.scales, f4::scale_bytes<nvfp4>(compared, cols));
  std::vector<f4::bf16> want(static_cast<size_t>(compared * cols));
  require(f4::host::dequantize(
      f4::block_scaled_view<nvfp4, linear, u8 const>{codes, scales, compared, cols,
                                                     f4::amax_value(from.amax.to_host()[0])},
      f4::matrix_view<f4::bf16>{want, compared, cols}));
  check_same(x.data(0), want, "the values differ from the host's");
  report(state, 2.5625 * values(s.size), run, [&](i64 i) {
    const i64 threads = rows * cols / 8;
    dequantize_ceiling_kernel<<<static_cast<unsigned>(f4::ceil_div<i64>(threads, 256)), 256>>>(
        reinterpret_cast<f4::u32 const*>(from.q.codes), from.q.scales, threads,
        reinterpret_cast<word16*>(x.data(i)));
  });
}

/// transform() of a whole matrix to bf16.
template <int N>
void hadamard(benchmark::State& state, setup const& s) {
  const i64 rows = s.size.rows, cols = s.size.cols, compared = std::min<i64>(rows, 2048);
  const inputs<f4::bf16> x(rows, cols);
  buffer<f4::bf16> y(rows * cols);
  constexpr f4::hadamard<N> transform{{0x0123'4567'89ab'cdefu, 0xd7e8u}};
  const launch run = [&](i64 i) {
    require(f4::device::transform<N>(x.view(i), f4::matrix_view<f4::bf16>{y.data(), rows, cols}, transform));
  };
  run(0);
  const std::vector<f4::bf16> host = to_host<f4::bf16>(x.data(0), compared * cols);
  std::vector<f4::bf16> want(host.size());
  require(f4::host::transform<N>(f4::matrix_view<f4::bf16 const>{host, compared, cols},
                                 f4::matrix_view<f4::bf16>{want, compared, cols}, transform));
  check_same(y.data(), want, "the transform differs from the host's");
  buffer<u8> bytes(rows * cols * 2), nothing(1);
  report(state, 4.0 * values(s.size), run, ceiling<32, 0>(x, bytes, nothing));
}

/// amax() and quantize(), compared with both ceilings one after the other.
void whole_call(benchmark::State& state, setup const& s) {
  const inputs<f4::bf16> x(s.size.rows, s.size.cols);
  const output<nvfp4, linear> out(x.view(0), nearest);
  const launch reading = ceiling<0, 0>(x, out.codes, out.scales),
               quantizing = ceiling<8, 1>(x, out.codes, out.scales);
  report(
      state, 4.5625 * values(s.size),
      [&](i64 i) {
        require(f4::device::amax(x.view(i), out.amax.data()));
        require(f4::device::quantize(x.view(i), out.q));
      },
      [&](i64 i) {
        reading(i);
        quantizing(i);
      });
}

const bool registered = [] {
  add_shapes("amax", amax);
  add_shapes("amax_both_rht", amax_both);
  add_shapes("nvfp4_dequantize", dequantize);
  add_shapes("hadamard_16", hadamard<16>);
  add_shapes("hadamard_128", hadamard<128>);
  add_shapes("nvfp4_amax_and_quantize", whole_call);
  return true;
}();

}  // namespace

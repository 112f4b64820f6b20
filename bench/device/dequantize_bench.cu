// SPDX-License-Identifier: Apache-2.0
// dequantize() for all formats: to bf16 and FP32, into a matrix and, from a columnwise copy, into its
// transpose, also with an odd leading dimension; compared with a kernel of the same traffic.
#include "device/check.cuh"
#include "device/quantizers.cuh"

using namespace bench;

namespace {

using f4::bf16, f4::linear, f4::matrix_view;

/// Reads `in` vectors of 16 bytes and writes `out`, which are more: a CTA so many of `out`, from its share of
/// `in`.
constexpr int each = 4, vectors_of_cta = 256 * each;
__global__ void __launch_bounds__(256) ceiling_of_dequantize(uint4 const* x, i64 in, i64 out, uint4* y) {
  const i64 first = i64{blockIdx.x} * vectors_of_cta, begin = in * blockIdx.x / gridDim.x,
            end = in * (blockIdx.x + 1) / gridDim.x;
  uint4 v[each] = {};
  for (int k = 0; k < each; ++k)
    if (const i64 i = begin + threadIdx.x + 256 * k; i < end) v[k] = x[i];
  for (int k = 0; k < each; ++k)
    if (const i64 i = first + threadIdx.x + 256 * k; i < out) y[i] = {v[0].x, v[1].y, v[2].z, v[k].w};
}

/// A matrix, its rowwise or columnwise copy, and places for the values of that.
template <class F, class T, bool Columnwise>
struct trial {
  inputs<bf16> x;
  inputs<T> y;
  output<F, linear> from{oriented(x.view(0)), nearest};

  trial(shape size, i64 gap) : x(size.rows, size.cols), y(size.rows, size.cols, gap) {
    require(f4::device::quantize(oriented(x.view(0)), from.q));
  }
  template <class U>
  static auto oriented(matrix_view<U> const& m) {
    if constexpr (Columnwise)
      return f4::transposed(m);
    else
      return m;
  }
  auto values(T* data) const { return oriented(matrix_view<T>{data, y.rows, y.cols, y.ld}); }
  void run(i64 i) const { require(f4::device::dequantize(from.q, values(y.data(i)))); }
  /// All values, and what lies between rows.
  void check() const {
    std::vector<T> want = to_host<T>(y.data(0), y.rows * y.ld);
    run(0);
    const std::vector<u8> codes = from.codes.to_host(), scales = from.scales.to_host();
    auto amax = from.q.amax;
    if constexpr (F::has_tensor_scale) amax = f4::amax_value(from.amax.to_host()[0]);
    const f4::block_scaled_view<F, linear, u8 const> q{codes, scales, from.q.rows, from.q.cols, amax};
    require(f4::host::dequantize(q, values(want.data())));
    check_same(y.data(0), want, "the values differ from the host's");
  }
};

/// Checks a smaller matrix, and times one of this size.
template <class F, class T, bool Columnwise>
void run_one(benchmark::State& state, shape size, i64 gap) {
  trial<F, T, Columnwise>({1920, 1152}, gap).check();
  const trial<F, T, Columnwise> t(size, gap);
  const i64 in = static_cast<i64>(t.from.codes.bytes() + t.from.scales.bytes()) / 16,
            out = size.rows * size.cols * static_cast<i64>(sizeof(T)) / 16;
  const buffer<uint4> packed(in);
  report(
      state, 16 * static_cast<double>(in + out), [&](i64 i) { t.run(i); },
      [&](i64 i) {
        ceiling_of_dequantize<<<static_cast<unsigned>(f4::ceil_div<i64>(out, vectors_of_cta)), 256>>>(
            packed.data(), in, out, reinterpret_cast<uint4*>(t.y.data(i)));
      });
}

template <class F, class T>
void add_type(std::string const& name) {
  constexpr shape size{16384, 8192};
  const auto one = [&](char const* what, auto run, i64 gap) {
    add("dequantize/" + name + "/" + what + "/" + to_string(size),
        [=](benchmark::State& state) { run(state, size, gap); });
  };
  one("rowwise", &run_one<F, T, false>, 0);
  one("columnwise", &run_one<F, T, true>, 0);
  one("rowwise_odd_stride", &run_one<F, T, false>, 1);
  one("columnwise_odd_stride", &run_one<F, T, true>, 1);
}
template <class F>
void add_format() {
  add_type<F, bf16>(std::string(F::name) + "_bf16");
  add_type<F, float>(std::string(F::name) + "_fp32");
}

const bool registered = [] {
  add_format<f4::nvfp4>();
  add_format<f4::mxfp4>();
  add_format<f4::mxfp6>();
  add_format<f4::mxfp8>();
  add_format<f4::fp8_e4m3>();
  add_format<f4::fp8_block_e4m3>();
  return true;
}();

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// GEMMs of which an operand, D or the distance of its rows passes 2^31 elements. The rows of operands repeat,
// so that each output is one of a small GEMM's.
#include <fourscale/device/gemm_grouped.cuh>

#include "device/gemm_small_case.cuh"
#include "mma/cpu_gemm.hpp"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr i64 past = i64{1} << 31;

__global__ void repeat_bytes(u8 const* from, i64 period, u8* to, i64 count) {
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < count; i += i64{256} * gridDim.x)
    to[i] = from[i % period];
}
/// Counts the elements of d that are not those of `want`, which has `rows` x `cols`.
template <class T>
__global__ void count_wrong(matrix_view<T const> d, T const* want, i64 rows, i64 cols,
                            unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < d.rows * d.cols; i += i64{256} * gridDim.x) {
    const i64 row = i / d.cols, col = i % d.cols;
    const float x = to_float(d.at(row, col)), y = to_float(want[row % rows * cols + col % cols]);
    mine += bit_cast<u32>(x) != bit_cast<u32>(y);
  }
  if (mine != 0) atomicAdd(wrong, mine);
}

/// `count` bytes on the device: those of a vector, again and again.
struct repeated_bytes : device_buffer<u8> {
  repeated_bytes(std::vector<u8> const& bytes, i64 count) : device_buffer<u8>(count) {
    const device_buffer<u8> period(bytes);
    repeat_bytes<<<2048, 256>>>(period.data(), static_cast<i64>(bytes.size()), data(), count);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
};

/// So many rows on the device: those of x, again and again.
template <class F>
struct repeated_operand {
  repeated_bytes codes, scales;
  block_scaled_view<F, linear> view;

  repeated_operand(gemm_operand_data<F, linear> const& x, i64 rows)
      : codes(x.codes, code_bytes<F>(rows, x.cols)),
        scales(x.scales, scale_bytes<F>(rows, x.cols)),
        view(codes.data(), scales.data(), rows, x.cols, amax_value(x.amax)) {}
};

template <class T>
void check_repeats(matrix_view<T> const& d, std::vector<T> const& want, i64 rows, i64 cols) {
  const device_buffer<T> expected(want);
  const device_buffer<unsigned long long> wrong(std::vector<unsigned long long>(1));
  count_wrong<<<2048, 256>>>(matrix_view<T const>{d.data, d.rows, d.cols, d.ld}, expected.data(), rows, cols,
                             wrong.data());
  CHECK(wrong.to_host()[0] == 0);
}

struct long_shape {
  i64 m, n, k, ld;
};
constexpr long_shape shapes[] = {{46400, 46400, 64, 46400},            // D
                                 {1'100'000, 40, 2048, 40},            // A
                                 {40, 1'100'000, 2048, 1'100'000},     // B
                                 {1000, 24, 2'200'000 / 64 * 64, 24},  // A, by its columns
                                 {3, 200, 64, past - 8}};              // from row to row of D

template <class F, class T>
void check(long_shape const& s, auto const& gemm) {
  INFO(F::name << ' ' << s.m << " x " << s.n << " x " << s.k << ", ld " << s.ld);
  const i64 rows = s.k > 4096 ? 8 : 40;  // of the small GEMM, at most
  gemm_case<F, linear, F, linear, T> c({std::min(s.m, rows), std::min(s.n, rows), s.k, {1.25f, 0.0f}});
  const repeated_operand<F> a(c.a.data, s.m), b(c.b.data, s.n);
  const device_buffer<T> memory((s.m - 1) * s.ld + s.n);
  const matrix_view<T> d{memory.data(), s.m, s.n, s.ld};
  REQUIRE(gemm(a.view, b.view, d, c.o.factors) == errc::ok);
  check_repeats(d, c.on_host(cpu_gemm{}), c.o.m, c.o.n);
}

}  // namespace

TEST_CASE("device gemm: past 2^31 elements", "[device][gemm][large]") {
  if (!gpu_or_warn()) return;
  for (long_shape const& s : shapes) {
    check<nvfp4, bf16>(s, blackwell_gemm{});
    check<nvfp4, bf16>(s, bf16_gemm{});
  }
}

TEST_CASE("device gemm f16: past 2^31 elements", "[device][gemm][large]") {
  if (!gpu_or_warn()) return;
  for (long_shape const& s : shapes) check<mxfp8_e4m3, bf16>(s, f16_gemm{});
}

TEST_CASE("device gemm grouped: past 2^31 elements of D", "[device][gemm][grouped][large]") {
  if (!hopper_or_warn()) return;
  namespace detail = device::detail;
  constexpr i64 count = 4, m = 268'000, n = 2064, k = 64;
  static_assert(count * m * n > past);
  gemm_case<nvfp4, linear, nvfp4, linear, bf16> c({40, 24, k});
  const repeated_operand<nvfp4> a(c.a.data, m), b(c.b.data, n);
  const device_buffer<bf16> memory(count * m * n);
  const matrix_view<bf16> d{memory.data(), count * m, n};
  detail::grouped_place place{detail::groups_along::rows};
  for (i64 i = 0; i < count; ++i) place.add(m, n, k);
  const auto gemm = [&](int i) { return detail::grouped_operands<nvfp4, linear>{a.view, b.view, i * m}; };
  const errc e = in_workspace(place.bytes(), nullptr, [&](u8* workspace, gemm_steps*) {
    const detail::grouped_call<nvfp4, linear, bf16> call(gemm, place, d, {},
                                                         detail::aligned_begin({workspace, place.bytes()}));
    REQUIRE(call.state == errc::ok);
    const errc decoded = call.decode<true>(nullptr);
    return decoded == errc::ok ? call.multiply(nullptr) : decoded;
  });
  REQUIRE(e == errc::ok);
  check_repeats(d, c.on_host(cpu_gemm{}), 40, 24);
}

TEST_CASE("device gemm_weight_only: past 2^31 elements", "[device][gemm][small][large]") {
  if (!gpu_or_warn()) return;
  const auto check = [](i64 m, i64 n, i64 k, i64 ld) {
    INFO(m << " x " << n << " x " << k << ", ld " << ld);
    weight_only::small_case<bf16, linear, float> c({m, 40, k}, weight_only::data::exact);
    const repeated_bytes codes(c.codes, code_bytes<nvfp4>(n, k)), scales(c.scales, scale_bytes<nvfp4>(n, k));
    block_scaled_view<nvfp4> w{codes.data(), scales.data(), n, k};
    w.amax = amax_value(c.amax);
    const device_buffer<bf16> x(c.x);
    const device_buffer<float> memory((m - 1) * ld + n);
    const matrix_view<float> d{memory.data(), m, n, ld};
    REQUIRE(device::gemm_weight_only(matrix_view<bf16 const>{x.data(), m, k}, w, d) == errc::ok);
    check_repeats(d, c.oracle(), m, 40);
  };
  check(16, 300'032, 8192, 300'032);       // W
  check(50, 44'000'000, 256, 44'000'000);  // D, and W
  check(3, 4096, 1024, past - 4);          // from row to row of D
}

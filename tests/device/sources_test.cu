// SPDX-License-Identifier: Apache-2.0
// What surrounds the kernels: source types, streams and graphs, errors, sizes past 2^31.
#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device: float and fp16 sources equal the host", "[device][sources]") {
  if (!gpu_or_warn()) return;
  check_all_forms<nvfp4>(test_matrix<float>(128, 256, 256, 0));
  check_all_forms<nvfp4>(test_matrix<float>(48, 80, 83, 1, ugly_value));
  check_all_forms<nvfp4>(test_matrix<fp16>(128, 256, 256, 0));
  check_all_forms<nvfp4>(test_matrix<fp16>(48, 80, 83, 1, ugly_value));
}

TEST_CASE("device: the older scale order and the OCP rule equal the host", "[device][sources]") {
  if (!gpu_or_warn()) return;
  check_all_forms<nvfp4>(test_matrix<bf16>(512, 1024, 1024, 0), report::quiet,
                         quantizer<nearest_even, two_level_division>{});
  check_all_forms<mxfp4>(test_matrix<bf16>(512, 1024, 1024, 0), report::quiet,
                         quantizer<nearest_even, power_of_two_floor>{});
}

TEST_CASE("device: amax and quantize replay from a graph", "[device][graph]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(256, 512, 512, 0);
  device_buffer<float> d_amax(1);
  device_buffer<u8> codes(code_bytes<nvfp4>(256, 512)), scales(scale_bytes<nvfp4>(256, 512));
  const block_scaled_view<nvfp4> d{codes.data(), scales.data(), 256, 512, amax_in(d_amax.data())};
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(device::amax(m.on_device(), d_amax.data(), stream) == errc::ok);
  REQUIRE(device::quantize(m.on_device(), d, quantizer{}, stream) == errc::ok);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);
  std::vector<u8> host_codes(static_cast<size_t>(code_bytes<nvfp4>(256, 512)));
  std::vector<u8> host_scales(static_cast<size_t>(scale_bytes<nvfp4>(256, 512)));
  const block_scaled_view<nvfp4> q{host_codes, host_scales, 256, 512, amax_value(amax_of(m.on_host()))};
  REQUIRE(host::quantize(m.on_host(), q) == errc::ok);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cudaMemset(codes.data(), poison, host_codes.size()) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaGraphLaunch(replay, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    check_same_codes(q, codes.to_host(), host_codes);
    check_same_scales(q, scales.to_host(), host_scales);
  }
  CHECK(cudaGraphExecDestroy(replay) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("device: a broken rule is named and nothing is launched", "[device][errors]") {
  // The check comes before any CUDA call, so these need no GPU; the buffers are host memory that must stay as
  // it is.
  alignas(16) static bf16 x[64 * 64];
  alignas(4) static u8 codes[64 * 32], scales[64 * 4];
  for (u8& c : codes) c = poison;
  for (u8& s : scales) s = poison;
  float amax = 1;
  using view = matrix_view<bf16 const>;
  using packed_view = block_scaled_view<nvfp4>;
  const auto result = [&](view m, packed_view q) {
    if (q.amax == tensor_amax<nvfp4>{}) q.amax = amax_in(&amax);
    return device::quantize(m, q);
  };
  CHECK(result({x, 64, 40}, {codes, scales, 64, 40}) == errc::partial_block);
  CHECK(result({x, 0, 64}, {codes, scales, 0, 64}) == errc::empty_matrix);
  CHECK(result({x, 64, 64}, {codes, scales, 64, 32}) == errc::shape_mismatch);
  CHECK(result({x, 64, 64, 32}, {codes, scales, 64, 64}) == errc::bad_leading_dimension);
  CHECK(result({nullptr, 64, 64}, {codes, scales, 64, 64}) == errc::null_pointer);
  CHECK(result({x, 64, 64}, {codes, nullptr, 64, 64}) == errc::null_pointer);
  bf16 const* odd = reinterpret_cast<bf16 const*>(reinterpret_cast<u8 const*>(x) + 1);
  CHECK(result({odd, 32, 64}, {codes, scales, 32, 64}) == errc::misaligned);
  CHECK(result({x, 64, 64}, {reinterpret_cast<u8*>(x) + 100, scales, 64, 64}) == errc::overlap);
  packed_view small{codes, scales, 64, 64};
  small.code_capacity = 64 * 32 - 1;
  CHECK(result({x, 64, 64}, small) == errc::buffer_too_small);
  const packed_view good{codes, scales, 64, 64, amax_in(&amax)}, forgotten{codes, scales, 64, 64};
  const quantizer larger{nearest_even{}, four_over_six{}};
  CHECK(device::quantize(view{x, 64, 64}, good, larger) == errc::other_range);
  CHECK(device::quantize(view{x, 64, 64}, good, larger, blocks_2d<16, 16>{}) == errc::other_range);
  CHECK(device::quantize(view{x, 64, 64}, forgotten) == errc::no_amax);
  CHECK(result({x, 64, 64}, {codes, scales, 64, 64, amax_of_groups(&amax)}) == errc::amax_of_groups);
  CHECK(result({x, 64, 64}, {codes, scales, 64, 64, amax_in(nullptr)}) == errc::null_pointer);
  float const* const in_codes = reinterpret_cast<float const*>(codes + 32);
  CHECK(result({x, 64, 64}, {codes, scales, 64, 64, amax_in(in_codes)}) == errc::overlap);
  CHECK(device::amax(view{x, 64, 64}, nullptr) == errc::null_pointer);
  CHECK(device::dequantize(good, matrix_view<float>{nullptr, 64, 64}) == errc::null_pointer);
  CHECK(device::dequantize(forgotten, matrix_view<bf16>{x, 64, 64}) == errc::no_amax);
  CHECK(device::quantize_both(view{x, 64, 64}, good, forgotten) == errc::no_amax);
  CHECK(device::transpose(good, forgotten) == errc::no_amax);
  for (u8 c : codes) REQUIRE(c == poison);
  for (u8 s : scales) REQUIRE(s == poison);
}

namespace {

__global__ void fill(matrix_view<bf16> x) {
  for (i64 i = blockIdx.x * i64{256} + threadIdx.x; i < x.rows * x.cols; i += i64{gridDim.x} * 256)
    x.data[i] = from_float<bf16>(activation(static_cast<u64>(i / x.cols), static_cast<u64>(i)));
}

/// Rows [first, first + rows) of what fill() makes, on the host.
std::vector<bf16> filled_rows(i64 first, i64 rows, i64 cols) {
  std::vector<bf16> part(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < part.size(); ++i) {
    const u64 at = static_cast<u64>(first * cols) + i;
    part[i] = from_float<bf16>(activation(at / static_cast<u64>(cols), at));
  }
  return part;
}

}  // namespace

TEST_CASE("device: rows in chunks whose items 31 bits can count", "[device]") {
  constexpr i64 most = (i64{1} << 30) - 1;
  for (i64 rows : {i64{1}, i64{7}, i64{16384}, i64{1} << 33})
    for (i64 items : {i64{1}, i64{3}, i64{1024}, i64{1} << 20, most})
      for (i64 each : {1, 4}) {
        if (rows > (i64{1} << 45) / items) continue;
        const device::detail::row_chunks chunks(rows, items, each);
        CHECK(chunks.rows * items < i64{1} << 31);
        CHECK(chunks.grid.x * each * device::detail::cta_threads >= chunks.rows * items);
        CHECK(chunks.grid.y * chunks.rows >= rows);
        CHECK((chunks.grid.y - 1) * chunks.rows < rows);
      }
  CHECK(device::detail::row_chunks::can_take(most));
  CHECK_FALSE(device::detail::row_chunks::can_take(most + 1));
}

TEST_CASE("device: columns of more than 2^31 elements, and of more tiles than a grid has rows",
          "[device][large]") {
  if (!gpu_or_warn()) return;
  constexpr i64 rows = 65535 * 128 + 512, cols = 272, tail = 512, blocks = tail / 16;
  static_assert(rows * cols > i64{1} << 31);
  device_buffer<bf16> x(rows * cols);
  device_buffer<u8> codes(code_bytes<nvfp4>(rows, cols)), scales(scale_bytes<nvfp4>(rows, cols));
  device_buffer<u8> codes_t(code_bytes<nvfp4>(cols, rows)), scales_t(scale_bytes<nvfp4>(cols, rows));
  fill<<<4096, 256>>>({x.data(), rows, cols});
  const matrix_view<bf16 const> m{x.data(), rows, cols};
  block_scaled_view<nvfp4> d{codes.data(), scales.data(), rows, cols};
  block_scaled_view<nvfp4> dt{codes_t.data(), scales_t.data(), cols, rows};
  d.amax = dt.amax = amax_value(400.0f);
  // The host quantizes the first and the last rows only.
  const auto check = [&](i64 first) {
    const std::vector<bf16> part = filled_rows(first, tail, cols);
    std::vector<u8> want_codes(static_cast<size_t>(code_bytes<nvfp4>(cols, tail))),
        got_codes(want_codes.size());
    std::vector<u8> want_scales(static_cast<size_t>(scale_bytes<nvfp4>(cols, tail))),
        got_scales(want_scales.size());
    const block_scaled_view<nvfp4> q{want_codes, want_scales, cols, tail, dt.amax};
    REQUIRE(host::quantize(transposed(matrix_view<bf16 const>{part, tail, cols}), q) == errc::ok);
    const auto fetch = [&](std::vector<u8>& to, u8 const* from, i64 bytes, i64 stride) {
      REQUIRE(cudaMemcpy2D(to.data(), static_cast<u64>(bytes), from, static_cast<u64>(stride),
                           static_cast<u64>(bytes), static_cast<u64>(cols),
                           cudaMemcpyDeviceToHost) == cudaSuccess);
    };
    fetch(got_codes, codes_t.data() + dt.code_offset(0, first / 16), blocks * 8, dt.code_offset(1, 0));
    fetch(got_scales, scales_t.data() + dt.scale_offset(0, first / 16), blocks, dt.scale_offset(1, 0));
    check_same_codes(q, got_codes, want_codes);
    check_same_scales(q, got_scales, want_scales);
  };
  for (bool both : {false, true}) {
    REQUIRE(cudaMemset(codes_t.data(), poison, static_cast<u64>(code_bytes<nvfp4>(cols, rows))) ==
            cudaSuccess);
    REQUIRE((both ? device::quantize_both(m, d, dt) : device::quantize(transposed(m), dt)) == errc::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    check(0);
    check(65535 * 128 - 256);
    check(rows - tail);
  }
}

TEST_CASE("device: more than 2^31 elements", "[device][large]") {
  if (!gpu_or_warn()) return;
  constexpr i64 rows = 131072 + 35, cols = 16384 + 16, tail = 40;
  static_assert(rows * cols > i64{1} << 31);
  device_buffer<bf16> x(rows * cols);
  device_buffer<u8> codes(code_bytes<nvfp4>(rows, cols)),
      scales(scale_bytes<nvfp4, swizzled_128x4>(rows, cols));
  device_buffer<float> d_amax(1);
  fill<<<4096, 256>>>({x.data(), rows, cols});
  const matrix_view<bf16 const> m{x.data(), rows, cols};
  const block_scaled_view<nvfp4, swizzled_128x4> d{codes.data(), scales.data(), rows, cols,
                                                   amax_in(d_amax.data())};
  REQUIRE(device::amax(m, d_amax.data()) == errc::ok);
  REQUIRE(device::quantize(m, d) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  // The host quantizes the last rows only, under the amax of all.
  const std::vector<bf16> last = filled_rows(rows - tail, tail, cols);
  std::vector<u8> want_codes(static_cast<size_t>(code_bytes<nvfp4>(tail, cols))),
      got_codes(want_codes.size());
  std::vector<u8> want_scales(static_cast<size_t>(scale_bytes<nvfp4>(tail, cols)));
  const block_scaled_view<nvfp4> q{want_codes, want_scales, tail, cols, amax_value(d_amax.to_host()[0])};
  REQUIRE(host::quantize(matrix_view<bf16 const>{last, tail, cols}, q) == errc::ok);
  REQUIRE(cudaMemcpy(got_codes.data(), codes.data() + code_bytes<nvfp4>(rows - tail, cols), got_codes.size(),
                     cudaMemcpyDeviceToHost) == cudaSuccess);
  check_same_codes(q, got_codes, want_codes);
  const std::vector<u8> got_scales = scales.to_host();
  bool same = true;
  for (i64 r = 0; r < tail; ++r)
    for (i64 b = 0; b < q.blocks(); ++b)
      same = same && got_scales[static_cast<size_t>(d.scale_offset(rows - tail + r, b))] ==
                         want_scales[static_cast<size_t>(q.scale_offset(r, b))];
  CHECK(same);
}

// SPDX-License-Identifier: Apache-2.0
// Many packed matrices in one launch: the bits of the host, whose bits are those of each group by itself.
#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Ragged groups of together at most `rows` rows; one in four is empty, the last leaves rows to nobody.
std::vector<i64> ragged(i64 groups, i64 rows, u64 seed) {
  std::vector<i64> offsets{0};
  const u64 mean = static_cast<u64>(rows / groups + 1);
  for (i64 g = 0; g < groups; ++g) {
    const u64 r = mix(seed + static_cast<u64>(g));
    const i64 size = r % 4 == 0 ? 0 : static_cast<i64>((r >> 8) % (2 * mean)), left = rows - offsets.back();
    offsets.push_back(offsets.back() + (size < left ? size : left));
  }
  return offsets;
}

/// The device compared with the host; bytes that belong to no group keep their poison in both.
template <class F, class Layout, class T, class Quantizer = quantizer<>>
void check_grouped(test_matrix<T> const& m, std::vector<i64> const& offsets, Quantizer const& recipe = {},
                   i64 misaligned = 0) {
  INFO(F::name << (Layout::has_padding ? " swizzled " : " linear ") << m.rows << 'x' << m.cols << " in "
               << offsets.size() - 1 << " groups, start " << m.start);
  const i64 count = static_cast<i64>(offsets.size()) - 1;
  const device_buffer<i64> d_offsets(offsets);
  const row_groups groups{offsets.data(), count}, d_groups{d_offsets.data(), count};
  std::vector<float> amax(static_cast<size_t>(count));
  device_buffer<float> d_amax(count);
  REQUIRE(host::amax_grouped(m.on_host(), groups, amax.data()) == errc::ok);
  REQUIRE(device::amax_grouped(m.on_device(), d_groups, d_amax.data()) == errc::ok);
  CHECK(d_amax.to_host() == amax);

  const i64 codes = code_bytes<F>(m.rows, m.cols),
            scales = grouped_scale_bytes<F, Layout>(m.rows, m.cols, count);
  std::vector<u8> c(static_cast<size_t>(codes + canary), poison),
      s(static_cast<size_t>(scales + canary), poison);
  device_buffer<u8> d_c(c), d_s(s);
  const tensor_amax<F> of_groups{amax_of_groups(amax.data()), recipe},
      d_of_groups{amax_of_groups(d_amax.data()), recipe};
  const block_scaled_view<F, Layout> q{c.data() + misaligned, s.data() + misaligned, m.rows, m.cols,
                                       of_groups};
  const block_scaled_view<F, Layout> d{d_c.data() + misaligned, d_s.data() + misaligned, m.rows, m.cols,
                                       d_of_groups};
  REQUIRE(host::quantize_grouped(m.on_host(), q, groups, recipe) == errc::ok);
  REQUIRE(device::quantize_grouped(m.on_device(), d, d_groups, recipe) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  if (misaligned == 0)
    check_same_codes(q, d_c.to_host(), c);
  else
    check_same_bytes(d_c.to_host(), c);
  check_same_bytes(d_s.to_host(), s);
}

template <class F, class T>
void check_layouts(test_matrix<T> const& m, std::vector<i64> const& offsets) {
  check_grouped<F, linear>(m, offsets);
  check_grouped<F, swizzled_128x4>(m, offsets);
}

template <class F>
void check_format() {
  const test_matrix<bf16> m(3000, 416, 416, 0);  // 26 blocks of 16: the last tile of a row is not full
  check_layouts<F>(m, {0, 3000});
  check_layouts<F>(m, {0, 0, 1, 129, 129, 257, 400, 2999});
  for (const i64 groups : {2, 33, 64, 512}) check_layouts<F>(m, ragged(groups, m.rows, 7));
  for (const i64 cols : {1056, 4224}) {  // tiles two and four times as wide, the last not full
    const test_matrix<bf16> wide(300, cols, cols, 0);
    check_layouts<F>(wide, {0, 7, 7, 150, 300});
    check_layouts<F>(wide, ragged(40, wide.rows, 8));
  }
  check_layouts<F>(m, std::vector<i64>(41, 0));                                       // all empty
  check_layouts<F>(test_matrix<bf16>(70, 96, 104, 0, ugly_value), ragged(5, 70, 1));  // rows with gaps
  check_layouts<F>(test_matrix<bf16>(70, 96, 101, 3), ragged(5, 70, 2));              // no vectors
}

}  // namespace

TEST_CASE("device: grouped nvfp4, mxfp4 and mxfp8 equal the host", "[device][grouped]") {
  if (!gpu_or_warn()) return;
  check_format<nvfp4>();
  check_format<mxfp4>();
  check_format<mxfp8_e4m3>();
}

TEST_CASE("device: grouped stochastic, Hadamard and FP8 recipes equal the host", "[device][grouped]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(900, 416, 416, 0);
  const std::vector<i64> offsets = ragged(17, m.rows, 3);
  const quantizer random{stochastic{philox{7, 1}}};
  const quantizer rotated{stochastic{philox{7, 2}}, two_level{}, hadamard<16>{te_signs}};
  check_grouped<nvfp4, linear>(m, offsets, random);
  check_grouped<nvfp4, swizzled_128x4>(m, offsets, rotated);
  check_grouped<nvfp4, linear>(m, offsets, quantizer{nearest_even{}, four_over_six{}});
  check_grouped<fp8_e4m3, linear>(m, offsets);
}

TEST_CASE("device: grouped fp32 and fp16 sources and misaligned outputs equal the host",
          "[device][grouped]") {
  if (!gpu_or_warn()) return;
  const std::vector<i64> offsets = ragged(9, 300, 4);
  check_layouts<nvfp4>(test_matrix<float>(300, 160, 160, 0), offsets);
  check_layouts<mxfp8_e4m3>(test_matrix<float>(300, 160, 163, 1), offsets);
  check_layouts<nvfp4>(test_matrix<fp16>(300, 160, 160, 0, ugly_value), offsets);
  const test_matrix<bf16> m(300, 160, 160, 0);
  check_grouped<nvfp4, linear>(m, offsets, quantizer{}, 3);
  check_grouped<nvfp4, swizzled_128x4>(m, offsets, quantizer{}, 8);
  check_grouped<nvfp4, swizzled_128x4>(m, offsets, quantizer{}, 3);
}

TEST_CASE("device: grouped rows with amaxes of their own equal the host", "[device][grouped]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(300, 160, 160, 0);
  const std::vector<i64> offsets = ragged(9, m.rows, 5);
  const device_buffer<i64> d_offsets(offsets);
  std::vector<float> of_row(300);
  REQUIRE(host::row_amax(m.on_host(), of_row.data()) == errc::ok);
  const device_buffer<float> d_of_row(of_row);
  const i64 bytes = grouped_scale_bytes<nvfp4, swizzled_128x4>(300, 160, 9);
  std::vector<u8> c(300 * 80, poison), s(static_cast<size_t>(bytes), poison);
  device_buffer<u8> d_c(c), d_s(s);
  block_scaled_view<nvfp4, swizzled_128x4> q{c, s, 300, 160}, d{d_c.data(), d_s.data(), 300, 160};
  q.amax = amax_of_rows(of_row.data());
  d.amax = amax_of_rows(d_of_row.data());
  REQUIRE(host::quantize_grouped(m.on_host(), q, {offsets.data(), 9}) == errc::ok);
  REQUIRE(device::quantize_grouped(m.on_device(), d, {d_offsets.data(), 9}) == errc::ok);
  check_same_bytes(d_c.to_host(), c);
  check_same_bytes(d_s.to_host(), s);
  const device_buffer<i32> narrow(std::vector<i32>(offsets.begin(), offsets.end()));
  REQUIRE(cudaMemset(d_c.data(), poison, c.size()) == cudaSuccess);
  REQUIRE(cudaMemset(d_s.data(), poison, s.size()) == cudaSuccess);
  REQUIRE(device::quantize_grouped(m.on_device(), d, {narrow.data(), 9}) == errc::ok);
  check_same_bytes(d_c.to_host(), c);
  check_same_bytes(d_s.to_host(), s);
}

TEST_CASE("device: a captured launch takes the groups of its replay", "[device][grouped]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(512, 128, 128, 0);
  const std::vector<i64> now = ragged(8, m.rows, 6), then = ragged(8, m.rows, 60);
  const device_buffer<i64> d_offsets(now);
  device_buffer<u8> d_c(512 * 64), d_s(512 * 8);
  device_buffer<float> d_amax(8);
  const row_groups groups{d_offsets.data(), 8};
  const block_scaled_view<nvfp4> d{d_c.data(), d_s.data(), 512, 128, amax_of_groups(d_amax.data())};
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(device::amax_grouped(m.on_device(), groups, d_amax.data(), stream) == errc::ok);
  REQUIRE(device::quantize_grouped(m.on_device(), d, groups, quantizer{}, stream) == errc::ok);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (std::vector<i64> const* offsets : {&now, &then}) {
    std::vector<u8> c(512 * 64, poison), s(512 * 8, poison);
    std::vector<float> amax(8);
    REQUIRE(cudaMemset(d_c.data(), poison, c.size()) == cudaSuccess);
    REQUIRE(cudaMemset(d_s.data(), poison, s.size()) == cudaSuccess);
    REQUIRE(cudaMemcpy(d_offsets.data(), offsets->data(), 9 * sizeof(i64), cudaMemcpyHostToDevice) ==
            cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(host::amax_grouped(m.on_host(), {offsets->data(), 8}, amax.data()) == errc::ok);
    const block_scaled_view<nvfp4> q{c, s, 512, 128, amax_of_groups(amax.data())};
    REQUIRE(host::quantize_grouped(m.on_host(), q, {offsets->data(), 8}) == errc::ok);
    check_same_bytes(d_c.to_host(), c);
    check_same_bytes(d_s.to_host(), s);
  }
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("device: broken rules of groups are refused before a launch", "[device][grouped]") {
  bf16 x[64]{};
  u8 codes[32]{}, scales[4]{};
  float amax[1]{};
  const i64 offsets[2] = {0, 2};
  const matrix_view<bf16 const> m{x, 2, 32};
  block_scaled_view<nvfp4> q{codes, scales, 2, 32, amax_of_groups(amax)};
  CHECK(device::quantize_grouped(m, q, {nullptr, 1}) == errc::null_pointer);
  CHECK(device::quantize_grouped(m, q, {offsets, 0}) == errc::empty_matrix);
  CHECK(device::quantize_grouped(matrix_view<bf16 const>{x, 1, 32}, q, {offsets, 1}) == errc::shape_mismatch);
  CHECK(device::amax_grouped(m, {offsets, 1}, nullptr) == errc::null_pointer);
  CHECK(device::amax_grouped(m, {offsets, 0}, amax) == errc::empty_matrix);
  CHECK(device::quantize_grouped(m, q, {offsets, 1}, quantizer{nearest_even{}, four_over_six{}}) ==
        errc::other_range);
  q.amax = amax_of_groups(nullptr);
  CHECK(device::quantize_grouped(m, q, {offsets, 1}) == errc::null_pointer);
  q.amax = {};
  CHECK(device::quantize_grouped(m, q, {offsets, 1}) == errc::no_amax);
}

// SPDX-License-Identifier: Apache-2.0
// The same calls give the same bits: a hundred times, on several streams at once, and replayed from a graph.
#include <cstddef>
#include <fourscale/device/statistics.cuh>

#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr i64 rows = 528, cols = 784;  // no multiple of a tile
constexpr int repeats = 100, stream_count = 4;
constexpr hadamard<16> rht{te_signs};
constexpr quantizer forward{stochastic{philox{7, 2}}};
constexpr quantizer wgrad{stochastic{philox{7, 1}}, two_level{}, rht};
constexpr quantizer lighter{nearest_even{}, four_over_six<>{}};
const std::vector<i64> offsets{0, 5, 5, 300, 517};
constexpr i64 groups = 4;

/// What one run writes: parts of one buffer, so that one copy brings all of it back.
class outputs {
 public:
  outputs()
      : bytes_(static_cast<i64>(total())), scratch_(device::statistics_workspace_bytes + statistics_bytes) {}

  /// Poisons everything, and then fills it: some of each kind of kernel.
  errc run(matrix_view<bf16 const> x, i64 const* d_offsets, cudaStream_t stream) {
    used_ = 0;
    if (cudaMemsetAsync(bytes_.data(), poison, total(), stream) != cudaSuccess) return errc::cuda_failed;
    float *const amax = room<float>(2), *const group_amax = room<float>(groups);
    const auto q = quantized<nvfp4, swizzled_128x4>(amax_in(amax), rows, cols);
    const auto qt = quantized<nvfp4, linear>(amax_in(amax + 1), cols, rows);
    const auto squares = quantized<nvfp4, swizzled_128x4>(amax_in(amax), rows, cols);
    const auto weighed = quantized<nvfp4, linear>({amax_in(amax), lighter}, rows, cols);
    const auto grouped = quantized<nvfp4, linear>(amax_of_groups(group_amax), rows, cols);
    u8* const workspace = scratch_.data();
    statistics* const sums = reinterpret_cast<statistics*>(workspace + device::statistics_workspace_bytes);
    u8* const sums_without_padding = room<u8>(sizeof(statistics));
    const matrix_view<float> y(room<float>(rows * cols), rows, cols), z(room<float>(rows * cols), rows, cols);
    const row_groups of_rows(d_offsets, groups);
    const auto copy_sums = [&] {
      return cudaMemcpyAsync(sums_without_padding, sums, offsetof(statistics, amax) + sizeof(float),
                             cudaMemcpyDeviceToDevice, stream) == cudaSuccess
                 ? errc::ok
                 : errc::cuda_failed;
    };
    const auto calls = [&](auto const&... call) {
      errc e = errc::ok;
      static_cast<void>((((e = call()) == errc::ok) && ...));
      return e;
    };
    return calls([&] { return device::amax_both<nvfp4>(x, rht, amax, amax + 1, stream); },
                 [&] { return device::quantize_both(x, q, qt, forward, wgrad, blocks_1d{}, stream); },
                 [&] { return device::quantize(x, squares, quantizer{}, blocks_2d<16, 16>{}, stream); },
                 [&] { return device::quantize(x, weighed, lighter, stream); },
                 [&] { return device::statistics_of(x, q, sums, workspace, stream); }, copy_sums,
                 [&] { return device::dequantize(q, y, stream); },
                 [&] { return device::transform<16>(x, z, rht, stream); },
                 [&] { return device::amax_grouped(x, of_rows, group_amax, stream); },
                 [&] { return device::quantize_grouped(x, grouped, of_rows, forward, stream); });
  }
  std::vector<u8> to_host() const { return bytes_.to_host(); }

 private:
  static constexpr u64 round(u64 bytes) { return (bytes + 255) / 256 * 256; }
  static constexpr u64 total() {
    constexpr u64 values = rows * cols, quantized = values / 2 + 2 * (rows + 128) * (cols / 16 + 16) + 1024;
    return 5 * quantized + 2 * (values * sizeof(float) + 256) + round(device::statistics_workspace_bytes) +
           4096;
  }
  template <class T>
  T* room(i64 count) {
    T* const p = reinterpret_cast<T*>(bytes_.data() + used_);
    used_ += round(static_cast<u64>(count) * sizeof(T));
    REQUIRE(used_ <= total());
    return p;
  }
  template <class F, class Layout>
  block_scaled_view<F, Layout> quantized(tensor_amax<F> amax, i64 r, i64 c) {
    u8* const codes = room<u8>(code_bytes<F>(r, c));
    return {codes, room<u8>(scale_bytes<F, Layout>(r, c)), r, c, amax};
  }

  static constexpr i64 statistics_bytes = sizeof(statistics);

  device_buffer<u8> bytes_, scratch_;
  u64 used_ = 0;
};

/// Four streams, with outputs each.
struct several_streams {
  cudaStream_t stream[stream_count] = {};
  outputs out[stream_count];

  several_streams() {
    for (cudaStream_t& s : stream)
      REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~several_streams() {
    for (cudaStream_t s : stream) cudaStreamDestroy(s);
  }
  several_streams(several_streams const&) = delete;
  several_streams& operator=(several_streams const&) = delete;

  /// What one call by itself writes.
  std::vector<u8> first_run(matrix_view<bf16 const> x, i64 const* d_offsets) {
    REQUIRE(out[0].run(x, d_offsets, stream[0]) == errc::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return out[0].to_host();
  }
  /// After all streams are done: how many outputs differ from `want`.
  int different(std::vector<u8> const& want) const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    int count = 0;
    for (outputs const& o : out) count += o.to_host() != want;
    return count;
  }
};

}  // namespace

TEST_CASE("determinism: a hundred runs on four streams at once give the same bytes",
          "[device][determinism]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(rows, cols, cols, 0);
  const device_buffer<i64> d_offsets(offsets);
  several_streams s;
  const std::vector<u8> want = s.first_run(m.on_device(), d_offsets.data());
  int different = 0;
  for (int i = 0; i < repeats; ++i) {
    for (int k = 0; k < stream_count; ++k)
      REQUIRE(s.out[k].run(m.on_device(), d_offsets.data(), s.stream[k]) == errc::ok);
    different += s.different(want);
  }
  CHECK(different == 0);
}

TEST_CASE("determinism: a graph replayed a hundred times gives the bytes of the calls",
          "[device][determinism]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(rows, cols, cols, 0);
  const device_buffer<i64> d_offsets(offsets);
  several_streams s;
  const std::vector<u8> want = s.first_run(m.on_device(), d_offsets.data());
  cudaGraphExec_t replay[stream_count] = {};
  for (int k = 0; k < stream_count; ++k) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(s.stream[k], cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const errc e = s.out[k].run(m.on_device(), d_offsets.data(), s.stream[k]);
    REQUIRE(cudaStreamEndCapture(s.stream[k], &graph) == cudaSuccess);
    REQUIRE(e == errc::ok);
    REQUIRE(cudaGraphInstantiate(&replay[k], graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  int different = 0;
  for (int i = 0; i < repeats; ++i) {
    for (int k = 0; k < stream_count; ++k) REQUIRE(cudaGraphLaunch(replay[k], s.stream[k]) == cudaSuccess);
    different += s.different(want);
  }
  for (cudaGraphExec_t r : replay) REQUIRE(cudaGraphExecDestroy(r) == cudaSuccess);
  CHECK(different == 0);
}

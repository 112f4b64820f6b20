// SPDX-License-Identifier: Apache-2.0
// device::gemm_mma_sync, its instruction replaced by the model, compared with an oracle that knows of no
// fragment, tile or stage: every bit of D, and what lies around it.
#include "mma/gemm_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

template <class F, class LA, class G, class LB, class T>
void check_gemm(std::vector<gemm_options> const& list) {
  if (!gpu_or_warn()) return;
  for (gemm_options const& o : list) {
    INFO(F::name << " x " << G::name << ' ' << o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
    gemm_case<F, LA, G, LB, T> c(o);
    CHECK(same_bits(c.on_device(gemm_with<mma::model>{}), c.oracle()));
  }
}

}  // namespace

TEST_CASE("device gemm: NVFP4 equals the chained model", "[device][gemm][nvfp4]") {
  check_gemm<nvfp4, linear, nvfp4, linear, float>({
      {1, 1, 16},                  // a quarter of a step
      {1, 1, 64},                  // one step
      {16, 8, 64},                 // one instruction
      {128, 128, 128},             // one tile, one stage
      {128, 128, 192},             // the second stage is half full
      {1, 200, 256},               // one row of A
      {200, 1, 256},               // one column of D
      {127, 129, 320},             // all but a row and a row more than a tile; five steps
      {33, 17, 80},                // rows of 40 bytes: read byte by byte
      {40, 72, 1024},              // 16 steps
      {257, 258, 96},              // 3 x 3 tiles
      {64, 48, 144},               // rows of 72 bytes, nine scales
      {65, 50, 192, {}, 3, 1, 0},  // A is unaligned, B is not; rows of D lie apart
      {50, 65, 192, {}, 0, 0, 7},  // B is unaligned
      {70, 90, 160, {0.37f, 0.0f}},
      {70, 90, 160, {-1.5f, 0.75f}, 5},
      {70, 90, 160, {0.0f, 1.0f}},
  });
}

TEST_CASE("device gemm: NVFP4 under swizzled scales to bf16 equals the chained model",
          "[device][gemm][nvfp4]") {
  using enum amax_from;
  check_gemm<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16>({
      {128, 128, 64},
      {1, 1, 16},
      {129, 127, 208},  // 13 scales a row, padded to 16 with NaN
      {31, 130, 384, {2.0f, -0.5f}, 1},
      {140, 20, 96, {}, 0, 0, 0, device, device},
      {20, 140, 96, {0.3f, 0.1f}, 0, 0, 0, device, view},
      {20, 140, 96, {}, 2, 3, 5, view, device},
      {133, 70, 128, {}, 0, 0, 0, rows, view},
      {70, 133, 128, {1.1f, 0.5f}, 0, 0, 0, view, rows},
      {66, 67, 256, {1.1f, 0.0f}, 0, 0, 0, rows, rows},
      {66, 67, 64, {}, 0, 0, 0, rows, device},
  });
}

TEST_CASE("device gemm: the layouts of the operands' scales may differ", "[device][gemm][nvfp4]") {
  check_gemm<nvfp4, linear, nvfp4, swizzled_128x4, fp16>({
      {130, 131, 160},
      {17, 33, 448, {0.01f, 0.25f}, 7},
  });
}

TEST_CASE("device gemm: MXFP4 equals the chained model", "[device][gemm][mxfp4]") {
  check_gemm<mxfp4, linear, mxfp4, linear, float>({
      {1, 1, 32},  // half a step
      {16, 8, 64},
      {130, 129, 320},
      {20, 30, 96},  // rows of 48 bytes, three scales
      {40, 50, 192, {0.5f, 2.0f}, 2, 1, 9},
      {3, 300, 128},
  });
  check_gemm<mxfp4, swizzled_128x4, mxfp4, swizzled_128x4, bf16>({
      {128, 128, 128},
      {129, 127, 224},
      {61, 62, 352, {1.25f, 0.5f}, 4},
  });
}

TEST_CASE("device gemm: MXFP8 equals the chained model", "[device][gemm][mxfp8]") {
  check_gemm<mxfp8_e4m3, swizzled_128x4, mxfp8_e4m3, swizzled_128x4, float>({
      {1, 1, 32},  // one step
      {16, 8, 32},
      {128, 128, 64},   // one stage
      {129, 130, 160},  // five steps, which share words of scales between stages
      {40, 200, 288, {0.7f, -0.2f}, 3},
      {90, 10, 96, {}, 0, 2, 11},
  });
  check_gemm<mxfp8_e4m3, linear, mxfp8_e5m2, linear, bf16>({
      {1, 1, 32},
      {130, 131, 224},
      {50, 60, 64, {-0.3f, 0.0f}, 1, 1, 1},
      {2, 129, 416},
  });
}

TEST_CASE("device gemm: NaN scales and D under beta = 0 do as the oracle says", "[device][gemm]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({40, 50, 192});
  c.a.data.scales[5 * 12 + 7] = 0x7f;   // row 5, block 7
  c.b.data.scales[20 * 12 + 1] = 0xff;  // the sign is ignored
  for (float& x : c.before) x = bit_cast<float>(0x7fc0'0000u);
  const std::vector<float> d = c.on_device(gemm_with<mma::model>{});
  CHECK(same_bits(d, c.oracle()));
  int numbers = 0;
  for (float x : d) numbers += x == x;
  CHECK(numbers == 39 * 49);
}

TEST_CASE("device gemm: it can be captured, for it neither synchronises nor allocates", "[device][gemm]") {
  if (!gpu_or_warn()) return;
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({100, 90, 128});
  const auto captured = [&](auto const&... arguments) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    const errc e = gemm_with<mma::model>{stream}(arguments...);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
    return e;
  };
  CHECK(same_bits(c.on_device(captured), c.oracle()));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("device gemm: the instruction itself runs where there is one, and elsewhere says so",
          "[device][gemm][hardware]") {
  if (!gpu_or_warn()) return;
  int major = 0;
  REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  if (major == 12) {
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16> c({300, 200, 416, {1.5f, 0.5f}});
    CHECK(same_bits(c.on_device(gemm_with<mma::hardware>{}), c.oracle()));
    gemm_case<mxfp8_e4m3, linear, mxfp8_e5m2, linear, bf16> c8({300, 200, 416, {1.5f, 0.5f}});
    CHECK(same_bits(c8.on_device(gemm_with<mma::hardware>{}), c8.oracle()));
  } else {
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16> c({30, 20, 64});
    CHECK(same_bits(c.on_device(gemm_with<mma::hardware>{}, errc::no_instruction), c.before));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("device gemm: broken rules are refused and D stays as it was", "[device][gemm][errors]") {
  alignas(16) static u8 codes[2][64 * 32], scales[2][64 * 4];
  alignas(16) static float d[64 * 64];
  for (float& x : d) x = -1.5f;
  using packed = block_scaled_view<nvfp4>;
  using matrix = matrix_view<float>;
  const auto refused = [&](packed a, packed b, matrix to, errc e) {
    if (a.amax == tensor_amax<nvfp4>{}) a.amax = unit_scale;
    if (b.amax == tensor_amax<nvfp4>{}) b.amax = unit_scale;
    CHECK(device::gemm_mma_sync<mma::model>(a, b, to) == e);
    CHECK(device::gemm_mma_sync<mma::hardware>(a, b, to) == e);
  };
  const packed a{codes[0], scales[0], 64, 64}, b{codes[1], scales[1], 64, 64};
  refused({codes[0], scales[0], 0, 64}, b, {d, 0, 64}, errc::empty_matrix);
  refused({codes[0], scales[0], 64, 40}, {codes[1], scales[1], 64, 40}, {d, 64, 64}, errc::partial_block);
  refused(a, {codes[1], scales[1], 64, 48}, {d, 64, 64}, errc::shape_mismatch);  // K differs
  refused(a, b, {d, 63, 64}, errc::shape_mismatch);                              // M differs
  refused(a, b, {d, 64, 63, 64}, errc::shape_mismatch);                          // N differs
  refused(a, b, {d, 64, 64, 63}, errc::bad_leading_dimension);
  refused({nullptr, scales[0], 64, 64}, b, {d, 64, 64}, errc::null_pointer);
  refused(a, {codes[1], nullptr, 64, 64}, {d, 64, 64}, errc::null_pointer);
  refused(a, b, {nullptr, 64, 64}, errc::null_pointer);
  float* const odd = reinterpret_cast<float*>(reinterpret_cast<u8*>(d) + 1);
  refused(a, b, {odd, 64, 64}, errc::misaligned);
  refused(a, b, {reinterpret_cast<float*>(codes[0]), 64, 64}, errc::overlap);
  refused(a, {reinterpret_cast<u8*>(d), scales[1], 64, 64}, {d, 64, 64}, errc::overlap);
  packed small = a;
  small.scale_capacity = 64 * 4 - 1;
  refused(small, b, {d, 64, 64}, errc::buffer_too_small);
  alignas(4) static u8 amax[8];
  float const* const between = reinterpret_cast<float const*>(amax + 1);
  const auto with = [](packed q, amax_reference of) {
    q.amax = of;
    return q;
  };
  refused(a, with(b, amax_in(between)), {d, 64, 64}, errc::misaligned);
  refused(with(a, amax_in(between)), b, {d, 64, 64}, errc::misaligned);
  refused(with(a, amax_of_rows(nullptr)), b, {d, 64, 64}, errc::null_pointer);
  refused(a, with(b, amax_of_groups(d)), {d, 64, 64}, errc::amax_of_groups);
  refused(a, with(b, amax_in(d + 64 * 64 - 1)), {d, 64, 64}, errc::overlap);
  refused(with(a, amax_of_rows(d + 1)), b, {d, 64, 64}, errc::overlap);
  CHECK(device::gemm_mma_sync<mma::model>(a, b, matrix{d, 64, 64}) == errc::no_amax);
  for (float x : d) REQUIRE(x == -1.5f);
}

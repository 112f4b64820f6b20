// SPDX-License-Identifier: Apache-2.0
// device::gemm_tcgen05, its tensor core replaced by the model, compared with an oracle that knows of no tile,
// stage or instruction: every bit of D, and what lies around it; and no misuse of what the hardware would not
// check.
#include "tcgen05_faults.cuh"

using namespace fourscale;
using namespace fourscale::test;
namespace tc = fourscale::mma::tcgen05;
using model::misuse;

namespace {

/// In so many clusters of `Sharing` CTAs or pairs.
template <class F, class G, class T, int CtaGroup, int Columns, int Sharing = 1>
void check_tcgen05(std::vector<gemm_options> const& list, int clusters = 4) {
  if (!gpu_or_warn()) return;
  for (gemm_options const& o : list) {
    INFO(F::name << " x " << G::name << ' ' << o.m << " x " << o.n << " x " << o.k << ", " << CtaGroup
                 << " CTAs, " << Columns << " columns, " << clusters << " clusters of " << Sharing);
    gemm_case<F, swizzled_128x4, G, swizzled_128x4, T> c(o);
    const model_groups m(clusters);
    const tcgen05_with<tc::model<CtaGroup, Sharing>, Columns> gemm{{m.groups.data(), m.first_misuse.data()},
                                                                   clusters};
    CHECK(same_bits(c.on_device(gemm), c.oracle()));
    INFO(message(m.first()));
    CHECK(m.first() == misuse::ok);
  }
}

}  // namespace

TEST_CASE("tcgen05 gemm: NVFP4 on one CTA equals the chained model", "[device][tcgen05][nvfp4]") {
  using enum amax_from;
  check_tcgen05<nvfp4, nvfp4, bf16, 1, 256>({
      {1, 1, 32},  // half a step, its scales padded with NaN
      {128, 256, 64},
      {127, 255, 256},
      {129, 257, 96},
      {300, 40, 352, {0.37f, -1.5f}, 3},  // D is stored element by element
      {16, 520, 192, {0.0f, 1.0f}},
      {20, 72, 2560},  // 10 stages
      {33, 65, 64, {}, 0, 0, 0, device, device},
      {65, 33, 64, {1.1f, 0.5f}, 8, 0, 0, rows, view},
      {66, 67, 64, {}, 0, 0, 0, rows, device},
      {67, 66, 96, {0.3f, 0.1f}, 6, 0, 0, device, rows},
  });
  check_tcgen05<nvfp4, nvfp4, bf16, 1, 256>({{60, 1300, 160, {2.0f, -0.5f}}}, 1);  // six tiles on one CTA
}

TEST_CASE("tcgen05 gemm: NVFP4 on a pair of CTAs equals the chained model", "[device][tcgen05][nvfp4]") {
  check_tcgen05<nvfp4, nvfp4, float, 2, 256>({
      {1, 1, 64},
      {256, 256, 32},
      {255, 129, 320},
      {257, 30, 448, {-0.3f, 0.75f}},
      {140, 260, 96, {1.0f, 0.0f}, 5},
      {20, 24, 1824},  // 8 stages, the last one with half a step
  });
  check_tcgen05<nvfp4, nvfp4, float, 2, 256>({{20, 800, 288, {1.5f, 0.5f}, 4}}, 1);
}

TEST_CASE("tcgen05 gemm: tiles of 128 columns have two accumulators of their own",
          "[device][tcgen05][nvfp4]") {
  check_tcgen05<nvfp4, nvfp4, float, 1, 128>({{1, 130, 64}, {130, 127, 224}, {50, 900, 96}}, 1);
  check_tcgen05<nvfp4, nvfp4, float, 2, 128>({{300, 128, 64}, {90, 700, 160}, {7, 9, 2048}}, 1);
}

TEST_CASE("tcgen05 gemm: two pairs that share B equal the chained model", "[device][tcgen05][nvfp4]") {
  check_tcgen05<nvfp4, nvfp4, float, 2, 256, 2>({
      {1, 1, 64},      // one tile: the second pair has none
      {256, 256, 32},  // the same, and it is whole
      {257, 30, 448, {-0.3f, 0.75f}},
      {512, 128, 320},  // the scales of the other 128 columns do not come
      {513, 129, 96},   // three tiles, one below the other
      {300, 300, 288, {1.0f, 0.0f}, 5},
      {20, 24, 1824},  // 8 stages, the last one with half a step
  });
  using enum amax_from;
  check_tcgen05<nvfp4, nvfp4, bf16, 2, 256, 2>(
      {{700, 520, 160}, {400, 70, 96, {1.1f, 0.5f}, 2, 0, 0, rows, view}});
  check_tcgen05<nvfp4, nvfp4, float, 2, 256, 2>({{1100, 520, 160, {1.5f, 0.5f}, 4}, {600, 800, 352}}, 1);
  check_tcgen05<nvfp4, nvfp4, float, 2, 128, 2>({{300, 128, 64}, {520, 300, 160}, {7, 9, 2048}}, 1);
}

TEST_CASE("tcgen05 gemm: two CTAs that share B equal the chained model", "[device][tcgen05][nvfp4]") {
  check_tcgen05<nvfp4, nvfp4, float, 1, 256, 2>(
      {{1, 1, 64}, {128, 256, 96}, {300, 300, 352}, {20, 72, 2048}});
  check_tcgen05<nvfp4, nvfp4, bf16, 1, 128, 2>({{129, 130, 64}, {400, 520, 160}}, 1);
}

TEST_CASE("tcgen05 gemm: MX formats with B shared equal the chained model",
          "[device][tcgen05][mxfp4][mxfp8]") {
  check_tcgen05<mxfp4, mxfp4, float, 2, 256, 2>(
      {{1, 1, 32}, {300, 140, 352}, {530, 260, 1120, {0.5f, 2.0f}, 2}});
  check_tcgen05<mxfp8_e4m3, mxfp8_e5m2, bf16, 2, 256, 2>({{1, 1, 32}, {300, 140, 224}, {530, 264, 64}});
}

TEST_CASE("tcgen05 gemm: D is stored whole and in part, by TMA and without", "[device][tcgen05][nvfp4]") {
  const std::vector<gemm_options> list{{128, 256, 64},
                                       {256, 512, 64},
                                       {130, 200, 64},
                                       {17, 72, 128, {}, 8},
                                       {143, 584, 64, {0.7f, 0.0f}, 16},
                                       {33, 8, 64},
                                       {150, 390, 64},         // not whole 16 bytes of columns
                                       {150, 392, 64, {}, 1},  // rows not 16 bytes apart
                                       {70, 264, 128, {-0.75f, 0.5f}, 8}};
  check_tcgen05<nvfp4, nvfp4, bf16, 2, 256, 2>(list);
  check_tcgen05<nvfp4, nvfp4, fp16, 1, 128>(list, 2);
  check_tcgen05<nvfp4, nvfp4, float, 2, 256>(list, 1);
}

TEST_CASE("tcgen05 gemm: MXFP4 equals the chained model", "[device][tcgen05][mxfp4]") {
  check_tcgen05<mxfp4, mxfp4, float, 1, 256>({
      {1, 1, 32},  // half a step; three of four scales are padding
      {128, 256, 128},
      {130, 100, 352},
      {100, 300, 64, {0.5f, 2.0f}, 2},
      {9, 600, 608},
  });
  check_tcgen05<mxfp4, mxfp4, bf16, 2, 256>({{129, 128, 96}, {30, 257, 1120, {1.25f, 0.5f}}, {260, 9, 192}});
}

TEST_CASE("tcgen05 gemm: MXFP8 equals the chained model", "[device][tcgen05][mxfp8]") {
  check_tcgen05<mxfp8_e4m3, mxfp8_e4m3, bf16, 1, 256>({
      {1, 1, 32},
      {128, 256, 128},
      {129, 70, 160, {0.7f, -0.2f}, 3},
      {40, 530, 352},
      {10, 12, 1280},
  });
  check_tcgen05<mxfp8_e4m3, mxfp8_e5m2, float, 2, 256>({{200, 131, 224}, {50, 300, 64, {-0.3f, 0.5f}}});
}

TEST_CASE("tcgen05 gemm: it can be captured, for it neither synchronises nor allocates",
          "[device][tcgen05]") {
  if (!gpu_or_warn()) return;
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, float> c({100, 90, 128});
  const model_groups m(1);
  constexpr int all_that_fit = 0;
  const tcgen05_with<tc::model<2, 2>, 256> gemm{
      {m.groups.data(), m.first_misuse.data()}, all_that_fit, stream};
  const auto captured = [&](auto const&... arguments) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    const errc e = gemm(arguments...);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
    return e;
  };
  CHECK(same_bits(c.on_device(captured), c.oracle()));
  CHECK(m.first() == misuse::ok);
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("tcgen05 gemm: what TMA cannot read is refused, and D is left alone", "[device][tcgen05]") {
  if (!gpu_or_warn()) return;
  const auto check = [](gemm_options const& o, char const* words) {
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, float> c(o);
    const model_groups m(1);
    const tcgen05_with<tc::model<1>, 256> gemm{{m.groups.data(), m.first_misuse.data()}, 1};
    CHECK(same_bits(c.on_device(gemm, errc::misaligned), c.before));
    char const* const a = device::tcgen05_refusal(device_gemm_operand(c.a).view);
    char const* const b = device::tcgen05_refusal(device_gemm_operand(c.b).view);
    CHECK(std::strcmp(a != nullptr ? a : b, words) == 0);
  };
  check({3, 4, 48}, "Rows that TMA reads are a multiple of 16 bytes apart, less than 2^40.");
  check({3, 4, 64, {}, 0, 8, 0}, "A matrix that TMA reads starts on a multiple of 16 bytes.");
  check({3, 4, 64, {}, 0, 0, 4}, "A matrix that TMA reads starts on a multiple of 16 bytes.");
}

TEST_CASE("tcgen05 gemm: the instructions themselves run where they are, and elsewhere say so",
          "[device][tcgen05][hardware]") {
  if (!gpu_or_warn()) return;
  int major = 0;
  REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, float> c({300, 500, 416});
  const bool runs = major == 10 || major == 11;
  const std::vector<float> expected = runs ? c.oracle() : c.before;
  const errc e = runs ? errc::ok : errc::no_instruction;
  CHECK(same_bits(c.on_device(tcgen05_with<tc::hardware<1>, 256>{{}, 4}, e), expected));
  CHECK(same_bits(c.on_device(tcgen05_with<tc::hardware<2>, 256>{{}, 4}, e), expected));
  CHECK(same_bits(c.on_device(tcgen05_with<tc::hardware<2, 2>, 256>{{}, 4}, e), expected));
}

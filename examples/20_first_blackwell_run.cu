// SPDX-License-Identifier: Apache-2.0
// For the first owner of a Blackwell GPU. Checks on the card everything that fourscale assumes about its
// instructions, and prints a report to send back (docs/blackwell.md). No such card was at hand when this was
// written. On other GPUs, software that replaces an instruction is compared with its definition, and checks
// that are not possible are listed with what they need. Takes seconds.
//
// nvcc -std=c++20 -O3 -arch=sm_100a -Xcompiler=-fopenmp -Iinclude examples/20_first_blackwell_run.cu -o first
// ./first | tee report.txt
// (-arch for a B300: sm_103a; for RTX 50 and RTX PRO: sm_120a; for Spark: sm_121a.)
#include "first_run/blocks.cuh"
#include "first_run/rbits.cuh"
#include "first_run/tensor_core.cuh"

using namespace first_run;

namespace {

/// Asks the code that runs on this GPU: for which target it was compiled, and which instructions it has.
struct capabilities {
  int target, specific;
  bool cvt_fp8, cvt_narrow, cvt_rs, tcgen05, mma_block_scale;
};
__global__ void ask_capabilities([[maybe_unused]] capabilities* c) {
  *c = {FOURSCALE_DEVICE_PASS / 10,   FOURSCALE_DETAIL_SPECIFIC / 10, f4::arch::has_cvt_fp8,
        f4::arch::has_cvt_narrow,     f4::arch::has_cvt_rs,           f4::arch::has_tcgen05,
        f4::arch::has_mma_block_scale};
}

constexpr char const *narrow_targets = "sm_100f, 103f, 110f, 120f, 121f", *rs_targets = "sm_100a or sm_103a",
                     *mma_targets = "sm_120f or 121f", *fp8_targets = "sm_89";
constexpr u64 all_floats = u64{1} << 32, many = u64{1} << 26;

capabilities print_machine() {
  shared_array<capabilities> c(1);
  ask_capabilities<<<1, 1>>>(c.data);
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  cudaDeviceProp p;
  require(cudaGetDeviceProperties(&p, 0));
  int driver = 0, runtime = 0;
  require(cudaDriverGetVersion(&driver));
  require(cudaRuntimeGetVersion(&runtime));
  std::printf("fourscale %d.%d.%d, first Blackwell run\n", FOURSCALE_VERSION_MAJOR, FOURSCALE_VERSION_MINOR,
              FOURSCALE_VERSION_PATCH);
  std::printf("device     %s, compute capability %d.%d, %d SMs\n", p.name, p.major, p.minor,
              p.multiProcessorCount);
  std::printf("driver     CUDA %d.%d; runtime %d.%d\n", driver / 1000, driver % 1000 / 10, runtime / 1000,
              runtime % 1000 / 10);
#ifdef __CUDACC_VER_MAJOR__
  std::printf("compiler   nvcc %d.%d.%d\n", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__);
#endif
  std::printf(
      "code       sm_%d%s: cvt of FP8 %d, of FP4 and FP6 %d, cvt.rs %d, tcgen05 %d, mma block_scale %d\n",
      c[0].target, c[0].specific ? "a" : "", c[0].cvt_fp8, c[0].cvt_narrow, c[0].cvt_rs, c[0].tcgen05,
      c[0].mma_block_scale);
  if (p.major >= 10 && !c[0].cvt_narrow)
    std::printf(
        "\nThis is a Blackwell GPU, but the code was compiled without its instructions: -arch needs the "
        "suffix, sm_%d%da.\n",
        p.major, p.minor);
  else if (!c[0].cvt_narrow)
    std::printf(
        "\nThis is no Blackwell GPU: FP4, FP6, E8M0 and cvt.rs below are software, compared with its "
        "definition.\n");
  return c[0];
}

void ask_about_nearest(capabilities const& c) {
  std::printf("\nConversions to nearest; every float, in both halves of a pair\n");
  run<nearest<f4::e2m1>>("cvt.rn.satfinite.e2m1x2.f32", all_floats);
  run<nearest_e2m1x8>("eight e2m1 in a word", all_floats);
  run<nearest<f4::e2m3>>("cvt.rn.satfinite.e2m3x2.f32", all_floats);
  run<nearest<f4::e3m2>>("cvt.rn.satfinite.e3m2x2.f32", all_floats);
  run<nearest<f4::e4m3>>("cvt.rn.satfinite.e4m3x2.f32", all_floats);
  run<nearest<f4::e5m2>>("cvt.rn.satfinite.e5m2x2.f32", all_floats);
  run<nearest_f16<f4::e4m3>>("cvt.rn.satfinite.e4m3x2.f16x2", all_floats, c.cvt_fp8, fp8_targets);
  run<nearest_f16<f4::e5m2>>("cvt.rn.satfinite.e5m2x2.f16x2", all_floats, c.cvt_fp8, fp8_targets);
  using portable::direction;
  run<power_of_two<direction::away_from_zero>>("cvt.rp.satfinite.ue8m0x2.f32", all_floats);
  run<power_of_two<direction::toward_zero>>("cvt.rz.satfinite.ue8m0x2.f32", all_floats);
  run<power_of_two_bf16<direction::away_from_zero>>("cvt.rp.satfinite.ue8m0x2.bf16x2", all_floats,
                                                    c.cvt_narrow, narrow_targets);
  run<power_of_two_bf16<direction::toward_zero>>("cvt.rz.satfinite.ue8m0x2.bf16x2", all_floats, c.cvt_narrow,
                                                 narrow_targets);
}

void ask_about_widening(capabilities const& c) {
  std::printf("\nConversions back; every pair of codes\n");
  run<widened<f4::e2m1>>("cvt.rn.f16x2.e2m1x2", 1 << 8, c.cvt_narrow, narrow_targets);
  run<widened<f4::e2m3>>("cvt.rn.f16x2.e2m3x2", 1 << 12, c.cvt_narrow, narrow_targets);
  run<widened<f4::e3m2>>("cvt.rn.f16x2.e3m2x2", 1 << 12, c.cvt_narrow, narrow_targets);
  run<widened<f4::e4m3>>("cvt.rn.f16x2.e4m3x2", 1 << 16, c.cvt_fp8, fp8_targets);
  run<widened<f4::e5m2>>("cvt.rn.f16x2.e5m2x2", 1 << 16, c.cvt_fp8, fp8_targets);
  run<widened_scale<f4::e8m0>>("cvt.rn.bf16x2.ue8m0x2", 1 << 16, c.cvt_narrow, narrow_targets);
}

void ask_about_stochastic(capabilities const& c) {
  std::printf("\nStochastic conversions; random values and words, then only NaN, infinity and the largest\n");
  run<dithered<f4::e2m1, false>>("cvt.rs.satfinite.e2m1x4.f32", many);
  run<dithered<f4::e2m1, true>>("  special values", 1 << 16);
  run<dithered<f4::e2m3, false>>("cvt.rs.satfinite.e2m3x4.f32", many);
  run<dithered<f4::e2m3, true>>("  special values", 1 << 16);
  run<dithered<f4::e3m2, false>>("cvt.rs.satfinite.e3m2x4.f32", many);
  run<dithered<f4::e3m2, true>>("  special values", 1 << 16);
  run<dithered<f4::e4m3, false>>("cvt.rs.satfinite.e4m3x4.f32", many);
  run<dithered<f4::e4m3, true>>("  special values", 1 << 16);
  run<dithered<f4::e5m2, false>>("cvt.rs.satfinite.e5m2x4.f32", many);
  run<dithered<f4::e5m2, true>>("  special values", 1 << 16);
  run<dithered_bf16>("cvt.rs.bf16x2.f32", many);

  std::printf("\nWhich bits of the random word an element sees, weight 1/2 first\n");
  run_rbits<rbits_of<f4::e2m1>>("e2m1x4", true, "");
  run_rbits<rbits_of<f4::e4m3>>("e4m3x4", true, "");
  run_rbits<rbits_of<f4::e5m2>>("e5m2x4", true, "");
  run_rbits<rbits_of<f4::e2m3>>("e2m3x4 (definition inferred from e4m3x4)", true, "");
  run_rbits<rbits_of<f4::e3m2>>("e3m2x4 (definition inferred from e4m3x4)", true, "");
  run_rbits<rbits_of_bf16>("bf16x2", true, "");
  run_rbits<rbits_of_f16<f4::fp16>>("f16x2 (definition is a guess)", c.cvt_rs, rs_targets);
}

void ask_about_blocks() {
  std::printf("\nBlocks and matrices\n");
  run<golden_blocks>("golden vectors of NVFP4", 2 * golden_count);
  const f4::stochastic by_words{f4::philox{1, 2}};
  run_matrix<f4::nvfp4>("NVFP4, to nearest", f4::quantizer{});
  run_matrix<f4::nvfp4>("NVFP4, stochastic", f4::quantizer{by_words});
  run_matrix<f4::nvfp4>("NVFP4, Hadamard, stochastic",
                        f4::quantizer{by_words, f4::two_level{}, f4::hadamard<16>{f4::te_signs}});
  run_matrix<f4::mxfp4>("MXFP4", f4::quantizer{});
  run_matrix<f4::mxfp8>("MXFP8", f4::quantizer{});
}

void ask_about_mma(capabilities const& c) {
  std::printf("\nBlock-scaled mma.sync on single fragments, compared with the model on the host\n");
  run_mma<mma::hardware, f4::nvfp4>("NVFP4", c.mma_block_scale, mma_targets);
  run_mma<mma::hardware, f4::mxfp4>("MXFP4", c.mma_block_scale, mma_targets);
  run_mma<mma::hardware, f4::mxfp8>("MXFP8", c.mma_block_scale, mma_targets);
  run_mma<mma::model, f4::nvfp4>("NVFP4, the model in a kernel", true, "");
  run_mma<mma::model, f4::mxfp4>("MXFP4, the model in a kernel", true, "");
  run_mma<mma::model, f4::mxfp8>("MXFP8, the model in a kernel", true, "");
}

void ask_about_gemms() {
  std::printf("\nGEMMs, compared with the model chained on the host\n");
  run_gemm_mma_sync<mma::hardware, f4::nvfp4>("NVFP4 by mma.sync");
  run_gemm_mma_sync<mma::hardware, f4::mxfp4>("MXFP4 by mma.sync");
  run_gemm_mma_sync<mma::hardware, f4::mxfp8>("MXFP8 by mma.sync");
  run_gemm_tcgen05<1, f4::nvfp4>("NVFP4 by tcgen05, one CTA");
  run_gemm_tcgen05<2, f4::nvfp4>("NVFP4 by tcgen05, pairs of CTAs");
  run_gemm_tcgen05<2, f4::nvfp4, 2>("NVFP4 by tcgen05, two pairs sharing B");
  run_gemm_tcgen05<2, f4::mxfp4>("MXFP4 by tcgen05, pairs of CTAs");
  run_gemm_tcgen05<2, f4::mxfp8>("MXFP8 by tcgen05, pairs of CTAs");
  run_gemm_mma_sync<mma::model, f4::nvfp4>("NVFP4 by mma.sync's kernel and the model");
  run_gemm_tcgen05_model<2, f4::nvfp4>("NVFP4 by tcgen05's kernel and the model, pairs");
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    return std::printf("There is no GPU here, so there is nothing to ask.\n"), 0;
  const capabilities c = print_machine();
  ask_about_nearest(c);
  ask_about_widening(c);
  ask_about_stochastic(c);
  ask_about_blocks();
  ask_about_mma(c);
  ask_about_gemms();
  std::printf("\n%d probes differ; %d were not possible on this GPU. Please send this report.\n", differences,
              not_possible);
  return differences != 0;
}

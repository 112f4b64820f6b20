// SPDX-License-Identifier: Apache-2.0
// The one hash of Blackwell's bits, on every GPU of this machine: `./run gpu` prints these lines.
#include <string>

#include "mma/gemm_bits.hpp"
#include "mma/gemm_calls.cuh"
#include "tcgen05_faults.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// What device::gemm takes for the operands of the list.
char const* name_of_kernel() {
  static constexpr char const* names[] = {"tcgen05", "mma.sync with block scales", "wgmma, decoded to bf16",
                                          "mma.sync, decoded to bf16", "mma.sync, decoded to fp16"};
  gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, float> c({33, 70, 96});
  const device_gemm_operand<nvfp4, swizzled_128x4> a(c.a), b(c.b);
  const device_buffer<float> d(c.before);
  return names[static_cast<int>(device::kernel_of_gemm(a.view, b.view, c.view_of(d.data())))];
}

/// device::gemm_tcgen05 on the model of its tensor core, and no misuse of it.
template <int Sharing>
struct tcgen05_model_gemm {
  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const model_groups m(4);
    const tcgen05_with<mma::tcgen05::model<2, Sharing>, 256> gemm{{m.groups.data(), m.first_misuse.data()},
                                                                  4};
    const errc e = gemm(a, b, d, factors);
    CHECK(m.first() == model::misuse::ok);
    return e;
  }
};

template <class Gemm>
void check_path(std::string const& path, Gemm const& gemm) {
  check_bits_of_list(path.c_str(), [&](auto& c) { return c.on_device(gemm); });
}

}  // namespace

TEST_CASE("device gemm: every path of every GPU gives the one hash", "[device][gemm][gemm_bits][large]") {
  if (!gpu_or_warn()) return;
  int before = 0, count = 0;
  REQUIRE(cudaGetDevice(&before) == cudaSuccess);
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    REQUIRE(cudaGetDeviceProperties(&properties, i) == cudaSuccess);
    REQUIRE(cudaSetDevice(i) == cudaSuccess);
    const std::string gpu = "GPU " + std::to_string(i) + ", " + properties.name + ", ";
    check_path(gpu + "device::gemm: " + name_of_kernel(), blackwell_gemm{});
    check_path(gpu + "the kernel of sm_80: mma.sync, decoded to bf16", bf16_gemm{});
    check_path(gpu + "the kernel of sm_120 on its model", gemm_with<mma::model>{});
    if (properties.major >= 9) {
      check_path(gpu + "the kernel of sm_100 on its model", tcgen05_model_gemm<1>{});
      check_path(gpu + "the same, two pairs of CTAs sharing B", tcgen05_model_gemm<2>{});
    }
  }
  CHECK(cudaSetDevice(before) == cudaSuccess);
}

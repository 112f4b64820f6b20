// SPDX-License-Identifier: Apache-2.0
// What explain_gemm() says: each kernel, and each note that does not depend on the device. Nothing is
// launched or read, so addresses are numbers.
#include <fourscale/device/explain_gemm.cuh>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace fourscale;

namespace {

constexpr u64 a_at = u64{1} << 40, b_at = u64{2} << 40, scales_at = u64{8} << 40, amax_at = u64{4} << 40,
              d_at = u64{5} << 40;

/// Where operands and D begin, beyond a multiple of 16 bytes; and what else may differ.
struct options {
  i64 m = 4096, n = 4096, k = 4096, ld = 0;
  u64 codes = 0, scales = 0, output = 0;
  float beta = 0.0f;
  bool by_row = false;
};

template <class F, class Layout>
block_scaled_view<F, Layout> operand(u64 at, i64 rows, options const& o) {
  auto const* const amax = reinterpret_cast<float const*>(amax_at);
  return {reinterpret_cast<u8*>(at + o.codes), reinterpret_cast<u8*>(scales_at + at + o.scales), rows, o.k,
          tensor_amax<F>(o.by_row ? amax_of_rows(amax) : amax_in(amax))};
}
template <class F = nvfp4, class Layout = swizzled_128x4, class T = bf16>
explanation explain(device::gemm_kernel kernel, options const& o) {
  return device::explain_gemm(
      kernel, operand<F, Layout>(a_at, o.m, o), operand<F, Layout>(b_at, o.n, o),
      matrix_view<T>{reinterpret_cast<T*>(d_at + o.output), o.m, o.n, o.ld == 0 ? o.n : o.ld},
      {1.0f, o.beta});
}
/// All that is said by Hopper's kernel.
template <class F = nvfp4, class Layout = swizzled_128x4, class T = bf16>
void check(options const& o, std::vector<char const*> const& notes) {
  const explanation why = explain<F, Layout, T>(device::gemm_kernel::wgmma, o);
  CHECK(why.error == errc::ok);
  CHECK(why.count == static_cast<int>(notes.size()));
  for (char const* note : notes) {
    INFO(note);
    CHECK(why.says(note));
  }
}
bool contains(char const* text, char const* part) {
  return std::string(text).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("explain_gemm: each kernel", "[device][gemm][explain]") {
  using device::gemm_kernel;
  CHECK(contains(explain(gemm_kernel::wgmma, {}).kernel, "wgmma"));
  CHECK(contains(explain(gemm_kernel::wgmma, {}).kernel, "128 x 192"));
  CHECK(contains(explain(gemm_kernel::wgmma, {512, 512, 4096}).kernel, " 64 x 64"));
  CHECK(contains(explain(gemm_kernel::wgmma, {1024, 1024, 1024}).kernel, "128 x 64"));
  CHECK(contains(explain(gemm_kernel::wgmma, {300, 4096, 4096}).kernel, "128 x 128"));
  CHECK(contains(explain(gemm_kernel::bf16, {}).kernel, "bf16"));
  CHECK(contains(explain(gemm_kernel::tcgen05, {}).kernel, "tcgen05"));
  CHECK(contains(explain(gemm_kernel::mma_sync, {}).kernel, "block-scaled mma.sync"));
  for (const auto kernel :
       {gemm_kernel::wgmma, gemm_kernel::bf16, gemm_kernel::tcgen05, gemm_kernel::mma_sync})
    CHECK(explain(kernel, {}).count == 0);
  const explanation f16 = explain<mxfp8_e4m3, linear>(gemm_kernel::f16, {});
  CHECK(contains(f16.kernel, "fp16"));
  CHECK(f16.says(notes::gemm_steps_of_32));
  CHECK(f16.count == 1);
}

TEST_CASE("explain_gemm: MXFP6 by Hopper's kernel", "[device][gemm][explain]") {
  check<mxfp6_e2m3, linear>({4096, 4096, 4096}, {notes::gemm_in_32s});
  check<mxfp6_e3m2, linear>({4096, 4096, 4096, 0, 8}, {notes::gemm_in_32s});
  check<mxfp6_e2m3, swizzled_128x4>({4096, 4096, 4096, 0, 1}, {notes::gemm_in_32s, notes::gemm_bytes});
  CHECK(contains(explain<mxfp6_e2m3, linear>(device::gemm_kernel::wgmma, {}).kernel, "128 x 192"));
}

TEST_CASE("explain_gemm: what makes Hopper's kernel slower", "[device][gemm][explain]") {
  check({}, {});
  check({4096, 4096, 4128}, {});
  check({4096, 4096, 4112}, {notes::gemm_codes});
  check({4096, 4096, 4096, 0, 8}, {notes::gemm_codes});
  check({4096, 4096, 4096, 0, 4}, {notes::gemm_bytes});
  check({4096, 4096, 4096, 0, 0, 4}, {});
  check({4096, 4096, 4096, 0, 0, 2}, {notes::gemm_scales});
  check<nvfp4, linear>({4096, 4096, 4096}, {});
  check<nvfp4, linear>({4096, 4096, 4128}, {notes::gemm_scales});
  check<mxfp4, linear>({4096, 4096, 4160}, {notes::gemm_scales});
  check<mxfp4, linear>({4096, 4096, 4224}, {});
  check({4096, 4096, 4096, 4100}, {notes::gemm_output});
  check({4096, 4100, 4096, 4104}, {notes::gemm_output});
  check({4096, 4096, 4096, 0, 0, 0, 2}, {notes::gemm_output});
  check({4096, 4096, 4096, 0, 0, 0, 0, 1.0f}, {notes::gemm_added});
  check<nvfp4, swizzled_128x4, float>({4096, 4096, 4096, 0, 0, 0, 0, 1.0f}, {});
  check({4096, 4096, 4096, 0, 0, 0, 0, 1.0f, true}, {notes::gemm_amaxes});
  check({512, 512, 4096}, {notes::gemm_few_tiles});
  check({128, 4096, 4096}, {notes::gemm_few_tiles, notes::gemm_few_rows});
}

TEST_CASE("explain_gemm: the other kernels, and what is refused", "[device][gemm][explain]") {
  using device::gemm_kernel;
  const explanation sm80 = explain(gemm_kernel::bf16, {100, 4096, 4112, 4097, 0, 2});
  CHECK(sm80.count == 4);
  for (char const* note : {notes::gemm_codes, notes::gemm_scales, notes::gemm_output, notes::gemm_few_rows})
    CHECK(sm80.says(note));
  CHECK(explain(gemm_kernel::tcgen05, {4096, 4096, 4096, 4097}).says(notes::gemm_output));

  const explanation refused = explain(gemm_kernel::wgmma, {4096, 4096, 4090});
  CHECK(refused.error == errc::partial_block);
  CHECK(refused.says(message(errc::partial_block)));
}

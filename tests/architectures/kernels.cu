// SPDX-License-Identifier: Apache-2.0
// The library's kernels for every architecture: each function of device/ once, and of quantize() each of its
// kernels. Only compiled, since the tests themselves may be for one architecture (cmake/dev.cmake). What
// instructions come out is asked in codegen/.
#include <fourscale/fourscale.cuh>

using namespace fourscale;

namespace {

using values = matrix_view<bf16 const>;
template <class F, class Layout = swizzled_128x4>
using quantized = block_scaled_view<F, Layout>;

template <class... Calls>
bool ok(Calls... results) {
  return ((results == errc::ok) && ...);
}

constexpr hadamard<16> rht{te_signs};
constexpr stochastic by_words{philox{1, 2}};

}  // namespace

bool nvfp4_kernels(values const& x, quantized<nvfp4> const& q, quantized<nvfp4, linear> const& rows,
                   matrix_view<bf16> const& y, row_groups const& groups) {
  return ok(device::quantize(x, q), device::quantize(transposed(x), q),
            device::quantize(x, q, quantizer{}, blocks_2d<16, 16>{}),
            device::quantize(x, rows, quantizer{nearest_even{}, four_over_six{}}),
            device::quantize(transposed(x), rows, quantizer{by_words, two_level{}, rht}),
            device::quantize_both(x, q, q, quantizer{by_words}, quantizer{by_words, two_level{}, rht}),
            device::quantize_grouped(x, q, groups),
            device::quantize(x, rows, ms_eden{philox{1, 2}, te_signs}), device::transpose(q, q),
            device::dequantize(rows, y), device::gemm_mma_sync(q, q, y));
}

bool producer_kernels(values const& x, quantized<nvfp4> const& q, float* amax) {
  const cta::matrix_producer<bf16, 16, cta::access::vectors> source{x.data, x.rows, x.cols, x.ld};
  return ok(device::amax(source, amax), device::amax_both<nvfp4>(source, rht, amax, amax),
            device::quantize(source, q),
            device::quantize_both(source, q, q, quantizer{}, quantizer{by_words, two_level{}, rht}));
}

bool other_kernels(values const& x, quantized<mxfp8_e4m3> const& q8, quantized<mxfp4, linear> const& q4,
                   quantized<fp8_block_e4m3, linear> const& tiles, matrix_view<float> const& y) {
  return ok(device::quantize(x, q8), device::quantize(transposed(x), q8), device::quantize(x, q4),
            device::quantize(x, tiles, quantizer{}, blocks_2d<128, 128>{}), device::dequantize(q8, y),
            device::gemm_mma_sync(q8, q8, y));
}

bool amax_kernels(values const& x, quantized<nvfp4> const& q, matrix_view<bf16> const& y, float* amax,
                  row_groups const& groups, void* workspace) {
  return ok(device::amax(x, amax), device::row_amax(transposed(x), amax),
            device::amax_both<nvfp4>(x, rht, amax, amax), device::amax_grouped(x, groups, amax),
            device::percentile_amax(x, 0.99, static_cast<percentile_workspace*>(workspace), amax),
            device::update(delayed_amax{}),
            device::statistics_of(x, q, static_cast<statistics*>(workspace), workspace),
            device::transform<16>(x, y, rht), device::transform<16>(transposed(x), y, rht));
}

// expect: This is no matrix: it must be a matrix_view, or transposed() of one.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(float const* x, f4::block_scaled_view<f4::nvfp4> q) { return f4::host::quantize(x, q); }

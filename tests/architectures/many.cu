// SPDX-License-Identifier: Apache-2.0
// As kernels.cu: what many experts need by one launch.
#include <fourscale/recipe/linear.cuh>

using namespace fourscale;
namespace many = device::detail;

bool gemms_of_many(many::grouped_operands<nvfp4, linear> const& x, matrix_view<float> const& d, u8* memory) {
  many::grouped_place place{many::groups_along::k};
  place.add(d.rows, d.cols, x.a.cols);
  const many::grouped_call<nvfp4, linear, float> call([&](int) { return x; }, place, d, {}, memory);
  return call.decode<true>(nullptr) == errc::ok && call.multiply(nullptr) == errc::ok;
}

template <class T, bool Is2d, class Columnwise, class Transform>
bool copies_of(matrix_view<T const> const& x, block_scaled_view<nvfp4> const& q, float* amax) {
  many::amaxes_of_many<nvfp4, T, Transform> amaxes(nullptr);
  many::copies_of_many<T, nvfp4, linear, Is2d, quantizer<>, Columnwise> copies(nullptr);
  return amaxes.add(x, {}, amax) == errc::ok && amaxes.run() == errc::ok &&
         copies.add(x, q, q, {}, {}) == errc::ok && copies.run() == errc::ok;
}

bool copies_of_many(matrix_view<bf16 const> const& x, matrix_view<float const> const& w,
                    block_scaled_view<nvfp4> const& q, float* amax) {
  using transformed = quantizer<nearest_even, amax_scale, hadamard<16>>;
  return copies_of<bf16, false, transformed, hadamard<16>>(x, q, amax) &&
         copies_of<float, true, quantizer<>, identity>(w, q, amax);
}

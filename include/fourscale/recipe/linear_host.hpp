// SPDX-License-Identifier: Apache-2.0
// Opt-in, because its GEMM allocates and includes <vector>: host::linear_layer, a linear layer under a recipe
// on the CPU, and host::grouped_linear_layer for experts. The steps are in linear_steps.hpp and
// linear_grouped.hpp; `linear_machine` gives them the functions of host/.
#pragma once

#include "../host/copies.hpp"
#include "../host/gemm.hpp"
#include "../host/gemm_blackwell.hpp"
#include "../host/transform.hpp"
#include "../view/computed_view.hpp"
#include "linear_grouped.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

struct linear_machine {
  template <class F, matrix_like M>
  static errc amax(M const& x, float* to) {
    return host::amax(x, to);
  }
  template <class F, matrix_like M, class Transform>
  static errc amax_both(M const& x, Transform const& t, float* to, float* to_t) {
    return host::amax_both<F>(x, t, to, to_t);
  }
  template <matrix_like M, class F, class L, class Rowwise, class Columnwise, class Blocks>
  static errc quantize_both(M const& x, block_scaled_view<F, L> const& q, block_scaled_view<F, L> const& qt,
                            Rowwise const& rowwise, Columnwise const& columnwise, Blocks shape) {
    return host::quantize_both(x, q, qt, rowwise, columnwise, shape);
  }
  template <matrix_like M, class F, class L, class Quantizer, class Blocks>
  static errc quantize(M const& x, block_scaled_view<F, L> const& q, Quantizer const& quantizer,
                       Blocks shape) {
    return host::quantize(x, q, quantizer, shape);
  }
  template <class F, class G, class L, class T>
  static errc validate(block_scaled_view<F, L> const& a, block_scaled_view<G, L> const& b,
                       matrix_view<T> const& d, linear_memory const&) {
    return validate_gemm(a, b, d);
  }
  template <class F, class G, class L, class T>
  static errc gemm(block_scaled_view<F, L> const& a, block_scaled_view<G, L> const& b,
                   matrix_view<T> const& d, gemm_factors factors, linear_memory const&) {
    if constexpr (model::has_steps_of_64<F> || model::has_steps_of_32<F, G>)
      return host::gemm(a, b, d, factors, accumulate::blackwell{});
    else
      return host::gemm(a, b, d, factors);
  }
  template <class T>
  static errc clear(matrix_view<T> const& m) {
    for (i64 r = 0; r < m.rows; ++r) __builtin_memset(&m.at(r, 0), 0, static_cast<u64>(m.cols) * sizeof(T));
    return errc::ok;
  }
  template <class F>
  static constexpr i64 gemm_bytes(i64, i64, i64) {
    return 0;
  }
  template <class Layer, class Copies>
  static errc quantize_experts(Layer const& layer, Copies const& all) {
    return all.each(
        [&](i64 i, auto const& x, draw_key const& key) { return all.quantize(layer, i, x, key); });
  }
  template <class Gemms>
  static errc gemms(Gemms const& all) {
    return all.multiply_each(linear_machine{});
  }
  template <class F>
  static constexpr i64 gemms_bytes(linear_shape const&, i64) {
    return 0;
  }
};

}  // namespace detail

/// A linear layer under recipe R, with scales in layout L: the steps of linear_steps.hpp on the CPU. GEMMs of
/// NVFP4, MXFP4 and MXFP8 have the bits of Blackwell's block-scaled MMA, as those of device::linear_layer
/// have. They allocate about 2 MB a thread and throw what std::vector throws. GEMMs of FP8 are those of
/// host/gemm.hpp, added in double and rounded once; those of the device are within the bound of
/// docs/native_gemm.md.
template <linear_recipe R, scale_layout L = linear>
struct linear_layer : fourscale::detail::linear_steps<detail::linear_machine, R, L> {
  linear_layer() = default;
};

/// Linear layers of one shape for the experts of an MoE layer: see linear_grouped.hpp.
template <linear_recipe R, scale_layout L = linear>
struct grouped_linear_layer : fourscale::detail::grouped_linear_steps<linear_layer<R, L>> {
  grouped_linear_layer() = default;
};

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host

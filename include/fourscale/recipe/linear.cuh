// SPDX-License-Identifier: Apache-2.0
// Opt-in, as gemm.cuh: device::linear_layer, a linear layer under a recipe on a stream, and
// device::grouped_linear_layer for experts. The steps are in linear_steps.hpp and linear_grouped.hpp;
// `linear_machine` gives them the functions of device/.
#pragma once

#include "../device/amax_of_producer.cuh"
#include "../device/copies.cuh"
#include "../view/computed_view.hpp"
#include "linear_copies.cuh"
#include "linear_gemms.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// A tensor as kernels read it: a matrix in memory stays one, a producer too; a computed_view becomes a
/// producer.
template <class F, class T>
matrix_view<T> const& source_for(matrix_view<T> const& x) {
  return x;
}
template <class F, class Function>
cta::view_producer<computed_view<Function>, F::block_size> source_for(computed_view<Function> const& x) {
  return {x};
}
template <class F, cta::producer Producer>
Producer const& source_for(Producer const& x) {
  return x;
}

template <class Source>
inline constexpr bool is_matrix_view = false;
template <class T>
inline constexpr bool is_matrix_view<matrix_view<T>> = true;

template <class How>
struct linear_machine {
  cudaStream_t stream = nullptr;
  How how{};

  template <class F, class Source>
  errc amax(Source const& x, float* to) const {
    return device::amax(source_for<F>(x), to, stream);
  }
  template <class F, class Source, class Transform>
  errc amax_both(Source const& x, Transform const& t, float* to, float* to_t) const {
    return device::amax_both<F>(source_for<F>(x), t, to, to_t, stream);
  }
  template <class Source, class F, class L, class Rowwise, class Columnwise, class Blocks>
  errc quantize_both(Source const& x, block_scaled_view<F, L> const& q, block_scaled_view<F, L> const& qt,
                     Rowwise const& rowwise, Columnwise const& columnwise, Blocks shape) const {
    const auto& source = source_for<F>(x);
    if constexpr (is_matrix_view<Source>) {
      return device::quantize_both(source, q, qt, rowwise, columnwise, shape, stream);
    } else {
      static_assert(!Blocks::is_2d, "A producer is quantized in 1-D blocks.");
      return device::quantize_both(source, q, qt, rowwise, columnwise, stream);
    }
  }
  template <class Source, class F, class L, class Quantizer, class Blocks>
  errc quantize(Source const& x, block_scaled_view<F, L> const& q, Quantizer const& quantizer,
                Blocks shape) const {
    const auto& source = source_for<F>(x);
    if constexpr (is_matrix_view<Source>) {
      return device::quantize(source, q, quantizer, shape, stream);
    } else {
      static_assert(!Blocks::is_2d, "A producer is quantized in 1-D blocks.");
      return device::quantize(source, q, quantizer, stream);
    }
  }
  template <class F, class G, class L, class T>
  errc validate(block_scaled_view<F, L> const& a, block_scaled_view<G, L> const& b, matrix_view<T> const& d,
                linear_memory const& workspace) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    if (workspace.bytes < gemm_bytes<F>(a.rows, b.rows, a.cols)) return errc::no_workspace;
    return check_plan(how_for<F>(how), as_output(d), a.cols);
  }
  template <class F, class G, class L, class T>
  errc gemm(block_scaled_view<F, L> const& a, block_scaled_view<G, L> const& b, matrix_view<T> const& d,
            gemm_factors factors, linear_memory const& workspace) const {
    if (a.rows > 0 && workspace.bytes < gemm_bytes<F>(a.rows, b.rows, a.cols)) return errc::no_workspace;
    return device::gemm(a, b, d, factors, how_for<F>(how), {workspace.data, workspace.bytes}, stream);
  }
  template <class T>
  errc clear(matrix_view<T> const& m) const {
    const auto bytes = [](i64 count) { return static_cast<size_t>(count) * sizeof(T); };
    const cudaError_t e =
        cudaMemset2DAsync(m.data, bytes(m.ld), 0, bytes(m.cols), static_cast<size_t>(m.rows), stream);
    return e == cudaSuccess ? errc::ok : errc::cuda_failed;
  }
  template <class F>
  static i64 gemm_bytes(i64 m, i64 n, i64 k) {
    if constexpr (is_fp8<F>)
      return 0;
    else
      return gemm_workspace_bytes(m, n, k, how_for<F>({}));
  }
  /// Quantizes X, W or dY of all experts, both copies of each.
  template <class Layer, class Copies>
  errc quantize_experts(Layer const& layer, Copies const& all) const {
    return quantize_many(layer, all, stream);
  }
  /// The GEMMs of all experts. On Hopper many run at once, unless a library multiplies.
  template <class Gemms>
  errc gemms(Gemms const& all) const {
    using operand = decltype(all.a(0));
    using F = typename operand::block_format_type;
    if constexpr (at_once<F>) {
      using L = typename operand::layout;
      using T = typename own_type<typename decltype(all.d)::value_type>::type;
      if (kernels_of_gemm<F, L, F, L, T>::choose(all.a(0), all.b(0)) == gemm_kernel::wgmma) {
        constexpr bool certify = same_type<decltype(how_for<F>(how)), accumulate::blackwell>;
        return gemms_at_once<certify>(all, *this);
      }
    }
    return all.multiply_each(*this);
  }
  /// Bytes of workspace in which gemms() runs small GEMMs at once. Large ones need gemm_bytes().
  template <class F>
  static i64 gemms_bytes(linear_shape const& all, i64 count) {
    if constexpr (at_once<F>)
      return gemms_at_once_bytes(all, count);
    else
      return 0;
  }

 private:
  template <class F>
  static constexpr bool at_once = model::has_steps_of_64<F> &&
                                  (same_type<How, accumulate::blackwell> ||
                                   same_type<How, accumulate::native<>> || !F::has_tensor_scale);
  /// How GEMMs of F add, where the layer asks for `How`. NVFP4 and FP8: as asked. MX formats take no plan and
  /// need no memory for one: MXFP8 is native<> for any native, and MXFP4 always has Blackwell's bits.
  template <class F>
  static auto how_for([[maybe_unused]] How given) {
    static_assert(!is_fp8<F> || same_type<How, accumulate::native<>>,
                  "A linear layer in FP8 multiplies by accumulate::native<>, its third template argument: "
                  "Blackwell's bits are those of block-scaled formats, and plans are for NVFP4.");
    if constexpr (sums_stay_in_f32<F, F> || is_fp8<F>)
      return given;
    else if constexpr (model::has_steps_of_32<F, F> && !same_type<How, accumulate::blackwell>)
      return accumulate::native<>{};
    else
      return accumulate::blackwell{};
  }
};

}  // namespace detail

/// A linear layer under recipe R, with scales in layout L: the steps of linear_steps.hpp on a stream. All
/// memory is device memory. Never allocates, never synchronises, can be captured in a graph.
///
/// `How` says how its GEMMs add: accumulate::blackwell, with the bits of host::linear_layer, or
/// accumulate::native, within a bound.
/// - A plan of native is for all three GEMMs, such as interop::cublaslt_linear_plans, and must outlive the
/// layer. A null plan, or one for other GEMMs, is an error of forward() and backward(), as it is of gemm():
/// null_pointer, other_plan.
/// - MX formats take no plan, whatever `How` says. MXFP4 is always multiplied as by accumulate::blackwell.
/// MXFP8 is slow by accumulate::blackwell on GPUs before Blackwell.
/// - FP8 is multiplied by accumulate::native<> only, on Hopper by its FP8 tensor cores: no other `How`
/// compiles.
template <linear_recipe R, scale_layout L = linear, class How = accumulate::blackwell>
struct linear_layer : fourscale::detail::linear_steps<detail::linear_machine<How>, R, L> {
  explicit linear_layer(cudaStream_t stream = nullptr, How how = {})
      : fourscale::detail::linear_steps<detail::linear_machine<How>, R, L>{{stream, how}} {}
};

/// Linear layers of one shape for the experts of an MoE layer, many of them by one launch: see
/// linear_grouped.hpp. All memory is device memory, except the offsets, which are host memory. A plan of
/// accumulate::native is for the GEMMs of each expert that has tokens.
template <linear_recipe R, scale_layout L = linear, class How = accumulate::blackwell>
struct grouped_linear_layer : fourscale::detail::grouped_linear_steps<linear_layer<R, L, How>> {
  explicit grouped_linear_layer(cudaStream_t stream = nullptr, How how = {})
      : fourscale::detail::grouped_linear_steps<linear_layer<R, L, How>>{
            linear_layer<R, L, How>(stream, how)} {}
};

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

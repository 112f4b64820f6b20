// SPDX-License-Identifier: Apache-2.0
// Opt-in, as it includes gemm.cuh. explain_gemm() says which kernel a GEMM with Blackwell's bits takes, and
// what makes it slower than it could be. It asks the same functions as the launch, and launches nothing.
#pragma once

#include "explain.cuh"
#include "gemm.cuh"

namespace FOURSCALE_NAMESPACE {

/// What explain_gemm() may say; compare with explanation::says().
namespace notes {
inline constexpr char const
    gemm_codes[] =
        "an operand's codes do not begin at a multiple of 16 bytes, or K is no multiple of 32: they are "
        "copied eight bytes at a time",
    gemm_bytes[] = "an operand's codes do not begin at a multiple of eight bytes: they are read byte by byte",
    gemm_scales[] =
        "an operand's scales do not begin at whole words, or rows of linear ones do not: each is waited for",
    gemm_output[] =
        "D does not begin at a multiple of 16 bytes, or the length of its rows or their distance is none: "
        "outputs are stored in smaller words",
    gemm_added[] = "outputs of 16 bits are added to D: they are read and stored without TMA",
    gemm_amaxes[] = "rows have amaxes of their own: each output has a factor of its own, stored without TMA",
    gemm_few_tiles[] =
        "fewer tiles than processors: a sum goes along K in order, so that no two CTAs share it",
    gemm_few_rows[] = "128 rows or fewer: to decode the other operand takes about as long as to multiply",
    gemm_steps_of_32[] =
        "MXFP8 and MXFP6: these bits take mma.sync of fp16 here, a few percent of bf16's speed; "
        "accumulate::native multiplies in bf16, within a bound",
    gemm_in_32s[] =
        "MXFP6: outputs whose sums may lose bits, as where blocks of a row differ by orders of magnitude, "
        "are left to mma.sync of fp16, a tenth as fast; accumulate::native leaves none",
    gemm_rdc[] =
        "this unit was compiled by -rdc=true, under which ptxas lets each wgmma wait for the one before: "
        "mma.sync takes its place; compile it without",
    gemm_not_compiled[] =
        "this code was not compiled for the tensor cores of this device: sm_90a; 100f, 103f, 110f; 120f",
    gemm_no_tma[] =
        "tcgen05 takes scales in tiles of 128 x 4, and operands that TMA can read: these are decoded instead";
}  // namespace notes

namespace device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Clusters that an H100 or H200 runs at once, for where there is no GPU to ask.
inline constexpr int clusters_of_hopper = 66;

/// Adds what makes an operand slower to decode.
template <class F, class Layout>
void explain_decoding(explanation& why, block_scaled_view<F, Layout, u8 const> const& q) {
  using reader = row_reader<F, Layout>;
  const bool groups = reader::has_groups_of_codes(q);
  why.add(!groups, notes::gemm_bytes);
  why.add(groups && !reader::has_wide_codes(q), notes::gemm_codes);
  why.add(!reader::has_words_of_scales(q), notes::gemm_scales);
}

/// The same for operands in steps of 32.
template <class F, class Layout>
void explain_decoding_in_32s(explanation& why, block_scaled_view<F, Layout, u8 const> const& q) {
  why.add(!cta::are_words<typename F::element, 8>(q.codes), notes::gemm_bytes);
}

/// Says which tiles the plan chooses, and adds what makes them slower.
template <class T>
void explain_wgmma(explanation& why, matrix_view<T> const& d, i64 k, float beta, bool amaxes_by_row) {
  const int here = clusters_at_once(), at_once = here == 0 ? clusters_of_hopper : here;
  const i64 runs = ceil_div<i64>(k, i64{mma::decoded_step} * mma::wgmma::run_steps);
  const auto plan =
      wgmma_plan::of(d.rows, d.cols, runs, at_once, carried_memory::clusters(d.rows, d.cols), any_cut{});
  why.kernel = plan.tile_cols == 192   ? "wgmma from operands decoded to bf16, 128 x 192 outputs a CTA"
               : plan.tile_cols == 128 ? "wgmma from operands decoded to bf16, 128 x 128 outputs a CTA"
               : plan.lie == mma::cluster_tiles::low
                   ? "wgmma from operands decoded to bf16, 64 x 64 outputs a CTA"
                   : "wgmma from operands decoded to bf16, 128 x 64 outputs a CTA";
  why.add(plan.clusters < at_once, notes::gemm_few_tiles);
  if (mma::way_of_outputs(d, beta, !amaxes_by_row) == mma::output_way::boxes) return;
  const bool added = sizeof(T) == 2 && beta != 0.0f;
  why.add(amaxes_by_row, notes::gemm_amaxes);
  why.add(!amaxes_by_row && added, notes::gemm_added);
  why.add(!amaxes_by_row && !added, notes::gemm_output);
}

}  // namespace detail

/// Says how `kernel` would make gemm(a, b, d, factors, accumulate::blackwell{}, ...). Needs no GPU.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
explanation explain_gemm(gemm_kernel kernel, block_scaled_view<F, LA, BA> const& a,
                         block_scaled_view<G, LB, BB> const& b, matrix_view<T> const& d,
                         gemm_factors factors = {}) {
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return detail::explain_refusal(e);
  explanation why;
  const auto to = detail::as_output(d);
  switch (kernel) {
    case gemm_kernel::tcgen05:
      why.kernel = "tcgen05, from codes as they are";
      break;
    case gemm_kernel::mma_sync:
      why.kernel = "block-scaled mma.sync, from codes as they are";
      break;
    case gemm_kernel::wgmma:
      detail::explain_wgmma(why, to, a.cols, factors.beta, a.amax.by_row() || b.amax.by_row());
      break;
    case gemm_kernel::bf16:
      why.kernel = "mma.sync from operands decoded to bf16";
      break;
    case gemm_kernel::f16:
      why.kernel = "mma.sync from operands decoded to fp16, in steps of 32";
      why.add(true, notes::gemm_steps_of_32);
      break;
  }
  if (kernel != gemm_kernel::wgmma) why.add(!detail::rows_are_vectors(to), notes::gemm_output);
  if (kernel == gemm_kernel::wgmma || kernel == gemm_kernel::bf16) {
    if constexpr (mma::has_run_limits<F, G>) {
      why.add(true, notes::gemm_in_32s);
      detail::explain_decoding_in_32s<F, LA>(why, a), detail::explain_decoding_in_32s<G, LB>(why, b);
    } else {
      detail::explain_decoding<F, LA>(why, a), detail::explain_decoding<G, LB>(why, b);
    }
    why.add(d.rows <= 128 || d.cols <= 128, notes::gemm_few_rows);
  }
  return why;
}

/// The same for the kernel that gemm() takes on the current device, and why it takes no faster one. Without a
/// device: cuda_failed.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
explanation explain_gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                         matrix_view<T> const& d, gemm_factors factors = {}) {
  using kernels = detail::kernels_of_gemm<F, LA, G, LB, typename detail::own_type<T>::type>;
  const gemm_kernel kernel = kernels::choose(a, b);
  explanation why = explain_gemm(kernel, a, b, d, factors);
  if (why.error != errc::ok) return why;
  const int major = detail::compute_capability_major();
  if (major == 0) return detail::explain_refusal(errc::cuda_failed);  // no device answers
  const bool tma = kernels::tma_can_read(a, b);
  const gemm_kernel best = detail::best_kernel(major, tma);
  why.add((major == 10 || major == 11) && !tma, notes::gemm_no_tma);
  const bool slower = kernel != best && kernels::takes(best),
             relocatable = arch::is_relocatable && major == 9;
  why.add(slower && relocatable, notes::gemm_rdc);
  why.add(slower && !relocatable, notes::gemm_not_compiled);
  return why;
}

}  // namespace FOURSCALE_ARCH
}  // namespace device
}  // namespace FOURSCALE_NAMESPACE

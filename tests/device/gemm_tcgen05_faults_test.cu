// SPDX-License-Identifier: Apache-2.0
// The kernel of gemm_tcgen05_test.cu with faults planted into its instructions: each is caught.
#include "tcgen05_faults.cuh"

using namespace fourscale;
using namespace fourscale::test;
namespace tc = fourscale::mma::tcgen05;
using model::misuse;

namespace {

/// D one element behind a multiple of 16 bytes.
template <class Gemm>
struct off_by_one {
  Gemm gemm;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const i64 count = d.rows * d.ld;
    const device_buffer<T> moved(count + 1);
    const auto copy = [&](T* to, T const* from) {
      REQUIRE(cudaMemcpy(to, from, static_cast<size_t>(count) * sizeof(T), cudaMemcpyDeviceToDevice) ==
              cudaSuccess);
    };
    copy(moved.data() + 1, d.data);
    const errc e = gemm(a, b, matrix_view<T>{moved.data() + 1, d.rows, d.cols, d.ld}, factors);
    copy(d.data, moved.data() + 1);
    return e;
  }
};

/// What must come of a fault: this misuse, or one of several (by who is faster), or wrong bits only.
enum class caught { as, somehow, by_bits };
struct planted {
  fault what;
  caught how;
  misuse expected = misuse::ok;
};

/// Each fault in the same GEMM: in one group, so that tiles follow each other.
template <class F, int CtaGroup, int Sharing = 1>
void check_faults(gemm_options const& o, std::vector<planted> const& faults) {
  if (!gpu_or_warn()) return;
  gemm_case<F, swizzled_128x4, F, swizzled_128x4, float> c(o);
  const std::vector<float> expected = c.oracle();
  for (planted const& p : faults) {
    const model_groups m(1);
    const tcgen05_with<faulty<CtaGroup, Sharing>, 256> gemm{
        {{m.groups.data(), m.first_misuse.data(), Sharing * 250'000'000}, p.what}, 1};
    const bool same = same_bits(c.on_device(gemm), expected);
    INFO("fault " << static_cast<int>(p.what) << ", bits " << (same ? "equal" : "unequal") << ", "
                  << static_cast<int>(m.first()) << ": " << message(m.first()));
    if (p.how == caught::by_bits)
      CHECK((!same && m.first() == misuse::ok));
    else if (p.how == caught::as)
      CHECK(m.first() == p.expected);
    else
      CHECK((!same || m.first() != misuse::ok));
  }
}

}  // namespace

TEST_CASE("tcgen05 gemm: TMA stores D where it can, and nowhere else", "[device][tcgen05][nvfp4]") {
  if (!gpu_or_warn()) return;
  const auto check = [](auto type, gemm_options const& o, bool aligned, bool by_tma) {
    INFO(o.m << " x " << o.n << ", gap " << o.gap << ", " << sizeof type << " bytes, " << aligned);
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, decltype(type)> c(o);
    for (const fault what : {fault::none, fault::no_wait_stores}) {  // which only that way notices
      const model_groups m(1);
      const tcgen05_with<faulty<2>, 256> gemm{{{m.groups.data(), m.first_misuse.data()}, what}, 1};
      const auto d = aligned ? c.on_device(gemm) : c.on_device(off_by_one<decltype(gemm)>{gemm});
      if (what == fault::none) CHECK(same_bits(d, c.oracle()));
      const bool noticed = what == fault::no_wait_stores && by_tma;
      CHECK(m.first() == (noticed ? misuse::bulk_copy_pending : misuse::ok));
    }
  };
  using enum amax_from;
  check(float{}, {140, 300, 64}, true, true);
  check(bf16{}, {140, 304, 64}, true, true);
  check(fp16{}, {40, 40, 64, {0.5f, 0.0f}, 8}, true, true);
  check(bf16{}, {40, 40, 64, {0.5f, 0.0f}, 0, 0, 0, device, device}, true, true);
  check(float{}, {140, 300, 64}, false, false);
  check(bf16{}, {140, 304, 64}, false, false);
  check(bf16{}, {140, 300, 64}, true, false);
  check(float{}, {140, 300, 64, {}, 1}, true, false);
  check(float{}, {140, 300, 64, {1.0f, 1.0f}}, true, false);
  check(float{}, {140, 300, 64, {}, 0, 0, 0, rows, view}, true, false);
}

TEST_CASE("tcgen05 gemm: faults in the instructions of one CTA are caught", "[device][tcgen05][faults]") {
  check_faults<nvfp4, 1>({40, 600, 352},
                         {
                             {fault::short_stride, caught::as, misuse::wrong_stride},
                             {fault::long_stride, caught::by_bits},
                             {fault::off_boundary, caught::as, misuse::off_swizzle_boundary},
                             {fault::other_swizzle, caught::as, misuse::off_swizzle_boundary},
                             {fault::same_k_step, caught::by_bits},
                             {fault::scale_id_1, caught::as, misuse::wrong_scale_id},
                             {fault::wrong_scale_column, caught::by_bits},
                             {fault::n_of_128, caught::as, misuse::uninitialized_cells},
                             {fault::m_of_256, caught::as, misuse::wrong_shape},
                             {fault::blocks_of_32, caught::as, misuse::wrong_scale_type},
                             {fault::accumulate_first, caught::as, misuse::uninitialized_cells},
                             {fault::never_accumulate, caught::by_bits},
                             {fault::d_over_scales, caught::as, misuse::overlapping_operands},
                             {fault::no_cp, caught::as, misuse::uninitialized_cells},
                             {fault::swizzled_cp, caught::as, misuse::bad_swizzle},
                             {fault::no_commit, caught::as, misuse::would_hang},
                             {fault::no_fence_before, caught::as, misuse::other_accumulator_shape},
                             {fault::no_fence_after, caught::as, misuse::missing_fence_after},
                             {fault::no_wait_ld, caught::as, misuse::missing_wait_ld},
                             {fault::no_wait_full, caught::somehow},
                             {fault::no_wait_empty, caught::somehow},
                             {fault::no_wait_accumulator_full, caught::somehow},
                             {fault::no_wait_accumulator_free, caught::somehow},
                             {fault::no_proxy_fence, caught::as, misuse::missing_proxy_fence},
                             {fault::padding_kept, caught::by_bits},
                             {fault::other_quarter, caught::as, misuse::wrong_lane_quarter},
                             {fault::other_columns, caught::somehow},
                             {fault::alloc_448, caught::as, misuse::bad_column_count},
                             {fault::alloc_256, caught::as, misuse::unallocated_columns},
                             {fault::no_dealloc, caught::as, misuse::dealloc_forgotten},
                             {fault::dealloc_half, caught::as, misuse::dealloc_mismatch},
                             {fault::other_group, caught::as, misuse::mixed_cta_groups},
                             {fault::none, caught::as, misuse::ok},
                         });
  check_faults<mxfp4, 1>({20, 30, 256}, {{fault::other_scale_id, caught::by_bits}});
}

TEST_CASE("tcgen05 gemm: faults in the instructions of a pair are caught", "[device][tcgen05][faults]") {
  check_faults<nvfp4, 2>({140, 300, 352},
                         {
                             {fault::expects_less, caught::as, misuse::would_hang},
                             {fault::no_wait_stores, caught::as, misuse::bulk_copy_pending},
                             {fault::no_relay, caught::as, misuse::would_hang},
                             {fault::no_commit, caught::as, misuse::would_hang},
                             {fault::no_fence_before, caught::as, misuse::other_accumulator_shape},
                             {fault::no_fence_after, caught::as, misuse::missing_fence_after},
                             {fault::no_proxy_fence, caught::as, misuse::missing_proxy_fence},
                             {fault::no_dealloc, caught::as, misuse::dealloc_forgotten},
                             {fault::other_group, caught::as, misuse::mixed_cta_groups},
                             {fault::none, caught::as, misuse::ok},
                         });
}

TEST_CASE("tcgen05 gemm: faults between pairs that share B are caught", "[device][tcgen05][faults]") {
  check_faults<nvfp4, 2, 2>({520, 300, 352},
                            {
                                {fault::shares_with_none, caught::as, misuse::would_hang},
                                {fault::releases_own, caught::as, misuse::would_hang},
                                {fault::one_release, caught::somehow},
                                {fault::expects_less, caught::as, misuse::would_hang},
                                {fault::no_relay, caught::as, misuse::would_hang},
                                {fault::no_commit, caught::as, misuse::would_hang},
                                {fault::no_fence_before, caught::as, misuse::other_accumulator_shape},
                                {fault::no_fence_after, caught::as, misuse::missing_fence_after},
                                {fault::no_proxy_fence, caught::as, misuse::missing_proxy_fence},
                                {fault::no_wait_stores, caught::as, misuse::bulk_copy_pending},
                                {fault::no_dealloc, caught::as, misuse::dealloc_forgotten},
                                {fault::none, caught::as, misuse::ok},
                            });
}

TEST_CASE("tcgen05 gemm: swapped nibbles are caught", "[device][tcgen05][faults]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, float> c({20, 30, 64});
  const std::vector<float> expected = c.oracle();
  for (u8& x : c.a.data.codes) x = static_cast<u8>(x << 4 | x >> 4);
  const model_groups m(1);
  const tcgen05_with<tc::model<1>, 256> gemm{{m.groups.data(), m.first_misuse.data()}, 1};
  CHECK(!same_bits(c.on_device(gemm), expected));
}

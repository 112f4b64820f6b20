// SPDX-License-Identifier: Apache-2.0
// What gemm_test.cu compares must see faults: planted in the instruction, in the order along K, in the
// scales.
#include "mma/gemm_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// What an instruction set may get wrong.
enum class fault {
  none,
  nibbles_of_a,       ///< exchanged in each byte
  registers_of_a,     ///< 1 and 2 exchanged: rows for columns in ldmatrix
  fragments_of_b,     ///< exchanged
  lanes_of_b,         ///< codes from the next lane
  scale_thread_of_a,  ///< the scales of the next 16 rows
  scale_thread_of_b,  ///< the scales of the next 8 columns
  scale_bytes_of_a,   ///< shifted by one block along K
  scale_bytes_of_b,
  byte_id_of_a,  ///< the scales of the next step; MX only, for NVFP4 has but one
  byte_id_of_b,
  rows_of_d,       ///< sums of row r and r + 8 exchanged
  columns_of_d,    ///< sums of neighbours exchanged
  sum_restarted,   ///< D = A * B^T in place of D += A * B^T
  sum_to_nearest,  ///< the accumulator added outside, rounded to nearest
  slow_warp        ///< no fault: warp 0 is far behind the others, which must wait for it
};

__constant__ fault planted;

__device__ u32 exchange_nibbles(u32 x) { return (x & 0x0f0f'0f0fu) << 4 | (x >> 4 & 0x0f0f'0f0fu); }
template <class T>
__device__ void exchange(T& x, T& y) {
  const T old = x;
  x = y;
  y = old;
}

/// The model, but for the fault that is planted.
struct faulty : mma::model {
  static __device__ void spoil_codes(u32 (&a)[4], u32 (&b)[2]) {
    if (planted == fault::nibbles_of_a)
      for (u32& x : a) x = exchange_nibbles(x);
    if (planted == fault::registers_of_a) exchange(a[1], a[2]);
    if (planted == fault::fragments_of_b) exchange(b[0], b[1]);
    if (planted == fault::lanes_of_b)
      for (u32& x : b) x = __shfl_xor_sync(0xffff'ffffu, x, 1);
  }
  static __device__ void spoil_scales(int scales, mma::scale_operand& a, mma::scale_operand& b) {
    if (planted == fault::scale_thread_of_a) a.thread_id ^= 1;
    if (planted == fault::scale_thread_of_b) b.thread_id ^= 1;
    if (planted == fault::scale_bytes_of_a) a.word = __funnelshift_r(a.word, a.word, 8);
    if (planted == fault::scale_bytes_of_b) b.word = __funnelshift_r(b.word, b.word, 8);
    if (planted == fault::byte_id_of_a) a.byte_id ^= static_cast<u16>(scales);
    if (planted == fault::byte_id_of_b) b.byte_id ^= static_cast<u16>(scales);
  }
  static __device__ void spoil_sums(float (&d)[4]) {
    if (planted == fault::rows_of_d) exchange(d[0], d[2]), exchange(d[1], d[3]);
    if (planted == fault::columns_of_d) exchange(d[0], d[1]), exchange(d[2], d[3]);
  }

  template <block_format F, block_format G>
  __noinline__ static __device__ void mma(memory& w, float (&d)[4], u32 const (&a)[4], u32 const (&b)[2],
                                          mma::scale_operand scale_a, mma::scale_operand scale_b) {
    if (planted == fault::slow_warp && threadIdx.x < 32) __nanosleep(5000);
    u32 codes_a[4] = {a[0], a[1], a[2], a[3]}, codes_b[2] = {b[0], b[1]};
    const float before[4] = {d[0], d[1], d[2], d[3]};
    const bool apart = planted == fault::sum_to_nearest;
    spoil_codes(codes_a, codes_b);
    spoil_scales(mma::step_scales<F>, scale_a, scale_b);
    if (apart || planted == fault::sum_restarted)
      for (float& x : d) x = 0.0f;
    mma::model::mma<F, G>(w, d, codes_a, codes_b, scale_a, scale_b);
    if (apart)
      for (int i = 0; i < 4; ++i) d[i] = __fadd_rn(before[i], d[i]);
    spoil_sums(d);
  }
};

/// True if the comparison sees the fault.
template <class F, class G>
bool seen(fault f) {
  gemm_case<F, swizzled_128x4, G, swizzled_128x4, float> c({70, 40, 256});
  REQUIRE(cudaMemcpyToSymbol(planted, &f, sizeof f) == cudaSuccess);
  return !same_bits(c.on_device(gemm_with<faulty>{}), c.oracle());
}

template <class F, class G>
void check_faults() {
  for (int i = 1; i <= static_cast<int>(fault::sum_to_nearest); ++i) {
    const fault f = static_cast<fault>(i);
    const bool of_byte_id = f == fault::byte_id_of_a || f == fault::byte_id_of_b;
    if (same_type<F, nvfp4> && of_byte_id) continue;
    INFO(F::name << ", fault " << i);
    CHECK(seen<F, G>(f));
  }
  CHECK(!seen<F, G>(fault::none));
}

}  // namespace

TEST_CASE("device gemm: faults planted in the instruction are seen", "[device][gemm][faults]") {
  if (!gpu_or_warn()) return;
  check_faults<nvfp4, nvfp4>();
  check_faults<mxfp4, mxfp4>();
  check_faults<mxfp8_e4m3, mxfp8_e5m2>();
}

TEST_CASE("device gemm: warps wait for a slow one", "[device][gemm][faults]") {
  if (!gpu_or_warn()) return;
  CHECK_FALSE(seen<nvfp4, nvfp4>(fault::slow_warp));
  CHECK_FALSE(seen<mxfp8_e4m3, mxfp8_e5m2>(fault::slow_warp));
}

namespace {

/// The steps along K of an operand of NVFP4, last to first.
template <class Layout>
void reverse_steps(gemm_operand<nvfp4, Layout>& x) {
  const gemm_operand_data<nvfp4, Layout> old = x.data;
  const i64 steps = old.cols / 64;
  for (i64 row = 0; row < old.rows; ++row)
    for (i64 step = 0; step < steps; ++step) {
      const size_t from = static_cast<size_t>(row * steps + step),
                   to = static_cast<size_t>(row * steps + steps - 1 - step);
      std::memcpy(&x.data.codes[to * 32], &old.codes[from * 32], 32);
      std::memcpy(&x.data.scales[to * 4], &old.scales[from * 4], 4);
    }
}

/// Row-major scales, but rows one too short.
struct short_rows : linear {
  FOURSCALE_HD static constexpr i64 offset(i64 row, i64 block, i64 blocks) {
    return row * (blocks - 1) + block;
  }
};
/// Reads the scales of A in another layout.
template <class Layout>
struct gemm_misreading {
  template <class A, class... More>
  errc operator()(A const& a, More const&... more) const {
    const block_scaled_view<nvfp4, Layout> misread{a.codes, a.scales, a.rows, a.cols, a.amax};
    return gemm_with<mma::model>{}(misread, more...);
  }
};

}  // namespace

TEST_CASE("device gemm: the order of steps along K is seen", "[device][gemm][faults]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({30, 40, 576});
  const std::vector<float> ascending = c.oracle(), descending = c.oracle(step_order::descending);
  reverse_steps(c.a);
  reverse_steps(c.b);
  const std::vector<float> d = c.on_device(gemm_with<mma::model>{});
  CHECK_FALSE(same_bits(d, ascending));
  CHECK(same_bits(d, descending));
}

TEST_CASE("device gemm: scales in a wrong stride or layout are seen", "[device][gemm][faults]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> rows({30, 40, 128});
  CHECK_FALSE(same_bits(rows.on_device(gemm_misreading<short_rows>{}), rows.oracle()));
  CHECK(same_bits(rows.on_device(gemm_misreading<linear>{}), rows.oracle()));
  gemm_case<nvfp4, swizzled_128x4, nvfp4, linear, float> tiles({128, 40, 128});
  CHECK_FALSE(same_bits(tiles.on_device(gemm_misreading<linear>{}), tiles.oracle()));
}

TEST_CASE("device gemm: one wrong code at either end is seen", "[device][gemm][faults]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({129, 130, 208});
  const std::vector<float> right = c.oracle();
  for (std::vector<u8>* codes : {&c.a.data.codes, &c.b.data.codes})
    for (u8* code : {&codes->front(), &codes->back()}) {
      *code ^= 0x77;
      CHECK_FALSE(same_bits(c.on_device(gemm_with<mma::model>{}), right));
      *code ^= 0x77;
    }
  CHECK(same_bits(c.on_device(gemm_with<mma::model>{}), right));
}

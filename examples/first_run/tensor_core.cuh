// SPDX-License-Identifier: Apache-2.0
// Compares the block-scaled MMA with its model on the host: mma.sync on single fragments that are hard on its
// rounding, and whole GEMMs by mma.sync and tcgen05.
#pragma once

#include <fourscale/device/gemm_tcgen05.cuh>
#include <vector>

#include "harness.cuh"

namespace first_run {

namespace model = fourscale::model;
namespace mma = fourscale::mma;

/// The classes of cases: what each is hard on. `kind` below is an index of this table.
inline constexpr char const* classes[] = {
    "ordinary scales", "any scales",      "infinite and NaN accumulators",
    "NaN scales",      "zeros and signs", "near overflow"};
inline constexpr int class_count = 6;

/// A scale byte of a class, from the random word r. In some bytes of UE4M3, bit 7 is set, which the model
/// ignores.
template <class F>
FOURSCALE_HD u32 scale_byte(int kind, u32 r) {
  constexpr bool e8 = F::block_size == 32;
  constexpr u32 nan = e8 ? 0xffu : 0x7fu;
  const u32 any = e8 ? r % 255 : r % 127;
  if (kind == 0) return e8 ? 120 + r % 15 : 0x28 + r % 32;
  if (kind == 3 && r % 8 == 0) return nan;
  if (kind == 5) return e8 ? 180 + r % 16 : 0x70 + r % 15;
  return any | (!e8 && kind == 1 && r >> 30 == 0 ? 0x80u : 0u);
}
template <class F>
FOURSCALE_HD u32 scale_word(int kind, u64 i, u32 which) {
  u32 word = 0;
  for (u32 j = 0; j < 4; ++j) word |= scale_byte<F>(kind, random_word(i, which + j)) << (8 * j);
  return word;
}
/// A word of four or eight codes. Those of E4M3 are no NaN, but for one in 256 words.
template <class F>
FOURSCALE_HD u32 code_word(int kind, u64 i, u32 which) {
  u32 word = random_word(i, which);
  if (kind == 4) word &= random_word(i, which + 1000) | 0x8888'8888u;  // many zeros of both signs
  if constexpr (F::element::width == 8)
    if (word % 256 != 0) word &= 0xf7f7'f7f7u;
  return word;
}
/// An accumulator of a class.
FOURSCALE_HD inline float accumulator(int kind, u64 i, u32 which) {
  const u32 r = random_word(i, which), sign = r & 0x8000'0000u;
  if (kind == 2) return as_float(sign | (r % 3 == 0 ? 0x7fc0'0000u : 0x7f80'0000u));
  if (kind == 4) return as_float(r % 2 ? sign : sign | (r & 0x807fu));
  if (kind == 5) return as_float(sign | 0x7f00'0000u | (r & 0x7f'ffffu));
  return as_float(sign | (kind == 0 ? 100 + (r >> 8) % 48 : (r >> 8) % 255) << 23 | (r & 0x7f'ffffu));
}

/// Fills the registers of lane `lane` in case i. Each class has a sixth of the cases.
template <class F>
FOURSCALE_HD void fill_lane(u64 i, u32 lane, model::warp_registers& w) {
  const int kind = static_cast<int>(i % class_count);
  const u64 own = i * 32 + lane;
  for (u32 k = 0; k < 4; ++k) w.a[lane][k] = code_word<F>(kind, own, k);
  for (u32 k = 0; k < 2; ++k) w.b[lane][k] = code_word<F>(kind, own, 4 + k);
  for (u32 k = 0; k < 4; ++k) w.c[lane][k] = accumulator(kind, own, 8 + k);
  w.scale_a[lane] = scale_word<F>(kind, own, 16);
  w.scale_b[lane] = scale_word<F>(kind, own, 20);
}
template <class F>
/// Which byte of which thread holds the scales of an operand in case i.
FOURSCALE_HD model::scale_selector selector(u64 i, u32 threads) {
  const u32 r = random_word(i, 30);
  const u32 byte = F::block_size == 16 ? 0 : F::element::width == 4 ? 2 * (r % 2) : r % 4;
  return {byte, (r >> 8) % threads};
}

/// One warp, a CTA by itself, for each case. `Set`: the hardware, or the model in its place.
template <class Set, class F>
__global__ void mma_kernel(float* d) {
  if constexpr (Set::available()) {
    __shared__ model::warp_registers w;
    __shared__ __align__(16) unsigned char memory[sizeof(typename Set::memory)];
    const u32 lane = threadIdx.x;
    fill_lane<F>(blockIdx.x, lane, w);
    float sum[4];
    for (int k = 0; k < 4; ++k) sum[k] = w.c[lane][k];
    const model::scale_selector a = selector<F>(blockIdx.x, 2), b = selector<F>(blockIdx.x + 7, 4);
    __syncwarp();
    Set::template mma<F, F>(reinterpret_cast<typename Set::memory&>(memory), sum, w.a[lane], w.b[lane],
                            {w.scale_a[lane], static_cast<u16>(a.byte_id), static_cast<u16>(a.thread_id)},
                            {w.scale_b[lane], static_cast<u16>(b.byte_id), static_cast<u16>(b.thread_id)});
    for (int k = 0; k < 4; ++k) d[(i64{blockIdx.x} * 32 + lane) * 4 + k] = sum[k];
  }
}

/// What the model on the host gives for output k of a lane in case i.
template <class F>
u32 expected_word(model::warp_registers const& w, u64 i, u32 lane, u32 k) {
  return f4::bit_cast<u32>(
      model::mma_sync(mma::format_of<F, F>(), w, selector<F>(i, 2), selector<F>(i + 7, 4), lane, k));
}

template <class Set, class F>
void run_mma(char const* what, bool can, char const* needs) {
  if (!can) return print_not_possible(what, needs);
  constexpr i64 cases = 600 * class_count;
  shared_array<float> d(cases * 128);
  mma_kernel<Set, F><<<static_cast<unsigned>(cases), 32>>>(d.data);
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  u64 different = 0, of_class[class_count] = {};
  char first[class_count][160];
  model::warp_registers w;
  for (u64 i = 0; i < static_cast<u64>(cases); ++i) {
    for (u32 lane = 0; lane < 32; ++lane) fill_lane<F>(i, lane, w);
    for (u32 j = 0; j < 128; ++j) {
      const u32 want = expected_word<F>(w, i, j / 4, j % 4),
                got = f4::bit_cast<u32>(d[static_cast<i64>(i * 128 + j)]);
      if (want == got) continue;
      ++different;
      if (of_class[i % class_count]++ == 0)
        std::snprintf(first[i % class_count], sizeof first[0],
                      "case %d, lane %u, value %u: accumulator 0x%08x, model 0x%08x, here 0x%08x",
                      static_cast<int>(i), j / 4, j % 4, f4::bit_cast<u32>(w.c[j / 4][j % 4]), want, got);
    }
  }
  print_verdict(what, static_cast<u64>(cases * 128), different);
  std::printf("\n");
  for (int c = 0; c < class_count; ++c)
    if (of_class[c] != 0)
      std::printf("            %s: %llu differ; %s\n", classes[c],
                  static_cast<unsigned long long>(of_class[c]), first[c]);
}

/// An operand of a GEMM in memory: any codes, and scales of a class, also in the padding of their layout.
template <class F, class Layout>
struct operand {
  shared_array<u8> codes, scales;
  f4::block_scaled_view<F, Layout> view;
  operand(i64 rows, i64 k, int kind, u64 seed)
      : codes(f4::code_bytes<F>(rows, k)),
        scales(f4::scale_bytes<F, Layout>(rows, k)),
        view(codes.data, scales.data, rows, k) {
    for (i64 i = 0; i < codes.count; ++i)
      codes[i] = static_cast<u8>(code_word<F>(kind, static_cast<u64>(i) + (seed << 40), 0) >> 8);
    for (i64 i = 0; i < scales.count; ++i)
      scales[i] = static_cast<u8>(scale_byte<F>(kind, random_word(static_cast<u64>(i) + (seed << 40), 3)));
    view.amax = f4::amax_value(3.5f);
  }
  /// What one MMA instruction reads of row r, at step `step` along K.
  model::operand_row row(i64 r, i64 step) const {
    constexpr i64 elements = mma::step_elements<F>, count = elements / F::block_size;
    model::operand_row x;
    std::memcpy(x.words, codes.data + (r * view.cols + step * elements) * F::element::width / 8, 32);
    for (i64 j = 0; j < count; ++j) x.scales |= u32{view.load_scale(r, step * count + j).bits} << (8 * j);
    return x;
  }
};

/// The number of outputs that differ from the definition, which chains the model along K. The GEMM has alpha
/// = 1, beta = 0, and D in FP32. All NaNs count as equal. `first` describes the first difference.
template <class F, class Layout>
u64 count_wrong(operand<F, Layout> const& a, operand<F, Layout> const& b, float const* d,
                char (&first)[120]) {
  const float factor = f4::output_factor(1.0f, a.view.amax.scale_of_row(0), b.view.amax.scale_of_row(0));
  const i64 rows = a.view.rows, cols = b.view.rows, steps = a.view.cols / mma::step_elements<F>;
  std::vector<u32> want(static_cast<size_t>(rows * cols));
#ifdef _OPENMP
#pragma omp parallel for
#endif
  for (i64 i = 0; i < rows * cols; ++i) {
    float sum = 0.0f;
    for (i64 step = 0; step < steps; ++step)
      sum =
          model::block_scaled_dot(mma::format_of<F, F>(), a.row(i / cols, step), b.row(i % cols, step), sum);
    want[static_cast<size_t>(i)] = f4::bit_cast<u32>(f4::gemm_output<float>(factor, sum));
  }
  u64 wrong = 0;
  for (i64 i = 0; i < rows * cols; ++i) {
    const u32 w = want[static_cast<size_t>(i)], got = f4::bit_cast<u32>(d[i]);
    const bool both_nan =
        (w & 0x7fff'ffffu) > f4::float_inf_bits && (got & 0x7fff'ffffu) > f4::float_inf_bits;
    if (w != got && !both_nan && wrong++ == 0)
      std::snprintf(first, sizeof first, "row %d, column %d: model 0x%08x, here 0x%08x",
                    static_cast<int>(i / cols), static_cast<int>(i % cols), w, got);
  }
  return wrong;
}

/// Checks the GEMM that `call(a, b, d)` launches: several shapes, and all classes but that of infinite and
/// NaN accumulators, which a GEMM does not take.
template <class F, class Layout, class Call>
void run_gemm(char const* what, char const* needs, Call call) {
  constexpr i64 shapes[][3] = {{128, 256, 128}, {128, 256, 256}, {200, 136, 512}, {256, 512, 1024}};
  u64 different = 0, count = 0;
  char lines[600] = "";
  for (int n = 0; n < 4 * class_count; ++n) {
    const int kind = n % class_count;
    if (kind == 2) continue;
    const auto [rows, cols, k] = shapes[n / class_count];
    const operand<F, Layout> a(rows, k, kind, static_cast<u64>(2 * n)),
        b(cols, k, kind, static_cast<u64>(2 * n + 1));
    shared_array<float> d(rows * cols);
    const f4::errc e = call(a.view, b.view, f4::matrix_view<float>{d.data, rows, cols});
    if (e == f4::errc::no_instruction) return print_not_possible(what, needs);
    require(e);
    require(cudaDeviceSynchronize());
    char first[120];
    const u64 wrong = count_wrong(a, b, d.data, first);
    different += wrong, count += static_cast<u64>(rows * cols);
    const size_t used = std::strlen(lines);
    if (wrong != 0)
      std::snprintf(lines + used, sizeof lines - used, "            %d x %d x %d, %s: %llu differ; %s\n",
                    static_cast<int>(rows), static_cast<int>(cols), static_cast<int>(k), classes[kind],
                    static_cast<unsigned long long>(wrong), first);
  }
  print_verdict(what, count, different);
  std::printf("\n%s", lines);
}

template <class Set, class F>
void run_gemm_mma_sync(char const* what) {
  run_gemm<F, f4::linear>(what, "sm_120f or 121f", [](auto const& a, auto const& b, auto const& d) {
    return f4::device::gemm_mma_sync<Set>(a, b, d);
  });
}

template <int CtaGroup, class F, int Sharing = 1>
void run_gemm_tcgen05(char const* what) {
  run_gemm<F, f4::swizzled_128x4>(
      what, "sm_100f, 103f or 110f", [](auto const& a, auto const& b, auto const& d) {
        return f4::device::gemm_tcgen05<mma::tcgen05::hardware<CtaGroup, Sharing>>(a, b, d);
      });
}

/// The tcgen05 kernel with the model in place of the tensor core. The model also finds misuse.
template <int CtaGroup, class F>
void run_gemm_tcgen05_model(char const* what) {
  using set = mma::tcgen05::model<CtaGroup>;
  constexpr int groups = 4;
  shared_array<mma::tcgen05::model_memory> memory(groups);
  shared_array<u32> misuse(1);
  misuse[0] = 0;
  const f4::device::tcgen05_options<set> options{{memory.data, misuse.data}, groups * CtaGroup};
  run_gemm<F, f4::swizzled_128x4>(what, "sm_90", [&](auto const& a, auto const& b, auto const& d) {
    // The memory of the model must be zero at every launch. The launch before has ended.
    std::memset(static_cast<void*>(memory.data), 0, groups * sizeof(mma::tcgen05::model_memory));
    return f4::device::gemm_tcgen05<set>(a, b, d, {}, options);
  });
  if (misuse[0] == 0) return;
  ++differences;
  std::printf("            %s\n", message(static_cast<model::misuse>(misuse[0])));
}

}  // namespace first_run

// SPDX-License-Identifier: Apache-2.0
// The pieces that kernels of one's own are made of, compared with plain code for the same.
#include "device/matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

__global__ void sum_kernel(float const* x, float* sums) {
  __shared__ cta::reduction shared;
  const i64 i = blockIdx.x * i64{blockDim.x} + threadIdx.x;
  sums[i] = cta::sum(x[i], shared);
}

/// Leaves NaN wherever a later CTA may have its shared memory.
__global__ void leave_nan() {
  __shared__ float volatile left[12288];
  for (u32 i = threadIdx.x; i < 12288; i += blockDim.x) left[i] = bit_cast<float>(0x7fc0'0000u);
}

/// In the order that the header promises: lanes in pairs, then warps in pairs.
float sum_in_pairs(float (&x)[32]) {
  for (int distance = 16; distance >= 1; distance /= 2)
    for (int i = 0; i < distance; ++i) x[i] += x[i + distance];
  return x[0];
}
float sum_in_order(float const* x, i64 threads) {
  float warps[32] = {};
  for (i64 warp = 0; warp < threads / 32; ++warp) {
    float lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = x[32 * warp + i];
    warps[warp] = sum_in_pairs(lanes);
  }
  return sum_in_pairs(warps);
}

__global__ void raise_kernel(float const* x, float* amax) {
  cta::raise_amax(x[blockIdx.x * blockDim.x + threadIdx.x], amax);
}

/// A thread moves N values: through registers, through floats, one by one.
template <class T, int N>
__global__ void move_kernel(T const* x, T* stored, T* rounded, T* each) {
  const i64 first = i64{threadIdx.x} * N;
  const auto v = cta::values<T, N>::load(x + first);
  float y[N];
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) {
    each[first + i] = v.get(i);
    y[i] = to_float(v.get(i)) * 1.00390625f;  // 1 + 2^-8: a tie for every bf16, so that rounding shows
  }
  v.store(stored + first);
  cta::values<T, N>::rounded(y).store(rounded + first);
}

template <class T, int N>
void check_values() {
  const test_matrix<T> m(64, N, N, 0);
  device_buffer<T> stored(64 * N), rounded(64 * N), each(64 * N);
  move_kernel<T, N><<<1, 64>>>(m.copy.data(), stored.data(), rounded.data(), each.data());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  std::vector<T> want = m.values;
  for (T& x : want) x = from_float<T>(to_float(x) * 1.00390625f);
  CHECK(same_values(stored.to_host(), m.values));
  CHECK(same_values(each.to_host(), m.values));
  CHECK(same_values(rounded.to_host(), want));
}

template <class F, class Layout, class T, class Recipe>
__global__ void quantize_kernel(matrix_view<T const> x, block_scaled_view<F, Layout> q, Recipe recipe,
                                float* largest) {
  const i64 row = blockIdx.x, block = threadIdx.x;
  const auto v = cta::values<T, F::block_size>::load(&x.at(row, block * F::block_size));
  float most = 0.0f;
  cta::output_row(q, row).store(threadIdx.x, cta::quantize_block<F>(v, recipe, q.amax.scale_of_row(row),
                                                                    {row, block * F::block_size}, most));
  largest[row * q.blocks() + block] = most;
}

template <class F, class Layout, class T, class Recipe>
void check_blocks(Recipe const& recipe, float (*value)(u64, u64)) {
  INFO(F::name);
  constexpr i64 rows = 256, blocks = 64, cols = blocks * F::block_size;
  const test_matrix<T> m(rows, cols, cols, 0, value);
  std::vector<u8> c(static_cast<size_t>(code_bytes<F>(rows, cols))),
      s(static_cast<size_t>(scale_bytes<F, Layout>(rows, cols)));
  device_buffer<u8> d_c(static_cast<i64>(c.size())), d_s(static_cast<i64>(s.size()));
  device_buffer<float> d_largest(rows * blocks);
  block_scaled_view<F, Layout> q{c, s, rows, cols}, d{d_c.data(), d_s.data(), rows, cols};
  q.amax = d.amax = {amax_value(37.0f), recipe};
  REQUIRE(host::quantize(m.on_host(), q, recipe) == errc::ok);
  const auto made = cta::prepared(recipe);
  quantize_kernel<F, Layout, T><<<rows, blocks>>>(m.on_device(), d, made, d_largest.data());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  check_same_codes(q, d_c.to_host(), c);
  check_same_scales(q, d_s.to_host(), s);
  const std::vector<float> largest = d_largest.to_host();
  for (i64 i = 0; i < rows * blocks; ++i) {
    float x[F::block_size];
    for (int j = 0; j < F::block_size; ++j)
      x[j] = to_float(m.values[static_cast<size_t>(i * F::block_size + j)]);
    if (bit_cast<u32>(largest[static_cast<size_t>(i)]) != bit_cast<u32>(block_amax(x)))
      FAIL("the amax of block " << i << " differs");
  }
}

}  // namespace

TEST_CASE("cta: a sum has the order that it promises", "[cta][reduce]") {
  if (!gpu_or_warn()) return;
  std::vector<float> x(4 * 1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = activation(i / 32, i);
  const device_buffer<float> d_x(x);
  for (const unsigned threads : {32u, 64u, 96u, 256u, 448u, 1024u}) {
    device_buffer<float> d_sums(3 * threads);
    leave_nan<<<1024, 256>>>();
    sum_kernel<<<3, threads>>>(d_x.data(), d_sums.data());
    const std::vector<float> sums = d_sums.to_host();
    std::vector<float> want(3 * threads);
    for (size_t i = 0; i < want.size(); ++i) want[i] = sum_in_order(&x[i / threads * threads], threads);
    CHECK(sums == want);
  }
}

TEST_CASE("cta: raise_amax keeps the largest of all warps and of what was there", "[cta][reduce]") {
  if (!gpu_or_warn()) return;
  std::vector<float> x(1 << 16);
  float largest = 0.0f;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = bit_cast<float>(amax_bits(activation(i / 64, i)));
    largest = x[i] > largest ? x[i] : largest;
  }
  const device_buffer<float> d_x(x);
  for (const float before : {0.0f, 2 * largest}) {
    const device_buffer<float> amax(std::vector<float>{before});
    raise_kernel<<<256, 256>>>(d_x.data(), amax.data());
    CHECK(amax.to_host()[0] == (before > largest ? before : largest));
  }
}

TEST_CASE("cta: values survive registers and are rounded as from_float rounds", "[cta][values]") {
  if (!gpu_or_warn()) return;
  check_values<bf16, 16>();
  check_values<bf16, 32>();
  check_values<fp16, 16>();
  check_values<float, 16>();
}

TEST_CASE("cta: blocks from registers equal the host's, their amax too", "[cta][quantize]") {
  if (!gpu_or_warn()) return;
  const quantizer random{stochastic{philox{3, 4}}};
  for (float (*value)(u64, u64) : {activation, ugly_value}) {
    check_blocks<nvfp4, linear, bf16>(quantizer{}, value);
    check_blocks<nvfp4, swizzled_128x4, fp16>(random, value);
    check_blocks<nvfp4, linear, float>(quantizer{}, value);
    check_blocks<mxfp4, swizzled_128x4, bf16>(quantizer{}, value);
    check_blocks<mxfp8_e4m3, linear, bf16>(quantizer{}, value);
    check_blocks<nvfp4, linear, bf16>(quantizer{nearest_even{}, four_over_six{}}, value);
  }
}

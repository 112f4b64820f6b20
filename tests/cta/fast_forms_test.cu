// SPDX-License-Identifier: Apache-2.0
// Each fast form compared with its definition, on the device: every value of 16 bits at every place of a
// block under every scale, and blocks of any bits under any tensor scale. Where a fast form says that it
// holds, its bits are those of the definition; of a NaN it never says so, of ordinary values always.
#include <fourscale/cta/quantize_block.cuh>
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>
#include <fourscale/transform/hadamard.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"

namespace fourscale::test {

/// Random words without of_sixteen().
struct mixed_words {
  FOURSCALE_HD constexpr u32 operator()(position where) const {
    return static_cast<u32>(mix(static_cast<u64>(where.row) << 20 ^ static_cast<u64>(where.col)));
  }
};

/// How many scales lead to finite values: all of E4M3, and of E8M0 those whose 6 is a bf16.
template <class F>
inline constexpr u64 scale_count = same_type<typename F::scale, e4m3> ? 127 : 253;

/// The amax of a block that scale code `code` is chosen for.
template <class F>
FOURSCALE_HD constexpr float amax_for_scale(u64 code, tensor_scale<F> const& tensor) {
  const float amax = 6.0f * decode(typename F::scale{static_cast<u8>(code)});
  if constexpr (F::has_tensor_scale)
    return amax * tensor.decode;
  else
    return amax;
}

/// Blocks with one value of any pattern at one of `places` places, an amax for one scale, and smaller values.
template <class F, class T>
struct swept_blocks {
  static constexpr bool ordinary_tensor = true;
  tensor_scale<F> of_tensor;
  u64 places;

  FOURSCALE_HD constexpr u64 count() const { return 65536 * scale_count<F> * places; }
  FOURSCALE_D tensor_scale<F> tensor(u64) const { return of_tensor; }

  FOURSCALE_D cta::values<T, F::block_size> block(u64 i) const {
    constexpr int n = F::block_size;
    const u64 code = i / 65536 % scale_count<F>, random = mix(i);
    const int at = static_cast<int>(i / 65536 / scale_count<F> * (n / places)),
              amax_at = (at + 1 + static_cast<int>(code % (n - 1))) % n;
    const float amax = amax_for_scale<F>(code, of_tensor);
    cta::values<T, n> x{};
    FOURSCALE_UNROLL
    for (int k = 0; k < n; ++k) {
      const u32 bits = static_cast<u32>(random >> (3 * k));
      const float smaller = amax * (static_cast<float>(static_cast<i32>(bits % 256)) - 128.0f) * 0x1p-7f;
      T value = from_float<T>(k == amax_at ? amax : smaller);
      if (k == at) value = swept_value(static_cast<u32>(i % 65536), static_cast<u32>(random));
      x.set(k, value);
    }
    return x;
  }

 private:
  static FOURSCALE_D T swept_value(u32 pattern, [[maybe_unused]] u32 random) {
    if constexpr (sizeof(T) == 4)
      return bit_cast<T>(pattern << 16 | (random & 0xffffu));
    else
      return bit_cast<T>(static_cast<u16>(pattern));
  }
};

/// Blocks of random bits, of values as they are, or of both; under tensor scales of any size.
template <class F, class T, class Scale>
struct random_blocks {
  static constexpr bool ordinary_tensor = false;
  Scale scale;

  FOURSCALE_HD constexpr u64 count() const { return 1 << 22; }
  FOURSCALE_D tensor_scale<F> tensor(u64 i) const {
    constexpr u32 sizes[] = {0x4528'0000, 0x3f80'0000, 0x2180'0000, 0x1800'0000, 0x177f'ffff, 0x0f80'0000,
                             0x0000'0001, 0x5d80'0000, 0x7180'0000, 0x7200'0000, 0x7f7f'ffff, 0x0000'0000,
                             0x7f80'0000, 0x7fc0'0000, 0x3eaa'aaab, 0x4640'e6b7};
    u32 amax = sizes[0];
    FOURSCALE_UNROLL
    for (u64 k = 1; k < 16; ++k) amax = mix(i) % 16 == k ? sizes[k] : amax;
    return tensor_scale_for<F>(scale, bit_cast<float>(amax));
  }
  FOURSCALE_D cta::values<T, F::block_size> block(u64 i) const {
    constexpr int n = F::block_size;
    const u64 how = mix(~i) % 4, odd = mix(i ^ 0xabcd) % n;
    const float size = bit_cast<float>(static_cast<u32>(1 + mix(i ^ 0x1234) % 254) << 23);
    cta::values<T, n> x{};
    FOURSCALE_UNROLL
    for (u64 k = 0; k < n; ++k) {
      const bool is_ugly = how == 0 || (how == 1 && k == odd);
      x.set(static_cast<int>(k),
            from_float<T>(is_ugly ? ugly(i * n + k) : gaussian(i * n + k) * (how == 3 ? size : 1.0f)));
    }
    return x;
  }
};

template <class F>
FOURSCALE_D bool same_block(packed_block<F> const& a, packed_block<F> const& b) {
  bool same = a.scale.bits == b.scale.bits;
  FOURSCALE_UNROLL
  for (int i = 0; i < block_code_bytes<F>; ++i) same = same && a.codes[i] == b.codes[i];
  return same;
}

/// Values for which every fast form holds.
template <class T, int N>
FOURSCALE_D bool is_ordinary(cta::values<T, N> const& block) {
  bool all = true;
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) {
    const float magnitude = fabsf(block.value(i));
    all = all && (magnitude == 0.0f || (magnitude >= 0x1p-50f && magnitude <= 0x1p50f));
  }
  return all;
}

/// Blocks i and its mirror image in one batch, as `as_columns`, two columns side by side, or as rows.
template <bool AsColumns, class F, class T, class Quantizer, class Data>
struct fast_form_is_definition {
  Quantizer q;
  Data data;

  FOURSCALE_D bool operator()(u64 i) const {
    const u64 other = data.count() - 1 - i;
    const cta::values<T, F::block_size> blocks[2] = {data.block(i), data.block(other)};
    const tensor_scale<F> tensors[2] = {data.tensor(i), data.tensor(other)};
    const position where[2] = {place(i), place(other)};
    cta::attempt<F> results[2];
    if constexpr (AsColumns) {
      cta::column_pair<T, F::block_size> columns;
      FOURSCALE_UNROLL
      for (int k = 0; k < F::block_size; ++k)
        columns.words[k] = bit_cast<u16>(blocks[0].get(k)) | u32{bit_cast<u16>(blocks[1].get(k))} << 16;
      cta::try_quantize_pair<F>(
          columns, q, [&](int k) { return tensors[k]; }, where, results);
    } else {
      cta::try_quantize_blocks<F>(
          blocks, q, [&](int k) { return tensors[k]; }, [&](int k) { return where[k]; },
          [&](int k, cta::attempt<F> const& result) { results[k] = result; });
    }
    bool good = true;
    FOURSCALE_UNROLL
    for (int k = 0; k < 2; ++k) good = good && agrees(results[k], blocks[k], tensors[k], where[k]);
    return good;
  }

 private:
  static FOURSCALE_D position place(u64 i) {
    return {static_cast<i64>(i % 4096), static_cast<i64>(i / 4096) * F::block_size};
  }
  FOURSCALE_D bool agrees(cta::attempt<F> const& result, cta::values<T, F::block_size> const& block,
                          tensor_scale<F> const& tensor, position where) const {
    const float amax = block.amax_or_nan();
    if (!result.valid) return !(Data::ordinary_tensor && is_ordinary(block));
    return amax == amax && same_block(result.block, cta::quantize_by_definition<F>(block, q, tensor, where));
  }
};

/// The public function, which does again what does not hold.
template <class F, class T, class Quantizer, class Data>
struct quantize_block_is_definition {
  Quantizer q;
  Data data;

  FOURSCALE_D bool operator()(u64 i) const {
    const auto block = data.block(i);
    const tensor_scale<F> tensor = data.tensor(i);
    const position where{static_cast<i64>(i), 0};
    float largest = 0.0f;
    const packed_block<F> got = cta::quantize_block<F>(block, q, tensor, where, largest);
    return largest == block.amax() &&
           same_block(got, cta::quantize_by_definition<F>(block, q, tensor, where));
  }
};

template <bool AsColumns, class F, class T, class Quantizer, class Data>
void check_blocks(Quantizer const& q, Data const& data) {
  CHECK(first_failure_on_device(data.count(),
                                fast_form_is_definition<AsColumns, F, T, Quantizer, Data>{q, data}) == none);
}

/// By rows, or by columns. A few places do where each block takes long.
template <bool AsColumns, class F, class T, class Quantizer>
void check_fast_form(Quantizer const& quantizer, u64 places) {
  const auto q = cta::prepared(quantizer);
  static_assert(cta::detail::offers_fast_form<F, decltype(cta::prepared(quantizer))>);
  for (const float amax : {2688.0f, 37.3f, 0x1.23p-20f}) {
    const tensor_scale<F> tensor = tensor_scale_for<F>(quantizer.scale, amax);
    check_blocks<AsColumns, F, T>(q, swept_blocks<F, T>{tensor, places});
    if (!F::has_tensor_scale) break;
  }
  check_blocks<AsColumns, F, T>(q, random_blocks<F, T, decltype(quantizer.scale)>{quantizer.scale});
}
template <class F, class T, class Quantizer>
void check_rows(Quantizer const& quantizer, u64 places = F::block_size) {
  check_fast_form<false, F, T>(quantizer, places);
}
template <class F, class T, class Quantizer>
void check_columns(Quantizer const& quantizer, u64 places = F::block_size) {
  check_fast_form<true, F, T>(quantizer, places);
}

template <class F, class T, class Quantizer>
void check_quantize_block(Quantizer const& quantizer) {
  using data = random_blocks<F, T, decltype(quantizer.scale)>;
  const auto q = cta::prepared(quantizer);
  const quantize_block_is_definition<F, T, decltype(cta::prepared(quantizer)), data> body{q,
                                                                                          {quantizer.scale}};
  CHECK(first_failure_on_device(body.data.count(), body) == none);
}

}  // namespace fourscale::test

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr quantizer random_rounding{stochastic{philox{1, 2}}};
template <error_norm Norm, int ScaleMax>
constexpr quantizer<nearest_even, four_over_six<Norm, ScaleMax>> weighing{};
template <int N>
constexpr hadamard<N> rotation{sign_vector{0x5a3c'96f0'd7e8'1b42u}};
constexpr amax_scale default_rule{};

}  // namespace

TEST_CASE("fast forms: the sweep has every scale that E4M3 has", "[cta][fast]") {
  const tensor_scale<nvfp4> one{};
  for (u64 code = 0; code < scale_count<nvfp4>; ++code) {
    const float amax = amax_for_scale<nvfp4>(code, one);
    CHECK(to_float(from_float<bf16>(amax)) == amax);
    CHECK(two_level{}(nvfp4{}, amax, one).scale.bits == code);
  }
}

TEST_CASE("fast forms: nearest_even and two_level are their definitions", "[cta][fast][large]") {
  if (!gpu_or_warn()) return;
  check_rows<nvfp4, bf16>(quantizer{});
  check_rows<nvfp4, fp16>(quantizer{});
  check_rows<nvfp4, float>(quantizer{nearest_even{}, two_level{}}, 4);
  check_columns<nvfp4, bf16>(quantizer{});
  check_columns<nvfp4, fp16>(quantizer{}, 4);
  check_quantize_block<nvfp4, bf16>(quantizer{});
}

TEST_CASE("fast forms: nearest_even is its definition under a rule without one", "[cta][fast][large]") {
  if (!gpu_or_warn()) return;
  check_rows<nvfp4, bf16>(quantizer{nearest_even{}, two_level_division{}}, 4);
  check_rows<mxfp4, bf16>(quantizer{}, 8);
  check_rows<mxfp4, float>(quantizer{}, 4);
  check_columns<mxfp4, bf16>(quantizer{}, 4);
}

TEST_CASE("fast forms: stochastic rounding is its definition", "[cta][fast][large]") {
  if (!gpu_or_warn()) return;
  check_rows<nvfp4, bf16>(random_rounding);
  check_rows<nvfp4, float>(quantizer{stochastic{mixed_words{}}}, 4);
  check_rows<mxfp4, bf16>(random_rounding, 4);
  check_columns<nvfp4, bf16>(random_rounding, 4);
  check_quantize_block<nvfp4, bf16>(random_rounding);
}

TEST_CASE("fast forms: four over six is its definition", "[cta][fast][large]") {
  if (!gpu_or_warn()) return;
  check_rows<nvfp4, bf16>(weighing<error_norm::mean_absolute, 256>, 4);
  check_rows<nvfp4, bf16>(weighing<error_norm::mean_absolute, 448>, 4);
  check_rows<nvfp4, bf16>(weighing<error_norm::mean_square, 256>, 4);
  check_rows<nvfp4, bf16>(weighing<error_norm::mean_square, 448>, 4);
  check_rows<nvfp4, float>(weighing<error_norm::mean_absolute, 256>, 2);
  check_columns<nvfp4, bf16>(weighing<error_norm::mean_square, 256>, 2);
  check_quantize_block<nvfp4, bf16>(weighing<error_norm::mean_absolute, 256>);
}

TEST_CASE("fast forms: Hadamard transforms are their definitions", "[cta][fast][large]") {
  if (!gpu_or_warn()) return;
  check_rows<nvfp4, bf16>(quantizer{nearest_even{}, default_rule, rotation<16>});
  check_rows<nvfp4, bf16>(quantizer{nearest_even{}, default_rule, rotation<8>}, 4);
  check_rows<nvfp4, fp16>(quantizer{nearest_even{}, default_rule, rotation<16>}, 4);
  check_rows<mxfp4, bf16>(quantizer{nearest_even{}, default_rule, rotation<32>}, 4);
  check_columns<nvfp4, bf16>(quantizer{stochastic{philox{1, 2}}, default_rule, rotation<16>}, 4);
  check_rows<nvfp4, bf16>(
      quantizer{nearest_even{}, four_over_six<error_norm::mean_absolute, 256>{}, rotation<16>}, 2);
}

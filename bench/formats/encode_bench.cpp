// SPDX-License-Identifier: Apache-2.0
// float -> code and back on one core, compared with the conversion functions of the CUDA toolkit's headers on
// the same data. The data fits the first cache: this measures arithmetic. Codes that differ from the
// toolkit's are an error.
#include <fourscale/formats/convert.hpp>
#include <vector>

#include "machine.hpp"
#include "support/data.hpp"

#if __has_include(<cuda_fp4.h>)
#define HAS_PEER 1
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#else
#define HAS_PEER 0
#endif

namespace {

using namespace fourscale;

constexpr int count = 1 << 20;

/// The toolkit's host functions for a format, with the counter that a ratio to them goes by.
template <class F>
struct toolkit;
#if HAS_PEER
template <>
struct toolkit<e2m1> {
  static constexpr char const* ratio = "ratio_to_cuda_fp4";
  static u8 encode(float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); }
  static u8 encode_pair(float lo, float hi) {
    return __nv_cvt_float2_to_fp4x2(float2{lo, hi}, __NV_E2M1, cudaRoundNearest);
  }
  static float decode(u8 bits) {
    __nv_fp4_e2m1 code;
    code.__x = bits;
    return static_cast<float>(code);
  }
};
template <__nv_fp8_interpretation_t Kind, class Type>
struct toolkit_fp8 {
  static constexpr char const* ratio = "ratio_to_cuda_fp8";
  static u8 encode(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, Kind); }
  static u16 encode_pair(float lo, float hi) {
    return __nv_cvt_float2_to_fp8x2(float2{lo, hi}, __NV_SATFINITE, Kind);
  }
  static float decode(u8 bits) {
    Type code;
    code.__x = bits;
    return static_cast<float>(code);
  }
};
template <>
struct toolkit<e4m3> : toolkit_fp8<__NV_E4M3, __nv_fp8_e4m3> {};
template <>
struct toolkit<e5m2> : toolkit_fp8<__NV_E5M2, __nv_fp8_e5m2> {};
#endif

/// N(0, 1) for E2M1, whose codes all occur then; wide enough to reach subnormals and saturation for the
/// others.
template <class F>
std::vector<float> values() {
  std::vector<float> x(count);
  for (u64 i = 0; i < count; ++i) x[i] = test::gaussian(i) * (F::width == 4 ? 2.0f : test::activation(i, i));
  return x;
}

template <class F>
std::vector<u8> codes() {
  std::vector<u8> c(count);
  for (u64 i = 0; i < count; ++i) c[i] = static_cast<u8>(test::mix(i) & ((1u << F::width) - 1));
  return c;
}

// One form each of a conversion: what is read, what is written, ours and the toolkit's.

/// encode<F>(x): one code a byte.
template <class F>
struct one_code {
  using format = F;
  using input = float;
  using output = u8;
  static constexpr int outputs = count;
  static std::vector<float> data() { return values<F>(); }
  static u8 ours(float const* x, int i) { return encode<F>(x[i]).bits; }
  static u8 peer(float const* x, int i) { return toolkit<F>::encode(x[i]); }
};

/// encode<F>(lo, hi): two codes, packed.
template <class F>
struct packed_pair {
  using format = F;
  using input = float;
  using output = typename packed<F, 2>::word;
  static constexpr int outputs = count / 2;
  static std::vector<float> data() { return values<F>(); }
  static output ours(float const* x, int i) { return encode<F>(x[2 * i], x[2 * i + 1]).bits; }
  static output peer(float const* x, int i) { return toolkit<F>::encode_pair(x[2 * i], x[2 * i + 1]); }
};

/// decode(F): one value a byte.
template <class F>
struct one_value {
  using format = F;
  using input = u8;
  using output = float;
  static constexpr int outputs = count;
  static std::vector<u8> data() { return codes<F>(); }
  static float ours(u8 const* c, int i) { return decode(F{c[i]}); }
  static float peer(u8 const* c, int i) { return toolkit<F>::decode(c[i]); }
};

template <class Case, bool Ours>
[[gnu::noinline]] void convert(typename Case::input const* from, typename Case::output* __restrict to) {
  for (int i = 0; i < Case::outputs; ++i)
    if constexpr (Ours)
      to[i] = Case::ours(from, i);
    else
      to[i] = Case::peer(from, i);
}

#if HAS_PEER
/// Seconds that the toolkit takes for all the data; measured once.
template <class Case>
double peer_seconds() {
  static const double seconds = [] {
    const auto from = Case::data();
    std::vector<typename Case::output> to(Case::outputs);
    return bench::best_seconds([&] { convert<Case, false>(from.data(), to.data()); });
  }();
  return seconds;
}

template <class Case>
bool same_as_peer() {
  const auto from = Case::data();
  std::vector<typename Case::output> a(Case::outputs), b(Case::outputs);
  convert<Case, true>(from.data(), a.data());
  convert<Case, false>(from.data(), b.data());
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](auto x, auto y) { return x == y || (x != x && y != y); });
}
#endif

template <class Case, bool Ours>
void run(benchmark::State& state) {
  const auto from = Case::data();
  std::vector<typename Case::output> to(Case::outputs);
#if HAS_PEER
  if (!same_as_peer<Case>()) return state.SkipWithError("the toolkit's function gives other codes");
  const double peer = peer_seconds<Case>();
#endif
  const bench::stopwatch watch;
  for (auto _ : state) {
    convert<Case, Ours>(from.data(), to.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<i64>(state.iterations()) * count);
#if HAS_PEER
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  state.counters[toolkit<typename Case::format>::ratio] = peer / seconds;
#endif
}

template <class Case>
void add(std::string const& what) {
  const std::string name = what + "/" + Case::format::name;
  benchmark::RegisterBenchmark((name + "/fourscale").c_str(), run<Case, true>)->Unit(benchmark::kMicrosecond);
#if HAS_PEER
  benchmark::RegisterBenchmark((name + "/cuda_toolkit").c_str(), run<Case, false>)
      ->Unit(benchmark::kMicrosecond);
#endif
}

template <class F>
void add_format() {
  add<one_code<F>>("encode");
  add<packed_pair<F>>("encode_pair");
  add<one_value<F>>("decode");
}

const bench::describe_machine describe;
const bool registered = [] {
  benchmark::AddCustomContext("Compared with",
                              HAS_PEER ? "host functions of cuda_fp4.h and cuda_fp8.h"
                                       : "nothing: there is no cuda_fp4.h here, so ratios are left out");
  add_format<e2m1>();
  add_format<e4m3>();
  add_format<e5m2>();
  return true;
}();

}  // namespace

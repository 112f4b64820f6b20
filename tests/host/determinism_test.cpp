// SPDX-License-Identifier: Apache-2.0
// The same call gives the same bits, a hundred times, in any number of threads.
#include <cstddef>
#include <cstring>
#include <fourscale/fourscale.hpp>
#include <fourscale/host/statistics.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace fourscale;

namespace {

constexpr i64 rows = 272, cols = 272;  // above 65536 values, so that all functions use threads
constexpr hadamard<16> rht{te_signs};
constexpr quantizer wgrad{stochastic{philox{7, 1}}, two_level{}, rht};
constexpr i64 statistics_bytes = offsetof(statistics, amax) + sizeof(float);  // without padding
constexpr i64 offsets[] = {0, 5, 5, 133, 270};

/// All that some functions write, as bytes; a poison where they write nothing.
class outputs {
 public:
  outputs() : x_(rows * cols) {
    for (std::size_t i = 0; i < x_.size(); ++i)
      x_[i] = from_float<bf16>(test::activation(i / static_cast<std::size_t>(cols), i));
  }

  std::vector<u8> operator()() {
    all_.clear();
    const matrix_view<bf16 const> x(x_, rows, cols);
    float* const amax = room<float>(2);
    errc e[12] = {};
    e[0] = host::amax_both<nvfp4>(x, rht, amax, amax + 1);
    e[1] = host::row_amax(x, room<float>(rows));
    const auto q = quantized<nvfp4, swizzled_128x4>(amax_value(amax[0]));
    const auto qt = quantized<nvfp4, linear>(amax_value(amax[1]));
    e[2] = host::quantize_both(x, q, qt, quantizer{stochastic{philox{7, 2}}}, wgrad);
    e[3] = host::quantize(x, quantized<nvfp4, linear>(amax_value(amax[0])), quantizer{}, blocks_2d<16, 16>{});
    statistics sums;
    e[4] = host::statistics_of(x, q, &sums);
    std::memcpy(room<u8>(statistics_bytes), &sums, statistics_bytes);
    e[5] = host::dequantize(q, matrix_view<float>(room<float>(rows * cols), rows, cols));
    e[6] = host::quantize(
        x, quantized<nvfp4, linear>({amax_value(amax[0]), quantizer{nearest_even{}, four_over_six<>{}}}),
        quantizer{nearest_even{}, four_over_six<>{}});
    e[7] = host::transform<16>(x, matrix_view<float>(room<float>(rows * cols), rows, cols), rht);
    const block_scaled_view<nvfp4, linear> some(qt.codes, qt.scales, 32, cols, qt.amax);  // a slow product
    e[8] = host::gemm(some, qt, matrix_view<float>(room<float>(32 * rows), 32, rows));
    e[9] = host::amax_grouped(x, {offsets, 4}, room<float>(4));
    e[10] = host::quantize_grouped(x, grouped(amax_value(amax[0])), {offsets, 4},
                                   quantizer{stochastic{philox{7, 3}}});
    for (const errc each : e) REQUIRE(each == errc::ok);
    std::vector<u8> bytes;
    for (auto const& part : all_) bytes.insert(bytes.end(), part.begin(), part.end());
    return bytes;
  }

 private:
  template <class T>
  T* room(i64 count) {
    all_.emplace_back(static_cast<std::size_t>(count) * sizeof(T), u8{0xa5});
    return reinterpret_cast<T*>(all_.back().data());
  }
  template <class F, class Layout>
  block_scaled_view<F, Layout> quantized(tensor_amax<F> amax) {
    u8* const codes = room<u8>(code_bytes<F>(rows, cols));
    return {codes, room<u8>(scale_bytes<F, Layout>(rows, cols)), rows, cols, amax};
  }
  block_scaled_view<nvfp4, swizzled_128x4> grouped(tensor_amax<nvfp4> amax) {
    u8* const codes = room<u8>(code_bytes<nvfp4>(rows, cols));
    return {codes, room<u8>(grouped_scale_bytes<nvfp4, swizzled_128x4>(rows, cols, 4)), rows, cols, amax};
  }

  std::vector<bf16> x_;
  std::vector<std::vector<u8>> all_;
};

}  // namespace

TEST_CASE("determinism: a hundred runs in one to seven threads give the same bytes", "[host][determinism]") {
  outputs run;
  const std::vector<u8> want = run();
#ifdef _OPENMP
  const int usual = omp_get_max_threads();
#endif
  int different = 0;
  for (int i = 0; i < 100; ++i) {
#ifdef _OPENMP
    omp_set_num_threads(1 + i % 7);
#endif
    different += run() != want;
  }
#ifdef _OPENMP
  omp_set_num_threads(usual);
#endif
  CHECK(different == 0);
}

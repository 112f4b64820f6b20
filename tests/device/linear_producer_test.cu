// SPDX-License-Identifier: Apache-2.0
// Linear layers of X and dY that are never in memory under te_nvfp4 (other recipes: beside their own tests),
// and both copies of a producer where tiles are not whole.
#include "linear_producer_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Blocks of a matrix that is 0 but for one value.
struct one_value {
  using block_type = cta::values<bf16, 16>;
  i64 rows, cols, row, col;

  __device__ block_type load(cta::place const& at) const {
    block_type block{};
    if (at.row == row && at.block == col / 16) block.set(static_cast<int>(col % 16), from_float<bf16>(3.0f));
    return block;
  }
};

}  // namespace

TEST_CASE("device linear: producers under te_nvfp4 equal matrices on the host", "[device][recipe][linear]") {
  check_producers<presets::te_nvfp4().linear>({48, 64, 80});
  check_producers<presets::te_nvfp4().linear, swizzled_128x4>({272, 144, 400});
}

TEST_CASE("device: amaxes of a producer are those of its matrix", "[device][recipe][amax]") {
  if (!gpu_or_warn()) return;
  const hadamard<16> rht{te_signs};
  for (const linear_shape s : {linear_shape{16, 16, 0}, {144, 80, 0}, {4096, 1040, 0}}) {
    const gated_on_device m(s.tokens, s.in, 31);
    const gated_blocks<16> source{m.on_device(), m.rows, m.cols};
    const device_buffer<float> got(3);
    float want[2] = {};
    REQUIRE(host::amax_both<nvfp4>(matrix_view<bf16 const>{m.values, m.rows, m.cols}, rht, want, want + 1) ==
            errc::ok);
    REQUIRE(device::amax_both<nvfp4>(source, rht, got.data(), got.data() + 1) == errc::ok);
    REQUIRE(device::amax(source, got.data() + 2) == errc::ok);
    CHECK(got.to_host() == std::vector<float>{want[0], want[1], want[0]});
  }
}

TEST_CASE("device: amaxes of a producer see every block and every column", "[device][recipe][amax]") {
  if (!gpu_or_warn()) return;
  const hadamard<16> rht{te_signs};
  for (const linear_shape s : {linear_shape{128, 64, 0}, {144, 80, 0}})
    for (i64 strip = 0; strip < s.tokens / 16; ++strip)
      for (i64 pair = 0; pair < s.in / 2; ++pair) {
        const one_value source{s.tokens, s.in, strip * 16 + pair % 16, 2 * pair + strip % 2};
        const device_buffer<float> got(3);
        REQUIRE(device::amax_both<nvfp4>(source, rht, got.data(), got.data() + 1) == errc::ok);
        REQUIRE(device::amax(source, got.data() + 2) == errc::ok);
        INFO(source.rows << " x " << source.cols << ", at " << source.row << ", " << source.col);
        CHECK(got.to_host() == std::vector<float>{3.0f, 0.75f, 3.0f});  // one of 16 values, over sqrt(16)
      }
}

TEST_CASE("device: what both copies of a producer refuse stays unwritten", "[device][recipe][linear]") {
  if (!gpu_or_warn()) return;
  const gated_on_device m(48, 64, 41);
  const gated_blocks<16> source{m.on_device(), 48, 64};
  const device_buffer<u8> memory(16384);
  const device_buffer<float> amax(std::vector<float>{1.0f});
  u8* const at = memory.data();
  const auto view = [&](i64 rows, i64 cols, i64 codes, i64 scales) {
    return block_scaled_view<nvfp4>{at + codes, at + scales, rows, cols, amax_in(amax.data())};
  };
  const auto q = view(48, 64, 0, 4096), qt = view(64, 48, 8192, 12288);
  CHECK(device::quantize_both(source, view(64, 64, 0, 4096), qt) == errc::shape_mismatch);
  CHECK(device::quantize_both(source, q, view(48, 64, 8192, 12288)) == errc::shape_mismatch);
  CHECK(device::quantize_both(source, q, view(64, 48, 0, 12288)) == errc::overlap);
  CHECK(device::quantize_both(source, q, view(64, 48, 8196, 12288)) == errc::misaligned);
  CHECK(device::quantize_both(source, q, view(64, 40, 8192, 12288)) == errc::partial_block);
  auto by_row = q;
  by_row.amax = amax_of_rows(amax.data());
  CHECK(device::quantize_both(source, by_row, qt) == errc::bad_recipe);
  const gated_blocks<16> empty{m.on_device(), 0, 64}, partial{m.on_device(), 40, 64};
  float* const nowhere = nullptr;
  CHECK(device::amax(source, nowhere) == errc::null_pointer);
  CHECK(device::amax(empty, amax.data()) == errc::empty_matrix);
  CHECK(device::amax_both<nvfp4>(partial, hadamard<16>{te_signs}, amax.data(), amax.data()) ==
        errc::partial_block);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(memory.to_host() == std::vector<u8>(16384, poison));
  CHECK(amax.to_host() == std::vector<float>{1.0f});
}

// SPDX-License-Identifier: Apache-2.0
// The rules of cuTensorMapEncodeTiled for 4-bit data, as cuda.h words them.
#include <fourscale/ptx/descriptors.hpp>
#include <string>

#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::ptx;

namespace {

bool says(char const* sentence, char const* part) {
  return sentence != nullptr && std::string(sentence).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tma boxes: what the driver would refuse is refused with a sentence", "[ptx][descriptors]") {
  CHECK(refusal(tma_box{}) == nullptr);
  CHECK(says(refusal(tma_box{.box_k = 512}), "1 to 256 elements"));
  CHECK(says(refusal(tma_box{.box_rows = 0}), "1 to 256 elements"));
  CHECK(says(refusal(tma_box{.box_k = 48}), "multiple of 16 bytes"));
  CHECK(says(refusal(tma_box{.pattern = swizzle::b64}), "fits in the swizzle span"));
  CHECK(refusal(tma_box{.box_k = 128, .pattern = swizzle::b64}) == nullptr);
  CHECK(says(refusal(tma_box{.type = tma_type::u4_align16b}), "exactly 128"));
  CHECK(refusal(tma_box{.type = tma_type::u4_align16b, .box_k = 128}) == nullptr);
  CHECK(says(refusal(tma_box{.type = tma_type::u4_align16b, .box_k = 128, .pattern = swizzle::b64}),
             "without a swizzle"));
  CHECK(refusal(tma_box{.type = tma_type::bytes, .box_k = 128}) == nullptr);
  CHECK(says(refusal(tma_box{.type = tma_type::bytes}), "fits in the swizzle span"));
  CHECK(std::string(describe(tma_box{}).c_str()) ==
        "128 rows x 256 packed 4-bit elements, 128B swizzle, 16384 bytes");
  CHECK(
      std::string(describe(tma_box{.box_k = 1 << 30, .box_rows = 1 << 30}).c_str()) ==
      "1073741824 rows x 1073741824 packed 4-bit elements, 128B swizzle. Impossible: A TMA box has 1 to 256 "
      "elements along each dimension.");
  CHECK(checked_box<tma_box{}>().size_bytes() == 16384);
  CHECK(tma_box{.type = tma_type::u4_align16b, .box_k = 128}.size_bytes() == 16384);
}

TEST_CASE("tma boxes: a tile is filled by boxes of one swizzle span", "[ptx][descriptors]") {
  for (swizzle s : {swizzle::none, swizzle::b32, swizzle::b64, swizzle::b128}) {
    const k_major_tile packed{.rows = 96, .pattern = s}, bytes{.rows = 96, .bits = 8, .pattern = s};
    for (tma_box b : {box_of(packed, tma_type::u4_align8b), box_of(packed, tma_type::bytes),
                      box_of(bytes, tma_type::bytes)}) {
      CHECK(refusal(b) == nullptr);
      CHECK(b.size_bytes() == packed.column_bytes());
    }
    CHECK(packed.size_bytes() % packed.column_bytes() == 0);
  }
  const int codes[] = {tma_swizzle(swizzle::none), tma_swizzle(swizzle::b32), tma_swizzle(swizzle::b64),
                       tma_swizzle(swizzle::b128), tma_swizzle(swizzle::b128_atom_32b)};
  for (int i = 0; i < 5; ++i) CHECK(codes[i] == i);
}

TEST_CASE("tma matrices: addresses, strides and extents", "[ptx][descriptors]") {
  const auto packed = [](u64 address, u64 k, u64 rows, u64 stride) {
    return refusal(tma_matrix{address, k, rows, stride}, tma_type::u4_align8b);
  };
  CHECK(packed(256, 4096, 100, 2048) == nullptr);
  CHECK(says(packed(8, 4096, 100, 2048), "starts on a multiple of 16"));
  CHECK(says(packed(256, 0, 100, 2048), "1 to 2^32"));
  CHECK(packed(256, 2, u64{1} << 32, 16) == nullptr);
  CHECK(says(packed(256, 2, (u64{1} << 32) + 1, 16), "1 to 2^32"));
  CHECK(packed(256, u64{1} << 32, 1, u64{1} << 31) == nullptr);
  CHECK(says(packed(256, (u64{1} << 32) + 2, 1, (u64{1} << 31) + 16), "1 to 2^32"));
  CHECK(says(packed(256, 31, 100, 16), "even number"));
  CHECK(says(packed(256, 4096, 100, 2056), "multiple of 16 bytes apart"));
  CHECK(says(packed(256, 4096, 100, u64{1} << 40), "less than 2^40"));
  CHECK(says(packed(256, 4096, 100, 2032), "shorter than a row"));
  const auto padded = [](u64 address, u64 k, u64 stride) {
    return refusal(tma_matrix{address, k, 8, stride}, tma_type::u4_align16b);
  };
  CHECK(padded(32, 256, 128) == nullptr);
  CHECK(says(padded(16, 256, 128), "multiple of 32 bytes"));
  CHECK(says(padded(32, 192, 128), "multiple of 128"));
  CHECK(says(padded(32, 256, 144), "multiple of 32 bytes apart"));
  CHECK(refusal(tma_matrix{16, 48, 8, 48}, tma_type::bytes) == nullptr);
  CHECK(says(refusal(tma_matrix{16, 48, 8, 32}, tma_type::bytes), "shorter than a row"));
  CHECK(can_start_at(tma_type::u4_align8b, 2));
  CHECK(can_start_at(tma_type::u4_align16b, 256));
  CHECK_FALSE(can_start_at(tma_type::u4_align16b, 64));
}

TEST_CASE("tma tensors: addresses, strides and extents", "[ptx][descriptors]") {
  const auto refused = [](u64 address, u64 extent, u64 row, u64 layer) {
    return refusal(tma_tensor{{64, extent, 1}, {row, layer}, {64, 8, 1}, true}, address);
  };
  CHECK(refused(4096, 100, 64, 6400) == nullptr);
  CHECK(refused(4096, u64{1} << 32, 64, (u64{1} << 40) - 16) == nullptr);
  CHECK(says(refused(4104, 100, 64, 6400), "multiple of 16 bytes"));
  CHECK(says(refused(4096, 100, 72, 6400), "multiple of 16 bytes apart"));
  CHECK(says(refused(4096, 100, 64, 6408), "multiple of 16 bytes apart"));
  CHECK(says(refused(4096, 100, 64, u64{1} << 40), "less than 2^40"));
  CHECK(says(refused(4096, 0, 64, 6400), "1 to 2^32"));
  CHECK(says(refused(4096, (u64{1} << 32) + 1, 64, 6400), "1 to 2^32"));
}

// SPDX-License-Identifier: Apache-2.0
// Block formats. Each is an empty struct, used as a tag, that names the element, the scale and the number of
// elements in a block. MX: OCP Microscaling Formats v1.0 section 5. NVFP4: arXiv 2509.25149 section 2.
#pragma once

#include "e1m2.hpp"
#include "e2m1.hpp"
#include "e2m3.hpp"
#include "e3m2.hpp"
#include "e4m3.hpp"
#include "e5m2.hpp"
#include "e8m0.hpp"
#include "f32.hpp"
#include "no_scale.hpp"

namespace FOURSCALE_NAMESPACE {

/// 16 E2M1 elements under one E4M3 scale, and one FP32 scale for the tensor: 4.5 bits a value.
struct nvfp4 {
  using element = e2m1;
  using scale = e4m3;
  static constexpr int block_size = 16;
  static constexpr bool has_tensor_scale = true;
  static constexpr char const* name = "nvfp4";
};

/// 32 elements under one E8M0 scale. The tensor has no scale of its own.
struct mxfp4 {
  using element = e2m1;
  using scale = e8m0;
  static constexpr int block_size = 32;
  static constexpr bool has_tensor_scale = false;
  static constexpr char const* name = "mxfp4";
};
struct mxfp6_e2m3 : mxfp4 {
  using element = e2m3;
  static constexpr char const* name = "mxfp6_e2m3";
};
struct mxfp6_e3m2 : mxfp4 {
  using element = e3m2;
  static constexpr char const* name = "mxfp6_e3m2";
};
struct mxfp8_e4m3 : mxfp4 {
  using element = e4m3;
  static constexpr char const* name = "mxfp8_e4m3";
};
struct mxfp8_e5m2 : mxfp4 {
  using element = e5m2;
  static constexpr char const* name = "mxfp8_e5m2";
};

/// NVFP4 with the uniform grid +-{0, ..., 7} in place of E2M1.
struct nvint4 : nvfp4 {
  using element = e1m2;
  static constexpr char const* name = "nvint4";
};

/// FP8 under one FP32 scale for 128 values of a row (blocks_1d) or 128 x 128 (blocks_2d<128, 128>): the
/// recipe of DeepSeek-V3 and the FP8 baseline of arXiv 2509.25149.
struct fp8_block_e4m3 {
  using element = e4m3;
  using scale = f32;
  static constexpr int block_size = 128;
  static constexpr bool has_tensor_scale = false;
  static constexpr char const* name = "fp8_block_e4m3";
};
struct fp8_block_e5m2 : fp8_block_e4m3 {
  using element = e5m2;
  static constexpr char const* name = "fp8_block_e5m2";
};

/// FP8 under one FP32 scale for the whole tensor, for delayed and current scaling. Its "blocks" of 16 have no
/// scale of their own; they only mean that rows are multiples of 16.
struct fp8_e4m3 {
  using element = e4m3;
  using scale = no_scale;
  static constexpr int block_size = 16;
  static constexpr bool has_tensor_scale = true;
  static constexpr char const* name = "fp8_e4m3";
};
struct fp8_e5m2 : fp8_e4m3 {
  using element = e5m2;
  static constexpr char const* name = "fp8_e5m2";
};

/// The default member of each family.
using mxfp6 = mxfp6_e2m3;
using mxfp8 = mxfp8_e4m3;

/// What a block format must have. To try another combination, write a tag like the ones above.
template <class F>
concept block_format = element_format<typename F::element> && scale_format<typename F::scale> && requires {
  F::block_size, F::has_tensor_scale, F::name;
} && F::block_size % 8 == 0;

/// Bytes that the scale of one block takes: 0 where there is none.
template <block_format F>
inline constexpr int block_scale_bytes = same_type<typename F::scale, no_scale>
                                             ? 0
                                             : static_cast<int>(sizeof(typename F::scale));

/// Bytes that the codes of one block take.
template <block_format F>
inline constexpr int block_code_bytes = F::block_size* F::element::width / 8;

}  // namespace FOURSCALE_NAMESPACE

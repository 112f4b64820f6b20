// SPDX-License-Identifier: Apache-2.0
// Linear layers of X and dY that are computed as they are read: every bit is that of the matrix in memory.
#include "recipe/gated.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Forward and backward from computed tensors, and from the same tensors in memory.
template <linear_recipe R, class L = linear>
void check_computed(linear_shape s) {
  const gated_matrix x(s.tokens, s.in, 21), dy(s.tokens, s.out, 22);
  linear_case<R, L> computed_case(s), in_memory(s);
  in_memory.x = x.values;
  in_memory.dy = dy.values;
  REQUIRE(in_memory.forward() == errc::ok);
  REQUIRE(in_memory.backward() == errc::ok);
  auto& c = computed_case;
  const typename linear_case<R, L>::layer run;
  REQUIRE(run.forward(x.view(), c.in_w(), c.key, &c.t, c.out_y()) == errc::ok);
  REQUIRE(run.backward(dy.view(), c.key, &c.t, c.out_dx(), c.out_dw(), 0.0f) == errc::ok);
  const bool same_saved = c.saved == in_memory.saved,
             same_dw = __builtin_memcmp(c.dw.data(), in_memory.dw.data(), c.dw.size() * sizeof(float)) == 0;
  CHECK(same_saved);
  CHECK(same_dw);
  for (size_t i = 0; i < c.y.size(); ++i) REQUIRE(c.y[i].bits == in_memory.y[i].bits);
  for (size_t i = 0; i < c.dx.size(); ++i) REQUIRE(c.dx[i].bits == in_memory.dx[i].bits);
}

}  // namespace

TEST_CASE("linear: computed tensors give the bits of matrices in memory", "[recipe][linear]") {
  check_computed<presets::te_nvfp4().linear>({48, 64, 80});
  check_computed<presets::te_nvfp4().linear, swizzled_128x4>({144, 272, 160});
  check_computed<presets::te_nvfp4_no_rht().linear>({48, 64, 80});
  check_computed<presets::four_over_six().linear>({48, 64, 80});
  check_computed<presets::mxfp4().linear>({96, 64, 160});
  check_computed<presets::mxfp8().linear>({96, 64, 160});
}

TEST_CASE("linear: a computed tensor of another shape is refused", "[recipe][linear]") {
  linear_case<presets::te_nvfp4().linear> c({48, 64, 80});
  const gated_matrix x(32, 64, 21);
  const decltype(c)::layer run;
  const std::vector<u8> before = c.saved;
  CHECK(run.forward(x.view(), c.in_w(), c.key, &c.t, c.out_y()) == errc::shape_mismatch);
  CHECK(run.quantize(x.view(), c.key, &c.t.x) == errc::shape_mismatch);
  CHECK(run.amax(computed(0, 64, x.function()), c.key, c.t.x) == errc::empty_matrix);
  CHECK(c.saved == before);
}

TEST_CASE("linear: a function of row and column quantizes as its matrix does", "[recipe][linear]") {
  const gated_matrix m(40, 96, 23);
  float amax = 0, amax_t = 0, amaxes[2] = {};
  const hadamard<16> rht{te_signs};
  const matrix_view<bf16 const> in_memory{m.values, 32, 96};
  REQUIRE(host::amax(computed(32, 96, m.function()), &amax) == errc::ok);
  REQUIRE(host::amax_both<nvfp4>(in_memory, rht, amaxes, amaxes + 1) == errc::ok);
  CHECK(amax == amaxes[0]);
  REQUIRE(host::amax<nvfp4>(transposed(computed(32, 96, m.function())), rht, &amax_t) == errc::ok);
  CHECK(amax_t == amaxes[1]);
  std::vector<u8> codes[2] = {std::vector<u8>(32 * 48), std::vector<u8>(32 * 48)},
                  scales[2] = {std::vector<u8>(32 * 6), std::vector<u8>(32 * 6)};
  const auto quantize = [&](int i, auto const& x) {
    const block_scaled_view<nvfp4> q{codes[i], scales[i], 32, 96, amax_value(amax)};
    return host::quantize(x, q, quantizer{}, blocks_2d<16, 16>{});
  };
  REQUIRE(quantize(0, in_memory) == errc::ok);
  REQUIRE(quantize(1, computed(32, 96, m.function())) == errc::ok);
  CHECK(codes[0] == codes[1]);
  CHECK(scales[0] == scales[1]);
}

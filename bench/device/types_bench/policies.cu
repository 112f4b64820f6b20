// SPDX-License-Identifier: Apache-2.0
// Policies of users in place of the library's.
#include "device/user_policies.cuh"
#include "types_bench.cuh"

using namespace bench;

namespace {

constexpr f4::quantizer user_round{user::round_nearest{}};
constexpr f4::quantizer user_fast_round{user::round_nearest_fast{}};
constexpr f4::quantizer user_bits{f4::stochastic{user::hashed_bits{1234}}};
constexpr f4::quantizer user_scale{f4::nearest_even{}, user::power_of_two_scale{}};
constexpr f4::quantizer user_transform{f4::nearest_even{}, f4::two_level{}, user::half_sums{}};

template <class Quantizer>
void add_rowwise(char const* name, Quantizer const& recipe) {
  add_type<swizzled_128x4>(name, usual_setup, [=](auto layout, auto& state, setup const& s) {
    rowwise<nvfp4, decltype(layout)>(state, s, recipe);
  });
}

const bool registered = [] {
  add_rowwise("user_round_rowwise", user_round);
  add_rowwise("user_fast_round_rowwise", user_fast_round);
  add_rowwise("user_bits_rowwise", user_bits);
  add_rowwise("user_scale_rowwise", user_scale);
  add_rowwise("user_transform_rowwise", user_transform);
  add_type<swizzled_128x4>("user_round_columnwise", usual_setup,
                           [](auto layout, auto& state, setup const& s) {
                             columnwise<nvfp4, decltype(layout)>(state, s, user_round);
                           });
  add_type<swizzled_128x4>("user_round_both", usual_setup, [](auto layout, auto& state, setup const& s) {
    both<nvfp4, decltype(layout)>(state, s, user_round, user_round);
  });
  return true;
}();

}  // namespace

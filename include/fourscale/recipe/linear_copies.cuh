// SPDX-License-Identifier: Apache-2.0
// quantize_many(): quantizes a tensor of all experts, with one launch for many experts where
// device/copies_of_many.cuh can.
#pragma once

#include "../device/copies_of_many.cuh"
#include "linear_grouped.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The kernels that find the amaxes and make the copies of many experts' tensors at once. `Operand`: the
/// linear_operand of an expert; T: the type of the values.
template <class Operand, class T>
struct many_operands {
  static constexpr operand_recipe of_rowwise = Operand::of_rowwise, of_columnwise = Operand::of_columnwise;
  using F = typename Operand::format;
  using L = typename decltype(Operand::rowwise)::layout;
  using value = typename own_type<T>::type;
  static auto rowwise(draw_key const& key) {
    return for_input<T>(quantizer_of<of_rowwise>(Operand::at_rowwise(key)));
  }
  static auto columnwise(draw_key const& key) {
    return for_input<T>(quantizer_of<of_columnwise>(Operand::at_columnwise(key)));
  }
  static auto transform(draw_key const& key) {
    if constexpr (Operand::amax_count == 2)
      return fourscale::detail::transform_of<of_columnwise>(Operand::at_columnwise(key));
    else
      return identity{};
  }
  static constexpr bool finds_amaxes = Operand::amax_count > 0 && of_rowwise.amax == amax_source::current;
  using amaxes = amaxes_of_many<F, value, decltype(transform({}))>;
  using copies = copies_of_many<value, F, L, decltype(blocks_of<of_rowwise>())::is_2d, decltype(rowwise({})),
                                decltype(columnwise({}))>;
  static constexpr bool can = (!finds_amaxes || amaxes::can) && copies::can;

  /// Whether the launch for many experts takes matrix x and its copies `to`.
  static bool fits(auto const& x, Operand const& to) {
    const auto m = as_input(x);
    return (!finds_amaxes || amaxes::fits(m)) && copies::fits(m, to.rowwise, to.columnwise);
  }
};

template <class T>
T value_of(T const&);  // for decltype only

/// Makes both copies of a tensor of all experts, and its amaxes before. All experts whose matrices fit share
/// launches; the others follow one by one. Errors: those of linear_steps::quantize(), before anything is
/// written.
template <class Layer, class Copies>
errc quantize_many(Layer const& layer, Copies const& all, cudaStream_t stream) {
  using T = typename decltype(all.from)::value_type;
  using operand = decltype(value_of(all.to(0)));
  using many = many_operands<operand, T>;
  if constexpr (many::can) {
    const auto each_that_fits = [&](auto const& action) {
      return all.each([&](i64 i, auto const& x, draw_key const& key) {
        return many::fits(x, all.to(i)) ? action(i, x, key) : errc::ok;
      });
    };
    const errc valid = each_that_fits([&](i64 i, auto const& x, draw_key const& key) {
      operand const& to = all.to(i);
      return validate_both(x, to.rowwise, to.columnwise, blocks_of<many::of_rowwise>(), many::rowwise(key),
                           many::columnwise(key));
    });
    if (valid != errc::ok) return valid;
    if constexpr (many::finds_amaxes) {
      typename many::amaxes amaxes(stream);
      errc e = each_that_fits([&](i64 i, auto const& x, draw_key const& key) {
        return amaxes.add(as_input(x), many::transform(key), all.to(i).amax);
      });
      if (e == errc::ok) e = amaxes.run();
      if (e != errc::ok) return e;
    }
    typename many::copies copies(stream);
    errc e = each_that_fits([&](i64 i, auto const& x, draw_key const& key) {
      operand& to = all.to(i);
      to.made_under(key);
      return copies.add(as_input(x), to.rowwise, to.columnwise, many::rowwise(key), many::columnwise(key));
    });
    if (e == errc::ok) e = copies.run();
    if (e != errc::ok) return e;
  }
  return all.each([&](i64 i, auto const& x, draw_key const& key) {
    if constexpr (many::can)
      if (many::fits(x, all.to(i))) return errc::ok;
    return all.quantize(layer, i, x, key);
  });
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device

// SPDX-License-Identifier: Apache-2.0
// Numbers from the bytes that libFuzzer gives; zeros after the last one.
#pragma once

#include <cstddef>
#include <cstring>
#include <fourscale/bits.hpp>

namespace fourscale::fuzz {

class input {
 public:
  input(u8 const* data, std::size_t size) : at_(data), left_(size) {}

  template <class T>
  T number() {
    T x{};
    const std::size_t taken = sizeof x < left_ ? sizeof x : left_;
    std::memcpy(&x, at_, taken);
    at_ += taken, left_ -= taken;
    return x;
  }
  /// 0 to n - 1.
  int below(int n) { return number<u8>() % n; }
  std::size_t left() const { return left_; }

 private:
  u8 const* at_;
  std::size_t left_;
};

/// A broken promise: libFuzzer stops and keeps the input.
inline void promise(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace fourscale::fuzz

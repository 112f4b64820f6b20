// SPDX-License-Identifier: Apache-2.0
// How NVFP4 stores numbers. First, one value as a 4-bit code in E2M1: a sign, two bits of exponent, one bit
// of mantissa. Then sixteen values as one NVFP4 block of nine bytes: eight of codes and one of scale.
#include <cstdio>
#include <fourscale/fourscale.hpp>

namespace f4 = fourscale;

// The same functions also run at compile time.
static_assert(f4::encode<f4::e2m1>(2.4f).bits == 0b0'10'0);  // sign, exponent, mantissa of 2
static_assert(f4::decode(f4::e2m1{0b1'11'1}) == -6.0f);

int main() {
  std::printf("The non-negative values of E2M1:");
  for (f4::u8 bits = 0; bits < 8; ++bits) std::printf(" %g", f4::decode(f4::e2m1{bits}));

  std::printf("\n\n%8s  %4s  %s\n", "value", "code", "decoded");
  bool ok = true;
  constexpr float values[] = {0.2f, 2.4f, 2.5f, -2.6f, 100.0f}, decoded[] = {0, 2, 2, -3, 6};
  for (int i = 0; i < 5; ++i) {
    const f4::e2m1 code = f4::encode<f4::e2m1>(values[i]);
    std::printf("%8g  %4x  %g\n", values[i], code.bits, f4::decode(code));
    ok = ok && f4::decode(code) == decoded[i];
  }
  std::printf("Ties go to the even code (2.5 to 2), and what is too large saturates at 6.\n\n");

  // The values of a tensor are rarely as large as the E2M1 grid. So each block of sixteen has a scale of its
  // own, stored in E4M3: a value is its code times that scale.
  float x[16], y[16];
  for (int i = 0; i < 16; ++i) x[i] = 0.01f * static_cast<float>((i * 7) % 16 - 5);
  const f4::packed_block<f4::nvfp4> block = f4::quantize_block<f4::nvfp4>(x, f4::quantizer{});
  f4::dequantize_block(block, y);

  std::printf("One NVFP4 block, scale %g (byte 0x%02x), codes", f4::decode(block.scale), block.scale.bits);
  for (const f4::u8 two_codes : block.codes) std::printf(" %02x", two_codes);
  std::printf("\n%8s  %4s  %s\n", "value", "code", "code * scale");
  ok = ok && sizeof block == 9;
  for (int i = 0; i < 16; ++i) {
    std::printf("%8.3f  %4g  %.5f\n", x[i], f4::decode(block.get(i)), y[i]);
    // The widest gap of the grid is 2, between 4 and 6. Rounding to nearest is off by half of it at most: one
    // scale.
    const float error = x[i] < y[i] ? y[i] - x[i] : x[i] - y[i];
    ok = ok && error <= f4::decode(block.scale) && y[i] == f4::decode(block.get(i)) * f4::decode(block.scale);
  }
  std::printf("%zu bytes for 16 values.\n", sizeof block);
  return ok ? 0 : 1;
}

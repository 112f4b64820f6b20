# SPDX-License-Identifier: Apache-2.0
"""What numerics.py rests on, checked before it is believed: the casts of ml_dtypes round once and to nearest even;
Philox gives the published words; the NVFP4 formulas give vectors worked out for Transformer Engine's kernels."""
from types import SimpleNamespace

import numpy as np

import numerics
from numerics import E2M1, E2M3, E3M2, E4M3, E5M2, f32


def check_casts(element):
    """Around each code, each midpoint and at random, against a search of the grid in double."""
    grid = numerics.decode(element, np.arange(1 << (element.width - 1)))
    grid = grid[grid <= element.largest].astype(np.float64)
    assert grid[-1] == element.largest and np.all(np.diff(grid) > 0)
    midpoints = (grid[1:] + grid[:-1]) / 2
    marks = np.concatenate([grid, midpoints, [2 * element.largest]]).astype(f32)
    near = [marks, np.nextafter(marks, f32(np.inf)), np.nextafter(marks, f32(-np.inf))]
    bits = np.random.default_rng(1).integers(0, 0x7F800001, 20000, dtype=np.uint32)
    x = np.abs(np.concatenate([*near, bits.view(f32), (bits / f32(2**31) * f32(element.largest)).astype(f32)]))
    passed = np.searchsorted(midpoints, x.astype(np.float64), side="left")
    tied = (passed < len(midpoints)) & (midpoints[np.minimum(passed, len(midpoints) - 1)] == x)
    code = np.where(tied & (passed % 2 == 1), passed + 1, passed)
    sign = 1 << (element.width - 1)
    assert np.array_equal(numerics.encode(element, x), code), element
    assert np.array_equal(numerics.encode(element, -x), code + sign), element
    assert np.all(numerics.encode(element, f32([np.nan, -np.nan])) == element.nan), element


def check_philox():
    """Known answers of Random123 (key 0) and of other keys and counters: seed, subsequence, offset."""
    for seed, subsequence, offset, words in (
            (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"), (1, 0, 0, "e3e80670 e50a0ebc 95f222c0 b615aa27"),
            (0x123456789ABCDEF0, 5, 7, "fe110f5b df654570 ad95b243 1a5accd7")):
        got = numerics.philox(np.array([offset, 0, subsequence, 0], np.uint64), seed)
        assert " ".join(f"{int(w):08x}" for w in got) == words, words


def check_nvfp4():
    """Block, amax of the tensor, scale byte and codes, element 0 in the lowest nibble. (2 * bf16_max is inf.)"""
    form = SimpleNamespace(format="nvfp4", blocks="blocks_1d", rule="two_level")
    i = np.arange(16, dtype=f32)
    small = f32([2.0**-20, -(2.0**-20)] * 8)
    zeros, infinite, nan = np.zeros(16, f32), np.ones(16, f32), np.ones(16, f32)
    zeros[3], infinite[5], nan[5] = -0.0, np.inf, np.nan
    alternating = np.where(i % 2, -1, 1).astype(f32) * np.exp2(-i) * (1 + i / 16)
    bf16_max = np.uint32(0x7F7F0000).view(f32)
    for x, amax, byte, codes in (
            ((i - 8) / 4, 2.0, 0x7E, "76654320abcdeeff"), ((i - 8) / 4, 3.5, 0x78, "76654320abcdeeff"),
            ((i - 8) / 4, 1000.0, 0x36, "76654320abcdeeff"), (alternating, 1.0, 0x7E, "808080808081a3d7"),
            (zeros, 0.0, 0, "0000000000008000"), (zeros, 1.0, 0, "0000000000008000"),
            (small, 8.0, 0, "f7f7f7f7f7f7f7f7"), (small, np.inf, 0, "f7f7f7f7f7f7f7f7"),
            (infinite, np.inf, 0x7E, "0000000000700000"), (nan, 1.0, 0x7E, "7777777777777777"),
            ((i - 7) * bf16_max / 8, bf16_max, 0x7E, "777777720affffff"),
            (f32(2.0**-130) * (1 + i / 8), f32(2.0**-130 * 2.875), 0x1F, "1111111111111110")):
        code, multiplier = numerics.choose_scales(x.astype(f32).reshape(1, 1, 16), form, f32(amax), 2688)
        got = numerics.encode(E2M1, (x * multiplier[0]).astype(f32))
        assert code == byte and "".join(f"{c:x}" for c in got[::-1]) == codes, (amax, code, got)


def check_stochastic():
    """No dither truncates, the largest rounds up nearly all; the bits of a word go where cvt.rs has them."""
    x = f32([0.24, 0.26, -3.9, 5.9, 7.0, -0.0, 2.0, np.nan])
    assert list(numerics.encode_stochastic(E2M1, x, 0)) == [0, 0, 0xD, 6, 7, 8, 4, 7]
    assert list(numerics.encode_stochastic(E2M1, x, 65535)) == [1, 1, 0xE, 7, 7, 8, 4, 7]
    word = np.array([[0x01020408]], np.uint64)
    assert list(numerics.dither_bits(word, 4)[0]) == [0x0208, 0x1040, 0x0104, 0x2080]
    assert list(numerics.dither_bits(word, 8)[0]) == [0x0408, 0x1020, 0x0102, 0x4080]


def check_power_of_two():
    """Rounding up gives the smallest power of two that holds amax, for all mantissas."""
    a = (np.arange(0, 1 << 23, 7, dtype=np.uint32) | np.uint32(127 << 23)).view(f32)
    for element in (E2M1, E2M3, E3M2, E4M3, E5M2):
        largest = f32([element.largest])
        marks = np.concatenate([a, largest, np.nextafter(largest, f32(np.inf)), np.nextafter(largest, f32(0))])
        held = np.ldexp(element.largest, numerics.power_of_two(marks, element, True)[0].astype(int) - 127)
        assert np.all((held >= marks) & (held / 2 < marks)), element


def run():
    for element in (E2M1, E2M3, E3M2, E4M3, E5M2):
        check_casts(element)
    check_philox()
    check_nvfp4()
    check_stochastic()
    check_power_of_two()

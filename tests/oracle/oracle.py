# SPDX-License-Identifier: Apache-2.0
"""Cases for host::quantize and host::dequantize, and what numerics.py says of each. `oracle.py > golden.hpp` writes
the tables that oracle_test.cpp compares with; `oracle.py --check golden.hpp` says whether they are current. What a
case means, and its input, is in golden_case.hpp."""
import itertools
import sys
from pathlib import Path
from typing import NamedTuple

try:
    import ml_dtypes
    import numpy as np
except ImportError as reason:
    print(f"oracle.py: skipped: {reason}. For it: {sys.executable} -m pip install numpy ml_dtypes==0.6.0")
    sys.exit(0)

import numerics
import self_check

f32, u64 = np.float32, np.uint64


class Form(NamedTuple):
    format: str = "nvfp4"
    source: str = "bf16"
    copy: str = "rowwise"
    blocks: str = "blocks_1d"
    rule: str = "two_level"
    layout: str = "linear"
    transform: str = "identity"
    rounding: str = "nearest_even"
    amaxes: str = "of_tensor"


class Case(NamedTuple):
    form: Form
    fill: str
    rows: int
    cols: int
    ld: int
    seed: int


# --- inputs: the twin of pattern() in golden_case.hpp

def mix(i):
    z = i + u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


def pattern(case, exponent_bits, mantissa_bits):
    """Bit patterns [rows, cols] of the stored matrix."""
    seed, r, k = u64(case.seed << 40), np.arange(case.rows, dtype=u64)[:, None], np.arange(case.cols, dtype=u64)
    h = mix(seed + (r << u64(20)) + k)
    group = (mix(~(seed + (r << u64(20)) + (k >> u64(4)))) & u64(3)).astype(np.int64)
    tile = mix(~(seed + u64(1 << 39) + (r >> u64(5) << u64(20)) + (k >> u64(5)))) & u64(7)
    sign = (h >> u64(63)).astype(np.int64) << (exponent_bits + mantissa_bits)
    one, inf = 1 << mantissa_bits, ((1 << exponent_bits) - 1) << mantissa_bits
    mantissa = (h & u64(one - 1)).astype(np.int64)
    if case.fill == "zeros":
        return sign
    if case.fill == "nans":
        return sign | inf | mantissa | 1
    if case.fill == "ties":
        ulps = 2 * (mantissa & 3) - 3
        magnitude = np.where(h >> u64(32) & u64(1), 0x40880000 + ulps, 0x3F200000 + 8 * ulps)
        magnitude[::16] = magnitude[:, ::16] = 0x40C00000
        return sign | magnitude
    fall = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 6, 9])[(h >> u64(32) & u64(15)).astype(np.int64)]
    top = {"tiny": (8, 3), "huge": (254, 30), "overflow": (254, 30)}.get(case.fill, (130, 21))[exponent_bits == 5]
    odd = case.fill in ("special", "infinite", "overflow")
    capped = (h & u64(one - 1)) * (mix(~u64(case.seed)) >> u64(32)) >> u64(32)
    mantissa = np.where(fall + group == 0, capped.astype(np.int64), mantissa)
    exponent = top - fall - group - np.where((tile == 1) & odd, 12 + 4 * group, 0)
    bits = sign | np.maximum(exponent, 0) << mantissa_bits | mantissa
    if odd:
        bits = np.where(tile == 0, sign, bits)
        magnitudes = np.array([0, inf | one >> 1, 1, one >> 1, one, one - 1, inf | 1, inf])
        which = (h >> u64(40) & u64(63)).astype(np.int64)
        chosen = which < (7 if case.fill == "special" else 8)
        bits = np.where(chosen, sign | magnitudes[np.minimum(which, 7)], bits)
    if case.fill == "outlier":
        at = case.rows // 2, case.cols // 3
        bits[at] = sign[at] | inf - 1
    return bits


def matrix(case):
    """The stored matrix as float32, exactly."""
    if case.form.source == "fp16":
        return pattern(case, 5, 10).astype(np.uint16).view(np.float16).astype(f32)
    if case.form.source == "bf16":
        return pattern(case, 8, 7).astype(np.uint16).view(ml_dtypes.bfloat16).astype(f32)
    return pattern(case, 8, 23).astype(np.uint32).view(f32)


# --- cases

def forms(**choices):
    """All combinations of the listed choices, the rest by default."""
    lists = {k: v if isinstance(v, list) else [v] for k, v in choices.items()}
    return [Form(**dict(zip(lists, c))) for c in itertools.product(*lists.values())]


COPIES, SHAPES, LAYOUTS = ["rowwise", "columnwise"], ["blocks_1d", "blocks_2d"], ["linear", "swizzled"]


# Over all amaxes the two orders of the scale formula differ in one byte of a thousand, but for most amaxes in
# none at all. Here they do differ, as check_telling() makes sure.
ORDERS = ["two_level", "two_level_division"]
TELLING = [("plain", 300, 1024, 1030, 50), ("plain", 300, 1024, 1030, 16)]


def check_telling():
    for blocks, matrix in (("blocks_1d", TELLING[0]), ("blocks_1d", TELLING[1]), ("blocks_2d", TELLING[1])):
        scales = [answer(Case(form, *matrix))[2] for form in forms(rule=ORDERS, blocks=blocks)]
        assert not np.array_equal(*scales), (blocks, matrix)


def shape_of(form, i):
    """Blocks must be whole along their direction; the other dimension is ragged, and rows have gaps. The swizzled
    layout pads rows, blocks, both or neither, and has more than one tile either way."""
    n = numerics.FORMATS[form.format][1]
    across, along = [(33, 7 * n), (150, 5 * n), (65, 9 * n), (128, 4 * n)][i % 4]
    rows, cols = (across, along) if form.copy == "rowwise" else (along, across)
    return rows, cols, cols + [5, 0, 3][i % 3]


def cases_of(selected, *fills):
    cases = []
    for form in selected:
        for fill in fills:
            i = len(cases)
            cases.append(Case(form, fill, *shape_of(form, i), i + 1))
    return cases


def nvfp4_cases():
    all_ways = dict(copy=COPIES, blocks=SHAPES)
    cases = cases_of(forms(**all_ways, layout=LAYOUTS), "plain", "special")
    cases += cases_of(forms(source=["fp32", "fp16"], **all_ways), "plain", "special")
    cases += cases_of(forms(), "infinite", "outlier", "tiny", "huge", "zeros", "nans")
    cases += cases_of(forms(rule="two_level_division", blocks=SHAPES), "special")
    cases += [Case(form, *matrix) for form in forms(rule=ORDERS) for matrix in TELLING]
    return cases + [Case(form, *TELLING[1]) for form in forms(rule=ORDERS, blocks="blocks_2d")]


def four_over_six_cases():
    rules = [f"over_six_{norm}_{top}" for norm in ("mae", "mse") for top in (256, 448)]
    cases = cases_of(forms(rule=rules, blocks=SHAPES), "plain", "special")
    cases += [Case(form, *TELLING[0]) for form in forms(rule="over_six_mae_448")]
    cases += cases_of(forms(rule="over_six_mae_256", copy="columnwise", blocks=SHAPES), "plain")
    cases += cases_of(forms(rule="over_six_mse_448"), "infinite", "tiny")
    return cases + cases_of(forms(rule=rules[::2], source="fp32", copy=COPIES, blocks=SHAPES), "ties")


def row_scaled_cases():
    cases = cases_of(forms(amaxes="of_each_row", copy=COPIES), "plain", "special", "infinite")
    return cases + cases_of(forms(amaxes="of_each_row", rule="over_six_mae_256"), "plain")


def mx_cases():
    cases = []
    for i, name in enumerate(name for name in numerics.FORMATS if name != "nvfp4"):
        source, other = ["bf16", "fp32", "fp16"][i % 3], ["fp16", "bf16", "fp32"][i % 3]
        one_layout = dict(format=name, layout=LAYOUTS[i % 2])
        cases += cases_of(forms(**one_layout, source=source, rule="power_of_two_up"),
                          "plain", "special", "infinite")
        cases += cases_of(forms(**one_layout, source="fp32", rule="power_of_two_floor", copy="columnwise"),
                          "plain", "special", "tiny", "huge")
        tiles = dict(format=name, blocks="blocks_2d")
        cases += cases_of(forms(**tiles, source=other, rule="power_of_two_up", copy="columnwise"), "special")
        cases += cases_of(forms(**tiles, rule="power_of_two_floor"), "overflow", "zeros")
    return cases


def recipe_cases():
    roundings = ["nearest_even", "stochastic"]
    cases = cases_of(forms(transform="hadamard_16", copy=COPIES, rounding=roundings), "plain")
    cases += cases_of(forms(rounding="stochastic", copy=COPIES, blocks=SHAPES), "plain", "special")
    for name in ("mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"):
        mx = forms(format=name, rule="power_of_two_up", rounding="stochastic", source="fp32")
        cases += cases_of(mx, "plain", "special")
    return cases


def readable_cases():
    up, floor = [dict(rule=f"power_of_two_{direction}") for direction in ("up", "floor")]
    return [Case(Form(), "special", 2, 16, 16, 4), Case(Form(copy="columnwise"), "special", 16, 2, 3, 6),
            Case(Form(format="mxfp6_e3m2", **up), "special", 1, 32, 32, 2),
            Case(Form(format="mxfp8_e4m3", **floor), "special", 1, 32, 32, 3)]


# --- output

def digest(values):
    """The sum of mix(index << 32 | value), modulo 2^64."""
    v = values.reshape(-1).astype(u64)
    return int(np.sum(mix((np.arange(v.size, dtype=u64) << u64(32)) | v)))


def answer(case):
    """amax bits, codes, scales, and the bits of the dequantized matrix as stored, every NaN the same."""
    x = matrix(case)
    columnwise = case.form.copy == "columnwise"
    seed, stream = 0x0123456789ABCDEF + case.seed, (case.seed << 33) + 5
    amax, codes, scales, values = numerics.quantize(x.T.copy() if columnwise else x, case.form, seed, stream)
    values = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    return int(amax.view(np.uint32)), codes, scales, values.T.copy() if columnwise else values


def entry(case):
    amax, codes, scales, values = answer(case)
    digests = ", ".join(f"{digest(a):#018x}" for a in (codes, scales, values))
    return (f"{{{{{', '.join(case.form)}}},\n"
            f"     {case.fill}, {case.rows}, {case.cols}, {case.ld}, {case.seed}, {amax:#010x}, {digests}}}")


def readable_entry(case):
    _, codes, scales, values = answer(case)
    texts = [codes.tobytes().hex() + ",", scales.tobytes().hex() + ","]
    hexadecimal = values.astype(">u4").tobytes().hex()
    texts += [hexadecimal[i : i + 96] for i in range(0, len(hexadecimal), 96)]
    quoted = [f'     "{t.rstrip(",")}"' + "," * t.endswith(",") for t in texts]
    return "\n".join([f"    {{{entry(case)},", *quoted]) + "},"


def golden_header():
    out = ["// SPDX-License-Identifier: Apache-2.0",
           "// Generated by oracle.py, which says how; do not edit.", "#pragma once", "",
           '#include "golden_case.hpp"', "", "namespace fourscale::test::golden {", "", "// clang-format off"]
    for make in (nvfp4_cases, four_over_six_cases, row_scaled_cases, mx_cases, recipe_cases):
        rows = [f"    {entry(case)}," for case in make()]
        out += [f"inline constexpr golden_case {make.__name__}[] = {{", *rows, "};", ""]
    out += ["inline constexpr readable_case readable_cases[] = {", *map(readable_entry, readable_cases()), "};",
            "// clang-format on", "", "}  // namespace fourscale::test::golden"]
    return "\n".join(out) + "\n"


def main(arguments):
    with np.errstate(all="ignore"):
        self_check.run()
        check_telling()
        text = golden_header()
    if not arguments:
        sys.stdout.write(text)
        return 0
    if len(arguments) == 2 and arguments[0] == "--check":
        current = Path(arguments[1]).read_text() == text
        print(f"{arguments[1]} is {'' if current else 'not '}what oracle.py writes")
        return 0 if current else 1
    print("usage: oracle.py > golden.hpp, or oracle.py --check golden.hpp", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Block quantization written a second time, from the specifications and not from the headers: float32 arithmetic of
numpy (one IEEE rounding an operation) and the casts of ml_dtypes. Sources: OCP MX v1.0 and OFP8 v1.0; Transformer
Engine's cast kernels; PTX ISA cvt. Matrices are float32 arrays whose rows hold the blocks."""
from typing import NamedTuple

import ml_dtypes
import numpy as np

f32 = np.float32
FLT_MAX = np.finfo(f32).max


class Element(NamedTuple):
    """A number format: its ml_dtypes cast, and what that cast leaves open."""
    dtype: type
    width: int
    largest: float
    emax: int  # of the largest power of two
    nan: int  # what a NaN of either sign becomes


E2M1 = Element(ml_dtypes.float4_e2m1fn, 4, 6.0, 2, 0x7)
E2M3 = Element(ml_dtypes.float6_e2m3fn, 6, 7.5, 2, 0x1F)
E3M2 = Element(ml_dtypes.float6_e3m2fn, 6, 28.0, 4, 0x1F)
E4M3 = Element(ml_dtypes.float8_e4m3fn, 8, 448.0, 8, 0x7F)
E5M2 = Element(ml_dtypes.float8_e5m2, 8, 57344.0, 15, 0x7F)

FORMATS = {  # element, block size
    "nvfp4": (E2M1, 16), "mxfp4": (E2M1, 32), "mxfp6_e2m3": (E2M3, 32), "mxfp6_e3m2": (E3M2, 32),
    "mxfp8_e4m3": (E4M3, 32), "mxfp8_e5m2": (E5M2, 32)}


def decode(element, codes):
    return codes.astype(np.uint8).view(element.dtype).astype(f32)


def encode(element, x):
    """Nearest even, saturating: clamped first, because these casts give NaN or infinity beyond the range."""
    y = np.where(np.isnan(x), f32(0), x)
    y = np.where(np.abs(y) > element.largest, np.copysign(f32(element.largest), y), y)
    return np.where(np.isnan(x), np.uint8(element.nan), y.astype(element.dtype).view(np.uint8))


def encode_stochastic(element, x, dither):
    """Away from zero iff floor(65536 * fraction of the step) + dither >= 65536. Exact in double."""
    grid = decode(element, np.arange(1 << (element.width - 1))).astype(np.float64)
    grid = grid[grid <= element.largest]  # NaN and infinity go
    magnitude = np.minimum(np.where(np.isnan(x), 0, np.abs(x)).astype(np.float64), element.largest)
    below = np.searchsorted(grid, magnitude, side="right") - 1
    step = np.append(np.diff(grid), np.inf)[below]
    away = np.floor((magnitude - grid[below]) / step * 65536) + dither >= 65536
    codes = below + away + (np.signbit(x).astype(np.int64) << (element.width - 1))
    return np.where(np.isnan(x), element.nan, codes).astype(np.uint8)


def philox(counter, seed, rounds=10):
    """Philox4x32 of an array [..., 4] of counters (SC 2011)."""
    low = np.uint64(0xFFFFFFFF)
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(rounds):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(q >> np.uint64(32)) ^ c[1] ^ k[0], q & low, (p >> np.uint64(32)) ^ c[3] ^ k[1], p & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c, axis=-1)


def random_words(rows, cols, seed, stream):
    """One word for four elements [rows, cols / 4]: word (col / 4) % 4 of counter (col / 16, row, stream)."""
    counter = np.zeros((rows, (cols + 15) // 16, 4), np.uint64)
    counter[..., 0] = np.arange(counter.shape[1])
    counter[..., 1] = np.arange(rows)[:, None]
    counter[..., 2], counter[..., 3] = stream & 0xFFFFFFFF, stream >> 32
    return philox(counter, seed).reshape(rows, -1)[:, : cols // 4]


def dither_bits(words, width):
    """The 16 bits that cvt.rs shows each of the four elements of a word: [rows, cols]."""
    byte = [(words >> np.uint64(8 * i)) & np.uint64(0xFF) for i in range(4)]
    pairs = [(2, 0), (3, 1)] if width == 4 else [(1, 0), (3, 2)]  # high byte, low byte
    shares = []
    for high, low in pairs:
        straight = (byte[high].astype(np.int64) << 8) | byte[low].astype(np.int64)
        shares += [straight, sum(((straight >> i) & 1) << (15 - i) for i in range(16))]
    return np.stack(shares, axis=-1).reshape(words.shape[0], -1)


def amax(x, axis=None, keepdims=False):
    """NaN is dropped, infinity stays."""
    return np.max(np.where(np.isnan(x), f32(0), np.abs(x)), axis=axis, keepdims=keepdims)


def hadamard_16(x):
    """y_j = sum_k sign_k x_k (-1)^popcount(k & j) / 4 over 16 neighbours of a row, rounded to bfloat16. The data
    must be such that float32 sums are exact, since then the order of summation does not matter."""
    signs = f32([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1])
    k = np.arange(16)
    parity = np.array([[bin(i & j).count("1") & 1 for j in k] for i in k])
    matrix = signs[:, None] * np.where(parity, f32(-0.25), f32(0.25))
    groups = x.reshape(-1, 16)
    y, exact = np.zeros_like(groups), np.zeros(groups.shape)
    for i in k:
        y += groups[:, i : i + 1] * matrix[i]
        exact += groups[:, i : i + 1].astype(np.float64) * matrix[i]
    assert np.array_equal(y.astype(np.float64), exact), "a Hadamard sum was rounded: choose other data"
    return y.reshape(x.shape).astype(ml_dtypes.bfloat16).astype(f32)


def tensor_scales(a, largest):
    encode_scale = np.fmin(f32(largest) / a, FLT_MAX)
    encode_scale = np.where((a == 0) | (encode_scale == 0), f32(1), encode_scale)
    return encode_scale, f32(1) / encode_scale


def by_tiles(x, n):
    """[rows, blocks, ...] as [tiles, n, blocks, ...], the rows that a last tile lacks being zero."""
    lacking = -x.shape[0] % n
    padded = np.concatenate([x, np.zeros((lacking, *x.shape[1:]), x.dtype)])
    return padded.reshape(-1, n, *x.shape[1:])


def store_e4m3(s, decode_scale):
    """Scale byte and multiplier of a block, from the scale before rounding."""
    code = encode(E4M3, np.fmin(s, FLT_MAX))
    return code, np.fmin(f32(1) / (decode(E4M3, code) * decode_scale), FLT_MAX)


def four_over_six(x, a, tensor_amax, largest, norm, tile):
    """The candidate with the smaller error, the one that maps to 6 on a tie. x is [rows, blocks, 16]."""
    encode_scale, decode_scale = tensor_scales(tensor_amax, largest)
    base = (a / f32(6)) * encode_scale
    candidates, errors = [], []
    for wanted in (base, base * f32(1.5)):
        code, multiplier = store_e4m3(np.fmin(wanted, f32(448)), decode_scale)
        error = np.zeros(a.shape, f32)
        for i in range(16):
            value = decode(E2M1, encode(E2M1, x[..., i] * multiplier))
            d = value * decode(E4M3, code) * tensor_amax / f32(largest) - x[..., i]
            error = error + (np.abs(d) if norm == "mae" else d * d)
        if tile:
            error = by_tiles(error, 16)
            for half in (8, 4, 2, 1):
                error = error[:, :half] + error[:, half:]
            error = np.repeat(error[:, 0], 16, axis=0)[: len(x)]
        candidates.append((code, multiplier))
        errors.append(error)
    to_four = errors[1] < errors[0]
    return tuple(np.where(to_four, four, six) for six, four in zip(*candidates))


def power_of_two(a, element, up):
    """E8M0 byte and its inverse. Up: the power of two not below fl(amax * fl(1/largest)). Else OCP's
    floor(log2 amax) - emax. Infinity gives the largest power in both, zero the smallest."""
    p = a * (f32(1) / f32(element.largest)) if up else a
    # p = mantissa * 2^exponent, mantissa in [0.5, 1)
    mantissa, exponent = np.frexp(np.where(np.isinf(p), f32(1), p))
    power = np.where(mantissa == 0.5, exponent - 1, exponent) if up else exponent - 1 - element.emax
    power = np.where(p == 0, -127, np.where(np.isinf(p), 127, np.clip(power, -127, 127)))
    code = np.ldexp(np.float64(1), power).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    return code, np.ldexp(f32(1), -power).astype(f32)


def pack(codes, width):
    """Codes [rows, cols] to bytes, element 0 in the lowest bits."""
    c = codes.astype(np.uint32)
    if width == 4:
        return (c[:, 0::2] | c[:, 1::2] << 4).astype(np.uint8)
    if width == 6:
        word = sum(c[:, i::4] << (6 * i) for i in range(4))
        bytes_of_word = np.stack([word >> (8 * i) & 0xFF for i in range(3)], axis=-1)
        return bytes_of_word.reshape(len(c), -1).astype(np.uint8)
    return codes


def lay_out(scales, swizzled):
    """Scale bytes [rows, blocks] as they lie in memory, padding zero."""
    if not swizzled:
        return scales.reshape(-1)
    rows, blocks = scales.shape
    tiles_along = -(-blocks // 4)
    i, j = np.arange(rows)[:, None], np.arange(blocks)
    offset = (i // 128 * tiles_along + j // 4) * 512 + i % 32 * 16 + i % 128 // 32 * 4 + j % 4
    memory = np.zeros(-(-rows // 128) * tiles_along * 512, np.uint8)
    memory[offset] = scales
    return memory


def choose_scales(blocks, form, used_amax, largest):
    """Scale bytes and multipliers [rows, blocks] of x as [rows, blocks, n], by the amax of tensor or rows."""
    element, n = FORMATS[form.format]
    tile = form.blocks == "blocks_2d"
    a = amax(blocks, axis=2)
    if tile:
        a = np.repeat(by_tiles(a, n).max(axis=1), n, axis=0)[: len(blocks)]
    encode_scale, decode_scale = tensor_scales(used_amax, largest)
    if form.rule == "two_level":
        return store_e4m3(a * (encode_scale * (f32(1) / f32(6))), decode_scale)
    if form.rule == "two_level_division":
        return store_e4m3((a / f32(6)) * encode_scale, decode_scale)
    if form.rule.startswith("over_six"):
        return four_over_six(blocks, a, used_amax, largest, form.rule.split("_")[2], tile)
    return power_of_two(a, element, form.rule == "power_of_two_up")


def quantize(x, form, random_seed, random_stream):
    """(amax of the tensor, code bytes, scale bytes, dequantized values) of x under `form`, a tuple of names."""
    element, n = FORMATS[form.format]
    if form.transform == "hadamard_16":
        x = hadamard_16(x)
    tensor_amax = amax(x)
    used_amax = amax(x, axis=1, keepdims=True) if form.amaxes == "of_each_row" else tensor_amax
    largest = 6 * 256 if form.rule.endswith("_256") else 6 * 448
    blocks = x.reshape(len(x), -1, n)
    scale, multiplier = choose_scales(blocks, form, used_amax, largest)

    scaled = (blocks * multiplier[..., None]).reshape(x.shape)
    if form.rounding == "stochastic":
        words = random_words(*x.shape, random_seed, random_stream)
        codes = encode_stochastic(element, scaled, dither_bits(words, element.width))
    else:
        codes = encode(element, scaled)

    if form.format == "nvfp4":
        factor = (decode(E4M3, scale) * used_amax) * (f32(1) / f32(largest))
    else:
        factor = scale.view(ml_dtypes.float8_e8m0fnu).astype(f32)
    values = (decode(element, codes).reshape(blocks.shape) * factor[..., None]).reshape(x.shape)
    assert all(v.dtype == f32 for v in (x, multiplier, scaled, factor, values))
    return tensor_amax, pack(codes, element.width), lay_out(scale, form.layout == "swizzled"), values

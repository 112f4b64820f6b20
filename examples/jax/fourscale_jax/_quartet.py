# SPDX-License-Identifier: Apache-2.0
"""The backward of Quartet II: both operands by MS-EDEN, under signs that the key draws."""

import jax.numpy as jnp

from . import _sharded
from .quantized import dequantize, quantize_copy

GROUP = 128


def _high_and_low(a, b):
    """The product of two uint32 as two."""
    low = lambda v: v & 0xFFFF
    high = lambda v: v >> 16
    cross = [high(a) * low(b), low(a) * high(b)]
    carry = high(low(a) * low(b)) + low(cross[0]) + low(cross[1])
    return high(a) * high(b) + high(cross[0]) + high(cross[1]) + high(carry), a * b


def philox4x32(counter, key):
    """Ten rounds (J. K. Salmon et al., SC 2011): four words from four words and a key of two."""
    c = [jnp.uint32(word) for word in counter]
    k = [jnp.uint32(word) for word in key]
    for _ in range(10):
        (high0, low0), (high1, low1) = _high_and_low(c[0], jnp.uint32(0xD2511F53)), _high_and_low(
            c[2], jnp.uint32(0xCD9E8D57))
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [k[0] + jnp.uint32(0x9E3779B9), k[1] + jnp.uint32(0xBB67AE85)]
    return jnp.stack(c)


def signs(key, gemm):
    """draw_key::signs(): +1 or -1 for 128 elements, the same for both operands of a GEMM; 1 for dgrad, 2 for wgrad."""
    words = philox4x32([0, 0, (key[2] & ~jnp.uint32(15)) | jnp.uint32(12 + gemm), key[3]], key[:2])
    bits = words[:, None] >> jnp.arange(32, dtype=jnp.uint32) & 1
    return 1 - 2 * bits.reshape(GROUP).astype(jnp.int32)


def ms_eden(x, key, gemm, role, columnwise, reduced):
    """x [rows, k] by MS-EDEN. `reduced` is applied to its amax."""
    flips = jnp.tile(signs(key, gemm), x.shape[1] // GROUP).astype(x.dtype)
    signed = x * flips
    amaxes = reduced(_sharded.amax(signed, "quartet2", role, columnwise))
    return quantize_copy(signed, amaxes, key, "quartet2", role, columnwise, False)


def again(q, key, gemm, role, reduced):
    """The columnwise copy of a tensor from its stored rowwise copy."""
    return ms_eden(dequantize(q, jnp.float32).T, key, gemm, role, True, reduced)

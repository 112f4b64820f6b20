# SPDX-License-Identifier: Apache-2.0
"""Data, and the library without XLA."""

import ctypes
import pathlib

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import numpy as np

FP8 = ("fp8_current", "fp8_delayed", "fp8_block")
FOUR_BITS = ("te_nvfp4", "te_nvfp4_no_rht", "te_nvfp4_no_sr", "te_nvfp4_no_2d", "mxfp4", "four_over_six")
ROLES = ("activation", "weight", "gradient")
KEY = dict(seed=0x123456789ABCDEF0, layer=7, step=0xFEDCBA98, microbatch=3)

_reference = ctypes.CDLL(str(pathlib.Path(fj.__file__).parent / "libfourscale_reference.so"))


class _Key(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("layer", ctypes.c_uint32), ("step", ctypes.c_uint64),
                ("microbatch", ctypes.c_uint32)]


def draw_key():
    return fj.draw_key(KEY["seed"], layer=KEY["layer"], step=KEY["step"], microbatch=KEY["microbatch"])


def _pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def _integers(*values):
    return [ctypes.c_int64(v) for v in values]


def bits(array):
    """The bits of an array, every NaN as one; integers as they are."""
    a = np.asarray(array)
    if np.issubdtype(a.dtype, np.integer):
        return a
    nan = np.array(0x7FC0 << 16 if a.itemsize == 4 else 0x7FC0, f"u{a.itemsize}")
    return np.where(np.isnan(a.astype(np.float32)), nan, a.view(nan.dtype))


def same_bits(a, b):
    return np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(bits(a), bits(b))


def random_matrix(rows, cols, seed, dtype=jnp.bfloat16, size=1.0):
    """Gaussian, with rows of very different size."""
    values = jax.random.normal(jax.random.key(2 * seed), (rows, cols))
    sizes = jax.random.normal(jax.random.key(2 * seed + 1), (rows, 1))
    return (values * jnp.exp2(jnp.round(2 * sizes)) * size).astype(dtype)


def linear_case(tokens, in_, out):
    """x, w [in, out] and dy."""
    return (random_matrix(tokens, in_, 1), random_matrix(in_, out, 2, jnp.float32, 0.1), random_matrix(tokens, out, 3))


def whole_case(tokens, in_, out):
    """x, w and dy of whole numbers up to 7: FP8 rounds none of them, and all sums of products fit in 14 bits."""
    whole = lambda i, *shape: jax.random.randint(jax.random.key(i), shape, -7, 8).at[0, 0].set(7)
    return (whole(1, tokens, in_).astype(jnp.bfloat16), whole(2, in_, out).astype(jnp.float32),
            whole(3, tokens, out).astype(jnp.bfloat16))


def outside(got, a, b, to_bf16, tensor_cores_of_fp8=False):
    """How many results are farther from the product in double than sums in float32 may be, in any order; those of
    Blackwell drop less than 2^-22 of a sum and 5 * 2^-35 of the largest product in each of k / 64 steps. On tensor
    cores of FP8: than docs/native_gemm.md derives."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    want, magnitudes, k = a @ b.T, np.abs(a) @ np.abs(b).T, a.shape[1]
    bound = (k + 8) * 2.0**-23 * magnitudes + k * 2.0**-35 * np.abs(a).max() * np.abs(b).max()
    if tensor_cores_of_fp8:
        bound += (0.0455 + 1.1 * (-(-k // 128) + 1) * 2.0**-24) * magnitudes
    if to_bf16:
        bound += 2.0**-8 * (np.abs(want) + bound)
    return np.count_nonzero(~(np.abs(np.asarray(got, np.float64) - want) <= bound))


def step(recipe, x, w, dy, seed, **arguments):
    """y, dx and dw of a dense layer. Under delayed scaling, of its first step."""
    if recipe == "fp8_delayed":
        arguments["state"] = fj.delayed_state(4)
    y, backward = jax.vjp(lambda x, w: fj.dense(x, w, recipe=recipe, seed=seed, **arguments), x, w)
    return y, *backward(dy)


def reference_step(recipe, x, w, dy):
    """The same by host::linear_layer."""
    x, w, dy = np.ascontiguousarray(x), np.ascontiguousarray(np.asarray(w).T), np.ascontiguousarray(dy)
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
    shape = _integers(x.shape[0], x.shape[1], dy.shape[1])
    e = _reference.reference_linear(fj.recipes().index(recipe), *shape, *map(_pointer, (x, w, dy)), _Key(**KEY),
                                    *map(_pointer, (y, dx, dw)))
    assert e == 0
    return y, dx, dw.T


def reference_operand(recipe, role, columnwise, x, amax=1.0):
    """The float32 values of one copy of a tensor by host::fake_quantize, in the coordinates of its transform."""
    x = np.ascontiguousarray(x, np.float32)
    values = np.empty(x.shape[::-1] if columnwise else x.shape, np.float32)
    amax = np.array([amax], np.float32)
    e = _reference.reference_operand(fj.recipes().index(recipe), ROLES.index(role), int(columnwise),
                                     *_integers(*x.shape), _pointer(x), _Key(**KEY), _pointer(amax), _pointer(values))
    assert e == 0
    return values


def reference_signs(gemm):
    negative = np.empty(128, np.uint8)
    _reference.reference_signs(_Key(**KEY), gemm, _pointer(negative))
    return np.where(negative, -1, 1)

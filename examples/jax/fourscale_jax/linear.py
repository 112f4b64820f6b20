# SPDX-License-Identifier: Apache-2.0
"""A linear layer under a recipe: three GEMMs, each of quantized operands."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from . import _calls, _library

SAVED = "fourscale_saved"


def key_words(seed):
    """uint32 [4] of a seed: four words as they are, or the data of a jax key."""
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        seed = jax.random.key_data(seed)
    seed = jnp.asarray(seed)
    if seed.dtype != jnp.uint32 or seed.shape not in ((2,), (4,)):
        raise ValueError(f"a seed is uint32 [4] or a jax key, not {seed.dtype} {list(seed.shape)}")
    return jnp.pad(seed, (0, 4 - seed.size))


def _amax(x, recipe, role, axes):
    amaxes = _calls.amax(x, recipe, role)
    return lax.pmax(amaxes, axes) if axes and amaxes.size else amaxes


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _dense(x, w, key, recipe, axes):
    amax_x, amax_w = _amax(x, recipe, "activation", axes), _amax(w, recipe, "weight", axes)
    a = _calls.quantize(x, amax_x, key, recipe, "activation", False)
    b = _calls.quantize(w, amax_w, key, recipe, "weight", True)
    return _fprop((*a, amax_x), (*b, amax_w), recipe)


def _fprop(x, w, recipe):
    return _calls.gemm(x, w, _library.copy_of(recipe, "activation", False), _library.copy_of(recipe, "weight", True),
                       jnp.bfloat16)


def _forward(x, w, key, recipe, axes):
    amax_x, amax_w = _amax(x, recipe, "activation", axes), _amax(w, recipe, "weight", axes)
    codes_x, scales_x, *x_t = _calls.quantize_both(x, amax_x, key, recipe, "activation")
    *w_n, codes_w, scales_w = _calls.quantize_both(w, amax_w, key, recipe, "weight")
    saved = [checkpoint_name(v, SAVED) for v in (*x_t, amax_x, *w_n, amax_w)]
    y = _fprop((codes_x, scales_x, amax_x), (codes_w, scales_w, amax_w), recipe)
    return y, (saved[:3], saved[3:], jnp.zeros(0, w.dtype), key)


def _backward(recipe, axes, saved, dy):
    x_t, w_n, like_w, key = saved
    amax = _amax(dy, recipe, "gradient", axes)
    codes, scales, codes_t, scales_t = _calls.quantize_both(dy, amax, key, recipe, "gradient")
    copy = functools.partial(_library.copy_of, recipe)
    dx = _calls.gemm((codes, scales, amax), w_n, copy("gradient", False), copy("weight", False), jnp.bfloat16)
    dw = _calls.gemm(x_t, (codes_t, scales_t, amax), copy("activation", True), copy("gradient", True), jnp.float32)
    return dx, dw.astype(like_w.dtype), None


_dense.defvjp(_forward, _backward)


def dense(x, w, *, recipe, seed, axis_name=()):
    """y = x @ w by a recipe, one of recipes(), and its gradients: forward, dgrad and wgrad each multiply operands that
    the recipe quantized, with the bits of Blackwell's block-scaled tensor cores.

    x [..., in] is rounded to bfloat16; w [in, out] is float32 or bfloat16; y [..., out] is bfloat16. The gradient of x
    is bfloat16 before it gets the type of x; that of w is accumulated in float32. What backward needs is kept
    quantized, under the name SAVED for remat's policies.

    seed: uint32 [4], see draw_key(), or a jax key. It may be traced; another one recompiles nothing. All random bits
    follow from it and from the place in the matrix, so each layer and step needs its own.
    axis_name: under shard_map, the mesh axes whose devices share one of the tensors; amaxes are the largest of theirs.

    ValueError: a recipe that does not exist; tokens, in or out no multiple of the block (16, for MXFP4 32).
    """
    if w.ndim != 2 or x.shape[-1] != w.shape[0]:
        raise ValueError(f"dense() takes x [..., in] and w [in, out], not {list(x.shape)} and {list(w.shape)}")
    if w.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(f"weights are float32 or bfloat16, not {w.dtype}")
    rows = x.astype(jnp.bfloat16).reshape(-1, x.shape[-1])
    if recipe == "bf16":
        y = jnp.dot(rows, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32).astype(jnp.bfloat16)
    else:
        _library.check_linear(recipe, *rows.shape, w.shape[1])
        axes = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
        y = _dense(rows, w, key_words(seed), recipe, axes)
    return y.reshape(*x.shape[:-1], w.shape[1])

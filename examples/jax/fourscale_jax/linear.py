# SPDX-License-Identifier: Apache-2.0
"""A linear layer under a recipe: three GEMMs, each of quantized operands."""

import functools
import typing

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from . import _sharded, _library, _quartet
from .quantized import Quantized, key_words, quantize_copy, scaled_matmul

SAVED = "fourscale_saved"
GEMMS = ("fprop", "dgrad", "wgrad")


class _Rule(typing.NamedTuple):
    """What is known of a dense() when it is traced."""

    recipe: str
    axes: tuple  # for each of ROLES, the mesh axes whose devices share its tensor
    accumulate: str
    gemms: tuple  # those that multiply quantized operands

    def largest(self, role, amaxes):
        axes = self.axes[_library.ROLES.index(role)]
        return lax.pmax(amaxes, axes) if axes and amaxes.size else amaxes

    def multiply(self, a, b, dtype=jnp.bfloat16):
        return scaled_matmul(a, b, dtype, accumulate=self.accumulate)


def _under(signs, x, recipe, role):
    """x whose rows are negated so that the transform of its columnwise copy, under the recipe's signs, is that under
    `signs`."""
    copy = _library.copy_of(recipe, role, True)
    if signs.size == 0 or copy.hadamard == 0:
        return x
    fixed = jnp.array([1 - 2 * (copy.signs >> i % 16 & 1) for i in range(copy.hadamard)], signs.dtype)
    return x * jnp.tile(signs * fixed, x.shape[0] // copy.hadamard).astype(x.dtype)[:, None]


def _both_copies(x, amaxes, key, recipe, role, signs):
    """x with blocks along its rows and its transpose with blocks along the columns of x. Weights come as [in, out], the
    transpose of the library's: their first copy is what the library calls columnwise; they are rounded alike."""
    copies = [_library.copy_of(recipe, role, columnwise) for columnwise in (False, True)]
    if signs.size and role != "weight":
        return [quantize_copy(of, amaxes, key, recipe, role, transposed, transposed)
                for transposed, of in enumerate((x, _under(signs, x, recipe, role)))]
    if copies[0].both:
        codes, scales, codes_t, scales_t = _sharded.quantize_both(x, amaxes, key, recipe, role)
        return Quantized(codes, scales, amaxes, copies[0]), Quantized(codes_t, scales_t, amaxes, copies[1])
    return [quantize_copy(x, amaxes, key, recipe, role, transposed, transposed) for transposed in (False, True)]


def _amaxes(x, rule, role, state, signs):
    """The amaxes to quantize under, and the one to record in the state of delayed scaling."""
    amaxes = rule.largest(role, _sharded.amax(_under(signs, x, rule.recipe, role), rule.recipe, role))
    if not _library.copy_of(rule.recipe, role, False).delayed:
        return amaxes, amaxes
    return state[_library.ROLES.index(role), :1], amaxes


def delayed_state(length=1024):
    """The state of delayed scaling for one dense(): float32 [3, 1 + length], for x, w and dy the amax in use and the
    amaxes of `length` steps, the newest first. The gradient of dense() by its state is the next state: use a state for
    one call, without vmap, for gradients of several add up."""
    in_use = [_library.copy_of("fp8_delayed", role, False).range for role in _library.ROLES]
    return jnp.zeros((3, 1 + length), jnp.float32).at[:, 0].set(jnp.array(in_use, jnp.float32))


def _next_state(state, newest):
    """As the library's update(): zero, infinity and NaN keep the amax in use."""
    if state.size == 0:
        return state
    history = jnp.concatenate([newest, state[:, 1:-1]], axis=1)
    largest = history.max(axis=1, keepdims=True)
    in_use = jnp.where((largest > 0) & (largest < jnp.inf), largest, state[:, :1])
    return jnp.concatenate([in_use, history], axis=1)


def _dot(a, b, dtype=jnp.bfloat16):
    """a @ b in bfloat16, summed in float32."""
    return jnp.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32).astype(dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _dense(x, w, key, state, signs, rule):
    if "fprop" not in rule.gemms:
        return _dot(x, w)
    recipe = rule.recipe
    amax_x, _ = _amaxes(x, rule, "activation", state, signs)
    amax_w, _ = _amaxes(w, rule, "weight", state, signs)
    return rule.multiply(quantize_copy(x, amax_x, key, recipe, "activation", False, False),
                         quantize_copy(w, amax_w, key, recipe, "weight", False, True))


def _forward(x, w, key, state, signs, rule):
    recipe = rule.recipe
    amax_x, new_x = _amaxes(x, rule, "activation", state, signs)
    amax_w, new_w = _amaxes(w, rule, "weight", state, signs)
    if recipe == "quartet2":  # keeps what forward multiplied
        x_n = x_t = quantize_copy(x, amax_x, key, recipe, "activation", False, False)
        w_n = w_t = quantize_copy(w, amax_w, key, recipe, "weight", False, True)
    else:
        x_n, x_t = _both_copies(x, amax_x, key, recipe, "activation", signs)
        w_t, w_n = _both_copies(w, amax_w, key, recipe, "weight", signs)
    y = rule.multiply(x_n, w_n) if "fprop" in rule.gemms else _dot(x, w)
    kept = (x_t if "wgrad" in rule.gemms else x, w_t if "dgrad" in rule.gemms else w, new_x, new_w)
    return y, (jax.tree.map(lambda v: checkpoint_name(v, SAVED), kept), jnp.zeros(0, w.dtype), key, state, signs)


def _backward(rule, kept, dy):
    (x_t, w_t, new_x, new_w), like_w, key, state, signs = kept
    recipe, new_dy = rule.recipe, state
    largest = lambda role: functools.partial(rule.largest, role)
    if recipe == "quartet2":
        for_dgrad = lambda: (_quartet.ms_eden(dy, key, 1, "gradient", False, largest("gradient")),
                             _quartet.again(w_t, key, 1, "weight", largest("weight")))
        for_wgrad = lambda: (_quartet.again(x_t, key, 2, "activation", largest("activation")),
                             _quartet.ms_eden(dy.T, key, 2, "gradient", True, largest("gradient")))
    else:
        amax, new_dy = _amaxes(dy, rule, "gradient", state, signs)
        dy_n, dy_t = _both_copies(dy, amax, key, recipe, "gradient", signs)
        for_dgrad, for_wgrad = lambda: (dy_n, w_t), lambda: (x_t, dy_t)
    dx = rule.multiply(*for_dgrad()) if "dgrad" in rule.gemms else _dot(dy, w_t.T)
    dw = rule.multiply(*for_wgrad(), jnp.float32) if "wgrad" in rule.gemms else _dot(x_t.T, dy, jnp.float32)
    if state.size:
        state = _next_state(state, jnp.stack([new_x, new_w, new_dy]))
    return dx, dw.astype(like_w.dtype), None, state, jnp.zeros_like(signs)


_dense.defvjp(_forward, _backward)


@jax.custom_vjp
def _plain(x, w):
    """The same GEMMs in bfloat16."""
    return _dot(x, w)


_plain.defvjp(lambda x, w: (_dot(x, w), (x, w)),
              lambda kept, dy: (_dot(dy, kept[1].T), _dot(kept[0].T, dy, jnp.float32).astype(kept[1].dtype)))


def _checked_signs(signs, recipe):
    if signs is None:
        return jnp.zeros(0)
    size = 0 if recipe == "quartet2" else _library.copy_of(recipe, "activation", True).hadamard
    if size == 0:
        raise ValueError(f'"{recipe}" has no transform whose signs are not its own')
    signs = jnp.asarray(signs, jnp.float32)
    if signs.shape != (size,):
        raise ValueError(f"{recipe} transforms {size} values: signs are [{size}], not {list(signs.shape)}")
    return signs


def dense(x, w, *, recipe, seed, axis_name=(), state=None, accumulate="blackwell", gemms=GEMMS,
          signs=None):
    """y = x @ w by a recipe, one of recipes(), and its gradients: forward, dgrad and wgrad each multiply operands that
    the recipe quantized, as scaled_matmul() does.

    x [..., in] is rounded to bfloat16; w [in, out] is float32 or bfloat16; y [..., out] is bfloat16. The gradient of x
    is bfloat16 before it gets the type of x; that of w comes from float32. What backward needs is kept quantized, under
    the name SAVED for remat's policies.

    seed: uint32 [4], see draw_key(), or a jax key. It may be traced; another one recompiles nothing. All random bits
    follow from it and from the place in the matrix, so each layer and step needs its own.
    axis_name: under shard_map, the mesh axes whose devices share one of the tensors; amaxes are the largest of theirs.
    A dict gives each of "activation" (x), "weight" and "gradient" (dy) its own; () saves a collective.
    state: for "fp8_delayed", see delayed_state().
    accumulate: how 4-bit operands are multiplied, "blackwell" or "native", see scaled_matmul(); 8 bits do not care.
    signs: float32 [n], 1 or -1, of the Hadamard transform on both operands of wgrad in place of the recipe's, where n is
    its size (16 for te_nvfp4). They may be traced. Nothing to "bf16".
    gemms: those of "fprop", "dgrad" and "wgrad" that are quantized. The others multiply in bfloat16.

    ValueError: a recipe, a GEMM or an `accumulate` that does not exist; tokens, in or out no multiple of the recipe's
    blocks; signs of another length than the transform.
    """
    if w.ndim != 2 or x.shape[-1] != w.shape[0]:
        raise ValueError(f"dense() takes x [..., in] and w [in, out], not {list(x.shape)} and {list(w.shape)}")
    if w.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(f"weights are float32 or bfloat16, not {w.dtype}")
    _library.check_accumulate(accumulate)
    gemms = (gemms,) if isinstance(gemms, str) else gemms
    if unknown := set(gemms) - set(GEMMS):
        raise ValueError(f"there is no GEMM {', '.join(sorted(unknown))}; there are {', '.join(GEMMS)}")
    rows = x.astype(jnp.bfloat16).reshape(-1, x.shape[-1])
    if (state is not None) != (recipe != "bf16" and _library.copy_of(recipe, "activation", False).delayed):
        raise ValueError(f'"fp8_delayed" needs a state, see delayed_state(); no other recipe does, not "{recipe}"')
    if recipe == "bf16":
        return _plain(rows, w).reshape(*x.shape[:-1], w.shape[1])
    _library.check_linear(recipe, *rows.shape, w.shape[1])
    if not isinstance(axis_name, dict):
        axis_name = dict.fromkeys(_library.ROLES, axis_name)
    if set(axis_name) != set(_library.ROLES):
        raise ValueError(f"axis_name is mesh axes, or a dict of them for {', '.join(_library.ROLES)}, not {axis_name}")
    axes = tuple((name,) if isinstance(name, str) else tuple(name) for name in map(axis_name.get, _library.ROLES))
    rule = _Rule(recipe, axes, accumulate, tuple(g for g in GEMMS if g in gemms))
    state = jnp.zeros((0, 0)) if state is None else state
    y = _dense(rows, w, key_words(seed), state, _checked_signs(signs, recipe), rule)
    return y.reshape(*x.shape[:-1], w.shape[1])

# SPDX-License-Identifier: Apache-2.0
"""Quantized matrices as values: what one call wrote, another reads right."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

from . import _sharded, _library


@functools.partial(jax.tree_util.register_dataclass, data_fields=["codes", "scales", "amaxes"], meta_fields=["copy"])
@dataclasses.dataclass(frozen=True)
class Quantized:
    """A matrix [rows, cols] with blocks along its rows. codes: uint8, row-major; of two 4-bit codes in a byte, the
    lower bits hold the even column. scales: uint8, for each row those of its blocks. amaxes: float32, of the tensor;
    copy says which of them counts, and what codes and scales mean."""

    codes: jax.Array
    scales: jax.Array
    amaxes: jax.Array
    copy: _library.Copy

    @property
    def shape(self):
        return self.codes.shape[0], self.codes.shape[1] * 8 // self.copy.code_bits

    @property
    def amax(self):
        """The amax that the codes are under: float32, or None for formats without a tensor scale."""
        return self.amaxes[self.copy.amax_at] if self.copy.amax_count else None


def draw_key(seed, *, layer=0, step=0, microbatch=0):
    """The seed for one linear layer at one step, uint32 [4]: its random bits are those of the library's draw_key. Each
    may be traced. Layers below 4096, microbatches below 65536, steps below 2^32."""
    low, high = (seed & 0xFFFFFFFF, seed >> 32) if isinstance(seed, int) else (seed, 0)
    place = jnp.asarray(layer, jnp.uint32) * 16 + jnp.asarray(microbatch, jnp.uint32) * 65536
    return jnp.stack([jnp.asarray(word, jnp.uint32) for word in (low, high, place, step)])


def key_words(seed):
    """The key that handlers read, uint32 [6]: four words of a seed as they are, or the data of a jax key; and row and
    column of a device's part in the whole matrix, which _sharded adds."""
    seed = jnp.asarray(seed)
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        seed = jax.random.key_data(seed)
    if seed.dtype != jnp.uint32 or seed.shape not in ((2,), (4,)):
        raise ValueError(f"a seed is uint32 [4] or a jax key, not {seed.dtype} {list(seed.shape)}")
    return jnp.pad(seed, (0, 6 - seed.size))


def quantize_copy(x, amaxes, key, recipe, role, columnwise, transposed):
    """One copy of x, or of its transpose, under given amaxes."""
    codes, scales = _sharded.quantize(x, amaxes, key, recipe, role, columnwise, transposed)
    return Quantized(codes, scales, amaxes, _library.copy_of(recipe, role, columnwise))


def quantize(x, *, recipe="te_nvfp4", role="activation", columnwise=False, seed=None, amax=None):
    """x [rows, cols], float32 or bfloat16, as the Quantized that a linear layer makes of it under a recipe: `role` is
    "activation", "weight" or "gradient". columnwise: the quantized transpose [cols, rows], transformed where the
    recipe says so; MS-EDEN takes values that have their signs already. seed: as for dense(), needed where the recipe
    rounds stochastically. amax: float32, in place of that of x itself, for example reduced over devices.

    ValueError: no such recipe; no seed; rows (columnwise: columns) that are no multiple of the block."""
    copy = _library.copy_of(recipe, role, columnwise)
    if x.ndim != 2 or x.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(f"quantize() takes a matrix of float32 or bfloat16, not {x.dtype} {list(x.shape)}")
    if copy.draws and seed is None:
        raise ValueError(f'recipe "{recipe}" rounds the {role} stochastically: quantize() needs a seed')
    _library.check_multiple(x.shape[not columnwise], copy.multiple, f"{recipe}, {list(x.shape)}, blocks of")
    if columnwise and copy.hadamard > copy.block:  # longer than a block: the transform is not part of the quantizer
        x, columnwise_in_memory = x.T, False
    else:
        columnwise_in_memory = columnwise
    amaxes = (_sharded.amax(x, recipe, role, columnwise) if amax is None or copy.amax_count == 0 else
              jnp.full(copy.amax_count, amax, jnp.float32))
    key = jnp.zeros(6, jnp.uint32) if seed is None else key_words(seed)
    return quantize_copy(x, amaxes, key, recipe, role, columnwise, columnwise_in_memory)


def dequantize(q, dtype=jnp.bfloat16):
    """The values of q, float32 or bfloat16, in the coordinates of its transform. Rounded as the library does."""
    return _sharded.dequantize(q.codes, q.scales, q.amaxes, q.copy, jnp.dtype(dtype),
                             q.copy.amax_at if q.copy.amax_count else -1)


def _without_tensor_scale(q):
    """The values of q under tensor scale 1, which are exact in bfloat16, and the tensor scale."""
    values = _sharded.dequantize(q.codes, q.scales, q.amaxes, q.copy, jnp.dtype(jnp.bfloat16), -1)
    if q.copy.amax_count == 0:
        return values, jnp.float32(1)
    one, scale_of_one = _library.ONE[q.copy.format]
    codes = jnp.full(q.copy.code_shape(1, q.copy.block), one, jnp.uint8)
    scales = jnp.full(q.copy.scale_shape(1, q.copy.block), scale_of_one, jnp.uint8)
    return values, _sharded.dequantize(codes, scales, q.amaxes, q.copy, jnp.dtype(jnp.float32), q.copy.amax_at)[0, 0]


def _by_library(a, b, dtype):
    return _sharded.gemm((a.codes, a.scales, a.amaxes), (b.codes, b.scales, b.amaxes), a.copy, b.copy, dtype)


def _by_xla(a, b, dtype):
    (values_a, factor_a), (values_b, factor_b) = _without_tensor_scale(a), _without_tensor_scale(b)
    d = lax.dot_general(values_a, values_b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    return (d * factor_a * factor_b).astype(dtype)


def scaled_matmul(a, b, dtype=jnp.bfloat16, *, accumulate="blackwell"):
    """a @ b.T of two Quantized, [m, k] and [n, k], to bfloat16 or float32 [m, n].

    accumulate="blackwell": of NVFP4 and MXFP4 the bits of Blackwell's block-scaled tensor cores, on every machine.
    accumulate="native", and always for 8 bits: XLA's dot of the values without tensor scales, each of them exact,
    summed in float32 in an order that is XLA's; so within 3 k * 2^-23 * sum |a * b| of exact (docs/native_gemm.md),
    where no value or sum leaves float32, and one rounding to dtype.
    Of FP8, both per tensor or both under scales of 128 values, a Hopper GPU sums in the library's FP8 GEMM: within
    (0.0455 + 1.1 (k / 128 + 2) 2^-24) sum |a * b| of exact there (docs/native_gemm.md), with `accumulate` either way.
    ValueError: other formats, shapes, transforms, or another `accumulate`."""
    _library.check_accumulate(accumulate)
    _library.check_operands(a, b)
    dtype = jnp.dtype(dtype)
    if a.copy.code_bits == 4 and accumulate == "blackwell":
        return _by_library(a, b, dtype)
    if _library.multiplies_fp8(a.copy, b.copy):
        return lax.platform_dependent(a, b, cpu=functools.partial(_by_xla, dtype=dtype),
                                      cuda=functools.partial(_by_library, dtype=dtype))
    return _by_xla(a, b, dtype)

# SPDX-License-Identifier: Apache-2.0
"""The calls of _calls.py on matrices that the devices of a mesh share, as jit places them. Each device works on its
part, in whole blocks; amaxes are the largest of all parts, and a GEMM whose devices share K adds their sums in float32.
Under vmap, one call follows the other."""

import functools
import math
import re

import jax.numpy as jnp
from jax import lax
from jax.custom_batching import sequential_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from . import _calls, _library


def _parts(mesh, struct, *multiples):
    """For each dimension of an argument, the mesh axes that share it: none where parts would not be whole multiples."""
    spec = tuple(struct.sharding.spec if struct.sharding is not None else ()) + (None,) * len(multiples)
    parts = []
    for size, multiple, axes in zip(struct.shape, multiples, spec):
        axes = () if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
        count = math.prod(mesh.shape[axis] for axis in axes)
        parts.append(axes if size % (count * multiple) == 0 else ())
    return tuple(parts)


def _rule(arguments, results):
    """Shardy's rule for dimensions that are products of factors, given as {name: size}. It wants no factors of size 1
    in products, and sizes of those factors that are no dimension by themselves."""
    dimensions = [[{name: size for name, size in dim.items() if size != 1 or len(dim) == 1} or {f"{next(iter(dim))}": 1}
                   for dim in matrix] for matrix in arguments + results]
    whole = {name for matrix in dimensions for dim in matrix if len(dim) == 1 for name in dim}
    text = lambda dim: " ".join(dim) if len(dim) == 1 else f"({' '.join(dim)})"
    matrices = [" ".join(map(text, matrix)) for matrix in dimensions]
    sizes = {name: size for matrix in dimensions for dim in matrix for name, size in dim.items() if name not in whole}
    return f"{', '.join(matrices[:len(arguments)])} -> {', '.join(matrices[len(arguments):])}", sizes


def _on_parts(function, rule, plan, **kinds):
    """function as one that XLA partitions by Shardy's `rule`. plan(mesh, arguments) gives the function of one device,
    and the mesh axes of each dimension of results and arguments."""
    call = custom_partitioning(function)

    def partition(mesh, arguments, results):
        on_device, *parts = plan(mesh, arguments)
        of_results, of_arguments = (
            tuple(NamedSharding(mesh, PartitionSpec(*(axes or None for axes in p))) for p in ps) for ps in parts)
        return mesh, on_device, list(of_results) if isinstance(results, list) else of_results[0], of_arguments

    text, sizes = rule
    call.def_partition(partition, sharding_rule=text, **sizes, **kinds)
    return sequential_vmap(call)


_WHOLE = ((),)  # amaxes and keys have one dimension, which each device has whole


def _factors(name, size, multiple, copy):
    """The dimensions of size values in whole blocks, as that of values, of codes, of scales. One block, where the last
    would not be whole."""
    blocks, length = (size // multiple, multiple) if size % multiple == 0 else (1, size)
    scales = length // copy.block * copy.scale_bytes
    return [{name: blocks, f"{name}_{of}": count} for of, count in
            (("value", length), ("code", length * copy.code_bits // 8), ("scale", scales))] if scales else [
            {name: blocks, f"{name}_value": length}, {name: blocks, f"{name}_code": length * copy.code_bits // 8},
            {f"{name}_none": 0}]


_AMAXES, _KEY = [{"n": 0}], [{"q": 6}]


@functools.cache
def _amax(recipe, role, columnwise):
    def function(x):
        return _calls.amax(x, recipe, role, columnwise)

    def plan(mesh, arguments):
        rows, cols = _parts(mesh, arguments[0], *(_library.copy_of(recipe, role, c).multiple for c in (True, False)))
        return (lambda x: lax.pmax(function(x), rows + cols)) if rows + cols else function, [_WHOLE], [(rows, cols)]

    return _on_parts(function, ("i j -> n", {}), plan, reduction_factors=("i", "j"), need_replication_factors=("n",))


def amax(x, recipe, role, columnwise=False):
    if _library.copy_of(recipe, role, columnwise).amax_count == 0:
        return jnp.zeros(0, jnp.float32)
    return _amax(recipe, role, columnwise)(x)


def _placed(function, parts):
    """function(x, amaxes, key) of the part of x that this device has, with its place in the key."""
    def on_device(x, amaxes, key):
        place = [lax.axis_index(axes).astype(jnp.uint32) * size if axes else jnp.uint32(0)
                 for axes, size in zip(parts, x.shape)]
        return function(x, amaxes, key + jnp.stack(4 * [jnp.uint32(0)] + place))
    return on_device if any(parts) else function


@functools.cache
def _quantize_both(shape, recipe, role):
    def function(x, amaxes, key):
        return _calls.quantize_both(x, amaxes, key, recipe, role)

    rowwise, columnwise = (_library.copy_of(recipe, role, c) for c in (False, True))
    multiples = columnwise.multiple, rowwise.multiple

    def plan(mesh, arguments):
        rows, cols = _parts(mesh, arguments[0], *multiples)
        n, t = (rows, cols), (cols, rows)
        return _placed(function, n), [n, n, t, t], [n, _WHOLE, _WHOLE]

    rows, cols = _factors("i", shape[0], multiples[0], columnwise), _factors("j", shape[1], multiples[1], rowwise)
    results = [[rows[0], cols[1]], [rows[0], cols[2]], [cols[0], rows[1]], [cols[0], rows[2]]]
    return _on_parts(function, _rule([[rows[0], cols[0]], _AMAXES, _KEY], results), plan)


def quantize_both(x, amaxes, key, recipe, role):
    return _quantize_both(x.shape, recipe, role)(x, amaxes, key)


@functools.cache
def _quantize(shape, recipe, role, columnwise, transposed):
    def function(x, amaxes, key):
        return _calls.quantize(x, amaxes, key, recipe, role, columnwise, transposed)

    copy = _library.copy_of(recipe, role, columnwise)
    multiples = copy.rows, copy.multiple

    def plan(mesh, arguments):
        parts = _parts(mesh, arguments[0], *(multiples[::-1] if transposed else multiples))
        of_copy = parts[::-1] if transposed else parts
        return _placed(function, parts), [of_copy, of_copy], [parts, _WHOLE, _WHOLE]

    of_copy = shape[::-1] if transposed else shape
    rows, cols = (_factors(*d, copy) for d in zip("ij", of_copy, multiples))
    x = [cols[0], rows[0]] if transposed else [rows[0], cols[0]]
    return _on_parts(function, _rule([x, _AMAXES, _KEY], [[rows[0], cols[1]], [rows[0], cols[2]]]), plan)


def quantize(x, amaxes, key, recipe, role, columnwise, transposed):
    return _quantize(x.shape, recipe, role, columnwise, transposed)(x, amaxes, key)


@functools.cache
def _dequantize(shape, copy, dtype, at):
    def function(codes, scales, amaxes):
        return _calls.dequantize(codes, scales, amaxes, copy, dtype, at)

    code_bytes = copy.block * copy.code_bits // 8

    def plan(mesh, arguments):
        rows, cols = _parts(mesh, arguments[0], 1, code_bytes)
        return function, [(rows, cols)], [(rows, cols), (rows, cols if copy.scale_bytes else ()), _WHOLE]

    values, in_codes, in_scales = _factors("j", shape[1] * 8 // copy.code_bits, copy.block, copy)
    rows = {"i": shape[0]}
    return _on_parts(function, _rule([[rows, in_codes], [rows, in_scales], _AMAXES], [[rows, values]]), plan)


def dequantize(codes, scales, amaxes, copy, dtype, at):
    return _dequantize(codes.shape, copy, dtype, at)(codes, scales, amaxes)


@functools.cache
def _gemm(packed, copy_a, copy_b, dtype):
    def to(dtype):
        return lambda a, scales_a, amaxes_a, b, scales_b, amaxes_b: _calls.gemm(
            a, scales_a, amaxes_a, b, scales_b, amaxes_b, copy_a, copy_b, dtype)

    code_bytes = copy_a.block * copy_a.code_bits // 8
    of_scales = lambda k: k if copy_a.scale_bytes else ()

    def plan(mesh, arguments):
        (m, k), (n, k_b) = (_parts(mesh, arguments[i], 1, code_bytes) for i in (0, 3))
        k = k if k == k_b else ()
        n = n if not set(n) & set(m) else ()
        summed = lambda *operands: lax.psum(to(jnp.dtype(jnp.float32))(*operands), k).astype(dtype)
        return summed if k else to(dtype), [(m, n)], [
            (m, k), (m, of_scales(k)), _WHOLE, (n, k), (n, of_scales(k)), _WHOLE]

    _, in_codes, in_scales = _factors("k", packed * 8 // copy_a.code_bits, copy_a.block, copy_a)
    m, n = {"m": 0}, {"n": 0}
    arguments = [[m, in_codes], [m, in_scales], [{"p": 0}], [n, in_codes], [n, in_scales], [{"q": 0}]]
    rule = _rule(arguments, [[m, n]])
    summed = dict.fromkeys(name for name in re.findall(r"\w+", rule[0]) if name in in_codes | in_scales)
    return _on_parts(to(dtype), rule, plan, reduction_factors=tuple(summed))


def gemm(a, b, copy_a, copy_b, dtype):
    return _gemm(a[0].shape[1], copy_a, copy_b, dtype)(*a, *b)

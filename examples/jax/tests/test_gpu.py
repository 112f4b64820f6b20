# SPDX-License-Identifier: Apache-2.0
"""A GPU gives the bits of a CPU. Collected where there is a GPU; the other tests run on it, too."""

import functools

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fourscale_jax import _library
from jax.sharding import AxisType, NamedSharding
from support import (FOUR_BITS, FP8, ROLES, draw_key, linear_case, outside, random_matrix, reference_operand, same_bits,
                     step, whole_case)
from test_sharding import LAYERS

MACHINES = [jax.devices(platform)[0] for platform in ("cpu", "gpu")]


def on_both(f, *arguments):
    """Results of a jitted function on a CPU and on a GPU."""
    return [jax.tree.leaves(jax.jit(f)(*jax.device_put(arguments, machine))) for machine in MACHINES]


@pytest.mark.parametrize("recipe", FOUR_BITS + ("quartet2",))
@pytest.mark.parametrize("shape", [(128, 128, 128), (512, 1024, 384), (2048, 384, 1024)])
def test_gpu_has_the_bits_of_the_cpu(recipe, shape):
    for cpu, gpu in zip(*on_both(functools.partial(step, recipe), *linear_case(*shape), draw_key())):
        assert same_bits(cpu, gpu)


@pytest.mark.parametrize("recipe", FP8)
@pytest.mark.parametrize("shape", [(128, 128, 128), (512, 1024, 384), (2048, 384, 1024)])
def test_gpu_multiplies_whole_numbers_in_fp8_like_the_cpu(recipe, shape):
    for cpu, gpu in zip(*on_both(functools.partial(step, recipe), *whole_case(*shape), draw_key())):
        assert np.array_equal(cpu, gpu)


@pytest.mark.skipif(not _library.has_fp8_gemm(), reason="no Hopper: XLA multiplies FP8")
@pytest.mark.parametrize("recipe", ["fp8_current", "fp8_block"])
def test_gpu_multiplies_fp8_within_its_bound(recipe):
    """That of tensor cores, which the CPU's sums in float32 are far inside: the two differ, so both ran."""
    x, w, dy = linear_case(1024, 2048, 512)
    (y, dx, dw), on_gpu = on_both(functools.partial(step, recipe), x, w, dy, draw_key())
    operand, wt = functools.partial(reference_operand, recipe), np.asarray(w).T
    pairs = [(operand("activation", False, x), operand("weight", False, wt)),
             (operand("gradient", False, dy), operand("weight", True, wt)),
             (operand("activation", True, x), operand("gradient", True, dy))]
    for cpu, gpu, pair, to_bf16 in zip((y, dx, dw), on_gpu, pairs, (True, True, False)):
        assert outside(cpu, *pair, to_bf16) == 0 and outside(gpu, *pair, to_bf16, True) == 0
        assert not same_bits(cpu, gpu)


@pytest.mark.skipif(len(jax.devices("gpu")) < 2, reason="two GPUs are needed")
@pytest.mark.parametrize("recipe", FP8)
@pytest.mark.parametrize("layer", LAYERS)
def test_two_gpus_multiply_their_parts_in_fp8(layer, recipe):
    """On Hopper by the library. Whole numbers, so that sums over devices are exact, too."""
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("gpu")[:2])
    case, run = whole_case(512, 256, 768), jax.jit(functools.partial(step, recipe))
    split = [jax.device_put(m, NamedSharding(mesh, spec)) for m, spec in zip(case, LAYERS[layer][0])]
    for got, want in zip(run(*split, draw_key()), run(*jax.device_put(case, MACHINES[1]), draw_key())):
        assert np.array_equal(got, want)
    calls = run.lower(*split, draw_key()).compile().as_text().count('custom_call_target="fourscale_gemm"')
    assert calls == (3 if _library.has_fp8_gemm() else 0)


@pytest.mark.parametrize("recipe", [r for r in fj.recipes() if r not in ("bf16", "quartet2")])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("columnwise", [False, True])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_gpu_quantizes_like_the_cpu(recipe, role, columnwise, dtype):
    def both_ways(x, seed):
        q = fj.quantize(x, recipe=recipe, role=role, columnwise=columnwise, seed=seed)
        return q, fj.dequantize(q, jnp.float32)

    for cpu, gpu in zip(*on_both(both_ways, random_matrix(256, 1152, 1, dtype), draw_key())):
        assert same_bits(cpu, gpu)


def test_gpu_replays_a_recorded_step_under_another_seed():
    """XLA records what it runs often in a CUDA graph: keys must be read when it is replayed."""
    case = linear_case(256, 256, 256)
    run = jax.jit(functools.partial(step, "te_nvfp4"))
    for i in range(6):
        arguments = *case, fj.draw_key(1, step=i)
        for cpu, gpu in zip(*(run(*jax.device_put(arguments, machine)) for machine in MACHINES)):
            assert same_bits(cpu, gpu)

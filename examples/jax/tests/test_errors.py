# SPDX-License-Identifier: Apache-2.0
"""What is refused, and how."""

import os
import subprocess
import sys

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import pytest
from support import draw_key

PARTIAL = "the dimension that blocks run along is not a multiple of the block size"


def dense(tokens, in_, out, recipe="te_nvfp4", w=None, seed=None, **arguments):
    w = jnp.ones((in_, out)) if w is None else w
    return fj.dense(jnp.ones((tokens, in_), jnp.bfloat16), w, recipe=recipe, seed=draw_key() if seed is None else seed,
                    **arguments)


@pytest.mark.parametrize("recipe, shape", [("te_nvfp4", (8, 16, 16)), ("te_nvfp4", (16, 24, 16)),
                                           ("te_nvfp4", (16, 16, 40)), ("mxfp4", (32, 16, 32)),
                                           ("fp8_block", (128, 64, 128)), ("quartet2", (64, 128, 128))])
def test_partial_blocks(recipe, shape):
    with pytest.raises(ValueError, match=PARTIAL):
        dense(*shape, recipe=recipe)
    with pytest.raises(ValueError, match=PARTIAL):
        jax.eval_shape(lambda: dense(*shape, recipe=recipe))  # so before anything is compiled


def test_wrong_arguments():
    with pytest.raises(ValueError, match='no recipe "nvfp5"; there are: bf16, te_nvfp4, '):
        dense(16, 16, 16, recipe="nvfp5")
    with pytest.raises(ValueError, match="rows and columns must be at least 1"):
        dense(0, 16, 16)
    with pytest.raises(ValueError, match=r"not \[16, 16\] and \[32, 16\]"):
        dense(16, 16, 16, w=jnp.ones((32, 16)))
    with pytest.raises(ValueError, match="float32 or bfloat16, not float16"):
        dense(16, 16, 16, w=jnp.ones((16, 16), jnp.float16))
    with pytest.raises(ValueError, match='accumulate is "blackwell" or "native", not "exact"'):
        dense(16, 16, 16, accumulate="exact")
    with pytest.raises(ValueError, match=r"te_nvfp4 transforms 16 values: signs are \[16\], not \[32\]"):
        dense(16, 16, 16, signs=jnp.ones(32))
    with pytest.raises(ValueError, match='"mxfp8" has no transform'):
        dense(32, 32, 32, recipe="mxfp8", signs=jnp.ones(32))
    with pytest.raises(ValueError, match="a dict of them for activation, weight, gradient, not {'weight': 'd'}"):
        dense(16, 16, 16, axis_name={"weight": "d"})
    with pytest.raises(ValueError, match="no GEMM forward; there"):
        dense(16, 16, 16, gemms="forward")
    with pytest.raises(ValueError, match="a seed is uint32"):
        dense(16, 16, 16, seed=0)
    with pytest.raises(ValueError, match='no other recipe does, not "bf16"'):
        dense(16, 16, 16, recipe="bf16", state=fj.delayed_state())
    with pytest.raises(ValueError, match='there is no role "weights"; there are activation, weight, gradient'):
        fj.quantize(jnp.zeros((16, 16)), recipe="te_nvfp4", role="weights")
    with pytest.raises(ValueError, match="no GEMM forward; there are fprop, dgrad, wgrad"):
        dense(16, 16, 16, gemms=("forward", "wgrad"))
    with pytest.raises(ValueError, match="a seed is uint32"):
        dense(16, 16, 16, seed=jnp.zeros(4, jnp.int32))
    with pytest.raises(ValueError, match="needs a state"):
        dense(16, 16, 16, recipe="fp8_delayed")
    with pytest.raises(ValueError, match="needs a state"):
        dense(16, 16, 16, state=fj.delayed_state(2))


def test_quantize_and_scaled_matmul():
    x = jnp.ones((16, 32))
    with pytest.raises(ValueError, match="needs a seed"):
        fj.quantize(x, role="gradient")
    with pytest.raises(ValueError, match="bf16. quantizes nothing"):
        fj.quantize(x, recipe="bf16")
    with pytest.raises(ValueError, match=PARTIAL):
        fj.quantize(x[:, :20])
    with pytest.raises(ValueError, match="float32 or bfloat16, not int32"):
        fj.quantize(x.astype(jnp.int32))
    with pytest.raises(ValueError, match="one format and transform"):
        fj.scaled_matmul(fj.quantize(x), fj.quantize(x, recipe="mxfp4"))
    with pytest.raises(ValueError, match="one format and transform"):
        fj.scaled_matmul(fj.quantize(x), fj.quantize(jnp.ones((32, 16)), columnwise=True))
    with pytest.raises(ValueError, match="one format and transform"):
        fj.scaled_matmul(fj.quantize(x), fj.quantize(jnp.ones((16, 48))))


def test_handlers_say_which_rule_broke():
    """What Python did not see: the call fails, with the library's sentence."""
    call = jax.ffi.ffi_call("fourscale_amax", jax.ShapeDtypeStruct((7,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="matching rows and columns"):
        import numpy as np
        jax.block_until_ready(call(jnp.ones((16, 16)), recipe=np.int32(1), role=np.int32(0), columnwise=np.int32(0)))


def test_a_gpu_that_is_needed_and_not_there_ends_the_tests():
    environment = os.environ | {"FOURSCALE_NEEDS_GPU": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", __file__]
    end = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert end.returncode == 1 and "and JAX sees no GPU" in end.stdout + end.stderr

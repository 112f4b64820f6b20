# SPDX-License-Identifier: Apache-2.0
"""What is refused, and how."""

import os
import subprocess
import sys

import fourscale_torch as ft
import pytest
import torch
from fourscale_torch import _calls
from support import draw_key

PARTIAL = "the dimension that blocks run along is not a multiple of the block size"


def dense(tokens, in_, out, recipe="te_nvfp4", w=None, seed=None, **arguments):
    w = torch.ones(in_, out) if w is None else w
    return ft.dense(torch.ones(tokens, in_, dtype=torch.bfloat16), w, recipe=recipe,
                    seed=draw_key() if seed is None else seed, **arguments)


@pytest.mark.parametrize("recipe, shape", [("te_nvfp4", (8, 16, 16)), ("te_nvfp4", (16, 24, 16)),
                                           ("te_nvfp4", (16, 16, 40)), ("mxfp4", (32, 16, 32)),
                                           ("fp8_block", (128, 64, 128)), ("quartet2", (64, 128, 128))])
def test_partial_blocks(recipe, shape):
    with pytest.raises(ValueError, match=PARTIAL):
        dense(*shape, recipe=recipe)
    with torch._subclasses.FakeTensorMode(), pytest.raises(ValueError, match=PARTIAL):
        dense(*shape, recipe=recipe)  # so before anything is compiled


def test_wrong_arguments():
    with pytest.raises(ValueError, match='no recipe "nvfp5"; there are: bf16, te_nvfp4, '):
        dense(16, 16, 16, recipe="nvfp5")
    with pytest.raises(ValueError, match="rows and columns must be at least 1"):
        dense(0, 16, 16)
    with pytest.raises(ValueError, match=r"not \[16, 16\] and \[32, 16\]"):
        dense(16, 16, 16, w=torch.ones(32, 16))
    with pytest.raises(ValueError, match="float32 or bfloat16, not float16"):
        dense(16, 16, 16, w=torch.ones(16, 16, dtype=torch.float16))
    with pytest.raises(ValueError, match="a seed is uint32"):
        dense(16, 16, 16, seed=torch.zeros(4, dtype=torch.int32))
    with pytest.raises(ValueError, match="needs a state"):
        dense(16, 16, 16, recipe="fp8_delayed")
    with pytest.raises(ValueError, match="needs a state"):
        dense(16, 16, 16, state=ft.delayed_state(2))
    with pytest.raises(ValueError, match='no other recipe does, not "bf16"'):
        dense(16, 16, 16, recipe="bf16", state=ft.delayed_state(2))
    with pytest.raises(ValueError, match='accumulate is "blackwell" or "native", not "hopper"'):
        dense(16, 16, 16, accumulate="hopper")


def test_quantize_and_scaled_matmul():
    x = torch.ones(16, 32)
    with pytest.raises(ValueError, match="needs a seed"):
        ft.quantize(x, role="gradient")
    with pytest.raises(ValueError, match="bf16. quantizes nothing"):
        ft.quantize(x, recipe="bf16")
    with pytest.raises(ValueError, match=PARTIAL):
        ft.quantize(x[:, :20])
    with pytest.raises(ValueError, match="float32 or bfloat16, not int32"):
        ft.quantize(x.to(torch.int32))
    with pytest.raises(ValueError, match="one format and transform"):
        ft.scaled_matmul(ft.quantize(x), ft.quantize(x, recipe="mxfp4"))
    with pytest.raises(ValueError, match="one format and transform"):
        ft.scaled_matmul(ft.quantize(x), ft.quantize(torch.ones(32, 16), columnwise=True))
    with pytest.raises(ValueError, match="one format and transform"):
        ft.scaled_matmul(ft.quantize(x), ft.quantize(torch.ones(16, 48)))


def test_calls_say_which_rule_broke():
    """What Python did not see: the call fails, with the library's sentence."""
    with pytest.raises(RuntimeError, match="matching rows and columns"):
        _calls._call("amax", torch.ones(16, 16), torch.ones(7), 1, 0, 0)
    with pytest.raises(RuntimeError, match="a pointer is null"):
        _calls._call("amax", torch.ones(16, 16), torch.ones(2, dtype=torch.float64), 1, 0, 0)
    with pytest.raises(ValueError, match="no library for meta"):
        _calls._call("amax", torch.ones(16, 16, device="meta"))


def test_a_gpu_that_is_needed_and_not_there_ends_the_tests():
    environment = os.environ | {"FOURSCALE_NEEDS_GPU": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", __file__]
    end = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert end.returncode == 1 and "and PyTorch sees no GPU" in end.stdout + end.stderr

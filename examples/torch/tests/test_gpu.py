# SPDX-License-Identifier: Apache-2.0
"""A GPU gives the bits of a CPU. Collected where there is a GPU."""

import fourscale_torch as ft
import pytest
import torch
from fourscale_torch import _library
from support import FOUR_BITS, ROLES, draw_key, linear_case, outside, random_matrix, same_bits, step, whole_case


def on_both(f, *arguments):
    """Results of a function on a CPU and on a GPU."""
    return zip(f(*arguments), f(*(a.cuda() for a in arguments)), strict=True)


@pytest.mark.parametrize("recipe", FOUR_BITS + ("quartet2",))
@pytest.mark.parametrize("shape", [(128, 128, 128), (512, 1024, 384), (2048, 384, 1024)])
def test_gpu_has_the_bits_of_the_cpu(recipe, shape):
    for cpu, gpu in on_both(lambda *a: step(recipe, *a), *linear_case(*shape), draw_key()):
        assert same_bits(cpu, gpu)


@pytest.mark.parametrize("recipe", [r for r in ft.recipes() if r not in ("bf16", "quartet2")])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("columnwise", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gpu_quantizes_like_the_cpu(recipe, role, columnwise, dtype):
    def both_ways(x, seed):
        q = ft.quantize(x, recipe=recipe, role=role, columnwise=columnwise, seed=seed)
        return *q[:3], ft.dequantize(q, torch.float32)

    for cpu, gpu in on_both(both_ways, random_matrix(256, 1152, 1, dtype), draw_key()):
        assert same_bits(cpu, gpu)


@pytest.mark.parametrize("recipe", ["te_nvfp4", "mxfp4", "mxfp8", "fp8_current", "bf16"])
def test_native_products_are_within_their_bounds(recipe):
    if recipe == "bf16":
        x, w, dy = linear_case(128, 256, 384)
        _, _, dw = step(recipe, *(m.cuda() for m in (x, w, dy)), draw_key())
        assert outside(dw.cpu(), x.T, dy.T, False) == 0
        return
    a, b = (ft.quantize(random_matrix(n, 256, n).cuda(), recipe=recipe) for n in (64, 96))
    want = [ft.dequantize(q, torch.float32).cpu() for q in (a, b)]
    got = ft.scaled_matmul(a, b, torch.float32, accumulate="native").cpu()
    assert outside(got, *want, False, _library.multiplies_fp8(a.copy, b.copy)) == 0


@pytest.mark.parametrize("recipe", ["fp8_current", "fp8_block"])
@pytest.mark.parametrize("shape", [(128, 128, 128), (512, 1024, 384)])
def test_gpu_multiplies_whole_numbers_in_fp8_like_the_cpu(recipe, shape):
    for cpu, gpu in on_both(lambda *a: step(recipe, *a), *whole_case(*shape), draw_key()):
        assert torch.equal(cpu, gpu.cpu())


def test_cuda_graph_replays_a_step_under_another_seed():
    """Keys must be read when the graph is replayed."""
    x, w, dy = linear_case(256, 256, 256)
    on_gpu, seed = [m.cuda() for m in (x, w, dy)], ft.draw_key(1).cuda()
    step("te_nvfp4", *on_gpu, seed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = step("te_nvfp4", *on_gpu, seed)
    for i in range(3):
        seed.copy_(ft.draw_key(1, step=i))
        graph.replay()
        for cpu, gpu in zip(step("te_nvfp4", x, w, dy, ft.draw_key(1, step=i)), got):
            assert same_bits(cpu, gpu)


def test_compiled_on_the_gpu():
    x, w, dy = (m.cuda() for m in linear_case(128, 128, 128))
    compiled = torch.compile(lambda x, w, seed: ft.dense(x, w, recipe="te_nvfp4", seed=seed), fullgraph=True)
    w.requires_grad_()
    y = compiled(x, w, draw_key())
    dw, = torch.autograd.grad(y, w, dy)
    want = step("te_nvfp4", x, w, dy, draw_key())
    assert same_bits(y, want[0]) and same_bits(dw, want[2])


def test_tensors_of_two_devices_are_refused():
    with pytest.raises(ValueError, match="one device"):
        ft.dense(torch.ones(16, 16).cuda(), torch.ones(16, 16), recipe="te_nvfp4", seed=draw_key())

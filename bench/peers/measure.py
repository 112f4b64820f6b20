# SPDX-License-Identifier: Apache-2.0
"""Times: medians of CUDA-event times, in turns with everything they are compared with, replayed from a CUDA graph or
called from Python."""
import statistics

import torch


def inputs(rows, cols, seed=1):
    """bf16 matrices, together three times as large as the L2 cache, so that no call finds its input there. Gaussian,
    rows of different size, one value in 500 a hundred times larger: no zeros, outliers as real tensors have them."""
    wanted = 3 * torch.cuda.get_device_properties(0).L2_cache_size
    count = min(64, max(1, -(-wanted // (2 * rows * cols))))
    random = torch.Generator("cuda").manual_seed(seed)
    result = []
    for _ in range(count):
        x = torch.empty(rows, cols, dtype=torch.bfloat16, device="cuda")
        for part in x.split(1024):
            part.copy_(torch.randn(part.shape, device="cuda", generator=random))
            size = torch.exp2(torch.randint(-7, 1, (part.shape[0], 1), device="cuda", generator=random).float())
            outlier = torch.rand(part.shape, device="cuda", generator=random) < 1 / 500
            part.mul_(size.bfloat16() * torch.where(outlier, 100.0, 1.0).bfloat16())
        result.append(x)
    return result


def eager(call, xs, repeats):
    def run():
        for i in range(repeats):
            call(xs[i % len(xs)])
    return run


def graph(call, xs, repeats):
    """`repeats` calls in one CUDA graph, after warming up, so that only the GPU's time is left."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call(xs[0])
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        eager(call, xs, repeats)()
    return captured.replay


def medians(runs, repeats, turns):
    """Microseconds of a call of each."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = [[] for _ in runs]
    for turn in range(-2, turns):
        for run, of_run in zip(runs, times):
            begin.record()
            run()
            end.record()
            end.synchronize()
            if turn >= 0:
                of_run.append(begin.elapsed_time(end) * 1e3 / repeats)
    return [statistics.median(t) for t in times]


def differing_bytes(a, b):
    a, b = (t.reshape(-1).view(torch.uint8) for t in (a, b))
    if a.numel() != b.numel():
        raise RuntimeError(f"{a.numel()} bytes compared with {b.numel()}")
    return sum(int((p != q).sum()) for p, q in zip(a.split(1 << 28), b.split(1 << 28)))


def differing_values(a, b):
    return int((a.reshape(-1).view(torch.int16) != b.reshape(-1).view(torch.int16)).sum())

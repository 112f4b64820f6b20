#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the house in order: each header includes only lower layers (or its own folder), .hpp files need no CUDA
and no standard header but <cstdint>, files stay short and carry their licence line."""
import pathlib
import posixpath
import re
import sys

LAYERS = {
    "config.hpp": 0, "bits.hpp": 0, "position.hpp": 0, "ptx": 1, "formats": 2,
    "rounding": 3, "scaling": 3, "transform": 3, "block": 4, "view": 5, "model": 6, "host": 7, "warp": 7,
    "cta": 8, "mma": 8, "device": 9, "recipe": 10, "interop": 99,
}
UMBRELLAS = {"fourscale.hpp", "fourscale.cuh"}
MAX_LINES = 400
# Beyond <cstdint>: what a header may include from outside, by path prefix. Opt-in headers, OpenMP, CUDA.
OUTSIDE = {
    "formats/limits.hpp": {"limits"},
    "formats/io.hpp": {"ostream", "fmt/format.h", "fmt/base.h", "fmt/core.h"},
    "host/": {"omp.h"},
    "host/buffer.hpp": {"vector"},
    "host/gemm_blackwell.hpp": {"vector"},
}
CUDA = re.compile(r"cuda_runtime(_api)?\.h|cuda/.*|cuda\.h")

ROOT = pathlib.Path(__file__).resolve().parent.parent / "include" / "fourscale"


def problems(path):
    name = path.relative_to(ROOT).as_posix()
    folder = name.split("/")[0]
    text = path.read_text()
    lines = text.splitlines()
    if not lines or lines[0] != "// SPDX-License-Identifier: Apache-2.0":
        yield 1, "the first line is not the SPDX line"
    if "#pragma once" not in lines:
        yield 1, "no #pragma once"
    if len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines; at most {MAX_LINES}"
    if name in UMBRELLAS or folder == "interop":
        return
    if folder not in LAYERS:
        yield 1, f"{folder} has no layer: see LAYERS"
        return
    for number, line in enumerate(lines, 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)', line)
        if not found:
            continue
        kind, target = found.groups()
        if kind == '"':
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        elif target.startswith("fourscale/"):
            target = target.removeprefix("fourscale/")
        else:
            allowed = {"cstdint"}.union(*(v for k, v in OUTSIDE.items() if name.startswith(k)))
            if target not in allowed and not (name.endswith(".cuh") and CUDA.fullmatch(target)):
                yield number, f"includes <{target}>"
            continue
        other = target.split("/")[0]
        if not (ROOT / target).is_file():
            yield number, f"includes {target}, which does not exist"
        elif name.endswith(".hpp") and target.endswith(".cuh"):
            yield number, f"needs CUDA through {target}"
        elif other != folder and not LAYERS.get(other, 99) < max(LAYERS[folder], 1):
            yield number, f"{folder} (layer {LAYERS[folder]}) includes {target}"


def main():
    headers = sorted(p for p in ROOT.rglob("*") if p.suffix in {".hpp", ".cuh"})
    found = [f"include/fourscale/{p.relative_to(ROOT)}:{n}: {what}" for p in headers for n, what in problems(p)]
    print("\n".join(found) or f"{len(headers)} headers, each above what it includes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

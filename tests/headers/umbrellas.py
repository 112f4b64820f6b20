#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fourscale.hpp and fourscale.cuh include what they say: each header comes with one of the two, or is named after
the words "Left out" in the first lines of one, itself, by its folder, or by a header that includes it. And each has
config.hpp, without which FOURSCALE_NAMESPACE would be a namespace of that name. No umbrella brings headers of CCCL,
which take longer to compile than all of ours, and which clang does not find."""
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "include" / "fourscale"
UMBRELLAS = ("fourscale.hpp", "fourscale.cuh")


def reach(header, seen):
    """Adds `header` and all that it includes to `seen`."""
    if header in seen:
        return seen
    seen.add(header)
    for target in re.findall(r'^\s*#\s*include\s*"([^"]+)"', (ROOT / header).read_text(), re.MULTILINE):
        reach(posixpath.normpath(posixpath.join(posixpath.dirname(header), target)), seen)
    return seen


def left_out(umbrella):
    """Folders (ending in /) and headers that the first lines name."""
    first_lines = (ROOT / umbrella).read_text().split("#pragma once")[0]
    _, _, listed = re.sub(r"\s*//\s*", " ", first_lines).partition("Left out")
    return re.findall(r"(?<![\w/])[a-z]\w*/(?:\w+\.(?:hpp|cuh))?(?![\w*])", listed)


def problems():
    headers = {p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.suffix in {".hpp", ".cuh"}}
    covered = set()
    for umbrella in UMBRELLAS:
        included = reach(umbrella, set())
        covered |= included
        for h in sorted(included):
            if "#include <cuda/" in (ROOT / h).read_text():
                yield f"{umbrella} includes {h}, which includes a header of CCCL"
        for name in left_out(umbrella):
            here = {h for h in headers if h == name or name.endswith("/") and h.startswith(name)}
            if not here:
                yield f"{umbrella} says that it leaves out {name}, which does not exist"
            for h in sorted(here & included):
                yield f"{umbrella} says that it leaves out {name}, but includes {h}"
            for h in here:
                reach(h, covered)
    for h in sorted(headers):
        if "config.hpp" not in reach(h, set()):
            yield f"{h} does not include config.hpp, not even through others"
    for h in sorted(headers - covered):
        yield f"{h} comes with neither {' nor '.join(UMBRELLAS)}, and neither says that it is left out"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "fourscale.hpp and fourscale.cuh include what they say")
    sys.exit(1 if found else 0)

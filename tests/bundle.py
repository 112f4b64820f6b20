#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bundle.py OUT SOURCE...: one source that holds several tests, so that what all of them include is compiled once. Each
is in a namespace of its own, where names do not meet; headers come before, outside of it. That needs headers that may
be included twice, and sources that open no namespace of the library."""
import pathlib
import re
import sys


def includes(source):
    """What the source includes, as it can be said from elsewhere."""
    for name in re.findall(r'^#include ([<"][^>"]+[>"])', source.read_text(), re.MULTILINE):
        beside = source.parent / name[1:-1]
        yield f'"{beside}"' if name[0] == '"' and beside.is_file() else name


def bundle(sources, cuda):
    for name in dict.fromkeys(name for source in sources for name in includes(source) if cuda or ".cuh" not in name):
        yield f"#if __has_include({name})\n#include {name}\n#endif"
    for number, source in enumerate(sources):
        yield f'namespace bundled_{number} {{\n#include "{source}"\n}}'


if __name__ == "__main__":
    out, *sources = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    out.write_text("\n".join(bundle(sources, out.suffix == ".cu")) + "\n")

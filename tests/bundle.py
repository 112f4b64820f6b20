#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bundle.py OUT SOURCE...: one source that holds several tests, so that what all of them include is compiled once. Each
is in a namespace of its own, where names do not meet; headers come before, outside of it. That needs headers that may
be included twice, and sources that open no namespace of the library."""
import pathlib
import re
import sys


def includes(source):
    """What the source includes, as it can be said from elsewhere: with the conditions around it."""
    conditions = []
    for line in source.read_text().splitlines():
        if line.startswith("#if"):
            conditions.append(line)
        elif line.startswith("#el"):
            conditions[-1] += "\n" + line
        elif line.startswith("#endif"):
            conditions.pop()
        elif found := re.match(r'#include ([<"])([^>"]+)', line):
            beside = source.parent / found[2]
            name = f'"{beside}"' if found[1] == '"' and beside.is_file() else line.removeprefix("#include ")
            yield "\n".join([*conditions, f"#include {name}", *["#endif"] * len(conditions)])


def bundle(sources):
    yield from dict.fromkeys(name for source in sources for name in includes(source))
    for number, source in enumerate(sources):
        yield f'namespace bundled_{number} {{\n#include "{source}"\n}}'


if __name__ == "__main__":
    out, *sources = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    out.write_text("\n".join(bundle(sources)) + "\n")

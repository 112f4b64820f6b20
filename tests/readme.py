#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of README.md compile as printed: readme.py LANGUAGE OUTPUT COMPILER ARGUMENT... gives each block of
that language to the compiler, followed by the arguments."""
import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def main():
    language, output, *compiler = sys.argv[1:]
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    if not blocks:
        sys.exit(f"README.md has no block of {language}")
    for number, block in enumerate(blocks):
        source = pathlib.Path(f"{output}_{language}_{number}.{'cu' if language == 'cuda' else 'cpp'}")
        source.write_text(block)
        subprocess.run([*compiler, "-c", str(source), "-o", str(source.with_suffix(".o"))], check=True)


if __name__ == "__main__":
    main()

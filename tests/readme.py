#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs and links of the pages. `readme.py LANGUAGE OUTPUT COMPILER ARGUMENT...` compiles each block of that
language in the pages of PROGRAMS as printed; a C++ program with a main() also runs, and must return 0. `readme.py links`
checks that every link of every page leads to a file, and to a heading where it names one, and the length of README."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README_LINES = 100
PROGRAMS = {"cpp": ["README.md", "docs/replace_your_quantizer.md"],  # elsewhere they are fragments
            "cuda": ["docs/replace_your_quantizer.md", "docs/blackwell.md", "docs/native_gemm.md"]}


def compile_blocks(language, output, compiler):
    for page in PROGRAMS[language]:
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
        if not blocks:
            sys.exit(f"{page} has no block of {language}")
        for number, block in enumerate(blocks):
            suffix = "cu" if language == "cuda" else "cpp"
            source = pathlib.Path(f"{output}_{pathlib.Path(page).stem}_{number}.{suffix}")
            source.write_text(block)
            runs = language == "cpp" and "int main(" in block
            result = source.with_suffix(".program" if runs else ".o")
            print(f"{page}, {language} {number}", flush=True)
            subprocess.run([*compiler, *([] if runs else ["-c"]), str(source), "-o", str(result)], check=True)
            if runs:
                subprocess.run([str(result)], check=True)


def headings(page):
    """As they are named in links: lower case, no punctuation, dashes for spaces."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links():
    for page in sorted(p for p in ROOT.rglob("*.md") if p.relative_to(ROOT).parts[0] != "build"):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"\w+:", target):
                continue
            path, _, heading = target.partition("#")
            to = page.parent / path if path else page
            if not to.exists() or (heading and heading not in headings(to)):
                yield f"{page.relative_to(ROOT)}: {target}"


def main():
    if sys.argv[1:] == ["links"]:
        problems = list(broken_links())
        if len((ROOT / "README.md").read_text().splitlines()) > README_LINES:
            problems.append(f"README.md has more than {README_LINES} lines")
        return "\n".join(problems) or None
    language, output, *compiler = sys.argv[1:]
    compile_blocks(language, output, compiler)


if __name__ == "__main__":
    sys.exit(main())

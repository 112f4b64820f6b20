# SPDX-License-Identifier: Apache-2.0
"""Makes an English text of the documentation in Debian packages, for --text of the other commands. Needs Debian or
Ubuntu (apt-get, dpkg-deb), no root; prints each package's version, and the size and sha256 of the text.

    python examples/jax/experiments/corpus.py --out english.txt [PACKAGE.. | FILE.deb..]

The same packages in the same versions give the same bytes. The text has the licences of the packages.
"""

import argparse
import gzip
import hashlib
import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile

# The largest of those behind the committed results; 127 MB of text in Debian 12.
PACKAGES = ("dict-gcide", "emacs-common", "erlang-doc", "linux-doc-6.12", "perl-doc", "postgresql-doc-15",
            "python3.11-doc", "sqlite3-doc", "vim-runtime")
KINDS = {".txt", ".rst", ".html", ".htm", ".pod", ".md", ".dict", ".info"}


class _Text(html.parser.HTMLParser):
    """What a page says, without its tags; blocks become paragraphs."""

    BLOCKS = {"p", "div", "li", "dt", "dd", "tr", "pre", "section", "table", "h1", "h2", "h3", "h4", "h5"}
    SILENT = {"script", "style", "head", "nav"}

    def __init__(self):
        super().__init__()
        self.parts, self.silent = [], 0

    def handle_starttag(self, tag, _):
        self.silent += tag in self.SILENT
        self.parts.append("\n\n" if tag in self.BLOCKS else "")

    def handle_endtag(self, tag):
        self.silent -= tag in self.SILENT and self.silent > 0
        self.parts.append("\n\n" if tag in self.BLOCKS else "")

    def handle_data(self, data):
        self.parts.append("" if self.silent else data)


def text_of(path):
    """Of a file, which may be packed; "" for what is no text."""
    name, data = path.name, path.read_bytes()
    if name.endswith((".gz", ".dz")):
        name, data = name[:-3], gzip.decompress(data)
    if not KINDS.intersection(re.findall(r"\.[a-z]+", name)[-1:]):
        return ""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if name.endswith((".html", ".htm")):
        parser = _Text()
        parser.feed(text)
        text = "".join(parser.parts)
    return text


def paragraphs(text):
    """Of ASCII, at least half letters."""
    for part in re.split(r"\n\s*\n", text):
        part = part.strip("\n").rstrip()
        letters = sum(map(str.isalpha, part))
        if len(part) >= 40 and part.isascii() and 2 * letters >= len(part) and "\0" not in part:
            yield part


def files(package, folder):
    """Those of a package, a name or a .deb, in a fixed order."""
    if package.endswith(".deb"):
        deb = pathlib.Path(package).absolute()
    else:
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, stdout=sys.stderr)
        deb, = folder.glob("*.deb")
    print(subprocess.run(["dpkg-deb", "-W", deb], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    subprocess.run(["dpkg-deb", "-x", deb, folder / "files"], check=True)
    return sorted(path for path in (folder / "files").rglob("*") if path.is_file() and not path.is_symlink())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help=f"{', '.join(PACKAGES)} if none")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    seen, size, digest = set(), 0, hashlib.sha256()
    with arguments.out.open("wb") as out:
        for package in arguments.packages:
            with tempfile.TemporaryDirectory() as folder:
                for path in files(package, pathlib.Path(folder)):
                    for part in paragraphs(text_of(path)):
                        if (mark := hashlib.sha256(part.encode()).digest()) not in seen:
                            seen.add(mark)
                            data = part.encode() + b"\n\n"
                            out.write(data)
                            digest.update(data)
                            size += len(data)
    print(f"{arguments.out}: {size} bytes, sha256 {digest.hexdigest()}")


if __name__ == "__main__":
    main()

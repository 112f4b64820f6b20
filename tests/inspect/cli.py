#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cli.py PROGRAM: what fourscale-inspect does to files and streams that it must not harm. Linux."""
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()


def checkpoint(path, tensors):
    """tensors: (name, rows, cols) of F16 each."""
    header, at = {}, 0
    for name, rows, cols in tensors:
        end = at + 2 * rows * cols
        header[name] = {"dtype": "F16", "shape": [rows, cols], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\x01\x3c" * (at // 2))


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.input = self.folder / "in.safetensors"
        checkpoint(self.input, [("x", 4, 32)])
        self.before = self.input.read_bytes()

    def run_tool(self, *arguments, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, timeout=120, **options)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def refused(self, code, *arguments, says, **options):
        names = self.files()
        done = self.run_tool(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr.decode())
        self.assertEqual(self.files(), names)
        self.assertEqual(self.input.read_bytes(), self.before)

    def test_what_works(self):
        done = self.run_tool("in.safetensors", "--plot", "a.svg", "--write", "b.safetensors", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.files(), ["a.svg", "b.safetensors", "in.safetensors"])
        self.assertEqual(json.loads(done.stdout)["written"]["file"], "b.safetensors")
        self.assertEqual(self.run_tool("--make-example", "e", "e").returncode, 0)

    def test_the_input_is_never_an_output(self):
        os.link(self.input, self.folder / "hard")
        os.symlink("in.safetensors", self.folder / "soft")
        for same in ("in.safetensors", "./in.safetensors", self.input, "hard", "soft"):
            for option in ("--plot", "--write"):
                self.refused(1, "in.safetensors", option, same, says=f"{option}: would overwrite FILE")

    def test_no_output_is_another_output(self):
        for first, second in (("--plot", "--write"), ("--make-example", "--plot"), ("--make-example", "--write")):
            self.refused(1, "in.safetensors", first, "new", second, "./new", says="would overwrite")

    def test_only_regular_files_are_replaced(self):
        os.mkfifo(self.folder / "fifo")
        os.mkdir(self.folder / "sub")
        os.symlink("nowhere", self.folder / "dangling")
        os.symlink("fifo", self.folder / "link")  # no device: if this failed, it would be gone
        for option in ("--plot", "--write", "--make-example"):
            for special in ("fifo", "sub", "link"):
                self.refused(2, "in.safetensors", option, special, says="is not a regular file")
            self.refused(2, "in.safetensors", option, "dangling", says="a link to nothing")
        self.assertTrue((self.folder / "fifo").is_fifo())

    def test_an_example_replaces_only_an_example(self):
        (self.folder / "notes").write_text("mine")
        for other in ("in.safetensors", "notes"):
            self.refused(2, "--make-example", other, says="is there already, and is no example")
        self.assertEqual((self.folder / "notes").read_text(), "mine")
        for _ in range(2):
            self.assertEqual(self.run_tool("--make-example", "e").returncode, 0)
        self.assertEqual(self.run_tool("e", "--write", "packed").returncode, 0)
        self.refused(2, "--make-example", "packed", says="is there already, and is no example")

    def test_a_link_is_followed(self):
        (self.folder / "old.svg").write_text("old")
        os.symlink("old.svg", self.folder / "link")
        self.assertEqual(self.run_tool("in.safetensors", "--plot", "link").returncode, 0)
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertIn("</svg>", (self.folder / "old.svg").read_text())

    def test_a_failure_leaves_no_output(self):
        self.refused(2, "in.safetensors", "--plot", "p.svg", "--write", "no/folder", says="cannot be written")
        # The last tensor would be written under the name of another, which shows after the plot is drawn.
        checkpoint(self.input, [("x", 4, 32), ("x_scale", 4, 8)])
        self.before = self.input.read_bytes()
        self.refused(2, "in.safetensors", "--plot", "p.svg", "--write", "w", says="twice")
        with open("/dev/full", "w") as full:
            checkpoint(self.input, [("x", 4, 32)])
            self.before = self.input.read_bytes()
            self.refused(2, "in.safetensors", "--plot", "p.svg", "--write", "w", says="standard output", stdout=full)

    def test_a_reader_that_has_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        self.refused(2, "in.safetensors", "--plot", "p.svg", says="standard output", stdout=writer)

    def test_an_empty_name_is_refused(self):
        for option in ("--plot", "--write", "--make-example"):
            self.refused(1, "in.safetensors", option, "", says="empty")

    def test_a_full_or_closed_stream(self):
        with open("/dev/full", "w") as full:
            for arguments in (("--version",), ("--help",), ("in.safetensors",)):
                self.assertEqual(self.run_tool(*arguments, stdout=full).returncode, 2)
            self.assertEqual(self.run_tool("nothing", stderr=full).returncode, 2)
            self.assertEqual(self.run_tool("--nothing", stderr=full).returncode, 1)
        closed = subprocess.run(["sh", "-c", '"$0" in.safetensors --plot p.svg >&- 2>&- <&-', PROGRAM], cwd=self.folder)
        self.assertEqual(closed.returncode, 2)
        self.assertEqual(self.files(), ["in.safetensors"])

    def cpu_time(self, tensors):
        checkpoint(self.input, tensors)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.assertEqual(self.run_tool("in.safetensors", env=os.environ | {"OMP_NUM_THREADS": "1"}).returncode, 0)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def test_many_tensors_take_no_longer_than_their_values(self):
        one, many = self.cpu_time([("x", 20000, 16)]), self.cpu_time([(f"x{i}", 1, 16) for i in range(20000)])
        self.assertLess(many / one, 40)  # 8 seen; 105 while each tensor took the time of 2048 rows

    def test_json_is_ascii(self):
        checkpoint(self.input, [("a\x7f\u009b\u202e\u2066\x1b\u91cd", 4, 32)])
        out = self.run_tool("in.safetensors", "--json").stdout
        self.assertTrue(all(byte == 10 or 32 <= byte < 127 for byte in out))
        self.assertEqual(json.loads(out)["tensors"][0]["name"], "a\x7f\u009b\u202e\u2066\x1b\u91cd")


if __name__ == "__main__":
    unittest.main()

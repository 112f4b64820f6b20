#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the linker may take for one another, seen in the names of compiled units (config.hpp, FOURSCALE_NAMESPACE).
  check.py cpu --cxx g++         no function of fourscale has one name in units for two CPUs; every type has
  check.py cuda --nvcc nvcc      no launcher has one name in libraries for two architectures, and none binds across
  check.py tags --clang clang++  every function that the host runs carries FOURSCALE_H or FOURSCALE_HD"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"
CPUS = {
    "x86_64": {"baseline": [], "avx2": ["-mavx2"], "avx512f": ["-mavx512f"], "haswell": ["-march=haswell"]},
    "aarch64": {"baseline": [], "sve": ["-march=armv8.2-a+sve"]},
}
# PTX only: nothing here runs on a GPU, and ptxas takes its time.
PTX_90A, PTX_100A = (["-gencode", f"arch=compute_{arch},code=compute_{arch}"] for arch in ("90a", "100a"))
ARCHITECTURES = {"sm_90a": PTX_90A, "sm_100a": PTX_100A, "sm_90a and sm_100a": [*PTX_90A, *PTX_100A]}
# An aggregate's own default constructor has no place for FOURSCALE_H; it is a function only at -O0.
WRITTEN_BY_COMPILER = re.compile(r"(?:^|::)(\w+)(<.*>)?::\1\(\)$")


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def names(path, *options):
    """Mangled names that the file defines, by the letter that nm gives them."""
    found = {}
    for line in run("nm", "--defined-only", *options, path).splitlines():
        _, kind, name = line.split()[:3]
        found.setdefault(kind, set()).add(name)
    return found


def defined(kind, pattern):
    return lambda path: {name for name in names(path).get(kind, ()) if re.search(pattern, name)}


def plain(found):
    found = sorted(found)
    return run("c++filt", input="\n".join(found)).splitlines() if found else []


def shared(files, chosen, what):
    """Sentences about names that two of `files` define and that `chosen` picks."""
    picked = {label: chosen(path) for label, path in files.items()}
    for label, mine in picked.items():
        if not mine:
            yield f"{label}: defines no {what}; this test looks at nothing"
    for (a, of_a), (b, of_b) in itertools.combinations(picked.items(), 2):
        for name in plain(of_a & of_b):
            if not WRITTEN_BY_COMPILER.search(name):
                yield f"{a} and {b} define one {name}"


def one_type(files):
    """Every unit defines take(every_type), and a caller finds it."""
    of = {label: {n for n in names(path).get("T", ()) if n.startswith("_Z4take")} for label, path in files.items()}
    if len(set(map(frozenset, of.values()))) != 1 or not all(len(n) == 1 for n in of.values()):
        yield f"types differ between units: {of}"


def build(jobs):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(pool.map(lambda job: (job[0], (run(*job[1]), job[2])[1]), jobs))


def check_cpu(args, folder):
    cpus = CPUS.get(platform.machine())
    if cpus is None:
        return None
    found = []
    for level in ("-O0", "-O2"):
        jobs = []
        for cpu, flags in cpus.items():
            out = folder / f"{cpu}{level}.o"
            command = [args.cxx, "-std=c++20", level, *flags, f"-I{INCLUDE}", "-c", HERE / "host_unit.cpp", "-o", out]
            jobs.append((f"{cpu} {level}", command, out))
        files = build(jobs)
        found += [*shared(files, defined("W", "_ZZ?NK?9fourscale"), "function"), *one_type(files)]
    threads = folder / "threads.o"
    run(args.cxx, "-std=c++20", "-O2", "-fopenmp", f"-I{INCLUDE}", "-c", HERE / "host_unit.cpp", "-o", threads)
    pair = {"the unit with OpenMP": threads, "the unit without": folder / "baseline-O2.o"}
    return [*found, *shared(pair, defined("W", "_ZN9fourscale.*4host"), "loop")]


def bindings(first, second):
    """Which names of fourscale::device one library takes from the other when a process has both."""
    load = f"import ctypes; [ctypes.CDLL(p, ctypes.RTLD_GLOBAL) for p in ({str(first)!r}, {str(second)!r})]"
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True,
                          env={**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"})
    if done.returncode:
        sys.exit(f"the libraries do not load: {done.stderr[-2000:]}")
    log = re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `(\w+)'", done.stderr)
    if not log:
        sys.exit("this loader does not list its bindings")
    here = {str(first), str(second)}
    return {name for a, b, name in log if a != b and {a, b} == here and "6device" in name}


def check_cuda(args, folder):
    found, plain_cpp = [], folder / "plain_cpp.o"
    run(args.cxx, "-std=c++20", f"-I{INCLUDE}", "-c", HERE / "host_unit.cpp", "-o", plain_cpp)
    for level in ("-O0", "-O2"):
        objects, libraries = [], []
        for arch, flags in ARCHITECTURES.items():
            out = folder / f"{arch.replace(' ', '_')}{level}.o"
            command = [args.nvcc, "-std=c++20", *flags, "-Xcicc=-O0", f"-Xcompiler=-fPIC,{level}", f"-I{INCLUDE}"]
            objects.append((f"{arch} {level}", [*command, "-c", HERE / "device_unit.cu", "-o", out], out))
            library = out.with_suffix(".so")
            libraries.append((f"{arch} {level}", [args.nvcc, "-shared", *flags, out, "-o", library], library))
        objects, libraries = build(objects), build(libraries)
        found += [*shared(objects, defined("W", "6device"), "launcher"), *one_type({**objects, "C++": plain_cpp})]
        for label, library in libraries.items():
            exported = {n for names_of_kind in names(library, "-D").values() for n in names_of_kind if "6device" in n}
            found += [f"the library for {label} exports {name}" for name in plain(exported)]
        first, second, _ = libraries.values()
        found += [f"in one process, one library ({level}) calls {name} of the other"
                  for name in plain(bindings(first, second))]
    return found


class Tree:
    """Functions of fourscale without a tag. clang leaves out a file or line that is that of the place before."""

    def __init__(self, root):
        self.file, self.line, self.found = "", 0, set()
        self.walk(root, [], False)

    def place(self, where):
        for one in (where.get("spellingLoc"), where.get("expansionLoc"), where):
            if one:
                self.file, self.line = one.get("file", self.file), one.get("line", self.line)
        return f"{self.file}:{self.line}"

    def walk(self, node, scope, skip):
        kind, inner = node.get("kind", ""), node.get("inner") or []
        at = self.place(node.get("loc", {}))
        for end in ("begin", "end"):
            self.place(node.get("range", {}).get(end, {}))
        is_function = kind in {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl"}
        if is_function:
            mine = scope[:1] == ["fourscale"] and "host" not in scope
            repeated = node.get("isImplicit") or "previousDecl" in node
            if mine and not (skip or repeated or any(i.get("kind") == "AbiTagAttr" for i in inner)):
                self.found.add(f"{at}: {node.get('name')} has neither FOURSCALE_H nor FOURSCALE_HD")
        if kind == "NamespaceDecl" or kind.startswith(("CXXRecord", "ClassTemplate")):
            scope = [*scope, node.get("name", "")]
        patterns = 0
        for i in inner:  # after the pattern of a template come its instances; what is in a function has its name
            instance = kind == "FunctionTemplateDecl" and patterns > 0
            patterns += i.get("kind", "").endswith(("FunctionDecl", "MethodDecl", "ConstructorDecl", "ConversionDecl"))
            self.walk(i, scope, skip or is_function or instance or kind == "ClassTemplateSpecializationDecl")


def check_tags(args, _):
    headers = [p.relative_to(INCLUDE).as_posix() for p in sorted((INCLUDE / "fourscale").rglob("*.hpp"))]
    headers = [h for h in headers if not re.search("/interop/|formats/io.hpp", h)]  # these need other libraries
    sources = "".join(f"#include <{h}>\n" for h in headers)
    beyond = [flags for flags in CPUS.get(platform.machine(), {}).values() if flags]
    if not beyond:
        return None
    text = run(args.clang, "-std=c++20", *beyond[0], f"-I{INCLUDE}", "-fsyntax-only", "-Xclang", "-ast-dump=json", "-x",
               "c++", "-", input=sources)
    return sorted(Tree(json.loads(text)).found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cpu", "cuda", "tags"))
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--clang", default="clang++-14")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"cpu": check_cpu, "cuda": check_cuda, "tags": check_tags}[args.what](args, pathlib.Path(folder))
    if found is None:
        print(f"skipped: this test knows no flags of {platform.machine()}")
        return 0
    for sentence in found[:20]:
        print(sentence if len(sentence) < 300 else sentence[:300] + " ...")
    print(f"{len(found)} names stand for two things" if found else f"{args.what}: each name stands for one thing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

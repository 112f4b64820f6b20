#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a .cu for each target that it names and looks at the result; needs nvcc, no GPU. The file says what is
expected, one line each:

    // sm_100a: cvt.rn.satfinite.e2m1x2.f32     the PTX has this text; constants stand in place of their registers
    // sm_90a: !cvt.rn.satfinite.e2m1x2.f32     the PTX does not have it
    // sm_100a sass: UTCOMMA.4X                 so has (or !has) the machine code: with --sass only
    // sm_90a after_wgmma: 8                    places in it where all wgmma are waited for and the next one is near
    // sm_90a after_wgmma: !R2UR                none of them has this between the two
    // sm_100a registers: 64                    no kernel takes more; ptxas assembles it
    // sm_100a spills: 0                        bytes that go to local memory, of all kernels
    // sm_100a smem: 232448                     static shared memory, the largest of all kernels
    // sm_90a -G smem_step: 1024                static shared memory, of each kernel that has any, is a multiple of this
    // sm_90a contractible: 0                   floats' a * b + c that may become one operation, or may not
    // sm_90a error: needs_sm_100f              it does not compile or assemble, and the compiler says this
    // sm_90a -Dcp error: needs_sm_100f         the same, with an option
"""
import argparse
import collections
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
KINDS = "sass|after_wgmma|registers|spills|smem|smem_step|contractible|error"
LINE = re.compile(rf"^// (sm_\w+)((?: -\S+)*)(?: ({KINDS}))?: (.+?)\s*$", re.MULTILINE)


def expectations(source):
    found = collections.defaultdict(list)
    if joined := re.search(r"^//.*\S.*\bsm_\w+[^:\n]*: .*$", re.sub(LINE, "", source.read_text()), re.MULTILINE):
        sys.exit(f"{source}: an expectation starts its line, and does not here:\n{joined[0]}")
    for arch, options, what, text in LINE.findall(source.read_text()):
        found[arch, options].append((what or "ptx", text))
    if not found:
        sys.exit(f"{source}: no `// sm_..: instruction` line")
    return found


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def disassembler(nvcc):
    """The command that prints machine code, or None. The toolkit has both; they are also packages of their own."""
    path = os.pathsep.join([str(pathlib.Path(shutil.which(nvcc) or nvcc).parent), os.environ.get("PATH", "")])
    for name, options in (("cuobjdump", ["-sass"]), ("nvdisasm", [])):
        if found := shutil.which(name, path=path):
            return [found, *options]
    return None


def with_constants(ptx):
    """`mov.b32 %r1, 11; f [%r1];` as `f [11];`: where an operand goes is then in the text."""
    values = dict(re.findall(r"mov\.[a-z]+\d+\s+(%\w+), (\w+);", ptx))
    for register, value in values.items():
        if value.startswith("0f"):
            values[register] = f"{struct.unpack('>f', bytes.fromhex(value[2:]))[0]:g}"
    return re.sub(r"%\w+", lambda m: values.get(m[0], m[0]), ptx)


def has(text, code):
    """`text` not inside a longer word, so that UTCOMMA.4X is not found in UTCOMMA.4XL; ! means that it is not there."""
    wanted = text.removeprefix("!")
    before, after = (r"\b" if end.isalnum() else "" for end in (wanted[0], wanted[-1]))
    found = re.search(before + re.escape(wanted) + after, code) is not None
    return found == (wanted == text), f"{wanted} is {'' if found else 'not '}there"


OF_MACHINE_CODE = "sass", "after_wgmma"
NEAR = 160  # instructions


def after_wgmma(text, code):
    """What a warpgroup does between one chain of wgmma and the next, which others may hide or not."""
    instructions = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(\S[^;]*);", code)
    places, begin = [], None
    for i, instruction in enumerate(instructions):
        if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in instruction:
            begin = i
        elif re.search("[HQ]GMMA", instruction) and begin is not None:
            if i - begin <= NEAR:
                places.append(" ".join(instructions[begin:i]))
            begin = None
    if text.isdecimal():
        return len(places) == int(text), f"{len(places)} places between wgmma, and must be {text}"
    found = [has(text, place) for place in places]
    return bool(places) and all(holds for holds, _ in found), f"{text} holds at {sum(h for h, _ in found)} places"


MEASURES = {"registers": (max, r"Used (\d+) registers"), "smem": (max, r"(\d+) bytes smem"),
            "smem_step": (lambda numbers: math.gcd(*numbers), r"(\d+) bytes smem"),
            "spills": (sum, r"(\d+) bytes spill (?:stores|loads)")}


def measured(what, limit, log):
    joined, pattern = MEASURES[what]
    numbers = [int(n) for n in re.findall(pattern, log)]
    if not numbers:
        return False, f"ptxas says nothing of {what}"
    found = joined(numbers)
    if what == "smem_step":
        return found % int(limit) == 0, f"smem in multiples of {found}, which must be some of {limit}"
    return found <= int(limit), f"{found} {what}, at most {limit}"


def contractible(ptx):
    """How many sums or differences of floats take a product that ptxas may join to them: neither says how it rounds,
    as `.rn` would. nvcc's -fmad=false and debug builds do not join them."""
    products, found = set(), 0
    for line in ptx.splitlines():
        if ".entry" in line or ".func" in line:
            products.clear()
        elif m := re.match(r"\s+(?:@!?%p\d+ )?(mul|add|sub)\.f32\s+(%\w+), (\S+), (\S+);", line):
            found += m[1] != "mul" and not products.isdisjoint(m.group(3, 4))
            (products.add if m[1] == "mul" else products.discard)(m[2])
    return found


def check(target, wishes, args, folder):
    arch, options = target
    flags = ["-std=c++20", f"-arch={arch}", *options.split()]
    ptx, cubin = (folder / f"{arch}{options.replace(' ', '')}{suffix}" for suffix in (".ptx", ".cubin"))
    must_fail = any(what == "error" for what, _ in wishes)
    code, log = 0, ""
    if not (args.sass and ptx.exists()):
        code, log = run([args.nvcc, *flags, f"-I{args.include}", "-ptx", "-o", ptx, args.source])
    assembles = any(what not in ("ptx", "contractible") for what, _ in wishes)
    if code == 0 and assembles and not (args.sass and cubin.exists()):
        code, log = run([args.nvcc, f"-arch={arch}", *options.split(), "-Xptxas=-v", "-cubin", "-o", cubin, ptx])
    if code and not must_fail:
        sys.exit(log)
    sass = run([*args.disassembler, cubin])[1] if args.disassembler else ""
    for what, text in wishes:
        if what == "error":
            yield (code != 0 and text in log), f"{'refused' if code else 'TAKEN'}, and must be, with {text}"
        elif what == "contractible":
            found = contractible(ptx.read_text())
            yield found == int(text), f"{found} contractible, and must be {text}"
        elif what in MEASURES:
            yield measured(what, text, log)
        elif what == "after_wgmma":
            yield after_wgmma(text, sass)
        else:
            yield has(text, sass if what == "sass" else with_constants(ptx.read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--include", default="include")
    parser.add_argument("--sass", action="store_true", help="look at the machine code, and at nothing else")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder where all is left, and where --sass finds it")
    args = parser.parse_args()

    args.disassembler = disassembler(args.nvcc) if args.sass else None
    if args.sass and not args.disassembler:
        print("SKIPPED: machine code is not looked at, for neither cuobjdump nor nvdisasm is in PATH or next to nvcc")
        return SKIPPED

    if args.keep and not args.sass:
        shutil.rmtree(args.keep, ignore_errors=True)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    failed = False
    for target, wishes in expectations(args.source).items():
        wishes = [w for w in wishes if (w[0] in OF_MACHINE_CODE) == args.sass]
        if not wishes:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for holds, text in check(target, wishes, args, args.keep or pathlib.Path(folder)):
                failed |= not holds
                print(f"{'ok  ' if holds else 'FAIL'} {target[0]:8}{target[1]} {text}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

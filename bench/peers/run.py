#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other libraries' kernels compared with fourscale's: the same data, the same GPU, the same run.

    pip install --no-build-isolation -r bench/peers/requirements.txt      (see README.md)
    python3 bench/peers/run.py --json build/peers/peers.json
    python3 bench/peers/plot.py build/peers/peers.json docs/peers.svg

Needs PyTorch with CUDA, a GPU and nvcc. A peer that is not installed is named as missing."""
import argparse
import json
import pathlib
import sys

import torch

import groups
import measure
import table
from fourscale_lib import Fourscale
from peers import Missing, Peers


def first_line(e):
    return (f"{type(e).__name__}: {e}".splitlines() or [""])[0][:160]


def prepare(row, xs, repeats):
    """(result so far, the runs to be timed)."""
    result = {"name": row.name, "package": row.package}
    try:
        entry = row.make()
        outputs = entry.kernel(xs[0])
        torch.cuda.synchronize()
        result |= {"amax_by": entry.amax_by, "note": entry.note,
                   "differs": entry.differs(outputs) if entry.differs else "-"}
        del outputs
        runs = {"kernel": measure.graph(entry.kernel, xs, repeats)}
        if entry.call:
            measure.eager(entry.call, xs, 2)()
            runs["call"] = measure.graph(entry.call, xs, repeats)
            runs["call_eager"] = measure.eager(entry.call, xs, repeats)
        return result, runs
    except Missing as e:
        return result | {"missing": str(e)}, {}
    except Exception as e:  # a peer that fails is a line of the table, not the end of it
        torch.cuda.synchronize()
        return result | {"missing": "fails: " + first_line(e)}, {}


def run_group(group, task, repeats, turns):
    n, xs = task.x.numel(), task.xs
    spare, spare_scales = (torch.empty(size, dtype=torch.uint8, device="cuda") for size in (2 * n, n // 8))

    def ceiling(written):
        return measure.graph(lambda x: task.lib.ceiling(written, x, spare, spare_scales), xs, repeats)
    prepared = [prepare(row, xs, repeats) for row in group.rows]
    runs = [ceiling(group.written), ceiling(0)] + [r for _, of_row in prepared for r in of_row.values()]
    times = iter(measure.medians(runs, repeats, turns))
    one_pass, amax_pass = next(times), next(times)
    for result, of_row in prepared:
        result |= {f"{what}_us": round(next(times), 2) for what in of_row}
    return {"title": group.title, "bytes_per_value": group.bytes_per_value, "ceiling_us": round(one_pass, 2),
            "two_pass_us": round(one_pass + amax_pass, 2) if group.amax else None,
            "rows": [result for result, _ in prepared]}


def run_shape(lib, peers, rows, cols, turns, only):
    """One group after another."""
    xs = measure.inputs(rows, cols)
    task = groups.Task(lib, peers, xs)
    repeats = max(4, 2 * len(xs))
    for make in groups.ALL:
        group = make(task)
        if not only or any(o in group.title for o in only):
            yield run_group(group, task, repeats, turns)
            torch.cuda.empty_cache()


def save(report, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", metavar="ROWSxCOLS", help="default: 16384x16384; both of 128 n")
    parser.add_argument("--only", action="append", metavar="WORDS", help="groups whose title contains them")
    parser.add_argument("--turns", type=int, default=21, help="times are medians of so many (default: 21)")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    arguments.shape = [tuple(int(n) for n in s.split("x")) for s in arguments.shape or ["16384x16384"]]
    if any(len(s) != 2 or s[0] % 128 or s[1] % 128 for s in arguments.shape):
        parser.error("--shape takes two multiples of 128, such as 4096x8192")
    return arguments


def main():
    arguments = parse()
    if not torch.cuda.is_available():
        raise SystemExit("bench/peers needs an NVIDIA GPU, and PyTorch sees none here.")
    peers = Peers()
    import triton
    report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
              "cuda": torch.version.cuda, "versions": peers.versions, "missing": peers.missing, "shapes": []}
    print(table.head(report), flush=True)
    lib = Fourscale()
    for rows, cols in arguments.shape:
        print(table.shape(rows, cols), flush=True)
        report["shapes"].append({"rows": rows, "cols": cols, "groups": []})
        for group in run_shape(lib, peers, rows, cols, arguments.turns, arguments.only):
            report["shapes"][-1]["groups"].append(group)
            print(table.group(group), flush=True)
            if arguments.json:
                save(report, arguments.json)
    ours = [r for s in report["shapes"] for g in s["groups"] for r in g["rows"] if r["package"] is None]
    wrong = [r for r in ours if r.get("missing") or r["differs"].strip("0, -")]
    for row in wrong:
        print(f"wrong: {row['name']}: {row.get('missing') or row['differs']}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

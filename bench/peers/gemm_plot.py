#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what gemm.py measured: gemm_plot.py gemm.json gemm.svg. Only the standard library."""
import argparse
import json

from plot import OURS, PEER, document, text

NAME, SPEED, BITS, ROW = 235, 330, 170, 26  # widths of the columns, one behind the other, and a row's height


def bar(x, y, width, color):
    return f'<rect x="{x}" y="{y:.1f}" width="{width:.1f}" height="15" fill="{color}"/>'


def draw_row(path, y, most):
    ours = path["name"].startswith("fourscale")
    parts = [text(NAME - 10, y + 12, path["name"], anchor="end", weight="bold" if ours else "normal")]
    if "missing" in path:
        return parts + [text(NAME + 4, y + 12, "missing", 11, color="#8a8f98")]
    color, width, at = OURS if ours else PEER, SPEED * path["tflops"] / most, NAME + SPEED + 75
    # What others read beforehand or only half of is said in gemm.py's table.
    parts += [bar(NAME, y, width, color), text(NAME + width + 6, y + 12, f"{path['tflops']:.0f}", 11)]
    same = 100.0 if ours else path["same"]
    if same is None:
        return parts
    return parts + [bar(at, y, BITS * same / 100, color), text(at + BITS * same / 100 + 6, y + 12, f"{same:.4g} %", 11)]


def draw(report):
    parts, y = [], 64
    for table in report["tables"]:
        shape = " x ".join(map(str, table["shape"]))
        there = [path["tflops"] for path in table["paths"] if "tflops" in path]
        parts += [text(20, y + 12, f"{shape}, {table['data']}", 13, weight="bold"),
                  text(NAME, y + 30, "TFLOP/s", 11, color=PEER),
                  text(NAME + SPEED + 75, y + 30, "outputs with Blackwell's bits", 11, color=PEER)]
        y += 38
        for path in table["paths"]:
            parts += draw_row(path, y, max(there, default=1))
            y += ROW
        y += 16
    head = [text(20, 26, f"{report['gpu']}: NVFP4 operands, D in bf16", 16, weight="bold"),
            text(20, 45, "The same codes and scales for all. Longer is better.", 11.5, color=PEER)]
    return document(y, head + parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("svg")
    arguments = parser.parse_args()
    with open(arguments.report) as f:
        report = json.load(f)
    with open(arguments.svg, "w") as f:
        f.write(draw(report))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what run.py measured: plot.py peers.json peers.svg [--shape 0]. Only the standard library."""
import argparse
import json
from html import escape

WIDTH, LEFT, RIGHT, ROW, GAP, TOP = 880, 220, 160, 28, 46, 86
OURS, OURS_LIGHT, PEER, PEER_LIGHT = "#0b6e4f", "#8cc9b0", "#5b6472", "#b9bfc9"
BAR = WIDTH - LEFT - RIGHT


def text(x, y, content, size=12, anchor="start", color="#1c1f24", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}" '
            f'font-weight="{weight}">{escape(content)}</text>')


def bar(y, height, percent, color):
    width = BAR * min(percent, 100) / 100
    return f'<rect x="{LEFT}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{color}"/>'


def microseconds(us):
    return f"{us:.0f}" if us >= 100 else f"{us:.1f}"


def document(height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                      f'height="{height}" font-family="Helvetica, Arial, sans-serif">',
                      f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *parts, "</svg>", ""])


def draw_row(row, group, y):
    ours = row["package"] is None and row["name"].startswith("fourscale")
    name = text(LEFT - 10, y + 16, row["name"], anchor="end", weight="bold" if ours else "normal")
    if "missing" in row:
        return [name, text(LEFT + 4, y + 16, "missing", 11, color="#8a8f98")]
    kernel, call = 100 * group["ceiling_us"] / row["kernel_us"], row.get("call_us")
    said = f"{kernel:.0f} % · {microseconds(row['kernel_us'])} us"
    if not call:
        return [name, bar(y + 4, 16, kernel, OURS if ours else PEER), text(LEFT + BAR + 8, y + 16, said)]
    whole = 100 * group["two_pass_us"] / call
    return [name, bar(y + 3, 11, kernel, OURS if ours else PEER),
            bar(y + 14, 7, whole, OURS_LIGHT if ours else PEER_LIGHT), text(LEFT + BAR + 8, y + 12, said, 11),
            text(LEFT + BAR + 8, y + 23, f"call {whole:.0f} % · {microseconds(call)} us", 9.5, color="#5b6472")]


def legend(y):
    items = [(OURS, "fourscale: kernel, amax given"), (OURS_LIGHT, "whole call, with amax"), (PEER, "others: kernel"),
             (PEER_LIGHT, "whole call")]
    parts, x = [], 20
    for color, name in items:
        parts += [f'<rect x="{x}" y="{y - 9}" width="12" height="10" fill="{color}"/>', text(x + 17, y, name, 11)]
        x += 32 + 6.2 * len(name)
    return parts


def draw(report, shape):
    parts, y = [], TOP
    for group in shape["groups"]:
        top = y
        parts.append(text(LEFT, y + 12, group["title"], 13, weight="bold"))
        y += 20
        for percent in (25, 50, 75, 100):
            x, end = LEFT + BAR * percent / 100, y + ROW * len(group["rows"])
            parts.append(f'<line x1="{x}" y1="{top + 18}" x2="{x}" y2="{end}" stroke="#d9dce1" '
                         f'stroke-dasharray="{"none" if percent == 100 else "2 3"}"/>')
        for row in group["rows"]:
            parts += draw_row(row, group, y)
            y += ROW
        y += GAP - 22
    for percent in (0, 25, 50, 75, 100):
        parts.append(text(LEFT + BAR * percent / 100, y + 2, f"{percent} %", 10.5, "middle", "#5b6472"))
    head = [text(20, 26, f"{report['gpu']}, {shape['rows']} x {shape['cols']} bf16, all in one run", 16, weight="bold"),
            text(20, 45, "Percent of a kernel with the same reads and writes and no arithmetic (whole calls: of that "
                 "and a pass that only reads). Longer is better.", 11.5, color="#5b6472"), *legend(66)]
    return document(y + 16, head + parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("svg")
    parser.add_argument("--shape", type=int, default=0, help="which of the report's shapes (default: the first)")
    arguments = parser.parse_args()
    with open(arguments.report) as f:
        report = json.load(f)
    with open(arguments.svg, "w") as f:
        f.write(draw(report, report["shapes"][arguments.shape]))


if __name__ == "__main__":
    main()

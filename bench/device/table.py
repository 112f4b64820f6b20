# SPDX-License-Identifier: Apache-2.0
"""The table and the picture of the README, from what the device benchmarks print as JSON:

    quantize_bench --benchmark_out=speed.json && python3 bench/device/table.py speed.json --plot docs/speed.svg
"""
import argparse
import json

SHAPES = ["16384x16384", "8192x28672", "2048x8192", "4096x4096"]
TOKENS, FEATURES = [2048, 4096, 8192, 16384], [4096, 8192, 14336, 28672]
ROWS = [  # of the benchmark, of the table
    ("amax", "amax"),
    ("amax_both_rht", "both amaxes of one read, columns after Hadamard 16"),
    ("nvfp4_rowwise_nearest", "NVFP4 rowwise, nearest"),
    ("nvfp4_rowwise_nearest_swizzled", "the same, swizzled scales"),
    ("nvfp4_rowwise_stochastic", "NVFP4 rowwise, stochastic"),
    ("nvfp4_rowwise_four_over_six", "NVFP4 rowwise, four over six"),
    ("nvfp4_columnwise_nearest", "NVFP4 columnwise, nearest"),
    ("nvfp4_columnwise_rht_nearest", "NVFP4 columnwise, Hadamard 16, nearest"),
    ("nvfp4_columnwise_rht_nearest_swizzled", "the same, swizzled scales"),
    ("nvfp4_columnwise_rht_stochastic", "NVFP4 columnwise, Hadamard 16, stochastic"),
    ("nvfp4_both_nearest", "NVFP4 both copies, nearest"),
    ("nvfp4_both_nearest_swizzled", "the same, swizzled scales"),
    ("nvfp4_both_stochastic", "NVFP4 both copies, stochastic"),
    ("nvfp4_both_row_plain_column_rht", "NVFP4 both copies, columns with Hadamard 16"),
    ("nvfp4_both_row_plain_column_rht_swizzled", "the same, swizzled scales"),
    ("nvfp4_both_16x16", "NVFP4 16x16, both copies"),
    ("nvfp4_both_16x16_swizzled", "the same, swizzled scales"),
    ("nvfp4_dequantize", "NVFP4 dequantize"),
    ("hadamard_16", "Hadamard transform, 16, to bf16"),
    ("hadamard_128", "Hadamard transform, 128, to bf16"),
    ("nvfp4_amax_and_quantize", "amax, then NVFP4 rowwise, beside both ceilings"),
    ("mxfp4_rowwise", "MXFP4 rowwise"),
    ("mxfp8_rowwise", "MXFP8 rowwise"),
    ("fp8_tensor", "FP8 per tensor"),
]


def read(path):
    """{(kernel, shape): (microseconds, GB/s, percent of the ceiling)}"""
    with open(path) as file:
        found = {}
        for b in json.load(file)["benchmarks"]:
            kernel, shape = b["name"].split("/")[:2]
            found[kernel, shape] = (b["real_time"], b["GB/s"], b["percent_of_ceiling"])
        return found


def table(found):
    lines = ["| kernel | us | TB/s | " + " | ".join(SHAPES) + " |", "|---|---|---|" + "---|" * len(SHAPES)]
    for kernel, label in ROWS:
        first = found.get((kernel, SHAPES[0]))
        if first is None:
            continue
        cells = [f"{found[kernel, s][2]:.0f} %" if (kernel, s) in found else "" for s in SHAPES]
        lines.append(f"| {label} | {first[0]:.0f} | {first[1] / 1000:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def llm_table(found):
    """The kernels that were measured on all shapes of an LLM's activations."""
    lines = ["| percent of the ceiling, features: | tokens | " + " | ".join(map(str, FEATURES)) + " |",
             "|---|---|" + "---|" * len(FEATURES)]
    for kernel, label in ROWS:
        if any((kernel, f"{t}x{f}") not in found for t in TOKENS for f in FEATURES):
            continue
        for t in TOKENS:
            cells = [f"{found[kernel, f'{t}x{f}'][2]:.0f}" for f in FEATURES]
            lines.append(f"| {label if t == TOKENS[0] else ''} | {t} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(found, machine):
    rows = [(label, found[kernel, SHAPES[0]][2]) for kernel, label in ROWS if (kernel, SHAPES[0]) in found]
    left, width, step, top = 380, 420, 24, 64
    height = top + step * len(rows) + 40
    x = lambda percent: left + width * percent / 100
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="870" height="{height}" font-family="sans-serif" '
           'font-size="13">', f'<rect width="870" height="{height}" fill="white"/>',
           f'<text x="20" y="24" font-size="16">Percent of a kernel with the same reads and writes and no arithmetic</text>',
           f'<text x="20" y="44" fill="#555">{machine}, {SHAPES[0]} bf16; every output equal to the host\'s in every bit'
           '</text>']
    for percent in (0, 25, 50, 75, 100):
        out.append(f'<line x1="{x(percent)}" y1="{top - 6}" x2="{x(percent)}" y2="{height - 30}" stroke="#ddd"/>')
        out.append(f'<text x="{x(percent)}" y="{height - 12}" text-anchor="middle" fill="#555">{percent} %</text>')
    for i, (label, percent) in enumerate(rows):
        y = top + step * i
        out.append(f'<text x="{left - 10}" y="{y + 13}" text-anchor="end">{label}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{x(percent) - left:.1f}" height="17" fill="#4477aa"/>')
        out.append(f'<text x="{x(percent) + 6:.1f}" y="{y + 13}">{percent:.0f}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json")
    parser.add_argument("--plot", metavar="SVG")
    parser.add_argument("--machine", default="NVIDIA H200")
    args = parser.parse_args()
    found = read(args.json)
    print(table(found))
    print()
    print(llm_table(found))
    if args.plot:
        with open(args.plot, "w") as file:
            file.write(plot(found, args.machine))


if __name__ == "__main__":
    main()

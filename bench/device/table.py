# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of docs/speed.md, from what the device benchmarks print as JSON:

    python3 bench/device/table.py build/gpu_bench/bench/device_*_bench.json --plot docs/speed.svg
"""
import argparse
import collections
import json
import sys

SHAPES = ["16384x16384", "8192x28672", "2048x8192", "4096x4096"]
TOKENS, FEATURES = [2048, 4096, 8192, 16384], [4096, 8192, 14336, 28672]
ROWS = [  # of the benchmark, of the table
    ("amax", "amax"),
    ("amax_both_rht", "both amaxes of one read, columns after Hadamard 16"),
    ("nvfp4_rowwise_nearest", "NVFP4 rowwise, nearest"),
    ("nvfp4_rowwise_nearest_swizzled", "the same, swizzled scales"),
    ("nvfp4_rowwise_stochastic", "NVFP4 rowwise, stochastic"),
    ("nvfp4_rowwise_stochastic_swizzled", "the same, swizzled scales"),
    ("nvfp4_rowwise_four_over_six", "NVFP4 rowwise, four over six"),
    ("nvfp4_rowwise_four_over_six_swizzled", "the same, swizzled scales"),
    ("nvfp4_columnwise_nearest", "NVFP4 columnwise, nearest"),
    ("nvfp4_columnwise_rht_nearest", "NVFP4 columnwise, Hadamard 16, nearest"),
    ("nvfp4_columnwise_rht_nearest_swizzled", "the same, swizzled scales"),
    ("nvfp4_columnwise_rht_stochastic", "NVFP4 columnwise, Hadamard 16, stochastic"),
    ("nvfp4_columnwise_rht_stochastic_swizzled", "the same, swizzled scales"),
    ("nvfp4_both_nearest", "NVFP4 both copies, nearest"),
    ("nvfp4_both_nearest_swizzled", "the same, swizzled scales"),
    ("nvfp4_both_stochastic", "NVFP4 both copies, stochastic"),
    ("nvfp4_both_stochastic_column_rht_swizzled", "the same, columns with Hadamard 16, swizzled scales"),
    ("nvfp4_both_row_plain_column_rht", "NVFP4 both copies, columns with Hadamard 16"),
    ("nvfp4_both_row_plain_column_rht_swizzled", "the same, swizzled scales"),
    ("nvfp4_both_16x16", "NVFP4 16x16, both copies"),
    ("nvfp4_both_16x16_swizzled", "the same, swizzled scales"),
    ("nvfp4_dequantize", "NVFP4 dequantize"),
    ("hadamard_16", "Hadamard transform, 16, to bf16"),
    ("hadamard_128", "Hadamard transform, 128, to bf16"),
    ("nvfp4_amax_and_quantize", "amax and NVFP4 rowwise, compared with both ceilings"),
    ("mxfp4_rowwise", "MXFP4 rowwise"),
    ("mxfp8_rowwise", "MXFP8 rowwise"),
    ("fp8_tensor", "FP8 per tensor"),
]


# The programs of bench/device say what they measure: data/KERNEL/DATA/SHAPE, types/ROW/LAYOUT/SHAPE,
# sm80/KERNEL/DATA/SHAPE, grouped_KERNEL/GROUPS/SHAPE; the others KERNEL/SHAPE.
DATA_SHAPE, OTHER_DATA_SHAPE = "16384x8192", "8192x28672"
DATA = [("gaussian", "Gaussian"), ("rows_exp2", "rows exp(2 N)"), ("rows_exp3.5", "rows exp(3.5 N)"),
        ("pairs", "pairs 2^(-40..23)"), ("student_t2", "Student t(2)"), ("half_zero_rows", "half the rows zero"),
        ("channels_x50", "x50 channels"), ("one_in_100", "1 % nonzero")]
DATA_KERNELS = [  # of data_bench, of the table, of quantize_bench
    ("rowwise_nearest", "rowwise, nearest", "nvfp4_rowwise_nearest_swizzled"),
    ("rowwise_stochastic", "rowwise, stochastic", "nvfp4_rowwise_stochastic_swizzled"),
    ("rowwise_four_over_six", "rowwise, four over six", "nvfp4_rowwise_four_over_six_swizzled"),
    ("columnwise_rht_stochastic", "columnwise, Hadamard 16, stochastic", "nvfp4_columnwise_rht_stochastic_swizzled"),
    ("both_nearest", "both copies, nearest", "nvfp4_both_nearest_swizzled"),
    ("both_stochastic_column_rht", "both copies, stochastic, columns with Hadamard 16",
     "nvfp4_both_stochastic_column_rht_swizzled"),
    ("both_16x16", "16x16, both copies", "nvfp4_both_16x16_swizzled"),
]
TYPES = [  # of types_bench, of the table
    ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32"), ("nv_bfloat16", "`__nv_bfloat16`"), ("half", "`__half`"),
]
OTHER_TYPES = [
    ("mxfp8_rowwise", "MXFP8 rowwise"), ("mxfp8_columnwise", "MXFP8 columnwise"),
    ("mxfp8_both", "MXFP8 both copies"), ("fp8_1x128_rowwise", "FP8 1x128 rowwise"), ("fp8_128x128", "FP8 128x128"),
    ("row_amax_rowwise", "NVFP4 rowwise, an amax for each row"),
    ("off_by_one_rowwise", "source one element off alignment: rowwise"),
    ("off_by_one_columnwise_rht", "the same: columnwise, Hadamard 16"),
    ("off_by_one_both_16x16", "the same: 16x16, both copies"),
    ("odd_stride_rowwise", "odd leading dimension: rowwise"),
    ("odd_stride_columnwise_rht", "the same: columnwise, Hadamard 16"),
    ("odd_stride_both_16x16", "the same: 16x16, both copies"),
    ("user_round_rowwise", "a user's rounding, as its definition: rowwise"),
    ("user_round_columnwise", "the same: columnwise"), ("user_round_both", "the same: both copies"),
    ("user_fast_round_rowwise", "a user's rounding with a fast form: rowwise"),
    ("user_bits_rowwise", "a user's random bits: rowwise"), ("user_scale_rowwise", "a user's scales: rowwise"),
    ("user_transform_rowwise", "a user's transform: rowwise"),
    ("graph_both", "both copies, nearest, in a graph"),
    ("graph_both_stochastic_column_rht", "both copies, stochastic, columns with Hadamard 16, in a graph"),
    ("graph_both_16x16", "16x16, both copies, in a graph"),
]
TYPE_ROWS = [(f"{t}_{kernel}", f"{label} source: {what}") for t, label in TYPES
             for kernel, what in (("rowwise", "rowwise"), ("columnwise", "columnwise"), ("both", "both copies"))]

Figure = collections.namedtuple("Figure", "us gb_per_s percent times_unfused")


def benchmarks(paths):
    """(name as a tuple, counters) of each; names without what Google Benchmark adds."""
    for path in paths:
        with open(path) as file:
            for b in json.load(file)["benchmarks"]:
                yield tuple(part for part in b["name"].split("/")
                            if part != "manual_time" and "iterations:" not in part), b


def read(paths):
    """{name: Figure}, and sentences about what failed."""
    found, failed = {}, []
    for name, b in benchmarks(paths):
        if b.get("error_occurred"):
            failed.append(f"{'/'.join(name)}: {b.get('error_message')}")
        if "percent_of_ceiling" in b:
            found[name] = Figure(b["real_time"], b["GB/s"], b["percent_of_ceiling"], b.get("times_unfused"))
    return found, failed


def markdown(head, rows):
    """Nothing where there are no rows."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows])


def percent(figure):
    return f"{figure.percent:.0f} %" if figure else ""


def worst_data(found, kernel):
    """(percent, what data) of the slowest."""
    labels = dict(DATA)
    return min(((f.percent, labels.get(name[2], name[2])) for name, f in found.items()
                if name[:2] == ("data", kernel)), default=None)


def table(found):
    data_kernels = {of_quantize: kernel for kernel, _, of_quantize in DATA_KERNELS}
    rows = []
    for kernel, label in ROWS:
        first = found.get((kernel, SHAPES[0]))
        if first is None:
            continue
        worst = worst_data(found, data_kernels.get(kernel))
        rows.append([label, f"{first.us:.0f}", f"{first.gb_per_s / 1000:.2f}",
                     *(percent(found.get((kernel, s))) for s in SHAPES),
                     f"{worst[0]:.0f} %, {worst[1]}" if worst else ""])
    return markdown(["kernel", "us", "TB/s", *SHAPES, "worst data"], rows)


def data_table(found):
    """Percent of the ceiling; in brackets, of what the kernel reaches on Gaussian values of that shape."""
    columns = [(name, DATA_SHAPE, label) for name, label in DATA] + [
        ("pairs", OTHER_DATA_SHAPE, f"pairs, {OTHER_DATA_SHAPE}")]
    rows = []
    for kernel, label, _ in DATA_KERNELS:
        cells = []
        for name, shape, _ in columns:
            here = found.get(("data", kernel, name, shape))
            gaussian = found.get(("data", kernel, "gaussian", shape))
            cells.append(f"{here.percent:.0f} ({100 * here.percent / gaussian.percent:.0f})"
                         if here and gaussian else "")
        worst = worst_data(found, kernel)
        if worst:
            rows.append([label, *cells, f"{worst[0]:.0f} %, {worst[1]}"])
    return markdown(["percent of the ceiling (of its own with Gaussian values)", *(c[2] for c in columns),
                     "worst data"], rows)


def types_table(found):
    shapes = sorted({name[3] for name in found if name[0] == "types"}, key=lambda s: [int(n) for n in s.split("x")])
    rows = []
    for row, label in TYPE_ROWS + OTHER_TYPES:
        for shape in reversed(shapes):
            of = {layout: found.get(("types", row, layout, shape)) for layout in ("swizzled", "linear")}
            first = of["swizzled"] or of["linear"]
            if first:
                rows.append([label, shape, f"{first.us:.0f}", f"{first.gb_per_s / 1000:.2f}",
                             percent(of["swizzled"]), percent(of["linear"])])
    return markdown(["NVFP4 unless it says otherwise", "shape", "us", "TB/s", "swizzled scales", "linear scales"], rows)


def sm80_table(found):
    rows = []
    for kernel, label, _ in DATA_KERNELS:
        for name, old in found.items():
            if name[:2] != ("sm80", kernel):
                continue
            new = found.get(("data", *name[1:]))
            rows.append([label, name[3], f"{old.us:.0f}", percent(old), f"{new.us:.0f}" if new else "",
                         percent(new), f"{100 * new.us / old.us:.0f} %" if new else ""])
    return markdown(["kernel", "shape", "sm_80's code, us", "of the ceiling", "this GPU's code, us", "of the ceiling",
                     "speed of sm_80's code compared with it"], rows)


DEQUANTIZED = [("nvfp4", "NVFP4"), ("mxfp4", "MXFP4"), ("mxfp6_e2m3", "MXFP6 E2M3"), ("mxfp8_e4m3", "MXFP8 E4M3"),
               ("fp8_e4m3", "FP8 per tensor"), ("fp8_block_e4m3", "FP8 1x128")]
DEQUANTIZED_TO = [("rowwise", "rowwise"), ("columnwise", "columnwise"), ("rowwise_odd_stride", "rowwise, odd stride"),
                  ("columnwise_odd_stride", "columnwise, odd stride")]


def dequantize_table(found):
    """Percent of the ceiling."""
    rows = []
    for name, label in DEQUANTIZED:
        for of_type in ("bf16", "fp32"):
            figures = [next((f for key, f in found.items() if key[:3] == ("dequantize", f"{name}_{of_type}", to)), None)
                       for to, _ in DEQUANTIZED_TO]
            if any(figures):
                rows.append([f"{label} to {of_type}", *map(percent, figures)])
    return markdown(["dequantize, percent of the ceiling", *(label for _, label in DEQUANTIZED_TO)], rows)


def other_table(found):
    """Fused kernels and grouped ones."""
    rows = [["/".join(name), f"{f.us:.0f}", percent(f), f"{f.times_unfused:.1f}" if f.times_unfused else ""]
            for name, f in found.items() if f.times_unfused or name[0].startswith("grouped_")]
    return markdown(["kernel", "us", "of the ceiling", "times as fast as two kernels"], rows)


def llm_table(found):
    """The kernels that were measured on all shapes of an LLM's activations."""
    rows = []
    for kernel, label in ROWS:
        if any((kernel, f"{t}x{f}") not in found for t in TOKENS for f in FEATURES):
            continue
        for t in TOKENS:
            cells = [f"{found[kernel, f'{t}x{f}'].percent:.0f}" for f in FEATURES]
            rows.append([label if t == TOKENS[0] else "", str(t), *cells])
    return markdown(["percent of the ceiling, features:", "tokens", *map(str, FEATURES)], rows)


def plot(found, machine):
    rows = [(label, found[kernel, SHAPES[0]].percent) for kernel, label in ROWS if (kernel, SHAPES[0]) in found]
    left, width, step, top = 380, 420, 24, 64
    height = top + step * len(rows) + 40
    x = lambda percent: left + width * percent / 100
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="870" height="{height}" font-family="sans-serif" '
           'font-size="13">', f'<rect width="870" height="{height}" fill="white"/>',
           f'<text x="20" y="24" font-size="16">Percent of a kernel with the same reads and writes and no arithmetic</text>',
           f'<text x="20" y="44" fill="#555">{machine}, {SHAPES[0]} bf16; outputs equal to the host\'s in every bit'
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
    parser.add_argument("json", nargs="+")
    parser.add_argument("--plot", metavar="SVG")
    parser.add_argument("--machine", default="NVIDIA H200")
    args = parser.parse_args()
    found, failed = read(args.json)
    makers = (table, data_table, types_table, dequantize_table, sm80_table, other_table, llm_table)
    tables = [make(found) for make in makers]
    print("\n\n".join(filter(None, tables)))
    if args.plot:
        with open(args.plot, "w") as file:
            file.write(plot(found, args.machine))
    if failed:
        sys.exit("\n".join(["table.py: measurements failed:", *failed]))


if __name__ == "__main__":
    main()

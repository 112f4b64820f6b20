# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/gemm_speed.md, from what the device benchmarks print as JSON:

    python3 bench/device/gemm_table.py build/gpu_bench/bench/device_*_bench.json
"""
import argparse

from table import benchmarks, markdown

DATA = {  # of gemm_bench and gemm_mx_bench, of the tables
    "gaussian": "Gaussian", "lognormal_rows": "lognormal rows x Gaussian", "half_zero": "half the rows zero x Gaussian",
    "t3_by_gaussian": "Student's t(3) x Gaussian", "x50_channels": "x50 channels x Gaussian",
    "t2_by_t2": "Student's t(2), both", "t2": "Student's t(2), both",
    "lognormal_tokens_by_gaussian": "lognormal tokens (sigma 2 along K) x Gaussian",
    "lognormal_blocks_by_gaussian": "lognormal blocks (sigma 1.5) x Gaussian",
    "lognormal_blocks": "lognormal blocks (sigma 1.5), both",
}
WAYS = {"t2": "Student's t(2)", "x50_channels": "x50 channels",
        "outliers": "rows of many sizes, one value in 500 x 100"}
SPREADS = {"blocks": "lognormal blocks", "tokens": "lognormal tokens"}
LARGE = ("4096x4096x4096", "8192x8192x8192", "8192x14336x4096")
MX_SHAPES = ("4096x4096x4096", "8192x8192x4096")
FORMATS = {"mxfp8_e4m3": "MXFP8 E4M3", "mxfp8_e5m2": "MXFP8 E5M2",
           "mxfp8_e4m3_by_mxfp4": "MXFP8 E4M3 x MXFP4", "mxfp6_e2m3": "MXFP6 E2M3",
           "mxfp6_e3m2": "MXFP6 E3M2"}


def spaced(shape):
    return shape.replace("x", " x ")


def percent(value, digits=0):
    return f"{value:.{digits}f} %"


def not_all(value):
    """A share that is neither none nor all, and does not look so: with a digit or more behind the point."""
    return percent(value, next(d for d in range(1, 9) if 0 < float(f"{value:.{d}f}") < 100))


def certified(b):
    """Nothing is certified only where a kernel goes by blocks."""
    value = b["certified"]
    return "by blocks" if value == 0 else percent(value) if value == 100 else not_all(value)


def gemm_table(found):
    rows = []
    for name, b in found.items():
        if name[0] != "gemm" or (name[1] == "gaussian" and name[2] not in LARGE):
            continue
        digits = 1 if b["certified"] == 0 else 0
        rows.append([f"{DATA[name[1]]}, {spaced(name[2])}", f"{b['cublasLt_TFLOP/s']:.0f}",
                     percent(b["percent_decoded"], digits), percent(b["percent_packed"], digits), certified(b),
                     *(percent(b[key]) for key in ("percent_bf16_of_wgmma", "native_decoded", "native_packed"))])
    return markdown(["A x B, M x N x K", "cublasLt, TFLOP/s", "decoded", "packed", "certified", "sm_80's",
                     "native, decoded", "native, packed"], rows)


def small_table(found):
    rows = [[spaced(name[2]), f"{b['cublasLt_TFLOP/s']:.0f}",
             *(percent(b[key]) for key in ("percent_decoded", "percent_packed", "native_packed"))]
            for name, b in found.items() if name[:2] == ("gemm", "gaussian") and name[2] not in LARGE]
    return markdown(["M x N x K", "cublasLt, TFLOP/s", "decoded", "packed", "native, packed"], rows)


def fp32_table(found):
    rows = [[spaced(name[1]), percent(b["added"]), percent(b["stored"])]
            for name, b in found.items() if name[0] == "gemm_fp32"]
    return markdown(["M x N x K, to FP32", "added to D, as wgrad does", "stored"], rows)


def operands(name):
    """Of gemm_ways and gemm_draws."""
    kind = name.removesuffix("_by_gaussian").removesuffix("_both")
    what, _, spread = kind.partition("_")
    what = WAYS.get(kind) or f"{SPREADS[what]} (sigma {float(spread) / (100 if what == 'blocks' else 1):g})"
    return what + (", both" if name.endswith("_both") else " x Gaussian")


def draws_table(found):
    rows = [[operands(name[1]), *(percent(b[key]) for key in ("mean", "slowest", "fastest"))]
            for name, b in found.items() if name[0] == "gemm_draws"]
    return markdown(["A x B, eight draws", "of Gaussian's speed", "slowest", "fastest"], rows)


def ways_table(found):
    rows = []
    for name, b in found.items():
        if name[0] == "gemm_ways":
            ways = [f"{b[key]:.0f}" for key in ("certified_TFLOP/s", "by_blocks_TFLOP/s")]
            taken = int(b["goes_by_blocks"])
            ways[taken] = f"**{ways[taken]}**"
            rows.append([operands(name[1]), percent(b["uncertified"], 1), f"{b['alike']:.2f}", *ways])
    return markdown(["A x B", "uncertified samples", "alike", "by certificates, TFLOP/s", "by blocks"], rows)


def share(value):
    return "none" if value == 0 else "all" if value == 100 else not_all(value)


def mx_table(found):
    rows = []
    for (kind, *name), b in found.items():
        if kind != "gemm_mx" or name[2] != MX_SHAPES[0]:
            continue
        both = [b, found.get((kind, name[0], name[1], MX_SHAPES[1]))]
        if None in both:
            continue
        left = [share(x["left"]) for x in both]
        rows.append([f"{FORMATS[name[0]]}, {DATA[name[1]]}", left[0] if left[0] == left[1] else "; ".join(left),
                     share(b["by_model"]), "; ".join(f"{x['TFLOP/s']:.3g}" for x in both),
                     "; ".join(f"{x['percent']:.1f}" for x in both) + " %",
                     "; ".join(f"{x['percent_decoded']:.1f}" for x in both) + " %" if "percent_decoded" in b else "",
                     "; ".join(f"{x['native_TFLOP/s']:.0f}" for x in both),
                     "; ".join(f"{x['percent_native']:.0f}" for x in both) + " %"])
    return markdown(["A x B", "left", "may drop", "TFLOP/s", "of cublasLt", "decoded", "native, TFLOP/s",
                     "of cublasLt"], rows)


def linear_table(found):
    rows = []
    for name, b in found.items():
        if name[0] != "linear" or len(name) != 3:
            continue
        _, k, n = name[2].split("x")
        other = [found.get((name[0], name[1], how, name[2])) for how in ("native", "cublasLt")]
        if None in other:
            continue
        times = [b["of_bf16"], b["GEMMs_of_bf16"], *(x["of_bf16"] for x in other)]
        rows.append([f"{name[1]}, {k} x {n}", *(f"{x:.2f}" for x in times), percent(b["quantization"]),
                     percent(b["decoding"])])
    return markdown(["recipe, in x out", "Blackwell's bits", "its GEMMs", "native", "cublasLt", "quantization",
                     "decoding"], rows)


def rivals_table(found):
    rows = []
    for name, b in found.items():
        if name[0] == "linear" and len(name) == 3 and "decoding" not in b:
            _, k, n = name[2].split("x")
            rows.append([f"{name[1]}, {k} x {n}", f"{b['of_bf16']:.2f}", f"{b['TFLOP/s']:.0f}",
                         percent(b["quantization"])])
    return markdown(["recipe, in x out", "of the bf16 layer's time", "TFLOP/s", "quantization"], rows)


def experts_table(found):
    times = ("of_bf16", "of_bf16_weights_kept", "of_bf16_in_streams", "of_bf16_launched")
    kinds = {"gaussian": "", "lognormal_tokens": ", lognormal tokens", "lognormal_blocks": ", lognormal blocks"}
    rows = [[f"{name[2]} of {spaced(name[3])}{kinds[name[1]]}", f"{b['bf16_TFLOP/s']:.0f}",
             *(f"{b[key]:.2f}" for key in times)]
            for name, b in found.items() if name[0] == "linear_experts"]
    return markdown(["experts: tokens x in x out", "bf16, TFLOP/s", "of its time", "weights kept",
                     "in four streams", "launch by launch"], rows)


def fp8_table(found):
    rows = [[spaced(name[1]), f"{b['TFLOP/s']:.0f}",
             *(percent(b[key]) for key in ("percent", "percent_of_fast", "percent_of_bf16")),
             *(f"{b[f'{what}_TFLOP/s']:.0f}, {percent(b[f'{what}_percent'])}" for what in ("weights", "blocks"))]
            for name, b in found.items() if name[0] == "gemm_fp8"]
    return markdown(["M x N x K", "TFLOP/s", "of cublasLt, sums in f32", "of its fast sums", "of its bf16",
                     "blocks of 128 x 128", "scales of 128"], rows)


def weight_only_table(found):
    of = {name[1:]: b["times_cublas"] for name, b in found.items() if name[0] == "gemm_weight_only"}
    swizzled = {name[1:]: b["times_cublas"] for name, b in found.items() if name[0] == "gemm_weight_only_swizzled"}
    counts = sorted({m for m, _ in of}, key=int)
    rows = []
    for shape in dict.fromkeys(shape for _, shape in of):
        rows.append([spaced(shape), *(f"{of[m, shape]:.1f}" + (f" ({swizzled[m, shape]:.1f})" if (m, shape) in swizzled
                                                               else "") for m in counts)])
    return markdown(["N x K", *(f"M = {m}" for m in counts)], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", nargs="+")
    found = {name: b for name, b in benchmarks(parser.parse_args().json) if not b.get("error_occurred")}
    makers = (gemm_table, small_table, draws_table, fp32_table, ways_table, mx_table, linear_table, rivals_table,
              experts_table, fp8_table, weight_only_table)
    tables = [make(found) for make in makers]
    print("\n\n".join(filter(None, tables)))


if __name__ == "__main__":
    main()

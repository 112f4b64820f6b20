#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the NVFP4 GEMMs of device/ could reach on Blackwell, on paper: operand feed, stages, tensor memory, waves.
Nothing here was measured by this project; what was measured by others says so. Prints the tables of docs/blackwell.md:

    python3 bench/roofline/gemm.py [--svg docs/gemm_roofline.svg]
"""
import argparse
import collections
import math
import sys

# A step is one instruction along K: K = 64 elements of four bits, 32 bytes of codes and 4 bytes of scales a row (PTX
# ISA 9.7.16, table 39); on sm_103a also K = 96, 48 and 6 bytes.
# `sharing`: how many pairs get one copy of B from L2 by TMA multicast.
Tile = collections.namedtuple("Tile", "name ctas rows columns k sharing", defaults=(64, 1))
TILES = {t.name: t for t in (Tile("128x256", 1, 128, 256), Tile("256x256 pair", 2, 256, 256),
                             Tile("128x128", 1, 128, 128))}
MULTICAST = Tile("256x256 pair, two share B", 2, 256, 256, 64, 2)
K96 = Tile("256x256 pair, K = 96 *", 2, 256, 256, 96)
K96_MULTICAST = Tile("256x256 pair, K = 96, two share B *", 2, 256, 256, 96, 2)
WARPS = Tile("128x128, 4 warps", 1, 128, 128)  # device/gemm_mma_sync.cuh, mma.sync

# Shared memory a block may have: 227 KiB on sm_100 and sm_103 (CUDA programming guide, compute capabilities; CUTLASS
# arch.h: 232448), of which mma/tcgen05_tile.cuh keeps 2 KiB for barriers, and two boxes of 4 KiB for each of four
# warps, from which TMA stores D. A stage holds 128 bytes of codes along K.
SMEM_BLOCK, SMEM_KEPT, SMEM_BOXES, STAGE_CODE_BYTES, MOST_STAGES = 232448, 2048, 4 * 2 * 4096, 128, 6
# Shared memory gives 128 bytes a clock and SM (ademeure/QuickRunCUDA: 38.4 TB/s on a B300; the documented width).
SMEM_PORT = 128
# tcgen05.mma with M = 128 in a CTA: max(44, N / 2) clocks, for any type (the same source, measured on a B300).
LEAST_CLOCKS = 44
# Tensor memory: 512 columns of 128 lanes x 4 bytes (PTX ISA 9.7.16.1).
TMEM_COLUMNS = 512
# Latency of a first load that misses L2, in clocks: 900 to 1700 (the same source, 03_caches.md).
FIRST_LOAD = 1500
# Between two tiles the tensor core waits until the columns that both accumulators share have been read: 3 of
# 16 chunks (mma/tcgen05_tile.cuh). No source says what that takes; ASSUMED.
TILE_GAP = 200

# peak: dense FP4, PFLOP/s. macs: a clock and SM. l2: TB/s from L2 to the SMs.
Machine = collections.namedtuple("Machine", "name peak sms ghz macs hbm l2 tiles")
TCGEN05 = (TILES["128x256"], TILES["256x256 pair"], MULTICAST)
MACHINES = [
    # 9 PFLOP/s, 7.7 TB/s: verda.com/blog/gb300-nvl72-architecture (HGX B200). 148 SMs. 1.856 GHz follows from
    # them. L2: no figure for a B200 was found; ASSUMED as on the B300.
    Machine("B200", 9.0, 148, 1.856, 16384, 7.7, 17.0, TCGEN05),
    # 14 PFLOP/s needs K = 96. 1.92 GHz sustained, L2 17 TB/s: measured on a B300 (QuickRunCUDA, 03_caches.md).
    Machine("B300", 14.0, 148, 1.92, 16384, 7.7, 17.0, TCGEN05),
    Machine("B300, K = 96 *", 14.0, 148, 1.92, 24576, 7.7, 17.0, (K96, K96_MULTICAST)),
    # 2.015 PFLOP/s, 1792 GB/s, 188 SMs, 2.617 GHz: specification page. L2 8.7 TB/s: measured by chipsandcheese.com.
    Machine("RTX PRO 6000", 2.015, 188, 2.617, 2048, 1.792, 8.7, (WARPS,)),
]
SHAPES = [(n, n, n) for n in (2048, 4096, 8192, 16384)] + [
    (8192, 4096, 4096), (8192, 14336, 4096), (8192, 28672, 4096), (8192, 4096, 14336), (8192, 8192, 28672),
    (8192, 28672, 8192), (2048, 14336, 4096)]


def cycles(tile, machine=MACHINES[0]):
    """Clocks of the tensor core for a step."""
    macs = 24576 if tile.k == 96 else machine.macs
    return max(LEAST_CLOCKS, tile.rows // tile.ctas * tile.columns * tile.k / macs)


def row_bytes(k):
    return k / 2, k / 16


def step_bytes(tile):
    """What comes into the shared memory of an SM in a step, and is read from there once: its rows of A and of B, their
    scales, and those of the other CTA's columns."""
    codes, scales = row_bytes(tile.k)
    return (tile.rows + tile.columns) / tile.ctas * codes + (tile.rows / tile.ctas + tile.columns) * scales


def l2_bytes(tile):
    codes, scales = row_bytes(tile.k)
    return tile.rows / tile.ctas * (codes + scales) + tile.columns * (codes / tile.ctas + scales) / tile.sharing


def smem_bytes(tile):
    """What is read from shared memory in a step. Four warps, two by two, read each operand twice."""
    return step_bytes(tile) * (2 if tile is WARPS else 1)


def feed(tile, machine=MACHINES[0]):
    return smem_bytes(tile) / cycles(tile, machine)


def stage_bytes(tile):
    return math.ceil(step_bytes(tile) * STAGE_CODE_BYTES / row_bytes(tile.k)[0] / 1024) * 1024


def epilogue_bytes(tile):
    return SMEM_KEPT + SMEM_BOXES


def stages(tile):
    return min(MOST_STAGES, int((SMEM_BLOCK - epilogue_bytes(tile)) // stage_bytes(tile)))


Tmem = collections.namedtuple("Tmem", "accumulator scales shared used")


def tmem(tile):
    """Columns: an accumulator takes one for each column of the tile; the scales of a stage, four copies of 32 lanes,
    one for each 32 rows and word. Two accumulators share what is missing, in chunks of 16."""
    words = STAGE_CODE_BYTES / row_bytes(tile.k)[0] * row_bytes(tile.k)[1] / 4
    scales = math.ceil(words) * (4 + 4 * math.ceil(tile.columns / 128))
    shared = max(0, math.ceil((2 * tile.columns + scales - TMEM_COLUMNS) / 16) * 16)
    return Tmem(tile.columns, scales, shared, 2 * tile.columns - shared + scales)


def waves(tiles, groups):
    """How many tiles the busiest group works on, and the part of the groups' time that is used."""
    n = math.ceil(tiles / groups)
    return n, tiles / (n * groups)


Prediction = collections.namedtuple("Prediction", "tile waves used pflops fraction binds")


def predict(machine, tile, shape):
    m, n, k = shape
    steps = math.ceil(k / tile.k)
    d_bytes = tile.rows // tile.ctas * tile.columns * 2  # bf16
    boxes = 0 if tile is WARPS else 2 * d_bytes  # written to shared memory, and read from there by TMA
    limits = {"tensor core": steps * cycles(tile, machine),
              "shared memory": (steps * smem_bytes(tile) + boxes) / SMEM_PORT,
              "L2": steps * l2_bytes(tile) / l2_per_clock(machine)}
    # Whole clusters: tiles that share B lie one below the other. That clusters of four fill the SMs is ASSUMED.
    groups = machine.sms // (tile.ctas * tile.sharing) * tile.sharing
    row_tiles = math.ceil(m / (tile.rows * tile.sharing)) * tile.sharing
    turns, used = waves(row_tiles * math.ceil(n / tile.columns), groups)
    # Results leave while the next tile is multiplied; memory is shared by all SMs.
    store = d_bytes / (machine.hbm * 1e3 / machine.sms / machine.ghz)
    main = max(limits.values()) + TILE_GAP
    clocks = turns * max(main, store) + FIRST_LOAD + store
    seconds = {"clocks": clocks / (machine.ghz * 1e9),
               "HBM": ((m + n) * k * 9 / 16 + m * n * 2) / (machine.hbm * 1e12)}
    binds = max(limits, key=limits.get) if main > store else "stores"
    if used < 0.85:
        binds += ", waves"
    if seconds["HBM"] > seconds["clocks"]:
        binds = "HBM"
    pflops = 2 * m * n * k / max(seconds.values()) * 1e-15
    return Prediction(tile, turns, used, pflops, pflops / machine.peak, binds)


def l2_per_clock(machine):
    return machine.l2 * 1e3 / machine.sms / machine.ghz


def best(machine, shape):
    return max((predict(machine, tile, shape) for tile in machine.tiles), key=lambda p: p.fraction)


def table(head, rows):
    rows = [[str(c) for c in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def tile_table():
    rows = []
    machine_of = {m.name: m for m in MACHINES}
    for tile, machine in ((TILES["128x128"], "B200"), (TILES["128x256"], "B200"), (TILES["256x256 pair"], "B200"),
                          (MULTICAST, "B200"), (K96, "B300, K = 96 *"), (K96_MULTICAST, "B300, K = 96 *"),
                          (WARPS, "RTX PRO 6000")):
        machine = machine_of[machine]
        known = tile is not WARPS and tile.k == 64  # how K = 96 lies in tensor memory is in figures that we do not have
        t = tmem(tile)
        columns = f"2 x {t.accumulator} - {t.shared} + {t.scales} = {t.used}"
        stage = f"{stages(tile)} x {stage_bytes(tile) / 1024:g} KiB" if known else "2 x 18 KiB" if tile is WARPS else ""
        rows.append([tile.name, f"{cycles(tile, machine):.0f}", f"{feed(tile, machine):.0f}",
                     f"{l2_bytes(tile) / cycles(tile, machine):.0f}", f"{l2_per_clock(machine):.0f}", stage,
                     columns if known else "none" if tile is WARPS else ""])
    return table(["tile", "clocks a step", "B/clk of 128 from shared memory", "B/clk from L2", "L2 gives", "stages",
                  "tensor memory, columns"], rows)


def shape_table():
    rows = []
    for shape in SHAPES:
        row = ["x".join(map(str, shape))]
        for machine in MACHINES:
            p = best(machine, shape)
            row.append(f"{p.pflops:.2f} = {100 * p.fraction:.0f} % ({p.binds})")
        rows.append(row)
    return table(["M x N x K"] + [m.name for m in MACHINES], rows)


def wave_table():
    rows = []
    for shape in SHAPES:
        row = ["x".join(map(str, shape))]
        for machine, tile in ((MACHINES[0], TILES["128x256"]), (MACHINES[0], TILES["256x256 pair"]),
                              (MACHINES[0], MULTICAST), (MACHINES[-1], WARPS)):
            p = predict(machine, tile, shape)
            row.append(f"{p.waves}, {100 * p.used:.0f} % used, {100 * p.fraction:.0f} % of peak")
        rows.append(row)
    return table(["M x N x K", "B200, 128x256", "B200, 256x256 pair", "B200, two share B", "RTX PRO 6000, 128x128"],
                 rows)


COLORS = ["#1b6ca8", "#c0392b", "#7fb3d5", "#e59866", "#27864b"]


def svg():
    """Fraction of peak over M = N = K."""
    width, height, left, top, right, bottom = 780, 420, 62, 40, 220, 56
    sizes = list(range(1024, 16385, 128))

    def x(n):
        return left + (width - left - right) * math.log2(n / 1024) / 4

    def y(fraction):
        return height - bottom - (height - top - bottom) * fraction

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
           'font-size="13">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="22" font-size="15">NVFP4 GEMM, predicted part of dense FP4 peak (never run)</text>']
    for percent in range(0, 101, 20):
        out.append(f'<path d="M{left} {y(percent / 100):.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(percent / 100) + 4:.1f}" text-anchor="end">{percent} %</text>')
    for n in (1024, 2048, 4096, 8192, 16384):
        out.append(f'<path d="M{x(n):.1f} {top}V{height - bottom}" stroke="#eee"/>'
                   f'<text x="{x(n):.1f}" y="{height - bottom + 20}" text-anchor="middle">{n}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">M = N = K</text>')
    labels = []
    for machine, color in zip(MACHINES, COLORS):
        points = [(x(n), y(best(machine, (n, n, n)).fraction)) for n in sizes]
        line = " L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        out.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        labels.append([points[-1][1], machine.name, color])
    labels.sort()
    for i, (at, name, color) in enumerate(labels):
        at = max(at, labels[i - 1][0] + 18) if i else at
        labels[i][0] = at
        out.append(f'<text x="{width - right + 8}" y="{at + 4:.1f}" fill="{color}">{name}</text>')
    return "\n".join([*out, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", help="draw the plot into this file")
    args = parser.parse_args()
    print("* not built\n\nTiles\n\n" + tile_table() +
          "\n\nPredicted PFLOP/s and part of the dense FP4 peak; what binds\n\n" + shape_table() +
          "\n\nWaves: tiles of the busiest CTA or pair, part of all SMs' time that is used\n\n" + wave_table())
    if args.svg:
        with open(args.svg, "w") as file:
            file.write(svg())


if __name__ == "__main__":
    sys.exit(main())

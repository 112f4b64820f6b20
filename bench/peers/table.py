# SPDX-License-Identifier: Apache-2.0
"""What run.py prints; `python3 table.py peers.json` prints it again."""
import json
import sys

COLUMNS = (f"{'':<28}{'kernel':>9}{'of the':>9}{'call,':>9}{'of two':>8}{'call,':>9}   {'differing':<20}"
           f"{'amax by':<26}\n"
           f"{'':<28}{'us':>9}{'ceiling':>9}{'graph us':>9}{'passes':>8}{'eager us':>9}   {'codes, scales':<20}")


def head(report):
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = [f"{report['gpu']}, torch {report['torch']}, triton {report['triton']}; {versions or 'no peer found'}"]
    lines += [f"missing: {name}: {why}" for name, why in report["missing"].items()]
    lines.append("""
kernel: amax given. call: with amax, by whom is said. Both replayed from CUDA graphs; eager: called from Python.
of the ceiling: of a kernel with the same reads and writes and no arithmetic. of two passes: of that and a pass that
only reads. differing: bytes of codes and of scales, or values, that are not fourscale's host result.""")
    return "\n".join(lines)


def shape(rows, cols):
    return f"\n{rows} x {cols} bf16\n"


def number(value, width, digits=0, unit=""):
    return f"{value:>{width - len(unit)}.{digits}f}{unit}" if value is not None else " " * width


def line(row, group):
    if "missing" in row:
        return f"{row['name']:<28} missing: {row['missing']}"
    kernel, call = row["kernel_us"], row.get("call_us")
    of_call = 100 * group["two_pass_us"] / call if call and group["two_pass_us"] else None
    digits = 1 if kernel < 100 else 0
    text = f"{row['name']:<28}{number(kernel, 9, digits)}{number(100 * group['ceiling_us'] / kernel, 9, 0, ' %')}"
    text += f"{number(call, 9, digits)}{number(of_call, 8, 0, ' %')}{number(row.get('call_eager_us'), 9, digits)}   "
    note = f" ({row['note']})" if row["note"] else ""
    return (text + f"{row['differs']:<20}{row['amax_by']}{note}").rstrip()


def group(g):
    two = f", two passes {g['two_pass_us']:.1f} us" if g["two_pass_us"] else ""
    title = f"{g['title']}: {g['bytes_per_value']:g} bytes a value, ceiling {g['ceiling_us']:.1f} us{two}"
    return "\n".join([title, COLUMNS, *(line(r, g) for r in g["rows"]), ""])


def main():
    with open(sys.argv[1]) as f:
        report = json.load(f)
    print(head(report))
    for s in report["shapes"]:
        print(shape(s["rows"], s["cols"]))
        for g in s["groups"]:
            print(group(g))


if __name__ == "__main__":
    main()

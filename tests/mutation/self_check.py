#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The method of mutate.py on a small library: what it must notice, and what it must not. And each table still
fits the headers.

    self_check.py FOLDER COMPILER"""
import subprocess
import sys
from pathlib import Path

import mutate
import planting

LIBRARY = """#pragma once
constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int twice(int a) { int result = a; result += a; return result; }
constexpr int unseen(int a) { return a + 1; }
constexpr int untested(int a) { return a - 1; }
"""
# In place of Catch2, which would take longer to compile than all this takes.
TESTS = r"""#include <cstdio>
#include <cstring>
#include <fourscale/library.hpp>
static_assert(larger(1, 2) == 2 && twice(3) == 6 && unseen(1) == 2);
int zero = 0;
struct test {
  char const* name;
  bool (*holds)();
};
const test tests[] = {{"larger of two", [] { return larger(zero + 1, 2) == 2 && larger(zero + 2, 1) == 2; }},
                      {"twice", [] { return twice(zero + 3) == 6; }},
                      {"unseen: called, and not looked at", [] { return unseen(zero) != 0; }}};
int main(int count, char** arguments) {
  using namespace fourscale_mutation;
  std::FILE* notes = number < 0 ? std::fopen(std::getenv("FOURSCALE_REACHED"), "w") : nullptr;
  std::FILE* names = number < 0 ? nullptr : std::fopen(arguments[count - 1], "r");
  bool all = true;
  char line[100];
  for (test const& t : tests)
    if (notes != nullptr) {
      all = t.holds() && all;
      std::fprintf(notes, "%s\t0.1\t", t.name);
      for (int i = 0; i < most; ++i)
        if (reached[i]) std::fprintf(notes, "%d ", i), reached[i] = false;
      std::fprintf(notes, "\n");
    }
  if (notes != nullptr) std::fclose(notes);
  while (names != nullptr && std::fgets(line, sizeof line, names) != nullptr)
    for (test const& t : tests)
      if (std::strncmp(line, t.name, std::strlen(line) - 1) == 0) all = t.holds() && all;
  return !all;
}
"""
TABLE = """
@ library.hpp
the smaller one
- «a > b» ? a : b
+ a < b
of equal ones the first
- «a > b» ? a : b
+ a >= b
= Of two equal numbers either is the larger one.
nothing is added
- «result += a;»
+
never ends
- «result += a;»
+ for (;;) result ^= 1;
not looked at
- return «a + 1»;
+ a + 2
not tested
- return «a - 1»;
+ a
"""


def expect(what, got, want):
    if got != want:
        sys.exit(f"mutation: {what}: {got}, not {want}")


def check_method(folder, compiler):
    (folder / "include/fourscale").mkdir(parents=True, exist_ok=True)
    (folder / "include/fourscale/library.hpp").write_text(LIBRARY)
    (folder / "table.faults").write_text(TABLE)
    (folder / "tests.cpp").write_text(TESTS)
    faults = planting.read_table(folder / "table.faults")
    planting.plant_headers(folder / "include", folder / "planted", faults)
    subprocess.run([compiler, "-std=c++20", "-I", folder / "planted", "-o", folder / "tests", folder / "tests.cpp"],
                   check=True)
    survivors = mutate.try_all(folder / "tests", faults, say=lambda line: None, least=1)
    expect("survivors", [f.name for f in survivors], ["of equal ones the first", "not looked at", "not tested"])
    said = []
    expect("exit status", mutate.report(faults, survivors, said.append), 1)
    expect("report", [line.split(": ")[-1].split("\n")[0] for line in said[:-1]], ["not looked at", "not tested"])
    expect("exit status without it", mutate.report(faults[:4], survivors[:1], said.append), 0)
    expect("exit status of a wrong proof", mutate.report(faults[:4], [], said.append), 1)
    for pattern, wrong in [("a / b", "`a / b` stands there 0 times, not once"),
                           ("int a", "`int a` stands there 4 times, not once"),
                           ("larger(«int a, int b»)", "several arguments are no expression")]:
        faults[0].pattern = pattern
        try:
            planting.plant_headers(folder / "include", folder / "planted", faults)
            sys.exit(f"mutation: `{pattern}` was not reported as stale")
        except planting.Stale as e:
            expect("stale", str(e), f"library.hpp: {wrong} (the smaller one)")


def check_tables(folder):
    for name, gpu, least in [("cpu", False, 100), ("gpu", True, 40)]:
        faults = planting.read_table(mutate.HERE / f"{name}.faults", gpu)
        planting.plant_headers(mutate.ROOT / "include", folder / name, faults)
        expect(f"{name}.faults: enough", len(faults) >= least, True)
        names = [(f.file, f.name) for f in faults]
        expect(f"{name}.faults: names", sorted(n for n in set(names) if names.count(n) > 1), [])
        expect(f"{name}.faults: no replacement", [f.name for f in faults if not f.pattern], [])


check_method(Path(sys.argv[1]), sys.argv[2])
try:
    check_tables(Path(sys.argv[1]))
except planting.Stale as e:
    sys.exit(f"mutation: a table does not fit the headers any more\n{e}")

# SPDX-License-Identifier: Apache-2.0
"""Faults, and the copy of the headers that has them all, each behind a number.

A table (*.faults) is read line by line:

    @ host/gemm.hpp                      the header
    negative sums lose a bit             what is wrong, in words: the name of the fault
    - if («(error < 0.0) != (x < 0.0)»)  text that stands exactly once in the header, spaces and line breaks aside
    + error < 0.0                        what the part in «» becomes; no «»: all of it. May be empty.
    = why no test can see it             only of a fault that is equivalent: the proof

An expression E becomes (planted(7) ? (E') : (E)), and what ends in ; a statement under if and else. While a
constant expression is evaluated no fault is there: a fault must stand where tests call the function at run time.
"""
import re
from dataclasses import dataclass
from pathlib import Path

HEADER = """\
// Written by tests/mutation/planting.py: which fault is planted; or, for number -1, which ones a test comes to.
#pragma once
#include <cstdlib>
namespace fourscale_mutation {
inline int number_from_environment() {
  char const* text = std::getenv("FOURSCALE_FAULT");
  return text == nullptr ? 0 : std::atoi(text);
}
inline const int number = number_from_environment();
inline constexpr int most = 1000;
inline bool reached[most];
#if defined(__CUDACC__)
#define FOURSCALE_MUTATION_HD __host__ __device__
// One of each in every unit, whose functions for them are called by the listener.
static __device__ int number_on_device;
static __device__ bool reached_on_device[most];
struct unit {
  void (*tell)();
  void (*ask)();
};
inline unit units[most];
inline int unit_count = 0;
static const bool is_counted = [] {
  units[unit_count++] = {[] { cudaMemcpyToSymbol(number_on_device, &number, sizeof number); },
                         [] {
                           static bool from[most], none[most];
                           cudaMemcpyFromSymbol(from, reached_on_device, sizeof from);
                           cudaMemcpyToSymbol(reached_on_device, none, sizeof none);
                           for (int i = 0; i < most; ++i) reached[i] = reached[i] || from[i];
                         }};
  return true;
}();
#else
#define FOURSCALE_MUTATION_HD
#endif
FOURSCALE_MUTATION_HD constexpr bool planted([[maybe_unused]] int n) {
  if (__builtin_is_constant_evaluated()) return false;
#if defined(__CUDA_ARCH__)
  if (number_on_device < 0) reached_on_device[n] = true;
  return number_on_device == n;
#else
  if (number < 0) reached[n] = true;
  return number == n;
#endif
}
FOURSCALE_MUTATION_HD constexpr bool planted_on_device([[maybe_unused]] int n) {
#if defined(__CUDA_ARCH__)
  return planted(n);
#else
  return false;
#endif
}
}  // namespace fourscale_mutation
"""

# Tells a GPU the number, and for number -1 writes a line for each test: its name, its seconds, the faults it came to.
LISTENER = """\
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "support/catch.hpp"
#include <fourscale/planted.hpp>
#if !defined(__CUDA_ARCH__)
#include <chrono>
#include <cstdio>
namespace {
#if FOURSCALE_CATCH2_V3
using listener_base = Catch::EventListenerBase;
std::string const& name_of(Catch::TestCaseStats const& test) { return test.testInfo->name; }
#else
using listener_base = Catch::TestEventListenerBase;
std::string const& name_of(Catch::TestCaseStats const& test) { return test.testInfo.name; }
#endif
using namespace fourscale_mutation;
struct listener : listener_base {
  using listener_base::listener_base;
  std::FILE* out = number < 0 ? std::fopen(std::getenv("FOURSCALE_REACHED"), "w") : nullptr;
  std::chrono::steady_clock::time_point begin;

  void testRunStarting(Catch::TestRunInfo const&) override {
#if defined(__CUDACC__)
    for (int i = 0; number != 0 && i < unit_count; ++i) units[i].tell();
#endif
    note("", 0);  // before any test: while statics are made
  }
  void testCaseStarting(Catch::TestCaseInfo const&) override { begin = std::chrono::steady_clock::now(); }
  void testCaseEnded(Catch::TestCaseStats const& test) override {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    note(name_of(test).c_str(), took.count());
  }
  void testRunEnded(Catch::TestRunStats const&) override {
    if (out != nullptr) std::fclose(out);
  }
  void note(char const* name, double seconds) {
    if (out == nullptr) return;
#if defined(__CUDACC__)
    for (int i = 0; i < unit_count; ++i) units[i].ask();
#endif
    std::fprintf(out, "%s\\t%f\\t", name, seconds);
    for (int i = 0; i < most; ++i)
      if (reached[i]) std::fprintf(out, "%d ", i), reached[i] = false;
    std::fprintf(out, "\\n");
  }
};
CATCH_REGISTER_LISTENER(listener)
}  // namespace
#endif
"""


@dataclass
class Fault:
    number: int
    file: str
    name: str
    condition: str
    pattern: str = ""
    replacement: str = ""
    proof: str = ""


class Stale(Exception):
    """The table does not fit the headers any more."""


def read_table(path, gpu=False):
    """The faults of a table. Those of a GPU leave .hpp files alone on the host, which says what is right."""
    faults, file = [], ""
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        kind, rest = line[:1], line[1:].strip()
        if not line.strip() or kind == "#":
            continue
        if kind == "@":
            file = rest
        elif kind in "-+=" and faults:
            field = {"-": "pattern", "+": "replacement", "=": "proof"}[kind]
            old = getattr(faults[-1], field)
            setattr(faults[-1], field, f"{old} {rest}".strip())
        elif file:
            condition = "planted_on_device" if gpu and file.endswith(".hpp") else "planted"
            faults.append(Fault(len(faults) + 1, file, line.strip(), condition))
        else:
            raise Stale(f"{path}:{number}: a fault before the first @ line")
    return faults


def _regex(pattern):
    """Marks become a group, spaces any space; so does every place where clang-format may break a line."""
    if "«" not in pattern:
        pattern = f"«{pattern}»"
    text = r"\s+".join(re.escape(word) for word in pattern.split())
    return re.compile(text.replace("«", "(").replace("»", ")"), re.DOTALL)


def _span(fault, text):
    found = list(_regex(fault.pattern).finditer(text))
    if len(found) != 1:
        raise Stale(f"{fault.file}: `{fault.pattern}` stands there {len(found)} times, not once ({fault.name})")
    return found[0].span(1)


def _is_list(code):
    """Whether a comma stands outside all brackets, those of templates included."""
    while (inside := re.sub(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|\w<[^<>]*>", "", code)) != code:
        code = inside
    return "," in code


def plant(text, faults):
    """A header's text with all of its faults."""
    spans = {}
    for fault in faults:
        spans.setdefault(_span(fault, text), []).append(fault)
    end_of_last = 0
    for begin, end in sorted(spans):
        if begin < end_of_last:
            raise Stale(f"{faults[0].file}: two faults overlap at `{text[begin:end]}`")
        end_of_last = end
    for (begin, end), here in sorted(spans.items(), reverse=True):
        planted = original = text[begin:end]
        is_statement = original.endswith(";")
        for fault in here:
            condition = f"::fourscale_mutation::{fault.condition}({fault.number})"
            if is_statement:
                planted = f"if ({condition}) {{ {fault.replacement} }} else {{ {planted} }}"
            elif _is_list(original) or _is_list(fault.replacement):
                raise Stale(f"{fault.file}: several arguments are no expression ({fault.name})")
            else:
                planted = f"({condition} ? ({fault.replacement}) : ({planted}))"
        text = text[:begin] + (f"{{ {planted} }}" if is_statement else planted) + text[end:]
    return text.replace("#pragma once\n", '#pragma once\n#include <fourscale/planted.hpp>\n', 1)


def write_if_new(path, content):
    """So that what did not change is not compiled again."""
    content = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def plant_headers(include, to, faults):
    """A copy of the folder `include` in `to`, with the faults in its folder fourscale/."""
    by_file = {}
    for fault in faults:
        by_file.setdefault(fault.file, []).append(fault)
    stale = []
    for file in sorted(p for p in include.rglob("*") if p.is_file()):
        text, name = file.read_text(), file.relative_to(include / "fourscale").as_posix()
        try:
            write_if_new(to / "fourscale" / name, plant(text, by_file[name]) if name in by_file else text)
        except Stale as e:
            stale.append(str(e))
        by_file.pop(name, None)
    stale += [f"{name}: there is no such header" for name in by_file]
    if stale:
        raise Stale("\n".join(stale))
    write_if_new(to / "fourscale" / "planted.hpp", HEADER)

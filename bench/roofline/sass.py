# SPDX-License-Identifier: Apache-2.0
"""Machine code as nvdisasm or cuobjdump prints it, and the instructions of it that a thread executes.

The main path is the shortest path from entry to exit that reads as many bytes of global memory, and makes as many
stores of each width, as a thread with full blocks must: blocks that lie inside cannot be skipped, loops go round as
often as their traffic needs, and what is longer (byte-wise fallbacks, the slow path of a division) is left out. Guarded
instructions count: they take an issue slot either way; so do those of the uniform pipe. Limits: a shortcut that a full
block never takes would be believed (roofline.py --detail shows what was counted); a loop without traffic is counted
once; lanes of a warp that part ways, bank conflicts, replays and stalls are not seen. Compared with ncu's
smsp__inst_executed on an H200 the count was within 5 %.
"""
import collections
import heapq
import re

Instruction = collections.namedtuple("Instruction", "address guard opcode operands line")

LINE = re.compile(r'//## File "([^"]+)", line (\d+)')
CODE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
LABEL = re.compile(r"^([.$\w]+):")
TARGET = re.compile(r"`\(([^)]+)\)|\b(0x[0-9a-f]+)$")
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}

# What executes an instruction.
PIPES = {
    "fma": "FFMA FMUL FADD FFMA2 FMUL2 FADD2 HFMA2 HADD2 HMUL2",
    "imad": "IMAD IDP IMUL",
    "alu": "IADD3 IADD VIADD LOP3 LOP SHF SHL SHR PRMT ISETP FSETP FMNMX FMNMX3 IMNMX VIMNMX VIMNMX3 VHMNMX HMNMX2 "
           "SEL FSEL LEA MOV PLOP3 P2R R2P BMSK SGXT FCHK HSETP2 VOTE CS2R IABS VIADDMNMX FSET",
    "xu": "MUFU F2F F2I I2F I2I POPC FLO BREV FRND I2FP",
    "cvt": "F2FP",
    "lsu": "LDG STG LD ST LDS STS LDGSTS LDSM ATOMS ATOMG ATOM RED REDG SHFL REDUX CREDUX LDL STL LDGDEPBAR DEPBAR",
    "fp64": "DADD DMUL DFMA DSETP",
    "other": "BRA EXIT RET CALL BSSY BSYNC BREAK BAR WARPSYNC YIELD LDC LDCU ULDC S2R S2UR R2UR NANOSLEEP ERRBAR CCTL "
             "MEMBAR ACQBULK JMP VOTEU R2B B2R BMOV PREEXIT",
}
PIPE_OF = {name: pipe for pipe, names in PIPES.items() for name in names.split()}


def pipe(instruction):
    name = instruction.opcode.split(".")[0]
    if name in PIPE_OF:
        return PIPE_OF[name]
    return "uniform" if name.startswith("U") else "other"


def width(opcode):
    return next((WIDTHS[part] for part in opcode.split(".") if part in WIDTHS), 4)


STORES = (1, 2, 4, 8, 16, 32)  # widths in bytes
SHARED = (4, 8, 16)  # widths of loads from shared memory that are counted
NOTHING = (0,) * (1 + len(STORES) + len(SHARED))


def traffic(instruction):
    """(bytes that an instruction reads from global memory, its stores there of 1, 2, 4, ... bytes, its loads from
    shared memory of 4, 8 and 16)."""
    name = instruction.opcode.split(".")[0]
    if instruction.guard == "@!PT":  # ptxas pads with loads that never run
        return NOTHING
    read = width(instruction.opcode) if name in ("LDG", "LD", "LDGSTS") else 0
    stored = width(instruction.opcode) if name in ("STG", "ST") else 0
    shared = width(instruction.opcode) if name == "LDS" else 0
    return (read, *(int(stored == w) for w in STORES), *(int(shared == w) for w in SHARED))


def parse(text):
    """{symbol: Kernel} of the output of `nvdisasm -c`, with or without -g, or of `cuobjdump -sass`."""
    kernels = {}
    for section in re.split(r"^\s*(?:\.section\s+\.text\.|Function : )", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"[^,\s]+", section)[0]
        code, labels, line = [], {}, None
        for row in section.splitlines()[1:]:
            if found := LINE.search(row):
                line = (found[1], int(found[2]))
            elif found := LABEL.match(row):
                labels[found[1]] = len(code)
            elif found := CODE.search(row):
                labels[hex(int(found[1], 16))] = len(code)
                if found[3] != "NOP":
                    code.append(Instruction(int(found[1], 16), found[2], found[3], found[4], line))
        kernels[name] = Kernel(code, labels)
    return kernels


def last_of_block(instruction):
    return instruction.opcode.split(".")[0] in ("BRA", "EXIT", "RET", "CALL", "BRX", "JMX")


class Kernel:
    def __init__(self, code, labels):
        self.code, self.labels, self.called = code, labels, {}
        starts = {0} | {i + 1 for i, x in enumerate(code) if last_of_block(x)}
        starts |= {self.target(x) for x in code if x.opcode.split(".")[0] in ("BRA", "CALL")}
        self.starts = sorted(s for s in starts if s < len(code))
        self.end = dict(zip(self.starts, [*self.starts[1:], len(code)]))
        self.traffic = {s: tuple(map(sum, zip(*map(traffic, code[s:self.end[s]])))) for s in self.starts}

    def target(self, instruction):
        found = TARGET.search(instruction.operands)
        return self.labels[found[1] or found[2]]

    def successors(self, start):
        """Pairs (next block, instructions of a called function); next block None: the end."""
        last, after = self.code[self.end[start] - 1], self.end[start]
        name = last.opcode.split(".")[0]
        if name in ("BRX", "JMX"):
            raise ValueError(f"{last.opcode} is not followed")
        if name in ("EXIT", "RET"):
            return [(None, ())] + ([(after, ())] if last.guard else [])
        if name == "CALL":
            return [(after, self.function(self.target(last)))]
        if name == "BRA":
            if ".DIV" in last.opcode:  # only if the lanes of a warp have parted
                return [(after, ())]
            conditional = last.guard or not last.operands.startswith(("`", "0x"))
            return [(self.target(last), ())] + ([(after, ())] if conditional else [])
        return [(after, ())]

    def function(self, start):
        if start not in self.called:
            self.called[start] = self.shortest(start)
        return self.called[start]

    def shortest(self, start=0):
        """The instructions of the shortest path, in order."""
        return min(self.paths(start, None).values(), key=len)

    def path(self, read, stores, shared=None):
        """The shortest path with this traffic, or None. `stores` and `shared`: {width: how many}; any loads from shared
        memory if that is None."""
        wanted = (read, *(stores.get(w, 0) for w in STORES), *(shared.get(w, 0) if shared else 0 for w in SHARED))
        return self.paths(0, wanted, shared is not None).get(wanted)

    def paths(self, start, most, count_shared=False):
        """{traffic: the shortest path}, of all with no more traffic than `most`; the shortest alone if that is None."""
        counted = len(NOTHING) if count_shared else 1 + len(STORES)
        queue, came_from, done, ends, count = [(0, 0, (start, NOTHING))], {}, set(), {}, 0
        while queue:
            cost, _, state = heapq.heappop(queue)
            block, made = state
            if state in done:
                continue
            done.add(state)
            if block is None:
                ends[made] = self.walk(state, came_from)
                continue
            if most:
                made = tuple(m + t * (i < counted) for i, (m, t) in enumerate(zip(made, self.traffic[block])))
                if any(m > limit for m, limit in zip(made, most)):
                    continue
            for after, called in self.successors(block):
                to, count = (after, made), count + 1
                price = cost + self.end[block] - block + len(called)
                if to not in done and (to not in came_from or price < came_from[to][0]):
                    came_from[to] = (price, state, called)
                    heapq.heappush(queue, (price, count, to))
        return ends

    def walk(self, state, came_from):
        parts = []
        while state in came_from:
            _, state, called = came_from[state]
            parts.append([*self.code[state[0]:self.end[state[0]]], *called])
        return [x for part in reversed(parts) for x in part]

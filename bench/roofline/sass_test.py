#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counting of sass.py and the arithmetic of roofline.py and gemm.py, on machine code and figures that were counted
by hand."""
import unittest

import gemm
import roofline
import sass

# Reads 32 bytes in a loop that goes round twice and writes 9. In addition: an early exit, a path that writes
# only a zero, a call that is longer than going without, a branch for warps whose lanes have parted, and NOPs
# behind the end.
NVDISASM = """
	.section	.text._Zkernel,"ax",@progbits
.text._Zkernel:
	//## File "/x/kernel.cuh", line 7
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   ISETP.GE.AND P0, PT, R0, UR4, PT ;
        /*0020*/              @P0 EXIT ;
        /*0030*/                   BRA.U !UP0, `(.L_x_3) ;
.L_x_0:
	//## File "/x/kernel.cuh", line 9
        /*0040*/                   LDG.E.128.CONSTANT R4, desc[UR6][R2.64] ;
        /*0050*/                   IADD3 R2, P1, PT, R2, 0x10, RZ ;
        /*0060*/              @P1 BRA `(.L_x_0) ;
        /*0070*/                   BRA.DIV ~URZ, `(.L_x_4) ;
        /*0080*/             @!P2 CALL.REL.NOINC `(.L_x_5) ;
.L_x_1:
        /*0090*/                   F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R4, R5, R4, RZ ;
        /*00a0*/                   LDS.128 R8, [R9] ;
        /*00b0*/                   STG.E.64 desc[UR6][R2.64], R4 ;
        /*00c0*/                   STG.E.U8 desc[UR6][R2.64], R6 ;
        /*00d0*/                   UMOV UR4, 0x400 ;
        /*00e0*/                   EXIT ;
.L_x_3:
        /*00f0*/                   STG.E.U8 desc[UR6][R2.64], RZ ;
        /*0100*/                   EXIT ;
.L_x_4:
        /*0110*/                   MUFU.RCP R1, R1 ;
        /*0120*/                   BRA `(.L_x_1) ;
.L_x_5:
        /*0130*/                   MUFU.RCP R1, R1 ;
        /*0140*/                   RET.REL.NODEC R20 `(_Zkernel) ;
        /*0150*/                   NOP ;
	.section	.text._Zother,"ax",@progbits
.text._Zother:
        /*0000*/                   EXIT ;
"""
# A call of five instructions or two without; behind the branch that is always taken there would be a shorter way still.
CHOICE = """
	.section	.text._Zchoice,"ax",@progbits
        /*0000*/               @P0 BRA `(.L_x_1) ;
        /*0010*/                   CALL.REL.NOINC `(.L_x_3) ;
        /*0020*/                   BRA `(.L_x_2) ;
.L_x_1:
        /*0030*/                   FADD R1, R1, R2 ;
        /*0040*/                   FADD R1, R1, R3 ;
        /*0050*/                   BRA `(.L_x_4) ;
        /*0060*/                   STG.E.U8 [R2], R1 ;
        /*0070*/                   EXIT ;
.L_x_4:
        /*0080*/                   MOV R4, R1 ;
.L_x_2:
        /*0084*/                   STG.E.U8 [R2], R1 ;
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   FMUL R1, R1, R2 ;
        /*00b0*/                   FMUL R1, R1, R2 ;
        /*00c0*/                   FMUL R1, R1, R2 ;
        /*00d0*/                   FMUL R1, R1, R2 ;
        /*00e0*/                   RET.REL.NODEC R20 `(_Zchoice) ;
"""
# By hand: 0000-0030 four, 0040-0060 three twice, 0070, 0080 and the two of the call, 0090-00e0 six.
BY_HAND = 4 + 2 * 3 + 1 + 1 + 2 + 6


def as_cuobjdump(text):
    """The same as cuobjdump prints it: addresses for labels, and the encoding after each instruction."""
    labels, address, rows = {}, 0, []
    for line in text.splitlines():
        if found := sass.CODE.search(line):
            address = int(found[1], 16)
        elif line.startswith(".L"):
            labels[line.rstrip(":")] = hex(address + 16)
    for line in text.splitlines():
        for name, where in labels.items():
            line = line.replace(f"`({name})", where)
        if ".section" in line:
            rows.append("\t\tFunction : " + line.split(".text.")[1].split(",")[0])
        elif sass.CODE.search(line):
            rows.append(line + "   /* 0x0000000000007918 */\n                 /* 0x000fc00000000000 */")
    return "\n".join(rows)


class Counting(unittest.TestCase):
    def check(self, text):
        kernels = sass.parse(text)
        self.assertEqual(list(kernels), ["_Zkernel", "_Zother"])
        kernel = kernels["_Zkernel"]
        path = kernel.path(32, {8: 1, 1: 1})
        self.assertEqual(len(path), BY_HAND)
        self.assertEqual(sum(x.opcode.startswith("LDG") for x in path), 2)
        self.assertEqual([sass.pipe(x) for x in path].count("uniform"), 1)
        self.assertEqual([sass.pipe(x) for x in path].count("cvt"), 1)
        self.assertNotIn("NOP", [x.opcode for x in kernel.code])
        self.assertEqual(len(kernel.path(16, {8: 1, 1: 1})), BY_HAND - 3)
        self.assertEqual(len(kernel.path(32, {8: 1, 1: 1}, {16: 1})), BY_HAND)
        self.assertIsNone(kernel.path(32, {8: 1, 1: 1}, {}))
        self.assertEqual(len(kernel.path(0, {1: 1})), 4 + 2)
        self.assertEqual(len(kernel.shortest()), 3)  # the early exit
        for read, stores in ((24, {8: 1, 1: 1}), (32, {8: 1}), (32, {8: 1, 1: 2}), (32, {1: 9}), (32, {})):
            self.assertIsNone(kernel.path(read, stores))

    def test_a_called_function_costs_its_instructions(self):
        path = sass.parse(CHOICE)["_Zchoice"].path(0, {1: 1})
        self.assertEqual([x.opcode for x in path], ["BRA", "FADD", "FADD", "BRA", "MOV", "STG.E.U8", "EXIT"])

    def test_what_nvdisasm_prints(self):
        self.check(NVDISASM)
        self.assertEqual(sass.parse(NVDISASM)["_Zkernel"].code[4].line, ("/x/kernel.cuh", 9))

    def test_what_cuobjdump_prints(self):
        self.check(as_cuobjdump(NVDISASM))

    def test_bytes_of_an_access(self):
        for text, read, stored in (("LDG.E.U8", 1, 0), ("LDG.E", 4, 0), ("LDG.E.ENL2.256", 32, 0), ("STG.E.U16", 0, 2),
                                   ("LDGSTS.E.BYPASS.128", 16, 0), ("STS.128", 0, 0), ("ST.E.64", 0, 8)):
            found = sass.traffic(sass.Instruction(0, None, text, "", None))
            self.assertEqual(found, (read, *(int(w == stored) for w in sass.STORES), *(0 for _ in sass.SHARED)), text)
        self.assertEqual(sass.traffic(sass.Instruction(0, None, "LDS.U.128", "", None))[-3:], (0, 0, 1))
        self.assertEqual(sass.traffic(sass.Instruction(0, "@!PT", "LDS", "RZ, [RZ]", None)), sass.NOTHING)

    def test_a_jump_that_nobody_can_follow_is_refused(self):
        with self.assertRaises(ValueError):
            sass.parse(NVDISASM.replace("@P0 EXIT", "BRX R0 -0x10"))["_Zkernel"].shortest()


class MainPath(unittest.TestCase):
    def test_a_loop_of_other_stores_does_not_stand_in(self):
        # Two rounds of a short loop write as many bytes as the long way, in other pieces.
        text = NVDISASM.replace("@P0 EXIT", "@P0 BRA `(.L_x_3)")
        text = text.replace("STG.E.U8 desc[UR6][R2.64], RZ", "STG.E.64 [R2], R4")
        kernel = sass.parse(text)["_Zkernel"]
        self.assertEqual(len(kernel.path(32, {8: 1, 1: 1})), BY_HAND)
        self.assertEqual(len(kernel.path(0, {8: 1})), 3 + 2)

    def test_warps_that_do_unlike_things_are_averaged(self):
        kernels = sass.parse(NVDISASM)
        what = roofline.row("x", ["_Zkernel"], elements=32, read=32, stores=({8: 1, 1: 1}, {8: 1, 1: 1}), amaxes=0)
        paths, error = roofline.main_paths(kernels, what)
        self.assertIsNone(error)
        self.assertEqual(roofline.per_element(32, paths), BY_HAND / 32)
        self.assertEqual(roofline.per_element(32, [paths[0], paths[0][:10]]), (BY_HAND + 10) / 64)

    def test_what_cannot_be_found_is_said(self):
        paths, error = roofline.main_paths(sass.parse(NVDISASM), roofline.row("x", ["_Zkernel"], stores=({16: 1},)))
        self.assertIsNone(paths)
        self.assertIn("no path reads 128 bytes", error)

    def test_a_kernel_that_is_not_there_is_said(self):
        found, error = roofline.main_paths(sass.parse(NVDISASM), roofline.row("x", ["_Znothing"]))
        self.assertIsNone(found)
        self.assertIn("no kernel has all of _Znothing", error)


class Bounds(unittest.TestCase):
    def test_issue_slots_and_memory(self):
        h200 = roofline.MACHINES[0]
        issue, memory = roofline.bounds(h200, 16, 2.5625)
        self.assertAlmostEqual(issue, 132 * 1.98e9 * 4 * 32 / 16 * 1e-12)
        self.assertAlmostEqual(memory, 4.8 / 2.5625)

    def test_bytes_of_a_table_row(self):
        size = {r.name: roofline.bytes_per_element(r) for r in roofline.ROWS}
        self.assertEqual(size["amax"], 2)
        self.assertEqual(size["NVFP4 rowwise, nearest"], 2 + 1 / 2 + 1 / 16)
        self.assertEqual(size["NVFP4 both, nearest"], 2 + 2 * (1 / 2 + 1 / 16))
        self.assertEqual(size["NVFP4 columnwise, nearest"], 2 + 1 / 2 + 1 / 16)
        self.assertEqual(size["MXFP8 rowwise"], 2 + 1 + 1 / 32)
        self.assertEqual(size["NVFP4 dequantize"], 2 + 1 / 2 + 1 / 16)

    def test_no_two_rows_share_a_name(self):
        self.assertEqual(len({r.name for r in roofline.ROWS}), len(roofline.ROWS))


class Gemm(unittest.TestCase):
    def test_operand_feed_of_the_tiles(self):
        one, pair, small = gemm.TILES["128x256"], gemm.TILES["256x256 pair"], gemm.Tile("128x128", 1, 128, 128)
        self.assertEqual((gemm.cycles(one), gemm.cycles(small), gemm.cycles(pair)), (128, 64, 128))
        self.assertAlmostEqual(gemm.feed(one), (128 * 32 + 256 * 32 + 384 * 4) / 128)  # 108
        self.assertAlmostEqual(gemm.feed(small), 144)
        self.assertAlmostEqual(gemm.feed(pair), (128 * 32 + 128 * 32 + 128 * 4 + 256 * 4) / 128)  # 76

    def test_a_copy_of_b_for_two_pairs(self):
        self.assertAlmostEqual(gemm.l2_bytes(gemm.TILES["128x256"]), gemm.step_bytes(gemm.TILES["128x256"]))
        self.assertAlmostEqual(gemm.l2_bytes(gemm.MULTICAST), 128 * 36 + (128 * 32 + 256 * 4) / 2)

    def test_stages_fill_shared_memory_and_no_more(self):
        for tile in gemm.TILES.values():
            left = gemm.SMEM_BLOCK - gemm.epilogue_bytes(tile) - gemm.stages(tile) * gemm.stage_bytes(tile)
            self.assertTrue(0 <= left < gemm.stage_bytes(tile))

    def test_tensor_memory(self):
        for tile in gemm.TILES.values():
            self.assertLessEqual(gemm.tmem(tile).used, 512)

    def test_waves(self):
        self.assertEqual(gemm.waves(148, 148), (1, 1.0))
        self.assertEqual(gemm.waves(149, 148), (2, 149 / 296))

    def test_nothing_exceeds_the_peak(self):
        for machine in gemm.MACHINES:
            for shape in gemm.SHAPES:
                best = gemm.best(machine, shape)
                self.assertTrue(0 < best.fraction <= 1)


if __name__ == "__main__":
    unittest.main()

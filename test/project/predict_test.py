"""predict.py without llvm-mca: loops in a disassembly, what instructions compute, the command with our own cores."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import predict

# As GNU objdump writes it, and llvm-objdump: two nested loops and one beside them.
GNU = """
0000000000000000 <qn_gemm_f32_8x8_neon>:
   0:	bti	c
   4:	ldr	x8, [sp]
   8:	b.cc	10 <qn_gemm_f32_8x8_neon+0x10>  // b.lo, b.ul, b.last
   c:	fmla	v16.4s, v8.4s, v0.s[0]
  10:	fmla	v17.4s, v8.4s, v0.s[0]
  14:	subs	x16, x16, #0x10
  18:	b.cs	c <qn_gemm_f32_8x8_neon+0xc>  // b.hs, b.nlast
  1c:	tbz	w1, #2, 24 <qn_gemm_f32_8x8_neon+0x24>
  20:	ldr	s0, [x3], #4
  24:	cbnz	x1, 1c <qn_gemm_f32_8x8_neon+0x1c>
  28:	b	4 <qn_gemm_f32_8x8_neon+0x4>
  2c:	ret

0000000000000030 <other>:
  30:	b	0 <qn_gemm_f32_8x8_neon>
"""
LLVM = GNU.replace("//", ";").replace("b.cs	c", "b.hs	0xc").replace("\tcbnz	x1, 1c", "\tcbnz	x1, 0x1c")


class Disassembly(unittest.TestCase):
    def test_loops(self):
        for text in (GNU, LLVM):
            (name, instructions), (other, rest) = predict.parse_disassembly(text)
            self.assertEqual((name, other), ("qn_gemm_f32_8x8_neon", "other"))
            loops = predict.innermost_loops(name, instructions)
            shapes = [(loop.address, len(loop.lines), loop.branches) for loop in loops]
            self.assertEqual(shapes, [(12, 4, 0), (28, 3, 1)])
            self.assertEqual(loops[0].lines[:3], ["fmla v16.4s, v8.4s, v0.s[0]", "fmla v17.4s, v8.4s, v0.s[0]",
                                                  "subs x16, x16, #0x10"])
            self.assertEqual(predict.main_loop(loops), loops[0])
            self.assertEqual(predict.innermost_loops(other, rest), [])

    def test_skipped_calls(self):
        text = """
0000000000000000 <f>:
   0:	tbz	w9, #31, 8 <f+0x8>
   4:	bl	20 <g>
   8:	bl	20 <g>
   c:	b.ne	0 <f>
"""
        (loop,) = predict.innermost_loops(*predict.parse_disassembly(text)[0])
        self.assertEqual(loop.lines, ["tbz w9, #31, 8", "bl 20", "b.ne 0"])

    def test_calls_and_jumps(self):
        text = GNU.replace("  10:	fmla	v17.4s, v8.4s, v0.s[0]", "  10:	bl	20 <f+0x20>").replace(
            "  28:	b	4", "  28:	ret\n  2a:	b	4")
        functions = predict.parse_disassembly(text)
        loops = predict.loops_of(*functions[0], functions)
        self.assertEqual(loops[0].lines, ["fmla v16.4s, v8.4s, v0.s[0]", "ldr s0, [x3], #4", "cbnz x1, 1c",
                                          "subs x16, x16, #0x10", "b.cs c"])
        lent = predict.loops_of(*functions[1], functions)
        self.assertEqual([loop.function for loop in lent], ["other", "other"])
        self.assertEqual([loop.lines for loop in lent], [loop.lines for loop in loops])

    def test_main_loop(self):
        def loop(number, lines):
            return predict.Loop("f", number, 0, lines, 0)
        short, long = loop(0, ["nop"]), loop(1, ["nop"] * 2)
        work, same = loop(2, ["fmla v0.4s, v1.4s, v2.4s"]), loop(3, ["fmla v0.4s, v1.4s, v2.4s", "nop"])
        self.assertEqual(predict.main_loop([short, long]), long)
        self.assertEqual(predict.main_loop([short, long, work, same]), work)
        self.assertEqual(predict.main_loop([loop(0, work.lines * 2 + ["bl 0"]), work]), work)
        self.assertIsNone(predict.main_loop([]))

    def test_labels(self):
        lines = ["cbnz x1, 1c", "tbz w1, #2, 0x24", "b.cs c", "b 4", "bic v0.16b, v1.16b, v2.16b", "bfi x0, x1, #1, #2"]
        self.assertEqual(predict.plain(lines), "loop:\ncbnz x1, loop\ntbz w1, #2, loop\nb.cs loop\nb loop\n"
                         "bic v0.16b, v1.16b, v2.16b\nbfi x0, x1, #1, #2\n")


class Instructions(unittest.TestCase):
    def test_macs(self):
        for line, wanted in [
                ("fmla v16.4s, v8.4s, v0.s[0]", 4), ("fmls v16.2d, v8.2d, v0.2d", 2),
                ("fmla v1.8h, v2.8h, v3.h[1]", 8), ("fmlal v0.4s, v1.4h, v2.h[0]", 4),
                ("fmadd s0, s1, s2, s3", 1), ("fmla s0, s1, v2.s[1]", 1),
                ("smlal2 v0.4s, v1.8h, v2.h[0]", 4), ("sdot v0.4s, v1.16b, v2.4b[0]", 16),
                ("usdot v0.2s, v1.8b, v2.8b", 8), ("smmla v0.4s, v1.16b, v2.16b", 32),
                ("bfdot v0.4s, v1.8h, v2.8h", 8), ("bfmmla v0.4s, v1.8h, v2.8h", 16),
                ("smull v0.8h, v1.8b, v2.8b", 8), ("smlal2 v0.8h, v1.16b, v2.16b", 8),
                ("umull2 v0.4s, v1.8h, v2.8h", 4), ("smull x0, w1, w2", 0), ("sadalp v0.4s, v1.8h", 0),
                ("fmul v0.4s, v1.4s, v2.4s", 0), ("madd x0, x1, x2, x3", 0), ("add v0.4s, v1.4s, v2.4s", 0),
                ("fmla z0.s, p0/m, z1.s, z2.s", 0)]:
            self.assertEqual(predict.macs(line), wanted, line)

    def test_peak_loop(self):
        lines = ["fmla v16.4s, v8.4s, v7.s[0]", "fmla v17.4s, v9.4s, v7.s[0]", "fmla v0.4s, v1.4s, v2.4s", "nop"]
        peak = predict.peak_loop(lines)
        self.assertEqual(len(peak), 24)
        self.assertEqual((peak[0], peak[-1]), ("fmla v8.4s, v1.4s, v1.s[0]", "fmla v31.4s, v1.4s, v1.s[0]"))
        self.assertEqual(predict.peak_loop(["fmadd s0, s1, s2, s3"])[1], "fmadd s9, s1, s1, s9")
        self.assertEqual(predict.peak_loop(["smull v16.8h, v0.8b, v4.8b"])[1], "smull v9.8h, v1.8b, v1.8b")
        self.assertEqual(predict.peak_loop(["nop"]), [])

    def test_without_updates(self):
        lines = ["ldr q0, [x3], #16", "ld1 {v0.4s, v1.4s}, [x3], x4", "ldr d0, [x3, #-8]!", "str q0, [x3], #16",
                 "ldr q0, [x3]"]
        self.assertEqual(predict.without_updates(lines), [
            "ldr q0, [x3]", "add x3, x3, #16", "ld1 {v0.4s, v1.4s}, [x3]", "add x3, x3, x4",
            "ldr d0, [x3, #-8]", "sub x3, x3, #8", "str q0, [x3], #16", "ldr q0, [x3]"])

    def test_alone(self):
        lines = ["ldp q1, q17, [x1, #32]", "ldr x9, [x1]", "fmul v1.4s, v2.4s, v17.4s", "mov v3.16b, v1.16b",
                 "bit v1.16b, v2.16b, v3.16b", "add x1, x1, #64", "str q1, [x2, x3]", "b.ne 0"]
        self.assertEqual(predict.alone(lines), [
            "ldp q0, q1, [x1, #32]", "fmul v2.4s, v24.4s, v25.4s", "bit v3.16b, v24.16b, v25.16b", "str q24, [x2, x3]"])

    def test_unit_name(self):
        self.assertEqual([predict.unit_name(name) for name in ("N2UnitS.\x00", "N2UnitS.\n", "V1UnitL2", "A57UnitW")],
                         ["S0", "S10", "L2", "W"])


class Command(unittest.TestCase):
    def run_command(self, *arguments):
        out = io.StringIO()
        with mock.patch("sys.argv", ["predict.py", *arguments]), contextlib.redirect_stdout(out):
            predict.main()
        return out.getvalue()

    def setUp(self):
        self.disassemble = mock.patch("predict.disassemble", lambda path: predict.parse_disassembly(GNU))
        self.disassemble.start()
        self.addCleanup(self.disassemble.stop)

    def test_row(self):
        text = self.run_command("some.o", "--cores", "a53,a55")
        self.assertIn("qn_gemm_f32_8x8_neon loop 0: 4 instructions, 8 MACs\n", text)
        self.assertRegex(text, r"cortex-a53 +4.00 cycles +2.00 MAC/cycle +50.0%")

    def test_bound(self):
        text = self.run_command("some.o", "--cores", "a53", "--bound")
        self.assertRegex(text, r"cortex-a53 +4.00 cycles .*; bound 2.00 cycles")
        self.assertIn("| 4 / 2 |", self.run_command("some.o", "--cores", "a53", "--bound", "--table"))

    def test_list(self):
        text = self.run_command("some.o", "--function", "gemm", "--list")
        self.assertEqual(len(text.splitlines()), 2)
        self.assertIn("1c  qn_gemm_f32_8x8_neon loop 1: 3 instructions, 0 MACs, 1 branches inside", text)

    def test_loop(self):
        text = self.run_command("some.o", "--loop", "1", "--cores", "a53", "--json")
        loop = json.loads(text)["loops"][0]
        self.assertEqual((loop["loop"], loop["macs"], loop["cores"][0]["percent_of_peak"]), (1, 0, None))

    def test_table(self):
        lines = self.run_command("some.o", "--cores", "a53,a55", "--table").splitlines()
        self.assertEqual(lines[0], "| kernel, its main loop | MACs | A53 | A55 |")
        self.assertEqual(lines[2], "| `qn_gemm_f32_8x8_neon` | 8 | 50 | 50 |")

    def test_source(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "loop.s")
            path.write_text("// ours\n1:\tldr q2, [x0], #16  // two cycles\n loop:\n FMLA v16.4s, v1.4s, v0.s[0]\n"
                            " b.ne 1b\n")
            text = self.run_command("--source", str(path), "--cores", "a55")
        self.assertIn("3 instructions, 4 MACs", text)
        self.assertRegex(text, r" 4.00 cycles .*load 2, wait 1, float mac 1 ")  # the accumulator's chain

    def test_faults(self):
        for option, value, words in (("--cores", "pentium", "no core"), ("--function", "none", "no such loop")):
            with self.assertRaisesRegex(predict.Error, words):
                self.run_command("some.o", option, value)
        predict.find_mca.cache_clear()
        with mock.patch.dict("os.environ", {"LLVM_MCA": "no-such-tool"}):
            with self.assertRaisesRegex(predict.Error, "no-such-tool"):
                predict.find_mca()

    def test_rows(self):
        self.assertIn("qn_gemm_f32_8x8_neon", predict.rows())


if __name__ == "__main__":
    unittest.main()

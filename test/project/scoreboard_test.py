"""scoreboard.py on loops whose cycles are counted by hand."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import scoreboard
from scoreboard import A53, A55


def fmlas(count):
    """Multiply-adds to v8 ... v27 in turn, of factors that nothing here writes."""
    return [f"fmla v{8 + index % 20}.4s, v30.4s, v31.s[0]" for index in range(count)]


def mix(*sequences):
    """One of each sequence in turn, while it lasts."""
    longest = max(len(sequence) for sequence in sequences)
    return [sequence[index] for index in range(longest) for sequence in sequences if index < len(sequence)]


class Scoreboard(unittest.TestCase):
    def cycles(self, lines, a53, a55=None, late_loads=False):
        for core, wanted in ((A53, a53), (A55, a53 if a55 is None else a55)):
            with self.subTest(core=core.name, loop=lines[:4]):
                self.assertAlmostEqual(scoreboard.cycles(lines, core, late_loads), wanted, delta=0.01)

    def test_issue(self):
        self.cycles(["add x0, x0, #1", "add x1, x1, #1"], 1)
        self.cycles(["add x0, x0, #1", "add x0, x0, #1"], 2)
        self.cycles(["add x0, x0, #1"] * 3 + ["nop"], 3)
        self.cycles(["add x0, x0, #1", "add x1, x1, #1", "b 0"], 2)  # nothing behind the branch joins it
        self.cycles(["mul x0, x1, x2", "mul x3, x1, x2"], 2)
        self.cycles(["mul x0, x1, x2", "add x3, x1, x2"], 1)
        self.cycles(["subs x0, x0, #1", "nop", "b.ne 0", "nop"], 2)
        self.cycles(["subs x0, x0, #1", "b.ne 0"], 2)  # flags are there a cycle later

    def test_multiply_add(self):
        self.cycles(fmlas(16), 16)
        self.cycles([line.replace(".4s", ".2s") for line in fmlas(16)], 8)
        self.cycles(["fmla v8.4s, v0.4s, v1.4s"], 4)
        self.cycles(fmlas(3), 4)  # the chain is longer than the three
        self.cycles(["fmla v8.4s, v0.4s, v9.4s", "fmla v9.4s, v0.4s, v8.4s"], 16, 8)  # results as factors
        self.cycles(["fmadd s0, s1, s2, s0"], 4)
        self.cycles(["fmadd s0, s0, s2, s1"], 8, 4)
        self.cycles(["sdot v8.4s, v0.16b, v1.16b"], 1)
        self.cycles(["sdot v8.4s, v0.16b, v1.4b[0]", "sdot v8.4s, v0.16b, v1.4b[1]"], 2)
        self.cycles(["smlal v8.4s, v8.4h, v1.4h"], 4)
        self.cycles(["smmla v8.4s, v0.16b, v1.16b", "smmla v9.4s, v0.16b, v1.16b"], 2)
        self.cycles(["fmla v8.8h, v0.8h, v1.h[0]"] + ["fmla v9.8h, v0.8h, v1.h[0]"], 4)

    def test_integer_products(self):
        product = ["smull v8.8h, v0.8b, v1.8b", "smlal2 v8.8h, v0.16b, v1.16b"]
        self.cycles(product, 2)  # the accumulator's chain is short, and smull begins another
        self.cycles(["sadalp v9.4s, v8.8h"], 4)  # reads what it wrote
        self.cycles(product + ["sadalp v9.4s, v8.8h", "b 0"], 6)  # 1 from smull to smlal2, 4 to sadalp, and its own
        channels = [f"smull v{row}.8h, v0.8b, v1.8b" for row in range(8, 12)]
        channels += [f"smlal v{row}.8h, v2.8b, v3.8b" for row in range(8, 12)]
        channels += [f"sadalp v{12 + row}.4s, v{row}.8h" for row in range(8, 12)]
        self.cycles(channels, 12)  # four rows in turn never wait
        self.cycles(["smull x0, w1, w2", "add x3, x3, #1"], 1)  # of general registers

    def test_arithmetic(self):
        self.cycles(["fmax v0.4s, v0.4s, v1.4s"], 4)
        self.cycles(["fadd v0.4s, v1.4s, v2.4s", "fmla v3.4s, v1.4s, v0.4s"], 5, 5)  # 4 to the factor, and its own
        self.cycles(["mov v0.16b, v0.16b"], 3, 2)
        self.cycles(["bit v0.16b, v1.16b, v2.16b"], 3, 2)  # keeps bits of v0
        self.cycles(["bic v0.16b, v1.16b, v2.16b"], 1)
        self.cycles(["mov v0.s[1], v1.s[0]"], 3, 2)
        self.cycles(["umov w0, v1.s[0]", "ins v1.s[0], w0"], 7, 5)

    def test_divisions(self):
        division = "fdiv v0.4s, v8.4s, v9.4s"
        self.cycles([division], 14, 10)
        self.cycles([division, "add v3.4s, v4.4s, v5.4s"], 14, 10)  # waits for nothing
        self.cycles([division, "fadd v8.4s, v0.4s, v9.4s"], 22, 17)  # a chain

    def test_loads(self):
        self.cycles(["ldr x0, [x1]", "ldr x2, [x1, #8]"], 2)
        self.cycles(["ldr q0, [x1], #16"], 2)
        self.cycles(["ldr q0, [x1], #16", "add x2, x2, #1"], 3)
        self.cycles(["ld1 {v0.4s}, [x1], #16"], 2)
        self.cycles(["ld1 {v2.4s, v3.4s}, [x1], #32"], 4)
        self.cycles(["ld1 {v2.4s-v3.4s}, [x1], x7"], 4)
        self.cycles(["ldp q0, q1, [x1]", "ldp d2, d3, [x1]", "ldp x2, x3, [x1]", "ldp w2, w3, [x1]"], 4 + 2 + 2 + 1)
        self.cycles(["ld1r {v0.4s}, [x1], #4", "add x2, x2, #1"], 1)
        self.cycles(["str q0, [x1], #16", "add x2, x2, #1"], 1)
        self.cycles(["stp q0, q1, [x1], #32", "add x2, x2, #1"], 3)
        self.cycles(["str q0, [x1], #16", "ldr x2, [x3]"], 2)
        self.cycles(["str q0, [x1]", "mov v8.16b, v9.16b"], 2)

    def test_load_to_use(self):
        # The branch keeps the next load from joining the last instruction.
        self.cycles(["ldr x0, [x1]", "add x2, x2, x0", "b 0"], 2 + 1, 3 + 1)
        self.cycles(["ldr x0, [x1]", "ins v2.d[1], x0", "b 0"], 4, 3)
        self.cycles(["ldr x0, [x1]", "str x0, [x2]", "b 0"], 4, 3)
        self.cycles(["ldr x0, [x0]"], 3, 2)
        self.cycles(["ldr d0, [x1]", "fadd v2.2s, v0.2s, v0.2s", "b 0"], 5, 4)
        self.cycles(["ldr q0, [x1]", "fadd v2.4s, v0.4s, v0.4s", "b 0"], 6, 5)
        self.cycles(["add x1, x2, x3", "ldr x0, [x1]", "b 0"], 4, 3)  # addresses are needed early
        self.cycles(["add x1, x2, x3", "add x0, x1, #1", "b 0"], 2)
        self.cycles(["ldr x0, [x1, #8]!"], 1)
        self.cycles(["ldr d0, [x1]", "ld1 {v0.d}[1], [x2]", "ldr d0, [x3]"], 6, 5)  # the lane's load merges

    def test_multiply_adds_beside_loads(self):
        self.cycles(mix(fmlas(12), ["ldr q2, [x0], #16"] * 4), 12 + 8)
        self.cycles(mix(fmlas(12), ["ldr d2, [x0], #8"] * 4), 12 + 4, 12)
        self.cycles(mix(fmlas(12), ["ldr x2, [x0], #8"] * 4), 12)
        self.cycles(mix(fmlas(12), ["ldp x2, x3, [x0], #16"] * 4), 12 + 8)
        self.cycles(mix(fmlas(12), ["add x0, x0, #8"] * 4), 12)
        self.cycles(mix(fmlas(12), [f"ins v{lane}.d[1], x2" for lane in range(4)]), 12 + 4, 12)
        self.cycles(["ldr d2, [x0], #8", "ins v3.d[1], x2"], 4, 2)  # the insertion's own chain
        self.cycles([f"ins v{lane}.d[1], x2" for lane in range(8)], 4, 8)
        self.cycles([f"dup v{lane}.2d, x2" for lane in range(8)], 8)
        self.cycles(mix(fmlas(12), ["prfm pldl1keep, [x0]"] * 4), 12)

    # What the same yardstick says of the layouts of other libraries' loops, in the shape and number of their
    # instructions; shares of the peak in percent.
    def share(self, lines, a53, a55):
        multiply_adds = sum(line.startswith("fmla") for line in lines)
        for core, wanted in ((A53, a53), (A55, a55)):
            with self.subTest(core=core.name):
                self.assertAlmostEqual(100 * multiply_adds / scoreboard.cycles(lines, core), wanted, delta=0.7)

    def test_gemm_128_bit_loads(self):
        lines = [f"ldr q{row}, [x{row}], #16" for row in range(6)] + ["ldp q6, q7, [x8], #32"] * 4
        self.share(lines + fmlas(48) + ["subs x9, x9, #16", "nop", "b.hs 0"], 63, 63)  # 6 rows, 8 columns, k by 4
        lines = [f"ldr q{row}, [x{row}], #16" for row in range(6)] + ["ldr q7, [x8], #16"] * 16
        self.share(lines + fmlas(96), 69, 69)  # 6 rows, 16 columns

    def test_gemm_halves(self):
        """6 rows, 8 columns: 24 multiply-adds for 7 registers, loaded as two halves of which one goes by x2."""
        def register(index):
            return [f"ldr d{index}, [x{3 + index}], #8", f"ins v{(index + 6) % 7}.d[1], x2"]
        a53, a55, work = [], [], fmlas(24)
        for index in range(7):
            three = work[3 * index:3 * index + 3]
            a53 += register(index) + [three[0], "ldr x2, [x1], #8"] + three[1:]
            a55 += mix(three, register(index) + ["ldr x2, [x1], #8"])
        self.share(a53 + work[21:], 77, 100)
        self.share(a55 + work[21:], 63, 100)

    def test_sparse(self):
        row = ["ldr w2, [x1], #4", "ld1r {v0.4s}, [x3], #4"]
        row += [f"ldr q{index}, [x4, #{16 * index}]" for index in range(4)]
        row += [f"ldr q{index}, [x4, #{16 * index}]" for index in range(4, 8)]
        lines = row + ["add x4, x4, w2, sxtw"] + fmlas(8) + ["subs x0, x0, #1", "nop", "b.ne 0"]
        self.share(lines, 29, 29)  # 32 pixels of one channel at a time

    def test_late_loads(self):
        def late(lines, a53):
            self.assertAlmostEqual(scoreboard.cycles(lines, A53, late_loads=True), a53, delta=0.01)
        load = ["ldr d2, [x0], #8"]
        late(load + fmlas(3), 4)  # four cycles apart: no load meets a multiply-add
        late(load + fmlas(4), 5 + 4)  # the load waits for all of them
        late(fmlas(12), 12)

    def test_account(self):
        result = scoreboard.run(["ldr q30, [x0], #16"] + fmlas(6) + ["fmul v2.4s, v3.4s, v3.4s"], A53)
        self.assertEqual(sum(result.spent.values()), result.cycles)
        self.assertEqual(result.spent, {"load": 2, "wait": 3, "float_mac": 6, "float": 1})
        producer, consumer, waited = result.waits[0]
        self.assertEqual((producer[:6], consumer[:7], waited), ("ldr q3", "fmla v8", 3))


if __name__ == "__main__":
    unittest.main()

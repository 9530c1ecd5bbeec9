"""gen/predicted_loops.py without its tools: the main loop of a kernel that a compiler made, and its work."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "gen")]
import predict
import predicted_loops


def loop(lines, branches=0, function="qn_vadd_qs8_neon"):
    return predict.Loop(function, 0, 0, lines, branches)


class MainLoops(unittest.TestCase):
    def test_longest_without_branches(self):
        short, long = loop(["nop"] * 4), loop(["nop"] * 8)
        tail = loop(["nop"] * 20, branches=2)
        self.assertIs(predicted_loops.storing_loop([short, long, tail]), long)
        self.assertIsNone(predicted_loops.storing_loop([tail]))
        self.assertIsNone(predicted_loops.storing_loop([]))

    def test_stored_elements(self):
        lines = ["ldr q0, [x1]", "str q0, [x5, x4]", "stp q1, q0, [x3]", "str d2, [x0], #8", "add x4, x4, #0x10"]
        self.assertEqual(predicted_loops.stored(loop(lines)), 16 + 32 + 8)
        self.assertEqual(predicted_loops.stored(loop(lines, function="qn_vdequantize_qs8_neon")), 14)
        self.assertEqual(predicted_loops.stored(loop(["ldr q0, [x1]"])), 0)


class Tables(unittest.TestCase):
    def test_elementwise_rows(self):
        rows = predicted_loops.elementwise_rows()
        self.assertIn("qn_vquantize_qs8_neon", rows)
        self.assertFalse([row for row in rows if "f32" in row])


if __name__ == "__main__":
    unittest.main()

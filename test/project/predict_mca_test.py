"""predict.py with llvm-mca: cycles that the cores' documents give.  Exits with 77 where llvm-mca is missing."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import predict

FMLAS = tuple(f"fmla v{8 + index}.4s, v1.4s, v0.s[0]" for index in range(24))
PEAK = {"cortex-a57": 4, "kryo": 4, "neoverse-n1": 8, "neoverse-n2": 8, "neoverse-v1": 16, "neoverse-v2": 16}
BYTES = {  # products of bytes: the instruction, and the peak of the cores that have it
    "smull v{}.8h, v1.8b, v0.8b": {"cortex-a57": 8, "kryo": 8, "neoverse-n1": 8, "neoverse-v2": 16},
    "sdot v{}.4s, v1.16b, v0.4b[0]": {"neoverse-n1": 32, "neoverse-n2": 32, "neoverse-v1": 64, "neoverse-v2": 64},
    "smmla v{}.4s, v1.16b, v0.16b": {"neoverse-n2": 64, "neoverse-v1": 128, "neoverse-v2": 128},
}


class Mca(unittest.TestCase):
    def test_peak(self):
        for core, wanted in PEAK.items():
            with self.subTest(core):
                prediction = predict.predict(core, list(FMLAS))
                self.assertAlmostEqual(prediction.macs_per_cycle, wanted, delta=0.02)
                self.assertAlmostEqual(prediction.percent_of_peak, 100, delta=0.1)
                self.assertRegex(prediction.bottleneck, "^units .*100%")

    def test_peak_of_bytes(self):
        for instruction, cores in BYTES.items():
            for core, wanted in cores.items():
                with self.subTest(core, instruction=instruction):
                    prediction = predict.predict(core, [instruction.format(8 + index) for index in range(24)])
                    self.assertAlmostEqual(prediction.macs_per_cycle, wanted, delta=0.1)
                    self.assertAlmostEqual(prediction.percent_of_peak, 100, delta=0.1)

    def test_chain(self):
        prediction = predict.predict("neoverse-n1", [FMLAS[0].replace("v0.s[0]", "v0.4s")] + ["b.ne 0"])
        self.assertIn("latency through q8", prediction.bottleneck)
        self.assertLess(prediction.percent_of_peak, 30)

    def test_updates(self):
        lines = ["ldr q0, [x0], #16"] * 3 + list(FMLAS)
        self.assertIn("100% with separate additions", predict.predict("neoverse-n2", lines).note)
        self.assertEqual(predict.predict("neoverse-n1", lines).note, "")

    def test_unknown_instruction(self):
        with self.assertRaises(predict.Error):
            predict.predict("kryo", ["no such instruction"])

    def test_object(self):
        """The hand-written gemm, from its source to the table."""
        compiler = shutil.which("aarch64-linux-gnu-gcc")
        if not compiler:
            self.skipTest("no compiler for arm64")
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, "gemm.o")
            subprocess.run([compiler, "-c", ROOT / "asm/arm64/gemm_f32_neon.S", "-o", target], check=True)
            command = [sys.executable, ROOT / "scripts/predict.py", target, "--table"]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertGreater(len(lines), 2)
        for line in lines[2:]:
            self.assertRegex(line, r"^\| `qn_gemm_f32_\w+` \| \d+ \|( \d+[ \d()]* \|){8}$")


if __name__ == "__main__":
    try:
        predict.find_mca()
    except predict.Error as error:
        print(error)
        sys.exit(77)
    unittest.main()

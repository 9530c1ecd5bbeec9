"""phone_bench.py from a build to a table, on a folder that plays the phone: the bundle is pushed and runs.

    phone_bench_run_test.py BUILD [EMULATOR...]

Exits with 77 where the emulator is missing, or BUILD is without programs.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
import fake_adb
import phone_bench

CPUS = [{"cpu_capacity": "446", "cpufreq/cpuinfo_max_freq": "1800000", "cpufreq/related_cpus": "0 1"}] * 2 + [
    {"online": "0"},
    {"cpu_capacity": "1024", "cpufreq/cpuinfo_max_freq": "2800000", "cpufreq/related_cpus": "3"}]
CPUINFO = "".join(f"processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
                  for cpu, part in ((0, "0xd03"), (1, "0xd03"), (3, "0xd0b")))
PROPERTIES = {"ro.product.manufacturer": "Acme", "ro.product.model": "Phone (5G)", "ro.build.version.release": "13",
              "ro.board.platform": "sm0000"}


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.phone = self.folder / "phone"
        self.environment = {**os.environ, "ADB": str(HERE / "fake_adb.py"), "FAKE_PHONE": str(self.phone),
                            "EMULATOR": shlex.join(EMULATOR)}
        fake_adb.make_phone(self.phone, CPUS, CPUINFO, PROPERTIES)

    def bench(self, *arguments):
        command = [sys.executable, phone_bench.__file__, BUILD, "--no-build", "--pause", "0", "--tables", self.folder]
        return subprocess.run([*command, *arguments], env=self.environment, capture_output=True, text=True)

    def test_table(self):
        result = self.bench("--filter", "^kernel/qn_gemm_f32_.*_ref/.*x64/", "--min-time", "0.0001", "--models",
                            "shufflenet_v2", "--runs", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 x Cortex-A53, 1.80 GHz; 1 x Cortex-A76, 2.80 GHz", result.stdout)
        lines = (self.folder / "acme-phone-5g.md").read_text().splitlines()
        self.assertEqual(lines[0], "# Acme Phone (5G)")
        rows = [[cell.strip() for cell in line.split("|")[3:-1]] for line in lines if line.startswith("| 2")]
        whats = [(row[0], row[1], row[2]) for row in rows if not row[2].startswith("`")]
        little, big = "2 x Cortex-A53, 1.80 GHz", "1 x Cortex-A76, 2.80 GHz"
        peaks = ["peak", "peak of bytes"]
        self.assertEqual(whats, [*((little, "1", peak) for peak in peaks),
                                 (little, "1", "shufflenet_v2"), (little, "2", "shufflenet_v2"),
                                 *((big, "1", peak) for peak in peaks), (big, "1", "shufflenet_v2")])
        for cluster in (little, big):
            kernels = [row for row in rows if row[0] == cluster and row[2].startswith("`qn_gemm_f32_")]
            self.assertTrue(kernels)
        for row in rows:
            self.assertGreaterEqual(float(row[4]), 0)
            self.assertRegex(row[5], r"^\d+%$")
        # Every program was pinned, and nothing stays behind but what was there.
        self.assertEqual((self.phone / "masks").read_text().split(), ["3"] * 4 + ["8"] * 3)
        self.assertEqual(os.listdir(self.phone / "data/local/tmp"), ["other"])

    def test_bundle(self):
        """Every library is in it, not found on this machine by chance."""
        build, folder = pathlib.Path(BUILD), self.folder / "bundle"
        folder.mkdir()
        programs = [build / program for program in phone_bench.PROGRAMS]
        start = phone_bench.bundle(programs, phone_bench.sysroot_of(build), folder)
        if not start.startswith("lib/"):
            self.skipTest("the programs need no loader")
        for program in programs:
            command = [*EMULATOR, *start.removesuffix("./").split(), "--list", "./" + program.name]
            listing = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            found = re.findall(r"(\S+) => (\S+)", listing)
            self.assertIn("libc.so.6", dict(found))
            self.assertEqual([pair for pair in found if not pair[1].startswith("lib/")], [])

    def test_failing_program(self):
        """No table is begun, and the phone is tidied up."""
        result = self.bench("--filter", "", "--models", "no_such_model", "--cores", "big")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^phone_bench.py: adb shell: .*no_such_model")
        self.assertFalse((self.folder / "acme-phone-5g.md").exists())
        self.assertEqual(os.listdir(self.phone / "data/local/tmp"), ["other"])


if __name__ == "__main__":
    BUILD, *EMULATOR = sys.argv[1:]
    if "-L" in EMULATOR:  # a folder with libraries: the bundle is to do without
        at = EMULATOR.index("-L")
        del EMULATOR[at:at + 2]
    needed = [pathlib.Path(BUILD, program) for program in phone_bench.PROGRAMS] + EMULATOR[:1]
    missing = [str(program) for program in needed if not shutil.which(program)]
    if missing:
        print(f"no {', '.join(missing)} here: nothing was tested")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

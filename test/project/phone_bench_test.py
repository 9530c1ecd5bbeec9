"""phone_bench.py on what phones say, and how it fails.  phone_bench_run_test.py runs it as a whole."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "scripts/phone_bench.py"
sys.path.insert(0, str(SCRIPT.parent))
import phone_bench


def cpuinfo(*cores):
    """Of cores given as (implementer, part)."""
    blocks = (f"processor\t: {index}\nBogoMIPS\t: 38.40\nCPU implementer\t: {implementer:#x}\nCPU architecture: 8\n"
              f"CPU variant\t: 0x1\nCPU part\t: {part:#x}\nCPU revision\t: 2\n"
              for index, (implementer, part) in enumerate(cores))
    return "\n".join(blocks) + "\nHardware\t: Board\n"


A53, A73, A55, X1, NEW = (0x41, 0xd03), (0x41, 0xd09), (0x41, 0xd05), (0x41, 0xd44), (0x99, 0x123)


def described(listing, text):
    return [(str(cluster), cluster.mask()) for cluster in phone_bench.clusters_of(listing, text)]


class Clusters(unittest.TestCase):
    def test_two(self):
        listing = "".join(f"{cpu}|{'1024' if cpu < 4 else '400'}|{2400000 if cpu < 4 else 1800000}|"
                          f"{'0 1 2 3' if cpu < 4 else '4 5 6 7'}\n" for cpu in range(8))
        self.assertEqual(described(listing, cpuinfo(*[A73] * 4, *[A53] * 4)),
                         [("4 x Cortex-A53, 1.80 GHz", "f0"), ("4 x Cortex-A73, 2.40 GHz", "f")])

    def test_three(self):
        """Without related_cpus, as capacities, clocks and parts say."""
        cores = [("300", "1800000", A55)] * 2 + [("800", "2400000", A73)] * 2 + [("1024", "2800000", X1)]
        listing = "".join(f"{cpu}|{capacity}|{khz}|\n" for cpu, (capacity, khz, _) in enumerate(cores))
        self.assertEqual(described(listing, cpuinfo(*(core for _, _, core in cores))),
                         [("2 x Cortex-A55, 1.80 GHz", "3"), ("2 x Cortex-A73, 2.40 GHz", "c"),
                          ("1 x Cortex-X1, 2.80 GHz", "10")])

    def test_nothing_known(self):
        self.assertEqual(described("0|||\n1|||\n", "Hardware: none\n"), [("2 x unknown core", "3")])

    def test_unknown_core(self):
        self.assertEqual(described("0|||\n", cpuinfo(NEW)), [("1 x core 0x99/0x123", "1")])

    def test_offline(self):
        """Cores that are not listed leave gaps."""
        self.assertEqual(described("0||1000000|0 3\n3||1000000|0 3\n", cpuinfo(*[A53] * 4)),
                         [("2 x Cortex-A53, 1.00 GHz", "9")])

    def test_none(self):
        with self.assertRaisesRegex(phone_bench.Error, "no cores"):
            phone_bench.clusters_of("", "")

    def test_choose(self):
        clusters = ["slow", "middle", "fast"]
        for wanted, found in (("all", clusters), ("big", ["fast"]), ("little", ["slow"]), ("1", ["middle"]),
                              ("big,0", ["fast", "slow"])):
            self.assertEqual(phone_bench.choose(clusters, wanted), found)
        for wanted in ("3", "huge", ""):
            with self.assertRaisesRegex(phone_bench.Error, "0 to 2"):
                phone_bench.choose(clusters, wanted)


class Table(unittest.TestCase):
    def test_append(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "new", "phone.md")
            for commit in ("one", "two"):
                phone_bench.append(path, "Phone", "Android 13", commit, [("4 x Core", "1", "peak", "", "9.5", "100%")])
            lines = path.read_text().splitlines()
        self.assertEqual(lines[0], "# Phone")
        self.assertIn("Android 13", lines[2])
        rows = lines[-2:]
        self.assertRegex(rows[0], r"^\| \d{4}-\d\d-\d\d \| one \| 4 x Core \| 1 \| peak \|  \| 9\.5 \| 100% \|$")
        self.assertIn("| two |", rows[1])
        self.assertEqual({line.count("|") for line in lines if line.startswith("|")}, {9})


class Failures(unittest.TestCase):
    def fails(self, adb, words, *arguments):
        environment = {**os.environ, "ADB": str(adb), "FAKE_PHONE": "/nowhere"}
        result = subprocess.run([sys.executable, SCRIPT, *arguments], env=environment, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, f"^phone_bench.py: .*{words}")

    def test_no_adb(self):
        self.fails("/nowhere/adb", "no /nowhere/adb here")

    def test_no_phone(self):
        self.fails(HERE / "fake_adb.py", "no devices")

    def test_no_json(self):
        """Before Android 7 a shell's exit status was lost."""
        with self.assertRaisesRegex(phone_bench.Error, "not answer in JSON: quern: no such file"):
            phone_bench.parse("quern: no such file\n")

    def test_no_library(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(phone_bench.Error, "libx.so is not in"):
            phone_bench.find_library("libx.so", "AArch64", pathlib.Path(folder))


if __name__ == "__main__":
    unittest.main()

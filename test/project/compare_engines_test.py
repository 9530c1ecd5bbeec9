"""compare_engines.py: what it makes of the scripts that it runs, of wheels that it cannot install, and its table."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import compare_engines
from compare_engines import Comparison, InstallError


def refuse(*arguments):
    raise InstallError("No matching distribution found for numpy==2.4.6")


class CompareEngines(unittest.TestCase):
    def run_row(self, command, provide=lambda *_: "", least=2, **fields):
        row = Comparison("row", "numpy", least, command, **fields)
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                compare_engines, FOLDER=pathlib.Path(folder), VENV=pathlib.Path(folder) / "venv", provide=provide,
                COMPARISONS=[row]), mock.patch("sys.argv", ["compare_engines.py"]), contextlib.redirect_stdout(
                    io.StringIO()) as printed:
            status = compare_engines.main()
            self.lines = pathlib.Path(folder, "summary").read_text().splitlines()
        self.printed = printed.getvalue()
        return status

    def test_enough_cases_agree(self):
        self.assertEqual(self.run_row("echo 'Engine 1.0: 2 agree, 0 differ, 1 refused'"), 0)
        self.assertEqual(self.lines, ["Engines: 1 of 1 comparisons ran, 0 of them failed; 2 cases agree",
                                      "  row: Engine 1.0: 2 agree, 0 differ, 1 refused"])

    def test_failures(self):
        for command in ("echo '2 agree, 0 differ'; exit 1", "echo '1 agree, 0 differ'", "echo '2 agree, 1 differ'",
                        "echo 'all is well'", "true", "false; echo '2 agree, 0 differ'", "echo '0 agree, 0 differ'"):
            self.assertEqual(self.run_row(command), 1, command)
            self.assertIn("1 of 1 comparisons ran, 1 of them failed", self.lines[0])
            self.assertIn("row FAILED: ", self.lines[1])

    def test_a_failure_prints_what_the_script_printed(self):
        self.run_row("echo 'graph 7 differs'; echo '2 agree, 1 differ'")
        self.assertIn("graph 7 differs", self.printed)

    def test_too_long(self):
        with mock.patch.object(compare_engines, "TIMEOUT", 0.1):
            self.assertEqual(self.run_row("sleep 5; echo '2 agree, 0 differ'"), 1)

    def assert_did_not_run(self, *words):
        self.assertEqual(self.lines[0], "Engines: 0 of 1 comparisons ran, 0 of them failed; 0 cases agree")
        for word in ("row did not run: ", *words):
            self.assertIn(word, self.lines[1])

    def test_no_wheel(self):
        self.assertEqual(self.run_row("echo '2 agree, 0 differ'", refuse), 1)
        self.assert_did_not_run("pip install numpy==", "No matching distribution")

    def test_a_script_that_skips(self):
        self.assertEqual(self.run_row("echo 'skipped: no module h5py'; exit 77"), 1)
        self.assert_did_not_run("no module h5py")

    def test_what_is_missing(self):
        self.assertEqual(self.run_row("echo '2 agree, 0 differ'", needs="NO_SUCH_VARIABLE"), 1)
        self.assert_did_not_run("set NO_SUCH_VARIABLE")
        self.assertEqual(self.run_row("echo '2 agree, 0 differ'", by_hand="needs PyTorch"), 1)
        self.assert_did_not_run("needs PyTorch; then echo")

    def test_the_table(self):
        for row in compare_engines.COMPARISONS:
            self.assertGreater(row.least, 0, row.name)
            compare_engines.pinned(row.wheels.split())  # each wheel has a version

    def test_every_script_has_a_row(self):
        root = compare_engines.ROOT
        engines = ("onnxruntime", "ai_edge_litert", "tensorflow", "keras", "torch", "enter_environment")
        table = "\n".join(row.command for row in compare_engines.COMPARISONS)
        for path in (*root.glob("scripts/*.py"), *root.glob("bench/**/*.py"), *root.glob("test/**/*.py")):
            text = path.read_text()
            is_script = text.startswith("#!") and any(f"import {e}" in text or f"from {e}" in text for e in engines)
            if is_script and path.name not in ("train_digits.py", "engines.py"):  # trains; runs for models.py
                self.assertIn(path.name, table)


if __name__ == "__main__":
    unittest.main()

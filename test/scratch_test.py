"""scratch.cc in a test program: whatever lies in the temporary folder, it disturbs no test and stays as it is.

    scratch_test.py TEST_PROGRAM        that of test/graph
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop()
# Tests that write files, under fixed names.
FILTER = "Format.File:Format.FileErrors:NewFiles.*"


def command(filters):
    return [PROGRAM, "--gtest_brief=1", f"--gtest_filter={filters}"]


def run(folder, filters=FILTER):
    return subprocess.run(command(filters), env=os.environ | {"TMPDIR": str(folder)}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern scratch "))
        self.addCleanup(shutil.rmtree, self.folder)

    def expect_refusal(self, done, message):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertNotIn("Fail", done.stdout)
        self.assertNotIn("Skipped", done.stdout)
        self.assertIn(message, done.stdout)

    def test_leftovers_stay_and_disturb_nothing(self):
        for name in ("quern_pipe", "quern_empty", "quern_format_test.qn"):
            (self.folder / name).mkdir()
        before = sorted(self.folder.iterdir())
        done = run(self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_runs_at_once(self):
        environment = os.environ | {"TMPDIR": str(self.folder)}
        runs = [subprocess.Popen([*command("Format.File*"), "--gtest_repeat=5"], env=environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for _ in range(4)]
        for each in runs:
            output, _ = each.communicate()
            self.assertEqual(each.returncode, 0, output)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_missing_folder(self):
        missing = self.folder / "missing"
        self.expect_refusal(run(missing), f"expected a folder for temporary files, found No such file or directory: "
                                          f"{missing}; set TMPDIR")

    def test_little_space(self):
        mount = 'mount -t tmpfs -o size=2m quern "$1" && shift && exec "$@"'
        shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", str(self.folder)]
        if subprocess.run([*shell, "true"], capture_output=True).returncode != 0:
            self.skipTest("this system lets no user mount a small file system")
        done = subprocess.run([*shell, *command(FILTER)], env=os.environ | {"TMPDIR": str(self.folder)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.expect_refusal(done, "MiB of space for temporary files, found 2 MiB: ")


if __name__ == "__main__":
    unittest.main()

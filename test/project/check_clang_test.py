"""check_clang.py on a kernel that is sound, and on kernels with one fault each.  Exits with 77 where clang is missing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check_clang.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_clang

KERNEL = f'#include "{ROOT}/asm/arm64/asm.h"\n' """
fn qn_test
        b       L(end)
L(end): ret
endfn qn_test
"""
APPLE, ANDROID = "arm64-apple-ios13", "aarch64-linux-android24"
BAD = [
    ("syntax", KERNEL + "fmul everything\n", "error:"),
    ("elf", KERNEL + ".type qn_test, %function\n", "error:"),
    ("calls", KERNEL.replace("ret", "bl _other"), "refers to _other outside itself"),
    ("visible", KERNEL + ".globl _qn_seen\n_qn_seen: ret\n", "_qn_seen is not hidden"),
    ("unprefixed", KERNEL.replace("qn_test", "test"), "_test is not named _qn_"),
    ("no underscore", KERNEL + ".globl qn_c\n.private_extern qn_c\nqn_c: ret\n", "qn_c is not named _qn_"),
    ("empty", KERNEL.split("\n", maxsplit=1)[0] + "\n", "holds no function"),
]


class CheckClang(unittest.TestCase):
    def faults(self, text, target=APPLE):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "kernel.S")
            source.write_text(text)
            return list(check_clang.check(check_clang.find_clang(), source, target))

    def test_sound(self):
        for target in check_clang.TARGETS["arm64"]:
            with self.subTest(target):
                self.assertEqual(self.faults(KERNEL, target), [])

    def test_bad(self):
        for name, text, words in BAD:
            with self.subTest(name):
                found = self.faults(text)
                self.assertTrue(any(words in message for message in found), found)

    def test_bad_elf(self):
        self.assertIn("error:", self.faults(KERNEL + ".private_extern qn_test\n", ANDROID)[0])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "arm64", "kernel.S")
            source.parent.mkdir()
            for text, status in ((KERNEL, 0), (BAD[2][1], 1)):
                source.write_text(text)
                self.assertEqual(subprocess.run([SCRIPT, source], capture_output=True).returncode, status)

    def test_headers(self):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder, "header.h")
            for parameters, status in (("a  one.\n * @param b  two.", 0), ("a, b  both.", 1)):
                header.write_text(f"/** A function.\n * @param {parameters} */\nint function(int a, int b);\n")
                done = subprocess.run([SCRIPT, header], capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stderr)

    def test_no_clang(self):
        environment = {key: value for key, value in os.environ.items() if key != "CLANG"} | {"PATH": "/nowhere"}
        result = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (77, "no clang here: nothing was checked\n"))

    def test_no_object(self):
        with self.assertRaisesRegex(ValueError, "0x464c457f is not"):
            list(check_clang.mach_symbols(b"\x7fELF" + bytes(60)))


if __name__ == "__main__":
    if not check_clang.find_clang():
        print("no clang here: nothing was tested")
        sys.exit(77)
    unittest.main()

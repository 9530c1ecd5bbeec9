"""check_objects.py on an object that is sound, and on objects with one fault each.  $CC assembles, $MACHINE says what."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_objects

ROOT = pathlib.Path(__file__).resolve().parents[2]
X86 = os.environ.get("MACHINE", "x86_64") in ("x86_64", "AMD64")
KERNEL = f'#include "{ROOT}/asm/{"x86" if X86 else "arm64"}/asm.h"\n' """
        fn qn_test
        BODY
        ret
        endfn qn_test
"""
CALL = "call other@PLT" if X86 else "bl other"

# What is wrong, how the source is made so, words of the message.
BAD = [
    ("stack", lambda text: '.section .note.GNU-stack,"x",%progbits\n' + text.replace("BODY", ""), "executable stack"),
    ("visible", lambda text: text.replace("BODY", "") + ".globl seen\nseen:\n", "seen is not hidden"),
    ("calls", lambda text: text.replace("BODY", CALL), "refers to other outside itself"),
    ("absolute", lambda text: text.replace("BODY", "") + ".section .rodata\n.8byte qn_test\n",
     "absolute address in .rodata"),
    ("landing", lambda text: text.replace("BODY", "") +
     ".hidden bare\n.globl bare\n.type bare, %function\nbare: .cfi_startproc\n ret\n.cfi_endproc\n.size bare, . - bare\n",
     "bare begins with"),
    ("frames", lambda text: text.replace("BODY", "") +
     ".type local, %function\nlocal: " + ("endbr64" if X86 else "bti c") + "\n ret\n.size local, . - local\n",
     "unwind information for 1"),
    ("empty", lambda text: text.split("\n")[0] + "\n", "holds no function"),
]


def faults(text):
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "kernel.S"), pathlib.Path(folder, "kernel.o")
        source.write_text(text)
        subprocess.run([os.environ.get("CC", "cc"), "-Wa,--no-warn", "-c", source, "-o", target], check=True)
        return list(check_objects.check(str(target)))


class CheckObjects(unittest.TestCase):
    def test_sound(self):
        self.assertEqual(faults(KERNEL.replace("BODY", "nop")), [])

    def test_bad(self):
        for name, spoil, words in BAD:
            with self.subTest(name):
                found = faults(spoil(KERNEL))
                self.assertTrue(any(words in message for message in found), found)

    def test_no_notes(self):
        plain = ".globl f\n.hidden f\n.type f, %function\nf: .cfi_startproc\n ret\n.cfi_endproc\n.size f, . - f\n"
        self.assertTrue(any(".note.gnu.property" in message for message in faults(plain)))
        self.assertTrue(any("no .note.GNU-stack" in message for message in faults(plain)))


if __name__ == "__main__":
    unittest.main()

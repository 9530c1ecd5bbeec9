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
PLAIN = ".globl f\n.hidden f\n.type f, %function\nf: .cfi_startproc\n ret\n.cfi_endproc\n.size f, . - f\n"
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
    ("size", lambda text: text.replace("BODY", "") +
     ".hidden qn_bare\n.globl qn_bare\n.type qn_bare, %function\nqn_bare: .cfi_startproc\n ret\n.cfi_endproc\n",
     "qn_bare has no size"),
    ("unprefixed", lambda text: text.replace("BODY", "").replace("qn_test", "test"), "test is not named qn_"),
    ("frames", lambda text: text.replace("BODY", "") +
     ".type local, %function\nlocal: " + ("endbr64" if X86 else "bti c") + "\n ret\n.size local, . - local\n",
     "unwind information for 1"),
    ("empty", lambda text: text.split("\n")[0] + "\n", "holds no function"),
]
# The same where only arm64 has the rule; the body in place of a fault, and one that is sound.
BAD_ARM64 = [
    ("platform", "\n#undef x18\nmov x18, x0", "mov x17, x0", "uses the platform's register"),
    ("platform low", "\n#undef w18\nldr s0, [x0, w18, uxtw]", "ldr s0, [x0, w17, uxtw]", "uses the platform's register"),
    ("jump", "br x16", "br x16\nbti j", "jumps to where no 'bti j' is"),
    ("return address", "stp x29, x30, [sp, #-16]!", "paciasp\nstp x29, x30, [sp, #-16]!", "leaves x30 unsigned"),
    ("return address alone", "str x30, [sp, #-16]!", "str x19, [sp, #-16]!", "leaves x30 unsigned"),
]
# Bits of the note, least first, and what they say.
NOTE = (0xc0000002, ["IBT", "SHSTK"]) if X86 else (0xc0000000, ["BTI", "PAC"])


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

    @unittest.skipIf(X86, "arm64 only")
    def test_bad_arm64(self):
        for name, body, sound, words in BAD_ARM64:
            with self.subTest(name):
                found = faults(KERNEL.replace("BODY", body))
                self.assertTrue(any(words in message for message in found), found)
                self.assertEqual(faults(KERNEL.replace("BODY", sound)), [])

    def test_no_notes(self):
        found = faults(PLAIN)
        for word in NOTE[1]:
            self.assertIn(f"no {word} in .note.gnu.property", found)
        self.assertTrue(any("no .note.GNU-stack" in message for message in found))

    def test_half_a_note(self):
        kind, (first, second) = NOTE
        for bits, missing in ((1, [second]), (2, [first]), (3, [])):
            note = f'.section .note.gnu.property, "a"\n.long 4, 16, 5\n.asciz "GNU"\n.long {kind}, 4, {bits}, 0\n'
            found = [message for message in faults(PLAIN + note) if "gnu.property" in message]
            self.assertEqual(found, [f"no {word} in .note.gnu.property" for word in missing])


if __name__ == "__main__":
    unittest.main()

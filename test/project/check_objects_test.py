"""check_objects.py on a sound object, and on objects with one fault each.  $CC with $CFLAGS assembles, for $QUERN_ARCH."""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_objects

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCH = os.environ.get("QUERN_ARCH", "x86")
# Return, call, landing instruction (none on 32-bit ARM), begin and end of unwind information, a word with an address.
RETURN, CALL, LANDING, BEGIN, END, ADDRESS = {
    "x86": ("ret", "call other@PLT", "endbr64", ".cfi_startproc", ".cfi_endproc", ".8byte"),
    "arm64": ("ret", "bl other", "bti c", ".cfi_startproc", ".cfi_endproc", ".8byte"),
    "arm": ("bx lr", "bl other", "", ".fnstart", ".fnend", ".4byte"),
}[ARCH]
KERNEL = f'#include "{ROOT}/asm/{ARCH}/asm.h"\n' f"""
        fn qn_test
        BODY
        {RETURN}
        endfn qn_test
"""
PLAIN = f".globl f\n.hidden f\n.type f, %function\nf: {BEGIN}\n {RETURN}\n{END}\n.size f, . - f\n"

# What is wrong, how the source is made so, words of the message.
BAD = [
    ("stack", lambda text: PLAIN + '.section .note.GNU-stack,"x",%progbits\n', "executable stack"),
    ("visible", lambda text: text.replace("BODY", "") + ".globl seen\nseen:\n", "seen is not hidden"),
    ("calls", lambda text: text.replace("BODY", CALL), "refers to other outside itself"),
    ("absolute", lambda text: text.replace("BODY", "") + f".section .rodata\n{ADDRESS} qn_test\n",
     "absolute address in .rodata"),
    ("landing", lambda text: text.replace("BODY", "") +
     f".hidden bare\n.globl bare\n.type bare, %function\nbare: {BEGIN}\n {RETURN}\n{END}\n.size bare, . - bare\n",
     "bare begins with"),
    ("size", lambda text: text.replace("BODY", "") +
     f".hidden qn_bare\n.globl qn_bare\n.type qn_bare, %function\nqn_bare: {BEGIN}\n {RETURN}\n{END}\n",
     "qn_bare has no size"),
    ("unprefixed", lambda text: text.replace("BODY", "").replace("qn_test", "test"), "test is not named qn_"),
    ("frames", lambda text: text.replace("BODY", "") +
     f".type local, %function\nlocal: {LANDING}\n {RETURN}\n.size local, . - local\n",
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
# The kind of the note, and what its bits say, least first; 32-bit ARM has none.
NOTE, WORDS = {
    "x86": (0xc0000002, ["IBT", "SHSTK"]),
    "arm64": (0xc0000000, ["BTI", "PAC"]),
    "arm": (None, []),
}[ARCH]


def faults(text):
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "kernel.S"), pathlib.Path(folder, "kernel.o")
        source.write_text(text)
        compiler = [os.environ.get("CC", "cc"), *shlex.split(os.environ.get("CFLAGS", ""))]
        subprocess.run([*compiler, "-Wa,--no-warn", "-c", source, "-o", target], check=True)
        return list(check_objects.check(str(target)))


class CheckObjects(unittest.TestCase):
    def test_sound(self):
        self.assertEqual(faults(KERNEL.replace("BODY", "nop")), [])

    def test_bad(self):
        for name, spoil, words in BAD:
            if name == "landing" and not LANDING:
                continue
            with self.subTest(name):
                found = faults(spoil(KERNEL))
                self.assertTrue(any(words in message for message in found), found)

    @unittest.skipUnless(ARCH == "arm64", "arm64 only")
    def test_bad_arm64(self):
        for name, body, sound, words in BAD_ARM64:
            with self.subTest(name):
                found = faults(KERNEL.replace("BODY", body))
                self.assertTrue(any(words in message for message in found), found)
                self.assertEqual(faults(KERNEL.replace("BODY", sound)), [])

    def test_no_notes(self):
        found = faults(PLAIN)
        for word in WORDS:
            self.assertIn(f"no {word} in .note.gnu.property", found)
        self.assertTrue(any("no .note.GNU-stack" in message for message in found))

    @unittest.skipUnless(WORDS, "no note on this machine")
    def test_half_a_note(self):
        first, second = WORDS
        for bits, missing in ((1, [second]), (2, [first]), (3, [])):
            note = f'.section .note.gnu.property, "a"\n.long 4, 16, 5\n.asciz "GNU"\n.long {NOTE}, 4, {bits}, 0\n'
            found = [message for message in faults(PLAIN + note) if "gnu.property" in message]
            self.assertEqual(found, [f"no {word} in .note.gnu.property" for word in missing])


if __name__ == "__main__":
    unittest.main()

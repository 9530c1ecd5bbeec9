"""check_segments.py on a sound library, and on libraries with one fault each.  $CC and $CFLAGS make them."""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check_segments.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_segments

SOURCE = "int value = 1;\nint function(void) { return value; }\n"
PAGES = "-Wl,-z,max-page-size={}"
# An address in the text, which only the loader knows.
TEXTREL = '__asm__(".text\\n.balign 8\\n.{} value\\n");\n'


class CheckSegments(unittest.TestCase):
    def build(self, folder, *flags, source=SOURCE):
        path = pathlib.Path(folder, "library.c")
        path.write_text(source)
        library = path.with_suffix(".so")
        compiler = [os.environ.get("CC", "cc"), *shlex.split(os.environ.get("CFLAGS", ""))]
        subprocess.run([*compiler, "-shared", "-fPIC", path, *flags, "-o", library], check=True, stderr=subprocess.DEVNULL)
        return library

    def faults(self, *flags, source=SOURCE):
        with tempfile.TemporaryDirectory() as folder:
            library = self.build(folder, *flags, source=source)
            self.wide = "ELF64" in check_segments.run("--file-header", library)
            return set(check_segments.check(library))

    def test_sound(self):
        for page in (16384, 65536):
            self.assertEqual(self.faults(PAGES.format(page)), set())

    def test_small_pages(self):
        found = self.faults(PAGES.format(4096))
        self.assertEqual(found, {"a segment is aligned to 4096 bytes"} if self.wide else set())

    def test_text_relocation(self):
        self.faults()  # how wide is an address?
        source = SOURCE + TEXTREL.format("8byte" if self.wide else "4byte")
        self.assertIn("relocates its code", self.faults(PAGES.format(16384), "-Wl,-z,notext", source=source))

    def test_writable_code(self):
        source = SOURCE + '__asm__(".section .both,\\"awx\\",%progbits\\n.4byte 0\\n.text\\n");\n'
        self.assertIn("a segment is writable and executable", self.faults(PAGES.format(16384), source=source))

    def test_executable_stack(self):
        self.assertEqual(self.faults(PAGES.format(16384), "-Wl,-z,execstack"), {"asks for an executable stack"})

    def test_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            for flag, status in ((PAGES.format(16384), 0), ("-Wl,-z,execstack", 1)):
                library = self.build(folder, PAGES.format(16384), flag)
                self.assertEqual(subprocess.run([SCRIPT, library], capture_output=True).returncode, status)
            self.assertEqual(subprocess.run([SCRIPT]).returncode, 1)


if __name__ == "__main__":
    unittest.main()

"""check_syntax.py on a build folder with one source that is sound, and with sources that have one fault each."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_syntax.py"
CXX = os.environ.get("CXX", "c++")
OLDEST_CLANG = shutil.which("clang++-14")

TEMPLATE = "template <class T> int size(T x) { return x.size(); }\nint f(%s x) { return size(x); }\n"
STRING = "struct String { int size() { return 1; } };\n"
BINDING = """struct Pair { int a, b; };
int f(Pair pair) {
  auto [a, b] = pair;
  return [=] { return a + b; }();
}
"""


def check(source, compiler=CXX, flags=""):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "build.ninja").write_text("")
        path = pathlib.Path(folder, "source.cc")
        path.write_text(source)
        entry = {"directory": folder, "file": str(path),
                 "command": f"{compiler} -std=c++20 {flags} -o source.o -c {path}"}
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps([entry]))
        done = subprocess.run([sys.executable, str(SCRIPT), folder], capture_output=True, text=True)
        assert not pathlib.Path(folder, "source.o").exists()
        return done


class Syntax(unittest.TestCase):
    def expect_failure(self, done, message):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertIn("1 sources, 1 do not compile", done.stdout)

    def test_sound(self):
        for flags in ("", "-mtune=generic" if os.uname().machine == "x86_64" else ""):
            done = check(STRING + TEMPLATE % "String", flags=flags)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_syntax(self):
        self.expect_failure(check("int f( { return 1; }\n"), "error: ")

    def test_instantiation(self):
        self.expect_failure(check(TEMPLATE % "int"), "size")

    def test_binding_in_lambda(self):
        self.assertEqual(check(BINDING).returncode, 0)
        if OLDEST_CLANG is None:
            self.skipTest("no clang++-14")
        self.expect_failure(check(BINDING, OLDEST_CLANG), "reference to local binding 'a'")


if __name__ == "__main__":
    unittest.main()

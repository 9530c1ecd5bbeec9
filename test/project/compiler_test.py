"""cmake/QuernCompiler.cmake: which compilers it refuses, and with which message."""

import pathlib
import subprocess
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake/QuernCompiler.cmake"


def configure(compiler, version):
    return subprocess.run(
        ["cmake", "-D", f"CMAKE_CXX_COMPILER_ID={compiler}", "-D", f"CMAKE_CXX_COMPILER_VERSION={version}",
         "-D", "CMAKE_CXX_COMPILER=/usr/bin/c++", "-P", str(SCRIPT)], capture_output=True, text=True)


class Compiler(unittest.TestCase):
    def test_oldest_and_later_ones_are_taken(self):
        for compiler, version in (("GNU", "11.3.0"), ("GNU", "12.2.0"), ("GNU", "100.1"), ("Clang", "14.0.6"),
                                  ("Clang", "19.1.7"), ("AppleClang", "14.0.0.14000029"), ("Intel", "2021.1")):
            done = configure(compiler, version)
            self.assertEqual(done.returncode, 0, f"{compiler} {version}: {done.stderr}")

    def test_older_ones_are_refused_by_name(self):
        for compiler, version, oldest in (("GNU", "10.2.1", 11), ("GNU", "9.4.0", 11), ("Clang", "13.0.1", 14),
                                          ("AppleClang", "13.1.6.13160021", 14)):
            done = configure(compiler, version)
            self.assertNotEqual(done.returncode, 0, f"{compiler} {version}")
            message = f"expected C++ compiler {compiler} {oldest} or later, found {version}: /usr/bin/c++"
            self.assertIn(message, " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Writes src/graph/file/model_generated.h: code that reads and writes the tables of src/graph/file/model.fbs, by flatc.

    model.py                print the header
    model.py --check FILE   exit status 1 unless FILE is what would be printed; 77 where that is not to be told

What flatc writes demands the FlatBuffers headers of its own version. Code of the version below does not need them: it
compiles with those of later versions, too, so the demand is left out. $FLATC names the program.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "src" / "graph" / "file" / "model.fbs"
FLATC = os.environ.get("FLATC") or "flatc"
VERSION = "2.0.8"

HEAD = f"""\
// Written by gen/model.py with flatc {VERSION} from model.fbs; do not edit.
// clang-format off
"""
DEMAND = re.compile(r"// Ensure the included flatbuffers\.h is the same version.*?static_assert\(.*?\);\n\n", re.DOTALL)

UNKNOWN = 77  # for ctest: skipped


class Error(Exception):
    pass


def run(*arguments):
    try:
        done = subprocess.run([FLATC, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Error(f"{FLATC}: {error.strerror}") from error
    if done.returncode:
        raise Error(done.stdout + done.stderr)
    return done.stdout


def find_version():
    found = run("--version").split()[-1]
    if found != VERSION:
        raise Error(f"this is flatc {found}; version {VERSION} is wanted")


def header():
    with tempfile.TemporaryDirectory() as folder:
        run("--cpp", "--scoped-enums", "--cpp-std", "c++17", "-o", folder, str(SCHEMA))
        text = pathlib.Path(folder, "model_generated.h").read_text()
    text = text.replace('#include "flatbuffers/flatbuffers.h"', "#include <flatbuffers/flatbuffers.h>")  # no file of ours
    text, demands = DEMAND.subn("", text)
    if demands != 1:
        raise SystemExit("model.py: flatc's code does not demand its version where it did")
    return HEAD + text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    try:
        find_version()
    except Error as error:
        print(error)
        return UNKNOWN if arguments.check else 1
    if arguments.check is None:
        print(header(), end="")
    elif pathlib.Path(arguments.check).read_text() != header():
        print(f"{arguments.check} is not what gen/model.py writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"model.py: {error}")

#!/usr/bin/env python3
"""Builds the library trimmed to MobileNet v1 and checks that it runs that model as the whole library does, bit for bit,
that it refuses another by the name of its operator, exports graph.h and base.h alone, and keeps to its size.

    trim_test.py --source DIR --folder DIR ... -- [settings of CMake]
"""

import argparse
import filecmp
import json
import os
import pathlib
import re
import subprocess
import sys

for room in ("bench", "scripts"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / room))
from check_symbols import declared, exported  # noqa: E402
from size import ARCHITECTURES  # noqa: E402


def run(command, **options):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)
    return done.returncode, done.stdout + done.stderr


def must(command, **options):
    status, output = run(command, **options)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {status}\n{output}")
    return output


def expect(holds, message):
    if not holds:
        sys.exit(f"trim: {message}")


def build(a, needs):
    folder = a.folder / "build"
    must(["cmake", "-S", a.source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQUERN_BUILD_STATIC=OFF",
          "-DQUERN_WERROR=ON", f"-DQUERN_NEEDS={needs}", *a.settings])
    must(["cmake", "--build", folder, "--target", "quern_shared"])
    return folder / "src" / "libquern.so"


def check_exports(a, library):
    os.environ["NM"] = a.nm
    public = {name for header in ("base", "graph")
              for name in declared((a.source / "include" / "quern" / f"{header}.h").read_text())}
    table = (a.source / "cmake" / "QuernTrim.cmake").read_text()
    asked_for = set(" ".join(re.findall(r"set\(functions_\w+ ([^)]*)\)", table)).split())
    expect(public.issuperset(asked_for), f"declared nowhere: {sorted(asked_for - public)}")
    wrong = exported(library) ^ (public - asked_for)
    expect(not wrong, f"exports differ from base.h and graph.h: {sorted(wrong)}")


def check_size(a, library):
    stripped = a.folder / "libquern.stripped.so"
    must([a.strip, library, "-o", stripped])
    size = stripped.stat().st_size
    machine = ARCHITECTURES[re.search(r"Machine:\s*(.*\S)", must([a.readelf, "-hW", library]))[1]]
    budget = json.loads((a.source / "bench" / "size_budget.json").read_text())[machine]["trimmed"]["mobilenet_v1"]
    print(f"{machine}, trimmed to mobilenet_v1: {size} bytes stripped, budget {budget}")
    expect(size <= budget, f"{size} bytes are over the budget of {budget}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--emulator", default="")
    parser.add_argument("--check-size", action="store_true", help="the budget is GCC's")
    for name in ("--model", "--run", "--cc", "--strip", "--readelf", "--nm"):
        parser.add_argument(name, required=True)
    parser.add_argument("settings", nargs="*")
    a = parser.parse_args()
    emulator, model_command = ([part for part in command.split(";") if part] for command in (a.emulator, a.model))
    a.folder.mkdir(parents=True, exist_ok=True)

    must([*model_command, a.folder])
    needs = a.folder / "mobilenet_v1.needs"
    library = build(a, needs)
    program = a.folder / "run"
    must([a.cc, "-std=c11", "-I", a.source / "include", a.source / "test" / "trim" / "run.c", "-o", program,
          library, "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{library.parent}"])

    model, image = a.folder / "mobilenet_v1.qn", a.folder / "input.bin"
    whole, trimmed = a.folder / "whole.bin", a.folder / "trimmed.bin"
    must([*emulator, a.run, model, image, whole])
    must([*emulator, program, model, image, trimmed])
    expect(filecmp.cmp(whole, trimmed, shallow=False), "the trimmed library gives other bits")

    status, output = run([*emulator, program, a.folder / "other.qn", image, os.devnull])
    expect(status == 1 and "max_pool" in output and "trimmed" in output, f"another model: status {status}, {output}")
    check_exports(a, library)
    if a.check_size:
        check_size(a, library)


if __name__ == "__main__":
    main()

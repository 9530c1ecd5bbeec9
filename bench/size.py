#!/usr/bin/env python3
"""Prints the size of the stripped shared library by section and by family, or checks its budget.

    bench/size.py build/release/src/libquern.so              two tables
    bench/size.py build/release/src/libquern.so --check      exit status 1 when a family is over its budget
    bench/size.py build/release/src/libquern.so --json

A family is a kernel family (gemm, pool ...) or a folder of src/ (base, op, graph). The linker's map, which the build
writes beside the library, says which bytes belong to which family; it must be GNU ld's. All C++ kernels of a level are
compiled at once: their functions are counted by name, helpers, tables and constants are the family `kernel`.
bench/size_budget.json has the budgets for each architecture, for builds by GCC.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHITECTURES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64", "ARM": "armv7"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def sections_of(readelf, library):
    """Returns a dictionary of the sections that are loaded, and so survive stripping: name -> bytes in the file."""
    sections = {}
    for line in run(readelf, "-SW", library).splitlines():
        match = re.match(r"\s*\[\s*\d+\]\s+(\.\S+)\s+(\S+)\s+[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)\s+[0-9a-f]+\s+(\w*A\w*)", line)
        if match and match[2] != "NOBITS":
            sections[match[1]] = int(match[3], 16)
    return sections


def architecture_of(readelf, library):
    machine = re.search(r"Machine:\s*(.*\S)", run(readelf, "-hW", library))[1]
    return ARCHITECTURES.get(machine, machine)


def stripped_size(strip, library):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "library")
        shutil.copyfile(library, copy)
        run(strip, copy)
        return os.path.getsize(copy)


def family_of(path, section):
    """asm/x86/gemm_f32_avx2.S.o belongs to gemm, quern_sources/op_element.cc.o to op; deps are cpuinfo and pthreadpool, if
    they are built in (QUERN_DEPS_DIR)."""
    match = re.search(r"(?:^|/)asm/\w+/([a-z0-9]+)[^/]*\.o$", path)
    if match:
        return match[1]
    if re.search(r"lib(cpuinfo|clog|pthreadpool)\.a\(", path):
        return "deps"
    match = re.search(r"quern_\w*objects\.dir/quern_\w+/([a-z]+)[^/]*\.o$", path)
    if not match:
        return "toolchain"
    return kernel_family(section) if match[1] == "kernel" else match[1]


def kernel_family(section):
    """The family of the kernel whose code a section holds: .text.qn_vadd_f32_neon belongs to eltwise."""
    match = re.match(r"\.text\.(?:unlikely\.)?qn_([a-z]+)", section)
    if not match:
        return "kernel"
    name = {"split": "unblock"}.get(match[1], match[1])
    return "eltwise" if name.startswith("v") else "pool" if name.endswith("pool") else name


def families_of(map_file, sections):
    """Returns a dictionary: family -> bytes of its input sections that the linker put into loaded output sections."""
    families = collections.Counter()
    output = None
    pending = None  # a long section name stands alone on its line
    try:
        text = pathlib.Path(map_file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        sys.exit(f"size: no map of the linker: {error}")
    if "Linker script and memory map" not in text:
        sys.exit(f"size: {map_file} is not a map of GNU ld")
    for line in text.splitlines():
        match = re.match(r"(\.[\w.]+)(\s|$)", line)
        if match:
            output = match[1]
            pending = None
            continue
        if output not in sections:
            continue
        match = re.match(r" (\S+)?\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S.*)$", line)
        section = match and (match[1] or pending)
        if section and section != "*fill*":
            families[family_of(match[3], section)] += int(match[2], 16)
        alone = re.match(r" (\.\S+)$", line)
        pending = alone and alone[1]
    # The sections also hold headers, dynamic symbols, relocations and padding, which are in no object file.
    families["linker"] = sum(sections.values()) - sum(families.values())
    return families


def over_budget(families, total, budget):
    problems = []
    for name, size in sorted(families.items()):
        if name not in budget["families"]:
            problems.append(f"{name} has no budget in size_budget.json ({size} bytes)")
        elif size > budget["families"][name]:
            problems.append(f"{name} takes {size} bytes, its budget is {budget['families'][name]}")
    total -= families["deps"]
    if total > budget["total"]:
        problems.append(f"the stripped library takes {total} bytes without deps, its budget is {budget['total']}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--map", help="the linker's map (default: LIBRARY.map)")
    parser.add_argument("--budget", default=os.path.join(HERE, "size_budget.json"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--strip", default="strip")
    parser.add_argument("--readelf", default="readelf")
    arguments = parser.parse_args()

    library = os.path.realpath(arguments.library)
    architecture = architecture_of(arguments.readelf, library)
    sections = sections_of(arguments.readelf, library)
    families = families_of(arguments.map or library + ".map", sections)
    total = stripped_size(arguments.strip, library)
    with open(arguments.budget, encoding="utf-8") as file:
        budget = json.load(file).get(architecture)

    if arguments.json:
        print(json.dumps({"architecture": architecture, "stripped": total, "sections": sections, "families": families}))
    else:
        print(f"{architecture}: {total} bytes stripped\n\n| section | bytes |\n| --- | ---: |")
        for name, size in sorted(sections.items(), key=lambda item: -item[1]):
            print(f"| `{name}` | {size} |")
        print("\n| family | bytes | budget |\n| --- | ---: | ---: |")
        for name, size in sorted(families.items(), key=lambda item: -item[1]):
            print(f"| {name} | {size} | {budget['families'].get(name, '-') if budget else '-'} |")

    if arguments.check:
        problems = over_budget(families, total, budget) if budget else [f"no budget for {architecture}"]
        for problem in problems:
            print(f"size: {problem}", file=sys.stderr)
        return 1 if problems else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Assembles the kernels with clang, the assembler of Apple's and Android's toolchains.  Nothing runs.

    check_clang.py [FILE...]        default: all of asm/, and the public headers; $CLANG: the clang to use

Checks that symbols which a Mach-O object shares with the library are hidden and begin with _qn_, and that the object
refers to nothing outside itself.  check_objects.py checks ELF objects.  Comments of headers document what the headers
declare.  Exits with 77 if there is no clang.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = {
    "arm64": ("arm64-apple-ios13", "arm64-apple-macos11", "aarch64-linux-android24"),
    "arm": ("armv7a-linux-androideabi24",),  # iOS has had no 32-bit programs since version 11
    "x86": ("x86_64-apple-ios13-simulator", "x86_64-apple-macos11", "x86_64-linux-android24"),
}
CLANGS = ("clang", *(f"clang-{version}" for version in range(25, 13, -1)))

# Constants of <mach-o/loader.h> and <mach-o/nlist.h>.
MAGIC, HEADER_BYTES, SYMBOL, LC_SYMTAB = 0xfeedfacf, 32, struct.Struct("<IBBHQ"), 2
N_STAB, N_PEXT, N_TYPE, N_EXT, N_UNDF = 0xe0, 0x10, 0x0e, 0x01, 0x00


def mach_symbols(data):
    """Yields (name, type) for every symbol of a 64-bit Mach-O object."""
    magic, commands = struct.unpack_from("<I12xI", data)
    if magic != MAGIC:
        raise ValueError(f"{magic:#x} is not Mach-O's magic number")
    at = HEADER_BYTES
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, at)
        if command == LC_SYMTAB:
            symbols, count, strings, _ = struct.unpack_from("<IIII", data, at + 8)
            for index in range(count):
                name, kind, *_ = SYMBOL.unpack_from(data, symbols + index * SYMBOL.size)
                start = strings + name
                yield data[start:data.index(b"\0", start)].decode(), kind
        at += size


def check_mach(path):
    shared = 0
    for name, kind in mach_symbols(pathlib.Path(path).read_bytes()):
        if kind & N_STAB or not kind & N_EXT:
            continue
        if kind & N_TYPE == N_UNDF:
            yield f"refers to {name} outside itself"
            continue
        shared += 1
        if not kind & N_PEXT:
            yield f"{name} is not hidden"
        if not name.startswith("_qn_"):
            yield f"{name} is not named _qn_"
    if shared == 0:
        yield "holds no function"


def check(clang, source, target):
    """Yields what is wrong with a source file when it is assembled for a target."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.o")
        command = [clang, f"--target={target}", "-c", str(source), "-o", path]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            yield result.stderr.strip()
        elif "apple" in target:
            yield from check_mach(path)


def check_header(clang, header):
    """Yields what is wrong with the comments of a header."""
    command = [clang, "-fsyntax-only", "-Wdocumentation", "-Werror", "-I", str(ROOT / "include")]
    for language in ("-xc++", "-std=c++17"), *([("-xc", "-std=c11")] if header.suffix == ".h" else []):
        text = f'#include "{header.resolve()}"\n'
        result = subprocess.run([*command, *language, "-"], input=text, capture_output=True, text=True)
        if result.returncode != 0:
            yield result.stderr.strip()


def find_clang():
    return os.environ.get("CLANG") or next(filter(None, map(shutil.which, CLANGS)), None)


def main():
    clang = find_clang()
    if not clang:
        print("no clang here: nothing was checked")
        return 77
    files = [pathlib.Path(name) for name in sys.argv[1:]]
    files = files or sorted([*(file for folder in TARGETS for file in (ROOT / "asm" / folder).glob("*.S")),
                             *(ROOT / "include/quern").glob("*.h*")])
    headers = [file for file in files if file.suffix != ".S"]
    objects = wrong = 0
    for header in headers:
        for message in check_header(clang, header):
            print(f"{header.name}: {message}", file=sys.stderr)
            wrong += 1
    for file in (file for file in files if file.suffix == ".S"):
        for target in TARGETS[file.resolve().parent.name]:
            objects += 1
            for message in check(clang, file, target):
                print(f"{file.name} for {target}: {message}", file=sys.stderr)
                wrong += 1
    print(f"{clang}: {objects} objects of {len(files) - len(headers)} files, {len(headers)} headers, {wrong} faults")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks how a system maps a shared library: segments must be aligned for pages of 16 KiB (on 64-bit systems), no
segment may be both writable and executable, the stack may not be executable, and code may not need relocation.

    check_segments.py LIBRARY...        $READELF: the tool to use
"""

import os
import re
import subprocess
import sys

PAGE = 16384


def run(*arguments):
    command = [os.environ.get("READELF", "readelf"), *arguments]
    environment = {**os.environ, "LC_ALL": "C"}  # binutils speak the user's language
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def check(path):
    """Yields what is wrong with a library."""
    wide = "ELF64" in run("--file-header", path)
    loads = 0
    for line in run("--program-headers", "--wide", path).splitlines():
        match = re.match(r"\s+(LOAD|GNU_STACK)\s+(?:0x\w+\s+){5}([R ][W ][E ])\s+(0x[0-9a-f]+|0)", line)
        if not match:
            continue
        kind, flags, alignment = match[1], match[2], int(match[3], 0)
        if kind == "GNU_STACK" and "E" in flags:
            yield "asks for an executable stack"
        if kind == "LOAD":
            loads += 1
            if wide and alignment < PAGE:
                yield f"a segment is aligned to {alignment} bytes"
            if "W" in flags and "E" in flags:
                yield "a segment is writable and executable"
    if loads == 0:
        yield "has no segments"
    if "TEXTREL" in run("--dynamic", "--wide", path):
        yield "relocates its code"


def main():
    wrong = 0
    for path in sys.argv[1:]:
        for message in check(path):
            print(f"{os.path.basename(path)}: {message}", file=sys.stderr)
            wrong += 1
    return 1 if wrong or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that a shared library exports exactly the functions that the public headers declare with QN_API.

    check_symbols.py LIBRARY HEADER...        $NM: the nm to use
"""

import os
import re
import subprocess
import sys

INIT = re.compile(r"^QN_INIT\((\w+)\)", re.M)  # declares functions, too


def declared(text):
    """Returns the names of the functions that the text of a header declares with QN_API."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.S | re.M)
    return re.findall(r"\bQN_API\b[^;(]*?(\w+)\s*\(", text) + [f"{name}_init_sized" for name in INIT.findall(text)]


def exported(library):
    command = [os.environ.get("NM", "nm"), "--dynamic", "--defined-only", "--format=posix", library]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines}


def main():
    library, headers = sys.argv[1], sys.argv[2:]
    names = [name for header in headers for name in declared(open(header).read())]
    api, symbols = set(names), exported(library)
    wrong = [f"declared twice: {name}" for name in sorted(api) if names.count(name) > 1]
    wrong += [f"declared but not exported: {name}" for name in sorted(api - symbols)]
    wrong += [f"exported but not declared: {name}" for name in sorted(symbols - api)]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(api)} functions declared, {len(symbols)} symbols exported, {len(wrong)} differences")
    return 1 if wrong or not api else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that a shared library exports exactly the functions that the public headers declare with QN_API, all of them
with one version.

    check_symbols.py LIBRARY VERSION HEADER...        $NM: the nm to use
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


def parse(lines):
    """Returns the symbols that nm has listed, without the versions' own: {name: version}."""
    symbols = dict.fromkeys(line.split()[0] for line in lines)
    symbols = {name: version for name, _, version in (symbol.partition("@@") for symbol in symbols)}
    return {name: version for name, version in symbols.items() if name not in symbols.values()}


def exported(library):
    command = [os.environ.get("NM", "nm"), "--dynamic", "--defined-only", "--format=posix", library]
    return parse(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines())


def main():
    library, version, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
    names = [name for header in headers for name in declared(open(header).read())]
    versions = exported(library)
    api, symbols = set(names), set(versions)
    wrong = [f"declared twice: {name}" for name in sorted(api) if names.count(name) > 1]
    wrong += [f"declared but not exported: {name}" for name in sorted(api - symbols)]
    wrong += [f"exported but not declared: {name}" for name in sorted(symbols - api)]
    wrong += [f"{name}: expected version {version}, got {got or 'none'}" for name, got in sorted(versions.items())
              if got != version]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(api)} functions declared, {len(symbols)} symbols exported, {len(wrong)} differences")
    return 1 if wrong or not api else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compiles every C and C++ source of a configured build, without writing objects.  Nothing runs.

    check_syntax.py FOLDER        a build folder of Ninja

Headers are generated and precompiled first. Most sources are parsed alone, which instantiates templates. Kernels for a
level of the CPU are compiled to assembly, because compilers check intrinsics there.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys


def prerequisites(folder):
    """Returns the targets that sources include: generated and precompiled headers."""
    targets = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], capture_output=True, text=True, check=True)
    paths = (line.rsplit(": ", 1)[0] for line in targets.stdout.splitlines())
    return [path for path in paths if re.search(r"^generated/.*\.h$|\.[gp]ch$", path)]


def check_commands(entries):
    """Returns (folder, command) for every source. One compiled for several targets is checked once for each level."""
    found = {}
    for entry in entries:
        command = shlex.split(entry["command"])
        if entry["file"].endswith((".S", ".hxx.cxx", ".hxx", ".h.c")):
            continue
        output = command.index("-o")
        del command[output:output + 2]
        machine = tuple(part for part in command if part.startswith("-m"))
        command += ["-O1", "-S", "-o", "-"] if machine else ["-fsyntax-only"]
        found.setdefault((entry["file"], machine), (entry["directory"], command))
    return list(found.values())


def check(entry):
    folder, command = entry
    return subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    if headers := prerequisites(folder):
        subprocess.run(["ninja", "-C", folder, *headers], check=True, stdout=subprocess.DEVNULL)
    commands = check_commands(json.loads((folder / "compile_commands.json").read_text()))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        failed = [done for done in pool.map(check, commands) if done.returncode != 0]
    for done in failed:
        print(f"{shlex.join(done.args)}\n{done.stderr}", file=sys.stderr)
    print(f"{folder}: {len(commands)} sources, {len(failed)} do not compile")
    return 1 if failed or not commands else 0


if __name__ == "__main__":
    sys.exit(main())

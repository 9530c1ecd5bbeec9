#!/usr/bin/env python3
"""Runs quern-choices on the smallest models: what it prints adds up, and what it refuses. --fit finds the same row again
from the times that it has kept. No timing is judged.

    choices_test.py QUERN_CHOICES
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def run(*arguments):
    return subprocess.run(arguments, check=False, capture_output=True, text=True)


def problems_of(program):
    for wrong in ("--threads=0", "--threads=x", "--repeats=-1", "--models=alexnet", "--models=", "more"):
        result = run(program, wrong)
        if result.returncode != 2 or "usage" not in result.stderr or result.stdout:
            yield f"{wrong}: status {result.returncode}, {result.stderr}"
    result = run(program, "--models=squeezenet_v1.1,shufflenet_v2", "--repeats=1", "--threads=2", "--all")
    if result.returncode != 0:
        yield f"status {result.returncode}: {result.stderr}"
        return
    head = re.match(r"Level \w+, 2 threads: (\d+) problems, (\d+) of them with more than one candidate.\n"
                    r"Within 5% of the best candidate's time: ([\d.]+)%", result.stdout)
    if not head:
        yield f"another beginning: {result.stdout[:300]}"
        return
    listed = re.findall(r"^(?:conv2d|fully_connected) .*\n((?:  +[\d.]+ us, expected +[\d.]+ us  \w+ +qn_\w+\n)+)",
                        result.stdout, re.M)
    if len(listed) != int(head[1]) or len(listed) < 30:
        yield f"{len(listed)} of {head[1]} problems are listed"
    if sum(lines.count("\n") > 1 for lines in listed) != int(head[2]):
        yield f"not {head[2]} problems with several candidates"
    misses = re.findall(r"^\| \d.* ([\d.]+) \|$", result.stdout, re.M)
    if abs(100 * (1 - len(misses) / len(listed)) - float(head[3])) > 0.06:
        yield f"{len(misses)} misses, but {head[3]}%"
    if any(float(ratio) < 1.05 for ratio in misses):
        yield f"a miss is none: {misses}"


def problems_of_fit(program):
    with tempfile.TemporaryDirectory() as folder:
        times = pathlib.Path(folder, "times.txt")
        options = ("--fit", "--models=squeezenet_v1.1", "--repeats=1", f"--times={times}")
        first, kept, second = run(program, *options), times.read_text().splitlines(), run(program, *options)
        for result in (first, second):
            if result.returncode != 0 or not re.fullmatch(r"QN_MACHINE\(isa_\w+, core_\w+,(\s+\.\w+ = [\d.]+f?,?)+\)\n",
                                                          result.stdout):
                yield f"no row: status {result.returncode}, {result.stdout} {result.stderr}"
        if first.stdout != second.stdout:
            yield f"from the same times another row: {first.stdout} {second.stdout}"
        if len(kept) < 100 or kept != times.read_text().splitlines():
            yield f"times are measured again, or were not kept: {len(kept)}"


def main():
    found = list(problems_of(sys.argv[1])) + list(problems_of_fit(sys.argv[1]))
    print("\n".join(found) or "quern-choices is all right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs every benchmark for a moment and checks its line: name, counters, no error.

    lines_test.py QUERN_BENCH
"""

import json
import math
import platform
import re
import subprocess
import sys

NAME = re.compile(
    r"kernel/qn_[a-z0-9_]+/[0-9x]+(/zeros:0\.[0-9]+)?/threads:1"
    r"|stream/[12]r[01]w/[a-z0-9]+/[0-9]+/threads:1"
    r"|op/[a-z0-9_]+/(f32|qs8|qd8c|qd8c4|qd8b4|qw8c|qw4b)(_to_(f32|qs8))?/(auto|direct|gemm|igemm|depthwise|winograd)/[a-z0-9_]+/threads:[12]"
)


# A level with a peak of bytes, if every machine that runs this has it.
BYTES = {"x86_64": ["quern_peak_gops_of_bytes_sse41"], "aarch64": ["quern_peak_gops_of_bytes_neon"]}.get(
    platform.machine(), [])


def problems_of(line):
    if not NAME.fullmatch(line["name"]):
        yield "unexpected name"
    if line.get("error_occurred"):
        yield line.get("error_message", "error")
        return
    for counter in ("ops_per_second", "bytes_per_second", "percent_of_peak"):
        if not 0 < line.get(counter, 0) < math.inf:
            yield f"{counter} is {line.get(counter)}"


def main():
    result = subprocess.run(
        [sys.argv[1], "--benchmark_format=json", "--benchmark_min_time=0.0001", "--threads=1,2"],
        check=True, capture_output=True, text=True,
    )
    output = json.loads(result.stdout)
    lines = output["benchmarks"]
    problems = [f"{line['name']}: {problem}" for line in lines for problem in problems_of(line)]
    for kind in ("kernel/", "op/"):
        if not any(line["name"].startswith(kind) for line in lines):
            problems.append(f"no line begins with {kind}")
    peaks = ["quern_peak_gflops_ref"] + (BYTES if output["context"]["quern_isa"] != "ref" else [])
    for name in peaks:
        if not 0 < float(output["context"].get(name, 0)) < math.inf:
            problems.append(f"{name} is {output['context'].get(name)}")
    print("\n".join(problems))
    print(f"{len(lines)} lines, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

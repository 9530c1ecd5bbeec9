#!/usr/bin/env python3
"""Runs the peers bench for a moment with the libraries it has: lines, counters, tables, what it says of missing ones.

    peers_test.py OPERATORS_PY QUERN_PEERS_BENCH
"""

import json
import pathlib
import subprocess
import sys
import tempfile

PEERS = ("xnnpack", "onednn", "openblas", "blis")


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)


def problems_of(script, program, folder):
    built = [peer for peer in PEERS if pathlib.Path(program).with_name(f"quern-peer-{peer}.so").exists()]
    file = pathlib.Path(folder, "lines.json")
    result = run(script, program, "--json", str(file), "--rounds=1", "--threads=1,2", f"--peers={','.join(built)}")
    if result.returncode != (0 if built else 1):
        yield f"status {result.returncode} with {built}: {result.stderr[-500:]}"
    lines = json.loads(file.read_text())["benchmarks"]
    for line in lines:
        if not line.get("quern/ops_per_second", 0) > 0 or not line.get("percent_of_peak", 0) > 0:
            yield f"{line['name']} lacks counters of ours"
    for table, rows in {"product": 9, "convolution": 5, "depthwise": 8, "top": 20}.items():
        for threads in (1, 2):
            names = (line["name"] for line in lines)
            count = sum(name.startswith(f"{table}/") and f"/threads:{threads}/" in name for name in names)
            if count != rows:
                yield f"{count} lines of {table} with {threads} threads"
    shown = result.stdout.count("\n| ") - result.stdout.count("\n| shape") - result.stdout.count("\n| ---")
    if shown != len(lines):
        yield f"{shown} rows of tables for {len(lines)} lines"
    for peer in built:
        if not any(line.get(f"{peer}/ops_per_second", 0) > 0 for line in lines):
            yield f"no figure of {peer}"

    result = run(script, program, "--rounds=1", "--peers=nosuch", "--benchmark_filter=7x7x512")
    if result.returncode != 1 or "nosuch is missing" not in result.stderr:
        yield f"a missing library gave status {result.returncode}: {result.stderr[-500:]}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        problems = list(problems_of(*sys.argv[1:], folder))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

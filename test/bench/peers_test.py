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


TYPES = {"qs8c": {"product": 9, "convolution": 5, "depthwise": 8, "top": 20}, "qd8c": {"product": 9},
         "qd8c4": {"product": 9}, "qd8b4": {"product": 9}, "qw8c": {"product": 3}}
# The libraries that have operators of these types.
PEERS_OF = {"qs8c": {"xnnpack", "onednn"}, "qd8c": {"xnnpack"}, "qd8c4": {"xnnpack"}, "qd8b4": {"xnnpack"},
            "qw8c": {"xnnpack"}}


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

    yield from problems_of_bytes(script, program, built, file)
    result = run(script, program, "--types=f32,qs9")
    if result.returncode != 2 or "--types takes" not in result.stderr:
        yield f"an unknown type gave status {result.returncode}: {result.stderr[-500:]}"
    result = run(script, program, "--rounds=1", "--peers=nosuch", "--benchmark_filter=7x7x512")
    if result.returncode != 1 or "nosuch is missing" not in result.stderr:
        yield f"a missing library gave status {result.returncode}: {result.stderr[-500:]}"


def problems_of_bytes(script, program, built, file):
    """Whether layers of bytes have all their lines, and the outputs of all libraries agree."""
    result = run(script, program, "--json", str(file), "--rounds=1", f"--types={','.join(TYPES)}",
                 f"--peers={','.join(built)}")
    if result.returncode != (0 if built else 1):
        yield f"status {result.returncode} with {built}: {result.stderr[-500:]}"
    output = json.loads(file.read_text())
    has_peak = float(output["context"]["quern_peak_gops_of_bytes"]) > 0
    for kind, tables in TYPES.items():
        lines = [line for line in output["benchmarks"] if f"/{kind}/" in line["name"]]
        counts = {table: sum(line["name"].startswith(f"{table}/") for line in lines) for table in tables}
        if counts != tables or len(lines) != sum(tables.values()):
            yield f"lines of {kind}: {counts} of {len(lines)}"
        for line in lines:
            if not line.get("quern/ops_per_second", 0) > 0 or (line.get("percent_of_peak", 0) > 0) != has_peak:
                yield f"{line['name']} lacks counters of ours"
            missing = [peer for peer in PEERS_OF[kind].intersection(built) if not line.get(f"{peer}/ops_per_second")]
            if missing:
                yield f"{line['name']} lacks {missing}"
        if f"; {kind}: " not in result.stdout:
            yield f"no table of {kind}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        problems = list(problems_of(*sys.argv[1:], folder))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs quern-peers-bench and prints its lines as tables: layers in Quern and in other libraries, interleaved.

    bench/peers/operators.py QUERN_PEERS_BENCH [--json FILE] [flags of the program, as --threads=1,2]

The flags are those of google-benchmark, --threads, --rounds, --peers and --types.  If a library is missing, fails or
computes something else, the script names it and exits with 1.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

TABLES = {"product": "Matrix products: rows x inputs x outputs", "convolution": "Convolutions",
          "depthwise": "Depthwise convolutions; ours where the buffers lie worst, the others where they lie best",
          "top": "The twenty layers that the zoo spends most multiply-accumulates on"}
TYPES = {"f32": "floats", "qs8c": "bytes",
         "qd8c": "rows of floats that become bytes, weights of 8 bits",
         "qd8c4": "rows of floats that become bytes, weights of 4 bits",
         "qd8b4": "rows of floats that become bytes, weights of 4 bits with scales for each 32",
         "qw8c": "one row of floats, weights of 8 bits"}
NAME = re.compile(r"(\w+)/\w+/(\w+)/(\w+)/threads:(\d+)/.*")


def read_lines(output):
    """Returns a dictionary: (threads, type, table) -> lines (shape, label, counters), medians of repeated lines."""
    repetitions = {}
    for line in output["benchmarks"]:
        if line.get("run_type") != "aggregate" and not line.get("error_occurred"):
            repetitions.setdefault(line["run_name"], []).append(line)
    tables = {}
    for name, lines in repetitions.items():
        table, kind, shape, threads = NAME.fullmatch(name).groups()
        counters = {key: statistics.median(line[key] for line in lines if key in line)
                    for key, value in lines[0].items() if isinstance(value, float)}
        tables.setdefault((int(threads), kind, table), []).append((shape, lines[0].get("label", ""), counters))
    return tables


def engines_of(lines):
    found = {key.removesuffix("/ops_per_second") for _, _, counters in lines for key in counters
             if key.endswith("/ops_per_second")}
    return ["quern", *sorted(found - {"quern"})]


def cell(counters, engine):
    """GFLOP/s, and percent of the peak that the line was measured beside, if there is one."""
    speed, percent = counters.get(f"{engine}/ops_per_second"), counters.get("percent_of_peak")
    if not speed:
        return ""
    return f"{speed / 1e9:.1f}" + (f" ({percent * speed / counters['quern/ops_per_second']:.0f}%)" if percent else "")


def print_table(table, kind, threads, lines):
    engines, has_model = engines_of(lines), table == "top"
    header = ["shape", *["model"] * has_model, *engines, "fastest peer / ours"]
    numbers = "" if kind == "f32" else f"; {kind}: {TYPES[kind]}"
    print(f"\n### {TABLES[table]}{numbers}; {threads} thread{'s' if threads > 1 else ''}\n")
    print("| " + " | ".join(header) + " |\n|" + " --- |" * (1 + has_model) + " ---: |" * (len(engines) + 1))
    ratios = []
    for shape, label, counters in lines:
        model = [label.split(";", maxsplit=1)[0]] * has_model
        ratio = counters.get("ratio")
        if ratio:
            ratios.append(ratio)
        cells = [shape, *model, *(cell(counters, engine) for engine in engines), f"{ratio:.2f}" if ratio else ""]
        print("| " + " | ".join(cells) + " |")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\nRatios: smallest {min(ratios):.2f}, geometric mean {mean:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], allow_abbrev=False)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="keep the program's output here")
    options, flags = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as folder:
        file = options.json or pathlib.Path(folder, "lines.json")
        command = [options.program.resolve(), f"--benchmark_out={file}", "--benchmark_out_format=json", *flags]
        status = subprocess.run(command, stdout=sys.stderr, check=False).returncode
        if status not in (0, 1) or not file.exists() or not file.stat().st_size:  # a wrong flag, no such layer
            return status or 2
        output = json.loads(file.read_text())

    context = output["context"]
    versions = [f"{key.removeprefix('quern_peer_')} {value}" for key, value in context.items()
                if key.startswith("quern_peer_")]
    print(f"quern {context['quern_version']} ({context['quern_isa']}), {', '.join(versions)}; "
          f"peak of one core before the layers run {float(context['quern_peak_gflops']):.1f}, of int8 "
          f"{float(context['quern_peak_gops_of_bytes']):.1f}; GFLOP/s or GOP/s (of the peak beside the layer)")
    tables = read_lines(output)
    for threads, kind, table in sorted(tables, key=lambda k: (list(TYPES).index(k[1]), k[0], list(TABLES).index(k[2]))):
        print_table(table, kind, threads, tables[threads, kind, table])
    return status


if __name__ == "__main__":
    sys.exit(main())

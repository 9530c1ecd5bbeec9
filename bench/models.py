#!/usr/bin/env python3
"""Runs whole models in interleaved rounds, with every number of threads; prints the table of results/models.md.

    bench/models.py QUERN [--models NAME,...] [--threads 1,2] [--rounds 5]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODELS = "squeezenet_v1.1,mobilenet_v1,mobilenet_v2"


def measure(quern, model, threads):
    command = [quern, "bench", str(model), "--threads", str(threads), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def median(rounds, field):
    return statistics.median(line[field] for line in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", help="the quern command")
    parser.add_argument("--models", default=MODELS, help="names of `quern zoo`")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    counts = [int(count) for count in options.threads.split(",")]

    lines = {(name, count): [] for name in options.models.split(",") for count in counts}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder, name + ".qn") for name, _ in lines}
        for name, file in files.items():
            subprocess.run([options.quern, "zoo", name, "-o", str(file)], check=True, stdout=subprocess.DEVNULL)
        for _ in range(options.rounds):
            for (name, count), rounds in lines.items():
                rounds.append(measure(options.quern, files[name], count))

    isa = next(iter(lines.values()))[0]["isa"]
    print(f"Level {isa}; medians of {options.rounds} interleaved rounds; speed-up: the median and the best round.\n")
    print("| model | threads | median ms | fastest ms | GFLOP/s | of peak | speed-up | load ms | peak memory MB |")
    print("|" + " --- |" * 9)
    for (name, count), rounds in lines.items():
        ratios = [one["median_ms"] / many["median_ms"] for one, many in zip(lines[name, counts[0]], rounds)]
        print(f"| {name} | {count} | {median(rounds, 'median_ms'):.2f} | {min(line['min_ms'] for line in rounds):.2f} "
              f"| {median(rounds, 'gflops'):.0f} | {median(rounds, 'percent_of_peak'):.0f}% "
              f"| {statistics.median(ratios):.2f}, {max(ratios):.2f} | {median(rounds, 'load_ms'):.1f} "
              f"| {median(rounds, 'peak_memory_bytes') / 1e6:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

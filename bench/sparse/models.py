#!/usr/bin/env python3
"""Measures how much faster zeros in the weights make whole models, beside the same model with none.

    bench/sparse/models.py QUERN [--models NAME,...] [--blocks 1,4] [--zeros 0.1,...] [--threads 1] [--rounds 5]
                                 [--runs 20] [--json FILE]

QUERN is the command.  In every round three models run one after the other: the dense one, the one with zeros, and the
one with zeros by the sparse algorithm wherever that applies.  A speed-up is the median of the rounds' ratios, in
brackets the ratio of the fastest runs.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODELS = "mobilenet_v1,mobilenet_v2,squeezenet_v1.1,resnet50_v2"
ZEROS = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.85,0.9,0.95"
LINE = (0.3, 0.95)  # the parts of zeros for which R^2 is computed, from and to

SIDES = {"dense": (), "free": (), "sparse": ("--algorithm", "sparse")}  # flags of `quern bench`


def run(*command):
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


def measure(quern, dense, pruned, options):
    """Returns a dictionary: side -> its lines, one for each round."""
    lines = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side, flags in SIDES.items():
            file = dense if side == "dense" else pruned
            text = run(quern, "bench", file, "--threads", options.threads, "--runs", options.runs, "--json", *flags)
            lines[side].append(json.loads(text))
    return lines


def record_of(model, block, zeros, lines):
    record = {"model": model, "block": block, "zeros": zeros, "isa": lines["dense"][0]["isa"],
              "threads": lines["dense"][0]["threads"]}
    for side, rounds in lines.items():
        record[f"{side}_ms"] = statistics.median(line["median_ms"] for line in rounds)
        record[f"{side}_min_ms"] = min(line["min_ms"] for line in rounds)
        ratios = [a["median_ms"] / b["median_ms"] for a, b in zip(lines["dense"], rounds)]
        record[f"{side}_speedup"] = statistics.median(ratios)
        record[f"{side}_min_speedup"] = record["dense_min_ms"] / record[f"{side}_min_ms"]
    return record


def r_squared(records, time):
    """R^2: how well times follow a straight line over the part of the weights that is left; NaN for too few points."""
    points = [(1 - r["zeros"], r[time]) for r in records if LINE[0] <= r["zeros"] <= LINE[1]]
    if len(points) < 3:
        return float("nan")
    return statistics.correlation(*zip(*points)) ** 2


def rows_of(records):
    name = f"{records[0]['model']} | {'CSR' if records[0]['block'] == 1 else '1x%d' % records[0]['block']}"
    for side in ("free", "sparse"):
        cells = [f"{r[f'{side}_speedup']:.2f} ({r[f'{side}_min_speedup']:.2f})" for r in records]
        fit = f"{r_squared(records, 'sparse_ms'):.4f} ({r_squared(records, 'sparse_min_ms'):.4f})"
        cells.append(fit if side == "sparse" else "")
        yield f"| {name} | {'chooser' if side == 'free' else 'sparse'} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("--models", default=MODELS, help="names of `quern zoo`")
    parser.add_argument("--blocks", default="1,4", help="output channels of blocks; 1: single weights (CSR)")
    parser.add_argument("--zeros", default=ZEROS, help="parts of the weights")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20, help="measured runs of each side in a round")
    parser.add_argument("--json", type=pathlib.Path, help="write records here")
    options = parser.parse_args()
    quern = options.quern.resolve()
    zeros, blocks = options.zeros.split(","), [int(block) for block in options.blocks.split(",")]

    print(f"Speed-up by zeros over the dense model, {options.threads} thread{'s' if options.threads > 1 else ''}; "
          f"R^2 of time over what is left, {LINE[0]} to {LINE[1]} zeros\n")
    print(f"| model | zeros in | algorithm | {' | '.join(zeros)} | R^2 |\n|" + " --- |" * (len(zeros) + 4))
    records = []
    with tempfile.TemporaryDirectory() as folder:
        dense, pruned = pathlib.Path(folder, "dense.qn"), pathlib.Path(folder, "pruned.qn")
        for model, block in itertools.product(options.models.split(","), blocks):
            run(quern, "zoo", model, "-o", dense)
            curve = []
            for part in zeros:
                run(quern, "zoo", model, "--sparsity", part, "--block", block, "-o", pruned)
                curve.append(record_of(model, block, float(part), measure(quern, dense, pruned, options)))
            records += curve
            print("\n".join(rows_of(curve)), flush=True)
    worst = min(records, key=lambda record: record["free_speedup"])
    print(f"\nThe chooser at its worst: {worst['free_speedup']:.3f} ({worst['free_min_speedup']:.3f}) times the speed "
          f"of the dense model, {worst['model']} with {worst['zeros']} zeros in blocks of {worst['block']}.")
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

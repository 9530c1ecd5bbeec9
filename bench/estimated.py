#!/usr/bin/env python3
"""Estimates whole models on cores of phones by `quern predict`; prints the table of results/phones.md.

    bench/estimated.py QUERN [--models NAME,...] [--cores NAME,...] [--threads 1]

QUERN is the command, built for any machine.  Models are those of `quern zoo`, dense and with 90% zeros in blocks of
1x4.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MODELS = "squeezenet_v1.1,mobilenet_v1,mobilenet_v2"
CORES = "kryo,a73,a75,a76,a53"
WEIGHTS = {"dense": (), "90% zeros, 1x4": ("--sparsity", "0.9", "--block", "4")}  # flags of `quern zoo`


def run(*command):
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


def cell(estimate):
    """Milliseconds; in brackets the share of them that no prediction of a kernel's loop backs."""
    loose = sum(each["ms"] for each in estimate["classes"] if each["figure"] in ("assumed", "reference"))
    return f"{estimate['total_ms']:.1f} ({100 * loose / estimate['total_ms']:.0f}%)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--cores", default=CORES)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    quern, cores = options.quern.resolve(), options.cores.split(",")

    rows, titles = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "model.qn")
        for model in options.models.split(","):
            for weights, flags in WEIGHTS.items():
                run(quern, "zoo", model, "-o", file, *flags)
                estimates = [json.loads(run(quern, "predict", file, "--core", core, "--threads", options.threads, "--json"))
                             for core in cores]
                titles = [f"{each['core'].capitalize()}, {each['chip']}, {each['ghz']} GHz" for each in estimates]
                rows.append(f"| {model} | {weights} | {' | '.join(map(cell, estimates))} |")
    print(f"| model | weights | {' | '.join(titles)} |\n|" + " --- |" * (len(cores) + 2))
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

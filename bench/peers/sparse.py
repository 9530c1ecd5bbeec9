#!/usr/bin/env python3
"""Runs models with zeros in their weights in Quern and MNN: same weights and input, interleaved, outputs compared.

    bench/peers/sparse.py QUERN [--models NAME,...] [--blocks 1,4,8] [--zeros 0.51,0.75,0.9] [--threads 1,2]
                                [--rounds 5] [--runs 20] [--json FILE]

QUERN is the command; it makes each model with zeros (`quern zoo --sparsity --block`) and without, and exports both to
ONNX.  The script tells MNN to use its kernels for zeros in every layer that has some, and checks that it does.  The
first call installs MNN (scripts/compare_engines.py).
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import statistics
import sys
import tempfile

from models import HERE, Bench, enter_environment, json_within, text_of

WHEELS = "numpy onnx mnn"

PUBLISHED_PEAK = 118  # GFLOP/s of one core of the machine of `published`, a Zen 4, with avx2 and with avx512


@dataclasses.dataclass(frozen=True)
class Case:
    """A model whose zeros come in blocks of `block` output channels."""

    model: str
    block: int
    published: dict  # part of zeros -> ms of MNN 3.6 on another machine, with one thread and with two
    isa: str = ""  # a level below the best, on which MNN cannot run; so it has no figures but the published ones

    def pattern(self):
        return ("CSR" if self.block == 1 else f"1x{self.block}") + (f", {self.isa}" if self.isa else "")


CASES = (
    Case("mobilenet_v1", 1, {0.51: (14.2, 8.5), 0.75: (7.5, 4.7), 0.9: (4.08, 2.71)}),
    Case("mobilenet_v1", 4, {0.51: (7.6, 4.5), 0.75: (4.7, 3.0), 0.9: (3.01, 2.07)}),
    Case("mobilenet_v1", 8, {0.51: (7.8, 4.6), 0.75: (4.9, 3.0), 0.9: (3.05, 2.05)}),
    Case("mobilenet_v1", 4, {0.51: (8.3,), 0.75: (5.1,), 0.9: (2.89,)}, "avx2"),
    Case("mobilenet_v2", 4, {0.51: (5.5, 3.8), 0.75: (4.2, 2.9), 0.9: (3.2, 2.4)}),
    Case("squeezenet_v1.1", 4, {0.51: (5.7, 3.5), 0.75: (3.9, 2.6), 0.9: (2.7, 2.0)}),
    Case("resnet50_v2", 4, {0.51: (43.8, 26.4), 0.75: (27.0, 16.7), 0.9: (16.2, 10.5)}),
)

# MNN takes its kernels for single weights from 60% zeros on, its kernels for blocks from 30%. If a block is larger than
# any layer has channels, MNN takes the weights for single ones, but with the threshold of blocks. The size is odd, so
# that MNN does not look for parts of such blocks.
SINGLE_WEIGHTS = 4097


def mnn_zeros(block):
    """The file that tells MNN's converter about blocks."""
    pruned = {"type": "SIMD_OC", "simdOcPrunerParams": {"ocBlocks": [SINGLE_WEIGHTS if block == 1 else block]}}
    return json.dumps({"version": "0.0.0", "algo": [{"type": "PRUNE", "pruneParams": pruned}]})


def engine(*arguments):
    return text_of(sys.executable, HERE / "engines.py", *arguments)


def check_sparse(quern, home):
    """Does MNN's file mark every layer with zeros as one for its sparse kernels?"""
    layers = json.loads(text_of(quern, "info", home / "model.qn", "--json"))["layers"]
    zeros = sum(layer["zeros"] > 0 for layer in layers)
    marked = (home / "sparse.mnn").read_bytes().count(b"sparseBlockOC")
    if marked != zeros or zeros == 0:
        raise RuntimeError(f"MNN takes {marked} layers of {home.name} as sparse, not {zeros}")


def prepare(quern, home, model, block=1, zeros=0.0):
    """Makes the model for both engines, an input, and our output."""
    import numpy

    home.mkdir()
    text_of(quern, "zoo", model, "-o", home / "model.qn", *(("--sparsity", zeros, "--block", block) if zeros else ()))
    text_of(quern, "export", home / "model.qn", "-o", home / "model.onnx")
    entry = json.loads(text_of(quern, "info", home / "model.qn", "--json"))["inputs"][0]
    numpy.save(home / "input.npy", numpy.random.default_rng(1).standard_normal(entry["shape"], numpy.float32))
    text_of(quern, "run", home / "model.qn", "--input", home / "input.npy", "--output", home / "quern")
    if zeros:
        (home / "zeros.json").write_text(mnn_zeros(block))
    engine("prepare", "mnn-sparse" if zeros else "mnn", home)
    if zeros:
        check_sparse(quern, home)


def measure_ours(quern, home, isa, threads, runs):
    flags = ("--threads", threads, "--runs", runs, "--json", *(("--isa", isa) if isa else ()))
    return json.loads(text_of(quern, "bench", home / "model.qn", *flags))


def measure_mnn(name, home, threads, runs):
    line = json_within(engine("run", name, home, threads, runs, home / f"{name}.npy"))
    Bench.compare(home, home / f"{name}.npy")
    return line


def measure(quern, folder, case, zeros, threads, options):
    """Returns a dictionary: name of a side -> its lines, one for each round."""
    dense, sparse = folder / case.model, folder / f"{case.model}_{case.block}_{zeros}"
    sides = {"dense": lambda: measure_ours(quern, dense, case.isa, threads, options.runs),
             "sparse": lambda: measure_ours(quern, sparse, case.isa, threads, options.runs)}
    if not case.isa:
        sides["mnn_dense"] = lambda: measure_mnn("mnn", dense, threads, options.runs)
        sides["mnn_sparse"] = lambda: measure_mnn("mnn-sparse", sparse, threads, options.runs)
    lines = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            lines[name].append(side())
    return lines


def record_of(case, zeros, threads, lines):
    record = {"model": case.model, "block": case.block, "isa": lines["dense"][0]["isa"], "zeros": zeros,
              "threads": threads}
    for name, rounds in lines.items():
        record[f"{name}_median_ms"] = statistics.median(line["median_ms"] for line in rounds)
        record[f"{name}_min_ms"] = min(line["min_ms"] for line in rounds)
    peaks = [100 * line["gflops"] / line["percent_of_peak"] / threads for line in lines["dense"]]
    record["peak_gflops"] = statistics.median(peaks)
    published = case.published.get(zeros, ())
    if threads <= len(published):
        record["published_scaled_ms"] = published[threads - 1] * PUBLISHED_PEAK / record["peak_gflops"]
    return record


def pair(median, fastest):
    return f"{median:.2f} ({fastest:.2f})"


def times(record, name):
    known = f"{name}_median_ms" in record
    return pair(record[f"{name}_median_ms"], record[f"{name}_min_ms"]) if known else "-"


def ratio(record, name):
    if f"{name}_median_ms" not in record:
        return "-"
    return pair(*(record[f"{name}_{kind}_ms"] / record[f"sparse_{kind}_ms"] for kind in ("median", "min")))


def row_of(case, record):
    scaled = record.get("published_scaled_ms")
    cells = (case.model, case.pattern(), record["zeros"], record["threads"], times(record, "dense"),
             times(record, "sparse"), ratio(record, "dense"), times(record, "mnn_dense"), times(record, "mnn_sparse"),
             ratio(record, "mnn_sparse"), f"{scaled:.2f}" if scaled else "-",
             pair(*(scaled / record[f"sparse_{kind}_ms"] for kind in ("median", "min"))) if scaled else "-")
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


HEADING = ("model", "zeros in", "part", "threads", "ours dense", "ours sparse", "dense / sparse", "MNN dense",
           "MNN sparse", "MNN sparse / ours", "published, scaled", "that / ours")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("--models", help="some of them only")
    parser.add_argument("--blocks", help="some of 1, 4, 8 only")
    parser.add_argument("--zeros", default="0.51,0.75,0.9")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20, help="measured runs of each side in a round")
    parser.add_argument("--json", type=pathlib.Path, help="write records here")
    return parser.parse_args()


def main():
    options = arguments()
    enter_environment(WHEELS)
    wanted = [case for case in CASES
              if (not options.models or case.model in options.models.split(","))
              and (not options.blocks or str(case.block) in options.blocks.split(","))]
    zeros = [float(part) for part in options.zeros.split(",")]
    counts = [int(count) for count in options.threads.split(",")]
    quern = options.quern.resolve()

    print("Median ms (fastest); ratios of medians (of the fastest)\n")
    print("| " + " | ".join(HEADING) + " |\n|" + " --- |" * len(HEADING))
    records, failed = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case, part in itertools.product(wanted, zeros):
            try:
                if not (folder / case.model).exists():
                    prepare(quern, folder / case.model, case.model)
                home = folder / f"{case.model}_{case.block}_{part}"
                if not home.exists():
                    prepare(quern, home, case.model, case.block, part)
                for threads in counts:
                    record = record_of(case, part, threads, measure(quern, folder, case, part, threads, options))
                    records.append(record)
                    print(row_of(case, record), flush=True)
            except (RuntimeError, ValueError) as error:
                failed.append(f"{case.model}, {case.pattern()}, {part}: {error}")
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    if records:
        print(f"\nPublished times are scaled by the peak: {PUBLISHED_PEAK} GFLOP/s per core there, "
              f"{statistics.median(record['peak_gflops'] for record in records):.0f} here.")
    print("\n".join(failed), end="\n" if failed else "", file=sys.stderr)
    print(f"MNN: {len(records)} agree, {len(failed)} differ")
    return 1 if failed or not records else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs models in Quern, ONNX Runtime, MNN, ncnn and OpenVINO: the same input, interleaved rounds, outputs compared.

    bench/peers/models.py QUERN [--type f32|qs8] [--models NAME,...] [--threads 1,2] [--rounds 5]
                          [--json FILE] [--plot FILE.png]

QUERN is the command; it makes each model (`quern zoo`) and exports it to ONNX.  The first call installs the
engines (scripts/compare_engines.py).  If an engine does not run, the script names it and exits with 1.
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

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))
from compare_engines import enter_environment

WHEELS = "numpy onnx onnxruntime mnn ncnn openvino pillow pnnx"
# The peers of a type, each with the engines of engines.py that it can run as; the fastest of these counts.
PEERS = {"f32": {"onnxruntime": ["onnxruntime"], "mnn": ["mnn"], "ncnn": ["ncnn"], "openvino": ["openvino"]},
         "qs8": {"onnxruntime": ["onnxruntime-u8", "onnxruntime-s8"], "mnn": ["mnn-int8"],
                 "openvino": ["openvino-u8", "openvino-s8"]}}
NOTES = {"f32": "", "qs8": "ncnn takes no part: its package has no quantizer."}
MODELS = ("mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "squeezenet_v1.1", "shufflenet_v2", "resnet18", "resnet50",
          "vgg16")
TOLERANCE = 1e-3  # times the largest element of our output; other orders of sums, and Winograd, differ a little
# With bytes a number that lies between two steps may round to either one, and the next layers pass the step on.
TOLERANCE_OF_BYTES = 0.1
TOLERANCE_OF_OTHER_BYTES = 0.5  # for an engine that has chosen scales of its own
MUCH_SLOWER = 1.5


def text_of(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").split("\n")
        raise RuntimeError(words[-1][:200])
    return done.stdout


def json_within(text):
    """The object that an engine's process printed. Libraries print lines of their own, before it or as they end."""
    begin = re.search(r"^\{", text, re.MULTILINE)
    if not begin:
        raise RuntimeError(f"no JSON in what it printed: {text[:200]}")
    return json.JSONDecoder().raw_decode(text, begin.start())[0]


class Bench:
    def __init__(self, quern, folder, runs, kind):
        self.quern, self.folder, self.runs, self.kind = quern, pathlib.Path(folder), runs, kind
        self.failed = {}  # (model, engine) -> why

    def engines(self):
        return [engine for engines in PEERS[self.kind].values() for engine in engines]

    def engine(self, *arguments):
        return text_of(sys.executable, HERE / "engines.py", *arguments)

    def prepare(self, model):
        """Makes the model, a random input, and the files that each peer needs."""
        import numpy

        home = self.folder / model
        home.mkdir()
        text_of(self.quern, "zoo", model, "--type", self.kind, "-o", home / "model.qn")
        text_of(self.quern, "export", home / "model.qn", "-o", home / "model.onnx")
        if self.kind != "f32":
            text_of(self.quern, "zoo", model, "-o", home / "float.qn")
            text_of(self.quern, "export", home / "float.qn", "-o", home / "float.onnx")
        entry = json.loads(text_of(self.quern, "info", home / "model.qn", "--json"))["inputs"][0]
        values = numpy.random.default_rng(1).standard_normal(entry["shape"], numpy.float32)
        numpy.save(home / "input.npy", values)
        text_of(self.quern, "run", home / "model.qn", "--input", home / "input.npy", "--output", home / "quern")
        for engine in self.engines():
            self.attempt(model, engine, lambda engine=engine: self.engine("prepare", engine, home))

    def attempt(self, model, engine, action):
        if (model, engine) in self.failed:
            return None
        try:
            return action()
        except (RuntimeError, ValueError) as error:
            self.failed[model, engine] = str(error)
            return None

    def measure(self, model, engine, threads):
        home = self.folder / model
        if engine == "quern":
            line = json.loads(text_of(self.quern, "bench", home / "model.qn", "--threads", threads, "--runs", self.runs,
                                      "--json"))
            line["version"] = text_of(self.quern, "--version").split()[-1]
            return line
        output = home / f"{engine}.npy"
        line = json_within(self.engine("run", engine, home, threads, self.runs, output))
        tolerance = TOLERANCE if self.kind == "f32" else TOLERANCE_OF_BYTES
        self.compare(home, output, TOLERANCE_OF_OTHER_BYTES if engine == "mnn-int8" else tolerance)
        return line

    @staticmethod
    def compare(home, output, tolerance=TOLERANCE):
        import numpy

        ours = numpy.load(next((home / "quern").glob("*.npy"))).ravel()
        theirs = numpy.load(output).ravel()
        if ours.shape != theirs.shape:
            raise RuntimeError(f"output of {theirs.size} elements instead of {ours.size}")
        difference = float(numpy.abs(ours - theirs).max() / numpy.abs(ours).max())
        if not difference <= tolerance:
            raise RuntimeError(f"another output: {difference:.1e} of the largest element")


def has_lost(rounds, kind, model, engine, threads):
    """Was the engine so much slower than another one of the same peer that it needs no more rounds?"""
    peers = next((engines for engines in PEERS[kind].values() if engine in engines), [])
    first = {other: rounds[model, other, threads][0]["median_ms"] for other in peers if rounds[model, other, threads]}
    return engine in first and first[engine] > MUCH_SLOWER * min(first.values())


def records_of(rounds, kind):
    """Makes records with medians from the lines of all rounds, by (model, engine, threads)."""
    records = []
    for (model, engine, threads), lines in rounds.items():
        if not lines:
            continue
        record = {"model": model, "type": kind, "threads": threads, "engine": engine, "version": lines[0]["version"],
                  "median_ms": statistics.median(line["median_ms"] for line in lines),
                  "min_ms": min(line["min_ms"] for line in lines),
                  "load_ms": statistics.median(line["load_ms"] for line in lines),
                  "peak_memory_bytes": statistics.median(line["peak_memory_bytes"] for line in lines)}
        if engine == "quern":
            peaks = [line["percent_of_peak"] for line in lines if line["percent_of_peak"] is not None]
            record["percent_of_peak"] = statistics.median(peaks) if peaks else None  # not every CPU has one for bytes
        records.append(record)
    by = {(r["model"], r["engine"], r["threads"]): r for r in records}
    for record in records:  # all engines do the same work, and are held against the same peak
        ours = by.get((record["model"], "quern", record["threads"]))
        peak = ours["percent_of_peak"] if ours else None
        record["percent_of_peak"] = None if peak is None else peak * ours["median_ms"] / record["median_ms"]
    return records


def fastest(records, kind, model, threads):
    """Of each peer the record of the engine that is fastest here, ours first; None if all fail."""
    lines = {r["engine"]: r for r in records if r["model"] == model and r["threads"] == threads}
    best = {"quern": lines.get("quern")}
    for peer, engines in PEERS[kind].items():
        ran = [lines[engine] for engine in engines if engine in lines]
        best[peer] = min(ran, key=lambda record: record["median_ms"], default=None)
    return best


def cell(record):
    if record is None:
        return "failed"
    peak = f"{record['percent_of_peak']:.0f}%, " if record["percent_of_peak"] is not None else ""
    activations = ", u8" * record["engine"].endswith("-u8") + ", s8" * record["engine"].endswith("-s8")
    return f"{record['median_ms']:.2f} ({peak}{record['peak_memory_bytes'] / 1e6:.0f}{activations})"


def print_table(records, kind, threads):
    print(f"\n{kind}, {threads} thread{'s' if threads > 1 else ''}: median ms (of peak, peak MB"
          f"{', activations' * (kind != 'f32')})\n")
    peers = ["quern", *PEERS[kind]]
    print("| model | " + " | ".join(peers) + " | fastest peer / ours |\n|" + " --- |" * (len(peers) + 2))
    ratios = []
    for model in dict.fromkeys(record["model"] for record in records):
        best = fastest(records, kind, model, threads)
        ours = best["quern"]
        rivals = [record["median_ms"] for peer, record in best.items() if peer != "quern" and record]
        ratio = min(rivals) / ours["median_ms"] if rivals and ours else None
        if ratio:
            ratios.append(ratio)
        print(f"| {model} | " + " | ".join(map(cell, best.values())) +
              (f" | {ratio:.2f} |" if ratio else " | |"))
    if ratios:
        print(f"\nGeometric mean of the ratios: {math.exp(statistics.fmean(map(math.log, ratios))):.3f}")


def plot(records, kind, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(dict.fromkeys(record["model"] for record in records))
    threads = sorted({record["threads"] for record in records})
    figure, axes = pyplot.subplots(1, len(threads), figsize=(7 * len(threads), 4), sharey=True, squeeze=False)
    for axis, count in zip(axes[0], threads):
        best = [fastest(records, kind, model, count) for model in models]
        for i, peer in enumerate(PEERS[kind]):
            ratios = [of[peer]["median_ms"] / of["quern"]["median_ms"] if of[peer] and of["quern"] else math.nan
                      for of in best]
            axis.bar([x + 0.2 * (i - 1.5) for x in range(len(models))], ratios, 0.2, label=peer)
        axis.axhline(1, color="black", linewidth=1)
        axis.set_xticks(range(len(models)), models, rotation=40, ha="right")
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}: time of the peer / time of Quern")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("--type", choices=PEERS, default="f32", help="what the models compute with")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20, help="measured runs of each engine in a round")
    parser.add_argument("--json", type=pathlib.Path, help="write records here")
    parser.add_argument("--plot", type=pathlib.Path, help="write a picture of the ratios here (.png, .svg)")
    options = parser.parse_args()
    enter_environment(WHEELS + (" matplotlib" if options.plot else ""))

    models, counts = options.models.split(","), [int(count) for count in options.threads.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.quern.resolve(), folder, options.runs, options.type)
        rounds = {(m, e, t): [] for m in models for t in counts for e in ("quern", *bench.engines())}
        for model in models:
            bench.prepare(model)
            for _ in range(options.rounds):
                for (name, engine, threads), lines in rounds.items():
                    if name != model or has_lost(rounds, options.type, name, engine, threads):
                        continue
                    line = bench.attempt(model, engine, lambda: bench.measure(model, engine, threads))
                    if line:
                        lines.append(line)
    records = records_of(rounds, options.type)
    print(", ".join(sorted({f"{r['engine']} {r['version']}" for r in records})))
    for threads in counts:
        print_table(records, options.type, threads)
    if NOTES[options.type]:
        print("\n" + NOTES[options.type])
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    if options.plot:
        plot(records, options.type, options.plot)
    for (model, engine), why in bench.failed.items():
        print(f"{engine} did not run {model}: {why}", file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs models in Quern, ONNX Runtime, MNN, ncnn and OpenVINO: the same input, interleaved rounds, outputs compared.

    bench/peers/models.py QUERN [--models NAME,...] [--threads 1,2] [--rounds 5] [--json FILE] [--plot FILE.png]

QUERN is the command; it makes each model (`quern zoo`) and exports it to ONNX.  The first call installs the packages of
requirements.txt into build/peers-venv.  If an engine does not run, the script names it and exits with 1.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parents[1] / "build/peers-venv"
PEERS = ("onnxruntime", "mnn", "ncnn", "openvino")
MODELS = ("mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "squeezenet_v1.1", "shufflenet_v2", "resnet18", "resnet50",
          "vgg16")
TOLERANCE = 1e-3  # times the largest element of our output; other orders of sums, and Winograd, differ a little


def enter_environment():
    """Starts the script again in the virtual environment, after making that if there is none."""
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    wanted, installed = HERE / "requirements.txt", VENV / "requirements.txt"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "--quiet", "-r", wanted], check=True)
        installed.write_text(wanted.read_text())
    os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])


def text_of(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").split("\n")
        raise RuntimeError(words[-1][:200])
    return done.stdout


def last_json(text):
    return json.loads(text[text.index("{"):] if text.lstrip().startswith("{") else text.strip().split("\n")[-1])


class Bench:
    def __init__(self, quern, folder, runs):
        self.quern, self.folder, self.runs = quern, pathlib.Path(folder), runs
        self.failed = {}  # (model, engine) -> why

    def engine(self, *arguments):
        return text_of(sys.executable, HERE / "engines.py", *arguments)

    def prepare(self, model):
        """Makes the model, a random input, and the files that each peer needs."""
        import numpy

        home = self.folder / model
        home.mkdir()
        text_of(self.quern, "zoo", model, "-o", home / "model.qn")
        text_of(self.quern, "export", home / "model.qn", "-o", home / "model.onnx")
        entry = json.loads(text_of(self.quern, "info", home / "model.qn", "--json"))["inputs"][0]
        values = numpy.random.default_rng(1).standard_normal(entry["shape"], numpy.float32)
        numpy.save(home / "input.npy", values)
        text_of(self.quern, "run", home / "model.qn", "--input", home / "input.npy", "--output", home / "quern")
        for peer in PEERS:
            self.attempt(model, peer, lambda peer=peer: self.engine("prepare", peer, home))

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
        line = last_json(self.engine("run", engine, home, threads, self.runs, output))
        self.compare(home, output)
        return line

    @staticmethod
    def compare(home, output):
        import numpy

        ours = numpy.load(next((home / "quern").glob("*.npy"))).ravel()
        theirs = numpy.load(output).ravel()
        if ours.shape != theirs.shape:
            raise RuntimeError(f"output of {theirs.size} elements instead of {ours.size}")
        difference = float(numpy.abs(ours - theirs).max() / numpy.abs(ours).max())
        if not difference <= TOLERANCE:
            raise RuntimeError(f"another output: {difference:.1e} of the largest element")


def records_of(rounds):
    """Makes records with medians from the lines of all rounds, by (model, engine, threads)."""
    records = []
    for (model, engine, threads), lines in rounds.items():
        if not lines:
            continue
        record = {"model": model, "type": "f32", "threads": threads, "engine": engine, "version": lines[0]["version"],
                  "median_ms": statistics.median(line["median_ms"] for line in lines),
                  "min_ms": min(line["min_ms"] for line in lines),
                  "load_ms": statistics.median(line["load_ms"] for line in lines),
                  "peak_memory_bytes": statistics.median(line["peak_memory_bytes"] for line in lines)}
        if engine == "quern":
            record["percent_of_peak"] = statistics.median(line["percent_of_peak"] for line in lines)
        records.append(record)
    by = {(r["model"], r["engine"], r["threads"]): r for r in records}
    for record in records:  # all engines do the same work, and are held against the same peak
        ours = by[record["model"], "quern", record["threads"]]
        record["percent_of_peak"] = ours["percent_of_peak"] * ours["median_ms"] / record["median_ms"]
    return records


def print_table(records, threads):
    engines = ["quern", *PEERS]
    print(f"\n{threads} thread{'s' if threads > 1 else ''}: median ms (of peak, peak MB)\n")
    print("| model | " + " | ".join(engines) + " | fastest peer / ours |\n|" + " --- |" * (len(engines) + 2))
    ratios = []
    for model in dict.fromkeys(record["model"] for record in records):
        lines = {r["engine"]: r for r in records if r["model"] == model and r["threads"] == threads}
        cells = [f"{lines[e]['median_ms']:.2f} ({lines[e]['percent_of_peak']:.0f}%, "
                 f"{lines[e]['peak_memory_bytes'] / 1e6:.0f})" if e in lines else "failed" for e in engines]
        peers = [line["median_ms"] for engine, line in lines.items() if engine != "quern"]
        ratio = min(peers) / lines["quern"]["median_ms"] if peers else math.nan
        ratios.append(ratio)
        print(f"| {model} | " + " | ".join(cells) + f" | {ratio:.2f} |")
    print(f"\nGeometric mean of the ratios: {math.exp(statistics.fmean(map(math.log, ratios))):.3f}")


def plot(records, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(dict.fromkeys(record["model"] for record in records))
    threads = sorted({record["threads"] for record in records})
    figure, axes = pyplot.subplots(1, len(threads), figsize=(7 * len(threads), 4), sharey=True, squeeze=False)
    for axis, count in zip(axes[0], threads):
        by = {(r["model"], r["engine"]): r["median_ms"] for r in records if r["threads"] == count}
        for i, engine in enumerate(PEERS):
            ratios = [by.get((m, engine), math.nan) / by[m, "quern"] for m in models]
            axis.bar([x + 0.2 * (i - 1.5) for x in range(len(models))], ratios, 0.2, label=engine)
        axis.axhline(1, color="black", linewidth=1)
        axis.set_xticks(range(len(models)), models, rotation=40, ha="right")
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}: time of the peer / time of Quern")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20, help="measured runs of each engine in a round")
    parser.add_argument("--json", type=pathlib.Path, help="write records here")
    parser.add_argument("--plot", type=pathlib.Path, help="write a picture of the ratios here (.png, .svg)")
    options = parser.parse_args()
    enter_environment()

    models, counts = options.models.split(","), [int(count) for count in options.threads.split(",")]
    rounds = {(m, e, t): [] for m in models for t in counts for e in ("quern", *PEERS)}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.quern.resolve(), folder, options.runs)
        for model in models:
            bench.prepare(model)
            for _ in range(options.rounds):
                for (name, engine, threads), lines in rounds.items():
                    if name != model:
                        continue
                    line = bench.attempt(model, engine, lambda: bench.measure(model, engine, threads))
                    if line:
                        lines.append(line)
    records = records_of(rounds)
    print(", ".join(sorted({f"{r['engine']} {r['version']}" for r in records})))
    for threads in counts:
        print_table(records, threads)
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    if options.plot:
        plot(records, options.plot)
    for (model, engine), why in bench.failed.items():
        print(f"{engine} did not run {model}: {why}", file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())

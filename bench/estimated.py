#!/usr/bin/env python3
"""Estimates whole models on cores of phones by `quern predict`; prints the table of results/phones.md.

    bench/estimated.py QUERN [--models NAME,...] [--cores NAME,...] [--threads 1]
    bench/estimated.py QUERN --bytes ...            models of floats and of bytes
    bench/estimated.py QUERN --published            those of bytes beside published figures

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

MODELS_OF_BYTES = "mobilenet_v1,mobilenet_v2,mobilenet_v3_large,squeezenet_v1.1,resnet18,resnet50"
CORES_OF_BYTES = "a53,a55,a57,a73,a76"
TYPES = {"floats": (), "bytes": ("--type", "qs8")}

# Milliseconds of models of 8-bit integers on one big core that others published: core, GHz, device, engine, models.
# ncnn: benchmark/README.md of its repository in July 2026, one thread, minimum.  TNN: the tables of its documentation.
# TFLite: research/slim/nets/mobilenet/README.md of TensorFlow's models.
PUBLISHED = [
    ("a53", 2.0, "QRB2210 (Arduino UNO Q)", "ncnn",
     {"mobilenet_v1": 123.7, "squeezenet_v1.1": 78.2, "resnet18": 190.1, "resnet50": 591.3}),
    ("a53", 1.4, "BCM2837B0 (Raspberry Pi 3B+)", "ncnn",
     {"mobilenet_v1": 181.3, "squeezenet_v1.1": 135.6, "resnet18": 312.2, "resnet50": 890.8}),
    ("a55", 1.8, "RK3566 (Orange Pi CM4)", "ncnn",
     {"mobilenet_v1": 58.3, "squeezenet_v1.1": 50.8, "resnet18": 150.4, "resnet50": 325.1}),
    ("a57", 2.0, "Snapdragon 810", "ncnn",
     {"mobilenet_v1": 79.7, "squeezenet_v1.1": 59.3, "resnet18": 150.4, "resnet50": 393.3}),
    ("a72", 1.8, "BCM2711 (Raspberry Pi 4B)", "ncnn",
     {"mobilenet_v1": 84.7, "squeezenet_v1.1": 69.2, "resnet18": 157.9, "resnet50": 423.7}),
    ("a73", 2.2, "A311D (Khadas VIM3)", "ncnn",
     {"mobilenet_v1": 66.4, "squeezenet_v1.1": 51.9, "resnet18": 133.0, "resnet50": 332.9}),
    ("a73", 2.45, "Snapdragon 835", "TNN", {"mobilenet_v1": 62, "mobilenet_v2": 47, "squeezenet_v1.1": 93}),
    ("a73", 2.35, "Snapdragon 835 (Pixel 2)", "TFLite", {"mobilenet_v3_large": 42.5}),
    ("a75", 2.8, "Snapdragon 845", "TNN", {"mobilenet_v1": 37, "mobilenet_v2": 28, "squeezenet_v1.1": 56}),
    ("a75", 2.5, "Snapdragon 845 (Pixel 3)", "TFLite", {"mobilenet_v3_large": 32}),
    ("kryo", 2.35, "Snapdragon 821", "ncnn",
     {"mobilenet_v1": 60.3, "squeezenet_v1.1": 41.3, "resnet18": 154.5, "resnet50": 371.2}),
    ("a76", 2.4, "BCM2712 (Raspberry Pi 5)", "ncnn",
     {"mobilenet_v1": 14.4, "squeezenet_v1.1": 11.7, "resnet18": 36.3, "resnet50": 80.0}),
    ("a76", 2.96, "Snapdragon 855+", "ncnn",
     {"mobilenet_v1": 11.1, "squeezenet_v1.1": 8.2, "resnet18": 26.2, "resnet50": 56.3}),
]


def run(*command):
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


def cell(estimate):
    """Milliseconds; in brackets the share of them that no prediction of a kernel's loop backs."""
    loose = sum(each["ms"] for each in estimate["classes"] if each["figure"] in ("assumed", "reference"))
    return f"{estimate['total_ms']:.1f} ({100 * loose / estimate['total_ms']:.0f}%)"


def add_estimates(rows, quern, file, label, cores, threads):
    """Adds a row: the model of a file on each core. Returns the titles of these columns."""
    estimates = [json.loads(run(quern, "predict", file, "--core", core, "--threads", threads, "--json"))
                 for core in cores]
    rows.append(f"| {label} | {' | '.join(map(cell, estimates))} |")
    return [f"{each['core'].capitalize()}, {each['chip']}, {each['ghz']} GHz" for each in estimates]


def table_of_cores(quern, models, kinds, cores, threads):
    rows, titles = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "model.qn")
        for model in models:
            for kind, flags in kinds.items():
                run(quern, "zoo", model, "-o", file, *flags)
                titles = add_estimates(rows, quern, file, f"{model} | {kind}", cores, threads)
    print(f"| model | weights | {' | '.join(titles)} |\n|" + " --- |" * (len(cores) + 2))
    print("\n".join(rows))


def table_of_published(quern):
    """Estimates of models of bytes beside the milliseconds that others published, on the same kind of core at the same
    clock."""
    models = list(dict.fromkeys(model for *_, published in PUBLISHED for model in published))
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            run(quern, "zoo", model, "-o", pathlib.Path(folder, f"{model}.qn"), "--type", "qs8")
        print("| core | device | engine | " + " | ".join(models) + " |\n|" + " --- |" * (len(models) + 3))
        for core, ghz, device, engine, published in PUBLISHED:
            cells = []
            for model in models:
                if model in published:
                    estimate = json.loads(run(quern, "predict", pathlib.Path(folder, f"{model}.qn"), "--core", core, "--ghz",
                                              ghz, "--json"))["total_ms"]
                    cells.append(f"{estimate:.1f} / {published[model]:g} ({published[model] / estimate:.1f})")
                else:
                    cells.append("")
            print(f"| {core.capitalize()}, {ghz} GHz | {device} | {engine} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("--models")
    parser.add_argument("--cores")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bytes", action="store_true", help="models of floats and of bytes, all weights dense")
    parser.add_argument("--published", action="store_true", help="models of bytes beside published figures")
    options = parser.parse_args()
    quern = options.quern.resolve()
    if options.published:
        table_of_published(quern)
        return 0
    models, cores, kinds = (MODELS_OF_BYTES, CORES_OF_BYTES, TYPES) if options.bytes else (MODELS, CORES, WEIGHTS)
    table_of_cores(quern, (options.models or models).split(","), kinds, (options.cores or cores).split(","),
                   options.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())

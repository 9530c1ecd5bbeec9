#!/usr/bin/env python3
"""Counts the instructions of a model's run on 64-bit ARM: runs it under qemu, with a plugin that counts.

    bench/instructions/count.py build/release/src/tool/quern

makes the models with that program, then runs them on one thread: run_times.c, with the library of build/arm64. A count
is half the difference between three runs and one, so loading and planning are not in it. Counts alone say nothing about
time: the core decides what an instruction costs (bench/results/phones.md, "Predicted").

With --bytes it counts models of 8-bit integers, beside the same ones of floats.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

IGEMM = 3  # its number in qn_algorithm

# Name of a row, arguments of `quern zoo`, algorithm, name of the row to compare with, QUERN_ISA.
FLOATS = [
    ("mobilenet_v1", ["mobilenet_v1"], 0, None, "neon"),
    ("mobilenet_v1, 0.9 zeros, 1x4", ["mobilenet_v1", "--sparsity", "0.9", "--block", "4"], 0, "mobilenet_v1", "neon"),
    ("mobilenet_v1, 0.9 zeros, CSR", ["mobilenet_v1", "--sparsity", "0.9", "--block", "1"], 0, "mobilenet_v1", "neon"),
    ("resnet50_v2, all by igemm", ["resnet50_v2"], IGEMM, None, "neon"),
    ("resnet50_v2, Winograd where chosen", ["resnet50_v2"], 0, "resnet50_v2, all by igemm", "neon"),
]


def cases_of_bytes():
    """Models of bytes at each level beside those of floats, which run by Winograd's algorithm where it is faster."""
    for model in ("mobilenet_v1", "mobilenet_v2", "squeezenet_v1.1", "resnet18", "resnet50"):
        yield model, [model], 0, None, "neon"
        if not model.startswith("mobilenet"):
            yield f"{model}, all by igemm", [model], IGEMM, model, "neon"
        for isa in ("neon", "dotprod", "i8mm"):
            yield f"{model}, bytes, {isa}", [model, "--type", "qs8"], 0, model, isa


def build_plugin(folder):
    plugin = folder / "counter.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin, HERE / "counter.c"], check=True)
    return plugin


def build_program(folder, build, sysroot):
    program, library = folder / "run_times", (build / "src").resolve()
    debian = sysroot.resolve() / "usr/lib/aarch64-linux-gnu"
    subprocess.run(["aarch64-linux-gnu-gcc", "-O2", "-o", program, HERE / "run_times.c", f"-I{ROOT / 'include'}",
                    f"-L{library}", "-lquern", f"-Wl,-rpath,{library}", f"-Wl,-rpath-link,{debian}"], check=True)
    return program


def executed(command, runs, algorithm):
    """Returns the instructions and the multiply-adds of a whole process."""
    process = subprocess.run([*command, str(runs), str(algorithm)], capture_output=True, text=True)
    found = re.search(r"^instructions (\d+) multiply-adds (\d+)$", process.stderr, re.MULTILINE)
    if process.returncode != 0 or not found:
        sys.exit(f"count.py: {' '.join(map(str, command))} failed:\n{process.stderr}")
    return [int(count) for count in found.groups()]


def count_run(command, algorithm):
    one, three = executed(command, 1, algorithm), executed(command, 3, algorithm)
    return [(after - before) / 2 for before, after in zip(one, three)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path, help="of this machine")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/arm64")
    parser.add_argument("--sysroot", type=pathlib.Path, default=ROOT / "build/sysroot-arm64")
    parser.add_argument("--bytes", action="store_true", help="models of bytes, of each level")
    parser.add_argument("--core", help="QUERN_CORE of the program that is counted")
    parser.add_argument("--only", default="", help="models whose name begins so")
    arguments = parser.parse_args()

    print("| model | 10^6 instructions | 10^6 vector multiply-adds | their share | instructions, ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = build_program(folder, arguments.build, arguments.sysroot)
        cpu, core = ("max", arguments.core or "other") if arguments.bytes else ("cortex-a53", arguments.core)
        emulator = ["qemu-aarch64", "-L", arguments.sysroot, "-cpu", cpu, "-plugin", build_plugin(folder),
                    "-d", "plugin", *(["-E", f"QUERN_CORE={core}"] if core else [])]
        counts = {}
        for row, zoo, algorithm, base, isa in cases_of_bytes() if arguments.bytes else FLOATS:
            if not row.startswith(arguments.only):
                continue
            model = folder / "model.qn"
            subprocess.run([arguments.quern, "zoo", *zoo, "-o", model], check=True, capture_output=True)
            count, products = count_run([*emulator, "-E", f"QUERN_ISA={isa}", program, model], algorithm)
            counts[row] = count
            ratio = f"{count / counts[base]:.2f} of {base}" if base and arguments.bytes else \
                f"{counts[base] / count:.2f} times fewer than {base}" if base else ""
            print(f"| {row} | {count / 1e6:.1f} | {products / 1e6:.1f} | {products / count:.0%} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()

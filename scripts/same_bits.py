#!/usr/bin/env python3
"""Checks that two builds of quern, for two processors, compute the same bits.

    scripts/same_bits.py build/release/src/tool/quern \\
        "qemu-aarch64 -L build/sysroot-arm64 build/arm64/src/tool/quern" [--models mobilenet_v1,...]

In place of the second quern, a build without tools has quern_trim_run (test/trim/run.c).

Runs networks of `quern zoo` on the same random image with both builds, forces each dense algorithm where it applies,
and compares the bits of all outputs. The first build runs its AVX2 kernels (--first-isa). The level must not matter:
every level with fused multiply-adds computes each output by one chain of them, in the same order. Without FMA (armv7's
`neon`) outputs may differ by a tolerance: --tolerance.

A name NETWORK/qs8 is a network of bytes, which has the same bits everywhere: both builds run it on 1, 2 and 4 threads
(--threads), and the first one at every level of its CPU. The first build quantizes it for both.

The size of Winograd's tiles is chosen by costs, which differ between processors, and tiles of another size give other
bits. If the two builds choose different sizes, the script names the layers and compares the outputs with a tolerance.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import struct
import subprocess
import sys
import tempfile

WINOGRAD_TOLERANCE = 1e-4
MODELS = "squeezenet_v1.1,mobilenet_v1,mobilenet_v2,squeezenet_v1.1/qs8,mobilenet_v2/qs8"
# Of the first build, for networks of bytes; "" is all that its CPU has.
LEVELS = ("ref", "sse41", "avx2", "avx512vnni", "")
ALGORITHMS = "direct,gemm,igemm,winograd"
QN_ALGORITHMS = ("auto", "direct", "gemm", "igemm", "depthwise", "winograd")  # the numbers of qn_algorithm


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}f", *values))


def split_npy(path):
    """Splits a .npy file into its header and its data."""
    data = path.read_bytes()
    begin = 10 + struct.unpack_from("<H", data, 8)[0]
    return data[10:begin].strip(), data[begin:]


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def run(command, environment):
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment})
    if process.returncode != 0:
        sys.exit(f"same_bits.py: {shlex.join(map(str, command))} failed:\n{process.stderr}")
    return process.stdout


def make_model(quern, name, folder):
    """Makes a model and an image for it."""
    model, image = folder / "model.qn", folder / "image.npy"
    network, _, numbers = name.partition("/")
    run([*quern, "zoo", network, "--type", numbers or "f32", "-o", model], {})
    shape = json.loads(run([*quern, "info", model, "--json"], {}))["inputs"][0]["shape"]
    elements = 1
    for size in shape:
        elements *= size
    numbers = random.Random(1)
    write_npy(image, shape, [numbers.uniform(-1, 1) for _ in range(elements)])
    return model, image


def has_tools(quern):
    return pathlib.Path(quern[-1]).name == "quern"


def run_without_tools(quern, environment, model, image, algorithm, folder, threads=1):
    """Returns the data of the model's only output, and what ran each node."""
    folder.mkdir(exist_ok=True)
    source, result = folder / "input.bin", folder / "output.bin"
    source.write_bytes(split_npy(image)[1])
    text = run([*quern, model, source, result, QN_ALGORITHMS.index(algorithm), threads], environment)
    return result.read_bytes(), [line.split("\t") for line in text.splitlines()]


def outputs(quern, environment, model, image, algorithm, folder, threads=1):
    """Returns the header and the data of each output."""
    if not has_tools(quern):
        return [(None, run_without_tools(quern, environment, model, image, algorithm, folder, threads)[0])]
    run([*quern, "run", model, "--input", image, "--output", folder, "--algorithm", algorithm, "--threads", threads],
        environment)
    return [split_npy(path) for path in sorted(folder.glob("*.npy"))]


def winograd_tiles(quern, environment, model, image, algorithm, folder):
    """Returns the size of tiles ("6x6") of each layer that runs by Winograd's algorithm."""
    if not has_tools(quern):
        nodes = run_without_tools(quern, environment, model, image, algorithm, folder)[1]
        return {name: kernel.split("_")[3] for name, by, kernel in nodes if by == "winograd"}
    trace = folder / "trace.json"
    run([*quern, "profile", model, "--runs", "1", "--algorithm", algorithm, "--trace", trace], environment)
    return {event["name"]: event["args"]["kernel"].split("_")[3]
            for event in json.loads(trace.read_text())["traceEvents"]
            if event.get("args", {}).get("algorithm") == "winograd"}


def compare(one, other, tolerance):
    """Says how two outputs differ; an empty text if they do not."""
    (header, data), (other_header, other_data) = one, other
    if other_header not in (header, None):
        return f"{header} and {other_header}"
    if len(data) != len(other_data):
        return f"{len(data)} and {len(other_data)} bytes"
    if data == other_data:
        return ""
    values, other_values = floats(data), floats(other_data)
    # Written so that a NaN counts as a difference.
    off = [(a, b) for a, b in zip(values, other_values) if not abs(a - b) <= tolerance * max(1, abs(a))]
    return f"{len(off)} of {len(values)} numbers differ, the first {off[0][0]:.9g} and {off[0][1]:.9g}" if off else ""


def check(arguments, model, image, algorithm, root):
    """Says how two builds differ, and which tolerance was allowed."""
    builds = [(arguments.first, {"QUERN_ISA": arguments.first_isa}),
              (arguments.second, {"QUERN_ISA": arguments.second_isa})]
    one, other = (outputs(*build, model, image, algorithm, root / f"{algorithm}-{i}") for i, build in enumerate(builds))

    def differences(tolerance):
        return [text for text in map(compare, one, other, [tolerance] * len(one)) if text]

    found = differences(arguments.tolerance)
    if not found:
        return [], ""
    first, second = (winograd_tiles(*build, model, image, algorithm, root / f"{algorithm}-{i}")
                     for i, build in enumerate(builds))
    layers = [layer for layer in sorted(first.keys() | second.keys()) if first.get(layer) != second.get(layer)]
    if not layers:
        return found, ""
    return differences(WINOGRAD_TOLERANCE), f" within {WINOGRAD_TOLERANCE:g}: other tiles in {', '.join(layers)}"


def check_bytes(arguments, model, image, root):
    """Says how the results of a network of bytes differ from those of the first build's reference kernels."""
    builds = [(arguments.first, level) for level in LEVELS] + [(arguments.second, arguments.second_isa)]
    found, expected = [], None
    for i, (quern, level) in enumerate(builds):
        for threads in arguments.threads.split(","):
            got = outputs(quern, {"QUERN_ISA": level}, model, image, "auto", root / f"{i}-{threads}", threads)
            expected = expected or got
            for difference in filter(None, map(compare, expected, got, [0] * len(expected))):
                found.append(f"build {i} ({level or 'all levels'}), {threads} threads: {difference}")
    return found, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("first", type=shlex.split)
    parser.add_argument("second", type=shlex.split)
    parser.add_argument("--first-isa", default="avx2", help="QUERN_ISA of the first one")
    parser.add_argument("--second-isa", default="", help="QUERN_ISA of the second one")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--algorithms", default=ALGORITHMS)
    parser.add_argument("--threads", default="1,2,4", help="of networks of bytes")
    parser.add_argument("--tolerance", type=float, default=0, help="times max(1, |expected|); 0: the same bits")
    arguments = parser.parse_args()

    wrong = 0
    # Runs as many programs at a time as there are cores; the threads only wait for them.
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = []
        for name in arguments.models.split(","):
            folder = pathlib.Path(root) / name
            folder.mkdir(parents=True)
            model, image = make_model(arguments.first, name, folder)
            if "/" in name:
                cases.append((name, pool.submit(check_bytes, arguments, model, image, folder)))
                continue
            cases += [(f"{name} {algorithm}", pool.submit(check, arguments, model, image, algorithm, folder))
                      for algorithm in arguments.algorithms.split(",")]
        for case, result in cases:
            differences, note = result.result()
            wrong += len(differences)
            print(f"{case}: {'; '.join(differences) or 'same'}{note}", flush=True)
    if wrong:
        sys.exit(f"{wrong} outputs differ")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the coder of weights with zlib, zstd -19 and xz -9e on the weights of ONNX models.

    bench/coder/compare.py QUERN_CODER MODEL.onnx ... [--cases 8:0,4:0,8:0.8,8:0.9,8:0.95]

A case is BITS:ZEROS. The smallest weights of each layer, as many as that part, become 0; the others are rounded to
integers of so many bits, with a scale per output channel. The others get the same tensors as bytes, those of 4 bits
packed in pairs, too, and the smallest result counts; none of them has a checksum. The exit status is 1 if a tensor is larger than
what the best of them makes of it, or if over a model the coder gains less than 1% (12% with zeros), or decodes fewer
than 200 million weights a second.
"""

import argparse
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy
import onnx
import onnx.numpy_helper

LEAST_RATE = 200e6
RATE_FROM = 100_000  # weights: the rate of smaller tensors is that of their tables


def layers(path):
    """Weights as matrices, a row for each output channel, the taps of a channel before the next channels."""
    graph = onnx.load(path).graph
    initializers = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        weights = initializers.get(node.input[1]) if node.op_type in ("Conv", "Gemm", "MatMul") else None
        if weights is None or weights.ndim < 2:
            continue
        if node.op_type == "Conv":
            weights = weights.transpose(0, *range(2, weights.ndim), 1).reshape(len(weights), -1)
        yield weights.astype("float32")


def quantized(weights, bits, zeros):
    if zeros:
        weights = numpy.where(abs(weights) <= numpy.quantile(abs(weights), zeros), 0, weights)
    largest = 2 ** (bits - 1) - 1
    scale = abs(weights).max(axis=1, keepdims=True) / largest
    return numpy.rint(weights / numpy.where(scale == 0, 1, scale)).astype("int8")


def packed(matrix):
    nibbles = numpy.resize(matrix.ravel() & 15, matrix.size + matrix.size % 2).astype("uint8")
    return (nibbles[::2] | nibbles[1::2] << 4).tobytes()


def zstd(data):
    return subprocess.run(["zstd", "-19", "--no-check", "-c"], input=data, capture_output=True, check=True).stdout


def xz(data):
    return lzma.compress(data, check=lzma.CHECK_NONE, preset=9 | lzma.PRESET_EXTREME)


def others(matrix, bits):
    forms = [matrix.tobytes()] + ([packed(matrix)] if bits == 4 else [])
    return min(len(pack(form)) for form in forms for pack in (lambda d: zlib.compress(d, 9), zstd, xz))


def compare(coder, model, bits, zeros, folder):
    matrices = [quantized(w, bits, zeros) for w in layers(model)]
    files = [folder / f"{i:03}.npy" for i in range(len(matrices))]
    for file, matrix in zip(files, matrices):
        numpy.save(file, matrix)
    out = subprocess.run([coder, *files], check=True, capture_output=True, text=True).stdout
    ours = [json.loads(line) for line in out.splitlines()]
    best = [others(matrix, bits) for matrix in matrices]
    larger = [(m.shape, o["bytes"], b) for m, o, b in zip(matrices, ours, best) if o["bytes"] > b]
    rates = [o["weights_per_second"] for o in ours if o["weights"] >= RATE_FROM]
    size, theirs = sum(o["bytes"] for o in ours), sum(best)
    seconds = sum(o["weights"] / o["weights_per_second"] for o in ours)
    print(f"{model.stem:24} {bits} bits {zeros:4.0%} zeros  {size:9} bytes, {size / theirs:.4f} of the best other; "
          f"largest part {max(o['bytes'] / b for o, b in zip(ours, best)):.3f}; "
          f"{min(rates) / 1e6:.0f} to {max(rates) / 1e6:.0f} million weights/s, all in {seconds * 1e3:.1f} ms", flush=True)
    for shape, ours_bytes, other in larger:
        print(f"  larger: {shape[0]} x {shape[1]}: {ours_bytes} bytes, {other}")
    return not larger and size <= (0.88 if zeros else 0.99) * theirs and min(rates) >= LEAST_RATE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coder", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--cases", default="8:0,4:0,8:0.8,8:0.9,8:0.95")
    options = parser.parse_args()
    cases = [(int(bits), float(zeros)) for bits, zeros in (case.split(":") for case in options.cases.split(","))]
    good = True
    for model in options.models:
        for bits, zeros in cases:
            with tempfile.TemporaryDirectory() as folder:
                good &= compare(options.coder, model, bits, zeros, pathlib.Path(folder))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

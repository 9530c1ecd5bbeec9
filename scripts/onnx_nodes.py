#!/usr/bin/env python3
"""Runs the node tests of the Python package onnx (1.20 is the last that ships their data) through the quern command.

    onnx_nodes.py QUERN [--only NAME,...] [--list FILE] [--isa LEVEL] [--folder FOLDER] [--jobs N]

Each test is a model with inputs and the outputs that they must give. It is converted, and run with the inputs given at
that time. An output passes if shape and type are equal, integers are equal, and floats differ by no more than
1e-7 + 1e-3 * |expected|. Tests fall into groups: passed; failed (a wrong result, or refused by `run` only); refused (by
`convert`, which says why); out of scope. --list writes the names of all tests in their groups. Prints a table of operators.
Exit status 1 if a test failed.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

NODE_TESTS = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"

# Types of tensors that the graph can hold.
TYPES = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT8, onnx.TensorProto.UINT8,
         onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL}
OUT_OF_SCOPE = {"ImageDecoder", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
                "Bernoulli", "Dropout", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Gradient", "Adam", "Adagrad",
                "Momentum"}

# Tests whose data contradict the operator's documentation, or what it became when ONNX 1.23 corrected it.
WRONG = {f"test_qlinearmatmul_{n}D_int8_{t}": "its bytes wrap around, but QLinearMatMul saturates"
         for n in (2, 3) for t in ("float16", "float32")}
WRONG["test_l2normalization_axis_0"] = "NaN where a norm is 0; ONNX 1.23 says 0"
for name in "3d_with_past_and_present_qk_matmul_softcap", "4d_with_qk_matmul_softcap":
    WRONG[f"test_attention_{name}"] = "softcap after the mask, which lets masked keys in again; ONNX 1.23 caps first"


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from graphs_of(inner)


def values_of(model):
    for graph in graphs_of(model.graph):
        yield from (value for group in (graph.input, graph.output, graph.value_info) for value in group)


def out_of_scope(model):
    """Why a test is out of scope; '' if it is not."""
    for value in values_of(model):
        if not value.type.HasField("tensor_type"):
            if value.type.WhichOneof("value") is not None:
                return value.type.WhichOneof("value")
        elif value.type.tensor_type.elem_type not in TYPES:
            return onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
    for graph in graphs_of(model.graph):
        for tensor in graph.initializer:
            if tensor.data_type not in TYPES:
                return onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        for node in graph.node:
            if node.op_type == "Dropout" and len(node.input) < 3:
                continue
            if node.op_type in OUT_OF_SCOPE:
                return node.op_type
            if node.domain not in ("", "ai.onnx"):
                return node.domain
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype", "output_dtype") and attribute.i not in TYPES | {0}:
                    return onnx.TensorProto.DataType.Name(attribute.i).lower()
    spatial = re.search(r"(conv|pool|resize|grid_?sample|affine_grid|col2im).*(3d|_5d)|3d.*(conv|pool)", model.graph.name)
    return "3-D" if spatial else ""


def compare(got, expected):
    """What is wrong with an output; '' if nothing is."""
    if got.shape != expected.shape:
        return f"shape {got.shape}, not {expected.shape}"
    if got.dtype != expected.dtype:
        return f"type {got.dtype}, not {expected.dtype}"
    if expected.dtype.kind != "f":
        return "" if numpy.array_equal(got, expected) else "integers differ"
    got, expected = got.astype(numpy.float64), expected.astype(numpy.float64)
    if numpy.allclose(got, expected, rtol=1e-3, atol=1e-7, equal_nan=True):
        return ""
    return f"differs by {numpy.nanmax(numpy.abs(got - expected)):.3g}"


def call(arguments, environment):
    done = subprocess.run([str(x) for x in arguments], capture_output=True, text=True, env=environment, timeout=120,
                          check=False)
    return done.returncode, done.stderr.strip().split("\n")[-1]


def load(folder, what):
    tensors = []
    while (file := folder / f"{what}_{len(tensors)}.pb").exists():
        tensor = onnx.TensorProto()
        tensor.ParseFromString(file.read_bytes())
        tensors.append(numpy_helper.to_array(tensor))
    return tensors


def run_data(quern, model, converted, data, scratch, environment):
    """Runs one set of data; says what is wrong."""
    names = [value.name for value in model.graph.input]
    initial = {tensor.name for tensor in model.graph.initializer}
    names = [name for name in names if name not in initial] if len(names) != len(load(data, "input")) else names
    arguments = [quern, "run", converted, "--output", scratch]
    for i, (name, array) in enumerate(zip(names, load(data, "input"))):
        numpy.save(scratch / f"in{i}.npy", array)
        arguments += ["--input", f"{name}={scratch / f'in{i}.npy'}"]
    status, text = call(arguments, environment)
    if status != 0:
        return f"run: {text or status}"
    for value, expected in zip(model.graph.output, load(data, "output")):
        file = scratch / (re.sub(r"[/:]", "_", value.name) + ".npy")
        if not file.exists():
            return f"{value.name}: not written"
        if wrong := compare(numpy.load(file), expected):
            return f"{value.name}: {wrong}"
    return ""


def run_test(quern, folder, environment):
    """Returns group, operator and explanation."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    operator = model.graph.node[0].op_type if len(model.graph.node) == 1 else "several"
    if why := WRONG.get(folder.name) or out_of_scope(model):
        return "out of scope", operator, why
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        status, text = call([quern, "convert", folder / "model.onnx", "-o", scratch / "model.qn"], environment)
        if status != 0:
            why = text.replace("quern: ", "").replace(f"{folder / 'model.onnx'}: ", "") or f"status {status}"
            return ("refused" if status == 1 else "failed"), operator, f"convert: {why}"
        for data in sorted(folder.glob("test_data_set_*")):
            if wrong := run_data(quern, model, scratch / "model.qn", data, scratch, environment):
                return "failed", operator, wrong
    return "passed", operator, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("--only", default="")
    parser.add_argument("--list")
    parser.add_argument("--isa")
    parser.add_argument("--folder", default=NODE_TESTS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    environment = dict(os.environ, **({"QUERN_ISA": arguments.isa} if arguments.isa else {}))
    folders = [folder for folder in sorted(pathlib.Path(arguments.folder).iterdir())
               if any(part in folder.name for part in arguments.only.split(","))]
    groups, table = collections.defaultdict(dict), collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for folder, (group, operator, why) in zip(
                folders, pool.map(lambda f: run_test(arguments.quern, f, environment), folders)):
            groups[group][folder.name] = why
            table[operator][group] += 1
            if group == "failed":
                print(f"FAILED {folder.name}: {why}", flush=True)
    columns = ["passed", "failed", "refused", "out of scope"]
    print(f"{'operator':32}" + "".join(f"{column:>14}" for column in columns))
    for operator, counts in sorted(table.items()):
        print(f"{operator:32}" + "".join(f"{counts[column] or '':>14}" for column in columns))
    print(f"{'all':32}" + "".join(f"{len(groups[column]):>14}" for column in columns))
    if arguments.list:
        pathlib.Path(arguments.list).write_text(json.dumps({c: groups[c] for c in columns}, indent=1) + "\n")
    others = ", ".join(f"{len(groups[column])} {column}" for column in columns[2:])
    print(f"Node tests of ONNX: {len(groups['passed'])} agree, {len(groups['failed'])} differ, {others}")
    return 1 if groups["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

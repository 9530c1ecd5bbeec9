#!/usr/bin/env python3
"""Checks what `quern export` writes: the node tests of the Python package onnx, and the models of an assets folder.

    export_check.py QUERN [--assets FOLDER] [--only NAME,...] [--jobs N] [--verbose]

A model is converted and exported. The exported file is run by quern, which must give the same bits as the model
itself, and by ONNX Runtime (Python package onnxruntime), which must agree with what the test expects. Of node tests,
those count that pass in onnx_nodes.py. ONNX Runtime does not have every operator for every type: what it refuses is
counted apart, and so is what it computes otherwise from the test's own model, too. A file says which sizes its inputs
have; for cases of other sizes, random inputs of these sizes take their place, and what quern gives is expected.
Exit status 1 if something failed.
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
import onnxruntime

import onnx_nodes

COLUMNS = ["same bits", "close", "failed", "ORT agrees", "ORT rounds otherwise", "ORT differs on the original",
           "ORT refuses", "ORT fails"]
# What ONNX Runtime says of operators, types and operator sets that it does not have.
NOT_THERE = re.compile(r"NOT_IMPLEMENTED|is not a registered function|is till opset|not supported|"
                       r"Type 'tensor\(\w+\)' of input parameter .* is invalid|not implemented", re.S)


def run_quern(quern, model, inputs, names, folder):
    """Returns what is wrong, and the outputs."""
    folder.mkdir()
    arguments = [quern, "run", model, "--output", folder]
    for i, (name, array) in enumerate(inputs.items()):
        numpy.save(folder / f"in{i}.npy", array)
        arguments += ["--input", f"{name}={folder / f'in{i}.npy'}"]
    status, text = onnx_nodes.call(arguments, os.environ)
    if status != 0:
        return f"run: {text or status}", []
    return "", [numpy.load(folder / (re.sub(r"[/:]", "_", name) + ".npy")) for name in names]


def run_onnxruntime(model, inputs, names):
    """Returns what is wrong, and the outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        known = {value.name for value in session.get_inputs()}
        return "", session.run(names, {name: array for name, array in inputs.items() if name in known})
    except Exception as error:  # its classes are not public
        return str(error).replace("\n", " "), []


def same(got, expected):
    return got.dtype == expected.dtype and got.shape == expected.shape and got.tobytes() == expected.tobytes()


def nearly_the_same_bytes(got, expected):
    """Whether the largest and 98 of 100 bytes are equal: ONNX Runtime scales sums of bytes in another precision."""
    return (expected.dtype.kind in "iu" and got.shape == expected.shape and got.argmax() == expected.argmax()
            and numpy.mean(got == expected) >= 0.98)


def first_wrong(names, got, expected, compare):
    for name, one, other in zip(names, got, expected):
        if wrong := compare(one, other):
            return f"{name}: {wrong}"
    return ""


def judge_onnxruntime(exported, original, inputs, names, expected, compare):
    """The column that ONNX Runtime's run of an exported model belongs to, and what is wrong."""
    error, got = run_onnxruntime(exported, inputs, names)
    wrong = error or first_wrong(names, got, expected, compare)
    if not wrong:
        return "ORT agrees", ""
    if not error and all(map(nearly_the_same_bytes, got, expected)):
        return "ORT rounds otherwise", wrong
    if original is not None:
        its_error, its = run_onnxruntime(original, inputs, names)
        if not error and (its_error or first_wrong(names, its, expected, compare)):
            return "ORT differs on the original", wrong
        if error and its_error:
            return "ORT refuses", error
    return "ORT refuses" if error and NOT_THERE.search(error) else "ORT fails", wrong


def check(quern, files, options, original, inputs, names, expected, compare, scratch):
    """Exports a model and runs both. Returns [(column, what is wrong)]."""
    for arguments in (["convert", *files, *options, "-o", scratch / "model.qn"],
                      ["export", scratch / "model.qn", "-o", scratch / "exported.onnx"],
                      ["convert", scratch / "exported.onnx", "-o", scratch / "again.qn"]):
        status, text = onnx_nodes.call([quern, *arguments], os.environ)
        if status != 0:
            return [("failed", f"{arguments[0]}: {text or status}")]
    results = []
    wrong, mine = run_quern(quern, scratch / "model.qn", inputs, names, scratch / "mine")
    if not wrong:
        wrong, again = run_quern(quern, scratch / "again.qn", inputs, names, scratch / "again")
    if not wrong and all(map(same, again, mine)):
        results.append(("same bits", ""))
    else:
        wrong = wrong or first_wrong(names, again, mine, compare)
        results.append(("failed" if wrong else "close", wrong))
    inputs, others = at_declared_sizes(scratch / "exported.onnx", inputs)
    if others:
        _, expected = run_quern(quern, scratch / "model.qn", inputs, names, scratch / "others")
    results.append(judge_onnxruntime(scratch / "exported.onnx", original, inputs, names, expected, compare))
    return results


# ---- node tests

def check_node(quern, folder):
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    operator = model.graph.node[0].op_type if len(model.graph.node) == 1 else "several"
    data = folder / "test_data_set_0"
    inputs, expected = onnx_nodes.load(data, "input"), onnx_nodes.load(data, "output")
    names = [value.name for value in model.graph.input]
    initial = {tensor.name for tensor in model.graph.initializer}
    names = [name for name in names if name not in initial] if len(names) != len(inputs) else names
    outputs = [value.name for value in model.graph.output]
    with tempfile.TemporaryDirectory() as scratch:
        return operator, check(quern, [folder / "model.onnx"], [], folder / "model.onnx", dict(zip(names, inputs)),
                               outputs, expected, onnx_nodes.compare, pathlib.Path(scratch))


def node_tests(only):
    root = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
    listed = pathlib.Path(__file__).parent.parent / "test/convert/onnx_nodes.json"
    return [root / name for name in json.loads(listed.read_text())["passed"]
            if any(part in name for part in only) and (root / name).exists()]


# ---- models

def compare_model(got, expected):
    """The bounds of the references of assets."""
    if got.shape != expected.shape:
        return f"shape {got.shape}, not {expected.shape}"
    got, expected = got.astype(numpy.float64), expected.astype(numpy.float64)
    error = numpy.max(numpy.abs(got - expected), initial=0)
    return "" if error <= 1e-4 * max(1, numpy.max(numpy.abs(expected), initial=0)) else f"differs by {error:.3g}"


def sources_of(assets, case, scratch):
    """The files of a model. Some have weights that a program makes from a number."""
    files = [assets / file for file in case["files"]]
    if not case["files"][-1].startswith("synthetic:"):
        return files
    made = scratch / "made.caffemodel"
    subprocess.run([sys.executable, files[0].parent / "make_synth.py", files[0], made,
                    case["files"][-1].split(":")[1]], check=True, stdout=subprocess.DEVNULL)
    return [files[0], made]


def at_declared_sizes(model, inputs):
    """The inputs; random ones of the sizes that the file declares, if these are others. And whether they are."""
    declared = {value.name: [dim.dim_value or None for dim in value.type.tensor_type.shape.dim]
                for value in onnx.load(model).graph.input}
    fits = all(size in (None, given) for name, array in inputs.items()
               for size, given in zip(declared[name], array.shape))
    if fits:
        return inputs, False
    random = numpy.random.default_rng(1)
    return {name: random.uniform(0, 1, [size or given for size, given in zip(declared[name], array.shape)])
                        .astype(array.dtype) for name, array in inputs.items()}, True


def check_model(quern, assets, case):
    folder = assets / "reference" / case["model"]
    inputs = {tensor["name"]: numpy.load(folder / tensor["file"]) for tensor in case["inputs"]}
    expected = [numpy.load(folder / tensor["file"]) for tensor in case["outputs"]]
    outputs = [tensor["name"] for tensor in case["outputs"]]
    bound = compare_bytes if expected[0].dtype.kind != "f" else compare_model
    with tempfile.TemporaryDirectory() as scratch:
        sources = sources_of(assets, case, pathlib.Path(scratch))
        return "models", check(quern, sources, ["--outputs", ",".join(outputs)], None, inputs, outputs, expected, bound,
                               pathlib.Path(scratch))


def compare_bytes(got, expected):
    """Bytes may differ by a step where a number lies all but halfway between two of them."""
    steps = numpy.max(numpy.abs(got.astype(int).reshape(-1) - expected.astype(int).reshape(-1)), initial=0)
    return "" if steps <= 1 else f"differs by {steps} steps"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("--assets", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", action="store_true", help="also print what ONNX Runtime refuses")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    jobs = [(folder.name, check_node, (arguments.quern, folder)) for folder in node_tests(only)]
    if arguments.assets:
        cases = json.loads((arguments.assets / "reference/cases.json").read_text())
        jobs = [(f"{case['model']} {case['case']}", check_model, (arguments.quern, arguments.assets, case))
                for case in cases if any(part in case["model"] for part in only)]
    table = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for (name, *_), (operator, results) in zip(jobs, pool.map(lambda job: job[1](*job[2]), jobs)):
            for column, wrong in results or []:
                table[operator][column] += 1
                if column in ("failed", "ORT fails", "close") or (arguments.verbose and wrong):
                    print(f"{column} {name}: {wrong[:300]}", flush=True)
    print(f"{'operator':28}" + "".join(f"{column:>28}" for column in COLUMNS))
    table["all"] = sum(table.values(), collections.Counter())
    for operator, counts in table.items():
        print(f"{operator:28}" + "".join(f"{counts[column] or '':>28}" for column in COLUMNS))
    return 1 if table["all"]["failed"] + table["all"]["ORT fails"] else 0


if __name__ == "__main__":
    sys.exit(main())

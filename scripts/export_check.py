#!/usr/bin/env python3
"""Checks what `quern export` writes: the node tests of the Python package onnx, or other models.

    export_check.py QUERN [--assets FOLDER | --models FOLDER | --zoo TYPE | --folder FOLDER] [--only NAME,...] [--jobs N]
                    [--verbose]

--assets: the models of an assets folder, with its inputs and reference outputs.
--models: all files of a folder that quern runs, with random inputs. Files without an extension are of the format that
    their folder is called. Such are the models of Quern's own tests:
    QUERN_KEEP_MODELS=FOLDER build/release/test/convert/quern_convert_test
--zoo: the networks of `quern zoo --type TYPE`, with random inputs.

A model is converted and exported. The exported file is run by quern, which must give the same bits as the model
itself, and by ONNX Runtime (Python package onnxruntime), which must agree with what the test expects. Of node tests,
those count that pass in onnx_nodes.py. ONNX Runtime does not have every operator for every type: what it refuses is
counted apart, and so is what it computes otherwise from the test's own model, too, or only where it optimizes the file,
or otherwise than the interpreter of the package onnx. A file says which sizes its inputs
have; for cases of other sizes, random inputs of these sizes take their place, and what quern gives is expected.
Exit status 1 if something failed.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import onnx_nodes

COLUMNS = ["same bits", "close", "failed", "ORT agrees", "ORT unoptimized agrees", "ORT agrees on sums",
           "ONNX's reference agrees", "ORT rounds otherwise", "ORT differs on the original", "ORT refuses", "ORT fails"]
ORT_AGREES = ("ORT agrees", "ORT unoptimized agrees", "ORT agrees on sums")
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


def run_onnxruntime(model, inputs, names, optimizes=True):
    """Returns what is wrong, and the outputs."""
    options = onnxruntime.SessionOptions()
    # Otherwise, on x86, some layers of signed bytes stay floats, whose products and sums are rounded on the way: single
    # bytes become their neighbours, and the layers behind see them.
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    if not optimizes:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
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


def with_float_sums(path):
    """The model with sums and products of two tensors as outputs, so that ONNX Runtime computes them as they stand.

    What it makes of these and the conversions around them, QLinearAdd and QLinearMul, multiplies with other factors: where
    the sum lies all but halfway between two bytes, it takes the other one. In resnet18 of the zoo so do six of the 100352
    elements of block4, the first tensor of bytes that differs. All that differs behind it follows from these.
    """
    model = onnx.load(path)
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
                              for node in model.graph.node
                              if node.op_type in ("Add", "Mul") and node.output[0] not in known)
    onnx.save(model, path.with_name("sums.onnx"))
    return path.with_name("sums.onnx")


def reference_agrees(model, inputs, names, expected, compare):
    """Whether the interpreter of the package onnx, which says what operators mean, gives what is expected."""
    try:
        got = ReferenceEvaluator(str(model)).run(names, inputs)
    except Exception:  # it does not have all operators, and fails in many ways
        return False
    return not first_wrong(names, got, expected, compare)


def judge_onnxruntime(exported, original, inputs, names, expected, compare):
    """The column that ONNX Runtime's run of an exported model belongs to, and what is wrong."""
    error, got = run_onnxruntime(exported, inputs, names)
    wrong = error or first_wrong(names, got, expected, compare)
    if not wrong:
        return "ORT agrees", ""
    for column, model, optimizes in (("ORT unoptimized agrees", exported, False),
                                     ("ORT agrees on sums", with_float_sums(exported), True)):
        its_error, its = run_onnxruntime(model, inputs, names, optimizes)
        if not error and not its_error and not first_wrong(names, its, expected, compare):
            return column, wrong
    if not error and original is None and reference_agrees(exported, inputs, names, expected, compare):
        return "ONNX's reference agrees", wrong
    if not error and all(map(nearly_the_same_bytes, got, expected)):
        return "ORT rounds otherwise", wrong
    if original is not None:
        its_error, its = run_onnxruntime(original, inputs, names)
        if not error and (its_error or first_wrong(names, its, expected, compare)):
            return "ORT differs on the original", wrong
        if error and its_error:
            return "ORT refuses", error
    return "ORT refuses" if error and NOT_THERE.search(error) else "ORT fails", wrong


def export(quern, model, scratch):
    """Exports a model, and converts the file. Returns what is wrong."""
    for arguments in (["export", model, "-o", scratch / "exported.onnx"],
                      ["convert", scratch / "exported.onnx", "-o", scratch / "again.qn"]):
        status, text = onnx_nodes.call([quern, *arguments], os.environ)
        if status != 0:
            return f"{arguments[0]}: {text or status}"
    return ""


def judge_again(quern, inputs, names, mine, compare, scratch):
    """The column of the file that came back, and what is wrong."""
    wrong, again = run_quern(quern, scratch / "again.qn", inputs, names, scratch / "again")
    if not wrong and all(map(same, again, mine)):
        return "same bits", ""
    wrong = wrong or first_wrong(names, again, mine, compare)
    return "failed" if wrong else "close", wrong


def check(quern, files, options, original, inputs, names, expected, compare, scratch):
    """Exports a model and runs both. Returns [(column, what is wrong)]."""
    status, text = onnx_nodes.call([quern, "convert", *files, *options, "-o", scratch / "model.qn"], os.environ)
    wrong = f"convert: {text or status}" if status != 0 else export(quern, scratch / "model.qn", scratch)
    mine = []
    if not wrong:
        wrong, mine = run_quern(quern, scratch / "model.qn", inputs, names, scratch / "mine")
    if wrong:
        return [("failed", wrong)]
    results = [judge_again(quern, inputs, names, mine, compare, scratch)]
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


def node_tests(root, only):
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


# ---- models of a folder, or of the zoo

def random_input(value, random):
    """What an input takes; a dimension without a size gets 2."""
    shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
    kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if kind.kind == "f":
        return random.uniform(-1, 1, shape).astype(kind)
    return random.integers(0, 2 if kind.kind == "b" else 4, shape).astype(kind)


def compare_any(got, expected):
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype} {got.shape}, not {expected.dtype} {expected.shape}"
    if got.dtype.kind == "f":  # probabilities of many classes are small
        got, expected = (numpy.nan_to_num(x.astype(numpy.float64)) for x in (got, expected))
        error, largest = (numpy.max(numpy.abs(x), initial=0) for x in (got - expected, expected))
        return "" if error <= 1e-4 * largest + 1e-7 else f"differs by {error:.3g} of {largest:.3g}"
    if got.dtype in (numpy.uint8, numpy.int8):
        return compare_bytes(got, expected)
    return "" if numpy.array_equal(got, expected) else f"{numpy.count_nonzero(got != expected)} differ"


def check_made(quern, make):
    """Checks the model that make(scratch) names. Returns no results if quern does not run it."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        model = make(scratch)
        if onnx_nodes.call([quern, "info", model], os.environ)[0] != 0:
            return "models", []
        if wrong := export(quern, model, scratch):
            return "models", [("failed", wrong)]
        graph = onnx.load(scratch / "exported.onnx").graph
        random = numpy.random.default_rng(1)
        if any(math.prod(dim.dim_value for dim in value.type.tensor_type.shape.dim) > 1 << 24 for value in graph.input):
            return "models", []
        inputs = {value.name: random_input(value, random) for value in graph.input}
        names = [value.name for value in graph.output]
        wrong, mine = run_quern(quern, model, inputs, names, scratch / "mine")
        if wrong:
            return "models", []
        return "models", [judge_again(quern, inputs, names, mine, compare_any, scratch),
                          judge_onnxruntime(scratch / "exported.onnx", None, inputs, names, mine, compare_any)]


def link_to(file):
    def make(scratch):
        link = scratch / f"source{file.suffix or '.' + file.parent.name}"
        link.symlink_to(file.absolute())
        return link
    return make


def zoo(quern, name, kind):
    def make(scratch):
        model = scratch / "zoo.qn"
        subprocess.run([quern, "zoo", name, "--type", kind, "-o", model], check=True, capture_output=True)
        return model
    return make


def made_models(arguments):
    """The names of models, and functions that make them."""
    if arguments.models:
        return [(str(file), link_to(file)) for file in sorted(arguments.models.rglob("*")) if file.is_file()]
    text = subprocess.run([arguments.quern, "zoo", "--help"], capture_output=True, text=True, check=True).stdout
    names = re.search(r"One of (.*)", text)[1].split(", ")
    return [(f"{name} {arguments.zoo}", zoo(arguments.quern, name, arguments.zoo)) for name in names]


def compare_bytes(got, expected):
    """Bytes may differ by a step where a number lies all but halfway between two of them."""
    steps = numpy.max(numpy.abs(got.astype(int).reshape(-1) - expected.astype(int).reshape(-1)), initial=0)
    return "" if steps <= 1 else f"differs by {steps} steps"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("--assets", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--zoo", choices=["f32", "qs8"])
    parser.add_argument("--folder", type=pathlib.Path, default=onnx_nodes.NODE_TESTS, help="of ONNX's node tests")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", action="store_true", help="also print what ONNX Runtime refuses")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    if arguments.models or arguments.zoo:
        jobs = [(name, check_made, (arguments.quern, make)) for name, make in made_models(arguments)
                if any(part in name for part in only)]
    elif arguments.assets:
        cases = json.loads((arguments.assets / "reference/cases.json").read_text())
        jobs = [(f"{case['model']} {case['case']}", check_model, (arguments.quern, arguments.assets, case))
                for case in cases if any(part in case["model"] for part in only)]
    else:
        jobs = [(folder.name, check_node, (arguments.quern, folder)) for folder in node_tests(arguments.folder, only)]
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
    differ = table["all"]["failed"] + table["all"]["ORT fails"]
    agree = sum(table["all"][column] for column in ORT_AGREES)
    others = "".join(f", {n} {column}" for column in COLUMNS if column not in ("failed", "ORT fails", *ORT_AGREES)
                     and (n := table["all"][column]))
    print(f"ONNX Runtime {onnxruntime.__version__}, exported models: {agree} agree, {differ} differ{others}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

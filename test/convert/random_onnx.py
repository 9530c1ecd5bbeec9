#!/usr/bin/env python3
"""Random ONNX graphs of the whole operator set, compared with ONNX Runtime at every level.

    random_onnx.py QUERN [--graphs N] [--seed S] [--levels default,avx2,sse41,ref] [--keep FOLDER] [--jobs J]

A graph grows node by node (random_nodes.py has a row for each operator); ONNX Runtime computes each new node at once, so
that the next one knows shapes and elements. Then the whole graph runs through `quern convert` and `quern run`, inputs given
at run time, some with open dimensions. Results must have the same shape and type; integers must be equal, floats differ by no
more than 1e-4 of the largest (2e-2 for half precision and behind quantization). Prints how often each operator was in a
graph that agreed. --keep stores graphs that differ. Exit status 1 if one differs or is refused by `run` only; 77 without
onnx and onnxruntime.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import random_nodes

MOST_ELEMENTS = 20000
LARGEST = 1e4


onnxruntime.set_default_logger_severity(4)


def engine(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


class Tensor:
    """A tensor of the graph: what ONNX Runtime computes for it, and how far rounding may have moved it: `exact` elements
    are the same in every engine, `coarse` ones may be a step of a quantization off."""

    def __init__(self, name, array, exact, coarse):
        self.name, self.array, self.exact, self.coarse = name, array, exact, coarse


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([13, 15, 17, 18, 19, 20, 21, 22, 23, 23]))
        self.nodes, self.initial, self.inputs, self.tensors = [], [], [], []
        self.read = set()

    def integer(self, low, high):
        """A whole number, `high` included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def choose(self, items):
        return items[self.integer(0, len(items) - 1)]

    def shape(self, rank):
        return [self.choose([1, 2, 3, 4, 5, 7]) for _ in range(rank)]

    def source(self, array, constant=None):
        """A new tensor of the given content: a constant, or an input of the graph."""
        array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
        name = f"{'w' if constant else 'x'}{len(self.initial) + len(self.inputs)}"
        tensor = Tensor(name, array, True, False)
        (self.initial if constant else self.inputs).append(tensor)
        return tensor

    def constant(self, array):
        return self.source(array, True)

    def parameter(self, array):
        """Axes, sizes and the like: nearly always constant."""
        return self.source(np.asarray(array), not self.chance(0.03))

    def random(self, dtype, shape):
        kind = np.dtype(dtype).kind
        if kind == "f":
            return self.rng.normal(0, 1, shape).astype(dtype)
        if kind == "b":
            return self.rng.random(shape) < 0.5
        return self.rng.integers(0 if kind == "u" else -9, 10, shape).astype(dtype)

    def weights(self, *shape):
        return self.constant((self.rng.normal(0, 1, shape) / max(1, np.prod(shape[1:])) ** 0.5).astype(np.float32))

    def pick(self, dtypes=("float32",), ranks=range(0, 6), exact=False):
        """A tensor there is, or a new one."""
        fit = [t for t in self.tensors[-8:] if t.array.dtype.name in dtypes and t.array.ndim in ranks
               and t.array.size > 0 and (t.exact or not exact)]
        if fit and self.chance(0.85):
            return self.choose(fit)
        shape = self.shape(self.choose([r for r in ranks if r] or [0]) if self.chance(0.95) else self.choose(list(ranks)))
        tensor = self.source(self.random(self.choose(list(dtypes)), shape), self.chance(0.15))
        self.tensors.append(tensor)
        return tensor

    def attempt(self, operator, inputs, attributes, outputs=1):
        """The results of a node by ONNX Runtime, or None if it refuses the node."""
        values = [t for t in {t.name: t for t in inputs if t is not None}.values()]
        node = helper.make_node(operator, [t.name if t is not None else "" for t in inputs],
                                [f"y{i}" for i in range(outputs)], **attributes)
        typed = lambda t: helper.make_tensor_value_info(
            t.name, helper.np_dtype_to_tensor_dtype(t.array.dtype), t.array.shape)
        named = [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)]
        try:
            return engine(self.model_of([node], [typed(t) for t in values], named, []), {t.name: t.array for t in values})
        except Exception:  # the engine's types are its own; what it refuses is no test of ours
            return None

    def model_of(self, nodes, inputs, outputs, initial):
        graph = helper.make_graph(nodes, "random", inputs, outputs, initial)
        opset = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opset, ir_version=min(10, onnx.IR_VERSION))

    def add(self, operator, inputs, outputs=1, exact=False, coarse=False, keep=None, **attributes):
        """Adds a node if ONNX Runtime takes it and its results are no larger than is good for a test. `exact`: results
        are exact where inputs are. `keep`: which outputs stay; the others are not even named."""
        results = self.attempt(operator, inputs, attributes, outputs)
        if results is None:
            return None
        for array in results:
            if array.size > MOST_ELEMENTS:
                return None
            if array.dtype.kind == "f" and not (np.isfinite(array).all() and np.abs(array).max(initial=0) < LARGEST):
                return None
            if array.dtype.kind in "iu" and np.abs(array.astype(np.float64)).max(initial=0) > 2**30:
                return None  # integers that overflow wrap around here, and in some operators of ONNX Runtime only
        present = [t for t in inputs if t is not None]
        number, made = len(self.nodes), []
        for i, array in enumerate(results):
            integers = array.dtype.kind != "f" and not coarse
            made.append(Tensor(f"t{number}_{i}", array, (exact and all(t.exact for t in present)) or integers,
                               coarse or any(t.coarse for t in present)))
        self.nodes.append(helper.make_node(operator, [t.name if t is not None else "" for t in inputs],
                                           [t.name for t in made], f"n{number}", **attributes))
        self.read |= {t.name for t in present}
        self.tensors += made
        return made[0] if outputs == 1 else made

    def outputs(self):
        """What no node reads, and sometimes a tensor in between."""
        made = {name for node in self.nodes for name in node.output}
        return [t for t in self.tensors if t.name in made and (t.name not in self.read or self.chance(0.1))]

    def model(self, outputs):
        inputs = []
        for tensor in self.inputs:
            # Dimensions of one size are open under one name, so that operands fit each other at any size.
            shape = [f"size{n}" if self.open and n > 1 else n for n in tensor.array.shape]
            inputs.append(helper.make_tensor_value_info(
                tensor.name, helper.np_dtype_to_tensor_dtype(tensor.array.dtype), shape))
        outputs = [helper.make_tensor_value_info(t.name, helper.np_dtype_to_tensor_dtype(t.array.dtype), None)
                   for t in outputs]
        return self.model_of(self.nodes, inputs, outputs,
                             [numpy_helper.from_array(t.array, t.name) for t in self.initial])

    def grow(self, only):
        self.open = self.chance(0.3)
        rows = [row for row in random_nodes.ROWS if not only or row.__name__ in only]
        for _ in range(self.integer(1, 12) * 3):
            if len(self.nodes) < 12:
                self.choose(rows)(self)
        return self


def difference(got, want, coarse):
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype != want.dtype:
        return f"type {got.dtype}, not {want.dtype}"
    if not want.size:
        return ""
    if want.dtype.kind == "b" or (want.dtype.kind != "f" and not coarse):
        return "" if np.array_equal(got, want) else f"{np.count_nonzero(got != want)} elements differ"
    error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    if want.dtype.kind != "f":
        return "" if error <= 1 else f"differs by {error:g}"
    limit = (2e-2 if coarse or want.dtype == np.float16 else 1e-4) * max(1, np.abs(want.astype(np.float64)).max())
    return "" if error <= limit else f"differs by {error:.3g}, limit {limit:.3g}"


def call(arguments, level):
    environment = dict(os.environ, **({"QUERN_ISA": level} if level != "default" else {}))
    done = subprocess.run([str(x) for x in arguments], capture_output=True, text=True, timeout=120, check=False,
                          env=environment)
    return done.returncode, done.stderr.strip()


def convert(quern, graph, outputs, folder):
    """Converts a graph; where sizes are open, and the weights do not fit sizes that the converter tries, with fixed ones."""
    for graph.open in [True, False] if graph.open else [False]:
        onnx.save(graph.model(outputs), folder / "model.onnx")
        status, text = call([quern, "convert", folder / "model.onnx", "-o", folder / "model.qn"], "default")
        if not status:
            break
    return status, text


def compare(quern, graph, outputs, wanted, folder, levels):
    """Returns a group and what is wrong."""
    status, text = convert(quern, graph, outputs, folder)
    if status:
        return ("refused" if status == 1 else "different"), text
    arguments = [quern, "run", folder / "model.qn", "--output", folder]
    for tensor in graph.inputs:
        np.save(folder / f"{tensor.name}.npy", tensor.array)
        arguments += ["--input", f"{tensor.name}={folder}/{tensor.name}.npy"]
    for level in levels:
        status, text = call(arguments, level)
        if "of the source was converted, got" in text or "SAME padding, but not for" in text:  # conversion fixed it
            return "dynamic size refused by name", ""
        if status:
            return "different", f"run at {level}: {text}"
        for tensor, want in zip(outputs, wanted):
            what = difference(np.load(folder / f"{tensor.name}.npy"), want, tensor.coarse)
            if what:
                return "different", f"{tensor.name} at {level}: {what}"
    return ("equal with open sizes" if graph.open else "equal"), ""


def test(quern, seed, levels, keep, only):
    """Makes and compares one graph. Returns its group, its operators and what is wrong."""
    graph = Graph(seed).grow(only)
    outputs = graph.outputs()
    operators = collections.Counter(node.op_type for node in graph.nodes)
    if not outputs:
        return "empty", operators, ""
    model = graph.model(outputs)
    try:
        wanted = engine(model, {t.name: t.array for t in graph.inputs})
    except Exception as error:
        return "refused by ONNX Runtime", operators, str(error)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        group, what = compare(quern, graph, outputs, wanted, folder, levels)
        if keep and what:
            for tensor, want in zip(outputs, wanted):
                np.save(folder / f"{tensor.name}.want.npy", want)
            shutil.copytree(folder, pathlib.Path(keep) / str(seed), dirs_exist_ok=True)
    return group, operators, re.sub(r"/\S*/model", "model", what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--levels", default="default,avx2,sse41,ref")
    parser.add_argument("--keep")
    parser.add_argument("--only", default="", help="functions of random_nodes.py")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    a = parser.parse_args()
    only = [name for name in a.only.split(",") if name]
    groups, operators = collections.Counter(), collections.Counter()
    with concurrent.futures.ProcessPoolExecutor(a.jobs) as pool:
        runs = [pool.submit(test, a.quern, a.seed * 1000003 + i, a.levels.split(","), a.keep, only)
                for i in range(a.graphs)]
        for i, run in enumerate(runs):
            group, used, what = run.result()
            groups[group] += 1
            if what:
                print(f"{a.seed * 1000003 + i}: {group}: {what}", flush=True)
            if group.startswith("equal"):
                operators.update(set(used))
    print(f"graphs that agree, by operator ({len(operators)}):",
          ", ".join(f"{name} {n}" for name, n in sorted(operators.items())))
    agree = sum(n for group, n in groups.items() if group.startswith("equal"))
    others = [f"{n} {group}" for group, n in sorted(groups.items()) if group not in ("equal", "different")]
    print(f"ONNX Runtime {onnxruntime.__version__}, levels {a.levels}:",
          ", ".join([f"{agree} agree", f"{groups['different']} differ", *others]))
    return 1 if groups["different"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares resized models with ONNX Runtime, whose inputs have dynamic dimensions.

    test/convert/resize_ort.py build/release/test/convert/quern_convert_test [--verbose]

Runs the random graphs of resize_test.cc, and each of them in ONNX Runtime on the same input. Where ONNX Runtime is known to
deviate from ONNX (DEVIATIONS), the reference evaluator of the package onnx takes its place. A known deviation that no
longer occurs is an error, too. Needs numpy, onnx and onnxruntime (scripts/compare_engines.py installs them); exits with 77
without.
"""
import argparse, collections, os, pathlib, subprocess, sys, tempfile, typing, warnings

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOLERANCE = 1e-4  # of the largest element, or of 1


def scaled_to_a_fraction(node, tensors):
    """Does a Resize scale a dimension to a length that is not whole, with align_corners?"""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type != "Resize" or attributes.get("coordinate_transformation_mode") != b"align_corners":
        return False
    scales = tensors[node.input[2]] if len(node.input) > 2 and node.input[2] else np.empty(0)
    lengths = np.array(tensors[node.input[0]].shape[:scales.size]) * scales
    return bool(np.any(lengths != np.floor(lengths)))


def mean_of_nothing(node, tensors):
    """Is a node the mean over an axis of length 0?"""
    return (node.op_type in ("ReduceMean", "GlobalAveragePool") and tensors[node.input[0]].size == 0
            and tensors[node.output[0]].size > 0)


class Deviation(typing.NamedTuple):
    """Nodes that ONNX Runtime computes otherwise than ONNX says, on every CPU: with AVX-512, AVX2 or SSE alone."""
    what: str
    why: str
    has: typing.Callable  # (node, tensors) -> bool


DEVIATIONS = [
    Deviation("Resize with align_corners to a length that is not whole",
              "9 scaled by 0.5: ONNX divides by 4.5 - 1, ONNX Runtime rounds 4.5 down first", scaled_to_a_fraction),
    Deviation("mean over an empty axis",
              "ONNX Runtime returns an empty tensor of the input's shape; the mean of nothing is NaN", mean_of_nothing),
]


def engine(model, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def reference(model, x):
    """All tensors of the graph, by the reference evaluator, and the output."""
    inner = onnx.ModelProto()
    inner.CopyFrom(model)
    output = model.graph.output[0].name
    names = [name for node in model.graph.node for name in node.output if name and name != output]
    inner.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    with warnings.catch_warnings(action="ignore"):  # a mean of nothing
        values = ReferenceEvaluator(inner).run([output, *names], {"x": x})
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {**constants, "x": x, **dict(zip([output, *names], values))}, values[0]


def difference(got, want):
    """What differs, or nothing. NaN equals NaN, and infinities themselves."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return "differs in what is not finite"
    if not finite.any():
        return ""
    error = np.abs(got[finite].astype(np.float64) - want[finite]).max()
    limit = TOLERANCE * max(1, np.abs(want[finite]).max())
    return "" if error <= limit else f"differs by {error:.3g}, limit {limit:.3g}"


def judge(model, x, got):
    """Returns the group of a case, and what is wrong."""
    try:
        what = difference(got, engine(model, x))
    except Exception as error:  # of a type that the engine keeps to itself
        return "refused by ONNX Runtime", str(error)
    if not what:
        return "agree", ""
    try:
        tensors, want = reference(model, x)
    except Exception as error:  # it does not have every operator in every version
        return "differ", f"{what}; the reference evaluator fails: {error}"
    for deviation in DEVIATIONS:
        if any(deviation.has(node, tensors) for node in model.graph.node):
            its = difference(got, want)
            return ("differ", f"{what}; from the reference evaluator: {its}") if its else (deviation.what, f"{what}: {deviation.why}")
    return "differ", f"{what}; from the reference evaluator: {difference(got, want) or 'nothing'}"


def cases(binary, folder):
    """Yields the name, the model, the input and our output of each graph; no output if we refuse it."""
    command = [binary, "--gtest_filter=Resize.*", "--gtest_brief=1"]
    subprocess.run(command, env=dict(os.environ, QUERN_RESIZE_DUMP=folder), check=True, stdout=subprocess.DEVNULL)
    for path in sorted(pathlib.Path(folder).glob("*.onnx")):
        out = path.with_suffix(".out.npy")
        yield path.stem, onnx.load(path), np.load(path.with_suffix(".in.npy")), np.load(out) if out.exists() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--verbose", action="store_true", help="also print what ONNX Runtime refuses, and deviations")
    arguments = parser.parse_args()
    counts = collections.Counter(agree=0, differ=0)
    with tempfile.TemporaryDirectory() as folder:
        for name, model, x, got in cases(arguments.binary, folder):
            group, what = judge(model, x, got) if got is not None else ("refused", "")
            counts[group] += 1
            if group == "differ" or (what and arguments.verbose):
                print(f"{name}: {group}: {what}", flush=True)
    missing = [deviation.what for deviation in DEVIATIONS if not counts[deviation.what]]
    for what in missing:
        print(f"expected ONNX Runtime to deviate in a case of '{what}', got none: remove it from DEVIATIONS")
    agree, differ = counts.pop("agree"), counts.pop("differ")
    others = [f"{n} {what}" for what, n in sorted(counts.items())]
    print(f"ONNX Runtime {ort.__version__}:", ", ".join([f"{agree} agree", f"{differ} differ", *others]))
    sys.exit(1 if differ or missing or agree < 2000 else 0)


if __name__ == "__main__":
    main()

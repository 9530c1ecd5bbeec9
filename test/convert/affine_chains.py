#!/usr/bin/env python3
"""Random chains of affine steps with hostile constants, compared with ONNX Runtime without optimization.

    affine_chains.py QUERN [--chains N] [--seed S]

A chain is two to four of Add, Sub, Mul, Div, Relu and Clip with constants; some take back what a step before did, or
overflow, or are denormal. It is scale * x + bias, but for its clamps. An element may differ by 4 ulp of the larger of
|scale * x| and |bias|, plus 2^-126. A chain may also end in Floor, and then no bit may differ. Exit status 1 if a chain
differs; 77 without numpy, onnx and onnxruntime (scripts/compare_engines.py installs them).
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CHAINS_AT_ONCE = 50  # in one model
HOSTILE = [1, -1, 0, -0.0, 2, 0.5, 255, 1 / 255, 127.5, 6, 3, 41, 0.485, 0.229, 8388608, 12582912, 1e20, 1e-20, 1e30,
           1e-30, 3e38, 1e-38, 1e-42]
INPUTS = [0, -0.0, 1, -1, 0.3, 6, 40, 41, 255, -12345.678, 16777217, 1e-30, 1e30, 3e38, -3e38, 1e-40, -1e-40]


class Chain:
    def __init__(self, number, rng):
        self.name, self.rng = f"{number}_", rng
        self.nodes, self.constants, self.text = [], [], ""
        self.scale, self.bias = 1.0, 0.0
        tensor, before = self.input, None
        for _ in range(rng.integers(2, 5)):
            kind = rng.choice(["Add", "Sub", "SubFrom", "Mul", "Div", "Relu", "Clip"],
                              p=[0.25, 0.15, 0.1, 0.25, 0.15, 0.05, 0.05])
            if kind == "Relu":
                tensor = self.add("Relu", tensor)
            elif kind == "Clip":
                tensor = self.add("Clip", tensor, *sorted([self.number(), self.number()]))
            else:
                before = c = self.operand(kind, before)
                tensor = self.add("Sub", c, tensor) if kind == "SubFrom" else self.add(kind, tensor, c)
                self.follow(kind, float(c))
        self.floors = rng.random() < 0.2
        if self.floors:
            self.add("Floor", tensor)

    @property
    def input(self):
        return f"x{self.name}"

    @property
    def output(self):
        return self.nodes[-1].output[0]

    def number(self):
        rng = self.rng
        draw = rng.integers(0, 5)
        if draw == 0:
            return np.float32(rng.choice(HOSTILE))
        if draw == 1:
            return np.float32(np.exp(rng.normal() * 30) * rng.choice([1, -1]))
        if draw == 2:
            return np.float32(rng.choice([2.0 ** rng.integers(-20, 20), rng.integers(-10, 11)]))
        return np.float32(rng.normal() * 10.0 ** rng.integers(-3, 4))

    def operand(self, kind, before):
        c = self.number()
        if before is not None and self.rng.random() < 0.4:  # takes back what the step before did, or so
            c = np.float32(self.rng.choice([before, -before, 1 / before if before else 0]))
        return np.float32(3) if not np.isfinite(c) or (kind == "Div" and c == 0) else c

    def add(self, kind, *inputs):
        names = []
        for value in inputs:
            if not isinstance(value, str):
                self.constants.append(numpy_helper.from_array(np.array(value, np.float32),
                                                              f"c{self.name}{len(self.constants)}"))
                value = self.constants[-1].name
            names.append(value)
        self.text += f" {kind}({', '.join(str(v) for v in inputs if not isinstance(v, str))})"
        self.nodes.append(helper.make_node(kind, names, [f"y{self.name}{len(self.nodes)}"]))
        return self.output

    def follow(self, kind, c):
        if kind in ("Mul", "Div"):
            factor = c if kind == "Mul" else 1 / c
            self.scale, self.bias = self.scale * factor, self.bias * factor
        elif kind == "SubFrom":
            self.scale, self.bias = -self.scale, c - self.bias
        else:
            self.bias += c if kind == "Add" else -c

    def elements(self):
        rng = self.rng
        powers = np.exp2(np.concatenate([rng.uniform(-30, 30, 200), rng.uniform(-148, 127.9, 60)]))
        return np.concatenate([INPUTS, powers * rng.choice([1, -1], powers.size), rng.normal(size=100)]).astype(np.float32)

    def wrong(self, x, got, expected):
        """Indices of elements that are further off than allowed."""
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        if not self.floors:
            largest = np.maximum(np.abs(np.float64(np.float32(self.scale)) * x.astype(np.float64)), abs(self.bias))
            ulp = np.exp2(np.floor(np.log2(np.maximum(largest, 2.0 ** -126))) - 23)
            same |= np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= 4 * ulp + 2.0 ** -126
        return np.flatnonzero(~same)


def compare(quern, chains, folder):
    """Runs chains as one model; yields (chain, wrong elements' description or None)."""
    data = {chain.input: chain.elements() for chain in chains}

    def ports(names):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [data[chain.input].size])
                for name, chain in zip(names, chains)]
    graph = helper.make_graph([node for chain in chains for node in chain.nodes], "chains",
                              ports([chain.input for chain in chains]), ports([chain.output for chain in chains]),
                              [constant for chain in chains for constant in chain.constants])
    model = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, data)
    inputs = []
    for name, elements in data.items():
        np.save(folder / f"{name}.npy", elements)
        inputs += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run([quern, "run", model, *inputs, "--output", folder / "out"], check=True, stdout=subprocess.DEVNULL)
    for chain, right in zip(chains, expected):
        got, x = np.load(folder / "out" / f"{chain.output}.npy"), data[chain.input]
        wrong = chain.wrong(x, got, right)
        yield chain, None if wrong.size == 0 else f"x {x[wrong[0]]}: expected {right[wrong[0]]}, got {got[wrong[0]]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("--chains", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    agree = differ = 0
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for first in range(0, arguments.chains, CHAINS_AT_ONCE):
            chains = [Chain(first + i, rng) for i in range(CHAINS_AT_ONCE)]
            for chain, wrong in compare(arguments.quern, chains, pathlib.Path(folder)):
                agree, differ = agree + (wrong is None), differ + (wrong is not None)
                if wrong:
                    print(f"{chain.text.strip()}: {wrong}")
    print(f"ONNX Runtime {ort.__version__}, affine chains: {agree} agree, {differ} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()

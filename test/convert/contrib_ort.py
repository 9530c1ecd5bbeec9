#!/usr/bin/env python3
"""Operators of com.microsoft that ONNX Runtime's optimizer and its transformer tools write, compared with ONNX Runtime.

    contrib_ort.py QUERN [--variants N] [--seed S] [--only OPERATOR]

A model is one operator with random sizes, attributes and optional inputs; some have open dimensions. Prints how many models
of each operator agree, and which ONNX Runtime's CPU refuses. Exit status 1 if a model differs or is refused by QUERN; 77
without numpy, onnx and onnxruntime (scripts/compare_engines.py installs them).
"""
import argparse
import collections
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

ort.set_default_logger_severity(4)


class Variant:
    """One model: what a function of VARIANTS draws."""

    def __init__(self, rng):
        self.rng = rng
        self.inputs, self.constant, self.outputs, self.attributes = [], [], [], {}
        self.domain, self.tolerance, self.opens = "com.microsoft", 2e-4, self.flip(0.3)
        self.batch, self.rows, self.heads = self.size(1, 4), self.size(1, 7), self.size(1, 4)
        self.head = 2 * self.size(1, 5)
        self.width = self.heads * self.head

    def size(self, least, end):
        return int(self.rng.integers(least, end))

    def flip(self, probability=0.5):
        return self.rng.random() < probability

    def one_of(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def floats(self, *shape, scale=1.0):
        return (self.rng.normal(size=shape) * scale).astype(np.float32)

    def bits(self, *shape):
        return (self.rng.random(shape) > 0.3).astype(np.int32)

    def integers(self, kind, *shape):
        # Sums of two products of uint8 and larger int8 exceed 16 bits, where ONNX Runtime saturates on CPUs without VNNI.
        least, end = (-64, 64) if kind == np.int8 else (0, 256)
        return self.rng.integers(least, end, shape).astype(kind)

    def give(self, *inputs):
        """Inputs that a run gets; None is absent."""
        self.inputs += inputs
        self.constant += [False] * len(inputs)

    def keep(self, *inputs):
        """Inputs that the model contains."""
        self.inputs += inputs
        self.constant += [True] * len(inputs)

    def want(self, *outputs):
        """Whether each output is there."""
        self.outputs += outputs

    def hidden(self):
        return self.floats(self.batch, self.rows, self.width)

    def maybe(self, value, probability=0.5):
        return value if self.flip(probability) else None


# ---- activations and normalizations

def gelu(v):
    v.give(v.hidden())


def bias_gelu(v):
    v.give(v.hidden())
    v.keep(v.floats(v.width))


def fast_gelu(v):
    v.give(v.hidden())
    v.keep(v.maybe(v.floats(v.width)))


def quick_gelu(v):
    v.give(v.hidden())
    if v.flip():
        v.attributes["alpha"] = float(v.rng.uniform(0.5, 2))


def skip_layer_normalization(v):
    v.give(v.hidden(), v.floats(*v.one_of((v.batch, v.rows, v.width), (v.rows, v.width), (1, v.rows, v.width))))
    v.keep(v.floats(v.width), v.maybe(v.floats(v.width)), v.maybe(v.floats(v.width)))
    v.want(True, False, False, v.flip())
    v.attributes["epsilon"] = 1e-5


def skip_simplified_layer_normalization(v):
    v.give(v.hidden(), v.hidden())
    v.keep(v.floats(v.width), v.maybe(v.floats(v.width)))
    v.want(True, False, False, v.flip())
    if v.flip():
        v.attributes["epsilon"] = 1e-5


def simplified_layer_normalization(v):
    v.give(v.hidden())
    v.keep(v.floats(v.width))
    v.domain = ""
    v.attributes.update(axis=-1, epsilon=1e-5, stash_type=1)


def embed_layer_normalization(v):
    words, longest, segmented = 11, 10, v.flip()
    v.give(v.rng.integers(0, words, (v.batch, v.rows)).astype(np.int32),
           v.rng.integers(0, 2, (v.batch, v.rows)).astype(np.int32) if segmented else None)
    v.keep(v.floats(words, v.width), v.floats(longest, v.width), v.floats(2, v.width) if segmented else None,
           v.floats(v.width), v.floats(v.width))
    v.give(v.maybe(v.bits(v.batch, v.rows)),
           v.maybe(v.rng.integers(0, longest, (v.batch, v.rows)).astype(np.int32)))
    v.want(True, True, v.flip())
    v.attributes["epsilon"] = 1e-5


# ---- products

def fused_mat_mul(v):
    rows, inner, columns = v.size(1, 6), v.size(1, 6), v.size(1, 6)
    v.opens = False  # the batch has no place of its own

    def factor(first, second, which):
        swap, batch = v.flip(), v.flip(0.3)
        v.attributes.update({f"trans{which}": int(swap), f"transBatch{which}": int(batch)})
        first, second = (second, first) if swap else (first, second)
        return v.floats(first, v.batch, 2, second) if batch else v.floats(v.batch, 2, first, second)
    v.give(factor(rows, inner, "A"))
    v.one_of(v.give, v.keep)(factor(inner, columns, "B"))
    v.attributes["alpha"] = float(v.rng.uniform(0.1, 2))


def activation(v, *others):
    return v.one_of("Relu", "Tanh", "Sigmoid", "LeakyRelu", *others)


def fused_conv(v):
    v.give(v.floats(v.batch, 3, 5, 6))
    v.keep(v.floats(4, 3, 3, 3), v.maybe(v.floats(4)))
    v.give(v.maybe(v.floats(v.batch, 4, 5, 6)))
    kind = activation(v, "Clip", "HardSigmoid")
    v.attributes.update(activation=kind, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    parameters = {"LeakyRelu": [0.2], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4]}.get(kind)
    if parameters:
        v.attributes["activation_params"] = parameters


def fused_gemm(v):
    v.give(v.floats(v.batch, v.width))
    v.keep(v.floats(4, v.width), v.floats(4))
    kind = activation(v)
    v.attributes.update(activation=kind, transB=1, alpha=float(v.rng.uniform(0.5, 2)), beta=0.5)
    if kind == "LeakyRelu":
        v.attributes["activation_alpha"] = 0.3


def quantized_weights(v, columns=5):
    kind, count = v.one_of(np.uint8, np.int8), v.one_of(columns, 1)
    zeros = v.rng.integers(-5, 5, count) + (128 if kind == np.uint8 else 0)
    return v.integers(kind, v.width, columns), np.abs(v.floats(count)) * 0.02 + np.float32(1e-3), zeros.astype(kind)


def dynamic_quantize_mat_mul(v):
    weights, scales, zeros = quantized_weights(v)
    v.give(v.one_of(v.hidden(), v.floats(v.rows, v.width)))
    v.keep(weights, scales, v.maybe(zeros), v.maybe(v.floats(5)))
    v.tolerance = 0.3  # here each row has a scale of its own (src/convert/README.md)


def mat_mul_integer_to_float(v):
    weights, scales, zeros = quantized_weights(v)
    v.give(v.integers(np.uint8, v.batch, v.rows, v.width))
    v.keep(weights, np.array([0.03], np.float32), scales, v.maybe(np.array([v.size(100, 150)], np.uint8)), v.maybe(zeros),
           v.maybe(v.floats(5)))
    v.tolerance = 1e-3


# ---- attention

def add_scale(v):
    if v.flip(0.3):
        v.attributes["scale"] = 0.3


def mask_of(v, keys):
    return v.one_of(None, v.bits(v.batch, keys), v.rng.integers(1, keys + 1, v.batch).astype(np.int32),
                    v.bits(v.batch, v.rows, keys))


def attention(v):
    past = v.one_of(0, 0, v.size(1, 5))
    sizes = [v.width, v.width, v.heads * (v.head + (0 if past else v.size(0, 3)))]
    channels = v.size(2, 9)
    v.attributes.update(num_heads=v.heads, qkv_hidden_sizes=sizes)
    if sizes[2] == v.width and v.flip():
        del v.attributes["qkv_hidden_sizes"]
    v.give(v.floats(v.batch, v.rows, channels))
    v.keep(v.floats(channels, sum(sizes), scale=0.5), v.floats(sum(sizes)))
    mask = mask_of(v, past + v.rows)
    v.give(mask, v.floats(2, v.batch, v.heads, past, v.head) if past else None)
    v.give(v.maybe(v.floats(v.one_of(1, v.batch), v.heads, v.rows, past + v.rows), 0.3) if mask is None else None)
    v.want(True, past > 0)
    v.attributes["unidirectional"] = int(v.flip(0.3))
    if v.flip(0.3):
        v.attributes["mask_filter_value"] = -500.0
    add_scale(v)


def q_attention(v):
    channels = v.size(2, 9)
    v.give(v.integers(np.uint8, v.batch, v.rows, channels))
    v.keep(v.integers(np.int8, channels, 3 * v.width), v.floats(3 * v.width), np.array(0.02, np.float32),
           np.array(0.01, np.float32))
    v.give(v.maybe(v.bits(v.batch, v.rows)))
    v.keep(np.array(128, np.uint8), np.array(0, np.int8))
    v.attributes.update(num_heads=v.heads, unidirectional=int(v.flip(0.3)))
    v.tolerance = 2e-3


def multi_head_attention(v):
    keys, past = v.size(1, 8), v.size(1, 5)
    form = v.one_of("own", "past", "cache", "values")
    bias = v.maybe(v.floats(3 * v.width))
    v.attributes["num_heads"] = v.heads
    v.give(v.hidden())
    if form == "own":
        mask = v.one_of(None, v.bits(v.batch, keys), v.rng.integers(1, keys + 1, v.batch).astype(np.int32))
        v.give(v.floats(v.batch, keys, v.width), v.floats(v.batch, keys, v.width))
        v.keep(bias)
        v.give(mask)
        v.attributes["unidirectional"] = int(keys == v.rows and v.flip())
    elif form == "past":
        v.give(v.hidden(), v.hidden())
        v.keep(bias)
        v.give(None, v.maybe(v.floats(1, v.heads, v.rows, v.rows + past)),
               *(v.floats(v.batch, v.heads, past, v.head) for _ in range(2)))
        v.want(True, True, True)
    elif form == "cache":  # keys and values of another sequence, as a cache has them
        v.give(*(v.floats(v.batch, v.heads, keys, v.head) for _ in range(2)))
    else:  # values are larger than keys
        v.give(v.floats(v.batch, keys, v.width), v.floats(v.batch, keys, v.heads * (v.head + 2)), None, None,
               v.maybe(v.floats(v.batch, v.heads, v.rows, keys)))
    add_scale(v)


def angles(v, longest, half):
    turns = v.floats(longest, half)
    return np.cos(turns), np.sin(turns)


def rotary_embedding(v):
    longest = 20
    v.give(v.one_of(v.hidden(), v.floats(v.batch, v.heads, v.rows, v.head)))
    v.give(v.one_of(np.array([v.size(0, 5)], np.int64), v.rng.integers(0, longest, (v.batch, v.rows))))
    v.keep(*angles(v, longest, v.head // 2))
    v.attributes["interleaved"] = int(v.flip())
    if v.flip():
        v.attributes["num_heads"] = v.heads


def group_query_attention(v):
    past, kv_heads, rotates, packed = v.one_of(0, v.size(1, 5)), v.one_of(1, v.heads), v.flip(0.7), v.flip(0.3)
    if past:
        v.batch = 1  # as ONNX Runtime demands of several rows
    v.head = v.one_of(16, 32)
    width, kv = v.heads * v.head, kv_heads * v.head
    v.give(v.floats(v.batch, v.rows, width + 2 * kv if packed else width),
           *(None if packed else v.floats(v.batch, v.rows, kv) for _ in range(2)),
           *(v.floats(v.batch, kv_heads, past, v.head) for _ in range(2)),
           np.full(v.batch, past + v.rows - 1, np.int32), np.array(past + v.rows, np.int32))
    v.attributes.update(num_heads=v.heads, kv_num_heads=kv_heads)
    if rotates:
        v.keep(*angles(v, 32, v.head // 2))
        v.attributes.update(do_rotary=1, rotary_interleaved=int(v.flip()))
    if v.flip(0.3):
        v.attributes["local_window_size"] = v.size(1, 6)
    if v.flip(0.3):
        v.attributes["softcap"] = 5.0
    v.want(True, True, True)


VARIANTS = {
    "Attention": attention,
    "BiasGelu": bias_gelu,
    "DynamicQuantizeMatMul": dynamic_quantize_mat_mul,
    "EmbedLayerNormalization": embed_layer_normalization,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_mat_mul,
    "Gelu": gelu,
    "GroupQueryAttention": group_query_attention,
    "MatMulIntegerToFloat": mat_mul_integer_to_float,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": q_attention,
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": rotary_embedding,
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
}


# ---- comparison

def model_of(operator, v):
    """The model, and what a run of it gets."""
    names = ["" if x is None else f"input{i}" for i, x in enumerate(v.inputs)]
    while not names[-1]:
        names.pop()
    outputs = [f"output{i}" if there else "" for i, there in enumerate(v.outputs or [True])]
    data = {name: x for name, x, constant in zip(names, v.inputs, v.constant) if name and not constant}
    def dims(x):  # the batch may be open, also where there is a length for each of its items
        if v.opens and x.ndim == 5:  # past keys, then past values
            return [2, "batch", *x.shape[2:]]
        has_batch = v.opens and x.shape[:1] == (v.batch,) and (x.ndim > 1 or x.dtype == np.int32)
        return ["batch", *x.shape[1:]] if has_batch else x.shape
    types = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in data.items()}
    graph = helper.make_graph(
        [helper.make_node(operator, names, outputs, domain=v.domain, **v.attributes)], "graph",
        [helper.make_tensor_value_info(name, types[name], dims(x)) for name, x in data.items()],
        [helper.make_tensor_value_info(name, TensorProto.INT32 if operator == "EmbedLayerNormalization" and i == 1
                                       else TensorProto.FLOAT, None) for i, name in enumerate(outputs) if name],
        [numpy_helper.from_array(x, name) for name, x, constant in zip(names, v.inputs, v.constant) if name and constant])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), data


def compare(quern, operator, v, folder):
    """Returns "agree", "differ" or "refused by ONNX Runtime", and what is wrong."""
    model, data = model_of(operator, v)
    path = folder / "model.onnx"
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        expected = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, data)
    except Exception as error:  # pylint: disable=broad-except
        return "refused by ONNX Runtime", str(error)[:200]
    arguments = []
    for name, x in data.items():
        np.save(folder / f"{name}.npy", x)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run([quern, "run", path, *arguments, "--output", folder / "out"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        return "differ", done.stderr.strip()
    for output, right in zip(model.graph.output, expected):
        got = np.load(folder / "out" / f"{output.name}.npy")
        if got.shape != right.shape:
            return "differ", f"{output.name}: expected shape {right.shape}, got {got.shape}"
        if not np.allclose(got.astype(float), right.astype(float), rtol=v.tolerance, atol=v.tolerance, equal_nan=True):
            return "differ", f"{output.name}: off by {np.abs(got.astype(float) - right.astype(float)).max():.3g}"
    return "agree", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("--variants", type=int, default=30, help="models of each operator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=VARIANTS)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    total = collections.Counter(agree=0, differ=0)
    with tempfile.TemporaryDirectory() as folder:
        for operator in [arguments.only] if arguments.only else VARIANTS:
            counts = collections.Counter()
            for _ in range(arguments.variants):
                v = Variant(rng)
                VARIANTS[operator](v)
                status, text = compare(arguments.quern, operator, v, pathlib.Path(folder))
                counts[status] += 1
                if status != "agree":
                    print(f"{operator} {v.attributes}: {status}: {text}")
            print(f"{operator}: " + ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)
            total += counts
    agree, differ, others = total.pop("agree", 0), total.pop("differ", 0), [f"{n} {what}" for what, n in total.items()]
    print(f"ONNX Runtime {ort.__version__}, com.microsoft:", ", ".join([f"{agree} agree", f"{differ} differ", *others]))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares imported graphs with TensorFlow: the graphs below, random ones (tensorflow_nodes.py) and models with
functions (tensorflow_functions.py), with recurrent layers of Keras (tensorflow_lists.py) or with old loops
(tensorflow_old_loops.py), which together have every operator of the importer's tables (but those in NEVER_MADE).

    python test/convert/tensorflow_graphs.py QUERN [--mtcnn MTCNN.pb] [--seeds N] [--only TEXT]

With a frozen graph of the MTCNN cascade, its three networks are cut out and compared, too. --only runs what has TEXT in its
name. Needs numpy and tensorflow.
"""
import argparse, os, pathlib, re, subprocess, sys, tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

import tensorflow_functions
import tensorflow_lists
import tensorflow_nodes
import tensorflow_old_loops

v1, nn, raw = tf.compat.v1, tf.nn, tf.raw_ops
TOLERANCE, LOOSE = 1e-5, 1e-3  # of the largest element, or of 1; of random graphs

random = np.random.default_rng(1)


def numbers(*shape, low=-1.0, high=1.0):
    return random.uniform(low, high, shape).astype(np.float32)


def scale(n):
    return numbers(n, low=0.5, high=1.5)


def relu_slopes(x, w):
    return tf.where(x > 0, x, x * w)


def batch_norm(x, c, layout="NHWC", op=raw.FusedBatchNormV3):
    return op(x=x, scale=scale(c), offset=numbers(c), mean=numbers(c), variance=scale(c), epsilon=1e-3,
              data_format=layout, is_training=False)[0]


def conv(x, w, layout="NHWC", padding="VALID", strides=(1, 1), dilations=(1, 1), op=raw.Conv2D, pads=()):
    four = (lambda a: [1, *a, 1]) if layout == "NHWC" else (lambda a: [1, 1, *a])
    return op(input=x, filter=w, data_format=layout, padding=padding, strides=four(strides), dilations=four(dilations),
              explicit_paddings=list(pads))


def depthwise(**options):
    return lambda x: conv(x, numbers(3, 2, 4, 2), op=raw.DepthwiseConv2dNative, **options)


def in_blocks(x, w, pads, crops, op=raw.Conv2D):
    blocks = raw.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=pads)
    return raw.BatchToSpaceND(input=conv(blocks, w, op=op), block_shape=[2, 2], crops=crops)


def pool(op, layout="NHWC", padding="VALID", k=(3, 2), s=(2, 1)):
    four = (lambda a: [1, *a, 1]) if layout == "NHWC" else (lambda a: [1, 1, *a])
    name = "value" if op is raw.AvgPool else "input"
    return lambda x: op(**{name: x}, ksize=four(k), strides=four(s), padding=padding, data_format=layout)


def fake_quant(x, low, high, **options):
    return raw.FakeQuantWithMinMaxVars(inputs=x, min=low, max=high, **options)


def flat(x):
    return tf.reshape(x, tf.stack([tf.shape(x)[0], tf.reduce_prod(tf.shape(x)[1:])]))


def resized(op, h, w, **options):
    return lambda x: op(images=x, size=[h, w], **options)


IMAGE, FIRST, MATRIX = (2, 7, 9, 4), (2, 4, 7, 9), (3, 6)
# name: (shape of the input, what is computed)
CASES = {
    "Conv2D valid": (IMAGE, lambda x: conv(x, numbers(3, 2, 4, 5))),
    "Conv2D same stride 2": (IMAGE, lambda x: conv(x, numbers(3, 2, 4, 5), padding="SAME", strides=(2, 3))),
    "Conv2D dilated": (IMAGE, lambda x: conv(x, numbers(3, 2, 4, 5), padding="SAME", dilations=(2, 3))),
    "Conv2D explicit": (IMAGE, lambda x: conv(x, numbers(3, 2, 4, 5), padding="EXPLICIT", pads=[0, 0, 1, 2, 3, 0, 0, 0])),
    "Conv2D in blocks": (IMAGE, lambda x: in_blocks(x, numbers(3, 3, 4, 5), [[2, 3], [2, 3]], [[0, 1], [0, 1]])),
    "Conv2D in blocks, valid": (IMAGE, lambda x: in_blocks(x, numbers(2, 3, 4, 5), [[0, 1], [1, 0]], [[0, 1], [0, 0]])),
    "Depthwise in blocks": (IMAGE, lambda x: in_blocks(x, numbers(3, 3, 4, 2), [[2, 3], [2, 3]], [[0, 1], [0, 1]],
                                                      raw.DepthwiseConv2dNative)),
    "DepthwiseConv2dNative": (IMAGE, depthwise()),
    "DepthwiseConv2dNative same": (IMAGE, depthwise(padding="SAME", strides=(2, 2))),
    "DepthwiseConv2dNative dilated": (IMAGE, depthwise(padding="SAME", dilations=(2, 2))),
    "BiasAdd": (IMAGE, lambda x: raw.BiasAdd(value=conv(x, numbers(1, 1, 4, 5)), bias=numbers(5))),
    "BiasAdd of a matrix": (MATRIX, lambda x: raw.BiasAdd(value=x, bias=numbers(6))),
    "BiasAdd of a computed bias": (MATRIX, lambda x: raw.BiasAdd(value=x, bias=tf.sin(x[1]))),
    "BiasAdd NCHW": (FIRST, lambda x: raw.BiasAdd(value=x, bias=numbers(4), data_format="NCHW")),
    "FusedBatchNorm": (IMAGE, lambda x: batch_norm(x, 4, op=raw.FusedBatchNorm)),
    "FusedBatchNormV2": (IMAGE, lambda x: raw.FusedBatchNormV2(
        x=x, scale=scale(4), offset=numbers(4), mean=numbers(4), variance=scale(4), is_training=False)[0]),
    "FusedBatchNormV3": (IMAGE, lambda x: batch_norm(x, 4)),
    "normalization in parts": (IMAGE, lambda x: (x - numbers(4)) * tf.math.rsqrt(scale(4) + 1e-3) * scale(4) + numbers(4)),
    "Relu": (IMAGE, nn.relu),
    "Relu6": (IMAGE, lambda x: nn.relu6(x * 9.0)),
    "LeakyRelu": (IMAGE, lambda x: nn.leaky_relu(x, 0.3)),
    "PReLU by choice": (IMAGE, lambda x: relu_slopes(x, numbers(4))),
    "PReLU by choice, one slope": (IMAGE, lambda x: relu_slopes(x, numbers(1))),
    "PReLU by old choice": (IMAGE, lambda x: raw.Select(condition=x > 0.0, x=x, y=numbers(4) * x)),
    "PReLU in parts": (IMAGE, lambda x: nn.relu(x) + numbers(4) * -nn.relu(-x)),
    "Elu": (IMAGE, lambda x: nn.elu(x * 3.0)),
    "Selu": (IMAGE, lambda x: nn.selu(x * 3.0)),
    "Sigmoid": (IMAGE, lambda x: tf.sigmoid(x * 5.0)),
    "Tanh": (IMAGE, lambda x: tf.tanh(x * 3.0)),
    "Softmax": (MATRIX, nn.softmax),
    "Softmax of an image": (IMAGE, nn.softmax),
    "MaxPool": (IMAGE, pool(raw.MaxPool)),
    "MaxPool same": (IMAGE, pool(raw.MaxPool, padding="SAME")),
    "AvgPool": (IMAGE, pool(raw.AvgPool)),
    "AvgPool same": (IMAGE, pool(raw.AvgPool, padding="SAME")),
    "MatMul": (MATRIX, lambda x: tf.matmul(x, numbers(6, 5))),
    "MatMul transposed": (MATRIX, lambda x: raw.MatMul(a=x, b=numbers(5, 3), transpose_a=True, transpose_b=True)),
    "BatchMatMulV2": ((2, 3, 6), lambda x: raw.BatchMatMulV2(x=x, y=numbers(6, 5))),
    "BatchMatMul": ((1, 3, 6), lambda x: raw.BatchMatMul(x=x, y=numbers(1, 5, 6), adj_y=True)),
    "BatchMatMulV2 adjoint": ((2, 3, 6), lambda x: raw.BatchMatMulV2(x=x, y=numbers(1, 3, 5), adj_x=True)),
    "Add": (IMAGE, lambda x: raw.Add(x=x, y=numbers(4))),
    "AddV2": (IMAGE, lambda x: raw.AddV2(x=nn.relu(x), y=tf.tanh(x))),
    "AddN": (IMAGE, lambda x: raw.AddN(inputs=[x, nn.relu(x), tf.tanh(x)])),
    "Sub": (IMAGE, lambda x: 2.0 - x),
    "Sub of a row": (IMAGE, lambda x: x - numbers(7, 1, 4)),
    "Mul": (IMAGE, lambda x: x * tf.sigmoid(x)),
    "RealDiv": (IMAGE, lambda x: x / scale(4)),
    "Div": (IMAGE, lambda x: raw.Div(x=1.0, y=x + 3.0)),
    "Maximum": (IMAGE, lambda x: tf.maximum(x, 0.2)),
    "Minimum": (IMAGE, lambda x: tf.minimum(-0.1, x)),
    "Square": (IMAGE, tf.square),
    "Sqrt": (IMAGE, lambda x: tf.sqrt(tf.abs(x))),
    "Rsqrt": (IMAGE, lambda x: tf.math.rsqrt(x + 2.0)),
    "Pow": (IMAGE, lambda x: tf.pow(x + 2.0, 1.7)),
    "Exp": (IMAGE, tf.exp),
    "Neg": (IMAGE, lambda x: -x),
    "Abs": (IMAGE, tf.abs),
    "SquaredDifference": (IMAGE, lambda x: tf.math.squared_difference(x, numbers(4))),
    "Mean": (IMAGE, lambda x: tf.reduce_mean(x, [1, 2])),
    "Mean kept": (IMAGE, lambda x: tf.reduce_mean(x, [-3, -2], keepdims=True)),
    "Mean of rows": (IMAGE, lambda x: tf.reduce_mean(x, [2])),
    "Mean of columns, kept": (IMAGE, lambda x: tf.reduce_mean(x, 1, keepdims=True)),
    "Max": (IMAGE, lambda x: tf.reduce_max(x, [1, 2])),
    "Max of channels": (IMAGE, lambda x: tf.reduce_max(x, -1, keepdims=True)),
    "Sum": (IMAGE, lambda x: tf.reduce_sum(x, [1, 2])),
    "Sum of all but the batch": (IMAGE, lambda x: tf.reduce_sum(x, [1, 2, 3])),
    "normalization of layers": (IMAGE, lambda x: nn.batch_normalization(
        x, *nn.moments(x, [-1], keepdims=True), numbers(4), scale(4), 1e-3)),
    "Reshape": (IMAGE, lambda x: tf.reshape(x, [2, 9, -1])),
    "Reshape by Shape, Prod": (IMAGE, flat),
    "Squeeze": ((2, 1, 5, 1), lambda x: tf.squeeze(x, [1])),
    "Squeeze all": ((2, 1, 5, 1), tf.squeeze),
    "ExpandDims": (MATRIX, lambda x: tf.expand_dims(x, -1)),
    "Transpose": (IMAGE, lambda x: tf.transpose(x, [0, 3, 1, 2])),
    "ConcatV2": (IMAGE, lambda x: tf.concat([x, nn.relu(x)], 3)),
    "Concat": (IMAGE, lambda x: raw.Concat(concat_dim=1, values=[x, nn.relu(x)])),
    "Pack": (MATRIX, lambda x: tf.stack([x, nn.relu(x)], 1)),
    "Unpack": (MATRIX, lambda x: tf.unstack(x, axis=0)[1]),
    "Split": (IMAGE, lambda x: tf.split(x, 2, 3)[1]),
    "SplitV": (IMAGE, lambda x: tf.split(x, [2, -1, 3], 2)[1]),
    "Slice": (IMAGE, lambda x: tf.slice(x, [0, 1, 2, 0], [2, 3, -1, 4])),
    "StridedSlice": (IMAGE, lambda x: x[:, 1:-2, 3:, :]),
    "StridedSlice of one": (IMAGE, lambda x: x[:, 2, ..., -1]),
    "StridedSlice and a new axis": (MATRIX, lambda x: x[:, None, 1:4]),
    "Pad": (IMAGE, lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]])),
    "PadV2": (IMAGE, lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=-3.0)),
    "PadV2 of -infinity": (IMAGE, lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=-np.inf)),
    "Pow of infinity": (IMAGE, lambda x: tf.pow(x + 2.0, np.inf)),
    "Maximum of infinity": (IMAGE, lambda x: tf.maximum(x, np.inf)),
    "MirrorPad": (IMAGE, lambda x: tf.pad(x, [[0, 0], [1, 2], [3, 0], [0, 0]], "REFLECT")),
    "MirrorPad symmetric": (IMAGE, lambda x: tf.pad(x, [[0, 0], [2, 1], [0, 3], [0, 0]], "SYMMETRIC")),
    "Fill, Shape": (MATRIX, lambda x: x + tf.fill([3, 6], 0.5) * tf.cast(tf.shape(x)[1], tf.float32)),
    "Range, GatherV2": (IMAGE, lambda x: tf.gather(x, tf.range(1, 7, 2), axis=2)),
    "Gather": (IMAGE, lambda x: raw.Gather(params=x, indices=[1, 0, 1])),
    "Tile": (MATRIX, lambda x: tf.tile(x, [2, 3])),
    "ResizeBilinear": (IMAGE, resized(raw.ResizeBilinear, 11, 5)),
    "ResizeBilinear corners": (IMAGE, resized(raw.ResizeBilinear, 11, 5, align_corners=True)),
    "ResizeBilinear centers": (IMAGE, resized(raw.ResizeBilinear, 11, 5, half_pixel_centers=True)),
    "ResizeNearestNeighbor": (IMAGE, resized(raw.ResizeNearestNeighbor, 11, 5)),
    "ResizeNearestNeighbor corners": (IMAGE, resized(raw.ResizeNearestNeighbor, 11, 5, align_corners=True)),
    "ResizeNearestNeighbor centers": (IMAGE, resized(raw.ResizeNearestNeighbor, 11, 5, half_pixel_centers=True)),
    "LRN": (IMAGE, lambda x: raw.LRN(input=x, depth_radius=1, bias=1.5, alpha=0.3, beta=0.7)),
    "FakeQuantWithMinMaxVars": (IMAGE, lambda x: fake_quant(x, -0.8, 0.9)),
    "FakeQuantWithMinMaxVars narrow": (IMAGE, lambda x: fake_quant(x, -0.8, 0.9, narrow_range=True)),
    "FakeQuantWithMinMaxVars of 4 bits": (IMAGE, lambda x: fake_quant(x, 0.0, 0.9, num_bits=4)),
    "FakeQuantWithMinMaxVars of weights": (IMAGE, lambda x: conv(x, fake_quant(numbers(3, 2, 4, 5), -0.7, 0.8))),
    "FakeQuantWithMinMaxArgs": (IMAGE, lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x, min=-0.5, max=0.75)),
    "Identity, StopGradient, CheckNumerics": (MATRIX, lambda x: tf.identity(
        raw.CheckNumerics(tensor=tf.stop_gradient(x), message="bad") + v1.placeholder_with_default(numbers(6), [6]))),
    "Conv2D, Relu, MaxPool": (IMAGE, lambda x: pool(raw.MaxPool)(nn.relu(conv(x, numbers(3, 2, 4, 5)) + numbers(5)))),
}


def transposed(first, second):
    """What `first` computes of N, C, H, W, from what `second` computes of N, H, W, C with the same random numbers."""
    return first, lambda x: tf.transpose(second(tf.transpose(x, [0, 2, 3, 1])), [0, 3, 1, 2])


# TensorFlow runs these in NHWC only, so the result to expect comes from there.
FIRST_CASES = {
    "Conv2D NCHW": transposed(
        lambda x: conv(x, numbers(3, 2, 4, 5), "NCHW", "SAME", strides=(2, 3)),
        lambda x: conv(x, numbers(3, 2, 4, 5), "NHWC", "SAME", strides=(2, 3))),
    "Conv2D NCHW explicit": transposed(
        lambda x: conv(x, numbers(3, 2, 4, 5), "NCHW", "EXPLICIT", pads=[0, 0, 0, 0, 1, 2, 3, 0]),
        lambda x: conv(x, numbers(3, 2, 4, 5), "NHWC", "EXPLICIT", pads=[0, 0, 1, 2, 3, 0, 0, 0])),
    "Depthwise NCHW": transposed(depthwise(layout="NCHW"), depthwise(layout="NHWC")),
    "FusedBatchNormV3 NCHW": transposed(lambda x: batch_norm(x, 4, "NCHW"), lambda x: batch_norm(x, 4)),
    "MaxPool NCHW": transposed(pool(raw.MaxPool, "NCHW", "SAME"), pool(raw.MaxPool, "NHWC", "SAME")),
    "AvgPool NCHW": transposed(pool(raw.AvgPool, "NCHW", "SAME"), pool(raw.AvgPool, "NHWC", "SAME")),
}


def graph_of(function, *inputs):
    """The function as a graph of placeholders and outputs; the same seed gives the same constants. An input is an array,
    which stands for its shape and type."""
    global random
    random = np.random.default_rng(7)
    graph = tf.Graph()
    with graph.as_default():
        found = function(*[v1.placeholder(x.dtype, x.shape, name=f"x{i}" if i else "x") for i, x in enumerate(inputs)])
        for i, y in enumerate(found if isinstance(found, list) else [found]):
            tf.identity(y, name=f"y{i}" if i else "y")
    return graph.as_graph_def()


def named(letter, values):
    return {f"{letter}{i}" if i else letter: value for i, value in enumerate(values)}


def run_tensorflow(definition, feeds, outputs):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        with v1.Session(graph=graph) as session:
            return session.run([name + ":0" for name in outputs], {name + ":0": x for name, x in feeds.items()})


def run_quern(quern, folder, path, feeds, outputs, flags=()):
    model = folder / "model.qn"
    command = [quern, "convert", path, "-o", model, "--outputs", ",".join(outputs), *flags]
    subprocess.run(command, check=True, capture_output=True, text=True)
    files = []
    for i, (name, x) in enumerate(feeds.items()):
        np.save(folder / f"in{i}.npy", x)
        files += ["--input", f"{name}={folder / f'in{i}.npy'}"]
    subprocess.run([quern, "run", model, *files, "--output", folder], check=True, capture_output=True, text=True)
    return [np.load(folder / (re.sub("[/:]", "_", name) + ".npy")) for name in outputs]


def difference(got, want, tolerance):
    """What differs, or nothing."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind != "f":
        return "" if (got == want).all() else f"{(got != want).sum()} of {want.size} differ"
    equal = (got == want) | (np.isnan(got) & np.isnan(want))
    if equal.all():
        return ""
    error = np.abs(got[~equal].astype(np.float64) - want[~equal]).max()
    limit = tolerance * max(1.0, np.abs(want[~equal]).max())
    return "" if error <= limit else f"differs by {error:.3g}, limit {limit:.3g}"


NETS = {  # of the cascade: cut tensor, its shape, outputs
    "pnet": ("pnet/while/ResizeBilinear", (1, 30, 40, 3), ["pnet/while/prob1", "pnet/while/conv4-2/BiasAdd"]),
    "rnet": ("rnet/cond/CropAndResize", (5, 24, 24, 3), ["rnet/cond/prob1", "rnet/cond/conv5-2/BiasAdd"]),
    "onet": ("onet/cond/CropAndResize", (5, 48, 48, 3),
             ["onet/cond/prob1", "onet/cond/conv6-2/BiasAdd", "onet/cond/conv6-3/BiasAdd"]),
}


def without_control(definition, outputs, cut):
    """The nodes that the outputs need, with Switch and Enter as Identity: TensorFlow runs neither out of its branch."""
    nodes, kept, left = {node.name: node for node in definition.node}, {}, list(outputs)
    while left:
        name = left.pop()
        if name in kept:
            continue
        node = kept[name] = v1.NodeDef()
        node.CopyFrom(nodes[name])
        inputs = [re.sub(":[01]$", "", i) for i in node.input if not i.startswith("^")]
        if name == cut:
            node.op, inputs = "Placeholder", []
            node.attr.clear()
            node.attr["dtype"].type = tf.float32.as_datatype_enum
        if node.op in ("Switch", "Enter"):
            node.op, inputs = "Identity", inputs[:1]
            kind = node.attr["T"].type
            node.attr.clear()
            node.attr["T"].type = kind
        del node.input[:]
        node.input.extend(inputs)
        left += inputs
    result = v1.GraphDef()
    result.node.extend(kept.values())
    return result


def cases(options):
    """Yields name, graph, graph of what is to expect, what is fed, outputs, flags, tolerance."""
    for name, (shape, function) in CASES.items():
        x = numbers(*shape)
        definition = graph_of(function, x)
        yield name, definition, definition, {"x": x}, ["y"], (), TOLERANCE
    for name, (function, reference) in FIRST_CASES.items():
        x = numbers(*FIRST)
        yield name, graph_of(function, x), graph_of(reference, x), {"x": x}, ["y"], (), TOLERANCE
    for name, (cut, shape, outputs) in NETS.items() if options.mtcnn else ():
        definition = v1.GraphDef.FromString(pathlib.Path(options.mtcnn).read_bytes())
        flags = ("--inputs", cut + "=" + "x".join(map(str, shape)))
        feeds = {cut: numbers(*shape)}
        yield name, definition, without_control(definition, outputs, cut), feeds, outputs, flags, TOLERANCE
    for name, row in tensorflow_nodes.ROWS.items():
        for seed in range(options.seeds):
            arrays, function = row(tensorflow_nodes.Draw(seed))
            definition = graph_of(function, *arrays)
            outputs = [n.name for n in definition.node if re.fullmatch(r"y\d*", n.name)]
            yield f"{name}, seed {seed}", definition, definition, named("x", arrays), outputs, (), LOOSE
    for name, (function, specs) in tensorflow_functions.MODELS.items():
        definition, inputs, outputs = tensorflow_functions.graph_of(function, specs)
        for seed in range(6):
            feeds = dict(zip(inputs, tensorflow_functions.draw(specs, seed)))
            yield f"{name}, seed {seed}", definition, definition, feeds, outputs, (), LOOSE
    x = numbers(3, 4)
    definition = graph_of(tensorflow_lists.listed, x)
    yield "lists", definition, definition, {"x": x}, ["y", "y1", "y2", "y3"], (), TOLERANCE
    for name, definition, feeds, outputs in tensorflow_old_loops.cases(graph_of):
        yield name, definition, definition, feeds, outputs, (), TOLERANCE
    for name, definition, feeds, outputs in tensorflow_lists.cases():
        yield name, definition, definition, feeds, outputs, (), TOLERANCE


NEVER_MADE = {"BatchNormWithGlobalNormalization", "TopK"}  # TensorFlow of today refuses them


def unmade(made):
    """The operators of the importer's tables that no graph had."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "src/convert/tensorflow"
    tables = "".join(path.read_text() for path in folder.rglob("*.cc") if path.name != "functions.cc")
    known = set(re.findall(r'^ *\{"(\w+)", \{', tables, re.M)) - {"PReLU"}
    return sorted(known - made - NEVER_MADE)


def compare(options, folder, name, definition, reference, feeds, outputs, flags, tolerance):
    """What is wrong, one line each."""
    (folder / "graph.pb").write_bytes(definition.SerializeToString())
    try:
        want = run_tensorflow(reference, feeds, outputs)
    except tf.errors.InvalidArgumentError as error:
        return [f"{name}: TensorFlow refuses it: {error.message.splitlines()[0]}"]
    try:
        got = run_quern(options.quern, folder, folder / "graph.pb", feeds, outputs, flags)
    except subprocess.CalledProcessError as error:
        return [f"{name}: {error.cmd[1]}: {error.stderr.strip()}"]
    what = [difference(a, b, tolerance) for a, b in zip(got, want)]
    return [f"{name}: {text}" for text in what if text]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("--mtcnn")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    failures, equal, made = [], 0, set()
    with tempfile.TemporaryDirectory() as folder:
        for name, definition, *rest in cases(options):
            if options.only not in name:
                continue
            made |= {node.op for node in definition.node}
            made |= {node.op for function in definition.library.function for node in function.node_def}
            what = compare(options, pathlib.Path(folder), name, definition, *rest)
            failures += what
            equal += not what
    if not options.only:
        failures += [f"{op}: the importer reads it, but no graph here has it" for op in unmade(made)]
    print(*failures, sep="\n")
    print(f"TensorFlow {tf.__version__}: {equal} agree, {len(failures)} differ")
    sys.exit(1 if failures else 0)


main()

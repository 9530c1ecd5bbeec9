#!/usr/bin/env python3
"""Compares imported models with TensorFlow Lite: a model of one operator for each row of the importer's tables,
in several variants, written here with the schema of the engine's package.

    python test/convert/tflite_models.py build/release/src/tool/quern [NAME...]

With names, only cases whose name contains one of them. Needs numpy and ai-edge-litert.
"""
import os, pathlib, subprocess, sys, tempfile
from importlib.metadata import version

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

TOLERANCE = 1e-5  # of the largest element, or of 1
random = np.random.default_rng(1)
TYPES = {"float32": schema.TensorType.FLOAT32, "int32": schema.TensorType.INT32, "int64": schema.TensorType.INT64,
         "bool": schema.TensorType.BOOL, "uint8": schema.TensorType.UINT8, "int8": schema.TensorType.INT8,
         "complex64": schema.TensorType.COMPLEX64, "int4": schema.TensorType.INT4}


def numbers(*shape, low=-1.0, high=1.0):
    return random.uniform(low, high, shape).astype(np.float32)


def whole(*shape, low=-9, high=9, type="int32"):
    return random.integers(low, high, shape).astype(type)


class Constant:
    def __init__(self, value, type="int32"):
        self.value = np.asarray(value, type)


def weights(*shape):
    return Constant(numbers(*shape), "float32")


class State:
    """A variable, which holds zeros at first."""

    def __init__(self, *shape):
        self.shape = shape


class Hybrid:
    """Weights of bytes, which stand for real numbers."""

    def __init__(self, *shape):
        self.value, self.scale = whole(*shape, low=-127, high=127, type="int8"), 1 / 127


class Int4:
    """Weights of 4 bits with a scale for each output channel, which is the first dimension."""

    def __init__(self, *shape):
        self.value = whole(*shape, low=-7, high=8, type="int8")
        self.scale = [0.05 + 0.01 * i for i in range(shape[0])]

    def halves(self):
        even = np.append(self.value.reshape(-1) & 15, 0)[:(self.value.size + 1) // 2 * 2].astype(np.uint8)
        return even[0::2] | even[1::2] << 4


class Graph:
    """A graph of the file."""

    def __init__(self, model, name):
        self.model, self.table = model, schema.SubGraphT()
        self.table.tensors, self.table.operators, self.table.name = [], [], name
        self.table.inputs, self.table.outputs = [], []
        model.table.subgraphs.append(self.table)

    def tensor(self, shape, type, data=None, variable=False, scale=None):
        tensor = schema.TensorT()
        tensor.shape, tensor.type = list(shape), TYPES.get(type) or TYPES[str(np.dtype(type))]
        tensor.name, tensor.isVariable, tensor.buffer = f"t{len(self.table.tensors)}", variable, 0
        if scale is not None:
            scales = np.atleast_1d(scale).tolist()
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = scales, [0] * len(scales)
        if data is not None:
            tensor.buffer = self.model.buffer(data)
        self.table.tensors.append(tensor)
        return len(self.table.tensors) - 1

    def operand(self, x):
        if x is None:
            return -1
        if isinstance(x, Constant):
            return self.tensor(x.value.shape, x.value.dtype, x.value)
        if isinstance(x, Hybrid):
            return self.tensor(x.value.shape, np.int8, x.value, scale=x.scale)
        if isinstance(x, Int4):
            return self.tensor(x.value.shape, "int4", x.halves(), scale=x.scale)
        if isinstance(x, State):
            return self.tensor(x.shape, np.float32, variable=True)
        tensor = self.tensor(x.shape, x.dtype)
        self.table.inputs.append(tensor)
        return tensor

    def node(self, code, inputs, outputs, options=None, custom=None):
        operator = schema.OperatorT()
        operator.opcodeIndex = self.model.code(code, custom)
        operator.inputs, operator.outputs = inputs, outputs
        if options is not None and custom is None:
            name = type(options).__name__[:-1]
            operator.builtinOptionsType, operator.builtinOptions = getattr(schema.BuiltinOptions, name), options
        if custom is not None:
            operator.customOptions = list(options)
        self.table.operators.append(operator)


class Model:
    def __init__(self):
        self.table = schema.ModelT()
        self.table.version, self.table.operatorCodes, self.table.subgraphs = 3, [], []
        self.table.buffers = [schema.BufferT()]

    def buffer(self, data):
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self.table.buffers.append(buffer)
        return len(self.table.buffers) - 1

    def code(self, name, custom):
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, "CUSTOM" if custom else name)
        code.deprecatedBuiltinCode, code.version, code.customCode = min(code.builtinCode, 127), VERSIONS.get(name, 1), custom
        self.table.operatorCodes.append(code)
        return len(self.table.operatorCodes) - 1

    def bytes(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.table.Pack(builder), b"TFL3")
        return bytes(builder.Output())


# Versions from which on an engine takes what the cases have; elsewhere the first will do.
VERSIONS = {"EQUAL": 4, "STRIDED_SLICE": 4, "TRANSPOSE_CONV": 3, "RESHAPE": 1, "UNIDIRECTIONAL_SEQUENCE_LSTM": 2,
            "BIDIRECTIONAL_SEQUENCE_LSTM": 2, "LSTM": 2, "GATHER": 5, "PACK": 2, "FULLY_CONNECTED": 5, "MIRROR_PAD": 1,
            "SUM": 1, "CAST": 1, "TOPK_V2": 2, "BROADCAST_TO": 2, "DIV": 2, "SUB": 2, "MUL": 5, "ADD": 2}


def options(name, **fields):
    table = getattr(schema, name + "OptionsT")()
    for field, value in fields.items():
        assert hasattr(table, field), field
        setattr(table, field, value)
    return table


class Case:
    def __init__(self, code, inputs, outputs=("float32",), options=None, custom=None, tolerance=TOLERANCE):
        self.code, self.inputs, self.outputs, self.options = code, inputs, outputs, options
        self.custom, self.tolerance = custom, tolerance

    def model(self):
        model = Model()
        graph = Graph(model, "main")
        inputs = [graph.operand(x) for x in self.inputs]
        outputs = [graph.tensor([], t) for t in self.outputs]
        graph.node(self.code, inputs, outputs, self.options, self.custom)
        graph.table.outputs = outputs
        return model

    def feeds(self):
        return [x for x in self.inputs if isinstance(x, np.ndarray)]

    def right(self, path):
        """What the engine computes."""
        interpreter = Interpreter(str(path))
        interpreter.allocate_tensors()
        for detail, x in zip(interpreter.get_input_details(), self.feeds()):
            interpreter.set_tensor(detail["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def unary(code, x=None, out=None, options=None):
    x = numbers(2, 3, 4, high=3) if x is None else x
    return Case(code, [x], (out or str(x.dtype),), options)


def binary(code, type="float32", out=None, options=None, second=None):
    a = numbers(2, 3, 4, low=-5, high=5) if type == "float32" else whole(2, 3, 4, type=type)
    b = numbers(3, 1, low=-5, high=5) if type == "float32" else whole(3, 1, low=1, type=type)
    if second is not None:
        b = second
    return Case(code, [a, b], (out or type,), options)


def truths(*shape):
    return random.integers(0, 2, shape).astype(bool)


def reduction(code, x, axes, keep):
    return Case(code, [x, Constant(axes)], (str(x.dtype),), options("Reducer", keepDims=keep))


def lstm_weights(n, depth, coupled=False, peepholes=False, bias=True, make=weights):
    gate = lambda *shape: [None if coupled else make(*shape)] + [make(*shape) for _ in range(3)]
    peep = [None if coupled or not peepholes else weights(n)] + [weights(n) if peepholes else None for _ in range(2)]
    biases = [None if coupled else weights(n)] + [weights(n) for _ in range(3)]
    return gate(n, depth) + gate(n, n) + peep + biases + [None, None]


def lstm(batch=2, steps=5, depth=3, n=4, time_major=False, clip=0.0, make=weights, tolerance=TOLERANCE, **kinds):
    x = numbers(*((steps, batch, depth) if time_major else (batch, steps, depth)), low=-3, high=3)
    inputs = [x] + lstm_weights(n, depth, make=make, **kinds) + [State(batch, n), State(batch, n)]
    return Case("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs + [None] * 4, ("float32",),
                options("UnidirectionalSequenceLSTM", fusedActivationFunction=4, timeMajor=time_major, cellClip=clip),
                tolerance=tolerance)


def lstm_step(batch=2, depth=3, n=4):
    inputs = [numbers(batch, depth)] + lstm_weights(n, depth) + [State(batch, n), State(batch, n)]
    return Case("LSTM", inputs, ("float32",), options("LSTM", fusedActivationFunction=4))


def lstm_both(merge, time_major, batch=2, steps=5, depth=3, n=4):
    x = numbers(*((steps, batch, depth) if time_major else (batch, steps, depth)), low=-3, high=3)
    inputs = [x] + lstm_weights(n, depth) + lstm_weights(n, depth) + [State(batch, n) for _ in range(4)] + [None] * 9
    return Case("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, ("float32",) * (1 if merge else 2),
                options("BidirectionalSequenceLSTM", fusedActivationFunction=4, timeMajor=time_major, mergeOutputs=merge))


def rnn(time_major, activation, batch=2, steps=5, depth=3, n=4):
    x = numbers(*((steps, batch, depth) if time_major else (batch, steps, depth)))
    inputs = [x, weights(n, depth), weights(n, n), weights(n), State(batch, n)]
    return Case("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, ("float32",),
                options("SequenceRNN", timeMajor=time_major, fusedActivationFunction=activation))


def rnn_both(merge, batch=2, steps=5, depth=3, n=4):
    half = lambda: [weights(n, depth), weights(n, n), weights(n), State(batch, n)]
    return Case("BIDIRECTIONAL_SEQUENCE_RNN", [numbers(batch, steps, depth)] + half() + half() + [None] * 3,
                ("float32",) * (1 if merge else 2),
                options("BidirectionalSequenceRNN", fusedActivationFunction=4, mergeOutputs=merge))


def transposed(padding, strides, size, kernel=(3, 2), bias=False):
    inputs = [Constant([2, *size, 5]), weights(5, *kernel, 4), numbers(2, 4, 5, 4)] + ([weights(5)] if bias else [])
    return Case("TRANSPOSE_CONV", inputs, ("float32",),
                options("TransposeConv", padding=padding, strideH=strides[0], strideW=strides[1]))


def boxes(n):
    corner, size = numbers(n, 2, low=0, high=0.7), numbers(n, 2, low=0.1, high=0.3)
    return np.concatenate([corner, corner + size], 1)


def suppression(soft, n=40, most=12, threshold=0.4, score=0.2):
    inputs = [boxes(n), numbers(n, low=0), Constant(most), Constant(threshold, "float32"), Constant(score, "float32")]
    if soft is None:
        return Case("NON_MAX_SUPPRESSION_V4", inputs, ("int32", "int32"), options("NonMaxSuppressionV4"))
    return Case("NON_MAX_SUPPRESSION_V5", inputs + [Constant(soft, "float32")], ("int32", "float32", "int32"),
                options("NonMaxSuppressionV5"))


def detections(regular, each=1, background=True, n=60, classes=5, most=10, score=0.3):
    from flatbuffers import flexbuffers
    fields = {"max_detections": most, "max_classes_per_detection": each, "detections_per_class": 4,
              "use_regular_nms": regular, "nms_score_threshold": score, "nms_iou_threshold": 0.5,
              "num_classes": classes, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in fields.items():
            builder.Key(name)
            (builder.Bool if isinstance(value, bool) else builder.Float if isinstance(value, float) else builder.Int)(value)
    b = boxes(n)
    anchors = np.concatenate([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], 1)
    inputs = [numbers(1, n, 4), numbers(1, n, classes + background, low=0), Constant(anchors, "float32")]
    return Case(None, inputs, ("float32",) * 4, bytes(builder.Finish()), "TFLite_Detection_PostProcess")


class Spectrum(Case):
    """RFFT2D, whose complex numbers are reshaped, and of which floats are made."""

    def __init__(self, code, shape, lengths):
        self.code, self.x, self.lengths, self.tolerance = code, numbers(*shape), lengths, TOLERANCE

    def feeds(self):
        return [self.x]

    def model(self):
        model = Model()
        graph = Graph(model, "main")
        x = graph.operand(self.x)
        y, flat = (graph.tensor([], "complex64") for _ in range(2))
        graph.table.outputs = [graph.tensor([], "float32")]
        graph.node("RFFT2D", [x, graph.operand(Constant(self.lengths))], [y], options("Rfft2d"))
        graph.node("RESHAPE", [y, graph.operand(Constant([-1, self.lengths[1] // 2 + 1]))], [flat], options("Reshape"))
        graph.node(self.code, [flat], graph.table.outputs)
        return model


class While(Case):
    """x * 1.5 + 1, n times; the second value counts, the third is passed on."""

    def __init__(self, n, known=True):
        self.n, self.known, self.tolerance = n, known, TOLERANCE
        self.x, self.count, self.add = numbers(2, 3), np.asarray(0, "int32"), np.asarray([1], "float32")

    def feeds(self):
        return [self.x] if self.known else [self.x, self.count]

    def model(self):
        model = Model()
        main, condition, body = Graph(model, "main"), Graph(model, "condition"), Graph(model, "body")
        x = main.operand(self.x)
        count = main.operand(Constant(self.count) if self.known else self.count)
        values = [x, count, main.operand(Constant(self.add, "float32"))]
        outputs = [main.tensor([2, 3], "float32"), main.tensor([], "int32"), main.tensor([1], "float32")]
        main.node("WHILE", values, outputs, options("While", condSubgraphIndex=1, bodySubgraphIndex=2))
        main.table.outputs = outputs[:2]
        for graph in (condition, body):
            graph.table.inputs = [graph.tensor([2, 3], "float32"), graph.tensor([], "int32"), graph.tensor([1], "float32")]
        goes = condition.tensor([], "bool")
        condition.node("LESS", [1, condition.operand(Constant(self.n))], [goes], options("Less"))
        condition.table.outputs = [goes]
        scaled, sum, next = body.tensor([2, 3], "float32"), body.tensor([2, 3], "float32"), body.tensor([], "int32")
        body.node("MUL", [0, body.operand(Constant(1.5, "float32"))], [scaled], options("Mul"))
        body.node("ADD", [scaled, 2], [sum], options("Add"))
        body.node("ADD", [1, body.operand(Constant(1))], [next], options("Add"))
        body.table.outputs = [sum, next, 2]
        return model


class If(Case):
    """x + 1 or x * w, of which w is constant."""

    def __init__(self, condition):
        self.condition, self.x, self.tolerance = np.asarray(condition), numbers(2, 3), TOLERANCE

    def feeds(self):
        return [self.condition, self.x]

    def model(self):
        model = Model()
        main, yes, no = Graph(model, "main"), Graph(model, "then"), Graph(model, "else")
        inputs = [main.operand(self.condition), main.operand(self.x), main.operand(weights(3, 3))]
        main.table.outputs = [main.tensor([2, 3], "float32")]
        main.node("IF", inputs, main.table.outputs, options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
        for graph in (yes, no):
            graph.table.inputs = [graph.tensor([2, 3], "float32"), graph.tensor([3, 3], "float32")]
            graph.table.outputs = [graph.tensor([2, 3], "float32")]
        yes.node("ADD", [0, yes.operand(Constant(1, "float32"))], [2], options("Add"))
        no.node("FULLY_CONNECTED", [0, 1, -1], [2], options("FullyConnected"))
        return model


X, IMAGE = numbers(2, 3, 4), numbers(2, 4, 6, 3)
INTS = whole(2, 3, 4)
EDGES = np.asarray([0, -0.0, 1, -1, np.inf, -np.inf], "float32")
SHRINK = dict(beginMask=0, endMask=0, ellipsisMask=0, newAxisMask=0, shrinkAxisMask=0)


def slice(x, begin, end, step, **masks):
    return Case("STRIDED_SLICE", [x, Constant(begin), Constant(end), Constant(step)], (str(x.dtype),),
                options("StridedSlice", **{**SHRINK, **masks}))


def one_hot(axis, type="float32"):
    indices = Constant([[0, 2, -1], [5, 1, 3]])
    return Case("ONE_HOT", [indices.value, Constant(4), Constant(3, type), Constant(-2, type)], (type,),
                options("OneHot", axis=axis))


class MediaPipe(Case):
    """A custom operator, which the engine does not have: `define` computes what its documentation says."""

    def __init__(self, code, inputs, options, define, outputs=("float32",)):
        super().__init__(None, inputs, outputs, options, code)
        self.define = define

    def right(self, path):
        return self.define(*(x.value if isinstance(x, Constant) else x for x in self.inputs))


def of_struct(*integers):
    return np.asarray(integers, "<i4").tobytes()


def of_map(**fields):
    from flatbuffers import flexbuffers
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in fields.items():
            builder.Key(name)
            (builder.Float if isinstance(value, float) else builder.Int)(value)
    return bytes(builder.Finish())


def transposed_with_bias(same, strides, kernel, size):
    def define(x, w, bias):
        pads = [max(k - (n - 1) % s - 1, 0) if same else 0 for k, n, s in zip(kernel, size, strides)]
        rows, columns = [s * (n - 1) + k - p for k, n, s, p in zip(kernel, size, strides, pads)]
        whole = np.zeros((len(x), rows + 2 * kernel[0], columns + 2 * kernel[1], len(bias)))
        for y in range(size[0]):
            for z in range(size[1]):
                top, left = y * strides[0] - pads[0] // 2 + kernel[0], z * strides[1] - pads[1] // 2 + kernel[1]
                whole[:, top:top + kernel[0], left:left + kernel[1]] += np.einsum("ni,okli->nklo", x[:, y, z], w)
        return [(whole[:, kernel[0]:kernel[0] + rows, kernel[1]:kernel[1] + columns] + bias).astype("float32")]

    return MediaPipe("Convolution2DTransposeBias", [numbers(2, *size, 4), weights(5, *kernel, 4), weights(5)],
                     of_struct(1 if same else 2, strides[1], strides[0]), define)


def maximums_with_places(same, strides, kernel, size):
    def define(x):
        count = [-(-n // s) if same else (n - k) // s + 1 for n, k, s in zip(size, kernel, strides)]
        before = [max((c - 1) * s + k - n, 0) // 2 if same else 0 for c, n, k, s in zip(count, size, kernel, strides)]
        y, places = np.zeros((len(x), *count, x.shape[3]), "float32"), np.zeros((len(x), *count, x.shape[3]), "float32")
        for n, i, j, c in np.ndindex(*y.shape):
            top, left = i * strides[0] - before[0], j * strides[1] - before[1]
            y[n, i, j, c], at = max((x[n, top + a, left + b, c], -(a * kernel[1] + b)) for a in range(kernel[0])
                                    for b in range(kernel[1]) if 0 <= top + a < size[0] and 0 <= left + b < size[1])
            places[n, i, j, c] = -at + 0.1
        return [y, places]

    return MediaPipe("MaxPoolingWithArgmax2D", [numbers(2, *size, 3)],
                     of_struct(1 if same else 2, strides[1], strides[0], kernel[1], kernel[0], 0), define, ("float32",) * 2)


def unpooled(kernel, size):
    def define(x, places):
        y = np.zeros((len(x), size[0] * kernel[0], size[1] * kernel[1], x.shape[3]), "float32")
        for n, i, j, c in np.ndindex(*x.shape):
            a, b = divmod(int(places[n, i, j, c]), kernel[1])
            y[n, i * kernel[0] + a, j * kernel[1] + b, c] = x[n, i, j, c]
        return [y]

    places = whole(2, *size, 3, low=0, high=kernel[0] * kernel[1]).astype("float32") + np.float32(0.1)
    return MediaPipe("MaxUnpooling2D", [numbers(2, *size, 3), places],
                     of_struct(1, kernel[1], kernel[0], kernel[1], kernel[0], 0), define)


def moved_landmarks(dimensions, scale, points):
    def define(x, matrix):
        rows, m = x.reshape(-1, dimensions).copy(), matrix.reshape(4, 4)
        rows[:, :2] = rows[:, :2] @ m[:2, :2].T + m[:2, 3] * (scale or 1)
        return [rows.reshape(x.shape)]

    shape = (1, 1, 1, points * dimensions) if scale else (1, points, dimensions)
    fields = {"dimensions": dimensions, **({"scale": float(scale)} if scale else {})}
    return MediaPipe("TransformLandmarks", [numbers(*shape), numbers(1, 4, 4)], of_map(**fields), define)


CASES = {
    **{f"{c} {a}": binary(c, options=options(o, fusedActivationFunction=a)) for c, o in
       (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div")) for a in (0, 1, 3)},
    **{f"{c} of integers": binary(c, "int32", options=options(o)) for c, o in
       (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div"))},
    **{f"{c} of {t}": binary(c, t, "bool") for t in ("float32", "int32") for c in
       ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")},
    **{f"{c} of {t}": binary(c, t) for t in ("float32", "int32") for c in
       ("MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")},
    "FLOOR_MOD by negatives": binary("FLOOR_MOD", "int32", second=whole(3, 1, low=-9, high=-1)),
    "FLOOR_DIV by negatives": binary("FLOOR_DIV", "int32", second=whole(3, 1, low=-9, high=-1)),
    "POW": Case("POW", [numbers(2, 3, low=0.1), numbers(2, 3)]),
    **{c: Case(c, [truths(2, 3), truths(2, 3)], ("bool",)) for c in ("LOGICAL_AND", "LOGICAL_OR")},
    "LOGICAL_NOT": unary("LOGICAL_NOT", truths(2, 3)),
    **{c: unary(c, options=o) for c, o in
       (("ABS", None), ("CEIL", None), ("COS", None), ("ELU", None), ("EXP", None), ("FLOOR", None), ("NEG", None),
        ("HARD_SWISH", None), ("LOGISTIC", None), ("LOG_SOFTMAX", None), ("ROUND", None), ("SIGN", None), ("SIN", None),
        ("SQUARE", None), ("TANH", None), ("ZEROS_LIKE", None), ("RELU_N1_TO_1", None), ("RELU_0_TO_1", None),
        ("GELU", options("Gelu", approximate=False)), ("L2_NORMALIZATION", options("L2Norm")))},
    "GELU approximate": unary("GELU", options=options("Gelu", approximate=True)),
    "ROUND halves": unary("ROUND", np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], "float32")),
    **{c: unary(c, numbers(2, 3, low=0.1, high=3)) for c in ("LOG", "SQRT", "RSQRT")},
    **{f"{c} of integers": unary(c, INTS) for c in ("ABS", "NEG")},
    "SOFTMAX": unary("SOFTMAX", options=options("Softmax", beta=1.0)),
    "SOFTMAX beta": unary("SOFTMAX", options=options("Softmax", beta=0.5)),
    "SELECT": Case("SELECT", [truths(2, 3, 4), numbers(2, 3, 4), numbers(2, 3, 4)]),
    "SELECT of rows": Case("SELECT", [truths(2), numbers(2, 3, 4), numbers(2, 3, 4)]),
    "SELECT_V2": Case("SELECT_V2", [truths(3, 1), numbers(2, 3, 4), numbers(4)]),
    "SELECT_V2 of integers": Case("SELECT_V2", [truths(3, 1), whole(2, 3, 4), Constant(7)], ("int32",)),
    "CAST to int": Case("CAST", [numbers(2, 3, low=-5, high=5)], ("int32",)),
    "CAST to float": Case("CAST", [INTS]),
    "CAST to bool": Case("CAST", [INTS], ("bool",)),
    "ADD_N": Case("ADD_N", [numbers(2, 3), numbers(2, 3), numbers(2, 3)]),
    "PRELU": Case("PRELU", [IMAGE, weights(1, 1, 3)]),
    **{f"{c} {axes} {keep}": reduction(c, numbers(2, 3, 4, 2), axes, keep) for keep in (False, True) for c in
       ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD") for axes in ([1], [1, 2], [0, 2], [-1], [0, 1, 2, 3])},
    **{f"{c} of integers": reduction(c, whole(2, 3, 4, low=1, high=4), [1], False) for c in
       ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")},
    "REDUCE_ANY": reduction("REDUCE_ANY", truths(2, 3, 4), [1], False),
    "REDUCE_ALL": reduction("REDUCE_ALL", truths(2, 2, 4), [1], True),
    "ARG_MAX": Case("ARG_MAX", [X, Constant(-1)], ("int32",), options("ArgMax", outputType=2)),
    "ARG_MAX 64": Case("ARG_MAX", [X, Constant(1)], ("int64",), options("ArgMax", outputType=4)),
    "ARG_MIN": Case("ARG_MIN", [X, Constant(0)], ("int32",), options("ArgMin", outputType=2)),
    **{f"CUMSUM {e} {r}": Case("CUMSUM", [X, Constant(1)], options=options("Cumsum", exclusive=e, reverse=r))
       for e in (False, True) for r in (False, True)},
    "GATHER": Case("GATHER", [X, Constant([2, 0])], options=options("Gather", axis=1)),
    "GATHER computed": Case("GATHER", [X, whole(2, 2, low=0, high=3)], options=options("Gather", axis=1)),
    "GATHER of integers": Case("GATHER", [INTS, Constant([2, 0])], ("int32",), options("Gather", axis=-1)),
    "GATHER batch": Case("GATHER", [X, whole(2, 2, low=0, high=3)], options=options("Gather", axis=1, batchDims=1)),
    "GATHER_ND": Case("GATHER_ND", [X, Constant([[0, 1], [1, 2]])]),
    "GATHER_ND computed": Case("GATHER_ND", [X, whole(2, 3, 2, low=0, high=2)]),
    "EMBEDDING_LOOKUP": Case("EMBEDDING_LOOKUP", [whole(5, low=0, high=7), weights(7, 3)]),
    "SCATTER_ND": Case("SCATTER_ND", [Constant([[1], [3], [1]]), numbers(3, 2), Constant([5, 2])]),
    "SCATTER_ND of integers": Case("SCATTER_ND", [Constant([[1, 0], [3, 1]]), whole(2), Constant([5, 2])], ("int32",)),
    "SEGMENT_SUM": Case("SEGMENT_SUM", [numbers(5, 2), Constant([0, 0, 1, 2, 2])]),
    "ONE_HOT": one_hot(-1),
    "ONE_HOT axis": one_hot(0),
    "ONE_HOT of integers": one_hot(1, "int32"),
    "TOPK_V2": Case("TOPK_V2", [X, Constant(3)], ("float32", "int32")),
    "TOPK_V2 of equals": Case("TOPK_V2", [whole(3, 6, low=0, high=3).astype("float32"), Constant(4)], ("float32", "int32")),
    "WHERE": Case("WHERE", [truths(2, 3, 4)], ("int64",)),
    "UNIQUE": Case("UNIQUE", [whole(12, low=0, high=5)], ("int32", "int32"), options("Unique", idxOutType=2)),
    "REVERSE_V2": Case("REVERSE_V2", [X, Constant([1])]),
    "REVERSE_V2 of integers": Case("REVERSE_V2", [INTS, Constant([2])], ("int32",)),
    "REVERSE_SEQUENCE": Case("REVERSE_SEQUENCE", [X, Constant([1, 3])], options=options("ReverseSequence", seqDim=1, batchDim=0)),
    "TILE": Case("TILE", [X, Constant([2, 1, 3])]),
    "TILE of integers": Case("TILE", [INTS, Constant([1, 2, 1])], ("int32",)),
    "BROADCAST_TO": Case("BROADCAST_TO", [numbers(3, 1), Constant([2, 3, 4])]),
    "BROADCAST_ARGS": Case("BROADCAST_ARGS", [Constant([3, 1]), Constant([2, 1, 4])], ("int32",)),
    "FILL": Case("FILL", [Constant([2, 3]), np.asarray(2.5, "float32")]),
    "RANK": Case("RANK", [X], ("int32",)),
    "SHAPE": Case("SHAPE", [X], ("int32",), options("Shape", outType=2)),
    "RANGE": Case("RANGE", [Constant(1), Constant(9), Constant(2)], ("int32",)),
    "EXPAND_DIMS of integers": Case("EXPAND_DIMS", [INTS, Constant(1)], ("int32",)),
    "SQUEEZE": Case("SQUEEZE", [numbers(1, 3, 1, 2)], options=options("Squeeze", squeezeDims=[2])),
    "RESHAPE of integers": Case("RESHAPE", [INTS, Constant([4, -1])], ("int32",), options("Reshape", newShape=[4, -1])),
    "TRANSPOSE of integers": Case("TRANSPOSE", [INTS, Constant([2, 0, 1])], ("int32",)),
    "SLICE of integers": Case("SLICE", [INTS, Constant([0, 1, 1]), Constant([2, -1, 2])], ("int32",)),
    "SLICE": Case("SLICE", [X, Constant([0, 1, 1]), Constant([2, -1, 2])]),
    "STRIDED_SLICE": slice(X, [0, 1, 3], [2, 3, 0], [1, 1, -1]),
    "STRIDED_SLICE masks": slice(X, [1, 5, 3], [9, 9, 0], [1, 1, -2], beginMask=2, endMask=6),
    "STRIDED_SLICE index": slice(X, [0, -1, 0], [0, 0, 4], [1, 1, 2], shrinkAxisMask=2, endMask=1),
    "STRIDED_SLICE of integers": slice(INTS, [0, 1, 3], [2, 3, 0], [1, 1, -1]),
    "STRIDED_SLICE index of integers": slice(INTS, [-1, 0, 1], [0, 3, 4], [1, 2, 1], shrinkAxisMask=1),
    "SPLIT": Case("SPLIT", [Constant(2), X], ("float32",) * 2, options("Split", numSplits=2)),
    "SPLIT of integers": Case("SPLIT", [Constant(2), INTS], ("int32",) * 2, options("Split", numSplits=2)),
    "SPLIT_V": Case("SPLIT_V", [X, Constant([1, -1]), Constant(1)], ("float32",) * 2, options("SplitV", numSplits=2)),
    "UNPACK": Case("UNPACK", [X], ("float32",) * 3, options("Unpack", num=3, axis=1)),
    "UNPACK of integers": Case("UNPACK", [INTS], ("int32",) * 3, options("Unpack", num=3, axis=1)),
    "PACK": Case("PACK", [X, numbers(2, 3, 4)], options=options("Pack", valuesCount=2, axis=-1)),
    "PACK of integers": Case("PACK", [INTS, whole(2, 3, 4)], ("int32",), options("Pack", valuesCount=2, axis=1)),
    "CONCATENATION of integers": Case("CONCATENATION", [INTS, whole(2, 3, 2)], ("int32",), options("Concatenation", axis=-1)),
    "PAD": Case("PAD", [X, Constant([[1, 0], [0, 2], [1, 1]])]),
    "PAD of integers": Case("PAD", [INTS, Constant([[1, 0], [0, 2], [1, 1]])], ("int32",)),
    "PADV2": Case("PADV2", [X, Constant([[1, 0], [0, 2], [1, 1]]), Constant(3, "float32")]),
    "PADV2 of -infinity": Case("PADV2", [X, Constant([[1, 0], [0, 2], [1, 1]]), Constant(-np.inf, "float32")]),
    "PADV2 of NaN": Case("PADV2", [X, Constant([[1, 0], [0, 2], [1, 1]]), Constant(np.nan, "float32")]),
    "POW of infinity": Case("POW", [X, Constant(np.inf, "float32")]),
    "MAXIMUM of infinity": Case("MAXIMUM", [X, Constant(np.inf, "float32")]),
    "MINIMUM of -infinity": Case("MINIMUM", [X, Constant(-np.inf, "float32")]),
    "MIRROR_PAD reflect": Case("MIRROR_PAD", [X, Constant([[1, 0], [2, 2], [1, 3]])], options=options("MirrorPad", mode=0)),
    "MIRROR_PAD symmetric": Case("MIRROR_PAD", [X, Constant([[2, 1], [3, 2], [1, 4]])], options=options("MirrorPad", mode=1)),
    "SPACE_TO_DEPTH": Case("SPACE_TO_DEPTH", [IMAGE], options=options("SpaceToDepth", blockSize=2)),
    "DEPTH_TO_SPACE": Case("DEPTH_TO_SPACE", [numbers(2, 3, 4, 12)], options=options("DepthToSpace", blockSize=2)),
    "SPACE_TO_BATCH_ND": Case("SPACE_TO_BATCH_ND", [IMAGE, Constant([2, 3]), Constant([[1, 1], [2, 1]])]),
    "BATCH_TO_SPACE_ND": Case("BATCH_TO_SPACE_ND", [numbers(12, 3, 2, 5), Constant([2, 3]), Constant([[1, 0], [0, 2]])]),
    "DYNAMIC_UPDATE_SLICE computed": Case("DYNAMIC_UPDATE_SLICE", [X, numbers(2, 1, 4), np.asarray([0, 2, 0], "int32")]),
    "DYNAMIC_UPDATE_SLICE outside": Case("DYNAMIC_UPDATE_SLICE", [X, numbers(1, 2, 2), np.asarray([-3, 7, 9], "int32")]),
    "DYNAMIC_UPDATE_SLICE of integers": Case("DYNAMIC_UPDATE_SLICE", [INTS, whole(1, 2, 4), Constant([1, 1, 0])], ("int32",)),
    "SPARSE_TO_DENSE": Case("SPARSE_TO_DENSE", [Constant([[0, 1], [1, 2]]), Constant([2, 4]), numbers(2), Constant(-1, "float32")],
                            options=options("SparseToDense")),
    "SPARSE_TO_DENSE one value": Case("SPARSE_TO_DENSE", [whole(3, low=0, high=9), Constant([9]), Constant(4), Constant(0)],
                                      ("int32",), options("SparseToDense")),
    "MATRIX_DIAG": Case("MATRIX_DIAG", [numbers(2, 3)]),
    "MATRIX_DIAG of integers": Case("MATRIX_DIAG", [whole(4)], ("int32",)),
    **{f"MATRIX_SET_DIAG {s}": Case("MATRIX_SET_DIAG", [numbers(2, *s), numbers(2, min(s))]) for s in ((3, 3), (2, 4), (4, 2))},
    **{f"BUCKETIZE {t}": Case("BUCKETIZE", [x], ("int32",), options("Bucketize", boundaries=[-3.0, 0.0, 2.5])) for t, x in
       (("floats", numbers(2, 9, low=-5, high=5)), ("integers", INTS))},
    "ATAN2": Case("ATAN2", [numbers(2, 9), numbers(2, 9)]),
    "ATAN2 edges": Case("ATAN2", [np.repeat(EDGES, len(EDGES)), np.tile(EDGES, len(EDGES))]),
    **{f"RIGHT_SHIFT {t}": Case("RIGHT_SHIFT", [whole(2, 9, low=0 if t == "uint8" else -99, high=99, type=t), whole(2, 9, low=0, type=t)], (t,))
       for t in ("int32", "int8", "uint8")},
    **{f"L2_POOL_2D {p}": Case("L2_POOL_2D", [IMAGE], options=options("Pool2D", padding=p, filterWidth=3, filterHeight=2, strideW=2, strideH=1))
       for p in (0, 1)},
    "SLICE computed": Case("SLICE", [X, np.asarray([0, 1, 1], "int32"), np.asarray([2, -1, 2], "int32")]),
    "DYNAMIC_UPDATE_SLICE": Case("DYNAMIC_UPDATE_SLICE", [X, numbers(1, 2, 2), Constant([1, 0, 2])]),
    **{f"BATCH_MATMUL {x} {y}": Case("BATCH_MATMUL", [numbers(2, *((5, 3) if x else (3, 5))), numbers(2, *((4, 5) if y else (5, 4)))],
                                     options=options("BatchMatMul", adjX=x, adjY=y)) for x in (False, True) for y in (False, True)},
    "BATCH_MATMUL broadcast": Case("BATCH_MATMUL", [numbers(2, 3, 4, 5), numbers(3, 5, 2)], options=options("BatchMatMul")),
    "FULLY_CONNECTED computed": Case("FULLY_CONNECTED", [numbers(3, 5), numbers(4, 5), None],
                                     options=options("FullyConnected", fusedActivationFunction=1)),
    "LOCAL_RESPONSE_NORMALIZATION": unary("LOCAL_RESPONSE_NORMALIZATION", IMAGE, options=options(
        "LocalResponseNormalization", radius=1, bias=1.0, alpha=0.3, beta=0.6)),
    "TRANSPOSE_CONV same": transposed(0, (2, 2), (8, 10)),
    "TRANSPOSE_CONV same odd": transposed(0, (2, 3), (7, 14), (4, 5)),
    "TRANSPOSE_CONV valid": transposed(1, (2, 2), (9, 10)),
    "TRANSPOSE_CONV valid larger": transposed(1, (3, 2), (13, 11)),
    "TRANSPOSE_CONV same, small kernel": transposed(0, (3, 3), (12, 15), (1, 2)),
    "TRANSPOSE_CONV bias": transposed(0, (2, 2), (8, 10), bias=True),
    "LSTM": lstm(),
    "LSTM time major": lstm(time_major=True),
    "LSTM coupled": lstm(coupled=True),
    "LSTM peepholes": lstm(peepholes=True),
    "LSTM coupled, peepholes": lstm(coupled=True, peepholes=True),
    "LSTM clipped": lstm(clip=0.3),
    "LSTM hybrid": lstm(make=Hybrid, tolerance=0.05),
    "LSTM step": lstm_step(),
    **{f"LSTM both {m} {t}": lstm_both(m, t) for m in (False, True) for t in (False, True)},
    **{f"RNN {t} {a}": rnn(t, a) for t in (False, True) for a in (0, 1, 4)},
    **{f"RNN both {m}": rnn_both(m) for m in (False, True)},
    **{f"SVDF {r} {a} {m.__name__}": Case("SVDF", [numbers(2, 5), m(8, 5), m(8, 4) if m is Hybrid else weights(8, 4), weights(8 // r) if a else None, State(2, 32)],
                                          options=options("SVDF", rank=r, fusedActivationFunction=a), tolerance=0.02 if m is Hybrid else TOLERANCE)
       for r in (1, 2) for a in (0, 1) for m in (weights, Hybrid)},
    "NON_MAX_SUPPRESSION_V4": suppression(None),
    "NON_MAX_SUPPRESSION_V4 few": suppression(None, most=3),
    "NON_MAX_SUPPRESSION_V5": suppression(0.0),
    "NON_MAX_SUPPRESSION_V5 soft": suppression(0.5, threshold=1.0),
    "NON_MAX_SUPPRESSION_V5 soft and hard": suppression(0.3, threshold=0.5),
    "detections": detections(False),
    "detections of several classes": detections(False, each=2),
    "detections without background": detections(False, background=False),
    "detections by class": detections(True),
    "detections by class, few": detections(True, score=0.9),
    **{f"RFFT2D {c} {l}": Spectrum(c, s, l) for c in ("REAL", "IMAG", "COMPLEX_ABS") for s, l in
       (((2, 3, 4, 8), [4, 8]), ((3, 1, 32), [1, 32]), ((5, 9), [4, 4]))},
    **{f"FULLY_CONNECTED int4 {o} {d}": Case("FULLY_CONNECTED", [numbers(3, d, low=-2, high=2), Int4(o, d), weights(o)],
                                             options=options("FullyConnected"), tolerance=0.02)
       for o, d in ((4, 6), (5, 7), (8, 32), (1, 3), (16, 64))},
    **{f"Convolution2DTransposeBias {same} {s} {k} {n}": transposed_with_bias(same, s, k, n) for same in (False, True)
       for s, k, n in (((2, 2), (2, 2), (4, 5)), ((2, 1), (3, 4), (5, 4)), ((1, 3), (2, 5), (3, 4)), ((3, 2), (1, 2), (4, 3)),
                       ((1, 1), (3, 3), (6, 5)), ((2, 2), (4, 4), (7, 3)), ((3, 3), (5, 2), (3, 6)), ((4, 2), (4, 3), (1, 2)),
                       ((2, 3), (5, 5), (4, 4)), ((1, 1), (1, 1), (2, 3)))},
    **{f"MaxPoolingWithArgmax2D {same} {s} {k} {n}": maximums_with_places(same, s, k, n) for same in (False, True)
       for s, k, n in (((2, 2), (2, 2), (6, 8)), ((2, 1), (3, 4), (5, 9)), ((1, 3), (2, 5), (3, 11)), ((3, 2), (1, 2), (4, 7)),
                       ((1, 1), (3, 3), (6, 5)), ((2, 2), (4, 4), (7, 9)), ((3, 3), (5, 2), (8, 6)), ((4, 2), (4, 3), (9, 4)),
                       ((2, 3), (5, 5), (5, 5)), ((1, 1), (1, 1), (2, 3)))},
    **{f"MaxUnpooling2D {k} {n}": unpooled(k, n) for k in ((2, 2), (3, 1), (1, 4), (2, 3), (5, 2))
       for n in ((4, 5), (1, 3), (7, 2), (6, 6))},
    **{f"TransformLandmarks {d} {s} {n}": moved_landmarks(d, s, n) for d in (2, 3) for s in (None, 1, 192)
       for n in (1, 5, 71, 468)},
    "WHILE": While(3),
    "WHILE computed": While(4, known=False),
    "WHILE never": While(0),
    "IF": If(True),
    "IF not": If(False),
}


# Cases for which the engine gives another result in one of two to six runs, as if it read memory that it has not written:
# one of so many runs must agree. Ours are the same in every run.
UNSTABLE = {"LSTM both True False": 30}


def by_quern(quern, model, path, feeds, folder):
    graph, arguments = model.table.subgraphs[0], []
    for tensor, x in zip(graph.inputs, feeds):
        np.save(folder / f"in{tensor}.npy", x)
        arguments += ["--input", f"t{tensor}={folder / f'in{tensor}.npy'}"]
    run = subprocess.run([quern, "run", path, *arguments, "--output", folder / "out"], capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip() or run.stdout.strip())
    return [np.load(folder / "out" / f"t{tensor}.npy") for tensor in graph.outputs]


def compare(quern, name, case, folder):
    path = folder / "model.tflite"
    model = case.model()
    path.write_bytes(model.bytes())
    try:
        want = case.right(path)
    except Exception as error:
        return f"the engine refuses it: {error}"
    try:
        got = by_quern(quern, model, path, case.feeds(), folder)
    except RuntimeError as error:
        return f"refused: {error}"
    if len(got) != len(want):
        return f"{len(got)} outputs, not {len(want)}"
    for a, b in zip(got, want):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {a.shape}, not {b.dtype} {b.shape}"
        if a.size == 0:
            continue
        a, b = a.astype("float64"), b.astype("float64")
        same = (a == b) | (np.isnan(a) & np.isnan(b))  # infinities and NaN are equal or wrong
        difference = np.abs(np.where(same, 0, a) - np.where(same, 0, b)).max()
        if not difference <= case.tolerance * max(1, np.abs(np.where(np.isfinite(b), b, 0)).max()):
            return f"differs by {difference}"
    return None


def main():
    quern, words = sys.argv[1], sys.argv[2:]
    failed = 0
    names = [n for n in CASES if not words or any(w in n for w in words)]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for _ in range(UNSTABLE.get(name, 1)):
                problem = compare(quern, name, CASES[name], pathlib.Path(folder))
                if problem is None:
                    break
            if problem is not None:
                failed += 1
                print(f"{name}: {problem}", flush=True)
    print(f"TensorFlow Lite, ai-edge-litert {version('ai-edge-litert')}: {len(names) - failed} agree, {failed} differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

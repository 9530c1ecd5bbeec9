"""Rows of tensorflow_graphs.py: random graphs of one operator each, or a few.

A row is a function of `r`, which draws sizes and elements. It returns the arrays that the graph is given and a function
of the placeholders, whose result is a tensor or a list of tensors. To add an operator: a line in one of the lists, or a
function with @row. Where an operator jumps, as rounding and comparisons do, the arrays have few different numbers.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

v1, raw = tf.compat.v1, tf.raw_ops
ROWS = {}
FLOAT, NUMBERS = (np.float32,), (np.float32, np.int32, np.int64)
ANY = NUMBERS + (np.bool_, np.uint8, np.int8)


def row(function):
    ROWS[function.__name__] = function
    return function


class Draw:
    """Draws sizes, choices and elements."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def integer(self, low, high):
        return int(self.generator.integers(low, high + 1))

    def chance(self, part=0.5):
        return bool(self.generator.random() < part)

    def choose(self, options):
        return options[self.integer(0, len(options) - 1)]

    def shape(self, least=1, most=4):
        return tuple(self.integer(1, 5) for _ in range(self.integer(least, most)))

    def axis(self, rank):
        return self.integer(-rank, rank - 1)

    def axes(self, rank):
        chosen = [d - rank * self.chance(0.3) for d in range(rank) if self.chance()]
        return chosen or [self.axis(rank)]

    def floats(self, shape, low=-2.0, high=2.0):
        return self.generator.uniform(low, high, shape).astype(np.float32)

    def steps(self, shape, type=np.float32, low=-6, high=6):
        """Few different numbers: quarters of floats, small integers."""
        type = np.dtype(type)
        if type == np.bool_:
            return self.generator.integers(0, 2, shape).astype(type)
        numbers = self.generator.integers(0 if type.kind == "u" else low, high + 1, shape)
        return (numbers / 4 if type.kind == "f" else numbers).astype(type)

    def other(self, shape):
        """A shape that can be broadcast with another."""
        cut = tuple(n if self.chance(0.7) else 1 for n in shape)
        return cut[self.integer(0, len(cut)):] if self.chance(0.3) else cut


def pair(r, a, b, function):
    """Two operands: both given in a run, or one of them a constant."""
    which = r.integer(0, 2)
    if which == 0:
        return [a], lambda x: function(x, tf.constant(b))
    return ([b], lambda x: function(tf.constant(a), x)) if which == 1 else ([a, b], function)


# ---- elements ----------------------------------------------------------------------------------------

SMOOTH = ["Abs", "Neg", "Sigmoid", "Tanh", "Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "Erf", "Sin", "Cos",
          "Atan", "Sinh", "Cosh", "Asinh", "Exp", "Square", "LeakyRelu", "Expm1", "Erfc"]
POSITIVE = ["Log", "Sqrt", "Rsqrt", "Reciprocal", "Inv"]
INSIDE = ["Acos", "Asin", "Atanh", "Tan"]
JUMPS = ["Floor", "Ceil", "Round", "Rint", "Sign", "IsNan", "IsFinite", "IsInf"]
FIRST = {"Softplus": "features", "Softsign": "features", "Relu": "features", "Relu6": "features", "Elu": "features",
         "Selu": "features", "LeakyRelu": "features"}


def unary(name, draw):
    def add(r):
        return [draw(r)], lambda x: getattr(raw, name)(**{FIRST.get(name, "x"): x})
    ROWS[name] = add


for name in SMOOTH:
    unary(name, lambda r: r.floats(r.shape(0, 5)) * r.choose([1, 1, 1e-6]))
for name in POSITIVE:
    unary(name, lambda r: r.floats(r.shape(0, 5), 0.2, 3))
unary("Log1p", lambda r: r.floats(r.shape(0, 5), -0.5, 3) * r.choose([1, 1, 1e-6, 1e30]))
for name in INSIDE:
    unary(name, lambda r: r.floats(r.shape(0, 5), -0.9, 0.9))
unary("Acosh", lambda r: r.floats(r.shape(0, 5), 1.1, 3))
for name in JUMPS:
    unary(name, lambda r: r.steps(r.shape(0, 5)))
for name in ["Abs", "Neg", "Square", "Sign"]:
    def of_integers(r, name=name):
        return [r.steps(r.shape(0, 5), r.choose(NUMBERS[1:]))], lambda x: getattr(raw, name)(x=x)
    ROWS[name + " of integers"] = of_integers

ARITHMETIC = ["Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"]
DIVISIONS = ["RealDiv", "Div", "FloorDiv", "FloorMod", "TruncateDiv", "Pow", "DivNoNan", "Mod", "TruncateMod", "Xdivy"]
COMPARISONS = ["Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"]


def binary(name, draw_a, draw_b, types, label=""):
    def add(r):
        type, shape = r.choose(types), r.shape(0, 5)
        shapes = [shape, r.other(shape)]
        if r.chance():
            shapes.reverse()
        a, b = draw_a(r, shapes[0], type), draw_b(r, shapes[1], type)
        return pair(r, a, b, lambda x, y: getattr(raw, name)(x=x, y=y))
    ROWS[name + label] = add


def whole(r, shape, type):
    return r.steps(shape, type)


def divisor(r, shape, type):
    b = r.steps(shape, type)
    return np.where(b == 0, np.array(3, type), b).astype(type)


def above_zero(r, shape, type):
    return np.abs(divisor(r, shape, type))


for name in ARITHMETIC:
    binary(name, whole, whole, NUMBERS)
for name in COMPARISONS:
    binary(name, whole, whole, NUMBERS)
binary("Atan2", whole, whole, FLOAT)
for name in ["FloorDiv", "FloorMod"]:
    binary(name, whole, divisor, NUMBERS)
for name in ["TruncateDiv", "Mod", "TruncateMod", "Div"]:
    binary(name, whole, divisor, NUMBERS[1:] if name != "Div" else NUMBERS)
for name in ["RealDiv", "Xdivy"]:
    binary(name, whole, divisor, FLOAT)
binary("DivNoNan", whole, whole, FLOAT)
binary("Pow", above_zero, whole, FLOAT)
for name in ["LogicalAnd", "LogicalOr"]:
    binary(name, whole, whole, (np.bool_,))
for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
    binary(name, whole, whole, (np.int32, np.int64, np.uint8))


# Spectra, whose complex numbers only a few operators read.
def rfft(dimensions):
    def add(r):
        x = r.floats(r.shape(dimensions, dimensions + 1))
        lengths = [r.integer(1, n) for n in x.shape[-dimensions:]]

        def function(x):
            y = getattr(raw, "RFFT" if dimensions == 1 else f"RFFT{dimensions}D")(input=x, fft_length=lengths)
            flat = tf.identity(tf.reshape(y, [-1, lengths[-1] // 2 + 1]))
            apart = tf.squeeze(tf.expand_dims(tf.expand_dims(y, 0), -1), [0, -1])
            return [raw.ComplexAbs(x=y), raw.Real(input=flat), raw.Imag(input=apart)]
        return [x], function
    return add


for dimensions in (1, 2, 3):
    ROWS[f"RFFT {dimensions}"] = rfft(dimensions)


@row
def logical_not(r):
    return [r.steps(r.shape(0, 4), np.bool_)], lambda x: raw.LogicalNot(x=x)


@row
def invert(r):
    return [r.steps(r.shape(0, 4), r.choose([np.int32, np.int64, np.uint8]))], lambda x: raw.Invert(x=x)


@row
def add_n(r):
    shape, type = r.shape(), r.choose(NUMBERS)
    return [r.steps(shape, type) for _ in range(r.integer(1, 4))], lambda *x: raw.AddN(inputs=list(x))


@row
def clip_by_value(r):
    type = r.choose(NUMBERS)
    low, high = np.array(-1, type), np.array(1, type)
    return [r.steps(r.shape(), type)], lambda x: raw.ClipByValue(t=x, clip_value_min=low, clip_value_max=high)


@row
def softmax(r):
    op = r.choose([raw.Softmax, raw.LogSoftmax])
    return [r.floats(r.shape(1, 4))], lambda x: op(logits=x)


@row
def cast(r):
    to = r.choose(ANY)
    return [np.abs(r.steps(r.shape(0, 4), r.choose(ANY)))], lambda x: tf.cast(x, to)


@row
def dequantize(r):
    integers, quantized, lowest, highest = r.choose([
        (np.uint8, tf.quint8, 0, 255), (np.int8, tf.qint8, -128, 127), (np.int32, tf.qint32, -2**31, 2**31 - 1)])
    constant = integers == np.int32 or r.chance()
    shape = r.shape(1, 4)
    x = r.generator.integers(lowest, highest + 1, shape).astype(integers)
    per_channel = r.chance(0.3)
    count = shape[-1] if per_channel else ()
    low, high = r.floats(count, -3, -0.5), r.floats(count, 0.5, 3)
    mode = "SCALED" if per_channel else r.choose(["MIN_COMBINED", "MIN_FIRST", "SCALED"])
    options = {"mode": mode, "narrow_range": mode == "SCALED" and r.chance(0.3)}
    if per_channel:
        options["axis"] = len(shape) - 1

    def real(bits):
        return raw.Dequantize(input=bits, min_range=low, max_range=high, **options)
    if constant:
        return [r.floats(shape)], lambda more: real(tf.constant(x.astype(quantized.as_numpy_dtype), quantized)) + more
    return [x], lambda computed: real(tf.bitcast(computed, quantized))


@row
def bitcast(r):
    return [r.floats(r.shape(0, 4))], lambda x: [tf.bitcast(x, tf.int32) >= 0, tf.bitcast(tf.bitcast(x, tf.int32), tf.float32)]


@row
def likes(r):
    op = r.choose([raw.ZerosLike, raw.OnesLike])
    return [r.steps(r.shape(0, 4), r.choose(NUMBERS))], lambda x: op(x=x)


@row
def selections(r):
    shape, type = r.shape(), r.choose(NUMBERS)
    condition, a, b = r.steps(shape, np.bool_), r.steps(shape, type), r.steps(shape, type)
    if r.chance(0.3):
        return [condition[(slice(None),) + (0,) * (len(shape) - 1)], a, b], lambda c, x, y: raw.Select(
            condition=c, x=x, y=y)
    if r.chance():
        return [condition, a, b[0]], lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y)
    return [condition, a, b], lambda c, x, y: raw.Select(condition=c, x=x, y=y)


@row
def passed_on(r):
    def function(x):
        x = raw.PreventGradient(input=raw.StopGradient(input=raw.Snapshot(input=x)))
        return raw.IdentityN(input=[tf.ensure_shape(x, x.shape) + 1.0, x])
    return [r.floats(r.shape())], function


# ---- along axes --------------------------------------------------------------------------------------

REDUCTIONS = {"Sum": NUMBERS, "Mean": FLOAT, "Max": NUMBERS, "Min": NUMBERS, "Prod": NUMBERS, "All": (np.bool_,),
              "Any": (np.bool_,), "EuclideanNorm": FLOAT}
for name, types in REDUCTIONS.items():
    def reduction(r, name=name, types=types):
        shape = r.shape(1, 5)
        axes, keep = r.axes(len(shape)) if r.chance(0.9) else [], r.chance()
        x = r.steps(shape, r.choose(types), -2, 3)
        return [x], lambda x: getattr(raw, name)(input=x, axis=axes, keep_dims=keep)
    ROWS[name] = reduction


@row
def places(r):
    shape = r.shape()
    op, axis, type = r.choose([raw.ArgMax, raw.ArgMin]), r.axis(len(shape)), r.choose([tf.int32, tf.int64])
    return [r.steps(shape, r.choose(NUMBERS))], lambda x: op(input=x, dimension=axis, output_type=type)


@row
def cumulative(r):
    shape = r.shape()
    op, axis, exclusive, reverse = r.choose([raw.Cumsum, raw.Cumprod]), r.axis(len(shape)), r.chance(), r.chance()
    return [r.steps(shape, r.choose(NUMBERS), -2, 3)], lambda x: op(x=x, axis=axis, exclusive=exclusive, reverse=reverse)


@row
def top_k(r):
    shape = r.shape()
    k = r.integer(1, shape[-1])
    return [r.floats(shape)], lambda x: list(raw.TopKV2(input=x, k=k, sorted=True))


@row
def l2_normalize(r):
    shape = r.shape()
    axis = r.axis(len(shape))
    return [r.floats(shape)], lambda x: tf.nn.l2_normalize(x, axis)


# ---- places ------------------------------------------------------------------------------------------

@row
def gather(r):
    shape = r.shape(1, 4)
    axis = r.axis(len(shape))
    indices = r.generator.integers(0, shape[axis], r.shape(0, 2)).astype(r.choose([np.int32, np.int64]))
    return pair(r, r.steps(shape, r.choose(ANY)), indices, lambda x, i: raw.GatherV2(params=x, indices=i, axis=axis))


@row
def gather_of_batches(r):
    shape = r.shape(2, 4)
    indices = r.generator.integers(0, shape[1], (shape[0], 3)).astype(np.int32)
    return pair(r, r.steps(shape), indices, lambda x, i: raw.GatherV2(params=x, indices=i, axis=1, batch_dims=1))


@row
def old_gather(r):
    shape = r.shape(1, 4)
    indices = r.generator.integers(0, shape[0], r.shape(0, 2)).astype(np.int32)
    return pair(r, r.steps(shape, r.choose(NUMBERS)), indices, lambda x, i: raw.Gather(params=x, indices=i))


@row
def gather_nd(r):
    shape = r.shape(2, 4)
    depth = r.integer(1, len(shape))
    indices = np.stack([r.generator.integers(0, n, (2, 3)) for n in shape[:depth]], -1).astype(np.int32)
    return pair(r, r.steps(shape, r.choose(NUMBERS)), indices, lambda x, i: raw.GatherNd(params=x, indices=i))


@row
def scatter(r):
    n, width, type = r.integer(3, 6), r.integer(1, 4), r.choose(NUMBERS)
    indices = r.generator.permutation(n)[:3].astype(np.int32)[:, None]
    updates = r.steps((3, width), type)
    if r.chance(0.3):
        return [indices, updates], lambda i, u: raw.ScatterNd(indices=i, updates=u, shape=[n, width])
    ops = [raw.TensorScatterAdd, raw.TensorScatterUpdate, raw.TensorScatterSub, raw.TensorScatterMax,
           raw.TensorScatterMin]
    return [r.steps((n, width), type), indices, updates], lambda x, i, u: [op(tensor=x, indices=i, updates=u) for op in ops]


@row
def one_hot(r):
    shape, depth = r.shape(1, 3), r.integer(2, 5)
    axis = r.integer(-1, len(shape))
    on, off = (np.float32(2), np.float32(-1)) if r.chance() else (np.int32(1), np.int32(0))
    return [r.steps(shape, np.int32, -1, 5)], lambda x: raw.OneHot(indices=x, depth=depth, on_value=on, off_value=off,
                                                                  axis=axis)


@row
def where(r):
    return [r.steps(r.shape(1, 3), r.choose([np.bool_, np.float32, np.int32]))], lambda x: raw.Where(condition=x)


@row
def unique(r):
    type = r.choose([tf.int32, tf.int64])
    return [r.steps((r.integer(1, 9),), r.choose(NUMBERS))], lambda x: list(raw.Unique(x=x, out_idx=type))


@row
def segment_sum(r):
    n, parts = r.integer(2, 6), r.integer(1, 4)
    ids = r.generator.integers(0, parts, n).astype(np.int32)
    return [r.steps((n, 3), r.choose(NUMBERS))], lambda x: raw.UnsortedSegmentSum(data=x, segment_ids=ids,
                                                                                num_segments=parts)


# ---- shapes and parts --------------------------------------------------------------------------------

@row
def shape_of(r):
    type, op = r.choose([tf.int32, tf.int64]), r.choose([raw.Shape, raw.Size])
    return [r.steps(r.shape(0, 4), r.choose(NUMBERS))], lambda x: op(input=x, out_type=type)


@row
def shapes_of(r):
    shapes = [r.shape(1, 3) for _ in range(2)]
    return [r.steps(s) for s in shapes], lambda *x: list(raw.ShapeN(input=list(x)))


@row
def rank(r):
    return [r.steps(r.shape(0, 4), r.choose(NUMBERS))], lambda x: raw.Rank(input=x)


@row
def reshape(r):
    shape = r.shape(1, 4)
    to = list(shape[::-1])
    to[r.integer(0, len(to) - 1)] = -1
    return [r.steps(shape, r.choose(ANY))], lambda x: tf.reshape(x, to)


@row
def transpose(r):
    shape = r.shape(1, 5)
    order = [int(i) for i in r.generator.permutation(len(shape))]
    return [r.steps(shape, r.choose(ANY))], lambda x: raw.Transpose(x=x, perm=order)


@row
def squeeze_and_expand(r):
    shape = r.shape(1, 3)
    axis = r.integer(-len(shape) - 1, len(shape))
    if r.chance():
        return [r.steps(shape, r.choose(NUMBERS))], lambda x: raw.ExpandDims(input=x, axis=axis)
    return [r.steps(shape + (1,), r.choose(NUMBERS))], lambda x: raw.Squeeze(input=x, axis=[-1])


@row
def strided_slice(r):
    """Every mask."""
    type, items, steps = r.choose(ANY), [], r.choose([1, 1, 2, -1, -2])
    shape = r.shape(2, 5)
    used, ellipsis = 0, False
    for d in range(len(shape)):
        kind = r.integer(0, 5)
        if kind == 0:
            items.append(r.integer(-shape[d], shape[d] - 1))
        elif kind == 1 and not ellipsis:
            items.append(Ellipsis)
            ellipsis = True
            break
        elif kind == 2:
            items += [None, slice(None)]
        else:
            ends = sorted([r.integer(0, shape[d]), r.integer(0, shape[d])])
            begin, end = (ends if steps > 0 else ends[::-1])
            items.append(slice(None if r.chance(0.4) else begin, None if r.chance(0.4) else end, steps))
    x = r.steps(shape, type)
    if 0 in x[tuple(np.newaxis if i is None else i for i in items)].shape:
        items = [slice(None)]
    return [x], lambda x: x[tuple(tf.newaxis if i is None else i for i in items)]


@row
def computed_slice(r):
    """Begins that a run gives, as loops have them."""
    shape = r.shape(2, 3)
    i = np.array(r.integer(0, shape[0] - 1), np.int32)
    if r.chance():
        return [r.steps(shape, r.choose(NUMBERS)), i], lambda x, i: x[i]
    return [r.steps(shape, r.choose(NUMBERS)), i], lambda x, i: x[i:, None, ..., :1]


@row
def slice_of(r):
    shape = r.shape(1, 4)
    begin = [r.integer(0, n - 1) for n in shape]
    size = [r.choose([-1, r.integer(1, n - b)]) for n, b in zip(shape, begin)]
    return [r.steps(shape, r.choose(ANY))], lambda x: raw.Slice(input=x, begin=begin, size=size)


@row
def split(r):
    parts, axis, type = r.integer(1, 4), r.integer(0, 2), r.choose(NUMBERS)
    shape = list(r.shape(3, 3))
    shape[axis] = parts * r.integer(1, 3)
    return [r.steps(shape, type)], lambda x: list(raw.Split(axis=axis, value=x, num_split=parts))


@row
def split_v(r):
    axis, sizes = r.axis(3), [r.integer(1, 3) for _ in range(r.integer(1, 4))]
    shape = list(r.shape(3, 3))
    shape[axis] = sum(sizes)
    if r.chance():
        sizes[r.integer(0, len(sizes) - 1)] = -1
    return [r.steps(shape, r.choose(NUMBERS))], lambda x: list(raw.SplitV(value=x, size_splits=sizes, axis=axis,
                                                                        num_split=len(sizes)))


@row
def pack_and_unpack(r):
    shape, type = r.shape(1, 3), r.choose(ANY)
    axis = r.axis(len(shape))
    if r.chance():
        return [r.steps(shape, type)], lambda x: tf.unstack(x, axis=axis)
    return [r.steps(shape, type) for _ in range(r.integer(1, 4))], lambda *x: raw.Pack(values=list(x), axis=axis)


@row
def concat(r):
    shape, type = r.shape(1, 4), r.choose(ANY)
    axis = r.axis(len(shape))
    parts = [r.steps(shape, type) for _ in range(r.integer(2, 4))]
    if r.chance(0.3):
        return parts, lambda *x: raw.Concat(concat_dim=axis % len(shape), values=list(x))
    return parts, lambda *x: raw.ConcatV2(values=list(x), axis=axis)


@row
def fill_and_range(r):
    type = r.choose([np.int32, np.int64, np.float32])
    if r.chance():
        shape = list(r.shape(0, 3))
        return [r.steps((), type)], lambda x: raw.Fill(dims=shape, value=x)
    return [r.steps((4,), type)], lambda x: x + raw.Range(start=np.array(1, type), limit=np.array(9, type),
                                                         delta=np.array(2, type))


@row
def broadcast_to(r):
    shape = r.shape(1, 4)
    cut = r.other(shape)
    return [r.steps(cut, r.choose(NUMBERS))], lambda x: raw.BroadcastTo(input=x, shape=list(shape))


@row
def tile(r):
    shape = r.shape(1, 4)
    times = [r.integer(1, 3) for _ in shape]
    return [r.steps(shape, r.choose(ANY))], lambda x: raw.Tile(input=x, multiples=times)


@row
def reverse(r):
    shape = r.shape(1, 4)
    axes = sorted({a % len(shape) for a in r.axes(len(shape))})
    return [r.steps(shape, r.choose(ANY))], lambda x: raw.ReverseV2(tensor=x, axis=axes)


@row
def reverse_sequence(r):
    n, t = r.integer(1, 3), r.integer(2, 5)
    lengths = r.generator.integers(1, t + 1, n).astype(np.int32)
    if r.chance():
        return [r.floats((t, n, 2)), lengths], lambda x, l: raw.ReverseSequence(input=x, seq_lengths=l, seq_dim=0,
                                                                              batch_dim=1)
    return [r.floats((n, t, 2)), lengths], lambda x, l: raw.ReverseSequence(input=x, seq_lengths=l, seq_dim=1, batch_dim=0)


@row
def pads(r):
    shape, type = r.shape(1, 4), r.choose(NUMBERS)
    mode = r.choose(["", "V2", "REFLECT", "SYMMETRIC"])
    most = [n - (mode == "REFLECT") if mode in ("REFLECT", "SYMMETRIC") else 3 for n in shape]
    list_of = [[r.integer(0, n), r.integer(0, n)] for n in most]
    x, value = r.steps(shape, type), np.array(2, type)
    if mode == "":
        return [x], lambda x: raw.Pad(input=x, paddings=list_of)
    if mode == "V2":
        return [x], lambda x: raw.PadV2(input=x, paddings=list_of, constant_values=value)
    return [x], lambda x: raw.MirrorPad(input=x, paddings=list_of, mode=mode)


@row
def depth_and_space(r):
    block, n = r.integer(2, 3), r.integer(1, 3)
    if r.chance():
        return [r.floats((1, n * block, 2 * block, 3))], lambda x: raw.SpaceToDepth(input=x, block_size=block)
    return [r.floats((2, n, 3, 2 * block * block))], lambda x: raw.DepthToSpace(input=x, block_size=block)


@row
def space_to_batch(r):
    blocks = [r.integer(1, 3) for _ in range(r.integer(1, 2))]
    pads = [[r.integer(0, 2), 0] for _ in blocks]
    shape = [2] + [b * r.integer(1, 3) + (-p[0]) % b for b, p in zip(blocks, pads)] + [3]
    return [r.steps(shape, r.choose(NUMBERS))], lambda x: raw.SpaceToBatchND(input=x, block_shape=blocks, paddings=pads)


@row
def batch_to_space(r):
    blocks = [r.integer(1, 3) for _ in range(r.integer(1, 2))]
    crops = [[r.integer(0, b - 1), 0] for b in blocks]
    shape = [2 * int(np.prod(blocks))] + [r.integer(1, 3) for _ in blocks] + [3]
    return [r.steps(shape, r.choose(NUMBERS))], lambda x: raw.BatchToSpaceND(input=x, block_shape=blocks, crops=crops)


@row
def band_part(r):
    shape = r.shape(2, 4)
    lower, upper = r.integer(-1, shape[-2]), r.integer(-1, shape[-1])
    return [r.steps(shape, r.choose(NUMBERS))], lambda x: raw.MatrixBandPart(input=x, num_lower=lower, num_upper=upper)


# ---- products ----------------------------------------------------------------------------------------

@row
def mat_mul(r):
    m, k, n, ta, tb = r.integer(1, 5), r.integer(1, 5), r.integer(1, 5), r.chance(), r.chance()
    a, b = r.floats((k, m) if ta else (m, k)), r.floats((n, k) if tb else (k, n))
    return pair(r, a, b, lambda x, y: raw.MatMul(a=x, b=y, transpose_a=ta, transpose_b=tb))


@row
def batch_mat_mul(r):
    m, k, n, ax, ay = r.integer(1, 5), r.integer(1, 5), r.integer(1, 5), r.chance(), r.chance()
    batch, op = r.shape(1, 2), r.choose([raw.BatchMatMul, raw.BatchMatMulV2, raw.BatchMatMulV3])
    other = batch if op is raw.BatchMatMul else r.other(batch)
    a, b = r.floats(batch + ((k, m) if ax else (m, k))), r.floats(other + ((n, k) if ay else (k, n)))
    more = {"Tout": tf.float32} if op is raw.BatchMatMulV3 else {}
    return pair(r, a, b, lambda x, y: op(x=x, y=y, adj_x=ax, adj_y=ay, **more))


@row
def einsum(r):
    text, first, second = r.choose([("ab,bc->ac", (2, 3), (3, 4)), ("abc,abd->acd", (2, 3, 4), (2, 3, 5)),
                                    ("aecd,abcd->acbe", (1, 2, 3, 4), (1, 5, 3, 4)), ("abc,cde->abde", (2, 3, 4), (4, 2, 2)),
                                    ("...ij,jk->...ik", (2, 2, 3), (3, 4))])
    return pair(r, r.floats(first), r.floats(second), lambda x, y: raw.Einsum(inputs=[x, y], equation=text))


# ---- images ------------------------------------------------------------------------------------------

@row
def computed_convolution(r):
    """Weights that a run gives."""
    x, w = r.floats((2, 6, 7, 2)), r.floats((3, 2, 2, 3))
    padding, stride = r.choose(["SAME", "VALID"]), r.integer(1, 2)
    return [x, w], lambda x, w: tf.nn.conv2d(x, w, stride, padding)


@row
def conv_1d(r):
    dilation = r.integer(1, 2)
    w = r.floats((3, 4, 5))
    return [r.floats((2, 9, 4))], lambda x: tf.nn.conv1d(x, w, 1, r.choose(["SAME"]), dilations=dilation)


@row
def conv_transposed(r):
    padding, sh, sw = r.choose(["SAME", "VALID"]), r.integer(1, 3), r.integer(1, 3)
    kh, kw, c, o = r.integer(1, 4), r.integer(1, 4), r.integer(1, 4), r.integer(1, 4)
    h, w, n = r.integer(1, 6), r.integer(1, 6), r.integer(1, 2)
    weights = r.floats((kh, kw, o, c))
    def size(pixels, taps, stride):  # any whose convolution has so many pixels
        if padding == "SAME":
            return pixels * stride - r.integer(0, stride - 1)
        return (pixels - 1) * stride + taps + r.integer(0, stride - 1)
    shape = [n, size(h, kh, sh), size(w, kw, sw), o]
    return [r.floats((n, h, w, c))], lambda x: raw.Conv2DBackpropInput(
        input_sizes=shape, filter=weights, out_backprop=x, strides=[1, sh, sw, 1], padding=padding)


@row
def conv_transposed_of_open_batch(r):
    """As Keras writes it: the shape of the output comes from that of the input."""
    weights = r.floats((3, 3, 2, 4))
    def function(x):
        s = tf.shape(x)
        sizes = tf.stack([s[0], s[1] * 2, s[2] * 2, 2])
        return tf.nn.conv2d_transpose(x, weights, sizes, 2, "SAME") + 1.0
    return [r.floats((2, 4, 5, 4))], function


@row
def conv_3d(r):
    padding, stride = r.choose(["SAME", "VALID"]), r.integer(1, 2)
    w = r.floats((2, 3, 2, 2, 3))
    return [r.floats((1, 5, 6, 5, 2))], lambda x: raw.Conv3D(input=x, filter=w, strides=[1, stride, stride, stride, 1],
                                                          padding=padding)


@row
def pool_3d(r):
    op, padding, k, s = r.choose([raw.MaxPool3D, raw.AvgPool3D]), r.choose(["SAME", "VALID"]), r.integer(1, 3), r.integer(1, 2)
    return [r.floats((1, 5, 6, 5, 2))], lambda x: op(input=x, ksize=[1, k, k, k, 1], strides=[1, s, s, s, 1],
                                                    padding=padding)


@row
def resize(r):
    op = r.choose([raw.ResizeBilinear, raw.ResizeNearestNeighbor])
    options = r.choose([{}, {"align_corners": True}, {"half_pixel_centers": True}])
    h, w = r.integer(1, 9), r.integer(1, 9)
    return [r.floats((2, r.integer(1, 7), r.integer(1, 7), 3))], lambda x: op(images=x, size=[h, w], **options)


@row
def resize_of_open_size(r):
    op = r.choose([raw.ResizeBilinear, raw.ResizeNearestNeighbor])
    def function(x):
        return op(images=x, size=tf.shape(x)[1:3] * 2, half_pixel_centers=True)
    return [r.floats((2, 4, 5, 3))], function


# TensorFlow rounds places to 1/1024 of a pixel, so these are multiples.
@row
def resize_bicubic(r):
    options = r.choose([{}, {"align_corners": True}, {"half_pixel_centers": True}])
    more = 1 if "align_corners" in options else 0
    ih, iw, h, w = (2 ** r.integer(0, 3) + more for _ in range(4))
    x = r.floats((2, ih, iw, 3))
    return [x], lambda x: raw.ResizeBicubic(images=x, size=[h, w], **options)


@row
def resize_bicubic_of_open_size(r):
    return [r.floats((2, 4, 5, 3))], lambda x: raw.ResizeBicubic(images=x, size=tf.shape(x)[1:3] * 2)


@row
def crop_and_resize(r):
    n, method = r.integer(1, 5), r.choose(["bilinear", "nearest"])
    boxes = r.floats((n, 4), -0.3, 1.3)
    ind = r.generator.integers(0, 2, n).astype(np.int32)
    size = [r.integer(1, 5), r.integer(1, 5)]
    value = r.choose([0.0, -1.5])
    x = r.floats((2, r.integer(1, 8), r.integer(1, 8), 3))
    return [x, boxes, ind], lambda x, b, i: raw.CropAndResize(image=x, boxes=b, box_ind=i, crop_size=size, method=method,
                                                             extrapolation_value=value)


@row
def lrn(r):
    radius, bias, alpha, beta = r.integer(1, 3), r.integer(1, 2), 0.3, 0.6
    return [r.floats((1, 3, 4, 7))], lambda x: raw.LRN(input=x, depth_radius=radius, bias=bias, alpha=alpha, beta=beta)


@row
def fake_quant_per_channel(r):
    low, high = -r.floats((3,), 0.3, 1), r.floats((3,), 0.3, 1)
    w = r.floats((2, 2, 4, 3), -0.9, 0.9)
    return [r.floats((1, 5, 5, 4))], lambda x: tf.nn.conv2d(
        x, raw.FakeQuantWithMinMaxVarsPerChannel(inputs=w, min=low, max=high), 1, "VALID")


# ---- boxes -------------------------------------------------------------------------------------------

def boxes(r, n):
    corner, size = r.floats((n, 2), 0, 1), r.floats((n, 2), 0.2, 0.8)
    return np.concatenate([corner, corner + size], 1), r.generator.permutation(n).astype(np.float32) / n


@row
def non_max_suppression(r):
    b, s = boxes(r, r.integer(2, 9))
    most, overlap = r.integer(1, 9), r.choose([0.3, 0.5])
    common = {"max_output_size": most, "iou_threshold": overlap}
    return [b, s], lambda b, s: [raw.NonMaxSuppression(boxes=b, scores=s, **common),
                                 raw.NonMaxSuppressionV2(boxes=b, scores=s, **common),
                                 raw.NonMaxSuppressionV3(boxes=b, scores=s, score_threshold=0.2, **common)]


@row
def padded_suppression(r):
    b, s = boxes(r, r.integer(3, 9))
    most, pad = r.integer(1, 9), r.chance()
    common = {"max_output_size": most, "pad_to_max_output_size": pad}
    return [b, s], lambda b, s: [
        *raw.NonMaxSuppressionV4(boxes=b, scores=s, iou_threshold=0.4, score_threshold=0.2, **common),
        *raw.NonMaxSuppressionV5(boxes=b, scores=s, iou_threshold=0.3, score_threshold=0.1, soft_nms_sigma=0.5, **common)]


@row
def combined_suppression(r):
    images, n, classes = r.integer(1, 3), r.integer(1, 9), r.integer(1, 4)
    sets = r.choose([1, classes])
    b = np.stack([boxes(r, n)[0] for _ in range(images * sets)]).reshape(images, sets, n, 4).transpose(0, 2, 1, 3)
    s = r.floats((images, n, classes), 0, 1)
    most, kept, pad, clip = r.integer(1, 5), r.integer(1, 9), r.chance(), r.chance()
    return [np.ascontiguousarray(b), s], lambda b, s: list(raw.CombinedNonMaxSuppression(
        boxes=b, scores=s, max_output_size_per_class=most, max_total_size=kept, iou_threshold=0.4, score_threshold=0.3,
        pad_per_class=pad, clip_boxes=clip))

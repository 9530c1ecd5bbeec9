"""Rows of random_onnx.py: each function adds one node of a kind, or a few, to a random graph `g`.

A function takes operands by g.pick() and adds by g.add(), which leaves out what ONNX Runtime refuses. Where an operator jumps,
as rounding and comparisons do, operands have to be `exact`, or engines that round differently would differ. To add an
operator: a name in one of the lists, or a function with @row.
"""
import numpy as np

ROWS = []
FLOAT, HALF = ("float32",), ("float32", "float32", "float32", "float16")
INTEGERS = ("int64", "int32", "int8", "uint8")
NUMBERS = FLOAT * 4 + INTEGERS
ANY = NUMBERS + ("bool", "float16")


def row(function):
    ROWS.append(function)
    return function


def weighty(times):
    """A row for many operators is chosen as often as several."""
    def add(function):
        ROWS.extend([function] * times)
        return function
    return add


SMOOTH = {"Abs": {}, "Neg": {}, "Sigmoid": {}, "Tanh": {}, "Relu": {}, "Softplus": {}, "Softsign": {}, "Erf": {}, "Sin": {},
          "Cos": {}, "Atan": {}, "Sinh": {}, "Cosh": {}, "Asinh": {}, "HardSwish": {}, "Mish": {}, "Exp": {}, "Identity": {},
          "LeakyRelu": {"alpha": 0.3}, "Elu": {"alpha": 0.7}, "Selu": {}, "Celu": {"alpha": 1.5},
          "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Gelu": {"approximate": "tanh"}}
JUMPS = {"Floor": {}, "Ceil": {}, "Round": {}, "Sign": {}, "IsNaN": {}, "IsInf": {"detect_negative": 0}, "Not": {},
         "BitwiseNot": {}, "ThresholdedRelu": {"alpha": 0.5}, "Shrink": {"lambd": 0.4, "bias": 0.1}}
# What has to lie between 0 and 1 first, or above 1.
INSIDE = ["Log", "Sqrt", "Acos", "Asin", "Atanh", "Tan", "Reciprocal"]


@weighty(4)
def smooth(g):
    name = g.choose(list(SMOOTH))
    g.add(name, [g.pick(HALF)], **{k: v for k, v in SMOOTH[name].items() if g.chance(0.6)})


@weighty(2)
def jump(g):
    name = g.choose(list(JUMPS))
    g.add(name, [g.pick(FLOAT + INTEGERS + ("bool",), exact=True)], exact=True, **JUMPS[name])


@weighty(2)
def inside(g):
    bounded = g.add("Sigmoid", [g.pick(FLOAT)])
    if bounded and 0.01 < bounded.array.min() and bounded.array.max() < 0.99:  # where rounding errors do not grow
        g.add(g.choose(INSIDE), [bounded])


def other(g, operand):
    """A tensor that can be broadcast with another."""
    shape = [n if g.chance(0.6) else 1 for n in operand.array.shape]
    shape = shape[g.integer(0, len(shape)) if g.chance(0.4) else 0:]
    fit = [t for t in g.tensors[-6:] if t.array.dtype == operand.array.dtype and t.array.shape == operand.array.shape]
    if fit and g.chance(0.5):
        return g.choose(fit)
    return g.source(g.random(operand.array.dtype, shape), g.chance(0.5))


@weighty(6)
def arithmetic(g):
    a = g.pick(NUMBERS + ("float16",))
    pair = [a, other(g, a)]
    if g.chance(0.3):
        pair.reverse()
    name = g.choose(["Add", "Sub", "Mul", "Min", "Max", "Sum", "Mean", "Add", "Mul", "Sub"])
    g.add(name, pair + [other(g, a)] * (name in ("Min", "Max", "Sum", "Mean") and g.chance(0.3)),
          exact=a.array.dtype.kind != "f" or name in ("Min", "Max"))


@weighty(2)
def division(g):
    a = g.pick(FLOAT + ("int32", "int64"))
    b = other(g, a)
    safe = np.where(b.array == 0, 1, np.abs(b.array)) + (0.5 if b.array.dtype.kind == "f" else 0)
    divisor = g.source(safe.astype(b.array.dtype), g.chance(0.5))
    if a.array.dtype.kind == "f" and g.chance(0.3):
        g.add("Pow", [divisor, g.source(g.random(np.float32, a.array.shape))])
    else:
        g.add("Div", [a, divisor], exact=a.array.dtype.kind != "f")


@row
def modulo(g):
    a = g.pick(("int32", "int64", "float32"), exact=True)
    b = g.source(np.where(g.random(a.array.dtype, a.array.shape) > 0, 3, -4).astype(a.array.dtype))
    g.add("Mod", [a, b], exact=True, fmod=int(a.array.dtype.kind == "f" or g.chance(0.5)))


@weighty(2)
def logic(g):
    a = g.pick(("bool",), exact=True)
    g.add(g.choose(["And", "Or", "Xor", "Equal"]), [a, other(g, a)], exact=True)


@weighty(2)
def comparison(g):
    a = g.pick(FLOAT + INTEGERS, exact=True)
    g.add(g.choose(["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"]), [a, other(g, a)], exact=True)


@row
def bits(g):
    a = g.pick(INTEGERS, exact=True)
    if g.chance(0.3):
        a = g.source(g.random(np.uint8, g.shape(3)))
        g.add("BitShift", [a, g.source((g.random(np.uint8, a.array.shape) % 8).astype(np.uint8))], exact=True,
              direction=g.choose(["LEFT", "RIGHT"]))
    else:
        g.add(g.choose(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [a, other(g, a)], exact=True)


@weighty(2)
def where(g):
    a = g.pick(NUMBERS + ("bool",))
    condition = g.source(g.rng.random([n if g.chance(0.7) else 1 for n in a.array.shape]) < 0.5, g.chance(0.3))
    g.add("Where", [condition, a, other(g, a)], exact=True)


@row
def clip(g):
    a = g.pick(FLOAT + ("int8", "int32"))
    low, high = (g.parameter(np.array(v, a.array.dtype)) if g.chance(0.8) else None for v in (-1, 2))
    g.add("Clip", [a, low, high], exact=True)


@row
def prelu(g):
    a = g.pick(FLOAT, range(1, 5))
    shape = [n if g.chance(0.5) else 1 for n in a.array.shape]
    g.add("PRelu", [a, g.source(g.random(np.float32, shape), g.chance(0.7))])


@weighty(2)
def cast(g):
    a = g.pick(NUMBERS + ("bool",), exact=True)
    kinds = {"float32": 1, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
    g.add("Cast", [a], exact=True, to=kinds[g.choose(list(kinds))])


def axes_of(g, rank, most=None):
    count = g.integer(1, max(1, min(rank, most or rank)))
    chosen = sorted(g.rng.choice(rank, count, replace=False).tolist())
    return [axis - rank if g.chance(0.3) else axis for axis in chosen]


def with_axes(g, operator, since, a, axes, **attributes):
    """An operator whose axes are an attribute, and an input from opset `since` on."""
    if axes is None:
        return g.add(operator, [a], **attributes)
    if g.opset >= since:
        return g.add(operator, [a, g.parameter(np.array(axes, np.int64))], **attributes)
    return g.add(operator, [a], axes=axes, **attributes)


@weighty(4)
def reduction(g):
    name = g.choose(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1",
                     "ReduceL2", "ReduceLogSumExp", "ReduceLogSum"])
    # Logarithms and roots of integers, which are cut to integers, may be all but whole numbers.
    whole = name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1")
    a = g.pick(FLOAT * 3 + ("int32", "int64") * whole, range(1, 6))
    if name == "ReduceLogSum":
        a = g.add("Abs", [a])
        if a and (a.array < 1e-3).any():  # of next to nothing, a logarithm shows rounding errors alone
            return
    if a:
        with_axes(g, name, 13 if name == "ReduceSum" else 18, a, axes_of(g, a.array.ndim) if g.chance(0.85) else None,
                  keepdims=g.integer(0, 1), exact=name in ("ReduceMax", "ReduceMin"))


@row
def arg(g):
    a = g.pick(FLOAT + ("int32", "int8"), range(1, 5), exact=True)
    g.add(g.choose(["ArgMax", "ArgMin"]), [a], exact=True, axis=g.integer(-a.array.ndim, a.array.ndim - 1),
          keepdims=g.integer(0, 1), select_last_index=g.integer(0, 1))


@row
def cumulative(g):
    a = g.pick(FLOAT + ("int32", "int64"), range(1, 5))
    axis = g.parameter(np.array(g.integer(-a.array.ndim, a.array.ndim - 1), np.int64))
    g.add("CumSum", [a, axis], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))


@row
def topk(g):
    a = g.pick(FLOAT + ("int64", "int32"), range(1, 5), exact=True)
    axis = g.integer(-a.array.ndim, a.array.ndim - 1)
    k = g.parameter(np.array([g.integer(1, a.array.shape[axis])], np.int64))
    g.add("TopK", [a, k], 2, exact=True, axis=axis, largest=g.integer(0, 1))


@weighty(3)
def transpose(g):
    a = g.pick(ANY, range(1, 6))
    g.add("Transpose", [a], exact=True, perm=g.rng.permutation(a.array.ndim).tolist())


@weighty(3)
def reshape(g):
    a = g.pick(ANY)
    left, shape = a.array.size, []
    for _ in range(g.integer(0, 4)):
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        shape.append(g.choose(divisors))
        left //= shape[-1]
    shape.append(left)
    if g.chance(0.4):
        shape[g.integer(0, len(shape) - 1)] = -1
    g.add("Reshape", [a, g.parameter(np.array(shape, np.int64))], exact=True)


@row
def flatten(g):
    a = g.pick(ANY, range(1, 6))
    g.add("Flatten", [a], exact=True, axis=g.integer(-a.array.ndim, a.array.ndim))


@weighty(2)
def squeeze(g):
    a = g.pick(ANY, range(1, 5))
    ones = [d for d, n in enumerate(a.array.shape) if n == 1]
    if ones and g.chance(0.5):
        with_axes(g, "Squeeze", 13, a, [g.choose(ones)], exact=True)
    else:
        with_axes(g, "Unsqueeze", 13, a, [g.integer(-a.array.ndim - 1, a.array.ndim)], exact=True)


@weighty(2)
def concat(g):
    a = g.pick(ANY, range(1, 5))
    axis = g.integer(0, a.array.ndim - 1)
    parts = [a]
    for _ in range(g.integer(0, 2)):
        shape = list(a.array.shape)
        shape[axis] = g.integer(1, 4)
        parts.append(g.source(g.random(a.array.dtype, shape), g.chance(0.3)))
    g.add("Concat", parts, exact=True, axis=axis - a.array.ndim * g.integer(0, 1))


@weighty(2)
def split(g):
    a = g.pick(ANY, range(1, 5))
    axis = g.integer(0, a.array.ndim - 1)
    n = a.array.shape[axis]
    first = g.integer(0, n)
    g.add("Split", [a, g.parameter(np.array([first, n - first], np.int64))], 2, exact=True, axis=axis)


@weighty(3)
def slices(g):
    a = g.pick(ANY, range(1, 5))
    axes = axes_of(g, a.array.ndim)
    starts, ends, steps = [], [], []
    for axis in axes:
        n = a.array.shape[axis]
        step = g.choose([1, 1, 1, 2, -1, -2, 3])
        first, last = sorted([g.integer(0, n - 1), g.integer(0, n - 1)])
        starts.append(first if step > 0 else last)
        ends.append((last + 1 if step > 0 else first - 1) if g.chance(0.7) and (step > 0 or first) else
                    (1 << 60) * (1 if step > 0 else -1))
        steps.append(step)
    lists = [g.parameter(np.array(v, np.int64)) for v in (starts, ends, axes, steps)]
    g.add("Slice", [a, *lists], exact=True)


def indices(g, n, shape):
    return g.source(g.rng.integers(-n, n, shape).astype(g.choose([np.int64, np.int32])), g.chance(0.5))


@weighty(2)
def gather(g):
    a = g.pick(ANY, range(1, 5))
    axis = g.integer(-a.array.ndim, a.array.ndim - 1)
    n = a.array.shape[axis]
    if g.chance(0.6):
        g.add("Gather", [a, indices(g, n, g.shape(g.integer(0, 2)))], exact=True, axis=axis)
    else:
        shape = [g.integer(1, d) for d in a.array.shape]
        g.add("GatherElements", [a, indices(g, n, shape)], exact=True, axis=axis)


@row
def gather_nd(g):
    a = g.pick(ANY, range(1, 5))
    batch = g.integer(0, a.array.ndim - 1) if g.chance(0.4) else 0
    depth = g.integer(1, a.array.ndim - batch)
    shape = list(a.array.shape[:batch]) + g.shape(g.integer(0, 2))
    lists = [g.rng.integers(-n, n, shape) for n in a.array.shape[batch:batch + depth]]
    g.add("GatherND", [a, g.source(np.stack(lists, -1).astype(np.int64), g.chance(0.5))], exact=True, batch_dims=batch)


def reduction_of(g, since16, since18):
    if g.opset < 16:
        return {}
    names = ["none"] + since16 + (since18 if g.opset >= 18 else [])
    name = g.choose(names)
    return {} if name == "none" else {"reduction": name}


@row
def scatter_elements(g):
    a = g.pick(FLOAT + ("int32", "int64"), range(1, 4))
    axis = g.integer(0, a.array.ndim - 1)
    shape = [g.integer(1, d) for d in a.array.shape]
    # Without a reduction no element may be written twice.
    order = np.argsort(g.rng.random(a.array.shape), axis)[tuple(slice(0, n) for n in shape)]
    attributes = reduction_of(g, ["add", "mul"], ["min", "max"])
    updates = g.source(g.random(a.array.dtype, shape))
    g.add("ScatterElements", [a, g.source(order.astype(np.int64), g.chance(0.5)), updates], exact=not attributes,
          axis=axis, **attributes)


@row
def scatter_nd(g):
    a = g.pick(FLOAT + ("int32", "int64"), range(1, 4))
    depth = g.integer(1, a.array.ndim)
    places = int(np.prod(a.array.shape[:depth]))
    chosen = g.rng.choice(places, g.integer(1, places), replace=False)
    index = np.stack(np.unravel_index(chosen, a.array.shape[:depth]), -1).astype(np.int64)
    attributes = reduction_of(g, ["add", "mul"], ["min", "max"])
    updates = g.source(g.random(a.array.dtype, [len(chosen), *a.array.shape[depth:]]))
    g.add("ScatterND", [a, g.source(index, g.chance(0.5)), updates], exact=not attributes, **attributes)


@row
def tile(g):
    a = g.pick(ANY, range(1, 5))
    g.add("Tile", [a, g.parameter(np.array([g.integer(1, 3) for _ in a.array.shape], np.int64))], exact=True)


@row
def expand(g):
    a = g.pick(ANY, range(0, 4))
    shape = [g.integer(1, 4) if n == 1 else g.choose([1, n]) for n in a.array.shape]
    g.add("Expand", [a, g.parameter(np.array(g.shape(g.integer(0, 1)) + shape, np.int64))], exact=True)


@weighty(2)
def pad(g):
    a = g.pick(FLOAT * 3 + INTEGERS, range(1, 5))
    mode = g.choose(["constant", "reflect", "edge", "wrap"])
    most = [min(2, n - 1) if mode in ("reflect", "wrap") else 2 for n in a.array.shape]
    if mode == "constant" and g.chance(0.3):
        most = [0] * a.array.ndim
        amounts = [g.integer(1 - n, 0) if g.chance(0.5) and n > 1 else 0 for n in a.array.shape] + most
    else:
        amounts = [g.integer(0, n) for n in most * 2]
    value = [g.parameter(np.array(3, a.array.dtype))] * (mode == "constant" and g.chance(0.5))
    g.add("Pad", [a, g.parameter(np.array(amounts, np.int64)), *value], exact=True, mode=mode)


@row
def depth(g):
    block = g.choose([1, 2, 3])
    n, c, h, w = g.shape(4)
    if g.chance(0.5):
        a = g.source(g.random(np.float32, [n, c * block * block, h, w]))
        g.add("DepthToSpace", [a], exact=True, blocksize=block, mode=g.choose(["DCR", "CRD"]))
    else:
        g.add("SpaceToDepth", [g.source(g.random(np.float32, [n, c, h * block, w * block]))], exact=True, blocksize=block)


@row
def triangle(g):
    a = g.pick(FLOAT + ("int64", "bool"), range(2, 5))
    g.add("Trilu", [a, g.parameter(np.array(g.integer(-3, 3), np.int64))], exact=True, upper=g.integer(0, 1))


@row
def reverse_sequence(g):
    time, batch = g.choose([(0, 1), (1, 0)])
    a = g.source(g.random(np.float32, g.shape(g.integer(2, 4))))
    lengths = g.rng.integers(1, a.array.shape[time] + 1, a.array.shape[batch]).astype(np.int64)
    g.add("ReverseSequence", [a, g.source(lengths, g.chance(0.5))], exact=True, time_axis=time, batch_axis=batch)


@row
def depends_on_elements(g):
    a = g.pick(FLOAT + ("int64", "bool", "int32"), range(1, 4), exact=True)
    name = g.choose(["NonZero", "Compress", "Unique"])
    if name == "Compress":
        axis = g.integer(0, a.array.ndim - 1)
        condition = g.source(g.rng.random(a.array.shape[axis]) < 0.5, g.chance(0.3))
        g.add("Compress", [a, condition], exact=True, axis=axis)
    elif name == "Unique":
        g.add("Unique", [a], 4, exact=True, sorted=1, **({"axis": 0} if g.chance(0.3) else {}))
    else:
        g.add("NonZero", [a], exact=True)


@row
def one_hot(g):
    classes = g.integer(2, 5)
    which = g.source(g.rng.integers(-classes, classes, g.shape(g.integer(1, 3))).astype(np.int64), g.chance(0.3))
    values = g.source(g.random(g.choose([np.float32, np.int64]), [2]), g.chance(0.5))
    g.add("OneHot", [which, g.parameter(np.array(classes, np.int64)), values], exact=True, axis=g.integer(-1, 1))


@row
def shapes(g):
    a = g.pick(ANY, range(1, 5))
    name = g.choose(["Shape", "Size", "EyeLike", "reuse"])
    if name == "EyeLike":
        g.add("EyeLike", [g.pick(FLOAT, [2])], exact=True, k=g.integer(-1, 1))
    elif name != "reuse":
        g.add(name, [a], exact=True)
    else:  # shape arithmetic, as exporters write it
        sizes = g.add("Shape", [a], exact=True)
        first = g.add("Gather", [sizes, g.constant(np.array([0], np.int64))], exact=True)
        target = g.add("Concat", [first, g.constant(np.array([-1], np.int64))], exact=True, axis=0)
        g.add("Reshape", [a, target], exact=True)


@row
def ranges(g):
    dtype = g.choose([np.int64, np.int32, np.float32])
    g.add("Range", [g.parameter(np.array(v, dtype)) for v in (g.integer(-3, 0), g.integer(1, 9), g.integer(1, 3))], exact=True)


@weighty(3)
def matmul(g):
    a = g.pick(FLOAT, range(1, 5))
    k, n = a.array.shape[-1], g.integer(1, 40)
    batch = [d if g.chance(0.5) else 1 for d in a.array.shape[:-2]] if g.chance(0.5) else []
    b = g.source((g.rng.normal(0, 1, [*batch, k, n]) / k ** 0.5).astype(np.float32), g.chance(0.6))
    g.add("MatMul", [a, b] if g.chance(0.95) else [b, a])


@weighty(2)
def gemm(g):
    a = g.pick(FLOAT, [2])
    flip, turn = g.integer(0, 1), g.integer(0, 1)
    m, k = a.array.shape[::-1] if flip else a.array.shape
    n = g.integer(1, 33)
    c = g.source(g.random(np.float32, g.choose([[n], [m, n], [1, n], [m, 1], [1], []])), g.chance(0.6))
    b = g.source((g.rng.normal(0, 1, [n, k] if turn else [k, n]) / k ** 0.5).astype(np.float32), g.chance(0.7))
    g.add("Gemm", [a, b, c] if g.chance(0.8) else [a, b], transA=flip, transB=turn, alpha=g.choose([1.0, 0.5]),
          beta=g.choose([1.0, 2.0]))


@row
def einsum(g):
    equation, *operands = g.choose([
        ("ij,jk->ik", "ij", "jk"), ("bij,bjk->bik", "bij", "bjk"), ("bhid,bhjd->bhij", "bhid", "bhjd"), ("ij->ji", "ij"),
        ("ii->i", "ii"), ("ij,ij->i", "ij", "ij"), ("...ij,...jk->...ik", "bij", "bjk"), ("i,j->ij", "i", "j"), ("bij->b", "bij"),
        ("ijk,jl->ilk", "ijk", "jl"), ("ij,jk,kl->il", "ij", "jk", "kl")])
    sizes = {letter: g.integer(1, 5) for letter in "bhijkld"}
    g.add("Einsum", [g.source(g.random(np.float32, [sizes[x] for x in letters])) for letters in operands], equation=equation)


def image(g, channels=None, spatial=2, least=1):
    """An activation of rank 3 or 4: one there is, if it fits, or a new one."""
    a = g.pick(FLOAT, [spatial + 2])
    if (channels is None or a.array.shape[1] == channels) and min(a.array.shape[2:]) >= least and g.chance(0.7):
        return a
    shape = [g.choose([1, 1, 2]), channels or g.choose([1, 2, 3, 4, 8, 16]), *(g.integer(least, 12) for _ in range(spatial))]
    tensor = g.source(g.random(np.float32, shape))
    g.tensors.append(tensor)
    return tensor


def padding(g, spatial, kernel, dilations=None):
    """Padding that no engine refuses: less than the kernel."""
    mode = g.choose(["pads", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if mode != "pads":
        return {"auto_pad": mode}
    return {"pads": [g.integer(0, k // 2) for k in kernel * 2]} if g.chance(0.8) else {}


@weighty(5)
def convolution(g):
    spatial = g.choose([1, 2, 2, 2])
    x = image(g, spatial=spatial)
    c = x.array.shape[1]
    groups = g.choose([d for d in range(1, c + 1) if c % d == 0]) if g.chance(0.5) else 1
    kernel = [g.integer(1, 4) for _ in range(spatial)]
    outputs = groups * g.choose([1, 1, 2, 5])
    bias = [g.weights(outputs)] if g.chance(0.6) else []
    g.add("Conv", [x, g.weights(outputs, c // groups, *kernel), *bias], group=groups, kernel_shape=kernel,
          strides=[g.choose([1, 1, 2, 3]) for _ in kernel], dilations=[g.choose([1, 1, 1, 2]) for _ in kernel],
          **padding(g, spatial, kernel))


@weighty(2)
def transposed_convolution(g):
    spatial = g.choose([1, 2, 2])
    x = image(g, spatial=spatial)
    c = x.array.shape[1]
    groups = g.choose([d for d in range(1, c + 1) if c % d == 0]) if g.chance(0.4) else 1
    kernel = [g.integer(1, 4) for _ in range(spatial)]
    strides = [g.integer(1, 3) for _ in kernel]
    outputs = g.integer(1, 4)
    dilations = [g.choose([1, 1, 2]) for _ in kernel]
    pads = padding(g, spatial, kernel)
    # ONNX Runtime does not pad results of SAME where the stride is larger than the kernel, which ONNX defines.
    if "SAME" in pads.get("auto_pad", ""):
        strides = [min(s, (k - 1) * d + 1) for s, k, d in zip(strides, kernel, dilations)]
    more = {"output_padding": [g.integer(0, s - 1) for s in strides]} if g.chance(0.3) else {}
    bias = [g.weights(outputs * groups)] if g.chance(0.6) else []
    g.add("ConvTranspose", [x, g.weights(c, outputs, *kernel), *bias], group=groups, strides=strides,
          dilations=dilations, **more, **pads)


@weighty(3)
def pooling(g):
    spatial = g.choose([1, 2, 2])
    name = g.choose(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    x = image(g, spatial=spatial, least=3)
    if name.startswith("Global"):
        return g.add(name, [x], exact=name == "GlobalMaxPool")
    kernel = [g.integer(1, 3) for _ in range(spatial)]
    strides = [g.integer(1, 3) for _ in kernel]
    attributes = padding(g, spatial, kernel)
    same = "SAME" in attributes.get("auto_pad", "")
    if same:  # ONNX Runtime pads with less than nothing where the stride is larger than the kernel
        strides = [min(s, k) for s, k in zip(strides, kernel)]
    if name != "LpPool" or g.opset >= 18:
        attributes["ceil_mode"] = g.integer(0, 1)
    if name == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    # With SAME, ONNX Runtime pads as if there were no dilation; and it has windows that are larger than the padded input.
    if name == "MaxPool" and not same and min(x.array.shape[2:]) >= 5 and g.chance(0.3):
        attributes["dilations"] = [g.integer(1, 2) for _ in kernel]
    return g.add(name, [x], exact=name == "MaxPool", kernel_shape=kernel, strides=strides, **attributes)


@row
def pooling_with_places(g):
    x = g.source(g.random(np.float32, [1, g.integer(1, 3), 6, 8]))
    made = g.add("MaxPool", [x], 2, exact=True, kernel_shape=[2, 2], strides=[2, 2])
    if made and g.chance(0.6):
        g.add("MaxUnpool", made, exact=True, kernel_shape=[2, 2], strides=[2, 2])


@weighty(3)
def normalization(g):
    name = g.choose(["BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization",
                     "RMSNormalization", "LpNormalization", "MeanVarianceNormalization", "LRN"])
    x = image(g, spatial=g.choose([1, 2]))
    c, rank = x.array.shape[1], x.array.ndim
    if name == "BatchNormalization":
        variance = g.constant(g.rng.uniform(0.5, 2, c).astype(np.float32))
        return g.add(name, [x, g.weights(c), g.weights(c), g.weights(c), variance], epsilon=1e-3)
    if name == "InstanceNormalization":
        return g.add(name, [x, g.weights(c), g.weights(c)], epsilon=1e-2)
    if name == "GroupNormalization":
        groups = g.choose([d for d in range(1, c + 1) if c % d == 0])
        size = c if g.opset >= 21 else groups
        return g.add(name, [x, g.weights(size), g.weights(size)], num_groups=groups, epsilon=1e-2)
    if name in ("LayerNormalization", "RMSNormalization"):
        axis = g.integer(1, rank - 1)
        shape = x.array.shape[axis:]
        bias = [g.weights(*shape)] if name[0] == "L" and g.chance(0.7) else []
        return g.add(name, [x, g.weights(*shape), *bias], axis=axis - rank * g.integer(0, 1), epsilon=1e-2)
    if name == "LpNormalization":
        axis, p = g.integer(-rank, rank - 1), g.integer(1, 2)
        if np.linalg.norm(x.array, p, axis).min() > 1e-2:  # or rounding errors grow
            g.add(name, [x], axis=axis, p=p)
        return None
    if name == "LRN":
        return g.add(name, [x], size=g.choose([1, 3, 5]), alpha=0.01, beta=0.75, bias=1.5)
    axes = axes_of(g, rank)
    if np.std(x.array.astype(np.float32), tuple(axes)).min() > 1e-2:  # the same: equal numbers have no deviation
        g.add(name, [x], axes=axes)
    return None


@weighty(2)
def softmax(g):
    name = g.choose(["Softmax", "Softmax", "LogSoftmax", "Hardmax"])
    a = g.pick(FLOAT, range(1, 5), exact=name == "Hardmax")
    g.add(name, [a], exact=name == "Hardmax", axis=g.integer(-a.array.ndim, a.array.ndim - 1))


@weighty(3)
def recurrent(g):
    name, gates = g.choose([("RNN", 1), ("GRU", 3), ("LSTM", 4)])
    direction = g.choose(["forward", "reverse", "bidirectional"])
    d, hidden = 1 + (direction == "bidirectional"), g.integer(1, 9)
    x = g.pick(FLOAT, [3])
    steps, batch, size = x.array.shape
    lengths = g.source(g.rng.integers(1, steps + 1, batch).astype(np.int32), g.chance(0.3)) if g.chance(0.3) else None
    state = g.source(g.random(np.float32, [d, batch, hidden]), g.chance(0.3)) if g.chance(0.5) else None
    inputs = [x, g.weights(d, gates * hidden, size), g.weights(d, gates * hidden, hidden),
              g.weights(d, 2 * gates * hidden) if g.chance(0.7) else None, lengths, state]
    attributes = {"hidden_size": hidden, "direction": direction}
    if name == "LSTM":
        inputs += [g.source(g.random(np.float32, [d, batch, hidden])) if state else None,
                   g.weights(d, 3 * hidden) if g.chance(0.3) else None]
    if name == "GRU":
        attributes["linear_before_reset"] = g.integer(0, 1)
    if g.chance(0.2):
        attributes["clip"] = 0.8
    g.add(name, inputs, 3 if name == "LSTM" else 2, **attributes)


@row
def attention(g):
    if g.opset < 23:
        return
    heads = g.choose([1, 2, 4])
    shared = g.choose([h for h in (1, 2, 4) if heads % h == 0])
    batch, q, k, width, depth = g.integer(1, 2), g.integer(1, 5), g.integer(1, 6), g.integer(1, 8), g.integer(1, 8)
    x = g.source(g.random(np.float32, [batch, heads, q, width]))
    y = g.source(g.random(np.float32, [batch, shared, k, width]))
    z = g.source(g.random(np.float32, [batch, shared, k, depth]))
    mask = [g.source(g.random(np.float32, [q, k]))] if g.chance(0.4) else []
    g.add("Attention", [x, y, z, *mask], **({"is_causal": 1} if not mask and g.chance(0.4) else {}),
          **({"softcap": 2.0} if g.chance(0.3) else {}))


@weighty(2)
def resize(g):
    x = image(g)
    mode = g.choose(["nearest", "linear", "cubic"])
    coordinates = g.choose(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = g.choose(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes.update(cubic_coeff_a=g.choose([-0.75, -0.5]), exclude_outside=g.integer(0, 1))
    if mode == "linear" and g.opset >= 18 and g.chance(0.3):
        attributes["antialias"] = 1
    sizes = list(x.array.shape[:2]) + [g.integer(1, 13), g.integer(1, 13)]
    # The scale of a size is not exact: ONNX Runtime may find the pixel before the one that lies on the spot.
    if g.chance(0.5) and attributes.get("nearest_mode") not in ("floor", "ceil"):
        g.add("Resize", [x, None, None, g.parameter(np.array(sizes, np.int64))], exact=mode == "nearest", **attributes)
    else:
        # ONNX aligns the corners of sizes that are not rounded, ONNX Runtime those of rounded ones.
        whole = coordinates == "align_corners"
        scales = np.array([1, 1, *(g.choose([1, 2, 3] if whole or n < 2 else [0.5, 1, 1.5, 2]) for n in x.array.shape[2:])],
                          np.float32)
        g.add("Resize", [x, None, g.parameter(scales)], exact=mode == "nearest", **attributes)


@row
def sampling(g):
    x = image(g)
    n, h, w = x.array.shape[0], g.integer(1, 5), g.integer(1, 5)
    grid = g.source(g.rng.uniform(-1.2, 1.2, [n, h, w, 2]).astype(np.float32))
    mode = g.choose(["bilinear", "nearest", "bicubic"] if g.opset < 20 else ["linear", "nearest", "cubic"])
    g.add("GridSample", [x, grid], mode=mode, padding_mode=g.choose(["zeros", "border", "reflection"]),
          align_corners=g.integer(0, 1))


@row
def affine_grid(g):
    n = g.integer(1, 2)
    theta = g.source(g.random(np.float32, [n, 2, 3]))
    align = g.integer(0, 1)
    least = 1 + align  # where one point is aligned to two corners, PyTorch and ONNX Runtime differ
    g.add("AffineGrid", [theta, g.parameter(np.array([n, 3, g.integer(least, 5), g.integer(least, 5)], np.int64))],
          align_corners=align)


@row
def regions(g):
    x = g.source(g.random(np.float32, [2, g.integer(1, 3), 9, 11]))
    corner = g.rng.uniform(0, 5, [3, 2])
    boxes = np.concatenate([corner, corner + g.rng.uniform(1, 5, [3, 2])], 1).astype(np.float32)
    if g.chance(0.7):
        batch = g.source(g.rng.integers(0, 2, 3).astype(np.int64))
        mode = {"coordinate_transformation_mode": g.choose(["half_pixel", "output_half_pixel"])} if g.opset >= 16 else {}
        g.add("RoiAlign", [x, g.source(boxes), batch], output_height=g.integer(1, 4), output_width=g.integer(1, 4),
              sampling_ratio=g.integer(0, 2), spatial_scale=0.7, mode=g.choose(["avg", "max"]), **mode)
    else:
        which = g.rng.integers(0, 2, [3, 1])
        g.add("MaxRoiPool", [x, g.source(np.concatenate([which, np.round(boxes)], 1).astype(np.float32))],
              pooled_shape=[2, 3])


@row
def suppression(g):
    n, classes = g.integer(1, 20), g.integer(1, 3)
    corner = g.rng.uniform(0, 1, [1, n, 2])
    boxes = g.source(np.concatenate([corner, corner + g.rng.uniform(0.1, 0.6, [1, n, 2])], 2).astype(np.float32))
    scores = g.source(g.rng.random([1, classes, n]).astype(np.float32))
    limits = [g.parameter(np.array([v], t)) for v, t in
              ((g.integer(1, 9), np.int64), (0.4, np.float32), (0.3, np.float32))]
    g.add("NonMaxSuppression", [boxes, scores, *limits], exact=True, center_point_box=g.integer(0, 1))


@row
def deformable(g):
    c, out, h, w = g.choose([2, 4]), g.integer(1, 3), g.integer(3, 7), g.integer(3, 7)
    x = g.source(g.random(np.float32, [1, c, h, w]))
    offset = g.source(g.random(np.float32, [1, 2 * 9, h, w]))
    g.add("DeformConv", [x, g.weights(out, c, 3, 3), offset], kernel_shape=[3, 3], pads=[1, 1, 1, 1])


@row
def spectrum(g):
    if g.opset < 17:
        return
    if g.chance(0.5):
        x = g.source(g.random(np.float32, [g.integer(1, 2), g.integer(2, 17), g.choose([1, 2])]))
        onesided = int(x.array.shape[-1] == 1 and g.chance(0.5))
        inverse = int(x.array.shape[-1] == 2 and g.chance(0.5))
        if g.opset >= 20:
            g.add("DFT", [x, None, g.constant(np.array(1, np.int64))], onesided=onesided, inverse=inverse)
        else:
            g.add("DFT", [x], axis=1, onesided=onesided, inverse=inverse)
    else:
        x = g.source(g.random(np.float32, [1, 64, 1]))
        window = g.constant(np.hanning(16).astype(np.float32))
        g.add("STFT", [x, g.constant(np.array(8, np.int64)), window, g.constant(np.array(16, np.int64))],
              onesided=g.integer(0, 1))


@row
def determinant(g):
    n = g.integer(1, 4)
    g.add("Det", [g.source(g.random(np.float32, g.shape(g.integer(0, 2)) + [n, n]))])


@weighty(2)
def quantized(g):
    """Real numbers to bytes and back, between which layers may run on bytes."""
    a = g.pick(FLOAT, range(1, 5))
    scale = np.float32(max(np.abs(a.array).max(), 1e-3) / 100)
    dtype = g.choose([np.int8, np.uint8])
    pair = [g.constant(np.array(scale)), g.constant(np.array(g.integer(0, 9), dtype))]
    q = g.add("QuantizeLinear", [a, *pair], coarse=not a.exact)
    if q:
        g.add("DequantizeLinear", [q, *pair], exact=True)


@row
def product_of_bytes(g):
    m, k, n = g.integer(1, 9), g.integer(1, 40), g.integer(1, 20)
    a = g.source(g.rng.integers(0, 255, [m, k]).astype(np.uint8))
    b = g.source(g.rng.integers(-127, 127, [k, n]).astype(np.int8), g.chance(0.7))
    zeros = [g.constant(np.array(g.integer(0, 200), np.uint8)), g.constant(np.array(0, np.int8))]
    if g.chance(0.5):
        g.add("MatMulInteger", [a, b, *zeros], exact=True)
    else:
        scale = lambda v: g.constant(np.array(v, np.float32))
        g.add("QLinearMatMul", [a, scale(0.02), zeros[0], b, scale(0.01), zeros[1], scale(0.05),
                                g.constant(np.array(128, np.uint8))], coarse=True)


@row
def convolution_of_bytes(g):
    c, out = g.integer(1, 8), g.integer(1, 9)
    x = g.source(g.rng.integers(0, 255, [1, c, g.integer(3, 9), g.integer(3, 9)]).astype(np.uint8))
    w = g.constant(g.rng.integers(-127, 127, [out, c, 3, 3]).astype(np.int8))
    zero = g.constant(np.array(g.integer(0, 200), np.uint8))
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [g.integer(1, 2)] * 2}
    if g.chance(0.5):
        g.add("ConvInteger", [x, w, zero], exact=True, **attributes)
    else:
        scale = lambda v: g.constant(np.array(v, np.float32))
        g.add("QLinearConv", [x, scale(0.02), zero, w, scale(0.01), g.constant(np.array(0, np.int8)), scale(0.1),
                              g.constant(np.array(100, np.uint8))], coarse=True, **attributes)

"""Models of tensorflow_graphs.py with functions: calls, branches, loops."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

raw = tf.raw_ops
x34 = tf.TensorSpec([3, 4], tf.float32)
number = tf.TensorSpec([], tf.int32)


def called(x):
    @tf.function(autograph=False, reduce_retracing=True)
    def inner(a, b):
        return tf.nn.relu(a), tf.nn.top_k(b, 2)
    first, (values, places) = inner(x, x + 1.0)
    return first * 2.0, values, places


def chosen(x, n):
    w = tf.constant(np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float32))
    return tf.cond(n > 2, lambda: x * w, lambda: x - tf.reduce_sum(x)), n + 1


def chosen_within(x, n):
    return tf.cond(n > 2, lambda: tf.cond(n > 4, lambda: x + 1.0, lambda: tf.sin(x)), lambda: x)


def chosen_by_number(x, n):
    negative = tf.function(lambda x: -x).get_concrete_function(x34)
    more = tf.function(lambda x: x * 3.0).get_concrete_function(x34)
    return raw.StatelessIf(cond=n, input=[x], Tout=[tf.float32], then_branch=negative, else_branch=more)


def stateful(x, n):
    """What TensorFlow makes of functions with side effects, which have other names."""
    halves = tf.function(lambda x: x * 0.5).get_concrete_function(x34)
    goes_on = tf.function(lambda i, n, x: i < n).get_concrete_function(number, number, x34)
    body = tf.function(lambda i, n, x: (i + 1, n, x * 0.5)).get_concrete_function(number, number, x34)
    y = raw.StatefulPartitionedCall(args=[x], Tout=[tf.float32], f=halves)[0]
    z = raw.If(cond=n > 2, input=[y], Tout=[tf.float32], then_branch=halves, else_branch=halves)[0]
    return raw.While(input=[tf.constant(0), n, z], cond=goes_on, body=body)[2]


def repeated(x, n):
    w = tf.constant(np.linspace(-1, 1, 16).reshape(4, 4).astype(np.float32))
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y @ w) + x), [tf.constant(0), x])


def growing(x, n):
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.concat([y, x * tf.cast(i, tf.float32)], 0)),
                         [tf.constant(0), x], shape_invariants=shapes)[1]


def repeated_choice(x, n):
    def body(i, y):
        return i + 1, tf.cond(i % 2 == 0, lambda: y + 1.0, lambda: y * 2.0)
    return tf.while_loop(lambda i, y: tf.logical_and(i < n, tf.reduce_sum(y) < 1e4), body, [tf.constant(0), x])


# name: (function, its inputs)
MODELS = {"called": (called, [x34]), "chosen": (chosen, [x34, number]), "chosen within": (chosen_within, [x34, number]),
          "chosen by number": (chosen_by_number, [x34, number]), "repeated": (repeated, [x34, number]),
          "growing": (growing, [x34, number]), "repeated choice": (repeated_choice, [x34, number]),
          "stateful": (stateful, [x34, number])}


def graph_of(function, specs):
    """The graph, and the names of its inputs and outputs. The models have no variables, so there is nothing to freeze."""
    concrete = tf.function(function).get_concrete_function(*specs)
    names = [[t.name.removesuffix(":0") for t in tensors] for tensors in (concrete.inputs, concrete.outputs)]
    return concrete.graph.as_graph_def(), *names


def draw(specs, seed):
    generator = np.random.default_rng(seed)
    return [np.array(seed, np.int32) if s.dtype == tf.int32 else
            generator.uniform(-2, 2, s.shape).astype(np.float32) for s in specs]

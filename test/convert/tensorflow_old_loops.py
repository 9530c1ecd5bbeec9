"""Models of tensorflow_graphs.py with loops, conditionals and arrays of tensors of TensorFlow's version 1."""
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
w = np.linspace(-1, 1, 16).reshape(4, 4).astype(np.float32)


def repeated(x, n):
    return list(v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y @ w) + x), [tf.constant(0), x]))


def chosen(x, n):
    return list(v1.cond(n > 2, lambda: (x @ w, n + 1), lambda: (x - tf.reduce_sum(x), tf.constant(3))))


def chosen_constants(x, n):
    return v1.cond(n > 2, lambda: tf.constant(2.0), lambda: v1.cond(n > 1, lambda: 5.0, lambda: 7.0)) * x


def constants_in_loop(x, n):
    def body(i, y):
        return i + 1, y * v1.cond(i > 2, lambda: tf.constant(2.0), lambda: tf.constant(5.0))
    return v1.while_loop(lambda i, y: i < n, body, [tf.constant(0), x])[1]


def chosen_within(x, n):
    return v1.cond(n > 2, lambda: v1.cond(n > 4, lambda: x + 1.0, lambda: tf.sin(x)), lambda: x)


def repeated_choice(x, n):
    def body(i, y):
        return i + 1, v1.cond(tf.equal(i % 2, 0), lambda: y + 1.0, lambda: y * 2.0)
    return v1.while_loop(lambda i, y: tf.logical_and(i < n, tf.reduce_sum(y) < 1e4), body, [tf.constant(0), x])[1]


def loop_in_choice(x, n):
    def loop():
        return v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.5), [tf.constant(0), x])[1]
    return v1.cond(n > 2, loop, lambda: x)


def loop_in_loop(x, n):
    def body(i, y):
        return i + 1, v1.while_loop(lambda k, z: k < i, lambda k, z: (k + 1, z * 0.5 + x), [tf.constant(0), y])[1]
    return v1.while_loop(lambda i, y: i < n, body, [tf.constant(0), x])[1]


def growing(x, n):
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    return v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.concat([y, x], 0)), [tf.constant(0), x], shapes)[1]


def arrays(x, n):
    """Sums of the rows so far."""
    given = tf.TensorArray(tf.float32, 3).unstack(x)
    made = tf.TensorArray(tf.float32, 3, clear_after_read=False)

    def body(i, y, made):
        y = y + given.read(i)
        return i + 1, y, made.write(i, y)
    made = v1.while_loop(lambda i, y, made: i < 3, body, [tf.constant(0), tf.zeros([4]), made])[2]
    size = tf.raw_ops.TensorArraySizeV3(handle=made.handle, flow_in=made.flow)  # size() of Python is known, and no node
    return [made.stack(), made.gather([2, 0]), size + n]


def recurrent(x, n):
    """dynamic_rnn, without Keras."""
    steps = tf.shape(x)[0]
    given, made = tf.TensorArray(tf.float32, steps).unstack(x[:, None]), tf.TensorArray(tf.float32, steps)

    def body(i, h, made):
        h = tf.tanh(given.read(i) @ w + h @ w)
        return i + 1, h, made.write(i, h)
    _, h, made = v1.while_loop(lambda i, h, made: i < steps, body, [0, tf.zeros([1, 4]), made])
    return [tf.transpose(made.stack(), [1, 0, 2]), h + tf.cast(n, tf.float32)]


MODELS = {f.__name__: f for f in (repeated, chosen, chosen_constants, constants_in_loop, chosen_within, repeated_choice,
                                  loop_in_choice, loop_in_loop, growing, arrays, recurrent)}


def cases(graph_of):
    """Yields name, graph, what is fed, outputs."""
    for name, function in MODELS.items():
        x = np.random.default_rng(7).uniform(-1, 1, (3, 4)).astype(np.float32)
        v1.disable_control_flow_v2()
        definition = graph_of(function, x, np.array(0, np.int32))
        v1.enable_control_flow_v2()
        outputs = [node.name for node in definition.node if node.name in ("y", "y1", "y2")]
        for n in (0, 3, 5):
            yield f"old {name}, {n}", definition, {"x": x, "x1": np.array(n, np.int32)}, outputs

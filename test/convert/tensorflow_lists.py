"""Models of tensorflow_graphs.py with lists of tensors: Keras' recurrent layers, frozen, and what reads them."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

L, raw = keras.layers, tf.raw_ops


def row(*layers, shape=(5, 3), kind="float32"):
    """A row of layers, made anew for each graph."""
    def model(batch):
        return keras.Sequential([keras.Input(shape, batch, dtype=kind), *[make() for make in layers]])
    return model


def lstm(**options):
    return lambda: L.LSTM(4, **options)


def gru(**options):
    return lambda: L.GRU(4, **options)


def both(inner, **options):
    return lambda: L.Bidirectional(inner(), **options)


def with_states(batch):
    x = keras.Input((5, 3), batch)
    y, *states = L.LSTM(4, return_sequences=True, return_state=True)(x)
    return keras.Model(x, [y, *states, L.LSTM(4)(y, initial_state=states)])


def attending(batch):
    x = keras.Input((5, 3), batch)
    y = L.LSTM(3, return_sequences=True)(x)
    z = L.MultiHeadAttention(2, 3)(*[L.Concatenate()([L.Add()([x, y]), y])] * 2)
    return keras.Model(x, L.GlobalAveragePooling1D()(L.Attention()([z, z])))


SEQUENCE = {"return_sequences": True}


def mask():
    return L.Masking(0.0)


MODELS = {
    "LSTM": row(lstm()), "LSTM, sequences": row(lstm(**SEQUENCE)),
    "LSTM, backwards": row(lstm(go_backwards=True, **SEQUENCE)),
    "LSTM, other functions": row(lstm(activation="relu", recurrent_activation="hard_sigmoid", use_bias=False)),
    "GRU": row(gru()), "GRU, sequences": row(gru(**SEQUENCE)), "GRU, reset before": row(gru(reset_after=False)),
    "SimpleRNN": row(lambda: L.SimpleRNN(4)), "SimpleRNN, sequences": row(lambda: L.SimpleRNN(4, **SEQUENCE)),
    "Bidirectional LSTM": row(both(lstm(**SEQUENCE))), "Bidirectional GRU": row(both(gru(), merge_mode="sum")),
    "masked LSTM": row(mask, lstm()), "masked GRU": row(mask, gru(**SEQUENCE)),
    "masked Bidirectional": row(mask, both(lstm(**SEQUENCE))),
    "masked with zeros": row(mask, lambda: L.RNN(L.LSTMCell(4), zero_output_for_mask=True, **SEQUENCE)),
    "masked row": row(mask, lstm(**SEQUENCE), gru(**SEQUENCE), lambda: L.TimeDistributed(L.Dense(3))),
    "Embedding": row(lambda: L.Embedding(3, 3, mask_zero=True), lstm(), shape=(5,), kind="int32"),
    "cells": row(lambda: L.RNN([L.LSTMCell(4), L.GRUCell(3)], **SEQUENCE)),
    "states": with_states, "attention": attending,
    "Dense": row(lstm(**SEQUENCE), gru(), lambda: L.Dense(2, activation="softmax")),
    "Flatten": row(lstm(**SEQUENCE), lambda: L.Dense(2), L.Flatten, lambda: L.Dense(3)),
    "RepeatVector": row(lstm(), lambda: L.RepeatVector(3), lstm(**SEQUENCE), lambda: L.TimeDistributed(L.Dense(2))),
    "normalizations": row(gru(**SEQUENCE), L.LayerNormalization, gru(**SEQUENCE), L.BatchNormalization),
    "Conv1D": row(lstm(**SEQUENCE), lambda: L.Conv1D(3, 3, padding="same"), lambda: L.SeparableConv1D(3, 2)),
    "pools": row(lstm(**SEQUENCE), lambda: L.MaxPooling1D(2), lambda: L.AveragePooling1D(2, 1, "same")),
    "ConvLSTM1D": row(lambda: L.ConvLSTM1D(2, 3, **SEQUENCE), shape=(5, 6, 2)),
    "ConvLSTM2D": row(lambda: L.ConvLSTM2D(2, 3, padding="same"), shape=(4, 5, 6, 1)),
}


def listed(x):
    """What Keras does not use of lists."""
    made = raw.TensorListReserve(element_shape=[4], num_elements=5, element_dtype=tf.float32)
    made = raw.TensorListSetItem(input_handle=made, index=2, item=x[0])
    given = raw.TensorListFromTensor(tensor=x, element_shape=[4])
    picked = raw.TensorListGather(input_handle=given, indices=[2, 0], element_shape=[4], element_dtype=tf.float32)
    return [raw.TensorListStack(input_handle=made, element_shape=[4], element_dtype=tf.float32), picked,
            raw.TensorListLength(input_handle=made),
            raw.TensorListElementShape(input_handle=given, shape_type=tf.int32)]


def frozen(model, batch):
    """The graph of the model, its input and its outputs."""
    keras.utils.set_random_seed(7)
    network, generator = model(batch), np.random.default_rng(7)
    for weight in network.weights:
        weight.assign(generator.uniform(0.1 if "variance" in weight.name else -1, 1, weight.shape))
    spec = tf.TensorSpec(network.inputs[0].shape, network.inputs[0].dtype)
    call = tf.function(lambda x: network(x, training=False)).get_concrete_function(spec)
    function = convert_variables_to_constants_v2(call, lower_control_flow=False)
    return function.graph.as_graph_def(), spec, [t.name.removesuffix(":0") for t in function.outputs]


def draw(spec, batch):
    generator, shape = np.random.default_rng(batch), [batch, *spec.shape[1:]]
    if spec.dtype == tf.int32:
        return generator.integers(0, 3, shape).astype(np.int32)
    x = generator.uniform(-1, 1, shape).astype(np.float32)
    x[0, 2:4] = x[-1, 0] = 0  # what masks leave out
    return x


def cases():
    """Yields name, graph, what is fed, outputs: of a batch that is fixed, or open."""
    for name, model in MODELS.items():
        for batch, fed in (2, [2]), (None, [1, 3]):
            definition, spec, outputs = frozen(model, batch)
            for n in fed:
                yield f"{name}, batch {n}{'' if batch else ' of any'}", definition, {"x": draw(spec, n)}, outputs

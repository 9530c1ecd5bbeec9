"""Models of random variants of one feature each, for keras_models.py.

Every model has one output for each of its variants: an environment variable VARIANTS says how many, SEED which ones.
Inputs of sequences have steps of zeros, which masks leave out.
"""
import itertools, os, random

import numpy as np

STEPS, DEPTH, ROWS = 5, 3, 3


class Variants:
    def __init__(self, keras):
        self.keras, self.layers = keras, keras.layers
        self.is_3 = keras.__version__ >= "3"
        self.random = random.Random(int(os.environ.get("SEED", "1")))
        self.count = int(os.environ.get("VARIANTS", "20" if self.is_3 else "10"))  # Keras 2 takes three times as long

    def pick(self, *choices):
        return self.random.choice(choices)

    def flag(self, share=0.5):
        return self.random.random() < share

    def recurrent(self, **fixed):
        """A recurrent layer."""
        options = {"return_sequences": self.flag(), "go_backwards": self.flag(), "use_bias": self.flag(0.8), **fixed}
        if self.flag(0.3):
            options["zero_output_for_mask"] = True
        kind, units = self.pick("SimpleRNN", "GRU", "LSTM"), self.random.randint(1, 4)
        if kind == "GRU":
            options["reset_after"] = self.flag()
        return getattr(self.layers, kind)(units, **options)

    def both(self, **fixed):
        return self.layers.Bidirectional(self.recurrent(go_backwards=False, **fixed),
                                         merge_mode=self.pick("concat", "sum", "mul", "ave"))

    def masked(self, x, indices):
        L = self.layers
        if self.flag():
            return L.Masking(mask_value=self.pick(0.0, 0.0, 1.0))(x)
        return L.Embedding(4, DEPTH, mask_zero=True)(indices)

    def beside(self, y):
        """A tensor like y that another layer makes of it."""
        return self.layers.Dense(y.shape[-1])(y)

    def passed(self, y):
        """Layers that pass a mask on, drop it or make another of it."""
        L = self.layers
        for _ in range(self.random.randint(0, 3)):
            merge = self.pick("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
            y = self.pick(
                lambda: L.Dropout(0.5)(y), lambda: L.Dense(4)(y), lambda: L.LayerNormalization()(y),
                lambda: L.ReLU()(y), lambda: L.Activation("tanh")(y), lambda: L.BatchNormalization()(y),
                lambda: L.SpatialDropout1D(0.2)(y), lambda: L.TimeDistributed(L.Dense(3))(y),
                lambda: self.recurrent(return_sequences=True)(y), lambda: self.both(return_sequences=True)(y),
                lambda: getattr(L, merge)()([y, self.beside(y)]))()
            if self.is_3 and self.flag(0.1):
                y = L.Conv1D(3, 1)(y)  # Keras 2 refuses a mask here
        return y

    def used(self, y):
        """A layer that uses a mask."""
        L = self.layers
        return self.pick(
            lambda: self.recurrent()(y), lambda: self.recurrent(return_state=True)(y)[0], lambda: self.both()(y),
            lambda: L.GlobalAveragePooling1D()(y), lambda: L.GlobalAveragePooling1D(keepdims=True)(y))()

    def sequences(self):
        return self.keras.Input((STEPS, DEPTH)), self.keras.Input((STEPS,), dtype="int32", name="indices")

    def several(self, inputs, make):
        outputs = [make(*inputs) for _ in range(self.count)]
        return self.keras.Model(inputs, outputs)

    # ---- features

    def masks(self):
        return self.several(self.sequences(), lambda x, i: self.used(self.passed(self.masked(x, i))))

    def masks_of_models(self):
        """Models within the model, where files do not say which masks there are."""
        keras, L = self.keras, self.layers

        def make(x, i):
            y = self.masked(x, i)
            inner = keras.Input((STEPS, DEPTH))
            if self.flag():
                middle = [self.pick(lambda: L.Dropout(0.5), lambda: L.Dense(3), L.LayerNormalization,
                                    lambda: self.both(return_sequences=True))()
                          for _ in range(self.random.randint(0, 2))]
                return keras.Sequential([keras.Input((STEPS, DEPTH)), *middle, self.recurrent()])(y)
            if self.flag():
                return keras.Model(inner, self.used(self.passed(inner)))(y)
            return self.used(keras.Model(inner, self.passed(inner))(y))

        return self.several(self.sequences(), make)

    def masks_beside_states(self):
        L = self.layers

        def make(x, i):
            kind, units, y = self.pick("SimpleRNN", "GRU", "LSTM"), self.random.randint(1, 3), self.masked(x, i)
            states = [L.Dense(units)(L.Flatten()(x)) for _ in range(2 if kind == "LSTM" else 1)]
            layer = getattr(L, kind)(units, return_sequences=self.flag(), go_backwards=self.flag())
            return layer(y, initial_state=states)

        return self.several(self.sequences(), make)

    def masks_of_attention(self):
        keras, L = self.keras, self.layers
        queries, values = keras.Input((STEPS, DEPTH)), keras.Input((STEPS - 1, DEPTH))

        def make(queries, values):
            q = L.Masking()(queries) if self.flag(0.7) else queries
            v = L.Masking()(values) if self.flag(0.7) else values
            options = {"use_causal_mask": True} if self.flag(0.4) else {}
            dropout = self.pick(0, 0.1)
            kinds = [lambda: L.Attention(use_scale=self.flag())([q, v], **options),
                     lambda: L.MultiHeadAttention(2, 3, dropout=dropout)(q, v, **options),
                     lambda: L.MultiHeadAttention(2, 3, dropout=dropout)(q, q, **options)]
            if self.is_3:
                kinds.append(lambda: L.GroupQueryAttention(3, 4, 2, dropout=dropout)(q, v, **options))
            y = self.pick(*kinds)()
            if self.flag():
                y = L.LayerNormalization()(L.Add()([queries, y]))
            return L.GlobalAveragePooling1D()(y) if self.flag() else y

        return self.several((queries, values), make)

    def masks_by_functions(self):
        """Masks that functions of Keras 3 compute."""
        keras, L = self.keras, self.layers
        ops = keras.ops
        # In turn: a random choice may leave out a function, which keras_models.py would report.
        comparisons = itertools.cycle((ops.equal, ops.not_equal, ops.greater, ops.greater_equal, ops.less, ops.less_equal))
        others = itertools.cycle((lambda mask, _: mask, lambda mask, _: ops.logical_not(mask),
                                  lambda _, elements: ops.any(elements, axis=-1),
                                  lambda mask, _: ops.logical_and(mask, ops.ones_like(mask))))

        def make(x, i):
            numbers = next(comparisons)(i, 1)
            rows = self.pick(ops.any, ops.all)(ops.not_equal(x, 0.0), axis=-1)
            mask = self.pick(ops.logical_and, ops.logical_or)(numbers, rows)
            elements = ops.logical_or(ops.expand_dims(mask, -1), ops.zeros_like(x, dtype="bool"))
            mask = next(others)(mask, elements)
            pairs = ops.logical_and(ops.expand_dims(mask, -1), ops.expand_dims(mask, -2))
            attention = L.MultiHeadAttention(2, 3, dropout=self.pick(0, 0.1))
            images = L.ConvLSTM1D(2, 2, return_sequences=self.flag(), go_backwards=self.flag())
            return self.pick(
                lambda: self.recurrent()(x, mask=mask), lambda: self.recurrent()(x, mask=mask),
                lambda: L.GlobalAveragePooling1D()(x, mask=mask), lambda: L.Softmax()(x, mask=elements),
                lambda: attention(x, x, attention_mask=pairs, use_causal_mask=self.flag()),
                lambda: images(ops.expand_dims(x, -1), mask=mask))()

        return self.several(self.sequences(), make)

    def steps_of_sequences(self):
        """TimeDistributed of layers with states and of models, with masks and without."""
        keras, L = self.keras, self.layers
        shape = (STEPS, DEPTH)

        def functional():
            x = keras.Input(shape)
            return keras.Model(x, L.Concatenate()([self.recurrent(return_sequences=False)(x), L.Flatten()(x)]))

        def make(x):
            y = L.Masking()(x) if self.flag() else x
            inner = self.pick(
                self.recurrent, self.both, functional,
                lambda: keras.Sequential([keras.Input(shape), L.Dense(2), self.recurrent()]),
                lambda: keras.Sequential([keras.Input(shape), L.TimeDistributed(L.Dense(2)), self.both()]),
                lambda: keras.Sequential([keras.Input(shape), functional(), L.Dense(3)]),
                L.GlobalAveragePooling1D)()
            return L.TimeDistributed(inner)(y)

        return self.several((keras.Input((ROWS, *shape)),), make)

    def convolutional_lstms(self):
        keras, L = self.keras, self.layers
        inputs = [keras.Input((3, *shape, 2)) for shape in ((6,), (5, 6), (4, 3, 5))]

        def make(*inputs):
            rank = self.pick(1, 2, 2, 3)
            dilates = rank != 3 and self.flag(0.3)
            sizes = lambda most: tuple(self.random.randint(1, most) for _ in range(rank))
            options = {"filters": self.random.randint(1, 3), "kernel_size": sizes(2 if dilates else 3),
                       "dilation_rate" if dilates else "strides": sizes(2), "padding": self.pick("valid", "same"),
                       "return_sequences": self.flag(), "use_bias": self.flag(0.8),
                       "activation": self.pick("tanh", "relu"), "recurrent_activation": "sigmoid"}
            layer = getattr(L, f"ConvLSTM{rank}D")
            if self.flag(0.2):
                return L.Bidirectional(layer(**options))(inputs[rank - 1])
            return layer(go_backwards=self.flag(), **options)(inputs[rank - 1])

        return self.several(inputs, make)

    def einsum_dense(self):
        keras, L = self.keras, self.layers
        sizes = dict(zip("bcdefgh", (2, 3, 4, 5, 6, 7, 8)))
        inputs = [keras.Input(tuple(sizes[letter] for letter in "bcd"[:rank])) for rank in (1, 2, 3)]

        def make(*inputs):
            rank, new = self.random.randint(1, 3), "gh"[:self.random.randint(0, 2)]
            own = "bcd"[:rank]
            dots = self.pick("", "left", "right") if rank > 1 else ""
            part = {"": own, "left": own[1:], "right": own[:-1]}[dots]
            summed = "".join(self.random.sample(part, self.random.randint(1, len(part))))
            kept = "".join(letter for letter in part if letter not in summed)
            weights = "".join(self.random.sample(summed + new, len(summed + new)))
            result = kept + new if self.flag() else "".join(self.random.sample(kept + new, len(kept + new)))
            if not result:
                return make(*inputs)
            before, behind = {"": ("a", ""), "left": ("...", ""), "right": ("a", "...")}[dots]
            bias = "".join(letter for letter in result if self.flag()) or None
            layer = L.EinsumDense(f"{before}{part}{behind},{weights}->{before}{result}{behind}",
                                  output_shape=tuple(sizes[letter] for letter in result), bias_axes=bias,
                                  activation=self.pick(None, "relu"))
            return layer(inputs[rank - 1])

        return self.several(inputs, make)

    def constants(self):
        """Arrays among the inputs of layers and functions."""
        keras, L = self.keras, self.layers
        shape, numbers = (2, 3, 4), np.random.default_rng(self.random.randint(0, 999))

        def array(rank):
            sizes = [size if self.flag(0.7) else 1 for size in (1, *shape)][4 - rank:]
            return numbers.uniform(0.5, 2, sizes).astype("float32")

        def make(x):
            c, y = array(self.random.randint(1, 4)), L.ReLU()(x)
            operators = [lambda: y + c, lambda: y - c, lambda: y * c, lambda: y / c]
            if self.is_3:
                layer = self.pick("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")
                operators += [lambda: getattr(L, layer)()([y, array(4)]), lambda: keras.ops.subtract(c, y),
                              lambda: keras.ops.divide(y, keras.ops.convert_to_tensor(c)),
                              lambda: keras.ops.add(y, np.arange(4)), lambda: keras.ops.maximum(y, c)]
            return self.pick(*operators)()

        return self.several((keras.Input(shape),), make)

    def outputs(self):
        """Tensors that are several outputs, and inputs that are outputs."""
        x = self.keras.Input((3, 4))
        y = [x, self.layers.ReLU()(x), self.layers.Permute((2, 1))(x)]
        y.append(self.layers.Dropout(0.5)(y[1]))
        inner = self.keras.Model(x, [self.pick(*y) for _ in range(self.count)])
        x = self.keras.Input((3, 4))
        y = [x, *inner(x)]
        return self.keras.Model(x, [self.pick(*y) for _ in range(self.count)])


def models(keras):
    """Name -> a function that makes the model."""
    variants = Variants(keras)
    features = [variants.outputs, variants.constants, variants.einsum_dense, variants.steps_of_sequences,
                variants.masks, variants.masks_of_models, variants.masks_beside_states, variants.masks_of_attention,
                variants.convolutional_lstms]
    if variants.is_3:
        features.append(variants.masks_by_functions)
    for make in features:
        yield "variants of " + make.__name__, make

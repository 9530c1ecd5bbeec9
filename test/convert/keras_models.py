#!/usr/bin/env python3
"""Compares Keras models that are made here with what the quern command computes from their .h5 files.

    test/convert/keras_models.py QUERN [NAME]

Makes a small model with random weights for each layer that the importer knows, and some of several layers, nested and
shared ones, too; each file of Keras 3 is also rewritten as old versions wrote it. Fails, too, if a layer or an
activation of the importer's tables is in none of the models. Needs a build with libhdf5, and TensorFlow with Keras 3
or, with KERAS=tf_keras in the environment, with Keras 2; exits with 77 where there are none. With NAME, only models
whose name contains it. keras_variants.py makes random variants: SEED=2 VARIANTS=100 makes others, and more of them.
"""
import importlib, json, logging, os, pathlib, re, subprocess, sys, tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
for name in ("absl", "tensorflow"):
    logging.getLogger(name).setLevel("ERROR")  # .h5 is called old with each file
try:
    import h5py
    import keras_old
    import keras_variants
    import numpy as np
    keras = importlib.import_module(os.environ.get("KERAS", "keras"))
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

L = keras.layers
TOLERANCE, HALF_TOLERANCE = 1e-4, 5e-3  # of the largest element, or of 1; the latter where Keras computes with halves
IS_3 = keras.__version__ >= "3"
IMAGE, ROW, SEQUENCE = (9, 8, 6), (10,), (9, 6)
IMPORTER = pathlib.Path(__file__).resolve().parents[2] / "src" / "convert" / "keras"
# Names of layers in old files alone, of a layer that is known to be refused, and of one that no file of Keras has.
NEVER_MADE = {"BatchNormalizationV1", "BatchNormalizationV2", "Convolution1D", "Convolution2D",
              "Convolution2DTranspose", "StochasticDepth"}
ONLY_2 = {"RandomBrightness", "TFOpLambda", "ThresholdedReLU"}  # Keras 3 does not save the first one
ONLY_3 = {"All", "Any", "CenterCrop", "ConvertToTensor", "Divide", "Equal", "ExpandDims", "Greater", "GreaterEqual",
          "GroupedQueryAttention", "Identity", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "NotEqual",
          "OnesLike", "RMSNormalization", "TrueDivide", "ZerosLike"}


def rows(name, value):
    """The names in the importer's tables whose rows have this form."""
    return {found for path in IMPORTER.glob(name) for found in re.findall(r'\{"(\w+)", ' + value, path.read_text())}


def functions():
    """The activations that both the importer and this Keras know."""
    known = rows("functions.cc", r"\w+\},")
    missing = {name for name in known if not hasattr(keras.activations, name)}
    if missing:
        print("this Keras has no activations", *sorted(missing))
    return known - missing


def missing_layers(made):
    """The layers that the importer reads, and that are in none of the models."""
    return rows("*.cc", r"\{[a-z]\w+(?:<\"\w+\">)?, \d, ") - made - NEVER_MADE - (ONLY_2 if IS_3 else ONLY_3)


def layer_models():
    """Name -> (shape of the input, layer)."""
    models = {}

    def add(shape, layer_type, **options):
        name = layer_type + "".join(f" {key}={value}" for key, value in options.items())
        if hasattr(L, layer_type):
            models[name] = (shape, getattr(L, layer_type)(**options))
        else:
            print(f"this Keras has no {layer_type}")

    for padding in ("valid", "same"):
        add(IMAGE, "Conv2D", filters=4, kernel_size=3, padding=padding)
        add(IMAGE, "Conv2D", filters=4, kernel_size=(2, 3), strides=2, padding=padding, activation="relu")
        add(IMAGE, "DepthwiseConv2D", kernel_size=3, strides=2, depth_multiplier=2, padding=padding)
        add(IMAGE, "SeparableConv2D", filters=5, kernel_size=3, depth_multiplier=2, padding=padding, activation="relu")
        add(SEQUENCE, "Conv1D", filters=4, kernel_size=3, strides=2, padding=padding)
        add(SEQUENCE, "DepthwiseConv1D", kernel_size=3, padding=padding)
        add(SEQUENCE, "SeparableConv1D", filters=5, kernel_size=3, padding=padding)
        for kind in ("Max", "Average"):
            add(IMAGE, kind + "Pooling2D", pool_size=(3, 2), strides=2, padding=padding)
            add(IMAGE, kind + "Pooling2D", pool_size=2, padding=padding)
            add(SEQUENCE, kind + "Pooling1D", pool_size=3, strides=2, padding=padding)
    add(IMAGE, "Conv2D", filters=6, kernel_size=3, dilation_rate=(2, 1), groups=2, use_bias=False)
    add(SEQUENCE, "Conv1D", filters=4, kernel_size=3, dilation_rate=2, padding="causal")
    for kind in ("GlobalMaxPooling", "GlobalAveragePooling"):
        for keepdims in (False, True):
            add(IMAGE, kind + "2D", keepdims=keepdims)
            add(SEQUENCE, kind + "1D", keepdims=keepdims)
    # TensorFlow's CPU kernels have channels first for few layers.
    add(IMAGE, "GlobalAveragePooling2D", data_format="channels_first")
    add(IMAGE, "Flatten", data_format="channels_first")
    add(IMAGE, "ZeroPadding2D", padding=((1, 2), (3, 0)), data_format="channels_first")
    add(IMAGE, "Cropping2D", cropping=((1, 2), (3, 0)), data_format="channels_first")
    add(IMAGE, "UpSampling2D", size=(2, 3), data_format="channels_first")
    for shape in (ROW, SEQUENCE, IMAGE):
        add(shape, "Dense", units=5, activation="softmax")
    for function in sorted(functions()):
        add(IMAGE, "Activation", activation=function)
    add(IMAGE, "ReLU"), add(IMAGE, "ReLU", max_value=0.5), add(IMAGE, "ReLU", negative_slope=0.25)
    add(IMAGE, "ReLU", negative_slope=0.25, max_value=0.5)
    add(IMAGE, "ReLU", threshold=0.5), add(IMAGE, "ReLU", threshold=0.5, max_value=1)
    add(IMAGE, "ReLU", negative_slope=0.25, threshold=0.5, max_value=1), add(IMAGE, "ThresholdedReLU", theta=0.5)
    add(IMAGE, "LeakyReLU"), add(IMAGE, "ELU", alpha=0.5)
    add(IMAGE, "PReLU"), add(IMAGE, "PReLU", shared_axes=[1, 2]), add(IMAGE, "PReLU", shared_axes=[2, 3])
    add(IMAGE, "PReLU", shared_axes=[2])
    add(IMAGE, "Softmax"), add(IMAGE, "Softmax", axis=1)
    add(IMAGE, "BatchNormalization"), add(IMAGE, "BatchNormalization", axis=1, scale=False)
    add(ROW, "BatchNormalization", center=False, epsilon=0.1)
    add(IMAGE, "Rescaling", scale=0.5, offset=-1.0)
    add(IMAGE, "Rescaling", scale=[1.0, 2, 3, 4, 5, 6], offset=0.5)
    for shape, axis in ((ROW, -1), (SEQUENCE, -1), (SEQUENCE, 1), (IMAGE, [1, 2, 3]), (IMAGE, [1, 2]), (IMAGE, [2])):
        add(shape, "LayerNormalization", axis=axis)
        add(shape, "UnitNormalization", axis=axis)
    add(IMAGE, "RMSNormalization"), add(IMAGE, "RMSNormalization", axis=[2, 3], epsilon=0.1)
    add(IMAGE, "LayerNormalization", center=False, epsilon=0.1), add(IMAGE, "LayerNormalization", scale=False)
    add(IMAGE, "GroupNormalization", groups=2), add(IMAGE, "GroupNormalization", groups=-1, epsilon=0.1, scale=False)
    add(IMAGE, "GroupNormalization", groups=3, axis=1, center=False), add(SEQUENCE, "GroupNormalization", groups=3)
    add(ROW, "GroupNormalization", groups=5)
    add(IMAGE, "Normalization", mean=0.5, variance=2.0), add(IMAGE, "Normalization", axis=-1)
    add(IMAGE, "Normalization", mean=[0.5] * 6, variance=[1.0, 2, 3, 4, 5, 6], invert=True)
    add(IMAGE, "Flatten"), add(IMAGE, "Reshape", target_shape=(4, -1, 3)), add(IMAGE, "Permute", dims=(3, 1, 2))
    add(ROW, "RepeatVector", n=3)
    add(IMAGE, "ZeroPadding2D", padding=2), add(IMAGE, "ZeroPadding2D", padding=((1, 2), (3, 0)))
    add(IMAGE, "CenterCrop", height=4, width=5), add(IMAGE, "Identity")
    add(IMAGE, "Cropping2D", cropping=(1, 2)), add(IMAGE, "Cropping2D", cropping=((1, 2), (3, 0)))
    add(SEQUENCE, "ZeroPadding1D", padding=(1, 2)), add(SEQUENCE, "Cropping1D", cropping=(2, 1))
    for interpolation in ("nearest", "bilinear"):
        add(IMAGE, "UpSampling2D", size=(2, 3), interpolation=interpolation)
        add(IMAGE, "Resizing", height=13, width=5, interpolation=interpolation)
    add(SEQUENCE, "UpSampling1D", size=3)
    add(SEQUENCE, "SpatialDropout1D", rate=0.5), add((2, *IMAGE), "SpatialDropout3D", rate=0.5)
    for name in ("Dropout", "SpatialDropout2D", "GaussianNoise", "GaussianDropout", "AlphaDropout"):
        add(IMAGE, name, **{"stddev" if name == "GaussianNoise" else "rate": 0.5})
    add(IMAGE, "ActivityRegularization", l1=0.1)
    add(IMAGE, "RandomFlip"), add(IMAGE, "RandomRotation", factor=0.2), add(IMAGE, "RandomZoom", height_factor=0.2)
    if not IS_3:
        add(IMAGE, "RandomBrightness", factor=0.2)
    add(IMAGE, "RandomContrast", factor=0.2), add(IMAGE, "RandomTranslation", height_factor=0.2, width_factor=0.2)
    transposed_models(add)
    recurrent_models(add)
    return models


def transposed_models(add):
    for padding in ("valid", "same"):
        for kernel, stride in ((3, 1), (3, 2), (2, 3), ((4, 1), 2), (5, (3, 2))):
            add(IMAGE, "Conv2DTranspose", filters=4, kernel_size=kernel, strides=stride, padding=padding)
        add(IMAGE, "Conv2DTranspose", filters=4, kernel_size=3, strides=2, padding=padding, output_padding=1)
        add(IMAGE, "Conv2DTranspose", filters=4, kernel_size=4, strides=3, padding=padding, output_padding=(1, 2))
        add(SEQUENCE, "Conv1DTranspose", filters=4, kernel_size=3, strides=2, padding=padding, activation="relu")
        add(SEQUENCE, "Conv1DTranspose", filters=4, kernel_size=2, strides=3, padding=padding, use_bias=False)
        add(SEQUENCE, "Conv1DTranspose", filters=4, kernel_size=4, strides=3, padding=padding, output_padding=1)


def recurrent_models(add):
    for cell in ("SimpleRNN", "GRU", "LSTM"):
        add(SEQUENCE, cell, units=5), add(SEQUENCE, cell, units=5, return_sequences=True)
        add(SEQUENCE, cell, units=5, go_backwards=True), add(SEQUENCE, cell, units=5, use_bias=False, activation="relu")
        add(SEQUENCE, cell, units=5, go_backwards=True, return_sequences=True, return_state=True, dropout=0.5)
    gates = {"activation": "softsign", "recurrent_activation": "hard_sigmoid"}
    add(SEQUENCE, "GRU", units=5, **gates), add(SEQUENCE, "LSTM", units=5, **gates)
    for function in ("elu", "leaky_relu", "linear", "softplus"):
        if hasattr(keras.activations, function):
            add(SEQUENCE, "SimpleRNN", units=5, activation=function)
    add(SEQUENCE, "GRU", units=5, reset_after=False)
    add(SEQUENCE, "GRU", units=5, reset_after=False, use_bias=False, recurrent_activation="tanh")


def wrapped_models():
    def of(shape, layer):
        x = keras.Input(shape)
        return keras.Model(x, layer(x))

    for mode in ("concat", "sum", "mul", "ave", None):
        yield f"Bidirectional {mode}", lambda mode=mode: of(SEQUENCE, L.Bidirectional(L.LSTM(3, return_sequences=True),
                                                                                      merge_mode=mode))
    yield "Bidirectional last", lambda: of(SEQUENCE, L.Bidirectional(L.GRU(3)))
    yield "Bidirectional states", lambda: of(SEQUENCE, L.Bidirectional(L.LSTM(3, return_state=True)))
    yield "Bidirectional of two", lambda: of(SEQUENCE, L.Bidirectional(
        L.GRU(3, return_sequences=True), backward_layer=L.SimpleRNN(3, return_sequences=True, go_backwards=True)))
    yield "TimeDistributed Dense", lambda: of(SEQUENCE, L.TimeDistributed(L.Dense(3, activation="relu")))
    yield "TimeDistributed Conv2D", lambda: of((4, *IMAGE), L.TimeDistributed(L.Conv2D(3, 3, strides=2)))
    yield "TimeDistributed Flatten", lambda: of((4, *IMAGE), L.TimeDistributed(L.Flatten()))
    yield "TimeDistributed BatchNormalization", lambda: of((4, *IMAGE), L.TimeDistributed(L.BatchNormalization()))
    yield "TimeDistributed Dropout", lambda: of(SEQUENCE, L.TimeDistributed(L.Dropout(0.5)))


def states():
    """A decoder that begins with the states of an encoder, of which each has two states or one."""
    x, y = keras.Input(SEQUENCE), keras.Input((4, 3))
    _, h, c = L.LSTM(5, return_state=True)(x)
    z = L.LSTM(5, return_sequences=True)(y, initial_state=[h, c])
    _, forward, backward = L.Bidirectional(L.GRU(5, return_state=True))(x)
    return keras.Model([x, y], [z, L.GRU(5)(y, initial_state=h),
                                L.Bidirectional(L.GRU(5))(y, initial_state=[forward, backward])])


def recurrent_within():
    x = keras.Input(SEQUENCE)
    inner = keras.Sequential([keras.Input(SEQUENCE), L.Bidirectional(L.LSTM(3, return_sequences=True)),
                              L.TimeDistributed(L.Dense(6)), L.GRU(6, return_sequences=True)], name="inner")
    return keras.Model(x, inner(inner(x)))


def indices():
    x = keras.Input((7,), dtype="int32")
    return keras.Model(x, L.LSTM(5)(L.Embedding(11, 4)(x)))


def indices_of_floats():
    return keras.Sequential([keras.Input((7,)), L.Embedding(11, 4), L.GlobalAveragePooling1D()])


def dots():
    a, b, c = keras.Input((5, 4)), keras.Input((3, 4)), keras.Input((4,))
    return keras.Model([a, b, c], [L.Dot(axes=2)([a, b]), L.Dot(axes=(2, 1))([a, c]), L.Dot(axes=1)([c, c]),
                                   L.Dot(axes=-1, normalize=True)([b, a])])


def attention():
    q, v, k = keras.Input((5, 4)), keras.Input((3, 6)), keras.Input((3, 4))
    return keras.Model([q, v, k], [L.Attention()([q, v, k]), L.Attention(use_scale=True)([k, k]),
                                   L.Attention()([q, q], use_causal_mask=True)])


def heads():
    q, v, k = keras.Input((5, 4)), keras.Input((3, 6)), keras.Input((3, 4))
    outputs = [L.MultiHeadAttention(2, 3)(q, v), L.MultiHeadAttention(3, 2, value_dim=5, use_bias=False)(q, v, k),
               L.MultiHeadAttention(2, 3, output_shape=7)(query=q, value=v, key=k),
               L.MultiHeadAttention(2, 3)(q, q, use_causal_mask=True)]
    if IS_3:
        outputs.append(L.GroupQueryAttention(3, 4, 2)(q, k))
    return keras.Model([q, v, k], outputs)


def transformer():
    x = keras.Input((5, 8))
    y = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)]))
    z = L.Dense(8)(L.Dense(16, activation="gelu")(y))
    block = keras.Model(x, L.LayerNormalization()(L.Add()([y, z])), name="block")
    x = keras.Input((5, 8))
    return keras.Model(x, L.GlobalAveragePooling1D()(block(block(x))))


def merging(name):
    a, b = keras.Input(IMAGE), keras.Input(IMAGE)
    more = [] if name == "Subtract" else [L.ReLU()(a)]
    options = {"axis": 1} if name == "Concatenate" else {}
    return keras.Model([a, b], getattr(L, name)(**options)([a, b] + more))


def residual():
    x = keras.Input(IMAGE)
    y = L.Conv2D(6, 3, padding="same", use_bias=False)(x)
    y = L.BatchNormalization()(y)
    y = L.ReLU(6.0)(L.Add()([x, y]))
    y = L.GlobalAveragePooling2D()(y)
    return keras.Model(x, [L.Dense(3, activation="softmax", name="scores")(y), L.Dense(1, name="size")(y)])


def shared():
    x = keras.Input(ROW)
    once, twice = L.Dense(10, activation="tanh"), L.Dense(10)
    return keras.Model(x, twice(once(twice(once(once(x))))))


def nested():
    body = keras.Sequential([keras.Input(IMAGE), L.Conv2D(6, 3, padding="same"), L.BatchNormalization()], name="body")
    a, b = keras.Input(IMAGE), keras.Input(IMAGE)
    c = L.Conv2D(6, 1, name="mix")
    pair = keras.Model([a, b], [L.Add()([c(a), b]), L.Multiply()([a, c(b)])], name="pair")
    x = keras.Input(IMAGE)
    first, second = pair([body(x), x])
    third, fourth = pair([second, first])
    return keras.Model(x, [third, body(fourth)])


def nested_twice():
    inner = keras.Sequential([L.Conv2D(4, 3, name="conv"), L.ReLU()], name="inner")
    x = keras.Input(IMAGE)
    middle = keras.Model(x, L.Conv2D(6, 1, name="last")(inner(x)), name="middle")
    outer = keras.Sequential([keras.Input(IMAGE), L.Conv2D(6, 1, name="conv"), middle, L.Flatten(), L.Dense(3)])
    return outer


def slashes():
    return keras.Sequential([keras.Input(IMAGE), L.Conv2D(4, 3, name="block"), L.Conv2D(4, 1, name="block_conv")])


def sequential_without_input():
    model = keras.Sequential([L.Conv2D(4, 3), L.Flatten(), L.Dense(2)])
    model(np.zeros((1, *IMAGE), np.float32))
    return model


def operators():
    x = keras.Input(IMAGE)
    y = L.ReLU(6.0)(x + 3.0) * (1 / 6)
    return keras.Model(x, (2.0 - y) * x + (y - x) / 3.0)


def mixed_precision():
    x = keras.Input(IMAGE)
    return keras.Model(x, L.Dense(4, dtype="float32")(L.Conv2D(4, 3, dtype="mixed_float16")(x)))


def applications():
    """Networks that come with Keras, for small images."""
    sizes = {"ConvNeXtTiny": 32, "EfficientNetV2B0": 32, "InceptionResNetV2": 75, "MobileNetV3Small": 32,
             "NASNetMobile": 32, "ResNet50V2": 32}
    for name, size in sizes.items():
        if hasattr(keras.applications, name):
            make = getattr(keras.applications, name)
            yield name, lambda make=make, size=size: make(weights=None, input_shape=(size, size, 3), classes=10)


def models():
    for name, (shape, layer) in layer_models().items():
        x = keras.Input(shape)
        yield name, lambda x=x, layer=layer: keras.Model(x, layer(x))
    for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
        yield name, lambda name=name: merging(name)
    yield from wrapped_models()
    yield from applications()
    for make in (states, recurrent_within, indices, indices_of_floats, dots, attention, heads, transformer):
        yield make.__name__, make
    if IS_3:
        yield "divide", lambda: keras.Model(x := keras.Input(ROW), keras.ops.divide(x, x * x + 1.0))
    for make in (residual, shared, nested, nested_twice, slashes, sequential_without_input, operators, mixed_precision):
        yield make.__name__, make
    yield from keras_variants.models(keras)


def randomize(model, random):
    """Random weights, but for statistics, which are positive."""
    weights = []
    for weight in model.weights:
        # Kernels that keep numbers as large as they are, also in deep networks.
        depth = float(np.prod(weight.shape[:-1])) if len(model.weights) > 60 and len(weight.shape) > 1 else 3.0
        value = random.uniform(-1, 1, weight.shape) * np.sqrt(3.0 / depth)
        positive = "variance" in weight.name
        is_real = "float" in str(weight.dtype)
        weights.append((np.abs(value) + 0.5 if positive else value) if is_real else weight.numpy())
    model.set_weights(weights)
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):  # Normalization computes with copies of its weights
            layer.finalize_state()


def layers_of(config):
    """The types of all layers in a configuration."""
    if isinstance(config, list):
        return set().union(*map(layers_of, config)) if config else set()
    if not isinstance(config, dict):
        return set()
    own = {config["class_name"]} if isinstance(config.get("class_name"), str) else set()
    return own.union(*map(layers_of, config.values()))


def input_of(tensor, is_index, has_masks, random):
    shape = (2, *tensor.shape[1:])
    if has_masks:
        return input_with_masks(tensor, random)
    if not is_index:
        return random.uniform(-2, 2, shape).astype(np.float32)
    return random.integers(0, 11, shape).astype("int32" if "int" in str(tensor.dtype) else "float32")


def input_with_masks(tensor, random):
    """Steps of 0 and of 1, which masks leave out, in each sequence but the first; none but these in the last one."""
    shape = (4, *tensor.shape[1:])
    if "int" in str(tensor.dtype):
        return random.integers(0, 4, shape).astype("int32") * (np.arange(4) < 3).reshape(4, 1).astype("int32")
    x, numbers = random.uniform(-2, 2, shape).astype(np.float32), random.choice([0.0, 0.0, 1.0], (*shape[:-1], 1))
    left_out = random.uniform(0, 1, (*shape[:-1], 1)) < np.array([0, 0.3, 0.6, 1]).reshape(4, *[1] * (len(shape) - 1))
    return np.where(left_out, numbers, x).astype(np.float32)


def difference(quern, path, model, inputs, want):
    """Runs the file; returns the largest difference, or what is wrong."""
    folder = os.path.dirname(path)
    command = [quern, "run", path, "--output", folder]
    described = subprocess.run([quern, "info", "--json", path], capture_output=True, text=True, check=True)
    info = json.loads(described.stdout)
    names, outputs = ([port["name"] for port in info[kind]] for kind in ("inputs", "outputs"))
    for name, x in zip([t._keras_history[0].name for t in model.inputs] if len(inputs) > 1 else names, inputs):
        np.save(os.path.join(folder, f"x{len(command)}.npy"), x)
        command += ["--input", f"{name}={os.path.join(folder, f'x{len(command)}.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    is_half = "float16" in str([getattr(layer, "dtype_policy", "") for layer in model.layers[:2]])
    worst = 0.0
    for name, y in zip(outputs, want, strict=True):
        got = np.load(os.path.join(folder, name.replace("/", "_").replace(":", "_") + ".npy"))
        if got.shape != y.shape:
            return f"{name}: shape {got.shape} instead of {y.shape}"
        if not np.array_equal(np.isnan(got), np.isnan(y)):
            return f"{name}: NaN in other places"
        got, y = np.nan_to_num(got), np.nan_to_num(y)  # the mean of no steps is NaN
        error = float(np.abs(got - y).max()) / max(1.0, float(np.abs(y).max()))
        if not error <= (HALF_TOLERANCE if is_half else TOLERANCE):
            return f"{name} differs by {error:.2e}"
        worst = max(worst, 0.0 if is_half else error)
    return worst


def compare(quern, model, random, folder, made):
    """Yields, for the file as Keras writes it and as older versions did, the largest difference or what is wrong."""
    randomize(model, random)
    path = os.path.join(folder, "model.h5")
    model.save(path)
    with h5py.File(path) as file:
        types = layers_of(json.loads(file.attrs["model_config"]))
    made |= {layer.removeprefix("Custom>") for layer in types}
    has_masks = "Masking" in types or "NotEqual" in types
    inputs = [input_of(t, "Embedding" in types, has_masks, random) for t in model.inputs]
    want = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    want = [np.array(y) for y in (want if isinstance(want, (list, tuple)) else [want])]
    yield difference(quern, path, model, inputs, want)
    if IS_3:
        try:
            keras_old.rewrite(path)
        except keras_old.NotOld:
            return
        result = difference(quern, path, model, inputs, want)
        yield "as an old file: " + result if isinstance(result, str) else result


def results_of(quern, make, random, made):
    results = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            results += compare(quern, make(), random, folder, made)
        except subprocess.CalledProcessError as error:
            results.append(error.stderr.strip())
        except Exception as error:
            results.append(f"Keras says {type(error).__name__}: {error}")
    return results


def main():
    quern, part = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2] if len(sys.argv) > 2 else ""
    random = np.random.default_rng(7)
    failed, count, worst, made = 0, 0, 0.0, set()
    for name, make in models():
        if part not in name:
            continue
        results = results_of(quern, make, random, made)
        for problem in (result for result in results if isinstance(result, str)):
            failed += 1
            print(f"FAIL  {name}: {problem}")
        count += len(results)
        worst = max([worst, *(result for result in results if not isinstance(result, str))])
    missing = set() if part else missing_layers(made)
    if missing:
        print("FAIL  no model has the layers", *sorted(missing))
    print(f"Keras {keras.__version__}: {count - failed} agree, {failed} differ, largest difference {worst:.1e}")
    return failed > 0 or count == 0 or len(missing) > 0


if __name__ == "__main__":
    sys.exit(main())

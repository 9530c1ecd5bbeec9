#!/usr/bin/env python3
"""Compares Keras models that are made here with what the quern command computes from their .h5 files.

    test/convert/keras_models.py QUERN [NAME]

Makes a small model with random weights for each layer that the importer knows, and some of several layers, nested and
shared ones, too. Needs a build with libhdf5, and TensorFlow with Keras 3 or, with KERAS=tf_keras in the environment,
with Keras 2; exits with 77 where there are none. With NAME, only models whose name contains it.
"""
import importlib, os, pathlib, subprocess, sys, tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
try:
    import numpy as np
    keras = importlib.import_module(os.environ.get("KERAS", "keras"))
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

L = keras.layers
TOLERANCE, HALF_TOLERANCE = 1e-4, 5e-3  # of the largest element, or of 1; the latter where Keras computes with halves
IS_3 = keras.__version__ >= "3"
IMAGE, ROW, SEQUENCE = (9, 8, 6), (10,), (9, 6)


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
    functions = ["linear", "relu", "sigmoid", "tanh", "elu", "selu", "exponential", "hard_sigmoid", "softmax",
                 "softsign", "swish", "relu6", "leaky_relu"] + (["silu", "hard_swish", "hard_silu", "hard_tanh"] if IS_3 else [])
    for function in functions:
        add(IMAGE, "Activation", activation=function)
    add(IMAGE, "ReLU"), add(IMAGE, "ReLU", max_value=0.5), add(IMAGE, "ReLU", negative_slope=0.25)
    add(IMAGE, "ReLU", negative_slope=0.25, max_value=0.5)
    add(IMAGE, "LeakyReLU"), add(IMAGE, "ELU", alpha=0.5)
    add(IMAGE, "PReLU"), add(IMAGE, "PReLU", shared_axes=[1, 2]), add(IMAGE, "PReLU", shared_axes=[2, 3])
    add(IMAGE, "PReLU", shared_axes=[2])
    add(IMAGE, "Softmax"), add(IMAGE, "Softmax", axis=1)
    add(IMAGE, "BatchNormalization"), add(IMAGE, "BatchNormalization", axis=1, scale=False)
    add(ROW, "BatchNormalization", center=False, epsilon=0.1)
    add(IMAGE, "Rescaling", scale=0.5, offset=-1.0)
    add(IMAGE, "Normalization", mean=0.5, variance=2.0), add(IMAGE, "Normalization", axis=-1)
    add(IMAGE, "Normalization", mean=[0.5] * 6, variance=[1.0, 2, 3, 4, 5, 6], invert=True)
    add(IMAGE, "Flatten"), add(IMAGE, "Reshape", target_shape=(4, -1, 3)), add(IMAGE, "Permute", dims=(3, 1, 2))
    add(ROW, "RepeatVector", n=3)
    add(IMAGE, "ZeroPadding2D", padding=2), add(IMAGE, "ZeroPadding2D", padding=((1, 2), (3, 0)))
    add(IMAGE, "Cropping2D", cropping=(1, 2)), add(IMAGE, "Cropping2D", cropping=((1, 2), (3, 0)))
    add(SEQUENCE, "ZeroPadding1D", padding=(1, 2)), add(SEQUENCE, "Cropping1D", cropping=(2, 1))
    for interpolation in ("nearest", "bilinear"):
        add(IMAGE, "UpSampling2D", size=(2, 3), interpolation=interpolation)
        add(IMAGE, "Resizing", height=13, width=5, interpolation=interpolation)
    add(SEQUENCE, "UpSampling1D", size=3)
    for name in ("Dropout", "SpatialDropout2D", "GaussianNoise", "GaussianDropout", "AlphaDropout"):
        add(IMAGE, name, **{"stddev" if name == "GaussianNoise" else "rate": 0.5})
    add(IMAGE, "ActivityRegularization", l1=0.1)
    add(IMAGE, "RandomFlip"), add(IMAGE, "RandomRotation", factor=0.2), add(IMAGE, "RandomZoom", height_factor=0.2)
    add(IMAGE, "RandomContrast", factor=0.2), add(IMAGE, "RandomTranslation", height_factor=0.2, width_factor=0.2)
    return models


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
    return keras.Model(x, (2.0 - y) * x + (y - x))


def mixed_precision():
    x = keras.Input(IMAGE)
    return keras.Model(x, L.Dense(4, dtype="float32")(L.Conv2D(4, 3, dtype="mixed_float16")(x)))


def models():
    for name, (shape, layer) in layer_models().items():
        x = keras.Input(shape)
        yield name, lambda x=x, layer=layer: keras.Model(x, layer(x))
    for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
        yield name, lambda name=name: merging(name)
    for make in (residual, shared, nested, nested_twice, slashes, sequential_without_input, operators, mixed_precision):
        yield make.__name__, make


def randomize(model, random):
    """Random weights, but for statistics, which are positive."""
    weights = []
    for weight in model.weights:
        value = random.uniform(-1, 1, weight.shape)
        positive = "variance" in weight.name
        is_real = "float" in str(weight.dtype)
        weights.append((np.abs(value) + 0.5 if positive else value) if is_real else weight.numpy())
    model.set_weights(weights)
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):  # Normalization computes with copies of its weights
            layer.finalize_state()


def compare(quern, model, random, folder):
    randomize(model, random)
    path = os.path.join(folder, "model.h5")
    model.save(path)
    inputs = [random.uniform(-2, 2, (2, *t.shape[1:])).astype(np.float32) for t in model.inputs]
    want = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    want = [np.array(y) for y in (want if isinstance(want, (list, tuple)) else [want])]
    command = [quern, "run", path, "--output", folder]
    info = subprocess.run([quern, "info", path], capture_output=True, text=True, check=True).stdout.splitlines()
    names, outputs = ([line.split()[1] for line in info if line.startswith(kind)] for kind in ("input", "output"))
    for name, x in zip([t._keras_history[0].name for t in model.inputs] if len(inputs) > 1 else names, inputs):
        np.save(os.path.join(folder, f"x{len(command)}.npy"), x)
        command += ["--input", f"{name}={os.path.join(folder, f'x{len(command)}.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    is_half = "float16" in str(getattr(model.layers[1], "dtype_policy", ""))
    worst = 0.0
    for name, y in zip(outputs, want, strict=True):
        got = np.load(os.path.join(folder, name.replace("/", "_").replace(":", "_") + ".npy"))
        if got.shape != y.shape:
            return f"shape {got.shape} instead of {y.shape}"
        error = float(np.abs(got - y).max()) / max(1.0, float(np.abs(y).max()))
        if not error <= (HALF_TOLERANCE if is_half else TOLERANCE):
            return f"differs by {error:.2e}"
        worst = max(worst, 0.0 if is_half else error)
    return worst


def main():
    quern, part = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2] if len(sys.argv) > 2 else ""
    random = np.random.default_rng(7)
    failed, count, worst = 0, 0, 0.0
    for name, make in models():
        if part not in name:
            continue
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = compare(quern, make(), random, folder)
            except subprocess.CalledProcessError as error:
                result = error.stderr.strip()
        if isinstance(result, str):
            failed += 1
            print(f"FAIL  {name}: {result}")
        else:
            worst = max(worst, result)
    print(f"Keras {keras.__version__}: {count - failed} of {count} models agree, largest difference {worst:.1e}")
    return failed > 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())

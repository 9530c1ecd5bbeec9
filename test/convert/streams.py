#!/usr/bin/env python3
"""Compares recurrent models with ONNX Runtime over a recording, each engine carrying its own states; --time also times them.

    test/convert/streams.py build/release $QUERN_ASSETS [--time] [--only NAME]

Runs the voice detectors and noise suppressors of the assets on 60 s of speech at 16 kHz, chunk after chunk, and compares
every output of every chunk. Quern runs through streams.c, ONNX Runtime through IO binding: both read inputs where they lie
and swap buffers for the states. With --time the engines take turns, in blocks of 50 chunks, on
one thread; each call is timed alone. Exits with 1 if an output differs. Needs numpy and onnxruntime (77 without them).
"""
import argparse, ctypes, pathlib, subprocess, sys, tempfile, time, wave

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOLERANCE = 1e-4  # of the largest element, or of 1
BLOCK = 50  # chunks that an engine runs in turn


def silero(samples):
    """512 samples, with the last 64 of the chunk before in front of them."""
    padded = np.concatenate([np.zeros(64, np.float32), samples])
    for at in range(0, len(samples) - 511, 512):
        yield {"input": padded[at:at + 576][None], "sr": np.array(16000, np.int64)}


def dtln(samples):
    """Magnitudes of the spectrum of 512 samples, every 128 samples."""
    for at in range(0, len(samples) - 511, 128):
        yield {"input_2": np.abs(np.fft.rfft(samples[at:at + 512])).astype(np.float32)[None, None]}


# Name, the models for Quern and for ONNX Runtime, what makes chunks, the outputs of the two models (the second is what a
# state carries), and the state's input and shape.
SILERO_OUTPUTS = {"output": "output", "stateN": "stateN"}
DTLN = "onnx/dtln_model_1.onnx"
MODELS = [
    ("silero_vad", "onnx/silero_vad.onnx", "onnx/silero_vad.onnx", silero, SILERO_OUTPUTS, ("state", (2, 1, 128))),
    ("silero_vad_16k_op15", "onnx/silero_vad_16k_op15.onnx", "onnx/silero_vad_16k_op15.onnx", silero, SILERO_OUTPUTS,
     ("state", (2, 1, 128))),
    ("dtln_model_1 onnx", DTLN, DTLN, dtln,
     {name: name for name in ("activation_2", "tf_op_layer_stack_2")}, ("input_3", (1, 2, 128, 2))),
    ("dtln_model_1 tflite", "tflite/dtln_model_1.tflite", DTLN, dtln,
     {"Identity": "activation_2", "Identity_1": "tf_op_layer_stack_2"}, ("input_3", (1, 2, 128, 2))),
]


def recording(assets):
    with wave.open(str(assets / "audio/silero_test_16k.wav")) as file:
        assert file.getframerate() == 16000 and file.getnchannels() == 1 and file.getsampwidth() == 2
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


class Quern:
    """A session of the library, by the functions of streams.c."""

    def __init__(self, library, model, first):
        self.lib = ctypes.CDLL(str(library))
        for name in ("open_session", "output"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.message.restype = ctypes.c_char_p
        self.path = str(model).encode()
        self.session = ctypes.c_void_p(self.lib.open_session(self.path))
        self.check(self.session.value is not None)
        self.buffers = {name: np.empty_like(value) for name, value in first.items()}
        for name, value in self.buffers.items():
            shape = (ctypes.c_size_t * 8)(*value.shape)
            self.check(self.lib.set_input(self.session, self.lib.find_port(self.path, 0, name.encode()), value.ndim, shape,
                                          ctypes.c_void_p(value.ctypes.data), ctypes.c_size_t(value.nbytes)) == 0)

    def check(self, fine):
        if not fine:
            sys.exit(f"quern: {self.lib.message().decode()}")

    def run(self):
        if self.lib.run(self.session) != 0:
            self.check(False)

    def result(self, name, like):
        data = self.lib.output(self.session, self.lib.find_port(self.path, 1, name.encode()))
        self.check(data)
        return np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), like.shape).copy()


class OnnxRuntime:
    """Two bindings take turns: the state that one writes, the other one reads."""

    def __init__(self, path, first, states, shapes):
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.buffers = {name: np.empty_like(value) for name, value in first.items()}
        self.results = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        pairs = [{i: np.zeros(shapes[o], np.float32) for i, o in states} for _ in range(2)]
        self.bindings = [self.bind(states, pairs[k], pairs[1 - k]) for k in range(2)]
        self.next = 0

    def bind(self, states, read, written):
        binding = self.session.io_binding()
        by_output = {o: written[i] for i, o in states}
        for name, value in {**self.buffers, **read}.items():
            binding.bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
        for name, value in {**self.results, **by_output}.items():
            binding.bind_output(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
        return binding, by_output

    def run(self):
        self.session.run_with_iobinding(self.bindings[self.next][0])
        self.next = 1 - self.next

    def result(self, name):
        last = self.bindings[1 - self.next][1]
        return last.get(name, self.results[name])


def feed(engine, chunk):
    for name, value in chunk.items():
        engine.buffers[name][...] = value


def compare(quern, other, chunks, outputs):
    """Returns the largest difference of each output, relative to the largest element of a chunk or to 1."""
    worst = dict.fromkeys(outputs, 0.0)
    for chunk in chunks:
        for engine in (quern, other):
            feed(engine, chunk)
            engine.run()
        for name, other_name in outputs.items():
            want = other.result(other_name)
            error = np.abs(quern.result(name, want) - want).max() / max(1, np.abs(want).max())
            worst[name] = max(worst[name], error) if error == error else np.inf
    return worst


def timed(engine, chunk):
    feed(engine, chunk)
    start = time.perf_counter_ns()
    engine.run()
    return time.perf_counter_ns() - start


def take_turns(quern, other, chunks):
    times = {quern: [], other: []}
    for at in range(0, len(chunks), BLOCK):
        for engine in (quern, other):
            times[engine] += [timed(engine, chunk) for chunk in chunks[at:at + BLOCK]]
    return [np.median(times[engine]) / 1000 for engine in (quern, other)]


def convert(build, folder, assets, model, state):
    target = folder / "model.qn"
    subprocess.run([build / "src/tool/quern", "convert", assets / "models" / model, "--state", "=".join(state),
                    "-o", target], check=True)
    return target


def build_library(build, folder):
    library, source = folder / "streams.so", build / "src"
    here = pathlib.Path(__file__).resolve().parent
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-DQN_STATIC", f"-I{here.parents[1] / 'include'}", here / "streams.c",
                    source / "extra/libquern-extra.a", source / "libquern.a", "-lstdc++", "-lm", "-lpthreadpool", "-lcpuinfo",
                    "-o", library], check=True)
    return library


def try_model(arguments, folder, library, samples, row):
    title, model, other_model, cut, outputs, (state, shape) = row
    chunks, path = list(cut(samples)), arguments.assets / "models" / other_model
    converted = convert(arguments.build, folder, arguments.assets, model, (state, list(outputs)[1]))
    quern = Quern(library, converted, chunks[0])
    probe = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    values = probe.run(list(outputs.values()), {**chunks[0], state: np.zeros(shape, np.float32)})
    shapes = {name: value.shape for name, value in zip(outputs.values(), values)}
    other = OnnxRuntime(path, chunks[0], [(state, list(outputs.values())[1])], shapes)
    worst = compare(quern, other, chunks, outputs)
    errors = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
    fine = max(worst.values()) <= TOLERANCE
    print(f"{'pass' if fine else 'FAIL'}  {title}: {len(chunks)} chunks, largest differences {errors}", flush=True)
    if arguments.time:
        ours, others = take_turns(quern, other, chunks)
        print(f"      {ours:.1f} us, ONNX Runtime {others:.1f} us: {others / ours:.2f} times", flush=True)
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("assets", type=pathlib.Path)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    samples = recording(arguments.assets)
    with tempfile.TemporaryDirectory() as name:
        library = build_library(arguments.build, pathlib.Path(name))
        rows = [row for row in MODELS if arguments.only in row[0]]
        results = [try_model(arguments, pathlib.Path(name), library, samples, row) for row in rows]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs one model in one engine, in a process of its own, and prints times and memory as JSON.

    engines.py prepare ENGINE FOLDER                        converts FOLDER/model.onnx for the engine
    engines.py run ENGINE FOLDER THREADS RUNS OUTPUT.npy    FOLDER/input.npy in, the output out

Each engine is a class: `prepare` makes the engine's files beside model.onnx, the constructor loads them, and `run`
returns the output for an array N,C,H,W.  What is not quantized is computed in binary32.

For a quantized model.onnx, with activations of signed bytes, there are engines named ENGINE-s8, which take it as it is,
ENGINE-u8, which take it with activations of unsigned bytes, and mnn-int8, which quantizes FOLDER/float.onnx itself.
"""

import importlib.metadata
import importlib.util
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy

WARM_UP = 2


def call(*command, cwd=None):
    subprocess.run([str(word) for word in command], check=True, cwd=cwd, capture_output=True)


class ReadsOnnx:
    @staticmethod
    def prepare(folder):
        """Does nothing: the engine reads ONNX."""


class Unsigned:
    """For engines that read ONNX: the same quantized model with activations of unsigned bytes."""

    file = "unsigned.onnx"

    @classmethod
    def prepare(cls, folder):
        import onnx

        model = onnx.load(folder / "model.onnx")
        make_unsigned(model.graph)
        onnx.save(model, folder / cls.file)


def make_unsigned(graph):
    """Adds 128 to all zero points of activations, and so to all their bytes; real numbers stay the same."""
    import onnx

    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.input[0] in constants:
            continue  # weights and biases stay signed
        tensor = constants[node.input[2]]
        if tensor.data_type == onnx.TensorProto.INT8:  # otherwise another node shares the constant, and it is done
            shifted = onnx.numpy_helper.to_array(tensor).astype(int) + 128
            tensor.CopyFrom(onnx.numpy_helper.from_array(shifted.astype(numpy.uint8), tensor.name))


class OnnxRuntime(ReadsOnnx):
    package = "onnxruntime"
    file = "model.onnx"
    settings = {}

    def __init__(self, folder, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        for name, value in self.settings.items():
            options.add_session_config_entry(name, value)
        self.session = onnxruntime.InferenceSession(str(folder / self.file), options,
                                                    providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name

    def run(self, x):
        return self.session.run(None, {self.name: x})[0]


class OnnxRuntimeSigned(OnnxRuntime):
    settings = {"session.qdqisint8allowed": "1"}  # otherwise it computes with floats on x86


class OnnxRuntimeUnsigned(Unsigned, OnnxRuntime):
    pass


class OpenVino(ReadsOnnx):
    package = "openvino"
    file = "model.onnx"

    def __init__(self, folder, threads):
        import openvino

        options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                   "INFERENCE_PRECISION_HINT": "f32"}
        self.request = openvino.Core().compile_model(str(folder / self.file), "CPU", options).create_infer_request()

    def run(self, x):
        return self.request.infer([x], share_inputs=True)[0]


class OpenVinoUnsigned(Unsigned, OpenVino):
    pass


class Mnn:
    package = "mnn"
    file = "model.mnn"
    flags = ()

    @staticmethod
    def run_tool(name, *arguments, folder):
        # These are the functions that the commands mnnconvert and mnnquant call; the commands would also install a
        # package and report their use.
        call(sys.executable, "-c", f"import sys, _tools; _tools.{name}(sys.argv)", *arguments, cwd=folder)

    @classmethod
    def convert(cls, source, target, folder):
        cls.run_tool("mnnconvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", target, "--bizCode", "quern",
                 *cls.flags, folder=folder)

    @classmethod
    def prepare(cls, folder):
        cls.convert("model.onnx", cls.file, folder)

    def __init__(self, folder, threads):
        import MNN

        self.mnn = MNN
        self.net = MNN.Interpreter(str(folder / self.file))
        self.session = self.net.createSession({"numThread": threads, "precision": "high"})

    def tensor(self, array):
        return self.mnn.Tensor(array.shape, self.mnn.Halide_Type_Float, array, self.mnn.Tensor_DimensionType_Caffe)

    def run(self, x):
        self.net.getSessionInput(self.session).copyFrom(self.tensor(x))
        self.net.runSession(self.session)
        output = self.net.getSessionOutput(self.session)
        result = self.tensor(numpy.zeros(output.getShape(), numpy.float32))
        output.copyToHostTensor(result)
        return numpy.array(result.getNumpyData(), numpy.float32)


class MnnSparse(Mnn):
    """MNN with its kernels for zeros; FOLDER/zeros.json tells the converter how the zeros lie (see sparse.py)."""

    file = "sparse.mnn"
    flags = ("--detectSparseSpeedUp", "--compressionParamsFile", "zeros.json")


class MnnInt8(Mnn):
    """MNN after its own quantizer, with the input as the one sample to calibrate with."""

    file = "int8.mnn"

    @classmethod
    def prepare(cls, folder):
        from PIL import Image

        # The quantizer reads pictures: 32 steps of a pixel make a unit of the input.
        x = numpy.load(folder / "input.npy")
        samples = folder / "samples"
        samples.mkdir()
        pixels = numpy.clip(numpy.rint(32 * x[0].transpose(1, 2, 0) + 128), 0, 255)
        Image.fromarray(pixels.astype(numpy.uint8)).save(samples / "input.png")
        settings = {"format": "RGB", "mean": [128] * 3, "normal": [1 / 32] * 3, "width": x.shape[3],
                    "height": x.shape[2], "path": "samples/", "used_image_num": 1, "feature_quantize_method": "KL",
                    "weight_quantize_method": "MAX_ABS"}
        (folder / "settings.json").write_text(json.dumps(settings))
        cls.convert("float.onnx", "float.mnn", folder)
        cls.run_tool("mnnquant", "float.mnn", cls.file, "settings.json", folder=folder)
        if not (folder / cls.file).exists():
            raise RuntimeError("the quantizer has written no file")


class Ncnn:
    package = "ncnn"

    @staticmethod
    def prepare(folder):
        # The program itself: its Python module imports PyTorch.
        module = pathlib.Path(importlib.util.find_spec("pnnx").origin).parent
        call(module / "pnnx", "model.onnx", "fp16=0", cwd=folder)

    def __init__(self, folder, threads):
        import ncnn

        self.ncnn = ncnn
        self.net = ncnn.Net()
        self.net.opt.num_threads = threads
        self.net.opt.use_fp16_storage = self.net.opt.use_bf16_storage = False
        if self.net.load_param(str(folder / "model.ncnn.param")) or self.net.load_model(str(folder / "model.ncnn.bin")):
            raise RuntimeError("ncnn cannot load the model")

    def run(self, x):
        extractor = self.net.create_extractor()
        extractor.input("in0", self.ncnn.Mat(x[0]))
        status, output = extractor.extract("out0")
        if status:
            raise RuntimeError(f"ncnn: status {status}")
        return numpy.array(output)


ENGINES = {"onnxruntime": OnnxRuntime, "onnxruntime-s8": OnnxRuntimeSigned, "onnxruntime-u8": OnnxRuntimeUnsigned,
           "mnn": Mnn, "mnn-sparse": MnnSparse, "mnn-int8": MnnInt8, "ncnn": Ncnn, "openvino": OpenVino,
           "openvino-s8": OpenVino, "openvino-u8": OpenVinoUnsigned}


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(kind, folder, threads, runs, output):
    x = numpy.load(folder / "input.npy")
    __import__({"mnn": "MNN"}.get(kind.package, kind.package))  # counts as no memory of the model
    before, start = peak_memory(), time.perf_counter()
    engine = kind(folder, threads)
    loaded = time.perf_counter()
    times = []
    for _ in range(WARM_UP + runs):
        begin = time.perf_counter()
        y = engine.run(x)
        times.append(1e3 * (time.perf_counter() - begin))
    numpy.save(output, y)
    return {"version": importlib.metadata.version(kind.package), "median_ms": statistics.median(times[WARM_UP:]),
            "min_ms": min(times[WARM_UP:]), "load_ms": 1e3 * (loaded - start),
            "peak_memory_bytes": peak_memory() - before}


def main():
    action, kind, folder = sys.argv[1], ENGINES[sys.argv[2]], pathlib.Path(sys.argv[3])
    if action == "prepare":
        kind.prepare(folder)
    else:
        print(json.dumps(run(kind, folder, int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])))


if __name__ == "__main__":
    main()

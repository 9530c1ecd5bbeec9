#!/usr/bin/env python3
"""Runs one model in one engine, in a process of its own, and prints times and memory as JSON.

    engines.py prepare ENGINE FOLDER                        converts FOLDER/model.onnx for the engine
    engines.py run ENGINE FOLDER THREADS RUNS OUTPUT.npy    FOLDER/input.npy in, the output out

Each engine is a class: `prepare` makes the engine's files beside model.onnx, the constructor loads them, and `run`
returns the output for an array N,C,H,W.  Each engine is told to compute in binary32.
"""

import importlib.metadata
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


def tool(name):
    """The path of a program that a package of this environment has installed."""
    return pathlib.Path(sys.prefix, "bin", name)


class ReadsOnnx:
    @staticmethod
    def prepare(folder):
        """Does nothing: the engine reads ONNX."""


class OnnxRuntime(ReadsOnnx):
    package = "onnxruntime"

    def __init__(self, folder, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options,
                                                    providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name

    def run(self, x):
        return self.session.run(None, {self.name: x})[0]


class OpenVino(ReadsOnnx):
    package = "openvino"

    def __init__(self, folder, threads):
        import openvino

        options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                   "INFERENCE_PRECISION_HINT": "f32"}
        self.request = openvino.Core().compile_model(str(folder / "model.onnx"), "CPU", options).create_infer_request()

    def run(self, x):
        return self.request.infer([x], share_inputs=True)[0]


class Mnn:
    package = "mnn"
    file = "model.mnn"
    flags = ()

    @classmethod
    def prepare(cls, folder):
        # This is the function that the command mnnconvert calls; the command would also install a package and report
        # its use.
        call(sys.executable, "-c", "import sys, _tools; _tools.mnnconvert(sys.argv)", "-f", "ONNX", "--modelFile",
             "model.onnx", "--MNNModel", cls.file, "--bizCode", "quern", *cls.flags, cwd=folder)

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


class Ncnn:
    package = "ncnn"

    @staticmethod
    def prepare(folder):
        call(tool("pnnx"), "model.onnx", "fp16=0", cwd=folder)

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


ENGINES = {"onnxruntime": OnnxRuntime, "mnn": Mnn, "mnn-sparse": MnnSparse, "ncnn": Ncnn, "openvino": OpenVino}


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

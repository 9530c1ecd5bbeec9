#!/usr/bin/env python3
"""Compares our outputs with those of a computation in binary64, with Winograd's algorithm and without.

    bench/peers/accuracy.py QUERN [MODEL ...] [--library libquern.so] [--threads N]

A MODEL is a name of `quern zoo`, a .qn or an .onnx file; by default the models are those of models.py.  All engines
read the same ONNX file and random input.  The exit status is 1 when one of our errors exceeds the tolerance of
models.py.
"""

import argparse
import ctypes
import pathlib
import sys
import tempfile

from models import MODELS, TOLERANCE, enter_environment, text_of

WHEELS = "numpy onnx onnxruntime"

IGEMM = 3  # qn_algorithm of include/quern/op.h: applies wherever Winograd's does
CURRENT = 15  # operator set; onnx's evaluator does not compute older forms of softmax and normalization


class SessionOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("threads", ctypes.c_size_t), ("parallel", ctypes.c_void_p),
                ("algorithm", ctypes.c_int), ("profile", ctypes.c_int), ("memory_limit", ctypes.c_size_t),
                ("tuning", ctypes.c_void_p), ("tune", ctypes.c_int)]


class Quantization(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_float), ("zero_point", ctypes.c_int32), ("scales", ctypes.c_void_p),
                ("zero_points", ctypes.c_void_p), ("count", ctypes.c_size_t), ("axis", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32)]


class Tensor(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("layout", ctypes.c_int), ("rank", ctypes.c_uint32),
                ("shape", ctypes.c_size_t * 8), ("stride", ctypes.c_size_t * 8), ("quantization", Quantization),
                ("reserved", ctypes.c_size_t * 4)]


class ProfileEntry(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("op", ctypes.c_char_p),
                ("algorithm", ctypes.c_char_p), ("kernel", ctypes.c_char_p), ("macs", ctypes.c_uint64),
                ("start_ns", ctypes.c_uint64), ("time_ns", ctypes.c_uint64)]


class Quern:
    """The runtime through its C API, which can force an algorithm; the command cannot."""

    def __init__(self, library):
        self.api = ctypes.CDLL(str(library))
        self.api.qn_last_message.restype = ctypes.c_char_p
        self.api.qn_session_profile_count.restype = ctypes.c_size_t

    def call(self, name, *arguments):
        if getattr(self.api, name)(*arguments):
            raise RuntimeError(f"{name}: {self.api.qn_last_message().decode()}")

    def run(self, file, x, like, threads, algorithm=None):
        """The outputs, each shaped as in `like`, and how many layers ran by Winograd's algorithm."""
        model, session, options = ctypes.c_void_p(), ctypes.c_void_p(), SessionOptions()
        self.api.qn_session_options_init_sized(ctypes.byref(options), ctypes.sizeof(options))
        options.threads, options.profile = threads, 1
        if algorithm is not None:
            options.algorithm = algorithm
        try:
            self.call("qn_model_load_file", str(file).encode(), None, ctypes.byref(model))
            self.call("qn_session_create", model, ctypes.byref(options), ctypes.byref(session))
            self.call("qn_session_run", session, (ctypes.c_void_p * 1)(x.ctypes.data))
            return [self.output(session, i, y) for i, y in enumerate(like)], self.winograd_layers(session)
        finally:
            self.api.qn_session_release(session)
            self.api.qn_model_release(model)

    def output(self, session, index, like):
        import numpy

        tensor, data = Tensor(), ctypes.c_void_p()
        self.call("qn_session_output_tensor", session, ctypes.c_size_t(index), ctypes.byref(tensor))
        if tuple(tensor.shape[:tensor.rank]) != like.shape:
            raise RuntimeError(f"output {index} has the shape {tensor.shape[:tensor.rank]} instead of {like.shape}")
        self.call("qn_session_output", session, ctypes.c_size_t(index), ctypes.byref(data))
        floats = ctypes.cast(data, ctypes.POINTER(ctypes.c_float))
        return numpy.ctypeslib.as_array(floats, like.shape).copy()

    def winograd_layers(self, session):
        count, entry = 0, ProfileEntry(struct_size=ctypes.sizeof(ProfileEntry))
        for i in range(self.api.qn_session_profile_count(session)):
            self.call("qn_session_profile", session, ctypes.c_size_t(i), ctypes.byref(entry))
            count += entry.algorithm == b"winograd"
        return count


def widen(model):
    """Returns the model with every float of its graph made a double."""
    import onnx

    def wider(tensor):
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind != "f":
            return tensor
        return onnx.numpy_helper.from_array(values.astype("float64"), tensor.name)

    opset = next(entry.version for entry in model.opset_import if not entry.domain)
    double = onnx.ModelProto()
    double.CopyFrom(model if opset >= CURRENT else onnx.version_converter.convert_version(model, CURRENT))
    for tensor in double.graph.initializer:
        tensor.CopyFrom(wider(tensor))
    for node in double.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                attribute.t.CopyFrom(wider(attribute.t))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
    return double


def outputs_of(graph):
    """Names the first output and, before it, the softmax's input if a softmax makes that output."""
    makers = {name: node for node in graph.node for name in node.output}
    name = graph.output[0].name
    node = makers[name]
    while node.op_type == "Identity":
        node = makers[node.input[0]]
    return ([node.input[0]] if node.op_type == "Softmax" else []) + [name]


def error_of(values, reference):
    """The largest difference, relative to the largest element."""
    return float(abs(values - reference).max() / abs(reference).max())


class Accuracy:
    def __init__(self, options, folder):
        self.command, self.threads, self.folder = options.quern, options.threads, folder
        self.quern = Quern(options.library or options.quern.parents[1] / "libquern.so")

    def onnx_file(self, model):
        """Returns the model as an ONNX file."""
        if model.endswith(".onnx"):
            return pathlib.Path(model)
        source = pathlib.Path(model)
        if source.suffix != ".qn":
            source = self.folder / "model.qn"
            text_of(self.command, "zoo", model, "-o", source)
        text_of(self.command, "export", source, "-o", self.folder / "model.onnx")
        return self.folder / "model.onnx"

    @staticmethod
    def only_input(graph):
        from onnx import TensorProto

        constants = {tensor.name for tensor in graph.initializer}
        inputs = [port for port in graph.input if port.name not in constants]
        types = [port.type.tensor_type.elem_type for port in (*inputs, *graph.output)]
        if len(inputs) != 1 or set(types) != {TensorProto.FLOAT}:
            raise RuntimeError("only models of one input and of floats can be compared")
        if not all(d.dim_value for d in inputs[0].type.tensor_type.shape.dim):
            raise RuntimeError("the input has no fixed shape")
        return inputs[0]

    def measure(self, model):
        """The layers by Winograd's algorithm; of each output three errors: ours, without it, ONNX Runtime's."""
        import numpy
        import onnx
        import onnx.reference
        import onnx.version_converter
        import onnxruntime

        file = self.onnx_file(model)
        proto = onnx.load(file)
        names, port = outputs_of(proto.graph), self.only_input(proto.graph)
        text_of(self.command, "convert", file, "--outputs", ",".join(names), "-o", self.folder / "both.qn")
        del proto.graph.output[:]
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
        x = numpy.random.default_rng(1).standard_normal(shape, numpy.float32)

        double = onnx.reference.ReferenceEvaluator(widen(proto))
        reference = double.run(names, {port.name: x.astype("float64")})
        ours, layers = self.quern.run(self.folder / "both.qn", x, reference, self.threads)
        plain, rest = self.quern.run(self.folder / "both.qn", x, reference, self.threads, IGEMM)
        if rest:
            raise RuntimeError("Winograd's algorithm ran although another was asked for")
        onnxruntime.set_default_logger_severity(3)  # errors
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        theirs = session.run(names, {port.name: x})
        return layers, [[error_of(values, y) for values in made] for *made, y in zip(ours, plain, theirs, reference)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("quern", type=pathlib.Path, help="the quern command")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--library", type=pathlib.Path, help="libquern.so; by default that of the command's build tree")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    enter_environment(WHEELS)
    options.quern = options.quern.resolve()

    print("| model | by Winograd | before softmax | no Winograd | onnxruntime | output | no Winograd | onnxruntime |")
    print("| --- |" + " ---: |" * 7)
    models, failed = options.models or MODELS, []
    for model in models:
        try:
            with tempfile.TemporaryDirectory() as folder:
                layers, errors = Accuracy(options, pathlib.Path(folder)).measure(model)
        except RuntimeError as error:
            failed.append(f"{model}: {error}")
            continue
        cells = ["-"] * (6 - 3 * len(errors)) + [f"{error:.1e}" for line in errors for error in line]
        print(f"| {pathlib.Path(model).name} | {layers} | " + " | ".join(cells) + " |", flush=True)
        if not all(line[0] <= TOLERANCE for line in errors):
            failed.append(f"{model}: beyond {TOLERANCE:.0e} of the largest element")
    print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
    print(f"ONNX's evaluator in binary64: {len(models) - len(failed)} agree, {len(failed)} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

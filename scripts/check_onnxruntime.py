#!/usr/bin/env python3
"""Compares quantized ONNX models in this engine with ONNX Runtime. Needs the Python packages onnx, onnxruntime and pillow.

    scripts/check_onnxruntime.py make resnet -o resnet.onnx            # a float model with residuals and random weights
    scripts/check_onnxruntime.py quantize net.onnx --images DIR -o FOLDER
    scripts/check_onnxruntime.py nodes FOLDER/*.onnx --images DIR --quern build/release/src/tool/quern
    scripts/check_onnxruntime.py images FOLDER/*.onnx --images DIR --quern build/release/src/tool/quern

quantize: ONNX Runtime's own quantizer, as QDQ and as QLinear operators, with uint8 and int8 activations, weights per
    tensor and per channel. On CPUs without VNNI (or dot products of ARM) ONNX Runtime's products of bytes saturate, so
    there the weights get 7 bits; the script says so.
nodes: cuts a model at its tensors of bytes. Each part, one operator with its conversions, runs on the tensors that ONNX
    Runtime computes for it within the whole model. Convolutions and matrix products must give the same bytes, unless ONNX
    Runtime computes them with floats; other operators bytes that differ by one step at most, floats within 1e-5.
images: both engines run whole models. Prints by how many steps the last tensor of bytes differs, how many images get
    another class and, with --truth, how many each engine gets right. Fails if these differ by more than one image.

--mean, --scale, --bgr, --resize and --crop say how images become inputs, as in `quern run`.
"""

import argparse
import collections
import csv
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

EXACT = {"Conv", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "QGemm"}
BYTES = (TensorProto.UINT8, TensorProto.INT8)


def has_exact_products():
    if platform.machine() in ("aarch64", "arm64"):
        return True
    return "vnni" in pathlib.Path("/proc/cpuinfo").read_text()


# ---- images

def load(path, a):
    image = Image.open(path).convert("RGB")
    if a.resize:
        factor = a.resize / min(image.size)
        image = image.resize([max(a.resize, round(side * factor)) for side in image.size], Image.BILINEAR)
    left, top = ((side - a.crop) // 2 for side in image.size)
    image = image.crop((left, top, left + a.crop, top + a.crop))
    x = numpy.asarray(image, numpy.float32)[:, :, ::-1 if a.bgr else 1]
    x = (x - numpy.asarray(a.mean, numpy.float32)) * numpy.float32(a.scale)
    return numpy.ascontiguousarray(x.transpose(2, 0, 1)[None])


def image_files(a):
    files = sorted(path for path in a.images.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    return files[:: max(1, len(files) // a.count)][: a.count]


# ---- models

class Net:
    """Makes nodes one after the other, with weights whose results keep their size."""

    def __init__(self):
        self.nodes, self.constants, self.random = [], [], numpy.random.default_rng(1)

    def node(self, kind, inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weights(self, *shape):
        values = self.random.normal(0, (2 / numpy.prod(shape[1:])) ** 0.5, shape)
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def bias(self, channels):
        name = f"b{len(self.constants)}"
        values = self.random.uniform(-0.1, 0.1, channels)
        self.constants.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def conv(self, x, channels, outputs, kernel, stride=1, relu=True):
        y = self.node("Conv", [x, self.weights(outputs, channels, kernel, kernel), self.bias(outputs)],
                      kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
        return self.node("Relu", [y]) if relu else y

    def block(self, x, channels, outputs, stride):
        y = self.conv(self.conv(x, channels, outputs, 3, stride), outputs, outputs, 3, relu=False)
        if stride != 1 or channels != outputs:
            x = self.conv(x, channels, outputs, 1, stride, relu=False)
        return self.node("Relu", [self.node("Add", [x, y])])


def make_resnet():
    """ResNet-18 of half the width, with 100 classes."""
    net = Net()
    x = net.node("MaxPool", [net.conv("image", 3, 32, 7, 2)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 32
    for outputs, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
        x = net.block(net.block(x, channels, outputs, stride), outputs, outputs, 1)
        channels = outputs
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x])])
    x = net.node("Gemm", [x, net.weights(100, channels), net.bias(100)], transB=1)
    y = net.node("Softmax", [x])
    graph = helper.make_graph(net.nodes, "resnet",
                              [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
                              [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 100])], net.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def quantize(a):
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process
    from onnx import version_converter
    if not has_exact_products():
        print("This CPU has no exact products of bytes in ONNX Runtime: weights of 7 bits")
    model = onnx.load(a.model)
    if max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) < 13:
        model = version_converter.convert_version(model, 13)
    a.output.mkdir(parents=True, exist_ok=True)
    source = a.output / "float.onnx.tmp"
    onnx.save(model, source)
    quant_pre_process(source, source, skip_symbolic_shape=True)  # batch normalization becomes part of convolutions
    model = onnx.load(source)
    name = onnxruntime.InferenceSession(str(source)).get_inputs()[0].name

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.files = iter(image_files(a))

        def get_next(self):
            file = next(self.files, None)
            return None if file is None else {name: load(file, a)}

    kinds = [kind for kind in {node.op_type for node in model.graph.node} if kind != "Softmax"]
    for form in (q.QuantFormat.QDQ, q.QuantFormat.QOperator):
        for activations in (q.QuantType.QUInt8, q.QuantType.QInt8):
            for per_channel in (False, True):
                file = a.output / "_".join((a.model.stem, form.name.lower(), activations.name[1:].lower(),
                                            "channel" if per_channel else "tensor"))
                q.quantize_static(source, f"{file}.onnx", Reader(), quant_format=form, op_types_to_quantize=kinds,
                                  activation_type=activations, weight_type=q.QuantType.QInt8, per_channel=per_channel,
                                  reduce_range=not has_exact_products())
                print(f"{file}.onnx")
    source.unlink()


# ---- parts

Part = collections.namedtuple("Part", "output nodes inputs exact")


class Model:
    def __init__(self, path):
        self.model = onnx.shape_inference.infer_shapes(onnx.load(path))
        graph = self.model.graph
        self.constants = {c.name: c for c in graph.initializer}
        self.writer = {out: node for node in graph.node for out in node.output}
        self.inputs = [i.name for i in graph.input if i.name not in self.constants]
        self.types = self.all_types()
        # Tensors of bytes that an operator reads which says nothing about their scale.
        self.moved = {node.input[0] for node in graph.node
                      if node.op_type != "DequantizeLinear" and not node.op_type.startswith("Q") and node.input}

    def all_types(self):
        """The types of all results, which ONNX Runtime knows for its own operators, too."""
        known = {v.name: v.type.tensor_type.elem_type for v in (*self.model.graph.value_info, *self.model.graph.input)}
        for node in self.model.graph.node:
            for out in node.output:
                if node.op_type == "QuantizeLinear":
                    known[out] = self.constants[node.input[2]].data_type
                elif node.op_type.startswith("QLinear") or node.op_type == "QGemm":
                    zero_point = {"QLinearConv": 7, "QLinearConcat": 1}.get(node.op_type, len(node.input) - 1)
                    known[out] = self.constants[node.input[zero_point]].data_type
                elif node.op_type != "DequantizeLinear" and node.input and known.get(node.input[0]) in BYTES:
                    known[out] = known[node.input[0]]
        return known

    def is_cut(self, name):
        if name in self.inputs:
            return True
        return self.types.get(name) in BYTES and name not in self.moved and not self.is_constant(name)

    def is_constant(self, name):
        node = self.writer.get(name)
        return name in self.constants if node is None else all(map(self.is_constant, filter(None, node.input)))

    def part(self, output):
        """The nodes between tensors of bytes and `output`."""
        nodes, inputs, waiting = [], [], [output]
        while waiting:
            name = waiting.pop()
            node = self.writer.get(name)
            if name in self.constants or not name:
                continue
            if name != output and self.is_cut(name):
                if name not in inputs:
                    inputs.append(name)
            elif node not in nodes:
                nodes.append(node)
                waiting.extend(node.input)
        nodes.sort(key=list(self.model.graph.node).index)
        return Part(output, nodes, inputs, any(node.op_type in EXACT for node in nodes))

    def parts(self):
        graph = self.model.graph
        ends = [out for node in graph.node for out in node.output if self.is_cut(out)]
        ends += [o.name for o in graph.output if o.name not in ends]
        return [self.part(end) for end in ends]

    def extract(self, part, shapes):
        used = {name for node in part.nodes for name in node.input}
        info = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for name, x in shapes.items()]
        graph = helper.make_graph(part.nodes, "part", [i for i in info if i.name in part.inputs],
                                  [i for i in info if i.name == part.output],
                                  [c for name, c in self.constants.items() if name in used])
        return helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)

    def with_outputs(self, names):
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.value_info[:]  # some have no type
        known = {o.name for o in model.graph.output}
        for name in names:
            if name not in known and name not in self.inputs:
                model.graph.output.append(helper.make_tensor_value_info(name, self.types[name], None))
        return model


def session_of(model, optimizes=True):
    """Returns a session, and the function that says whether an output is computed with floats."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.qdqisint8allowed", "1")  # otherwise QDQ of int8 becomes floats on x86
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        options.log_severity_level = 3
        if not optimizes:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        graph = onnx.load(options.optimized_model_filepath).graph
    writer = {out: node for node in graph.node for out in node.output}

    def with_floats(name):
        while name in writer and writer[name].op_type in ("Transpose", "ReorderOutput"):
            name = writer[name].input[0]
        return name in writer and writer[name].op_type == "QuantizeLinear"

    return session, with_floats


def run_quern(quern, model, inputs, folder):
    outputs = folder / "outputs"
    command = [quern, "run", model, "--output", outputs]
    for i, (name, value) in enumerate(inputs.items()):
        file = folder / f"input{i}.npy"
        numpy.save(file, value)
        command += ["--input", f"{name}={file}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return {file.stem: numpy.load(file) for file in outputs.glob("*.npy")}, ""


def check_part(part, got, expected):
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype} {got.shape}, not {expected.dtype} {expected.shape}"
    if expected.dtype == numpy.float32:
        return "" if numpy.allclose(got, expected, 1e-5, 1e-6) else f"off by {abs(got - expected).max()}"
    steps = abs(got.astype(int) - expected.astype(int))
    allowed = 0 if part.exact else 1
    if steps.max() > allowed:
        return f"{(steps > allowed).sum()} of {steps.size} elements are off, by {steps.max()} at most"
    return ""


def check_nodes(a):
    agree = differ = 0
    for path in a.models:
        model = Model(path)
        parts = model.parts()
        names = {name for part in parts for name in (part.output, *part.inputs)}
        session, with_floats = session_of(model.with_outputs(names))
        parts = [part._replace(exact=part.exact and not with_floats(part.output)) for part in parts]
        outputs = [o.name for o in session.get_outputs()]
        wrong, off, counts = [], collections.Counter(), collections.Counter()
        for file in image_files(a):
            tensors = {model.inputs[0]: load(file, a)}
            tensors.update(zip(outputs, session.run(None, {model.inputs[0]: tensors[model.inputs[0]]})))
            for part in parts:
                kind = "exact" if part.exact else "others"
                counts[kind] += 1
                with tempfile.TemporaryDirectory() as temporary:
                    folder = pathlib.Path(temporary)
                    onnx.save(model.extract(part, tensors), folder / "part.onnx")
                    results, error = run_quern(a.quern, folder / "part.onnx", {i: tensors[i] for i in part.inputs}, folder)
                if results is not None:
                    got, expected = next(iter(results.values())), tensors[part.output]
                    error = check_part(part, got, expected)
                    if not part.exact and expected.dtype != numpy.float32 and not error:
                        off[kind] += int((got != expected).sum())
                if error:
                    wrong.append(f"{part.output} ({', '.join(n.op_type for n in part.nodes)}): {error}")
        differ += len(wrong)
        agree += counts.total() - len(wrong)
        print(f"{path.name}: {counts['exact']} products bit for bit, {counts['others']} others within a step "
              f"({off['others']} elements off by one); {len(wrong)} wrong", flush=True)
        for line in wrong[: a.show]:
            print(f"  {line}")
    print(f"ONNX Runtime {onnxruntime.__version__}, quantized parts: {agree} agree, {differ} differ")
    sys.exit(differ > 0)


def true_classes(a):
    if a.truth is None:
        return {}
    with a.truth.open(newline="") as file:
        return {row["file"]: int(row["label_index"]) for row in csv.DictReader(file)}


def check_images(a):
    truth, failed = true_classes(a), False
    for path in a.models:
        model = Model(path)
        last = [part for part in model.parts() if model.types.get(part.output) in BYTES][-1].output
        whole = model.with_outputs([last])
        session, _ = session_of(whole, not a.floats)
        outputs = [o.name for o in session.get_outputs()]
        classes, steps, images, right = 0, collections.Counter(), 0, [0, 0]
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            onnx.save(whole, folder / "model.onnx")
            subprocess.run([str(a.quern), "convert", str(folder / "model.onnx"), "-o", str(folder / "model.qn")],
                           check=True, capture_output=True)
            for file in image_files(a):
                x = load(file, a)
                expected = dict(zip(outputs, session.run(None, {model.inputs[0]: x})))
                got, error = run_quern(a.quern, folder / "model.qn", {model.inputs[0]: x}, folder)
                if got is None:
                    sys.exit(f"{path.name}: {error}")
                def of(name):
                    return got["".join("_" if c in "/:" else c for c in name)].reshape(expected[name].shape)
                steps.update(abs(of(last).astype(int) - expected[last].astype(int)).ravel().tolist())
                first = model.model.graph.output[0].name
                found = [int(scores.argmax()) for scores in (of(first), expected[first])]
                classes += found[0] != found[1]
                images += 1
                for i in range(2):
                    right[i] += found[i] == truth.get(file.name)
        total = sum(steps.values())
        shares = ", ".join(f"{step}: {100 * n / total:.2f}%" for step, n in sorted(steps.items()))
        of_truth = f", right {right[0]}, of ONNX Runtime's {right[1]}" if truth else ""
        print(f"{path.name}: {classes} of {images} images get another class{of_truth}; steps of {last}: {shares}", flush=True)
        failed = failed or abs(right[0] - right[1]) > 1
    sys.exit(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make")
    make.add_argument("network", choices=["resnet"])
    make.add_argument("-o", "--output", type=pathlib.Path, required=True)
    for name in ("quantize", "nodes", "images"):
        command = commands.add_parser(name)
        if name == "quantize":
            command.add_argument("model", type=pathlib.Path)
            command.add_argument("-o", "--output", type=pathlib.Path, required=True)
        else:
            command.add_argument("models", type=pathlib.Path, nargs="+")
            command.add_argument("--quern", type=pathlib.Path, required=True)
            command.add_argument("--show", type=int, default=10, help="how many differences to print")
        command.add_argument("--images", type=pathlib.Path, required=True, help="a folder of images")
        command.add_argument("--count", type=int, default={"quantize": 50, "nodes": 2, "images": 250}[name])
        if name == "images":
            command.add_argument("--floats", action="store_true", help="ONNX Runtime computes QDQ models with floats: for "
                                 "weights of 8 bits on CPUs where its products of bytes are not exact")
            command.add_argument("--truth", type=pathlib.Path, help="a .csv with columns file and label_index")
        command.add_argument("--mean", type=float, nargs="+", default=[127.5])
        command.add_argument("--scale", type=float, default=1 / 127.5)
        command.add_argument("--bgr", action="store_true")
        command.add_argument("--resize", type=int, default=256)
        command.add_argument("--crop", type=int, default=224)
    a = parser.parse_args()
    if a.command == "make":
        onnx.save(make_resnet(), a.output)
    else:
        {"quantize": quantize, "nodes": check_nodes, "images": check_images}[a.command](a)


if __name__ == "__main__":
    main()

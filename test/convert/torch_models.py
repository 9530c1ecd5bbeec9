#!/usr/bin/env python3
"""Models of PyTorch and torchvision with random weights, exported to ONNX as users do, compared with ONNX Runtime.

    pip install torch torchvision onnx onnxscript onnxruntime
    torch_models.py QUERN [NAME...] [--exporters dynamo,script] [--time] [--keep FOLDER]

Each model is exported by both exporters of PyTorch, with fixed and with open sizes, and some are quantized by ONNX
Runtime's tools in each of its ways. `quern convert` and `quern run` then have to agree with ONNX Runtime on random
inputs, where sizes are open also at another size. NAME is a part of the names of the models to try. A line for each:
what the exporter or the engine refuses, what `convert` refuses, what differs; seconds and peak memory of `convert`;
with --time, how long a run takes on one thread, ONNX Runtime's time, and the quotient. Exit status 1 if a model is
refused or differs; 77 without these packages.
Detectors with random weights give boxes whose scores all but agree: ssd300_vgg16 and ssdlite320 order them differently,
and an edge of a mask of maskrcnn may move by a part of a pixel.
It downloads nothing. Not part of the tests: all models take an hour, and memory of some GB.
"""

import argparse
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
    import onnxruntime
    import torch
    import torchvision
    from onnxruntime import quantization
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import torch_parts as parts

TOLERANCE = 1e-3  # of the largest element: deep networks of random weights double rounding errors layer by layer
models = torchvision.models


class EngineError(Exception):
    pass


class Row:
    """A model: how to make it, its inputs, and inputs of other sizes. Dimensions that differ between the two are open;
    without `other`, the batch of an image is."""

    def __init__(self, make, *inputs, other=None, exporters=("dynamo", "script"), quantized=False, scale=None):
        self.make, self.inputs, self.other, self.exporters = make, inputs, other, exporters
        self.quantized, self.scale = quantized, scale


def image(size, batch=1):
    return lambda: torch.rand(batch, 3, size, size)


def classifier(name, size=64, quantized=False, other=None, **arguments):
    make = lambda: models.get_model(name, weights=None, **arguments)
    return Row(make, image(size), other=[other or image(size, 3)], quantized=quantized)


def detector(name, size=128, **arguments):
    make = lambda: parts.Tuple(
        models.get_model(
            name,
            weights=None,
            weights_backbone=None,
            num_classes=7,
            **{"min_size": size, "max_size": size * 2, **arguments},
        )
    )
    return Row(make, lambda: [torch.rand(3, size, size)])


def fixed_detector(name, size, **arguments):
    make = lambda: parts.Tuple(models.get_model(name, weights=None, weights_backbone=None, num_classes=7, **arguments))
    return Row(make, lambda: [torch.rand(3, size, size)])


def sequence(make, length=9, width=16, batch=2, **arguments):
    """Of an input (batch, length, width)."""
    return Row(make, lambda: torch.randn(batch, length, width), other=[lambda: torch.randn(3, 5, width)], **arguments)


def tokens(length, batch=2, most=100):
    return lambda: torch.randint(0, most, (batch, length))


ROWS = {
    # Classification, the most common ones first.
    "resnet18": classifier("resnet18", quantized=True),
    "resnet50": classifier("resnet50"),
    "mobilenet_v2": classifier("mobilenet_v2", quantized=True),
    "mobilenet_v3_small": classifier("mobilenet_v3_small", quantized=True),
    "mobilenet_v3_large": classifier("mobilenet_v3_large"),
    "efficientnet_b0": classifier("efficientnet_b0"),
    "vgg11": classifier("vgg11", 32),
    "vgg11_bn": classifier("vgg11_bn", 32),
    "vit_b_16": classifier("vit_b_16", 224),
    "vit_small": Row(
        lambda: models.VisionTransformer(64, 16, 3, 4, 64, 128), image(64), other=[image(64, 3)], quantized=True
    ),
    "convnext_tiny": classifier("convnext_tiny"),
    "swin_t": classifier("swin_t"),
    "swin_v2_t": classifier("swin_v2_t"),
    "densenet121": classifier("densenet121"),
    "alexnet": classifier("alexnet", 96),
    "squeezenet1_1": classifier("squeezenet1_1"),
    "shufflenet_v2_x1_0": classifier("shufflenet_v2_x1_0", quantized=True),
    "efficientnet_v2_s": classifier("efficientnet_v2_s"),
    "inception_v3": classifier("inception_v3", 128, init_weights=False),
    "googlenet": classifier("googlenet", init_weights=False),
    "mnasnet0_5": classifier("mnasnet0_5"),
    "regnet_y_400mf": classifier("regnet_y_400mf"),
    "regnet_x_400mf": classifier("regnet_x_400mf"),
    "resnext50_32x4d": classifier("resnext50_32x4d"),
    "wide_resnet50_2": classifier("wide_resnet50_2"),
    "maxvit_t": classifier("maxvit_t", 224),
    # Open height and width.
    "resnet18_any": classifier("resnet18", other=image(96, 2)),
    "mobilenet_v3_any": classifier("mobilenet_v3_small", other=image(96, 2)),
    "convnext_any": classifier("convnext_tiny", other=image(96, 2)),
    "alexnet_any": classifier("alexnet", 96, other=image(128, 2)),
    # Recurrent layers.
    "lstm": sequence(lambda: torch.nn.LSTM(16, 12, batch_first=True), quantized=True),
    "lstm_2_both": sequence(lambda: torch.nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)),
    "lstm_length_first": sequence(lambda: torch.nn.LSTM(16, 12, 2)),
    "lstm_projection": sequence(lambda: torch.nn.LSTM(16, 12, proj_size=5)),
    "lstm_states": Row(
        lambda: torch.nn.LSTM(16, 12, batch_first=True),
        lambda: torch.randn(2, 9, 16),
        lambda: (torch.randn(1, 2, 12), torch.randn(1, 2, 12)),
        other=[lambda: torch.randn(3, 5, 16), lambda: (torch.randn(1, 3, 12), torch.randn(1, 3, 12))],
    ),
    "lstm_packed": Row(
        parts.Packed,
        lambda: torch.randn(3, 9, 16),
        lambda: torch.tensor([9, 6, 2]),
        other=[lambda: torch.randn(2, 7, 16), lambda: torch.tensor([7, 3])],
    ),
    "lstm_classifier": Row(parts.Tagger, tokens(9), other=[tokens(5, 3)], quantized=True),
    "gru": sequence(lambda: torch.nn.GRU(16, 12, batch_first=True)),
    "gru_2_both": sequence(lambda: torch.nn.GRU(16, 12, 2, batch_first=True, bidirectional=True)),
    "rnn": sequence(lambda: torch.nn.RNN(16, 12, batch_first=True)),
    "rnn_relu_both": sequence(lambda: torch.nn.RNN(16, 12, 2, nonlinearity="relu", bidirectional=True)),
    "cells": Row(parts.Cells, lambda: torch.randn(2, 16), other=[lambda: torch.randn(3, 16)]),
    # Transformers.
    "encoder": sequence(parts.encoder, quantized=True),
    "encoder_prenorm": sequence(lambda: parts.encoder(norm_first=True, activation="gelu")),
    "encoder_masked": Row(
        parts.MaskedEncoder,
        lambda: torch.randn(2, 9, 16),
        lambda: torch.arange(9)[None] < torch.tensor([[7], [9]]),
        other=[lambda: torch.randn(3, 5, 16), lambda: torch.arange(5)[None] < torch.tensor([[5], [3], [1]])],
    ),
    "decoder": Row(
        parts.decoder,
        lambda: torch.randn(2, 5, 16),
        lambda: torch.randn(2, 9, 16),
        other=[lambda: torch.randn(3, 4, 16), lambda: torch.randn(3, 6, 16)],
    ),
    "transformer": Row(parts.Translator, tokens(9), tokens(5), other=[tokens(6, 3), tokens(4, 3)]),
    "attention": Row(
        parts.Attention,
        lambda: torch.randn(2, 5, 16),
        lambda: torch.randn(2, 9, 16),
        other=[lambda: torch.randn(3, 4, 16), lambda: torch.randn(3, 6, 16)],
    ),
    "gpt": Row(parts.Gpt, tokens(8), other=[tokens(5, 3)], quantized=True),
    "gpt_past": Row(parts.Gpt, tokens(1), lambda: parts.past(2, 6), other=[tokens(1, 3), lambda: parts.past(3, 9)]),
    "llama": Row(parts.Llama, tokens(8), other=[tokens(5, 3)]),
    "bert": Row(
        parts.Bert,
        tokens(9),
        lambda: (torch.arange(9)[None] < torch.tensor([[7], [9]])).long(),
        other=[tokens(5, 3), lambda: (torch.arange(5)[None] < torch.tensor([[5], [3], [1]])).long()],
        quantized=True,
    ),
    # Segmentation, detection, flow.
    "deeplabv3_mobilenet": Row(
        lambda: models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5),
        image(64),
        other=[image(96, 2)],
    ),
    "deeplabv3_resnet50": Row(
        lambda: models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=5),
        image(64),
        other=[image(96, 2)],
    ),
    "fcn_resnet50": Row(
        lambda: models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5, aux_loss=True),
        image(64),
        other=[image(96, 2)],
    ),
    "lraspp": Row(
        lambda: models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5),
        image(64),
        other=[image(96, 2)],
    ),
    "ssdlite320": fixed_detector("ssdlite320_mobilenet_v3_large", 320),
    "fasterrcnn_mobilenet": detector("fasterrcnn_mobilenet_v3_large_320_fpn"),
    "retinanet": detector("retinanet_resnet50_fpn"),
    "fasterrcnn": detector("fasterrcnn_resnet50_fpn"),
    "ssd300_vgg16": fixed_detector("ssd300_vgg16", 300),
    "fcos": detector("fcos_resnet50_fpn"),
    "maskrcnn": detector("maskrcnn_resnet50_fpn"),
    "keypointrcnn": detector("keypointrcnn_resnet50_fpn", num_keypoints=5),
    "raft_small": Row(
        lambda: models.optical_flow.raft_small(weights=None),
        image(128),
        image(128),
        other=[image(128, 2), image(128, 2)],
    ),
    # Images to images.
    "unet_bn": Row(lambda: parts.Unet("batch"), image(32), other=[image(48, 2)], quantized=True),
    "unet_gn": Row(lambda: parts.Unet("group"), image(32), other=[image(48, 2)]),
    "unet_in": Row(lambda: parts.Unet("instance"), image(32), other=[image(48, 2)]),
    "unet_up": Row(lambda: parts.Unet("batch", "upsample"), image(32), other=[image(48, 2)]),
    "diffusion": Row(
        parts.Diffusion, image(16), lambda: torch.tensor([5]), other=[image(24, 2), lambda: torch.tensor([5, 99])]
    ),
    "super_resolution": Row(parts.super_resolution, image(16), other=[image(24, 2)], quantized=True),
    "dcgan": Row(parts.dcgan, lambda: torch.randn(1, 20, 1, 1), other=[lambda: torch.randn(3, 20, 1, 1)]),
    "spatial_transformer": Row(parts.SpatialTransformer, image(24), other=[image(24, 3)]),
    "resizes": Row(parts.Resizes, image(12), other=[image(17, 2)]),
    "pads": Row(parts.Pads, image(12), other=[image(17, 2)]),
    "pools": Row(parts.Pools, image(24), other=[image(24, 2)]),
    "style": Row(parts.style, image(32), other=[image(48, 2)]),
    "yolo_head": Row(parts.Yolo, image(64), other=[image(96, 2)]),
    "video_r3d": Row(
        lambda: models.video.r3d_18(weights=None),
        lambda: torch.rand(1, 3, 4, 32, 32),
        other=[lambda: torch.rand(2, 3, 4, 32, 32)],
    ),
    # Sound and series.
    "wav2vec_front": Row(parts.wav2vec_front, lambda: torch.randn(1, 1, 1600), other=[lambda: torch.randn(2, 1, 2000)]),
    "conv1d": Row(parts.conv1d, lambda: torch.randn(2, 6, 40), other=[lambda: torch.randn(3, 6, 60)], quantized=True),
    "tcn": Row(parts.Tcn, lambda: torch.randn(2, 6, 40), other=[lambda: torch.randn(3, 6, 60)]),
    "vocoder": Row(parts.vocoder, lambda: torch.randn(1, 16, 12), other=[lambda: torch.randn(2, 16, 20)]),
    "spectrogram": Row(parts.Spectrogram, lambda: torch.randn(2, 640), other=[lambda: torch.randn(3, 640)]),
    "mlp": Row(parts.mlp, lambda: torch.randn(4, 10), other=[lambda: torch.randn(7, 10)], quantized=True),
    "activations": Row(parts.Activations, lambda: torch.randn(4, 10), other=[lambda: torch.randn(7, 10)]),
    "indexing": Row(
        parts.Indexing,
        lambda: torch.randn(4, 10, 6),
        tokens(3, 4, 10),
        other=[lambda: torch.randn(7, 12, 6), tokens(5, 7, 10)],
    ),
    "mathematics": Row(parts.Mathematics, lambda: torch.randn(4, 10), other=[lambda: torch.randn(7, 10)]),
    "recommender": Row(parts.Recommender, tokens(1), tokens(7), other=[tokens(1, 3), tokens(5, 3)]),
    "graph_layer": Row(
        parts.GraphLayer,
        lambda: torch.randn(6, 8),
        lambda: torch.randint(0, 6, (2, 11)),
        other=[lambda: torch.randn(9, 8), lambda: torch.randint(0, 9, (2, 17))],
    ),
}


def randomize(model):
    """Statistics of normalizations are 0 and 1 in a new model, which would hide faults."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.running_var is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.data += torch.randn_like(parameter) * 0.1
        elif name.endswith("layer_scale"):
            parameter.data.uniform_(-1, 1)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [tensor for part in value for tensor in flat(part)] if value is not None else []


def open_dimensions(inputs, others, names):
    """For each input {dimension: name}, the same name for the same pair of sizes."""
    return [
        {d: f"{name}_{d}" for d, (a, b) in enumerate(zip(x.shape, y.shape)) if a != b}
        for name, x, y in zip(names, inputs, others)
    ]


def nested(value, dimensions):
    """Tells the exporter of open dimensions in the structure that the inputs have."""
    if isinstance(value, torch.Tensor):
        return {d: torch.export.Dim.AUTO for d in next(dimensions)}
    return type(value)(nested(part, dimensions) for part in value)


def export(row, model, exporter, is_open, path):
    inputs = tuple(make() for make in row.inputs)
    others = flat([make() for make in row.other]) if is_open else flat(inputs)
    with torch.no_grad():
        outputs = flat(model(*inputs))
    names = [f"x{i}" for i in range(len(flat(inputs)))]
    results = [f"y{i}" for i in range(len(outputs))]
    dimensions = open_dimensions(flat(inputs), others, names)
    if exporter == "dynamo":
        torch.onnx.export(
            model,
            inputs,
            path,
            input_names=names,
            output_names=results,
            dynamo=True,
            verbose=False,
            dynamic_shapes=nested(inputs, iter(dimensions)) if is_open else None,
        )
    else:
        torch.onnx.export(
            model,
            inputs,
            path,
            input_names=names,
            output_names=results,
            dynamo=False,
            dynamic_axes={n: d for n, d in zip(names, dimensions) if d} if is_open else None,
        )


def engine(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def call(arguments):
    """Status, output, seconds, peak memory in MiB. A small process waits: a child of this one would begin with its."""
    begin = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-SEc", WAIT, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    text, _, last = process.stderr.rstrip().rpartition("\n")
    status, peak = map(int, last.split())
    return status, process.stdout.strip() + text, time.monotonic() - begin, peak / 1024


WAIT = """
import os, sys, subprocess
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
sys.stderr.write(f"\\n{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}\\n")
"""


def difference(got, want, tolerance):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if not want.size:
        return ""
    if want.dtype.kind != "f":
        return "" if np.array_equal(got, want) else f"{np.count_nonzero(got != want)} of {want.size} differ"
    if np.isnan(got).any() != np.isnan(want).any():
        return "NaN in one of them"
    error, largest = np.nanmax(np.abs(got - want)), np.nanmax(np.abs(want))
    return "" if error <= tolerance * max(largest, 1e-3) else f"by {error:.3g} of {largest:.3g}"


def compare(quern, session, path, arrays, folder, tolerance):
    names = [x.name for x in session.get_inputs()]  # exporters leave out inputs that nothing reads
    arrays = {n: arrays[n] for n in names}
    try:
        wanted = session.run(None, arrays)
    except Exception as error:  # the engine's types are its own
        raise EngineError(str(error)) from error
    arguments = [quern, "run", path, "--output", folder]
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder}/{name}.npy"]
    status, text, _, _ = call(arguments)
    if status:
        return f"run: {text}"
    for output, want in zip(session.get_outputs(), wanted):
        what = difference(np.load(folder / f"{output.name}.npy"), want, tolerance)
        if what:
            return f"differs: {output.name} {what}"
    return ""


def check(quern, row, path, is_open, folder, timed, tolerance=TOLERANCE):
    """What is wrong with a file, or "", and remarks."""
    try:
        session = engine(path)
    except Exception as error:  # the engine's types are its own
        return "", f"ONNX Runtime refuses it: {str(error)[:100]}"
    status, text, seconds, peak = call([quern, "convert", path, "-o", folder / "model.qn"])
    size = sum(p.stat().st_size for p in folder.glob("*.onnx*")) / 2**20
    remark = f"{size:.1f} MiB, convert {seconds:.1f} s, {peak:.0f} MiB"
    if status:
        return f"convert: {text}", remark
    for number, makers in enumerate([row.inputs] + ([row.other] if is_open else [])):
        torch.manual_seed(7 + number)
        arrays = {f"x{i}": x.numpy() for i, x in enumerate(flat([make() for make in makers]))}
        try:
            what = compare(quern, session, folder / "model.qn", arrays, folder, tolerance)
        except EngineError as error:
            remark += f"; ONNX Runtime fails at size {number}: {str(error)[:80]}"
            continue
        if what:
            return what + (" (other size)" if number else ""), remark
    return "", remark + (times(quern, row, session, folder) if timed else "")


def times(quern, row, session, folder):
    arrays = {f"x{i}": x.numpy() for i, x in enumerate(flat([make() for make in row.inputs]))}
    arrays = {x.name: arrays[x.name] for x in session.get_inputs()}
    taken = []
    while len(taken) < 4 or (sum(taken) < 0.3 and len(taken) < 50):
        begin = time.perf_counter()
        session.run(None, arrays)
        taken.append(time.perf_counter() - begin)
    status, text, _, _ = call([quern, "bench", folder / "model.qn", "--json", "--runs", len(taken)])
    if status:
        return f"; bench: {text[:200]}"
    ours, theirs = json.loads(text)["median_ms"], sorted(taken)[len(taken) // 2] * 1e3
    return f"; {ours:.2f} ms, {theirs:.2f} ({ours / theirs:.2f})"


class Samples(quantization.CalibrationDataReader):
    def __init__(self, row):
        self.left = [
            {f"x{i}": x.numpy() for i, x in enumerate(flat([make() for make in row.inputs]))} for _ in range(3)
        ]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantize(row, way, source, target):
    if way == "dynamic":
        quantization.quantize_dynamic(source, target)
    else:
        form = quantization.QuantFormat.QDQ if way == "qdq" else quantization.QuantFormat.QOperator
        quantization.quantize_static(source, target, Samples(row), form, per_channel=way == "qdq")


def variants(row, exporters):
    for exporter in exporters:
        if exporter in row.exporters:
            for is_open in [False] + ([True] if row.other else []):
                yield exporter, is_open, ""
    if row.quantized:
        for way in ["dynamic", "qdq", "qoperator"]:
            yield exporters[-1], False, way


def test(quern, name, row, variant, a):
    exporter, is_open, way = variant
    torch.manual_seed(1)
    model = row.make().eval()
    randomize(model)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = folder / "model.onnx"
        try:
            export(row, model, exporter, is_open, path)
            if way:
                quantize(row, way, path, folder / "quantized.onnx")
                path.unlink()
                path = folder / "quantized.onnx"
        except Exception as error:  # the exporter's types are its own
            return "", "exporter: " + (str(error).strip() or repr(error)).splitlines()[0][:100], False
        # A step of a byte may fall to the other side: what follows from it is no fault.
        result = check(quern, row, path, is_open, folder, a.time, 0.1 if way else TOLERANCE)
        if a.keep and (result[0] or a.keep_all):
            shutil.copytree(
                folder,
                pathlib.Path(a.keep)
                / "-".join([name, exporter, "open" if is_open else "fixed"] + ([way] if way else [])),
                dirs_exist_ok=True,
            )
        return *result, True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--exporters", default="dynamo,script")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--keep", help="a folder for files that are refused or differ")
    parser.add_argument("--keep-all", action="store_true", help="and all others")
    a = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    counts = {"equal": 0, "wrong": 0, "not exported": 0}
    for name, row in ROWS.items():
        if a.names and not any(part in name for part in a.names):
            continue
        for variant in variants(row, a.exporters.split(",")):
            what, remark, is_made = test(a.quern, name, row, variant, a)
            counts["not exported" if not is_made else "wrong" if what else "equal"] += 1
            exporter, is_open, way = variant
            print(
                f"{name} {exporter} {way or ('open' if is_open else 'fixed')}: "
                f"{what or ('equal' if is_made else 'not exported')} [{remark}]",
                flush=True,
            )
    print(", ".join(f"{n} {group}" for group, n in counts.items()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares what quantizers lose: ours and ONNX Runtime's, with the same pictures.

    bench/peers/quantizers.py QUERN ASSETS [--models NAME ...] [--library libquern.so] [--calibrate 100]
                              [--flags='FLAGS OF QUANTIZE' ...] [--ratios R ...] [--ours-only]

ASSETS is a folder with models/onnx and images/imagenet. The first pictures calibrate. All others are evaluated in five
crops, each mirrored, too. Loss is the mean Kullback-Leibler divergence of the quantized model's probabilities from those of
the model before; agreement is the part of pictures with the same largest one. Then follows our loss as a part of the least
of ONNX Runtime's, with the upper end of a paired bootstrap's interval (95%). The exit status is 1 if that is 1 or more for
the first flags.
--ratios compares models that `quern compress` has made R times smaller than the f32 .qn file instead of quantized ones;
--ours-only leaves ONNX Runtime's quantizer out.
"""

import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import time

from accuracy import Quern
from models import enter_environment

WHEELS = "numpy onnx onnxruntime pillow"
SIDE, CROP = 256, 224
OPSET = 13  # the first one with scales for each channel


class Model:
    def __init__(self, mean, scale, bgr):
        self.mean, self.scale, self.bgr = mean, scale, bgr

    def pixels(self, picture):
        """The model's input, of a picture as an array of height, width and colours."""
        import numpy

        picture = picture[:, :, ::-1] if self.bgr else picture
        floats = (picture.astype("float32") - numpy.float32(self.mean)) * numpy.float32(self.scale)
        return numpy.ascontiguousarray(floats.transpose(2, 0, 1)[None])

    def flags(self):
        return ["--mean", ",".join(map(str, self.mean)), "--scale", str(self.scale), "--resize", str(SIDE), "--crop",
                "227,224", *(["--bgr"] if self.bgr else [])]


MODELS = {
    "mobilenet_v1_0.75_224": Model((127.5, 127.5, 127.5), 1 / 127.5, False),
    "squeezenet1.1_fp32": Model((104, 117, 123), 1.0, True),
}


def read(path):
    import numpy
    from PIL import Image

    image = Image.open(path).convert("RGB")
    if min(image.size) != SIDE:
        factor = SIDE / min(image.size)
        image = image.resize([round(s * factor) for s in image.size], Image.BILINEAR)
    return numpy.asarray(image)


def centre(picture):
    y, x = ((s - 227) // 2 + 1 for s in picture.shape[:2])
    return picture[y:y + CROP, x:x + CROP]


def views(picture):
    h, w = (s - CROP for s in picture.shape[:2])
    for y, x in ((0, 0), (0, w), (h, 0), (h, w), (h // 2, w // 2)):
        crop = picture[y:y + CROP, x:x + CROP]
        yield crop
        yield crop[:, ::-1]


class Session(Quern):
    """One of our models, loaded once."""

    def __init__(self, library, file):
        super().__init__(library)
        self.model, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("qn_model_load_file", str(file).encode(), None, ctypes.byref(self.model))
        self.call("qn_session_create", self.model, None, ctypes.byref(self.session))

    def __call__(self, x, like):
        self.call("qn_session_run", self.session, (ctypes.c_void_p * 1)(x.ctypes.data))
        return self.output(self.session, 0, like)


class Peer:
    """An ONNX file by ONNX Runtime."""

    def __init__(self, file):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def __call__(self, x, like=None):
        return self.session.run(None, {self.input: x})[0]


def quantize_peer(source, target, model, pictures, method, options):
    from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType,
                                          quantize_static)
    from onnxruntime.quantization.shape_inference import quant_pre_process

    name = Peer(source).input

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(pictures)

        def get_next(self):
            picture = next(self.left, None)
            return None if picture is None else {name: model.pixels(centre(picture))}

    import onnx

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(onnx.version_converter.convert_version(onnx.load(str(source)), OPSET), str(prepared),
                      skip_symbolic_shape=True)
    prepared_model = onnx.load(str(prepared))
    for i, node in enumerate(prepared_model.graph.node):
        node.name = f"node_{i}"
    onnx.save(prepared_model, str(prepared))
    softmax = [node.name for node in prepared_model.graph.node if node.op_type == "Softmax"]
    quantize_static(str(prepared), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, nodes_to_exclude=softmax,
                    calibrate_method=getattr(CalibrationMethod, method), extra_options=options)


def losses(run, model, pictures, expected):
    """For each picture its mean loss, and how many of its views agree."""
    import numpy

    loss, same = [], []
    for picture, probabilities in zip(pictures, expected):
        got = [run(model.pixels(view), p) for view, p in zip(views(picture), probabilities)]
        p, q = (numpy.float64(list(map(numpy.ravel, x))) + 1e-12 for x in (probabilities, got))
        loss.append((p * numpy.log(p / q)).sum(axis=1).mean())
        same.append((p.argmax(axis=1) == q.argmax(axis=1)).mean())
    return numpy.array(loss), numpy.array(same)


def bootstrap(ours, peers):
    import numpy

    generator = numpy.random.default_rng(1)
    draws = generator.integers(0, len(ours), (4000, len(ours)))
    return numpy.percentile(ours[draws].mean(axis=1) / peers[draws].mean(axis=1), 97.5)


def compare(name, options, folder):
    model, source = MODELS[name], options.assets / "models" / "onnx" / f"{name}.onnx"
    files = sorted((options.assets / "images" / "imagenet").glob("*.jp*g"))
    calibrate, rest = files[:options.calibrate], [read(f) for f in files[options.calibrate:]]
    before = Peer(source)
    expected = [[before(model.pixels(view)) for view in views(picture)] for picture in rest]
    results = {}

    def show(label, run, seconds):
        results[label] = losses(run, model, rest, expected)
        loss, same = (r.mean() for r in results[label])
        print(f"{name}  {label:34} {seconds:6.1f} s  KL {loss:.5f}  agreement {100 * same:5.2f}%", flush=True)

    pictures = [read(f) for f in calibrate]
    for label, method, extra in (("onnxruntime MinMax", "MinMax", {}),
                                 ("onnxruntime Percentile 99.99", "Percentile", {"CalibPercentile": 99.99}),
                                 ("onnxruntime Percentile 99.999", "Percentile", {"CalibPercentile": 99.999})):
        if options.ours_only:
            break
        target, begin = folder / "peer.onnx", time.monotonic()
        quantize_peer(source, target, model, pictures, method, extra)
        show(label, Peer(target), time.monotonic() - begin)
    for ratio in options.ratios:
        plain, target = folder / "plain.qn", folder / "small.qn"
        subprocess.run([options.quern, "convert", source, "-o", plain], check=True, capture_output=True)
        begin = time.monotonic()
        subprocess.run([options.quern, "compress", plain, "-o", target, "--calibrate", *calibrate, *model.flags(),
                        "--mirror", "--target-ratio", str(ratio)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        smaller = plain.stat().st_size / target.stat().st_size
        show(f"quern compress, {smaller:.2f} times smaller", Session(options.library, target), seconds)
    if options.ratios:
        return True
    for flags in options.flags or [""]:
        target, begin = folder / "ours.qn", time.monotonic()
        subprocess.run([options.quern, "quantize", source, "-o", target, "--calibrate", *calibrate, *model.flags(),
                        *flags.split()], check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        show("quern " + flags, Session(options.library, target), seconds)
    peers = [r[0] for label, r in results.items() if label.startswith("onnxruntime")]
    if not peers:
        return True
    best, worst = min(peers, key=lambda r: r.mean()), []
    for label, (loss, _) in results.items():
        if label.startswith("quern"):
            worst.append(bootstrap(loss, best))
            print(f"{name}  {label}: {loss.mean() / best.mean():.3f} of the best peer's, at most {worst[-1]:.3f}")
    return worst[0] < 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("assets", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--calibrate", type=int, default=100)
    parser.add_argument("--flags", action="append", help="of quern quantize; may be repeated")
    parser.add_argument("--ratios", type=float, nargs="+", default=[], help="of quern compress")
    parser.add_argument("--ours-only", action="store_true")
    options = parser.parse_args()
    options.library = options.library or options.quern.parents[1] / "libquern.so"
    enter_environment(WHEELS)
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(name, options, pathlib.Path(folder)) for name in options.models]
    if options.ratios:
        return 0
    print(f"ONNX Runtime's quantizer loses more: {sum(good)} agree, {len(good) - sum(good)} differ")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Trains the digit classifier of examples/digits and writes everything in that folder but its README and digits.qn.

Data: the 1797 handwritten digits that come with scikit-learn (8x8 pixels, 17 levels of ink).  The split is fixed:
stratified by class, 1437 images to train on and 360 held out. The held-out images are used once, after the last epoch.

    digits.onnx        the network: 1x1x40x40 gray image, (pixel - 127.5) / 127.5, to 10 probabilities
    digit_0.png ...    the first held-out image of each class
    digit_7.pgm        one of them, for programs that cannot read PNG
    labels.txt         names of the ten outputs
    accuracy.json      what this script measured

Needs Debian's python3-torch and python3-sklearn (scripts/setup.sh training).  Takes under a minute.
"""

import json
import pathlib
import struct
import zlib

import numpy
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 1
HELD_OUT = 360
EPOCHS = 60
BATCH = 64
MARGIN = 1  # white pixels around each digit; without them it touches the border
ZOOM = 4
SIDE = (8 + 2 * MARGIN) * ZOOM
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "digits"
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def load_images():
    """Returns all digits as 8-bit gray pictures, SIDE pixels wide, dark ink on white paper, as in the PNG files."""
    digits = load_digits()
    ink = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    ink = nn.functional.pad(ink, [MARGIN] * 4)
    ink = nn.functional.interpolate(ink, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
    pixels = (255 * (1 - ink.clamp(0, 1))).round().to(torch.uint8)
    return pixels, torch.tensor(digits.target)


def normalize(pixels):
    return (pixels.to(torch.float32) - 127.5) / 127.5


def conv(inputs, outputs, kernel, stride=1, groups=1):
    """Convolution, batch normalization, relu."""
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    ]


def make_network():
    return nn.Sequential(
        *conv(1, 16, kernel=3, stride=2),  # 20x20
        *conv(16, 16, kernel=3, groups=16),
        *conv(16, 32, kernel=1),
        nn.MaxPool2d(2),  # 10x10
        *conv(32, 32, kernel=3, groups=32),
        *conv(32, 48, kernel=1),
        *conv(48, 64, kernel=3, stride=2),  # 5x5
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def jitter(images):
    """Turns, scales and shifts each image a little, so that the network sees no image twice."""
    n = len(images)
    angle = (torch.rand(n) - 0.5) * 0.35
    scale = 1 + (torch.rand(n) - 0.5) * 0.2
    shift = (torch.rand(n, 2) - 0.5) * 0.25
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    transform = torch.stack(
        [torch.stack([cos, -sin, shift[:, 0]], 1), torch.stack([sin, cos, shift[:, 1]], 1)], 1)
    grid = nn.functional.affine_grid(transform, images.shape, align_corners=False)
    return nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def train(network, images, labels):
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.01)
    steps = EPOCHS * ((len(images) + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    network.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(network(jitter(images[batch])), labels[batch], label_smoothing=0.02)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1:2d}  loss {total / len(images):.4f}", flush=True)
    network.eval()


def write_png(path, pixels):
    """8-bit gray PNG without filters."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def write_pgm(path, pixels):
    """8-bit gray binary PGM."""
    height, width = pixels.shape
    path.write_bytes(f"P5 {width} {height} 255\n".encode() + pixels.tobytes())


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    pixels, labels = load_images()
    training, held_out = train_test_split(
        numpy.arange(len(pixels)), test_size=HELD_OUT, stratify=labels.numpy(), random_state=SEED)
    network = make_network()
    train(network, normalize(pixels[training]), labels[training])

    with torch.no_grad():
        guesses = network(normalize(pixels[held_out])).argmax(1)
    right = int((guesses == labels[held_out]).sum())
    accuracy = right / len(held_out)
    print(f"held out: {right} of {len(held_out)} right, {100 * accuracy:.2f}%")

    FOLDER.mkdir(parents=True, exist_ok=True)
    # PRESERVE keeps batch normalization as separate nodes, because folding them is the converter's work.
    torch.onnx.export(
        nn.Sequential(network, nn.Softmax(dim=1)).eval(), torch.zeros(1, 1, SIDE, SIDE), str(FOLDER / "digits.onnx"),
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, opset_version=13,
        input_names=["image"], output_names=["probability"])
    for digit in range(10):
        first = next(i for i in held_out if labels[i] == digit)
        write_png(FOLDER / f"digit_{digit}.png", pixels[first, 0].numpy())
        if digit == 7:
            write_pgm(FOLDER / f"digit_{digit}.pgm", pixels[first, 0].numpy())
    (FOLDER / "labels.txt").write_text("".join(f"{name}\n" for name in NAMES))
    report = {
        "data": "scikit-learn load_digits, 1797 images, stratified split",
        "seed": SEED,
        "trained_on": len(training),
        "held_out": len(held_out),
        "held_out_right": right,
        "held_out_accuracy": round(accuracy, 4),
        "parameters": sum(p.numel() for p in network.parameters()),
        "torch": torch.__version__,
    }
    (FOLDER / "accuracy.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

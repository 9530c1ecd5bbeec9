#!/usr/bin/env python3
"""Turns the JSON of quern-bench into the tables of results/ (gemm, depthwise, elementwise, operators).

    quern-bench --benchmark_out=FILE --benchmark_out_format=json [--benchmark_repetitions=N]
    bench/table.py FILE
"""

import collections
import json
import re
import sys

# Elementwise kernel -> the stream that loads and stores as many bytes.
STREAM_OF = {"vadd": "2r1w", "vmul": "2r1w", "vclamp": "1r1w", "vhswish": "1r1w", "vmulc": "1r1w", "vmax": "1r0w"}


def natural(name):
    """A key that sorts by words, and by the values of numbers."""
    return [part.zfill(9) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def read_lines(path):
    """Returns the context, and a dictionary: name -> the line of the median repetition."""
    with open(path, encoding="utf-8") as file:
        output = json.load(file)
    lines = collections.defaultdict(list)
    for line in output["benchmarks"]:
        if line.get("run_type") != "aggregate" and not line.get("error_occurred"):
            lines[line["run_name"]].append(line)
    medians = {}
    for name, repetitions in sorted(lines.items(), key=lambda line: natural(line[0])):
        repetitions.sort(key=lambda line: line["ops_per_second"])
        medians[name] = repetitions[len(repetitions) // 2]
    return output["context"], medians


def print_table(title, header, rows):
    if not rows:
        return
    print(f"\n### {title}\n\n| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def giga(line, counter="ops_per_second"):
    return f"{line[counter] / 1e9:.1f}"


def kernel_rows(lines, families):
    for name, line in lines.items():
        match = re.fullmatch(r"kernel/(qn_(\w+?)_f32_\w+)/([0-9x]+)/threads:1", name)
        if match and match[2] in families:
            yield f"`{match[1]}`", match[3], line.get("label", ""), giga(line), f"{line['percent_of_peak']:.1f}%"


def stream_rows(lines):
    for name, line in lines.items():
        match = re.fullmatch(r"kernel/(qn_(\w+)_f32_(\w+))/(\d+)/threads:1", name)
        stream = match and lines.get(f"stream/{STREAM_OF.get(match[2])}/{match[3]}/{match[4]}/threads:1")
        if stream:
            ratio = line["bytes_per_second"] / stream["bytes_per_second"]
            yield (f"`{match[1]}`", match[4], line.get("label", ""), giga(line, "bytes_per_second"),
                   giga(stream, "bytes_per_second"), f"{100 * ratio:.0f}%")


def speedup_rows(lines):
    for name, line in lines.items():
        match = re.fullmatch(r"kernel/(qn_(v\w+|maxpool|avgpool)_f32)_(\w+)/([0-9x]+)/threads:1", name)
        reference = match and match[3] != "ref" and lines.get(f"kernel/{match[1]}_ref/{match[4]}/threads:1")
        if reference:
            ratio = line["ops_per_second"] / reference["ops_per_second"]
            yield f"`{match[1]}_{match[3]}`", match[4], giga(line), giga(reference), f"{ratio:.1f}"


def operator_rows(lines):
    for name, line in lines.items():
        match = re.fullmatch(r"op/(\w+)/f32/(\w+)/(\w+)/threads:1", name)
        if not match:
            continue
        two = lines.get(name[:-1] + "2")
        yield (match[1], match[3], match[2], f"`{line.get('label', '')}`", giga(line), f"{line['percent_of_peak']:.1f}%",
               giga(two) if two else "", f"{two['ops_per_second'] / line['ops_per_second']:.2f}" if two else "")


def peaks(context, prefix):
    found = {key.removeprefix(prefix): value for key, value in context.items() if key.startswith(prefix)}
    return ", ".join(f"{level} {float(value):.1f}" for level, value in found.items()) or "none"


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    context, lines = read_lines(sys.argv[1])
    print(f"Level {context['quern_isa']}; peak of one core, without other work, in GFLOP/s: "
          f"{peaks(context, 'quern_peak_gflops_')}; of int8 in GOP/s: {peaks(context, 'quern_peak_gops_of_bytes_')}")
    kernel_header = ("kernel", "shape", "operands in", "GFLOP/s", "of peak")
    print_table("Matrix and depthwise kernels", kernel_header, list(kernel_rows(lines, {"gemm", "igemm", "dwconv"})))
    print_table("Elementwise kernels and a bare load and store loop",
                ("kernel", "elements", "operands in", "GB/s", "loop GB/s", "ratio"), list(stream_rows(lines)))
    print_table("Vector kernels and their references", ("kernel", "shape", "Gop/s", "reference Gop/s", "ratio"),
                list(speedup_rows(lines)))
    print_table("Operators", ("operator", "shape", "algorithm", "kernel", "Gop/s", "of peak", "2 threads", "speed-up"),
                list(operator_rows(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs bench/peers/models.py for a moment on an f32 and an int8 model: all engines run it and agree. No timing is judged.

    peers_models_test.py MODELS_PY QUERN
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ENGINES = {"f32": {"onnxruntime", "mnn", "ncnn", "openvino"},
           "qs8": {"onnxruntime-u8", "onnxruntime-s8", "mnn-int8", "openvino-u8", "openvino-s8"}}


def problems_of(script, quern, kind, file):
    flags = (f"--type={kind}", "--models=mobilenet_v1", "--rounds=1", "--runs=1", "--threads=1", f"--json={file}")
    result = subprocess.run([sys.executable, script, quern, *flags], check=False, capture_output=True, text=True)
    if result.returncode or not file.exists():
        yield f"status {result.returncode}: {result.stderr[-1000:]}"
        return
    engines = {record["engine"]: record for record in json.loads(file.read_text())}
    if set(engines) != {"quern", *ENGINES[kind]}:
        yield f"other engines: {set(engines)}"
    for record in engines.values():
        if record["type"] != kind or not record["median_ms"] > 0:
            yield f"another record: {record}"
    if result.stdout.count("| mobilenet_v1 | ") != 1 or ("ncnn takes no part" in result.stdout) != (kind == "qs8"):
        yield f"another table:\n{result.stdout}"


def main():
    script, quern = sys.argv[1:]
    agree = differ = 0
    for kind, engines in ENGINES.items():
        with tempfile.TemporaryDirectory() as folder:
            problems = list(problems_of(script, quern, kind, pathlib.Path(folder, "records.json")))
        print("\n".join(problems))
        agree += 0 if problems else len(engines)
        differ += len(problems)
    print(f"engines of bench/peers: {agree} agree, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

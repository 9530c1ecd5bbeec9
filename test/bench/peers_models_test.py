#!/usr/bin/env python3
"""Runs bench/peers/models.py for a moment on a model of bytes: all engines run it and agree. No timing is judged.
Skipped where the script has not yet made its environment, which takes long.

    peers_models_test.py MODELS_PY QUERN
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77


def problems_of(script, quern, folder):
    file = pathlib.Path(folder, "records.json")
    flags = ("--type=qs8", "--models=mobilenet_v1", "--rounds=1", "--runs=1", "--threads=1", "--json", str(file))
    result = subprocess.run([sys.executable, script, quern, *flags], check=False, capture_output=True, text=True)
    if result.returncode or not file.exists():
        yield f"status {result.returncode}: {result.stderr[-1000:]}"
        return
    engines = {record["engine"]: record for record in json.loads(file.read_text())}
    if set(engines) != {"quern", "onnxruntime-u8", "onnxruntime-s8", "mnn-int8", "openvino-u8", "openvino-s8"}:
        yield f"other engines: {set(engines)}"
    for record in engines.values():
        if record["type"] != "qs8" or not record["median_ms"] > 0:
            yield f"another record: {record}"
    if result.stdout.count("| mobilenet_v1 | ") != 1 or "ncnn takes no part" not in result.stdout:
        yield f"another table:\n{result.stdout}"


def main():
    script, quern = sys.argv[1:]
    if not pathlib.Path(script).resolve().parents[2].joinpath("build/peers-venv/requirements.txt").exists():
        print("bench/peers/models.py has not yet made build/peers-venv")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        problems = list(problems_of(script, quern, folder))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

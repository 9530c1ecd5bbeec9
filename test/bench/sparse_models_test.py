#!/usr/bin/env python3
"""Runs bench/sparse/models.py for a moment: its records, its table, what it says of a failure. No timing is judged.

    sparse_models_test.py MODELS_PY QUERN
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ZEROS = (0.3, 0.6, 0.9)


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)


def problems_of(script, quern, folder):
    file = pathlib.Path(folder, "records.json")
    result = run(script, quern, "--models", "squeezenet_v1.1", "--blocks", "1,4", "--zeros", ",".join(map(str, ZEROS)),
                 "--rounds=1", "--runs=1", "--json", str(file))
    if result.returncode:
        yield f"status {result.returncode}: {result.stderr[-500:]}"
        return
    records = json.loads(file.read_text())
    if [(record["block"], record["zeros"]) for record in records] != [(block, z) for block in (1, 4) for z in ZEROS]:
        yield f"other records: {records}"
    for record in records:
        for side in ("dense", "free", "sparse"):
            if not record[f"{side}_ms"] >= record[f"{side}_min_ms"] > 0 or not record[f"{side}_speedup"] > 0:
                yield f"no time of {side} in {record}"
    rows = [line for line in result.stdout.split("\n") if line.startswith("| squeezenet_v1.1 | ")]
    fits = [row.split(" | ")[-1].split()[0] for row in rows if "| sparse |" in row]
    if len(rows) != 4 or len(fits) != 2 or not all(0 <= float(fit) <= 1 for fit in fits):
        yield f"another table:\n{result.stdout}"
    if "The chooser at its worst: " not in result.stdout:
        yield "no summary"

    result = run(script, quern, "--models", "nosuch")
    if result.returncode == 0 or "nosuch" not in result.stderr:
        yield f"a model that does not exist gave status {result.returncode}: {result.stderr[-500:]}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        problems = list(problems_of(*sys.argv[1:], folder))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares Quern with other engines: runs each row of COMPARISONS once.

    scripts/compare_engines.py [NAME...] [--build build/release] [--list]

The wheels of the engines are installed into build/engines/venv, in the versions of engine_wheels.txt. Rows run as soon as
their wheels are there, as many at a time as there are cores. Their output is written to build/engines/log/NAME. NAME selects
rows; --list prints the table.

The last line of a script says "N agree, M differ". A row fails if its script fails, if a case differs, or if fewer than
`least` cases agree. The last lines here say how many comparisons ran and which did not, with what to install. Exit status 1
if one failed, or none ran.
"""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/engines"
VENV = FOLDER / "venv"
PINS = ROOT / "scripts/engine_wheels.txt"
# Wheels that work without what they depend on: PyTorch and TensorFlow with CUDA, gigabytes.
ALONE = {"pnnx", "tf-keras"}
# The last version that includes the data of the node tests; only its files are used.
NODE_TESTS = "onnx==1.20.1"
TIMEOUT = 900
SKIPPED = 77

ONNX = "numpy onnx onnxruntime"
TENSORFLOW = "numpy h5py keras tensorflow-cpu"


class Comparison(typing.NamedTuple):
    name: str
    wheels: str
    least: int  # cases that must agree
    # For bash, in the root. Variables: QUERN, the command; BUILD, its build folder; SCRATCH, an empty folder;
    # NODE_TESTS, a folder of ONNX; JOBS, how many processes to start.
    command: str
    needs: str = ""  # a variable that the command reads
    by_hand: str = ""  # why it does not run here, and how to run it


# In this order wheels are installed, the largest ones while rows before run.
COMPARISONS = [
    Comparison("resize_ort", ONNX, 2000, "python3 test/convert/resize_ort.py $BUILD/test/convert/quern_convert_test"),
    Comparison("random_onnx", ONNX, 500,
               "python3 test/convert/random_onnx.py $QUERN --graphs 600 --levels default --jobs $JOBS"),
    Comparison("affine_chains", ONNX, 5000, "test/convert/affine_chains.py $QUERN"),
    Comparison("contrib_ort", ONNX, 530, "test/convert/contrib_ort.py $QUERN"),
    Comparison("tflite_models", "numpy ai-edge-litert", 280, "python3 test/convert/tflite_models.py $QUERN"),
    Comparison("onnx_nodes", ONNX, 1160, "scripts/onnx_nodes.py $QUERN --folder $NODE_TESTS --jobs $JOBS"),
    Comparison("tensorflow_graphs", TENSORFLOW, 860, "python3 test/convert/tensorflow_graphs.py $QUERN"),
    Comparison("keras_models", TENSORFLOW, 450, "test/convert/keras_models.py $QUERN"),
    Comparison("keras_2_models", TENSORFLOW + " tf-keras", 215, "KERAS=tf_keras test/convert/keras_models.py $QUERN"),
    Comparison("export_nodes", ONNX, 1140, "scripts/export_check.py $QUERN --folder $NODE_TESTS --jobs $JOBS"),
    Comparison("export_zoo", ONNX, 10, "scripts/export_check.py $QUERN --zoo qs8 --jobs $JOBS"),
    Comparison("quantized_onnx", ONNX + " pillow", 250, """
        check() { python3 scripts/check_onnxruntime.py "$@"; }
        check make resnet -o $SCRATCH/resnet.onnx
        check quantize $SCRATCH/resnet.onnx --images examples/digits --count 3 -o $SCRATCH/quantized
        check nodes $SCRATCH/quantized/*.onnx --images examples/digits --count 1 --quern $QUERN"""),
    Comparison("quantizers", ONNX + " pillow", 2, "bench/peers/quantizers.py $QUERN $QUERN_ASSETS",
               needs="QUERN_ASSETS"),
    Comparison("accuracy", ONNX, 2, "bench/peers/accuracy.py $QUERN mobilenet_v2 squeezenet_v1.1"),
    Comparison("peers_models", ONNX + " mnn ncnn openvino pillow pnnx", 9,
               "python3 test/bench/peers_models_test.py bench/peers/models.py $QUERN"),
    Comparison("peers_sparse", ONNX + " mnn", 1, "bench/peers/sparse.py $QUERN --models squeezenet_v1.1 --blocks 4 "
               "--zeros 0.75 --threads 1 --rounds 1 --runs 1"),
    Comparison("streams", ONNX, 4, "test/convert/streams.py $BUILD $QUERN_ASSETS", needs="QUERN_ASSETS"),
    Comparison("peers_operators", "", 1, "bench/peers/operators.py $BUILD/bench/peers/quern-peers-bench",
               by_hand="needs a build of XNNPACK: cmake --preset release -DQUERN_PEERS_BENCH=ON -DXNNPACK_DIR=DIR"),
    Comparison("torch_models", "", 1, "test/convert/torch_models.py $QUERN",
               by_hand="takes an hour and gigabytes: pip install torch torchvision onnx onnxscript onnxruntime"),
]


# ---- wheels

class InstallError(Exception):
    pass


def install(python, wheels, *flags):
    """Calls pip. Wheels are large: none is cached, and no module is compiled before it is imported."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
               "--no-compile", "--only-binary", ":all:", "--retries", "2", *flags, *wheels]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        if "connection broken by" in done.stderr:
            raise InstallError("no network")
        errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        raise InstallError(errors[0] if errors else f"pip: status {done.returncode}")


def pinned(wheels):
    pins = dict(line.split("==") for line in PINS.read_text().splitlines() if "==" in line)
    return [f"{wheel}=={pins[wheel]}" for wheel in wheels]


class Environment:
    """The virtual environment. A file in it lists the wheels that it has."""

    def __init__(self):
        self.python = VENV / "bin/python"
        self.list = VENV / "installed"
        self.state = f"{sys.version} {hashlib.sha256(PINS.read_bytes()).hexdigest()}"

    def installed(self):
        lines = self.list.read_text().splitlines() if self.list.exists() and self.python.exists() else []
        return lines[1:] if lines[:1] == [self.state] else None

    def create(self):
        if self.installed() is not None:
            return
        command = [sys.executable, "-m", "venv", "--clear", VENV]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise InstallError("python3 -m venv fails; apt install python3-venv")
        self.list.write_text(self.state + "\n")

    def provide(self, wheels):
        self.create()
        missing = [wheel for wheel in wheels if wheel not in self.installed()]
        pins = ["--constraint", PINS]
        if alone := [wheel for wheel in missing if wheel in ALONE]:
            install(self.python, pinned(alone), "--no-deps", *pins)
        if rest := [wheel for wheel in missing if wheel not in ALONE]:
            install(self.python, pinned(rest), *pins)
        with self.list.open("a") as file:
            file.writelines(wheel + "\n" for wheel in missing)

    def node_tests(self):
        """Unpacks the node tests."""
        target = VENV / NODE_TESTS
        if "node tests" not in self.installed():
            install(self.python, [NODE_TESTS], "--no-deps", "--target", target)
            with self.list.open("a") as file:
                file.write("node tests\n")
        return target / "onnx/backend/test/data/node"


def enter_environment(wheels):
    """Starts the calling script again in the environment, with these wheels."""
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    environment = Environment()
    try:
        environment.provide(wheels.split())
    except InstallError as error:
        sys.exit(f"cannot install {wheels}: {error}")
    os.execv(environment.python, [str(environment.python), *sys.argv])


# ---- runs

class Result(typing.NamedTuple):
    row: Comparison
    status: str  # agrees, failed, did not run
    text: str
    cases: int = 0


def provide(environment, row):
    """Installs what a row needs. Returns the folder of node tests, if it is one of the things."""
    environment.provide(row.wheels.split())
    return environment.node_tests() if "$NODE_TESTS" in row.command else ""


def judge(row, status, text):
    """What the exit status and the output of a row say."""
    last = text.strip().split("\n")[-1]
    found = re.search(r"(\d+) agree, (\d+) differ", last)
    if status == SKIPPED:
        return Result(row, "did not run", last)
    if status or not found:
        return Result(row, "failed", f"exit status {status}, last line: {last}")
    agree = int(found[1])
    if agree < row.least or int(found[2]):
        return Result(row, "failed", f"expected {row.least} cases to agree and none to differ, got: {last}", agree)
    return Result(row, "agrees", last, agree)


def run(row, environment, wheels, build, jobs):
    try:
        node_tests = wheels.result()
    except InstallError as error:
        wanted = " ".join(pinned(row.wheels.split()))
        return Result(row, "did not run", f"needs pip install {wanted} (Python {sys.version.split()[0]}: {error})")
    start = time.monotonic()
    variables = {**os.environ, "PATH": f"{environment.python.parent}:{os.environ['PATH']}", "BUILD": str(build),
                 "QUERN": str(build / "src/tool/quern"), "NODE_TESTS": str(node_tests), "JOBS": str(jobs)}
    log = FOLDER / "log" / row.name
    with tempfile.TemporaryDirectory() as scratch, log.open("w") as file:
        try:
            status = subprocess.run(["bash", "-euc", row.command], cwd=ROOT, env=dict(variables, SCRATCH=scratch),
                                    timeout=TIMEOUT, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
        except subprocess.TimeoutExpired:
            status = f"none after {TIMEOUT} s"
    text = log.read_text(errors="replace")
    result = judge(row, status, text)
    if result.status == "failed":
        print("\n".join(text.strip().split("\n")[-30:]))
    print(f"{row.name}: {result.status}, {time.monotonic() - start:.0f} s: {result.text}", flush=True)
    return result


def run_all(rows, build):
    environment = Environment()
    (FOLDER / "log").mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    with (concurrent.futures.ThreadPoolExecutor(1) as installer,
          concurrent.futures.ThreadPoolExecutor(cores) as runner):
        wheels = [installer.submit(provide, environment, row) for row in rows]
        runs = [runner.submit(run, row, environment, there, build, max(1, cores // 2))
                for row, there in zip(rows, wheels)]
        return [one.result() for one in runs]


def obstacle(row):
    """Why a row does not run here; nothing if it does."""
    if row.by_hand:
        return f"{row.by_hand}; then {row.command}"
    return f"set {row.needs}" if row.needs and row.needs not in os.environ else ""


def summary(results):
    of = {status: [r for r in results if r.status == status] for status in ("agrees", "failed", "did not run")}
    ran = len(of["agrees"]) + len(of["failed"])
    yield (f"Engines: {ran} of {len(results)} comparisons ran, {len(of['failed'])} of them failed; "
           f"{sum(r.cases for r in results)} cases agree")
    yield from (f"  {r.row.name}: {r.text}" for r in of["agrees"])
    yield from (f"  {r.row.name} FAILED: {r.text}" for r in of["failed"])
    yield from (f"  {r.row.name} did not run: {r.text}" for r in of["did not run"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {row.name for row in COMPARISONS}:
        parser.error(f"no comparison {', '.join(sorted(unknown))}; --list names them")
    rows = [row for row in COMPARISONS if row.name in arguments.names or not arguments.names]
    if arguments.list:
        for row in rows:
            print(f"{row.name:20}{row.least:6}  {row.wheels or '-':60}{' '.join(row.command.split())}")
        return 0
    results = [Result(row, "did not run", why) for row in rows if (why := obstacle(row))]
    results += run_all([row for row in rows if not obstacle(row)], arguments.build.resolve())
    lines = list(summary(results))
    (FOLDER / "summary").write_text("\n".join(lines) + "\n")
    print("", *lines, sep="\n")
    return 0 if any(r.status == "agrees" for r in results) and not any(r.status == "failed" for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())

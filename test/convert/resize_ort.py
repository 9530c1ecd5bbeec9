#!/ usr / bin / env python3
"""Compares resized models with ONNX Runtime, whose inputs have open dimensions.

    test/convert/resize_ort.py build/release/test/convert/quern_convert_test

Runs the random graphs of resize_test.cc, and each of them with ONNX Runtime on the same input. Needs numpy and onnxruntime,
which it looks for in build/peers-venv (bench/peers/README.md), too;
exits with 77 where there are none.
"""
import collections, glob, os, pathlib, subprocess, sys, tempfile

VENV = pathlib.Path(__file__).resolve().parents[2] / "build/peers-venv"
sys.path += glob.glob(str(VENV / "lib/python3*/site-packages"))
try:
    import numpy as np
    import onnxruntime as ort
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOLERANCE = 1e-4  # of the largest element, or of 1


def engine(path, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def difference(got, want):
    """What differs, or nothing. NaN equals NaN, and infinities themselves."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return "differs in what is not finite"
    if not finite.any():
        return ""
    error = np.abs(got[finite].astype(np.float64) - want[finite]).max()
    limit = TOLERANCE * max(1, np.abs(want[finite]).max())
    return "" if error <= limit else f"differs by {error:.3g}, limit {limit:.3g}"


def main():
    binary = sys.argv[1]
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "--gtest_filter=Resize.*", "--gtest_brief=1"]
        subprocess.run(command, env=dict(os.environ, QUERN_RESIZE_DUMP=folder), check=True, stdout=subprocess.DEVNULL)
        for path in sorted(pathlib.Path(folder).glob("*.onnx")):
            out = path.with_suffix(".out.npy")
            if not out.exists():
                counts["refused"] += 1
                continue
            try:
                want = engine(str(path), np.load(path.with_suffix(".in.npy")))
            except Exception as error:  # of a type that the engine keeps to itself
                counts["refused by ONNX Runtime"] += 1
                if os.environ.get("VERBOSE"):
                    print(f"{path.stem}: {error}")
                continue
            what = difference(np.load(out), want)
            counts["different" if what else "equal"] += 1
            if what:
                failures.append(f"{path.stem}: {what}")
    print(*failures, sep="\n")
    print(f"ONNX Runtime {ort.__version__}:", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    sys.exit(1 if failures or counts["equal"] < 2000 else 0)


main()

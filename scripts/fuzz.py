#!/usr/bin/env python3
"""Fuzzes what reads files of others: importers, the loader with the runner, the coder, plans (test/fuzz/README.md).

    scripts/fuzz.py [SECONDS] [--only onnx,qn] [--jobs 2] [--grow]

Builds libFuzzer's program (preset `fuzz`), lets each reader begin with its seeds, the corpus that is kept and what
earlier runs found, and runs it for SECONDS (30). Prints how many files each reader has read, how many a second, and
which part of the lines of its folders that has reached. Fails if a file crashes a reader, leaks, takes too long or
too much memory, or if a reader's lines are reached by less than the bound; a file that does so stays in
build/fuzz/findings.

--grow begins with the models of the importers' tests as well, and afterwards keeps the fewest files that reach as much.
"""

import argparse
import concurrent.futures
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
PROGRAM = BUILD / "test" / "fuzz" / "quern_fuzzer"
KEPT = ROOT / "test" / "fuzz" / "corpus"  # an archive for each reader
LLVM = "/usr/lib/llvm-19/bin/"
LEAST_COVERAGE = 0.70

# Reader -> folders and files that are its parser, but for files that are generated, that write or that another process runs.
FOLDERS = {
    "qn": ("src/graph/file",),
    "onnx": ("src/convert/onnx",),
    "tflite": ("src/convert/tflite",),
    "pb": ("src/convert/tensorflow",),
    "pbtxt": ("src/convert/tensorflow",),
    "caffe": ("src/convert/caffe",),
    "keras": ("src/convert/keras",),
    "coder": ("src/graph/coder",),
    "plan": ("src/tool/plan.cc",),
}
NO_PARSERS = re.compile(r"onnx/export/|keras/(hdf5|confined)\.|"
                        r"file/(write_model|new_file|encode_sparse|tuning_file|.*_generated)\.|coder/encode_")

# A file may take ten seconds and a gigabyte; sanitizers and other programs on the machine need as much again.
LIMITS = ["-timeout=30", "-rss_limit_mb=2560", "-malloc_limit_mb=1024", "-max_len=20000"]


os.environ["LLVM_PROFILE_FILE"] = "/dev/null"  # where no coverage is asked for
os.environ.setdefault("QUERN_ISA", "ref")  # sanitizers do not see what assembly reads and writes


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, **options)


def build():
    run("cmake", "--preset", "fuzz", stdout=subprocess.DEVNULL)
    run("cmake", "--build", "--preset", "fuzz", "--target", "quern_fuzzer")


def models_of_tests():
    """Returns a folder with a folder of models for each reader, as the importers' tests make them."""
    folder = BUILD / "models"
    shutil.rmtree(folder, ignore_errors=True)
    run("cmake", "--preset", "release", stdout=subprocess.DEVNULL)
    run("cmake", "--build", "--preset", "release", "--target", "quern_convert_test")
    run(ROOT / "build/release/test/convert/quern_convert_test", "--gtest_brief=1",
        env={**os.environ, "QUERN_KEEP_MODELS": str(folder)})
    return folder


def fuzz(reader, arguments, folder, **environment):
    """Runs libFuzzer on a reader; returns what it printed, and whether it ended well."""
    environment = {**os.environ, **environment, "TMPDIR": folder}
    command = [PROGRAM, "--reader=" + reader, *LIMITS, *arguments]
    done = subprocess.run([str(part) for part in command], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.stdout, done.returncode == 0


def merge(reader, into, *folders):
    """Copies few files of some folders: with them the first folder makes a reader reach what all folders do."""
    with tempfile.TemporaryDirectory() as folder:
        output, well = fuzz(reader, ["-set_cover_merge=1", "-use_counters=0", into, *folders], folder)
    if not well:
        sys.exit(output)


def corpus_of(reader, models):
    """Returns the folder of files with which a reader begins."""
    corpus = BUILD / "corpus" / reader
    corpus.mkdir(parents=True, exist_ok=True)
    write_seeds(reader, corpus)
    archive = KEPT / (reader + ".tar.xz")
    if archive.exists():
        with tarfile.open(archive) as files:
            files.extractall(corpus)
    if models and (models / reader).exists():
        merge(reader, corpus, models / reader)
    return corpus


def coverage(reader):
    """Returns which part of the lines of a reader's folders its last run has reached, and the lines of each file."""
    data = profile(reader).with_suffix(".data")
    run(LLVM + "llvm-profdata", "merge", "-sparse", profile(reader), "-o", data)
    text = subprocess.run([LLVM + "llvm-cov", "export", "-summary-only", PROGRAM, "-instr-profile=" + str(data)],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = {}
    for file in json.loads(text)["data"][0]["files"]:
        name = os.path.relpath(file["filename"], ROOT)
        if (name + "/").startswith(tuple(folder + "/" for folder in FOLDERS[reader])) and not NO_PARSERS.search(name):
            lines[name] = (file["summary"]["lines"]["covered"], file["summary"]["lines"]["count"])
    return sum(c for c, _ in lines.values()) / sum(n for _, n in lines.values()), lines


def profile(reader):
    return BUILD / (reader + ".profile")


def try_reader(reader, seconds, models):
    """Fuzzes a reader; returns its row of the table and whether all is well."""
    findings = BUILD / "findings" / reader
    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        arguments = [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/", "-print_final_stats=1"]
        output, well = fuzz(reader, [*arguments, corpus_of(reader, models)], folder,
                            LLVM_PROFILE_FILE=str(profile(reader)))
    (BUILD / (reader + ".log")).write_text(output)
    if not well:
        print(f"---- {reader}\n" + "\n".join(output.splitlines()[-60:]), flush=True)
        return f"{reader:8}     a finding: {findings}, {BUILD / reader}.log\n{finding_of(output)}", False
    count = int(re.search(r"number_of_executed_units:\s*(\d+)", output)[1])
    rate = int(re.search(r"average_exec_per_sec:\s*(\d+)", output)[1])
    part, lines = coverage(reader)
    (BUILD / (reader + ".lines")).write_text("".join(f"{c:5} of {n:5}  {name}\n" for name, (c, n) in lines.items()))
    return f"{reader:8} {count:10} {rate:8}/s {part:9.1%}", part >= LEAST_COVERAGE


def finding_of(output):
    """Returns the lines that say what a finding is, and a small file itself."""
    said = [line for line in output.splitlines() if re.search("ERROR: |imported, but|runtime error|SUMMARY: |Base64: ", line)]
    return "\n".join(f"    {line[:2000]}" for line in said)


def plain(info):
    """Takes away what of a member of an archive depends on who makes the archive."""
    info.mtime, info.mode, info.uid, info.gid, info.uname, info.gname = 0, 0o644, 0, 0, "", ""
    return info


def pack(files, archive):
    """Makes an archive of files. Numbers as their names, and files of like size together, make it smaller."""
    with tarfile.open(archive, "w:xz", preset=9 | lzma.PRESET_EXTREME) as packed:
        for number, file in enumerate(sorted(files, key=lambda file: (file.stat().st_size, file.name))):
            packed.add(file, str(number), filter=plain)


def write_seeds(reader, folder):
    run(PROGRAM, "--reader=" + reader, "--seeds=" + str(folder))


def keep(reader):
    """Makes the corpus that is kept: few of the files in use, which with the seeds reach as much as all of them."""
    archive = KEPT / (reader + ".tar.xz")
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(reader, folder)
        seeds = set(os.listdir(folder))
        merge(reader, folder, BUILD / "corpus" / reader)
        KEPT.mkdir(exist_ok=True)
        pack([file for file in pathlib.Path(folder).iterdir() if file.name not in seeds], archive)
    print(f"{reader}: {archive.stat().st_size} bytes kept")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=int, default=30)
    parser.add_argument("--only", default=",".join(FOLDERS), help="readers, with commas between them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--grow", action="store_true", help="see above")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    build()
    models = models_of_tests() if arguments.grow else None
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda name: try_reader(name, arguments.seconds, models), names))
    table = "\n".join(["reader    executions      rate     lines", *(row for row, _ in rows)])
    print(table)
    (BUILD / "summary").write_text(table + "\n")
    if not all(well for _, well in rows):
        sys.exit(f"a finding, or less than {LEAST_COVERAGE:.0%} of the lines")
    for name in names if arguments.grow else []:
        keep(name)


if __name__ == "__main__":
    main()

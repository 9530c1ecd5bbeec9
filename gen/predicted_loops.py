#!/usr/bin/env python3
"""Writes src/tool/predict/predicted_loops.inc: how fast the main loops of the arm64 kernels run by models of cores.

    predicted_loops.py                print the table
    predicted_loops.py --check FILE   exit status 1 unless FILE is what would be printed; 77 where that is not to be told

Assembles and links asm/arm64/*.S, so that jumps from kernel to kernel have targets, and asks scripts/predict.py, which
says what a main loop is and where the cycles come from.  Where a model lets updates of base registers wait, which no
core does, the cycles are those with additions in their place.
$CC names the assembler, aarch64-linux-gnu-gcc without it.  Another llvm-mca than that of FILE may say something else.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import predict
import scoreboard

UNKNOWN = 77  # for ctest: skipped

HEAD = """\
// Written by gen/predicted_loops.py; llvm-mca {version}. Cycles of one iteration of a kernel's main loop.
//                MACs  {cores}  kernel
"""


def assemble(source, target):
    compiler = predict.tool("CC", ["aarch64-linux-gnu-gcc"])
    done = subprocess.run([compiler, "-shared", "-nostdlib", source, "-o", target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise predict.Error(done.stderr.strip())


def main_loops():
    """The main loops with multiply-accumulates of all kernels in the tables, by file and place there."""
    wanted = predict.rows()
    loops = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted((ROOT / "asm" / "arm64").glob("*.S")):
            target = pathlib.Path(folder, source.stem + ".so")
            assemble(source, target)
            functions = predict.disassemble(target)
            for name, instructions in functions:
                loop = predict.main_loop(predict.loops_of(name, instructions, functions)) if name in wanted else None
                if loop and loop.macs:
                    loops.append(loop)
    return loops


def cycles(core, lines):
    if core in scoreboard.CORES:
        return scoreboard.cycles(lines, scoreboard.CORES[core])
    return min(predict.mca_cycles(core, some) for some in (lines, predict.without_updates(lines)))


def table():
    def cells(values):
        return " ".join(f"{value:>7}" for value in values)
    lines = []
    for loop in main_loops():
        each = cells(f"{cycles(core, loop.lines):.5g}," for core in predict.CORES)
        lines.append(f"QN_PREDICTED_LOOP({loop.macs:4}, {each}  {loop.function})\n")
    names = cells(core.split("-")[1] if "-" in core else core for core in predict.CORES)
    return HEAD.format(version=version_here(), cores=names) + "".join(lines)


def version_here():
    return predict.find_mca()[1].split(".")[0]


def check(path):
    text = pathlib.Path(path).read_text()
    found = re.search(r"llvm-mca (\d+)", text)
    try:
        if found and found[1] != version_here():
            raise predict.Error(f"this is llvm-mca {version_here()}, {path} is of {found[1]}")
        predict.tool("CC", ["aarch64-linux-gnu-gcc"])
    except predict.Error as error:
        print(error)
        return UNKNOWN
    if text == table():
        return 0
    print(f"{path} is not what gen/predicted_loops.py writes", file=sys.stderr)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments.check)
    print(table(), end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except predict.Error as error:
        sys.exit(f"predicted_loops.py: {error}")

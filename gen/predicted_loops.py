#!/usr/bin/env python3
"""Writes src/tool/predict/predicted_loops.inc: how fast the main loops of the arm64 kernels run by models of cores.

    predicted_loops.py                print the table
    predicted_loops.py --check FILE   exit status 1 unless FILE is what would be printed; 77 where that is not to be told

Assembles and links asm/arm64/*.S, so that jumps from kernel to kernel have targets, and asks scripts/predict.py, which
says what a main loop is and where the cycles come from.  Where a model lets updates of base registers wait, which no
core does, the cycles are those with additions in their place.

Kernels of bytes that are the compiler's vectors (src/kernel/*_qs8_vec.cc), and those of floats by weights of 4 bits
(*_qw4b_vec.cc), are compiled as the library compiles them.
Those without MACs count if they have a loop without a branch: the longest one.  Its work is the elements that an
iteration stores.

$CC and $CXX name the compilers, aarch64-linux-gnu-gcc and -g++ without them.  Other versions of llvm-mca and GCC than
those of FILE may say something else.
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
// Written by gen/predicted_loops.py; {versions}. Cycles of one iteration of a kernel's main loop.
//                work  {cores}  kernel
"""

VECTORS = ("-std=c++20", "-O2", "-DNDEBUG", "-DQN_LEVEL=neon", "-ffp-contract=off", "-fno-math-errno",
           f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", "-c", "-fPIC")


def compilers():
    return predict.tool("CC", ["aarch64-linux-gnu-gcc"]), predict.tool("CXX", ["aarch64-linux-gnu-g++"])


def functions_of(source, folder):
    """Yields the functions of a source whose names stand in the tables, with the rest of its object."""
    assembler, compiler = compilers()
    how = [compiler, *VECTORS] if source.suffix == ".cc" else [assembler, "-shared", "-nostdlib"]
    target = pathlib.Path(folder, source.stem + ".o")
    done = subprocess.run([*how, source, "-o", target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise predict.Error(done.stderr.strip())
    functions = predict.disassemble(target)
    wanted = predict.rows() | elementwise_rows()
    return [(name, instructions, functions) for name, instructions in functions if name in wanted]


def elementwise_rows():
    """The kernels of bytes that eltwise.inc lists for each level at once."""
    table = (ROOT / "src" / "kernel" / "eltwise.inc").read_text()
    return {f"{name}neon" for name in re.findall(r"\b(qn_\w+_qs8_)##isa", table)}


def storing_loop(loops):
    """The main loop of a kernel without multiply-accumulates."""
    return max((loop for loop in loops if not loop.branches), key=lambda loop: len(loop.lines), default=None)


def stored(loop):
    """The elements that an iteration stores: floats, or bytes."""
    registers = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16}
    size = 4 if "dequantize" in loop.function else 1
    stores = (re.match(r"st[rpu]\w* (.*)\[", line) for line in loop.lines)
    return sum(registers.get(name[0], 0) for store in stores if store for name in store[1].split(", ") if name) // size


def main_loops():
    """The main loops of the kernels in the tables and their work, by file and place there."""
    kernels = ROOT / "src" / "kernel"
    sources = [*sorted((ROOT / "asm" / "arm64").glob("*.S")), *sorted(kernels.glob("*_qs8_vec.cc")),
               *sorted(kernels.glob("*_qw4b_vec.cc"))]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            for name, instructions, functions in functions_of(source, folder):
                loops = predict.loops_of(name, instructions, functions)
                loop = predict.main_loop(loops)
                if loop and loop.macs:
                    found.append((loop, loop.macs))
                elif source.suffix == ".cc" and (loop := storing_loop(loops)):
                    found.append((loop, stored(loop)))
    return found


def cycles(core, lines):
    if core in scoreboard.CORES:
        return scoreboard.cycles(lines, scoreboard.CORES[core])
    return min(predict.mca_cycles(core, some) for some in (lines, predict.without_updates(lines)))


def table():
    def cells(values):
        return " ".join(f"{value:>7}" for value in values)
    lines = []
    for loop, work in main_loops():
        each = cells(f"{cycles(core, loop.lines):.5g}," for core in predict.CORES)
        lines.append(f"QN_PREDICTED_LOOP({work:4}, {each}  {loop.function})\n")
    names = cells(core.split("-")[1] if "-" in core else core for core in predict.CORES)
    return HEAD.format(versions=versions_here(), cores=names) + "".join(lines)


def versions_here():
    _, compiler = compilers()
    done = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True)
    return f"llvm-mca {predict.find_mca()[1].split('.')[0]}, GCC {done.stdout.split('.')[0].strip()}"


def check(path):
    text = pathlib.Path(path).read_text()
    found = re.search(r"llvm-mca \d+, GCC \d+", text)
    try:
        if found and found[0] != versions_here():
            raise predict.Error(f"these are {versions_here()}, {path} is of {found[0]}")
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

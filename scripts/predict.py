#!/usr/bin/env python3
"""Predicts how fast the inner loops of arm64 kernels run on cores that are not here.

    predict.py OBJECT...                      every kernel of src/kernel/*.inc in them, no _ref, on every core
    predict.py OBJECT --function NAME         another function; a part of the name will do
               OBJECT --function NAME --list  its innermost loops;  --loop N takes another than the main one
               --cores a53,n1                 some cores only (parts of names)
               --table                        a Markdown table of shares of the peak;  --json: everything
               --bound                        also the fewest cycles that an order of its vector instructions could take
    predict.py --cores a53 --source FILE      the lines of a file are one loop ("-": standard input)

OBJECT is any .o, .a or .so, also one of another library.  $OBJDUMP and $LLVM_MCA name the tools to use; without
$LLVM_MCA the script takes the newest llvm-mca that is installed, from version 17 on.

A loop is the code between a backward branch and its target; it is innermost if no other loop lies within it.  The main
loop of a function is the innermost loop with the most multiply-accumulates (MACs), or with the most instructions if
none has any; of several such loops the first.  Loops that call other functions stand back.  Branches within a loop
count as not taken, except those that skip a call.  A call of code within the function is replaced by that code, up to
its ret.  If a function has no loop, the loops of the function that it jumps into count.

Cores that issue out of order are simulated by LLVM's models (its cortex-a76 to x1 are copies of the A57's, and so are
not offered); Cortex-A53 and A55 by a scoreboard of our own, and scoreboard.py says what it assumes.  All operands lie
in the L1 cache.  Cycles are those of a steady state: the cycles from iteration 100 to 300, divided by 200.  The peak is
the speed of a loop of nothing but the same kind of multiply-accumulate on 24 accumulators, found by the same means.

The bound counts only the vector instructions of a loop, without copies from register to register, as if none waited for
another.  A loop that reaches the bound can become faster only by fewer loads, stores and arithmetic.

Some models let a base register that a load updates ("post-index") wait for the loaded value: kryo's for every load,
neoverse-n2's and cortex-a57's for ldr of vectors.  The real cores do not.  If it matters, the script also runs the loop
with an addition in place of the update, and the note has the share of the peak that results.
"""

import argparse
import collections
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import scoreboard

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT_OF_ORDER = {  # LLVM's name -> the cores it stands for
    "cortex-a57": "A72 A73 A75",
    "kryo": "Snapdragon 820",
    "neoverse-n1": "A76 A77 A78",
    "neoverse-n2": "A710 and later",
    "neoverse-v1": "X1",
    "neoverse-v2": "X3 and later",
}
CORES = list(scoreboard.CORES) + list(OUT_OF_ORDER)
OLDEST = 17  # of llvm-mca: the first with neoverse-v2
ACCUMULATORS = 24


class Error(Exception):
    pass


# Disassembly

@dataclasses.dataclass
class Instruction:
    address: int
    text: str
    target: int | None  # of a branch, if it lies within the object


@dataclasses.dataclass
class Loop:
    function: str
    number: int  # among the function's innermost loops, by address
    address: int
    lines: list
    branches: int  # number of branches that leave the loop or skip a part of it

    @property
    def macs(self):
        return sum(macs(line) for line in self.lines)


def tool(variable, names):
    """Returns the program that a variable of the environment names, or else the first of `names` that is installed."""
    wanted = [os.environ[variable]] if os.environ.get(variable) else names
    for name in wanted:
        if shutil.which(name):
            return name
    raise Error(f"none of {', '.join(wanted)} is installed; set ${variable} (scripts/setup.sh predict)")


def disassemble(path):
    """Yields the functions of an object, name and instructions.  Members of an archive may have functions of one
    name."""
    objdump = tool("OBJDUMP", ["aarch64-linux-gnu-objdump", "llvm-objdump-19", "llvm-objdump", "objdump"])
    done = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise Error(done.stderr.strip() or f"{objdump} does not read {path}")
    return parse_disassembly(done.stdout)


def parse_disassembly(text):
    functions = []
    for line in text.splitlines():
        label = re.match(r"([0-9a-f]+) <(.+)>:", line)
        found = re.match(r"\s+([0-9a-f]+):\s+(\S.*)", line)
        if label:
            functions.append((label[2], []))
        elif found and functions:
            words = re.sub(r"\s+", " ", re.sub(r"\s*(//|;|<).*", "", found[2])).strip()
            branch = re.match(r"(?:b(?:\.\w+)?|cbn?z|tbn?z)\b.*?(?:0x)?([0-9a-f]+)$", words)
            target = int(branch[1], 16) if branch and not words.startswith(("br", "bl ")) else None
            functions[-1][1].append(Instruction(int(found[1], 16), words, target))
    return functions


def called_code(body, instructions):
    """Returns the first and last addresses of the code within the function that these instructions call."""
    begins = [int(call[1], 16) for call in (re.match(r"bl (?:0x)?([0-9a-f]+)$", i.text) for i in body) if call]
    rets = [instruction.address for instruction in instructions if instruction.text == "ret"]
    ends = [min((ret for ret in rets if ret >= begin), default=None) for begin in begins]
    return [span for span in zip(begins, ends) if span[1] is not None]


def with_calls(body, instructions):
    """Returns the lines of a loop; a call within the function is replaced by the code that it runs, up to its ret."""
    lines = []
    for instruction in body:
        call = re.match(r"bl (?:0x)?([0-9a-f]+)$", instruction.text)
        target = int(call[1], 16) if call else -1
        called = [other.text for other in instructions if instructions[0].address <= target <= other.address]
        lines += called[:called.index("ret")] if "ret" in called else [instruction.text]
    return lines


def innermost_loops(name, instructions):
    """Returns the loops of a function that contain no other loop, and call none within the function, by address."""
    spans = {}  # first address -> last address
    first = instructions[0].address if instructions else 0
    for instruction in instructions:
        if instruction.target is not None and first <= instruction.target <= instruction.address:
            spans[instruction.target] = instruction.address
    def holds(outer, inner):
        return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]
    def body_of(span):
        return [instruction for instruction in instructions if span[0] <= instruction.address <= span[1]]
    def calls(outer, inner):
        return any(begin <= inner[0] and inner[1] <= end for begin, end in called_code(body_of(outer), instructions))
    innermost = [span for span in sorted(spans.items())
                 if not any(holds(span, other) or calls(span, other) for other in spans.items())]
    loops = []
    for begin, end in innermost:
        body = body_of((begin, end))
        branches = sum(instruction.target is not None for instruction in body[:-1])
        body = [instruction for before, instruction in zip([None] + body, body) if not is_skipped(before, instruction)]
        loops.append(Loop(name, len(loops), begin, with_calls(body, instructions), branches))
    return loops


def loops_of(name, instructions, functions):
    """Returns the loops of a function, or of the function that it jumps into."""
    loops = innermost_loops(name, instructions)
    targets = [instruction.target for instruction in instructions if re.match("b [0-9a-fx]+$", instruction.text)]
    for _, others in functions if not loops else []:
        if others is not instructions and any(other.address in targets for other in others):
            return innermost_loops(name, others)
    return loops


def is_skipped(before, instruction):
    """Is this a call for rare cases, which the branch before it skips otherwise?"""
    return instruction.text.startswith("bl ") and before is not None and before.target == instruction.address + 4


def main_loop(loops):
    def merits(loop):
        calls = any(line.startswith("bl ") for line in loop.lines)
        return not calls, loop.macs, 0 if loop.macs else len(loop.lines)
    return max(loops, key=merits, default=None)


# The work of an instruction

PRODUCTS = [  # instructions that add several products to a lane of the result
    (r"(s|u|us|su)dot$", 4), (r"(s|u|us)mmla$", 8), (r"bfdot$", 2), (r"bfmmla$", 4),
]


def macs(line):
    """Returns how many multiply-accumulates an instruction does; 0 for SVE, whose vectors have no fixed length.  A product
    of vectors of integers that adds nothing (smull) counts: another instruction adds it."""
    name, _, rest = line.partition(" ")
    product = scoreboard.INTEGER_PRODUCTS.match(name) and rest.startswith("v")
    if not (product or scoreboard.FLOAT_MAC.match(name) or scoreboard.INTEGER_MACS.match(name)):
        return 0
    lanes = re.match(r"v\d+\.(\d+)[bhsd]\b", rest)
    products = next((count for pattern, count in PRODUCTS if re.match(pattern, name)), 1)
    if re.match(r"z\d+", rest):
        return 0
    return (int(lanes[1]) if lanes else 1) * products


def peak_loop(lines):
    """Returns a loop that does nothing but the most frequent multiply-accumulate of `lines`, and never writes its
    factors."""
    kinds = collections.Counter(re.sub(r"\b([vqdsh])\d+", r"\1#", line) for line in lines if macs(line))
    if not kinds:
        return []
    kind = kinds.most_common(1)[0][0]
    _, _, operands = kind.partition(" ")
    accumulator = 3 if re.match(r"fn?m(add|sub) ", kind) else 0  # which operand is the accumulator
    loop = []
    for index in range(ACCUMULATORS):
        numbers = ["1"] * operands.count("#")
        numbers[0] = numbers[accumulator] = str(8 + index)
        line = kind
        for number in numbers:
            line = line.replace("#", number, 1) if "#" in line else line
        loop.append(line)
    return loop


# llvm-mca

@functools.lru_cache
def find_mca():
    """Returns the path and the version of llvm-mca."""
    name = tool("LLVM_MCA", [f"llvm-mca-{version}" for version in range(30, OLDEST - 1, -1)] + ["llvm-mca"])
    text = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"LLVM version ([\d.]+)", text)
    if not version or int(version[1].split(".")[0]) < OLDEST:
        raise Error(f"{name} is older than {OLDEST}, which first knew neoverse-v2 (scripts/setup.sh predict)")
    return name, version[1]


def plain(lines):
    """Returns lines as llvm-mca wants them: branches need a label."""
    out = ["loop:"]
    for line in lines:
        out.append(re.sub(r"^(b(?:\.\w+)?|cbn?z .*?,|tbn?z .*?,)\s+(?:0x)?[0-9a-f]+$", r"\1 loop", line))
    return "\n".join(out) + "\n"


@functools.lru_cache(maxsize=None)
def run_mca(core, source, iterations, view):
    features = "+fullfp16,+fp16fml,+dotprod,+i8mm,+bf16"
    command = [find_mca()[0], "-mtriple=aarch64", f"-mcpu={core}", f"-mattr={features}", f"-iterations={iterations}",
               view]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Error(f"llvm-mca -mcpu={core}: {done.stderr.strip()}")
    return done.stdout


def mca_cycles(core, lines):
    first, last = (json.loads(run_mca(core, plain(lines), iterations, "-json"))["CodeRegions"][0]["SummaryView"]
                   for iterations in (100, 300))
    return (last["TotalCycles"] - first["TotalCycles"]) / 200


def unit_name(name):
    """Returns LLVM's name of a unit without the core's name.  The JSON has the number of a unit among several equal
    ones as a character's code."""
    name = re.sub(r"\.(.)$", lambda found: str(ord(found[1])), name, flags=re.DOTALL)
    return re.sub(r"^\w*Unit", "", name)


def mca_chain(core, lines):
    """Returns the registers on the chain of dependencies that llvm-mca calls critical."""
    text = run_mca(core, plain(lines), 300, "-bottleneck-analysis")
    return list(dict.fromkeys(re.findall(r"REGISTER dependency:\s+(\w+)", text)))


def mca_bottleneck(core, lines, cycles):
    """Says what limits the loop: the unit that is busy all the time, or the chain of latencies if no unit is."""
    report = json.loads(run_mca(core, plain(lines), 300, "-json"))
    region = report["CodeRegions"][0]
    names = report["TargetInfo"]["Resources"]
    summary = region["SummaryView"]
    shares = {"dispatch": summary["uOpsPerCycle"] / summary["DispatchWidth"]}
    for entry in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if entry["InstructionIndex"] == len(lines):  # the sum of all instructions
            shares[unit_name(names[entry["ResourceIndex"]])] = entry["ResourceUsage"] / cycles
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    full = [f"{name} {100 * share:.0f}%" for name, share in ranked if share > 0.93]
    if full:
        return "units " + " ".join(full)
    chain = mca_chain(core, lines)
    name, share = ranked[0]
    return f"latency through {' '.join(chain)} ({name} {100 * share:.0f}%)" if chain else f"{name} {100 * share:.0f}%"


def without_updates(lines):
    """Returns the lines with an addition in place of every update of a base register by a load."""
    out = []
    for line in lines:
        post = re.match(r"(ld\w+ .*)\[(\w+)\], (#?\w+)$", line)
        pre = re.match(r"(ld\w+ .*)\[(\w+), (#-?\w+)\]!$", line)
        if post:
            out += [f"{post[1]}[{post[2]}]", f"add {post[2]}, {post[2]}, {post[3]}"]
        elif pre:
            out += [f"{pre[1]}[{pre[2]}, {pre[3]}]", f"add {pre[2]}, {pre[2]}, {pre[3]}"]
        else:
            out.append(line)
    return [re.sub(r"^add (\w+), \w+, #-", r"sub \1, \1, #", line) for line in out]


# The bound

RESULTS = 24  # registers that take results in turn


def alone(lines):
    """Returns the vector instructions without copies; their results go to registers that none of them reads."""
    out = []
    registers = itertools.cycle(range(RESULTS))
    for line in lines:
        name, _, operands = line.partition(" ")
        if not re.search(r"\bv\d+\.|\b[qds]\d+\b", operands) or re.match(r"mov v\d+\.16b, v\d+\.16b$", line):
            continue
        values, bracket, address = operands.partition("[x") if name.startswith(("ld", "st")) else (operands, "", "")
        results = 0 if name.startswith("st") else len(re.findall(r"\b[vqds]\d+", values)) if name.startswith("ld") else 1
        taken = itertools.chain(itertools.islice(registers, results), range(RESULTS, RESULTS + 8))
        values = re.sub(r"\b([vqds])\d+", lambda found: found[1] + str(next(taken)), values)
        out.append(f"{name} {values}{bracket}{address}")
    return out


def bound_of(lines, cycles_of):
    """Several iterations of a short loop run as one, because some instructions add to their result."""
    times = -(-RESULTS // max(len(alone(lines)), 1))
    return cycles_of(alone(lines * times)) / times


# Predictions

@dataclasses.dataclass
class Prediction:
    core: str
    cycles: float
    macs_per_cycle: float
    percent_of_peak: float | None
    bottleneck: str
    note: str = ""
    bound: float | None = None  # in cycles


def percent(lines, cycles, cycles_of):
    """The share of the peak in percent; None for a loop without MACs."""
    peak = peak_loop(lines)
    if not peak:
        return None
    best = sum(map(macs, peak)) / cycles_of(tuple(peak))
    return 100 * sum(map(macs, lines)) / cycles / best


def predict_in_order(core, lines):
    result = scoreboard.run(lines, scoreboard.CORES[core])
    spent = sorted(result.spent.items(), key=lambda item: -item[1])
    bottleneck = ", ".join(f"{kind.replace('_', ' ')} {cycles:.3g}" for kind, cycles in spent)
    if result.waits:
        producer, consumer, cycles = result.waits[0]
        bottleneck += f" (most: {cycles:.3g} from '{producer}' to '{consumer}')"
    note = ""
    if core == "cortex-a53":
        late = scoreboard.cycles(lines, scoreboard.A53, late_loads=True)
        if late > 1.02 * result.cycles:
            share = percent(lines, late, lambda peak: scoreboard.cycles(peak, scoreboard.A53))
            note = f"late loads: {late:.4g} cycles" + (f", {share:.0f}%" if share is not None else "")
    share = percent(lines, result.cycles, lambda peak: scoreboard.cycles(peak, scoreboard.CORES[core]))
    return Prediction(core, result.cycles, sum(map(macs, lines)) / result.cycles, share, bottleneck, note)


def predict_out_of_order(core, lines):
    def cycles_of(some):
        return mca_cycles(core, list(some))
    cycles = cycles_of(lines)
    share = percent(lines, cycles, cycles_of)
    note = ""
    separate = without_updates(lines)
    if separate != lines:
        other = cycles_of(separate)
        if other < 0.98 * cycles:
            share_then = percent(lines, other, cycles_of)
            note = f"post-index: {other:.4g} cycles" + (f", {share_then:.0f}%" if share_then is not None else "") + \
                " with separate additions"
    bottleneck = mca_bottleneck(core, lines, cycles)
    return Prediction(core, cycles, sum(map(macs, lines)) / cycles, share, bottleneck, note)


def predict(core, lines, bound=False):
    in_order = core in scoreboard.CORES
    prediction = predict_in_order(core, lines) if in_order else predict_out_of_order(core, lines)
    if bound:
        prediction.bound = bound_of(lines, lambda some: scoreboard.cycles(some, scoreboard.CORES[core]) if in_order else
                                    mca_cycles(core, some))
    return prediction


# The command

def rows():
    """Returns the names of the kernels in the tables of src/kernel, without the references in plain C++."""
    names = set()
    for path in (ROOT / "src" / "kernel").glob("*.inc"):
        names.update(re.findall(r"_ROW\([^)]*\b(qn_\w+)\s*\)", path.read_text()))
    return {name for name in names if not name.endswith("_ref")}


def choose_loops(arguments):
    """Yields the loops that the command line asks for, in the order of the objects."""
    chosen = []
    wanted = rows()
    for path in arguments.objects:
        functions = disassemble(path)
        for name, instructions in functions:
            if not (arguments.function in name if arguments.function else name in wanted):
                continue
            loops = loops_of(name, instructions, functions)
            if arguments.list:
                chosen += loops
            elif arguments.loop is not None:
                chosen += [loop for loop in loops if loop.number == arguments.loop]
            elif loops:
                chosen.append(main_loop(loops))
    return chosen


def choose_cores(words):
    chosen = [core for core in CORES if not words or any(word and word in core for word in words.split(","))]
    if not chosen:
        raise Error(f"no core '{words}'; there are {', '.join(CORES)}")
    return chosen


def describe(loop):
    inside = f", {loop.branches} branches inside" if loop.branches else ""
    return f"{loop.function} loop {loop.number}: {len(loop.lines)} instructions, {loop.macs} MACs{inside}"


def print_text(results):
    for loop, predictions in results:
        print(describe(loop))
        for p in predictions:
            share = f"{p.percent_of_peak:5.1f}%" if p.percent_of_peak is not None else "     -"
            print(f"  {p.core:12} {p.cycles:8.2f} cycles {p.macs_per_cycle:6.2f} MAC/cycle {share}  {p.bottleneck}" +
                  (f"; bound {p.bound:.2f} cycles" if p.bound else "") + (f"; {p.note}" if p.note else ""))


def print_table(results, cores):
    """The share of the peak, in brackets the share that a note has; or the cycles and their bound."""
    titles = [core.split("-")[-1].capitalize() for core in cores]
    print("| kernel, its main loop | MACs | " + " | ".join(titles) + " |")
    print("| --- |" + " --- |" * (len(cores) + 1))
    for loop, predictions in results:
        cells = []
        for p in predictions:
            bracket = re.search(r"(\d+)%", p.note)
            cell = f"{p.percent_of_peak:.0f}" if p.percent_of_peak is not None else f"{p.cycles:.4g} cycles"
            cell += f" ({bracket[1]})" if bracket else ""
            cells.append(cell if p.bound is None else f"{p.cycles:.4g} / {p.bound:.4g}")
        print(f"| `{loop.function}` | {loop.macs} | " + " | ".join(cells) + " |")


def print_json(results):
    out = []
    for loop, predictions in results:
        head = {"function": loop.function, "loop": loop.number, "instructions": len(loop.lines), "macs": loop.macs,
                "branches_inside": loop.branches}
        out.append(head | {"cores": [dataclasses.asdict(p) for p in predictions]})
    mca = find_mca() if any(p.core in OUT_OF_ORDER for _, predictions in results for p in predictions) else None
    print(json.dumps({"llvm_mca": mca[1] if mca else None, "loops": out}, indent=1))


def read_source(path):
    """Makes one loop of a file of assembly: all its lines but labels, comments and directives."""
    text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text()
    lines = [re.sub(r"^\s*[\w.]+:|(//|;).*", "", line) for line in text.splitlines()]
    lines = [re.sub(r"\s+", " ", line).strip().lower() for line in lines]
    lines = [line for line in lines if line and not line.startswith(".")]
    return Loop(path, 0, 0, [re.sub(r"^(b\S*) \S+$", r"\1 0", line) for line in lines], 0)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*")
    parser.add_argument("--function")
    parser.add_argument("--loop", type=int)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--cores", default="")
    parser.add_argument("--source")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bound", action="store_true")
    arguments = parser.parse_args()
    if bool(arguments.objects) == bool(arguments.source):
        parser.error("give objects, or --source")
    return arguments


def main():
    arguments = parse_arguments()
    cores = choose_cores(arguments.cores)
    loops = [read_source(arguments.source)] if arguments.source else choose_loops(arguments)
    if not loops:
        raise Error("no such loop")
    if arguments.list:
        for loop in loops:
            print(f"{loop.address:8x}  {describe(loop)}")
        return
    results = [(loop, [predict(core, loop.lines, arguments.bound) for core in cores]) for loop in loops]
    if arguments.json:
        print_json(results)
    elif arguments.table:
        print_table(results, cores)
    else:
        if any(core in OUT_OF_ORDER for core in cores):
            print("llvm-mca", find_mca()[1])
        print_text(results)


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        sys.exit(f"predict.py: {error}")

#!/usr/bin/env python3
"""Checks the object files of hand-written kernels: they must keep the promises that linker and loader rely on.

    check_objects.py OBJECT...        $READELF, $OBJDUMP: the tools to use

Each object marks the stack not executable.  If the machine has a protection of branches, the object has the note for
it, and every function begins with a landing instruction.  The object exports nothing beyond the library, calls nothing,
and gives every function a size and unwind information.  Symbols that it shares with the library begin with qn_.  The
loader need not write to its text.  On arm64 no function touches the register of the platform, and the note's second
promise holds: no return address lies unsigned on the stack.
"""

import dataclasses
import os
import re
import subprocess
import sys


@dataclasses.dataclass
class Machine:
    words: list        # the note's
    landing: str       # the first instruction of every function
    forbidden: dict = dataclasses.field(default_factory=dict)  # instruction -> what is wrong with it
    partners: dict = dataclasses.field(default_factory=dict)   # instruction -> another that its function needs, and why
    unwind: str = "--debug-dump=frames"  # readelf's option that shows the unwind information
    frame: str = r" FDE "                # stands there once for each function


# By readelf's names.
MACHINES = {
    "Advanced Micro Devices X86-64": Machine(["IBT", "SHSTK"], r"endbr64"),
    "AArch64": Machine(
        ["BTI", "PAC"], r"bti\s+j?c|paciasp",
        forbidden={r".*\b[wx]18\b": "uses the platform's register"},
        partners={r"br\s": (r"bti\s+jc?$", "jumps to where no 'bti j' is"),
                  r"st[rp].*\bx30\b.*\[sp": (r"paciasp", "leaves x30 unsigned on the stack")}),
    "ARM": Machine([], "", unwind="--unwind", frame=r"(?m)^0x[0-9a-f]+(?: <\w+>)?: "),
}
# Relocations that hold an address.
ABSOLUTE = r"R_X86_64_(?:64|32S?)|R_AARCH64_ABS\d+|R_ARM_(?:ABS32|MOVW_ABS_NC|MOVT_ABS)"
# Functions of the unwinder: the unwind tables of 32-bit ARM refer to them.
UNWINDER = re.compile(r"__aeabi_unwind_cpp_pr[01]")


def run(variable, tool, *arguments):
    command = [os.environ.get(variable, tool), *arguments]
    environment = {**os.environ, "LC_ALL": "C"}  # binutils speak the user's language
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def disassemble(path):
    """Returns a dictionary: function name -> its instructions."""
    found, name = {}, None
    for line in run("OBJDUMP", "objdump", "--disassemble", "--no-show-raw-insn", path).splitlines():
        label = re.match(r"[0-9a-f]+ <(\S+)>:", line)
        instruction = re.match(r"\s+[0-9a-f]+:\s+(.*)", line)
        if label:
            name = label[1]
        elif instruction:
            found.setdefault(name, []).append(instruction[1].strip())
    return found


def check_sections(path):
    sections = run("READELF", "readelf", "--sections", "--wide", path)
    stack = re.search(r"\.note\.GNU-stack\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+(.*)", sections)
    if not stack:
        yield "no .note.GNU-stack: the stack becomes executable"
    elif "X" in stack[1].split()[0]:
        yield ".note.GNU-stack asks for an executable stack"
    relocations = run("READELF", "readelf", "--relocs", "--wide", path)
    for section, lines in re.findall(r"Relocation section '\.rela?(\.text|\.rodata)\S*' .*\n((?:.+\n)*)", relocations):
        for line in re.findall(rf".*(?:{ABSOLUTE})\s.*", lines):
            yield f"absolute address in {section}: {line.strip()}"


def check_instructions(functions, machine):
    for name, instructions in functions.items():
        for pattern, fault in machine.forbidden.items():
            yield from (f"{name} {fault}: {line}" for line in instructions if re.match(pattern, line))
        for pattern, (partner, fault) in machine.partners.items():
            lines = [line for line in instructions if re.match(pattern, line)]
            if lines and not any(re.match(partner, line) for line in instructions):
                yield f"{name} {fault}: {lines[0]}"


def check_symbols(path, machine, code):
    functions = 0
    for line in run("READELF", "readelf", "--symbols", "--wide", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":") or fields[0] == "Num:":
            continue
        size, kind, bind, visibility, section, name = fields[2:8]
        if section == "UND":
            if not UNWINDER.fullmatch(name):
                yield f"refers to {name} outside itself"
        elif bind != "LOCAL" and visibility != "HIDDEN":
            yield f"{name} is not hidden"
        elif bind != "LOCAL" and not name.startswith("qn_"):
            yield f"{name} is not named qn_"
        if kind != "FUNC":
            continue
        functions += 1
        if int(size, 0) == 0:
            yield f"{name} has no size"
        first = code.get(name, ["nothing"])[0]
        if not re.match(machine.landing, first):
            yield f"{name} begins with '{first}', not with a landing instruction"
    found = len(re.findall(machine.frame, run("READELF", "readelf", machine.unwind, path)))
    if functions == 0:
        yield "holds no function"
    if found < functions:
        yield f"{functions} functions, unwind information for {found}"


def check(path):
    name = re.search(r"Machine:\s+(.*)", run("READELF", "readelf", "--file-header", path))[1].strip()
    if name not in MACHINES:
        yield f"unknown machine {name}"
        return
    machine = MACHINES[name]
    notes = run("READELF", "readelf", "--notes", "--wide", path)
    yield from (f"no {word} in .note.gnu.property" for word in machine.words if word not in notes)
    yield from check_sections(path)
    code = disassemble(path)
    yield from check_symbols(path, machine, code)
    yield from check_instructions(code, machine)


def main():
    wrong = 0
    for path in sys.argv[1:]:
        for message in check(path):
            print(f"{os.path.basename(path)}: {message}", file=sys.stderr)
            wrong += 1
    print(f"{len(sys.argv) - 1} objects, {wrong} faults")
    return 1 if wrong or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())

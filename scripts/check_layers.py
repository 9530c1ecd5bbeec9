#!/usr/bin/env python3
"""Checks the floors of src/README.md: reads every #include and fails if one does not point to a lower floor.

    check_layers.py [ROOT]

A file may include its own room and rooms on lower floors.  LIBRARIES says which rooms may include which library from
outside.  Kernels in asm/ may include only headers of their own folder, and offset.h.
"""

import pathlib
import re
import sys

# Room -> floor.  select.h has a floor of its own between the kernels and the operators.
FLOORS = {
    "asm": 0,
    "base": 1,
    "kernel": 2,
    "select": 3,
    "op": 4,
    "cl": 4,
    "graph": 5,
    "extra": 6,
    "convert": 7,
    "peak": 7,
    "compress": 7,
    "tool": 8,
}
ASM_RULE = "a kernel may include only headers of its own folder and offset.h"
# A public header belongs to the room that implements it.
PUBLIC = {"quern/base.h": "base", "quern/op.h": "op", "quern/graph.h": "graph", "quern/kind.h": "graph", "quern/extra.h": "extra",
          "quern/quern.h": "graph"}
RUNTIME = {"base", "kernel", "select", "op", "cl", "graph", "extra"}
PROGRAMS = {"convert", "compress", "peak", "tool"}

# Regular expression for a library's headers -> rooms or single files that may include them.
LIBRARIES = [
    (r"cpuinfo\.h", {"src/base/cpu.cc", "src/base/cpus.cc"}),
    (r"pthreadpool\.h", {"base", "tool"}),
    (r"fp16\.h", {"base", "kernel", "graph"} | PROGRAMS),
    (r"flatbuffers/flexbuffers\.h", {"src/convert/tflite/custom_options.cc"}),
    (r"flatbuffers/.*", {"graph"}),
    (r"immintrin\.h|arm_neon\.h|cpuid\.h", {"base", "kernel"}),
    (r"sanitizer/.*", {"base"}),
    (r"google/protobuf/.*", {"convert"}),
    (r"hdf5\.h", {"src/convert/keras/hdf5.cc"}),
    (r"cairo\.h", {"src/tool/output/plot.cc"}),
    (r"dlfcn\.h", {"src/convert/keras/hdf5.cc", "src/extra/extra.cc", "src/tool/output/plot.cc"}),
    (r"regex\.h", {"src/tool/plan.cc"}),  # expressions for names of layers
    (r"(CLI|fmt|nlohmann)/.*", PROGRAMS),
    (r"(png|jpeglib|jerror|zlib)\.h", {"tool"}),
    (r"malloc\.h", {"src/tool/main.cc"}),
    (r"std(def|int|io|lib)\.h|unistd\.h|fcntl\.h|poll\.h|pthread\.h|sched\.h|sys/[a-z]+\.h", RUNTIME | PROGRAMS),
    (r"[a-z_]+", RUNTIME | PROGRAMS),  # the standard library of C++
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cc", ".inc", ".S", ".c"}


def room_of(path):
    """The room of a file given relative to ROOT, or None if it belongs to no floor (tests, benchmarks)."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] == "asm":
        return "asm"
    if parts[:2] == ("include", "quern"):
        return PUBLIC.get("/".join(parts[1:]))
    if parts[0] != "src" or len(parts) < 3:
        return None
    if parts[1] == "kernel" and parts[2] in ("select.h", "select.cc"):
        return "select"
    return parts[1]


def resolve(root, file, name):
    """The path, relative to ROOT, that a quoted include means; generated headers count as present."""
    for base in (file.parent, root / "src"):
        target = (base / name).resolve()
        if target.is_file() and target.is_relative_to(root):
            return target.relative_to(root).as_posix()
    if name.endswith("_generated.h"):
        return f"src/{name}"
    if name.endswith(".pb.h"):
        return f"src/{name}"
    return None


def check_quoted(root, file, where, room, name):
    target = resolve(root, file, name)
    if target is None:
        return f"{where}: cannot find \"{name}\""
    if room == "asm":
        own = pathlib.PurePath(target).parent == file.relative_to(root).parent and target.endswith(".h")
        return None if own or target == "asm/offset.h" else f"{where}: {ASM_RULE}, not {target}"
    return check_floor(where, room, target, room_of(target))


def check_floor(where, room, target, other):
    if other not in FLOORS:
        return f"{where}: {target} is in no room"
    if other == room or FLOORS[other] < FLOORS[room]:
        return None
    return f"{where}: {room} (floor {FLOORS[room]}) must not include {target} ({other}, floor {FLOORS[other]})"


def check_angled(path, where, room, name):
    if name.startswith("quern/"):
        if name not in PUBLIC:
            return f"{where}: no public header <{name}>"
        return check_floor(where, room, f"<{name}>", PUBLIC[name])
    if room == "asm":
        return f"{where}: {ASM_RULE}, not <{name}>"
    for pattern, rooms in LIBRARIES:
        if re.fullmatch(pattern, name):
            return None if room in rooms or path in rooms else f"{where}: {room} must not include <{name}>"
    return f"{where}: <{name}> is no library that this project depends on"


def check(root):
    """Returns (number of includes, list of violations)."""
    root = root.resolve()
    count, wrong = 0, []
    for folder in ("include", "src", "asm"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            room = room_of(path)
            if room not in FLOORS:
                wrong.append(f"{path}: in no room; rooms are {', '.join(FLOORS)}")
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                count += 1
                where, name = f"{path}:{number}", found[2]
                if found[1] == '"':
                    wrong.append(check_quoted(root, file, where, room, name))
                else:
                    wrong.append(check_angled(path, where, room, name))
    return count, [message for message in wrong if message]


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    count, wrong = check(root)
    for message in wrong:
        print(message, file=sys.stderr)
    print(f"{count} includes, {len(wrong)} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Builds a small library and checks that it runs MobileNet v1 as the whole library does, bit for bit, exports what it
should, needs no C++ runtime, fits pages of 16 KiB, answers QN_OUT_OF_MEMORY wherever memory runs out, loses none of it,
and keeps to its size. Memory also runs out for the whole library, in the test that builds everything.

    trim_test.py --build trimmed|trimmed_bytes|everything|... --source DIR --folder DIR ... -- [settings of CMake]
"""

import argparse
import filecmp
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

for room in ("bench", "scripts"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / room))
import check_segments  # noqa: E402
from check_symbols import declared, exported  # noqa: E402
from size import ARCHITECTURES  # noqa: E402


def run(command, **options):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)
    return done.returncode, done.stdout + done.stderr


def must(command, **options):
    status, output = run(command, **options)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {status}\n{output}")
    return output


def expect(holds, message):
    if not holds:
        sys.exit(f"trim: {message}")


class Build(NamedTuple):
    needs: str  # the list, relative to the source or to the folder; empty: QUERN_SMALL without one
    headers: tuple  # whose functions it exports
    models: tuple  # to run out of memory with
    bound: str  # in bench/size_budget.json
    runs: str = "mobilenet_v1"  # the model that gives the same bits as with the whole library
    refuses: tuple = ()  # models of other operators or types, and what the message about them says
    kinds: bool = False  # with libquern-extra


BUILDS = {
    "trimmed": Build("mobilenet_v1.needs", ("base", "graph"), ("few",), "mobilenet_v1",
                     refuses=(("other", "max_pool"),)),
    "trimmed_bytes": Build("mobilenet_v1_qs8.needs", ("base", "graph"), ("few_qs8",), "mobilenet_v1_qs8",
                           "mobilenet_v1_qs8", (("other", "max_pool"), ("few", "f32"))),
    "trimmed_extra": Build("recurrent.needs", ("base", "graph", "kind", "op"), (), "recurrent", "recurrent",
                           (("other", "max_pool"),), True),
    "everything": Build("", ("base", "graph", "kind", "op"), ("few", "more", "one"), "everything"),
    "graph": Build("cmake/needs/graph.txt", ("base", "graph", "kind"), ("more",), "graph"),
    "graph_dense": Build("cmake/needs/graph_dense.txt", ("base", "graph", "kind"), ("few",), "graph_dense"),
}
# Besides the C library and what stands in for the dependencies where their sources are not given.
SYSTEM = re.compile(r"lib(c|m|dl|cpuinfo|pthreadpool)\.so|ld-linux")


def build(a, needs_file, name, target):
    folder = a.folder / name
    if needs_file:
        needs = [path for path in (a.folder / needs_file, a.source / needs_file) if path.exists()][0]
        small = f"-DQUERN_NEEDS={needs}"
    else:
        small = "-DQUERN_SMALL=ON"
    must(["cmake", "-S", a.source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQUERN_BUILD_STATIC=OFF",
          "-DQUERN_WERROR=ON", f"-DQUERN_MESSAGES={a.messages:d}", small, *a.settings])
    must(["cmake", "--build", folder, "--target", target])
    return folder / "src" / "libquern.so"


def check_kinds(a, library, emulator):
    """libquern-extra has the kinds on the list alone; kinds that are said to call no operator of libquern call none."""
    os.environ["NM"] = a.nm
    extra = library.parent / "extra" / "libquern-extra.so"
    expect(set(exported(extra)) == {"qn_extra_register"}, f"libquern-extra exports {sorted(exported(extra))}")
    found = [name for name in (b"lstm", b"matmul", b"erf", b"gru", b"einsum") if name + b"\0" in extra.read_bytes()]
    expect(found == [b"lstm", b"matmul", b"erf"], f"of its kinds libquern-extra has {found}")
    if not emulator:
        build(a, "plain_kinds.needs", "plain_kinds", "quern_extra_shared")  # or the linker misses op.h


def check_exports(a, what, library):
    os.environ["NM"] = a.nm
    public = {name for header in what.headers
              for name in declared((a.source / "include" / "quern" / f"{header}.h").read_text())}
    if a.build.startswith("trimmed"):
        table = (a.source / "cmake" / "QuernTrim.cmake").read_text()
        asked_for = set(" ".join(re.findall(r"set\(functions_\w+ ([^)]*)\)", table)).split())
        expect(public.issuperset(asked_for), f"declared nowhere: {sorted(asked_for - public)}")
        public -= asked_for
    wrong = set(exported(library)) ^ public
    expect(not wrong, f"exports differ from {', '.join(what.headers)}: {sorted(wrong)}")


def check_runtime(a, library):
    needed = re.findall(r"NEEDED.*\[(.*)\]", must([a.readelf, "-dW", library]))
    others = [name for name in needed if not SYSTEM.match(name)]
    expect(needed and not others, f"needs {others}")
    # Functions of the C library have a version behind their names.
    undefined = re.findall(r"(?m) [Uw] ((?:_Z|__cxa_|__gxx_)\w+)$", must([a.nm, "-D", "--undefined-only", library]))
    expect(not undefined, f"needs of a C++ runtime {undefined}")


def check_mapping(a, library):
    os.environ["READELF"] = a.readelf
    wrong = list(check_segments.check(library))
    expect(not wrong, wrong)


def check_out_of_memory(a, what, library, emulator):
    program = compile_program(a, "out_of_memory", library, *(["-DWITH_TUNING"] if "op" in what.headers else []))
    step = 50 if emulator else 1  # emulators are slow
    for name in what.models:
        tune = ["tune"] if name == "one" else []
        output = must([*emulator, program, a.folder / f"{name}.qn", step, *tune])
        print(f"{library.name}, {name}:", output.replace("\n", "; "))


def check_size(a, what, library):
    stripped = a.folder / "libquern.stripped.so"
    must([a.strip, library, "-o", stripped])
    content = stripped.read_bytes()
    machine = ARCHITECTURES[re.search(r"Machine:\s*(.*\S)", must([a.readelf, "-hW", library]))[1]]
    budgets = json.loads((a.source / "bench" / "size_budget.json").read_text())[machine]
    table = "small with deps" if any(s.startswith("-DQUERN_DEPS_DIR") for s in a.settings) else "small"
    for kind, size in (("", len(content)), (" deflated", len(gzip.compress(content, 9, mtime=0)))):
        budget = budgets.get(table + kind, {}).get(what.bound)
        print(f"{machine}, {what.bound}, {table}{kind}: {size} bytes, bound {budget}")
        expect(budget is None or size <= budget, f"{size} bytes{kind} are over the bound of {budget}")


def check_vector_registers(a, library):
    """Functions of AVX leave no halves of vectors in use, or everything after them is slower on some CPUs."""
    listing = must([a.objdump, "--disassemble", "--no-show-raw-insn", library])
    functions = re.findall(r"(?m)^[0-9a-f]+ <(qn_\w+)>:\n((?:.+\n)*)", listing)
    wide = [(name, code) for name, code in functions if re.search(r"%[yz]mm", code)]
    wrong = [name for name, code in wide if "vzeroupper" not in code]
    expect(not wrong, f"no vzeroupper in {wrong}")


def compile_program(a, name, library, *flags):
    program = a.folder / name
    source = a.source / "test" / "trim" / f"{name}.c"
    must([*a.cc.split(";"), "-std=c11", "-I", a.source / "include", source, *flags, "-o", program, library,
          "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{library.parent}:{library.parent / 'extra'}"])
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", choices=BUILDS, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--emulator", default="")
    parser.add_argument("--messages", action="store_true", help="build it with QUERN_MESSAGES: it says what went wrong")
    parser.add_argument("--check-size", action="store_true", help="the bounds are GCC's")
    parser.add_argument("--whole", type=pathlib.Path, required=True, help="the library that it is compared with")
    for name in ("--model", "--run", "--cc", "--strip", "--readelf", "--nm", "--objdump"):
        parser.add_argument(name, required=True)
    parser.add_argument("settings", nargs="*")
    a = parser.parse_args()
    what = BUILDS[a.build]
    emulator, model_command = ([part for part in command.split(";") if part] for command in (a.emulator, a.model))
    a.folder.mkdir(parents=True, exist_ok=True)

    must([*model_command, a.folder])
    library = build(a, what.needs, "build", "quern_extra_shared" if what.kinds else "quern_shared")
    extra = [library.parent / "extra" / "libquern-extra.so"] if what.kinds else []
    program = compile_program(a, "run", library, *extra, *(["-DWITH_EXTRA"] if extra else []))
    model, image = a.folder / f"{what.runs}.qn", a.folder / "input.bin"
    whole, small = a.folder / "whole.bin", a.folder / "small.bin"
    # A ceiling that takes nothing away but FMA on 32-bit ARM, which small builds do without. They choose algorithms as for
    # an unknown core.
    must([*emulator, a.run, model, image, whole], env={**os.environ, "QUERN_ISA": "neon", "QUERN_CORE": "other"})
    must([*emulator, program, model, image, small])
    expect(filecmp.cmp(whole, small, shallow=False), "the small library gives other bits")

    for name, lacks in what.refuses:
        status, output = run([*emulator, program, a.folder / f"{name}.qn", image, os.devnull])
        expect(status == 1 and lacks in output and "trimmed" in output, f"another model: status {status}, {output}")
    status, output = run([*emulator, program, image, image, os.devnull])  # a model that is none
    expect(status == 1 and ("not a .qn model" in output) == a.messages, f"no model: status {status}, {output}")
    check_exports(a, what, library)
    check_runtime(a, library)
    check_vector_registers(a, library)
    check_mapping(a, library)
    if what.kinds:
        check_kinds(a, library, emulator)
    check_out_of_memory(a, what, library, emulator)
    if a.build == "everything":
        check_out_of_memory(a, what, a.whole, emulator)
    if a.check_size:
        check_size(a, what, library)


if __name__ == "__main__":
    main()

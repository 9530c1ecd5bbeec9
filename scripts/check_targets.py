#!/usr/bin/env python3
"""Compiles for systems that are not here with the Python package ziglang: Apple's, and other C libraries of Linux.
Nothing runs.

    check_targets.py [--quick] [--zig ZIG] [--deps DIR] [--folder build/targets]

- Linux with musl, and with glibc 2.28: all sources compile, those of the command, too. --quick compiles those that
  include headers of the C library or the system.
- macOS, arm64 and x86-64: both libraries are built, installed, and a program in C is linked with each.
- iOS 13 and its simulator: every source compiles. --quick leaves out the simulator, whose headers are the same.
- PrivacyInfo.xcprivacy declares the functions that need a reason, and no others; clang imports the module `quern`.

--deps names a folder for QUERN_DEPS_DIR. Without it, cpuinfo, pthreadpool and the C++ library stay undefined, and the
headers of the two are those of this machine's packages.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import plistlib
import re
import shlex
import subprocess
import sys

from check_clang import N_EXT, N_TYPE, N_UNDF, find_clang, mach_symbols
from check_syntax import prerequisites

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ("cpuinfo.h", "pthreadpool.h", "fp16.h", "fp16", "flatbuffers")
# Headers of libraries that only the command uses.
COMMAND_HEADERS = ("CLI", "fmt", "google", "nlohmann", "jpeglib.h", "jconfig.h", "jmorecfg.h", "png.h", "pngconf.h",
                   "pnglibconf.h", "zlib.h", "zconf.h")
LINUX = ["x86_64-linux-musl", "x86_64-linux-gnu.2.28"]
OF_C = re.compile(r"^#include <(sys/\w+|dlfcn|fcntl|poll|pthread|sched|unistd)\.h>", re.M)
OF_THIS_MACHINE = re.compile(r"/usr/include(/[^/]*-linux-gnu)?")
OF_GCC = ("-fno-gnu-unique", "-fvect-cost-model=", "-fexpensive-optimizations", "-Werror", "-O")
IOS = ["aarch64-ios.13.0"]
IOS_SIMULATOR = "aarch64-ios.13.0-simulator"
# Without sources of dependencies these stay undefined, and so does the C++ library, which zig would compile for minutes.
UNDEFINED = ["-undefined", "dynamic_lookup", "-nostdlib++"]
# The category to declare, and the functions in C for which Apple wants a reason in that category.
NEED_REASON = {
    "FileTimestamp": ("getattrlist", "getattrlistbulk", "fgetattrlist", "stat", "fstat", "fstatat", "lstat",
                      "getattrlistat"),
    "SystemBootTime": ("mach_absolute_time",),
    "DiskSpace": ("statfs", "statvfs", "fstatfs", "fstatvfs"),
}


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def zig_target(arch):
    return ["-target", f"{arch.replace('arm64', 'aarch64')}-macos.11.0"]


def link_headers(folder, names):
    """Makes a folder with these headers of this machine's packages, and without those of its C library."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        places = [pathlib.Path("/usr/include"), *pathlib.Path("/usr/include").glob("*-linux-gnu")]
        found = next((place / name for place in places if (place / name).exists()), None)
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found)
    return folder


def undefined_dependencies(a, arch):
    """Makes a folder with the headers of this machine's packages, and with empty libraries."""
    include = link_headers(a.folder / "include", HEADERS)
    nothing = a.folder / "nothing.c"
    nothing.write_text("")
    library, empty = a.folder / f"libnothing-{arch}.a", a.folder / f"nothing-{arch}.o"
    run(a.zig, "cc", *zig_target(arch), "-c", nothing, "-o", empty)
    run(a.zig, "ar", "rcs", library, empty)
    settings = [f"-D{name}_INCLUDE_DIR={include}" for name in ("cpuinfo", "pthreadpool", "FP16", "FLATBUFFERS")]
    settings += [f"-D{name}_LIBRARY={library}" for name in ("cpuinfo", "pthreadpool")]
    flags = " ".join(UNDEFINED)
    return [*settings, f"-DCMAKE_SHARED_LINKER_FLAGS={flags}", f"-DCMAKE_EXE_LINKER_FLAGS={flags}"]


def configure(a, arch, folder, united):
    dependencies = [f"-DQUERN_DEPS_DIR={a.deps}"] if a.deps else undefined_dependencies(a, arch)
    quick = [f"-DCMAKE_DISABLE_PRECOMPILE_HEADERS={not united}", f"-DQUERN_UNITY={united}"]
    # Nothing runs. Sources have levels of optimization of their own for a release.
    quick += ["-DCMAKE_BUILD_TYPE=Debug", *(f"-DCMAKE_{language}_FLAGS_DEBUG=-O0 -DNDEBUG" for language in ("C", "CXX"))]
    run("cmake", "--preset", f"macos-{arch}", "-S", ROOT, "-B", folder, f"-DQUERN_ZIG={a.zig}", *quick, *dependencies,
        cwd=ROOT)


def build(a, arch):
    folder, installed = a.folder / arch, a.folder / f"installed-{arch}"
    configure(a, arch, folder, united=True)
    run("cmake", "--build", folder)
    run("cmake", "--install", folder, "--prefix", installed)
    return installed


def link(a, arch, installed):
    """Links a program in C with each library."""
    lib = installed / "lib"
    static = [lib / f"lib{name}.a" for name in ("quern", *(("cpuinfo", "pthreadpool") if a.deps else ()))]
    for kind, libraries in ("static", static), ("shared", [lib / "libquern.dylib"]):
        missing = [] if a.deps else UNDEFINED
        source = ROOT / "test/install/consumer/consumer.c"
        run(a.zig, "c++", *zig_target(arch), "-std=c11", "-I", installed / "include", "-x", "c", source, "-x", "none",
            *libraries, *missing, "-o", a.folder / f"consumer-{arch}-{kind}")
        print(f"macOS, {arch}: linked a program with the {kind} library")


def check_privacy(a, arch, installed):
    """Checks that the manifest declares exactly the functions that the library calls."""
    data = (installed / "lib/libquern.dylib").resolve().read_bytes()
    called = {name.split("$")[0].lstrip("_") for name, kind in mach_symbols(data) if kind & N_EXT
              and kind & N_TYPE == N_UNDF}
    needed = {category for category, names in NEED_REASON.items() if called & set(names)}
    manifest = plistlib.loads((installed / "share/quern/PrivacyInfo.xcprivacy").read_bytes())
    prefix = "NSPrivacyAccessedAPICategory"
    declared = {entry["NSPrivacyAccessedAPIType"].removeprefix(prefix)
                for entry in manifest["NSPrivacyAccessedAPITypes"]}
    if declared != needed:
        sys.exit(f"{arch}: PrivacyInfo.xcprivacy declares {sorted(declared)}, the library needs {sorted(needed)}")
    print(f"{arch}: the library needs reasons for {', '.join(sorted(needed))}, as declared")


def compile_for_ios(a, entry, target):
    """Compiles one source of a build for macOS, for another system. Headers are given by path, because zig has them
    only for macOS; the warning that this libc++ is not for systems that old is off."""
    command = shlex.split(entry["command"])
    command = [f"--target={target}" if part.startswith("--target=") else part for part in command]
    lib = pathlib.Path(a.zig).parent / "lib"
    headers = ["libcxx/include", "libcxxabi/include"] if entry["file"].endswith(".cc") else []
    for folder in (*headers, "include", "libc/include/any-darwin-any"):
        command += ["-isystem", str(lib / folder)]
    command.append("-Wno-#warnings")
    command[command.index("-o") + 1] = str(a.folder / target / (pathlib.Path(entry["file"]).stem + ".o"))
    run(*command, cwd=entry["directory"])


def check_ios(a):
    folder = a.folder / "ios"
    configure(a, "arm64", folder, united=False)  # so that each source proves that it includes what it needs
    entries = json.loads((folder / "compile_commands.json").read_text())
    entries = [entry for entry in entries if not (a.deps and entry["file"].startswith(str(a.deps)))]
    entries = list({entry["file"]: entry for entry in entries}.values())  # some are compiled for each of both libraries
    for target in IOS + [IOS_SIMULATOR] * (not a.quick):
        (a.folder / target).mkdir(exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda entry: compile_for_ios(a, entry, target), entries))
        print(f"{target}: {len(entries)} sources compile")


def compile_for_linux(a, entry, target, headers):
    """Compiles one source of a build for this machine, for another C library."""
    command = [part for part in shlex.split(entry["command"])[1:] if not part.startswith(OF_GCC)]
    output = command.index("-o")
    del command[output:output + 2]
    for i in [i for i, part in enumerate(command) if OF_THIS_MACHINE.fullmatch(part)][::-1]:
        del command[i - 1:i + 1]  # with -isystem
    name = entry["file"].removeprefix("/").replace("/", "_")
    run(a.zig, "c++", "-target", target, *command, "-O0", "-w", "-isystem", headers, "-o",
        a.folder / target / f"{name}.o", cwd=entry["directory"])


def check_linux(a):
    folder = a.folder / "linux"
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQUERN_BUILD_TESTS=OFF",
        "-DQUERN_BUILD_BENCH=OFF", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", f"-DQUERN_UNITY={not a.quick}")
    entries = json.loads((folder / "compile_commands.json").read_text())
    entries = {entry["file"]: entry for entry in entries if re.search(r"/src/.*\.cc$", entry["file"])}.values()
    if a.quick:
        entries = [entry for entry in entries if OF_C.search(pathlib.Path(entry["file"]).read_text())]
    else:
        run("ninja", "-C", folder, *prerequisites(folder))
    headers = link_headers(a.folder / "include-linux", HEADERS + COMMAND_HEADERS)
    for target in LINUX:
        (a.folder / target).mkdir(exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda entry: compile_for_linux(a, entry, target, headers), entries))
        print(f"{target}: {len(entries)} sources compile")


def check_module(a, installed):
    """Checks that `@import` finds the headers through module.modulemap: quern.h, and extra.h in a module of its own."""
    clang = find_clang()
    if not clang:
        return print("no clang here: the module was not imported")
    source = a.folder / "module.m"
    source.write_text("@import quern;\n@import quern_extra;\n"
                      "int main(void) { return qn_version() == 0 || qn_extra_register(); }\n")
    run(clang, "-fsyntax-only", "-fmodules", f"-fmodules-cache-path={a.folder}/modules", "-I", installed / "include",
        "-Werror", source)
    print(f"{clang} imports the modules quern and quern_extra")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--zig", help="default: that of the Python package ziglang")
    parser.add_argument("--deps", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/targets")
    a = parser.parse_args()
    if not a.zig:
        import ziglang
        a.zig = pathlib.Path(ziglang.__file__).with_name("zig")
    a.folder = a.folder.resolve()
    check_linux(a)
    for arch in ("arm64", "x86_64"):
        installed = build(a, arch)
        link(a, arch, installed)
        check_privacy(a, arch, installed)
    check_ios(a)
    check_module(a, installed)


if __name__ == "__main__":
    main()

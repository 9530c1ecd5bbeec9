#!/usr/bin/env python3
"""Configures, builds and installs the libraries by the presets for Android, without network, and links a program in C
with each.  In place of the NDK stands the folder ndk/ beside this file: its toolchain file looks for libraries and
headers where Android's does, which is nowhere else, and passes its options to clang 19, lld and libc++.  Nothing runs.

    android_test.py --source DIR --folder DIR --deps DIR

Exits with 77 where the sources of cpuinfo and the others, a compiler or a sysroot are missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_segments  # noqa: E402

ABIS = {"android-arm64": "arm64-v8a", "android-armv7": "armeabi-v7a", "android-x86_64": "x86_64"}  # by preset
SYSROOTS = ("sysroot-arm64", "sysroot-armel")
NDK = pathlib.Path(__file__).resolve().parent / "ndk"
LEVEL = 21  # of the presets
# Functions that a PC's C library has long had and Android's has from a later level on, or never (99).
LATER = {
    23: "fmemopen get_nprocs get_phys_pages malloc_info mempcpy open_memstream posix_madvise",
    24: """fgetpos64 fileno_unlocked freeifaddrs fseeko64 fsetpos64 ftello64 getifaddrs if_nameindex lockf preadv
        pthread_barrier_init pthread_barrier_wait pthread_spin_lock pwritev scandirat strchrnul""",
    26: """getsubopt mblen nl_langinfo pthread_getname_np strtod_l strtof_l strtol_l sync_file_range""",
    28: """aligned_alloc fexecve getentropy getrandom glob iconv pthread_attr_setinheritsched pthread_setschedprio swab
        syncfs""",
    29: "getloadavg reallocarray timespec_get",
    30: """call_once memfd_create mlock2 mtx_lock pthread_cond_clockwait pthread_mutex_clocklock renameat2 sem_clockwait
        statx thrd_create""",
    33: "backtrace preadv2",
    34: "close_range copy_file_range",
    36: "pthread_getaffinity_np pthread_setaffinity_np qsort_r",
    99: "canonicalize_file_name explicit_bzero on_exit pthread_cancel secure_getenv shm_open",
}


def run(command, **options):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def missing(a):
    """What this test cannot do without."""
    if not a.deps:
        yield "QUERN_DEPS_DIR is not set"
    yield from (f"there is no {name}" for name in ("clang-19", "ld.lld-19") if not shutil.which(name))
    yield from (f"build/{sysroot} is not filled (scripts/sysroot.sh)" for sysroot in SYSROOTS
                if not (a.source / "build" / sysroot / ".complete").exists())


def without_network():
    """A command that takes the network from the one behind it, where the system lets us."""
    command = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
        return command
    print("unshare does not work here: the network stays within reach")
    return []


def build(a, preset, folder, offline):
    shutil.rmtree(folder, ignore_errors=True)
    run([*offline, "cmake", "--preset", preset, "-B", folder, f"-DQUERN_DEPS_DIR={a.deps}",
         f"-DQUERN_SYSROOTS={a.source}/build"], cwd=a.source, env=os.environ | {"ANDROID_NDK": str(NDK)})
    run([*offline, "cmake", "--build", folder])
    run(["cmake", "--install", folder, "--prefix", folder / "installed"])
    run([*offline, "cmake", "-B", folder / "small", "-DQUERN_SMALL=ON", f"-DQUERN_DEPS_DIR={a.deps}",
         f"-DQUERN_SYSROOTS={a.source}/build", "--preset", preset], cwd=a.source, env=os.environ | {"ANDROID_NDK": str(NDK)})
    run([*offline, "cmake", "--build", folder / "small", "--target", "quern_shared"])


def link(a, preset, folder):
    """A program in C, with each library, as a project that finds them."""
    cache = (folder / "CMakeCache.txt").read_text()
    version = re.search(r"CMAKE_PROJECT_VERSION:STATIC=(.*)", cache)[1]
    run(["cmake", "-S", a.source / "test/install/consumer", "-B", folder / "consumer", "-G", "Ninja",
         f"-DCMAKE_TOOLCHAIN_FILE={NDK}/build/cmake/android.toolchain.cmake", f"-DQUERN_SYSROOTS={a.source}/build",
         f"-DANDROID_ABI={ABIS[preset]}", f"-DANDROID_PLATFORM=android-{LEVEL}", "-DANDROID_STL=c++_static",
         f"-DCMAKE_FIND_ROOT_PATH={folder}/installed", f"-DQUERN_VERSION={version}"])
    run(["cmake", "--build", folder / "consumer"])


def check_functions(folder):
    """What the library itself calls has been there since the level of the presets, and what a small one needs. Of the
    C++ library, which is linked in, Android's calls other functions than this one."""
    objects = sorted((folder / "src" / "CMakeFiles").glob("quern_*objects.dir/**/*.o"))
    small = run(["nm", "-D", "--undefined-only", folder / "small" / "src" / "libquern.so"])
    called = set(re.findall(r" U (\w+)", run(["nm", *objects]) + small))
    if "posix_memalign" not in called:
        sys.exit(f"posix_memalign is not among the {len(called)} functions that are called")
    late = [f"{name} ({level})" for level, names in LATER.items() for name in names.split() if name in called]
    if late:
        sys.exit(f"not in Android's C library at level {LEVEL}: {', '.join(late)}")
    return len(called)


def check_mapping(folder):
    for library in (folder / "src" / "libquern.so", folder / "small" / "src" / "libquern.so"):
        if wrong := list(check_segments.check(library)):
            sys.exit(f"{library}: {'; '.join(wrong)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "folder"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--deps", default="")
    a = parser.parse_args()
    if lacking := list(missing(a)):
        print(f"nothing was built: {'; '.join(lacking)}")
        return 77
    offline = without_network()
    for preset in ABIS:
        folder = a.folder / preset
        build(a, preset, folder, offline)
        link(a, preset, folder)
        check_mapping(folder)
        print(f"{preset}: built, installed, linked; none of {check_functions(folder)} names is later than {LEVEL}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

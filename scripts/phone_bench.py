#!/usr/bin/env python3
"""Runs quern-bench and `quern bench` on a phone that adb reaches, and appends the results to bench/phones/NAME.md.

    phone_bench.py [BUILD]            BUILD: the folder where CMake built both for the phone; default: build/arm64

If the programs are linked with shared libraries of BUILD's sysroot, these and their loader are copied to the phone,
too, so the phone needs nothing but adb's shell.  The programs are pinned to one cluster of cores after the other
(taskset): kernels run on one thread, models on one thread and on as many as the cluster has cores.  $ADB and $READELF
name the tools to use.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REMOTE = "/data/local/tmp/quern-bench"
PROGRAMS = ("bench/quern-bench", "src/tool/quern")
# Kernels that spend their time multiplying, without references.
KERNELS = r"^kernel/qn_(gemm|igemm|dwconv|spmm)_.*_[^_/r][^_/]*/"
MODELS = "mobilenet_v1,mobilenet_v2,squeezenet_v1.1"

# Implementer and part as /proc/cpuinfo has them -> name of the core.
CORES = {
    0x41: {0xc07: "Cortex-A7", 0xc09: "Cortex-A9", 0xc0e: "Cortex-A17", 0xc0f: "Cortex-A15", 0xd03: "Cortex-A53",
           0xd04: "Cortex-A35", 0xd05: "Cortex-A55", 0xd07: "Cortex-A57", 0xd08: "Cortex-A72", 0xd09: "Cortex-A73",
           0xd0a: "Cortex-A75", 0xd0b: "Cortex-A76", 0xd0c: "Neoverse N1", 0xd0d: "Cortex-A77", 0xd40: "Neoverse V1",
           0xd41: "Cortex-A78", 0xd44: "Cortex-X1", 0xd46: "Cortex-A510", 0xd47: "Cortex-A710", 0xd48: "Cortex-X2",
           0xd49: "Neoverse N2", 0xd4b: "Cortex-A78C", 0xd4c: "Cortex-X1C", 0xd4d: "Cortex-A715", 0xd4e: "Cortex-X3",
           0xd4f: "Neoverse V2", 0xd80: "Cortex-A520", 0xd81: "Cortex-A720", 0xd82: "Cortex-X4", 0xd85: "Cortex-X925",
           0xd87: "Cortex-A725"},
    0x51: {0x001: "Oryon", 0x201: "Kryo", 0x205: "Kryo", 0x211: "Kryo", 0x800: "Kryo 2xx Gold",
           0x801: "Kryo 2xx Silver", 0x802: "Kryo 3xx Gold", 0x803: "Kryo 3xx Silver", 0x804: "Kryo 4xx Gold",
           0x805: "Kryo 4xx Silver"},
    0x53: {0x001: "Mongoose M1", 0x002: "Mongoose M3", 0x003: "Mongoose M4", 0x004: "Mongoose M5"},
}

# Prints a line for each core: number, capacity, kHz, cluster. A field is empty if the system does not say.
LIST_CPUS = """cd /sys/devices/system/cpu && for c in cpu[0-9]*; do
[ "$(cat $c/online 2>/dev/null)" = 0 ] && continue
echo "${c#cpu}|$(cat $c/cpu_capacity 2>/dev/null)|$(cat $c/cpufreq/cpuinfo_max_freq 2>/dev/null)|$(
cat $c/cpufreq/related_cpus 2>/dev/null)"
done"""


class Error(Exception):
    pass


class Phone:
    def __init__(self, serial):
        self.adb = [os.environ.get("ADB", "adb"), *(["-s", serial] if serial else [])]
        if not shutil.which(self.adb[0]):
            raise Error(f"no {self.adb[0]} here; Debian's package is called adb")
        self.call("get-state")

    def call(self, *arguments):
        result = subprocess.run([*self.adb, *map(str, arguments)], capture_output=True, text=True)
        if result.returncode != 0:
            what = (result.stderr + result.stdout).strip()
            raise Error(f"adb {arguments[0]}: {what or f'status {result.returncode}'}")
        return result.stdout.replace("\r\n", "\n")

    def shell(self, command):
        return self.call("shell", command)

    def property(self, name):
        return self.shell(f"getprop {name}").strip()

    def describe(self):
        name = f"{self.property('ro.product.manufacturer')} {self.property('ro.product.model')}".strip() or "phone"
        system = f"Android {self.property('ro.build.version.release')}, {self.property('ro.board.platform')}"
        return name, system


@dataclasses.dataclass
class Cluster:
    cpus: list
    capacity: int
    khz: int
    core: str

    def mask(self):
        return f"{sum(1 << cpu for cpu in self.cpus):x}"

    def __str__(self):
        speed = f", {self.khz / 1e6:.2f} GHz" if self.khz else ""
        return f"{len(self.cpus)} x {self.core}{speed}"


def core_names(cpuinfo):
    """Returns a dictionary from /proc/cpuinfo: number of a core -> its name."""
    names = {}
    for block in cpuinfo.split("\n\n"):
        fields = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.*?)\s*$", block, re.M))
        if "processor" in fields and "CPU part" in fields:
            implementer, part = int(fields.get("CPU implementer", "0"), 0), int(fields["CPU part"], 0)
            name = CORES.get(implementer, {}).get(part, f"core {implementer:#x}/{part:#x}")
            names[int(fields["processor"])] = name
    return names


def clusters_of(listing, cpuinfo):
    """The phone's clusters, the slowest first.  Cores that nothing tells apart are one cluster."""
    names, found = core_names(cpuinfo), {}
    for line in listing.splitlines():
        cpu, capacity, khz, cluster = line.split("|")
        name = names.get(int(cpu), "unknown core")
        key = cluster or (capacity, khz, name)
        found.setdefault(key, Cluster([], int(capacity or 0), int(khz or 0), name)).cpus.append(int(cpu))
    if not found:
        raise Error("the phone lists no cores in /sys/devices/system/cpu")
    return sorted(found.values(), key=lambda cluster: (cluster.capacity, cluster.khz, cluster.cpus))


def choose(clusters, wanted):
    """Picks clusters.  big: the fastest; little: the slowest; all; or numbers, counted from the slowest, which is 0."""
    if wanted == "all":
        return clusters
    numbers = {"little": 0, "big": len(clusters) - 1}
    try:
        return [clusters[numbers[word] if word in numbers else int(word)] for word in wanted.split(",")]
    except (ValueError, IndexError):
        raise Error(f"--cores {wanted}: the clusters are 0 to {len(clusters) - 1}, little and big") from None


def read_elf(path):
    """Returns a program's interpreter, the names of the libraries it needs, and its machine."""
    command = [os.environ.get("READELF", "readelf"), "--file-header", "--program-headers", "--dynamic", "--wide", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    interpreter = re.search(r"Requesting program interpreter: (\S+)\]", text)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
    return interpreter and interpreter[1], needed, re.search(r"Machine:\s+(.*)", text)[1]


def find_library(name, machine, sysroot):
    for folder in (*sysroot.glob("usr/lib/*-linux-*"), *sysroot.glob("lib/*-linux-*"), sysroot / "lib"):
        if (folder / name).exists() and read_elf(folder / name)[2] == machine:
            return folder / name
    raise Error(f"{name} is not in {sysroot}")


def bundle(programs, sysroot, folder):
    """Copies programs and the files that they need to start into a folder.  Returns how a command line there begins."""
    loader, waiting = None, []
    for program in programs:
        shutil.copy(program, folder)
        interpreter, needed, machine = read_elf(program)
        # The program needs no libraries, or only those of Android.
        if interpreter and not interpreter.startswith("/system/"):
            loader = pathlib.PurePath(interpreter).name
            waiting += [(name, machine) for name in (loader, *needed)]
    libraries = folder / "lib"
    libraries.mkdir()
    while waiting:
        name, machine = waiting.pop()
        if not (libraries / name).exists():
            shutil.copy(find_library(name, machine, sysroot), libraries / name)
            waiting += [(needed, machine) for needed in read_elf(libraries / name)[1]]
    return f"lib/{loader} --library-path lib ./" if loader else "./"


def parse(text):
    try:
        return json.loads(text)
    except ValueError:
        raise Error(f"the phone did not answer in JSON: {text.strip()[:300] or 'nothing'}") from None


class Bench:
    """Runs the installed programs on one cluster of the phone."""

    def __init__(self, phone, start, cluster, folder, options):
        self.phone, self.start, self.cluster, self.folder, self.options = phone, start, cluster, folder, options

    def run(self, command):
        time.sleep(self.options.pause)
        return self.phone.shell(f"cd {REMOTE} && taskset {self.cluster.mask()} {self.start}{command}")

    def row(self, threads, what, ms, gflops, percent):
        return (str(self.cluster), str(threads), what, ms, f"{gflops:.1f}", f"{percent:.0f}%")

    def kernels(self):
        self.run(f"quern-bench --threads=1 --benchmark_out=kernels.json --benchmark_out_format=json "
                 f"--benchmark_filter={shlex.quote(self.options.filter)} --benchmark_min_time={self.options.min_time}")
        file = self.folder / f"kernels-{self.cluster.mask()}.json"
        self.phone.call("pull", f"{REMOTE}/kernels.json", file)
        output = parse(file.read_text())
        context = output["context"]
        yield self.row(1, "peak", "", float(context[f"quern_peak_gflops_{context['quern_isa']}"]), 100)
        of_bytes = [float(value) for key, value in context.items() if key.startswith("quern_peak_gops_of_bytes_")]
        if of_bytes:
            yield self.row(1, "peak of bytes", "", max(of_bytes), 100)
        for line in output["benchmarks"]:
            if line.get("run_type") != "aggregate" and not line.get("error_occurred"):
                what = "`" + re.sub(r"/threads:\d+$", "", line["name"].removeprefix("kernel/")) + "`"
                yield self.row(1, what, "", line["ops_per_second"] / 1e9, line["percent_of_peak"])

    def model(self, name):
        self.run(f"quern zoo {name} -o model.qn")
        for threads in sorted({1, len(self.cluster.cpus)}):
            text = self.run(f"quern bench model.qn --threads {threads} --runs {self.options.runs} --json")
            (self.folder / f"{name}-{self.cluster.mask()}-{threads}.json").write_text(text)
            line = parse(text)
            yield self.row(threads, name, f"{line['median_ms']:.2f}", line["gflops"], line["percent_of_peak"])

    def rows(self):
        if self.options.filter:
            yield from self.kernels()
        for name in filter(None, self.options.models.split(",")):
            yield from self.model(name)


HEADER = """# {name}

{system}. Measured by `scripts/phone_bench.py`, which appends to this table: kernels with their operands in L1 or L2,
models as `quern bench` has them (the median run). The peak is that of a loop of multiply-adds, of floats or of bytes, in
turn with the work and on as many threads. Lines named peak: before any work.

| date | commit | cores | threads | what | ms | GFLOP/s | of peak |
| --- | --- | --- | --- | --- | ---: | ---: | ---: |
"""


def append(path, name, system, commit, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else HEADER.format(name=name, system=system)
    today = datetime.date.today().isoformat()
    path.write_text(text + "".join("| " + " | ".join((today, commit, *row)) + " |\n" for row in rows))


def commit_of_sources():
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def sysroot_of(build):
    """The folder with the libraries that BUILD was linked with: its sysroot, or else the system's own folder."""
    match = re.search(r"^QUERN_SYSROOT:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    return pathlib.Path(match[1] if match else "/").resolve()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/arm64", metavar="BUILD")
    parser.add_argument("--serial", help="which phone, of several (adb devices)")
    parser.add_argument("--cores", default="all", metavar="LIST",
                        help="clusters: little, big, numbers from the slowest, 0, upwards; default: all, in turn")
    parser.add_argument("--filter", default=KERNELS, metavar="REGEX",
                        help="lines of quern-bench; default: matrix kernels but references; empty: none")
    parser.add_argument("--models", default=MODELS, metavar="LIST",
                        help="names of `quern zoo`; default: %(default)s; empty: none")
    parser.add_argument("--min-time", default="0.2", metavar="S", help="seconds per line of quern-bench (%(default)s)")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of a model (%(default)s)")
    parser.add_argument("--pause", type=float, default=10, metavar="S",
                        help="seconds before each command in which the phone cools (%(default)s)")
    parser.add_argument("--tables", type=pathlib.Path, default=ROOT / "bench/phones", metavar="DIR",
                        help="where the table is; default: bench/phones")
    parser.add_argument("--no-build", action="store_true", help="take BUILD as it is")
    return parser.parse_args()


def measure(options):
    phone = Phone(options.serial)
    name, system = phone.describe()
    clusters = clusters_of(phone.shell(LIST_CPUS), phone.shell("cat /proc/cpuinfo"))
    print(f"{name}, {system}: " + "; ".join(map(str, clusters)))
    if not options.no_build:
        subprocess.run(["cmake", "--build", options.build, "--target", "quern", "quern-bench"], check=True)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    results = options.build / "phones" / slug  # everything that the phone printed
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        local = pathlib.Path(folder, pathlib.PurePosixPath(REMOTE).name)
        local.mkdir()
        start = bundle([options.build / program for program in PROGRAMS], sysroot_of(options.build), local)
        phone.shell(f"rm -rf {REMOTE}")
        phone.call("push", local, REMOTE)
        phone.shell(f"chmod -R 755 {REMOTE}")
    try:
        for cluster in choose(clusters, options.cores):
            rows = list(Bench(phone, start, cluster, results, options).rows())
            append(options.tables / f"{slug}.md", name, system, commit_of_sources(), rows)
            print(f"{cluster}: {len(rows)} lines")
    finally:
        phone.shell(f"rm -rf {REMOTE}")
    print(f"{options.tables / slug}.md; all that the phone said: {results}")


def main():
    try:
        measure(parse_arguments())
    except (Error, OSError, subprocess.CalledProcessError) as error:
        print(f"phone_bench.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

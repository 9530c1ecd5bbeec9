#!/usr/bin/env python3
"""Stands in for adb.  The phone is the folder $FAKE_PHONE, with a /sys, a /proc and commands (bin) of its own; programs
that it starts through taskset run under $EMULATOR.

    fake_adb.py get-state | push FROM TO | pull FROM TO | shell COMMAND
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

PHONE = pathlib.Path(os.environ.get("FAKE_PHONE", "/nowhere"))
COMMANDS = {
    "getprop": 'cat "$FAKE_PHONE/properties/$1"',
    "taskset": 'echo "$1" >>"$FAKE_PHONE/masks"; shift; exec $EMULATOR "$@"',
}


def here(text):
    """The phone's paths as this machine's."""
    return re.sub(r"(?<![\w./])/(?=(data|sys|proc)/)", f"{PHONE}/", text)


def make_phone(phone, cpus, cpuinfo, properties):
    """cpus: for each core, path under its folder -> contents."""
    files = {f"sys/devices/system/cpu/cpu{index}/{path}": text for index, cpu in enumerate(cpus)
             for path, text in cpu.items()}
    files |= {f"properties/{key}": text for key, text in properties.items()}
    files |= {f"bin/{key}": f"#!/bin/sh\n{text}\n" for key, text in COMMANDS.items()}
    files |= {"proc/cpuinfo": cpuinfo, "data/local/tmp/other": "not ours\n"}
    for path, text in files.items():
        file = phone / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    (phone / "sys/devices/system/cpu/cpufreq").mkdir()  # what the kernel has there beside cores


def shell(command):
    environment = {**os.environ, "PATH": f"{PHONE}/bin:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", here(command)], env=environment, cwd=PHONE).returncode


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    return 0


def main():
    verb, *arguments = sys.argv[1:]
    if not PHONE.is_dir():
        print("error: no devices/emulators found", file=sys.stderr)
        return 1
    if verb == "get-state":
        print("device")
        return 0
    if verb == "push":
        return copy(arguments[0], here(arguments[1]))
    if verb == "pull":
        return copy(here(arguments[0]), arguments[1])
    return shell(" ".join(arguments))


if __name__ == "__main__":
    sys.exit(main())

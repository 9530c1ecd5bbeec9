#!/usr/bin/env python3
"""Writes src/graph/file/model_generated.h: code that reads and writes the tables of src/graph/file/model.fbs, by flatc;
and a list of the tables' fields, by which src/graph/file/description.cc verifies any table.

    model.py                print the header
    model.py --check FILE   exit status 1 unless FILE is what would be printed; 77 where that is not to be told

What flatc writes demands the FlatBuffers headers of its own version. Code of the version below does not need them: it
compiles with those of later versions, too, so the demand is left out. $FLATC names the program.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "src" / "graph" / "file" / "model.fbs"
FLATC = os.environ.get("FLATC") or "flatc"
VERSION = "2.0.8"

HEAD = f"""\
// Written by gen/model.py with flatc {VERSION} from model.fbs; do not edit.
// clang-format off
"""
DEMAND = re.compile(r"// Ensure the included flatbuffers\.h is the same version.*?static_assert\(.*?\);\n\n", re.DOTALL)

UNKNOWN = 77  # for ctest: skipped


class Error(Exception):
    pass


def run(*arguments):
    try:
        done = subprocess.run([FLATC, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Error(f"{FLATC}: {error.strerror}") from error
    if done.returncode:
        raise Error(done.stdout + done.stderr)
    return done.stdout


def find_version():
    found = run("--version").split()[-1]
    if found != VERSION:
        raise Error(f"this is flatc {found}; version {VERSION} is wanted")


# What a field's byte says: its kind in the upper half, its argument in the lower one. description.cc has the same list.
KINDS = ["end", "scalar", "words", "string", "vector", "strings", "table", "tables"]


def field_byte(kind, argument=0):
    if not 0 <= argument < 16:
        raise Error(f"a field with argument {argument} does not fit a byte")
    return KINDS.index(kind) << 4 | argument


def describe_field(calls, table, sizes, tables):
    """Returns the byte of the field that these calls of flatc's verifier check."""
    inline = re.fullmatch(r"VerifyField<([\w:]+)>\(verifier, VT_\w+, (\d+)\)", calls[0])
    if inline:
        size, align = sizes.get(inline[1].split("::")[-1]), int(inline[2])
        if size is None:
            return field_byte("scalar", align)
        if align != 4 or size % 4:
            raise Error(f"{inline[1]} has no multiple of 4 bytes")
        return field_byte("words", size // 4)
    functions = [re.fullmatch(r"verifier\.(\w+)\((\w+)\(\)\)", call)[1] for call in calls[1:]]
    getter = re.search(r"const ([^{};]*?) ?\*" + re.search(r"\((\w+)\(", calls[1])[1] + r"\(\) const", table)[1]
    of_table = {name: i for i, name in enumerate(tables)}
    element = re.sub(r"flatbuffers::(Vector|Offset)<|const |[ *>]|quern::format::", "", getter)
    if functions == ["VerifyString"]:
        return field_byte("string")
    if functions == ["VerifyTable"]:
        return field_byte("table", of_table[element])
    if functions == ["VerifyVector"]:
        return field_byte("vector", sizes.get(element) or int(re.search(r"\d+", {"float": "32"}.get(element, element))[0]) // 8)
    if functions == ["VerifyVector", "VerifyVectorOfStrings"]:
        return field_byte("strings")
    if functions == ["VerifyVector", "VerifyVectorOfTables"]:
        return field_byte("tables", of_table[element])
    raise Error(f"unknown field: {calls}")


def list_of_fields(text):
    """Returns C++ code: the fields of each table, in the order of their places in the table's layout."""
    bodies = re.findall(r"^struct (\w+) FLATBUFFERS_FINAL_CLASS : private flatbuffers::Table \{(.*?)^\};", text, re.M | re.S)
    sizes = {name: int(size) for name, size in re.findall(r"FLATBUFFERS_STRUCT_END\((\w+), (\d+)\)", text)}
    tables = [name for name, _ in bodies]
    lines = []
    for name, body in bodies:
        places = [int(place) for place in re.findall(r"VT_\w+ = (\d+)", body)]
        calls = re.search(r"VerifyTableStart\(verifier\) &&(.*)verifier\.EndTable\(\)", body, re.S)[1]
        calls = [call.strip() for call in calls.split("&&") if call.strip()]
        fields = []
        for call in calls:
            if call.startswith("verifier."):
                fields[-1].append(call)
            else:
                fields.append([call])
        if places != list(range(4, 4 + 2 * len(fields), 2)):
            raise Error(f"{name}: the fields have places of their own")
        codes = [f"{describe_field(calls, body, sizes, tables):#04x}" for calls in fields]
        lines.append(f"  {', '.join(codes)}, 0,  // {tables.index(name)}: {name}")
    return f"""
// The fields of all tables, a byte for each, and a 0 after each table; description.cc says what they mean.
inline constexpr unsigned char table_fields[] = {{
{chr(10).join(lines)}
}};
constexpr unsigned model_table = {tables.index("Model")};

"""


def header():
    with tempfile.TemporaryDirectory() as folder:
        run("--cpp", "--scoped-enums", "--cpp-std", "c++17", "-o", folder, str(SCHEMA))
        text = pathlib.Path(folder, "model_generated.h").read_text()
    text = text.replace('#include "flatbuffers/flatbuffers.h"', "#include <flatbuffers/flatbuffers.h>")  # no file of ours
    text, demands = DEMAND.subn("", text)
    if demands != 1:
        raise SystemExit("model.py: flatc's code does not demand its version where it did")
    end = "}  // namespace format\n"
    return HEAD + text.replace(end, list_of_fields(text) + end)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    try:
        find_version()
    except Error as error:
        print(error)
        return UNKNOWN if arguments.check else 1
    if arguments.check is None:
        print(header(), end="")
    elif pathlib.Path(arguments.check).read_text() != header():
        print(f"{arguments.check} is not what gen/model.py writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"model.py: {error}")

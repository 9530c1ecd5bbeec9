"""check_layers.py on a small house that is sound, and on the same house with one bad include at a time."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_layers

SOUND = {
    "include/quern/base.h": "#include <stddef.h>\n",
    "include/quern/op.h": '#include "base.h"\n',
    "include/quern/graph.h": '#include "base.h"\n#include "op.h"\n',
    "asm/offset.h": "",
    "asm/x86/asm.h": "",
    "asm/x86/tile.h": '#include "asm.h"\n',
    "asm/x86/gemm.S": '#include "tile.h"\n#include "../offset.h"\n',
    "asm/arm64/asm.h": "",
    "src/base/cpu.h": "#include <quern/base.h>\n",
    "src/base/cpu.cc": '#include "base/cpu.h"\n#include <cpuinfo.h>\n#include <vector>\n',
    "src/kernel/gemm.h": '#include "base/cpu.h"\n#include "../../asm/offset.h"\n',
    "src/kernel/select.h": '#include "kernel/gemm.h"\n',
    "src/op/conv2d.cc": '#include <quern/op.h>\n#include "kernel/select.h"\n',
    "src/graph/read.cc": '#include "graph/model_generated.h"\n#include <flatbuffers/flatbuffers.h>\n',
    "src/tool/main.cc": "#include <CLI/CLI.hpp>\n#include <quern/graph.h>\n",
}

# File, line added to it, words that the message must have.
BAD = [
    ("src/base/cpu.h", '#include "kernel/gemm.h"', "base (floor 1) must not include src/kernel/gemm.h"),
    ("src/kernel/gemm.h", '#include "kernel/select.h"', "kernel (floor 2) must not include src/kernel/select.h"),
    ("src/kernel/gemm.h", "#include <quern/op.h>", "must not include <quern/op.h>"),
    ("src/op/conv2d.cc", "#  include <quern/graph.h>", "op (floor 4) must not include <quern/graph.h>"),
    ("src/op/conv2d.cc", "#include <cpuinfo.h>", "op must not include <cpuinfo.h>"),
    ("src/base/cpu.h", "#include <cpuinfo.h>", "base must not include <cpuinfo.h>"),
    ("src/graph/read.cc", "#include <fmt/format.h>", "graph must not include <fmt/format.h>"),
    ("src/graph/read.cc", "#include <boost/any.hpp>", "no library that this project depends on"),
    ("src/graph/read.cc", '#include "graph/lost.h"', "cannot find"),
    ("include/quern/base.h", '#include "op.h"', "base (floor 1) must not include include/quern/op.h"),
    ("asm/x86/gemm.S", '#include "../../src/base/cpu.h"', "only headers of its own folder"),
    ("asm/x86/gemm.S", '#include "../arm64/asm.h"', "only headers of its own folder"),
    ("asm/x86/gemm.S", "#include <stdint.h>", "only headers of its own folder"),
    ("src/attic/old.cc", "int x;", "in no room"),
]


def build(root, files):
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class CheckLayers(unittest.TestCase):
    def test_sound(self):
        with tempfile.TemporaryDirectory() as folder:
            build(pathlib.Path(folder), SOUND)
            count, wrong = check_layers.check(pathlib.Path(folder))
            self.assertEqual(wrong, [])
            self.assertEqual(count, sum(text.count("#include") for text in SOUND.values()))

    def test_bad(self):
        for path, line, words in BAD:
            with self.subTest(path=path, line=line), tempfile.TemporaryDirectory() as folder:
                build(pathlib.Path(folder), SOUND | {path: SOUND.get(path, "") + line + "\n"})
                _, wrong = check_layers.check(pathlib.Path(folder))
                self.assertEqual(len(wrong), 1, wrong)
                self.assertIn(words, wrong[0])


if __name__ == "__main__":
    unittest.main()

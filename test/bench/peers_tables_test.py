#!/usr/bin/env python3
"""What bench/peers/models.py makes of output and times: records, the fastest engine of each peer, its table.

    peers_tables_test.py FOLDER_OF_MODELS_PY
"""

import contextlib
import io
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import models  # noqa: E402


def line(milliseconds, percent=None):
    return {"version": "1", "median_ms": milliseconds, "min_ms": milliseconds, "load_ms": 1, "peak_memory_bytes": 7e6,
            "percent_of_peak": percent}


def table_of(records, kind):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        models.print_table(records, kind, 1)
    return text.getvalue()


class Output(unittest.TestCase):
    def test_lines_of_libraries_stand_around_the_json(self):
        for text in ('{"a": 1}\n', 'The device\n{"a": 1}\n', '{\n  "a": 1\n}\nThe device\n'):
            self.assertEqual(models.json_within(text), {"a": 1})
        with self.assertRaisesRegex(RuntimeError, "The device"):
            models.json_within("The device")


class Tables(unittest.TestCase):
    rounds = {("net", "quern", 1): [line(2, 50), line(4, 25), line(3, 40)], ("net", "onnxruntime-u8", 1): [line(6)],
              ("net", "onnxruntime-s8", 1): [line(9)], ("net", "openvino-u8", 1): [line(5)],
              ("net", "openvino-s8", 1): [line(4)], ("net", "mnn-int8", 1): []}

    def test_records(self):
        records = {record["engine"]: record for record in models.records_of(self.rounds, "qs8")}
        self.assertNotIn("mnn-int8", records)
        self.assertEqual(records["quern"]["median_ms"], 3)
        self.assertEqual(records["quern"]["type"], "qs8")
        self.assertEqual(records["quern"]["percent_of_peak"], 40)
        self.assertEqual(records["onnxruntime-u8"]["percent_of_peak"], 20)  # twice our time

    def test_a_much_slower_engine_of_a_peer_has_lost(self):
        rounds = {**self.rounds, ("net", "onnxruntime-s8", 1): [line(9.1)]}
        lost = [engine for _, engine, _ in rounds if models.has_lost(rounds, "qs8", "net", engine, 1)]
        self.assertEqual(lost, ["onnxruntime-s8"])

    def test_the_faster_engine_of_a_peer_counts(self):
        text = table_of(models.records_of(self.rounds, "qs8"), "qs8")
        self.assertIn("| net | 3.00 (40%, 7) | 6.00 (20%, 7, u8) | failed | 4.00 (30%, 7, s8) | 1.33 |", text)
        self.assertIn("Geometric mean of the ratios: 1.333", text)

    def test_a_machine_without_a_peak_of_bytes(self):
        rounds = {key: [line(one["median_ms"]) for one in lines] for key, lines in self.rounds.items()}
        text = table_of(models.records_of(rounds, "qs8"), "qs8")
        self.assertIn("| net | 3.00 (7) | 6.00 (7, u8) | failed | 4.00 (7, s8) | 1.33 |", text)

    def test_floats(self):
        rounds = {("net", "quern", 1): [line(2, 50)], ("net", "ncnn", 1): [line(4)]}
        text = table_of(models.records_of(rounds, "f32"), "f32")
        self.assertIn("| net | 2.00 (50%, 7) | failed | failed | 4.00 (25%, 7) | failed | 2.00 |", text)

    def test_without_ours(self):
        rounds = {("net", "quern", 1): [], ("net", "openvino-u8", 1): [line(5)]}
        text = table_of(models.records_of(rounds, "qs8"), "qs8")
        self.assertIn("| net | failed | failed | failed | 5.00 (7, u8) | |", text)
        self.assertNotIn("Geometric", text)

    def test_ncnn_is_mentioned(self):
        self.assertNotIn("ncnn", models.PEERS["qs8"])
        self.assertIn("ncnn", models.NOTES["qs8"])


if __name__ == "__main__":
    unittest.main()

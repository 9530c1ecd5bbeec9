"""check_symbols.py on headers that are hard to read."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_symbols

HEADER = """
#define QN_API __attribute__((visibility("default")))
/* QN_API int qn_comment(void); */
// QN_API int qn_line(void);
/** Words about qn_words(). */
QN_API const char* qn_text(int status);
QN_API qn_status qn_long(size_t a,
                         void (*callback)(void* context), qn_plan** plan);
QN_API
void qn_broken(void);
static inline int not_exported(void) { return 0; }
"""


class CheckSymbols(unittest.TestCase):
    def test_declared(self):
        self.assertEqual(check_symbols.declared(HEADER), ["qn_text", "qn_long", "qn_broken"])

    def test_versions(self):
        listed = ["QUERN_1 A 0 0", "qn_one@@QUERN_1 T 10 8", "qn_two@@QUERN_0 T 20 8", "qn_three T 30 8"]
        self.assertEqual(check_symbols.parse(listed), {"qn_one": "QUERN_1", "qn_two": "QUERN_0", "qn_three": ""})


if __name__ == "__main__":
    unittest.main()

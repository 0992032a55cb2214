"""The 60 behaviours that Ray Train's tests ask of it: each has a test of its number, or a row among those to come.

lifecycle 1 to 15, controller 16 to 28, errors 29 to 33, report 34 to 49, data 58 to 60; what takes long is in full/. later:
the table of what is not there yet, elastic runs (50 to 57) above all. Behaviours of the C++ core are shown as a Python
program sees them, and name the tests of the core that prove them.
"""

import pathlib
import re

from behaviours_later_test import LATER

HERE = pathlib.Path(__file__).parent


def test_each_of_the_sixty_has_a_test_or_is_to_come():
    found = {
        int(number)
        for file in HERE.rglob("behaviours_*_test.py")
        for number in re.findall(r"^def test_(\d\d)_", file.read_text(), re.MULTILINE)
    }
    assert found | {behaviour.number for behaviour in LATER} == set(range(1, 61))

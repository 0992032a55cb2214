"""The 60 behaviours that Ray Train's tests ask of it: each has a test of its number.

lifecycle 1 to 15, controller 16 to 28, errors 29 to 33, report 34 to 49, elastic 50 to 57, data 58 to 60; what takes long is
in full/. Behaviours of the C++ core are shown as a Python program sees them, and name the tests of the core that prove them.
"""

import pathlib
import re

HERE = pathlib.Path(__file__).parent


def test_each_of_the_sixty_has_a_test():
    found = {
        int(number)
        for file in HERE.rglob("behaviours_*_test.py")
        for number in re.findall(r"^def test_(\d\d)_", file.read_text(), re.MULTILINE)
    }
    assert found == set(range(1, 61))

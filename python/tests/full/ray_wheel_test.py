"""The record of Ray's public tree is what its wheel has."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ray_tree


def test_the_record_is_that_of_the_wheel():
    assert ray_tree.text(ray_tree.read(ray_tree.wheel())) == ray_tree.TREE.read_text(), "run python/tests/ray_tree.py"

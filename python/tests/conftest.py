"""Fixtures: runs go into a temporary folder each; nothing of a test is the user's."""

import os
import pathlib
import runpy

import pytest

from paceline.train import RunConfig

START = pathlib.Path(__file__).resolve().parent / "start"
runpy.run_path(str(START / "sitecustomize.py"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(START), os.environ.get("PYTHONPATH"))))  # of what tests start


@pytest.fixture
def run_config(tmp_path):
    """RunConfig(**) with a storage path of the test's own."""

    def make(**settings):
        return RunConfig(**{"storage_path": str(tmp_path / "results"), "quiet": True, **settings})

    return make

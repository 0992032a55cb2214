"""Fixtures: runs go into a temporary folder each; nothing of a test is the user's."""

import pytest

from paceline.train import RunConfig


@pytest.fixture
def run_config(tmp_path):
    """RunConfig(**) with a storage path of the test's own."""

    def make(**settings):
        return RunConfig(**{"storage_path": str(tmp_path / "results"), "quiet": True, **settings})

    return make

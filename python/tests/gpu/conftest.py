"""Every test of this folder is skipped, with the reason, where there is no GPU. The parent folder's fixtures are here too."""

import pathlib
import runpy

import pytest

MISSING = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[3] / "tools/gpu.py"))["missing"]()


@pytest.fixture(autouse=True)
def gpu():
    if MISSING:
        pytest.skip(MISSING)

"""The C++ blocks of the guide's pages, compiled into one program: they run, and write what the pages say."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import guide

PAGES = [page for page in guide.pages() if guide.steps(page, "cpp")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path):
    environment = guide.set_up(page, tmp_path, pathlib.Path(os.environ["PACELINE_PROGRAM"]).parent)
    with guide.object_store(page) as of_the_store:
        done = subprocess.run([os.environ["GUIDE_PROGRAM"], page.stem], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, cwd=tmp_path, env=os.environ | environment | of_the_store, timeout=120)
    assert done.returncode == 0, done.stdout
    written = guide.by_block(done.stdout)
    for step in guide.steps(page, "cpp"):
        line = guide.missing(step.output, written[step.line])
        assert line is None, f"{step} does not write {line!r} but\n{written[step.line]}"

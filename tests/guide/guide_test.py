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
def test_page(page, tmp_path, monkeypatch):
    guide.write_files(page, tmp_path)
    paceline = os.path.dirname(os.environ["PACELINE_PROGRAM"])
    monkeypatch.setenv("PATH", paceline, prepend=os.pathsep)
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    done = subprocess.run([os.environ["GUIDE_PROGRAM"], page.stem], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout
    written = guide.by_block(done.stdout)
    for step in guide.steps(page, "cpp"):
        line = guide.missing(step.output, written[step.line])
        assert line is None, f"{step} does not write {line!r} but\n{written[step.line]}"

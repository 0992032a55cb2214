"""The Python blocks of the guide's pages and of docs/porting.md run, and write what the pages say."""

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

import paceline

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import guide

PAGES = [page for page in guide.pages() if guide.steps(page, "python")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    guide.write_files(page, tmp_path)
    programs = os.path.join(os.path.dirname(paceline.__file__), "bin")
    monkeypatch.setenv("PATH", os.pathsep.join([programs, os.path.dirname(sys.executable), os.environ["PATH"]]))
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for step in guide.steps(page, "python"):
        with captured(tmp_path / f"output_{step.line}") as output:
            run(step, namespace)
        line = guide.missing(step.output, output.read_text())
        assert line is None, f"{step} does not write {line!r} but\n{output.read_text()}"


def run(step, namespace):
    if step.language == "sh":
        subprocess.run(["bash", "-euc", step.code], check=True)
    else:
        exec(compile("\n" * (step.line - 1) + step.code, str(step.page), "exec"), namespace)


@contextlib.contextmanager
def captured(path):
    """What this process and those that it starts write, in their order."""
    with open(path, "a", buffering=1) as file:
        outer = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield path
        finally:
            os.dup2(outer[0], 1)
            os.dup2(outer[1], 2)
            os.close(outer[0])
            os.close(outer[1])


@pytest.mark.parametrize("page", guide.pages(), ids=lambda page: page.stem)
def test_each_block_of_cpp_has_its_twin_in_python(page):
    assert [str(block) for block in guide.without_twin(page)] == []

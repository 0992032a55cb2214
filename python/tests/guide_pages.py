"""Runs the Python blocks of a page of documentation (tools/guide.py), and compares what they write with what it shows."""

import contextlib
import os
import pathlib
import subprocess
import sys

import paceline

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import guide  # noqa: E402


def run_page(page, folder, monkeypatch):
    """In this process, whose warm process all pages share; `folder` is empty."""
    programs = pathlib.Path(paceline.__file__).parent / "bin"
    monkeypatch.chdir(folder)
    with guide.object_store(page) as of_the_store:
        for name, value in (guide.set_up(page, folder, programs) | of_the_store).items():
            monkeypatch.setenv(name, value)
        namespace = {"__name__": "__main__"}
        for step in guide.steps(page, "python"):
            output = folder / f"output_{step.line}"
            with captured(output):
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
                yield
        finally:
            os.dup2(outer[0], 1)
            os.dup2(outer[1], 2)
            os.close(outer[0])
            os.close(outer[1])

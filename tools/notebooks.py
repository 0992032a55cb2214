#!/usr/bin/env python3
"""Executes notebooks and keeps what their cells show, without the paths of this machine.

    PYTHONPATH=build/release/python .venv/bin/python tools/notebooks.py examples/python/notebooks/introduction.ipynb

Each runs in an empty folder, with this interpreter. One whose cell fails stays as it was.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest.mock
from collections.abc import Iterator

import nbclient
import nbformat

PROJECT = pathlib.Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def kernel(folder: pathlib.Path) -> Iterator[dict[str, str]]:
    """The kernel python3 is this interpreter inside of the block; nothing of the user's Jupyter is read or written.

    Gives the environment to start kernels with. `folder` takes all that Jupyter puts down."""
    spec = folder / "kernels/python3"
    spec.mkdir(parents=True)
    command = [sys.executable, "-B", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))
    names = ("JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    settings = {"JUPYTER_PLATFORM_DIRS": "1", "OMP_WAIT_POLICY": "passive", **{name: str(folder) for name in names}}
    with unittest.mock.patch.dict(os.environ, settings):
        # Where pytest's is set, ipykernel does not take what processes write to standard output and error.
        yield {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def execute(path: pathlib.Path, folder: pathlib.Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in `folder`. nbclient.exceptions.CellExecutionError when a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with kernel(folder / ".jupyter") as environment:
        nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=str(folder), env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))
    return notebook


def printed(notebook: nbformat.NotebookNode) -> str:
    """All that its cells have written and given back as text."""
    texts = []
    for output in (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs):
        texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)


def _joined(outputs):
    """A stream's pieces as one: how they were cut is chance."""
    last = None
    for output in outputs:
        if last and last.output_type == output.output_type == "stream" and last.name == output.name:
            last.text += output.text
            continue
        if last:
            yield last
        last = output
    if last:
        yield last


def without_paths(text: str, folder: pathlib.Path) -> str:
    """A notebook's JSON without the paths of this machine."""
    for path, name in ((f"{folder}/", ""), (f"{PROJECT}/", ""), (sys.prefix, "…"), (sys.base_prefix, "…")):
        text = text.replace(path, name)
    return re.sub(r" on node [\w.-]+", " on node here", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=pathlib.Path, metavar="FILE")
    for path in parser.parse_args().notebooks:
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, pathlib.Path(folder))
            path.write_text(without_paths(nbformat.writes(notebook) + "\n", pathlib.Path(folder)))
        print(f"{path}: executed")


if __name__ == "__main__":
    main()

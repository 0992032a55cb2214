#!/usr/bin/env python3
"""Writes the stubs of the extension module, python/paceline/_paceline/*.pyi, from the module itself: what type checkers read.

    PYTHONPATH=build/release/python .venv/bin/python tools/stubs.py [FOLDER]     by default into the package
"""

import pathlib
import re
import shutil
import sys
import tempfile

import pybind11_stubgen
import torch.distributed  # noqa: F401  # whose classes appear in signatures

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python" / "paceline" / "_paceline"


def write(folder: pathlib.Path) -> None:
    """Replaces the stubs in `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        sys.argv = ["stubgen", "paceline._paceline", "-o", scratch, "--exit-code"]
        pybind11_stubgen.main()
        module = pathlib.Path(scratch) / "paceline" / "_paceline" / "__init__.pyi"
        # The members of an enumeration as type checkers want them.
        text = re.sub(r"^    ([A-Z_]+): typing\.ClassVar\[\w+\]$", r"    \1 = ...", module.read_text(), flags=re.MULTILINE)
        module.write_text(text)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pathlib.Path(scratch) / "paceline" / "_paceline", folder)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)

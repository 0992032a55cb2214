"""Notebook cells: no file has their code, so workers are told what it is and what IPython calls them, for tracebacks."""

import linecache
import sys
from typing import Dict, List, Tuple

_names: Dict[str, str] = {}


def known() -> Dict[str, Tuple[str, List[str]]]:
    """In the driver, by the file name that Python gives a cell: ``"Cell In[3]"`` and its lines. Empty outside of IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return {}
    cells = {}
    for file in list(linecache.cache):
        if name := shell.compile.format_code_name(file):
            cells[file] = (" ".join(name), linecache.getlines(file))
    return cells


def add(cells: Dict[str, Tuple[str, List[str]]]) -> None:
    """In a worker: what known() gave in its driver."""
    for file, (name, lines) in cells.items():
        _names[file] = name
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)  # None: there is no file to look at again


def name_of(file: str) -> str:
    """What a person calls it: a cell's name, any other file's as it is."""
    return _names.get(file, file)

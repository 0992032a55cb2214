"""The driver's side of this process: started at the first fit()."""

import html
import io
import json
import os
import sys

from paceline import _environment
from paceline._native import native

# Packages that start threads when they are imported.
_WITH_THREADS = ("ray",)
_PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
GUARDIAN = os.path.join(_PROGRAMS, "paceline_guardian")


def ensure():
    """Starts the guardian, once."""
    if native.is_driver():
        return
    _environment.note_others()
    worker = [sys.executable, "-m", "paceline._worker"]
    warm = [sys.executable, "-m", "paceline._warm", json.dumps(_imported_modules())]
    native.become_driver(worker, warm, GUARDIAN, os.path.join(_PROGRAMS, "paceline"))


def replaced_streams():
    """What writes to standard output and standard error where the program has replaced them, as notebooks, pytest and
    contextlib.redirect_stdout() do; None for the process's own."""
    output = _replaced(sys.stdout, sys.__stdout__, 1)
    error = _replaced(sys.stderr, sys.__stderr__, 2)
    if output and not error and sys.stderr and sys.stderr.isatty():
        error = sys.stderr.write  # in whole lines: a live one would mix with what a stream that copies writes to the terminal
    return {"standard_output": output, "standard_error": error}


def _replaced(stream, own, descriptor):
    if stream is None or stream is own:
        return None
    try:
        is_own = type(stream) is io.TextIOWrapper and stream.fileno() == descriptor  # with another encoding, say
    except (OSError, ValueError):
        is_own = False
    return None if is_own else stream.write


def page_link():
    """What shows an address as a link in a notebook; None where the program is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):  # IPython's terminal has none
        return None
    from IPython.display import HTML, display  # which is imported already

    def show(url):
        text = html.escape(url.partition("#")[0])
        display(HTML(f'Dashboard: <a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{text}</a>'))

    return show


def program_name():
    """What a run without a name is named after: the script, the module of ``python -m``, or "notebook"."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name.removesuffix(".__main__")
    if file := getattr(main, "__file__", None):
        return os.path.basename(os.path.dirname(os.path.abspath(file)) if os.path.basename(file) == "__main__.py" else file)
    return "notebook" if "ipykernel" in sys.modules else "run"


def _imported_modules():
    """Installed packages that this process has imported, and what packages that load their modules when they are used
    have loaded: workers will want them too. Not the user's own modules, which may change between two runs, and not those
    that start threads when they are imported, for each of which the warm process would begin again."""
    names = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        package, _, rest = name.partition(".")
        wanted = not rest or (_loads_lazily(sys.modules.get(package)) and "." not in rest and not rest.startswith("_"))
        if wanted and not name.startswith("_") and package not in _WITH_THREADS and f"{os.sep}site-packages{os.sep}" in file:
            names.append(name)
    return sorted(names)


def _loads_lazily(package):
    return hasattr(type(package), "__getattr__") or "__getattr__" in getattr(package, "__dict__", ())

"""Brings datasets with the scripts of tools/."""

import pathlib
import subprocess

PROJECT = pathlib.Path(__file__).resolve().parents[3]


def fetch(script: str, folder: str) -> None:
    """Runs ``tools/<script> folder``, which fetches what is missing there and says on the terminal what it does.

    Raises:
        RuntimeError: When it fails; the script has said why.

    Example:
        >>> fetch("fetch_mnist", "data")
    """
    command = [str(PROJECT / "tools" / script), folder]
    if subprocess.run(command).returncode != 0:
        raise RuntimeError(f"data could not be fetched; the output of this command says why: {' '.join(command)}")

"""The package as it is installed: all of it is there, and runs without the source tree."""

import os
import pathlib
import subprocess
import sys

import pyarrow

import paceline

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_what_is_installed_trains(tmp_path):
    site = tmp_path / "site"
    build = pathlib.Path(paceline.__file__).parents[2]
    subprocess.run(
        ["cmake", "--install", build, "--component", "python", "--prefix", site], check=True, capture_output=True
    )
    assert (site / "paceline/py.typed").exists() and (site / "paceline/_paceline/__init__.pyi").exists()
    assert not [path for path in site.rglob("*") if path.is_symlink()]
    (site / "pyarrow").symlink_to(pathlib.Path(pyarrow.__file__).parent)  # beside which it is installed
    environment = {**os.environ, "PYTHONPATH": str(site)}
    example = [sys.executable, ROOT / "examples/python/quick_start.py", "--epochs", "2"]
    done = subprocess.run(example, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "y = " in done.stdout
    (run,) = (tmp_path / "results").iterdir()
    shown = subprocess.run([sys.executable, "-m", "paceline", "show", run], env=environment, capture_output=True, text=True)
    assert shown.returncode == 0 and "finished" in shown.stdout

"""The examples of examples/python, run as a user runs them."""

import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


def run(name, *arguments):
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_quick_start_fits_the_line_and_goes_on(tmp_path):
    shown = run("quick_start.py", "--storage-path", tmp_path, "--name", "line", "--epochs", "2")
    assert "(rank 0)" not in shown and "epoch" in shown
    shown = run("quick_start.py", "--storage-path", tmp_path, "--name", "line")
    assert shown.splitlines()[-1] == "y = 3.00 x + -1.00"

"""What type checkers see: the stubs of the extension module, and the package's own annotations."""

import filecmp
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_stubs_are_those_of_the_extension_module(tmp_path):
    subprocess.run([sys.executable, "-B", ROOT / "tools/stubs.py", tmp_path / "stubs"], check=True, capture_output=True)
    stubs = ROOT / "python/paceline/_paceline"
    names = sorted(os.listdir(tmp_path / "stubs"))
    assert names == sorted(name for name in os.listdir(stubs) if name.endswith(".pyi"))
    different = filecmp.cmpfiles(tmp_path / "stubs", stubs, names, shallow=False)[1:]
    assert different == ([], []), "the extension module has changed; run tools/stubs.py"


def test_the_package_agrees_with_its_annotations(tmp_path):
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

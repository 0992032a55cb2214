"""`pip install .` into an environment of its own, and what is then there: the first try compiles for a quarter of an hour,
later ones find their objects in the compiler's cache."""

import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A new environment with this one's packages, torch and pyarrow among them, by hard links."""
    folder = tmp_path_factory.mktemp("pip") / "environment"
    venv.create(folder, symlinks=True)
    ours = sysconfig.get_path("purelib")
    theirs = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    shutil.rmtree(theirs)
    linked = subprocess.run(["cp", "-al", ours, theirs], capture_output=True)
    if linked.returncode != 0:  # on another file system
        shutil.rmtree(theirs, ignore_errors=True)
        shutil.copytree(ours, theirs, symlinks=True)
    return folder


def test_pip_installs_a_package_that_trains(environment, tmp_path):
    python = environment / "bin/python"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", ROOT]
    subprocess.run(pip, check=True, env=clean)
    example = [python, ROOT / "examples/python/quick_start.py", "--epochs", "2"]
    done = subprocess.run(example, capture_output=True, text=True, cwd=tmp_path, env=clean)
    assert done.returncode == 0, done.stderr
    assert "y = " in done.stdout
    shown = subprocess.run(
        [environment / "bin/paceline", "--version"], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    )
    version = subprocess.run(
        [python, "-c", "import paceline; print(paceline.__version__, paceline.__file__)"],
        cwd=tmp_path, env=clean, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert version[0] in shown.stdout and str(environment) in version[1]
    programs = environment / version[1].removesuffix("__init__.py") / "bin"
    for program in os.listdir(programs):  # nothing is found by a path of the machine that has built it
        found = subprocess.run(["ldd", programs / program], capture_output=True, text=True, check=True).stdout
        assert "not found" not in found
        assert not re.search(rf"=> {re.escape(str(ROOT))}", found), found

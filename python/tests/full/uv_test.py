"""An environment made by uv from examples/python/requirements.txt runs the examples."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[3]
REQUIREMENTS = PROJECT / "examples/python/requirements.txt"
UV = shutil.which("uv", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")


def run(*command, **settings):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def sources_of_packages():
    """What pip is configured with, as uv's environment variables."""
    configured = {}
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, value = line.split("=", 1)
        configured.setdefault(name.rsplit(".", 1)[1], value.strip("'"))  # those of the environment come first
    indexes = configured.get("extra-index-url", "").split()
    wheels = re.search(r"^readonly CPU_WHEELS=(\S+)$", (PROJECT / "tools/setup").read_text(), re.MULTILINE)[1]
    if subprocess.run(["curl", "-sfo", "/dev/null", "--connect-timeout", "5", f"{wheels}/torch/"]).returncode == 0:
        indexes.append(wheels)  # where set-up takes torch from, if it can
    variables = {"UV_INDEX": " ".join(indexes), "UV_FIND_LINKS": ",".join(configured.get("find-links", "").split())}
    variables["UV_DEFAULT_INDEX"] = configured.get("index-url", "")
    variables["UV_HTTP_TIMEOUT"] = configured.get("default-timeout", "")
    return {name: value for name, value in variables.items() if value} | {"UV_INDEX_STRATEGY": "unsafe-best-match"}


def pinned():
    """What the project is built and tested with of each requirement, as constraints."""
    names = re.findall(r"^[a-z][a-z0-9-]*", REQUIREMENTS.read_text(), re.MULTILINE)
    versions = dict(re.findall(r"^(\w+)_VERSION=(\S+)$", (PROJECT / "versions.env").read_text(), re.MULTILINE))
    constraints = {name: versions[name.upper().replace("-", "_")] for name in names}
    constraints["torch"] = importlib.metadata.version("torch")  # +cpu, where set-up has taken that
    return "".join(f"{name}=={version}\n" for name, version in constraints.items())


@pytest.fixture
def folder():
    """A temporary one that is removed at once: pytest would keep a gigabyte of each of the last three runs."""
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


@pytest.mark.skipif("+cpu" not in importlib.metadata.version("torch"), reason="this machine's torch is CUDA's: gigabytes")
def test_uv_sets_up_an_environment_in_which_the_quick_start_runs(folder, tmp_path):
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(pinned())
    python = folder / "environment/bin/python"
    environment = {**os.environ, **sources_of_packages(), "UV_CACHE_DIR": str(folder / "cache"), "UV_NO_CONFIG": "1"}
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "environment", env=environment)
    # An error where a range of requirements.txt has no place for the version in versions.env.
    run(UV, "pip", "install", "--quiet", "--python", python, "-r", REQUIREMENTS, "-c", constraints, env=environment)
    shown = run(python, "-B", PROJECT / "examples/python/quick_start.py", cwd=tmp_path)
    assert shown.splitlines()[-1] == "y = 3.00 x + -1.00"

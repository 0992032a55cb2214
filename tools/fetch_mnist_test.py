"""Tests of fetch_mnist where it cannot fetch: what it says, and what it leaves behind."""
import os
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parent / "fetch_mnist"
DEAD_MIRROR = "exit 7"
# Ctrl-C reaches the script and the program that it waits for.
INTERRUPTED = "kill -INT $PPID; kill -INT $$"


def run(tmp_path: pathlib.Path, curl: str, *arguments: str, npm: str | None = None) -> subprocess.CompletedProcess:
    """Runs the script with these programs as curl and npm; without `npm` there is none."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sha256sum", "cut", "grep", "mktemp", "rm", "mkdir", "dirname", "realpath", "env"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    for name, body in {"curl": curl, "npm": npm}.items():
        if body is not None:
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PATH": str(programs)})


@pytest.mark.parametrize("npm", [None, "exit 1"])
def test_a_failure_names_the_folder_and_npm(tmp_path, npm):
    done = run(tmp_path, DEAD_MIRROR, "digits", npm=npm)
    assert done.returncode != 0
    assert f"{tmp_path}/digits/" in done.stderr
    assert ("apt-get install npm" in done.stderr) == (npm is None)
    assert not list((tmp_path / "digits").iterdir())


@pytest.mark.parametrize("arguments", [("digits",), ("--one", "t10k-labels-idx1-ubyte", "digits/.partial")])
def test_an_interrupt_leaves_nothing(tmp_path, arguments):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits/.partial").touch()
    assert run(tmp_path, INTERRUPTED, *arguments).returncode != 0
    left = [file.name for file in (tmp_path / "digits").iterdir()]
    assert left == ([] if "--one" in arguments else [".partial"])


def test_can_looks_for_files_npm_and_mirrors(tmp_path):
    for number, (curl, npm, possible) in enumerate([("exit 0", None, True), (DEAD_MIRROR, "", True), (DEAD_MIRROR, None, False)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert (run(folder, curl, "--can", npm=npm).returncode == 0) == possible

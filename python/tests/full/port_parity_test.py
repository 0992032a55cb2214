"""Port parity: programs for Ray Train and, with `ray` replaced by `paceline`, for Paceline, come to the same.

Each program in parity/ puts what is determined of it into `outcome`: metrics and weights bit for bit, what is in folders,
which errors there are. Under each of the two, all run in one driver (parity_runner.py).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
import environment

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = sorted(path.stem for path in (HERE / "parity").glob("*.py"))


def run(python, package, programs, names, work, variables):
    """What each of the programs showed, by name."""
    ray_folder = tempfile.mkdtemp(prefix="ray_", dir="/tmp")  # its sockets' paths must be short
    set_up = environment.program_environment(ray_folder) | variables | {"DS_ACCELERATOR": "cpu"}
    set_up |= {"PACELINE_STATE_DIR": ray_folder, "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}
    set_up["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"  # moto keeps the marks of chunks that have checksums
    try:
        command = [python, HERE / "parity_runner.py", package, programs, work, *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1300, env=set_up)
    finally:
        shutil.rmtree(ray_folder, ignore_errors=True)
    said = done.stdout[-3000:] + done.stderr[-3000:]
    return {
        name: json.loads(path.read_text()) if (path := work / f"{name}.json").exists() else {"did not come to an end": said}
        for name in names
    }


@pytest.fixture(scope="module")
def asked_for(request):
    return [item.callspec.params["program"] for item in request.session.items if item.path == request.path]


@pytest.fixture(scope="module")
def theirs(asked_for, tmp_path_factory):
    environment.install_peers()
    # The frameworks are those that Paceline is tested with; the peers' environment adds Ray to them.
    path = os.pathsep.join([str(HERE.parent / "start"), sysconfig.get_path("purelib")])
    python = environment.PEERS / "bin" / "python"
    return run(python, "ray", HERE / "parity", asked_for, tmp_path_factory.mktemp("theirs"), {"PYTHONPATH": path})


@pytest.fixture(scope="module")
def ours(asked_for, tmp_path_factory):
    ported = tmp_path_factory.mktemp("ported")
    for name in asked_for:
        text = (HERE / "parity" / f"{name}.py").read_text()
        (ported / f"{name}.py").write_text(re.sub(r"\bray\b", "paceline", text))
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    return run(sys.executable, "paceline", ported, asked_for, tmp_path_factory.mktemp("ours"), variables)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_ported_program_comes_to_the_same(program, theirs, ours):
    assert not {"raised", "did not come to an end"} & theirs[program].keys(), theirs[program]
    assert ours[program] == theirs[program]

"""What a user starts on a machine with a GPU: the quickstart in C++ and in Python, and `paceline doctor`."""

import json
import os
import pathlib
import runpy
import subprocess
import sys

import pytest
import torch

PROJECT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["PACELINE_BUILD"])
sys.path.insert(0, str(PROJECT / "examples"))
from small_data import make_digits  # noqa: E402

MISSING = runpy.run_path(str(PROJECT / "tools/gpu.py"))["missing"]()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.mark.parametrize("program", [[BUILD / "examples/020_mnist_resnet18"],
                                     [sys.executable, "-B", PROJECT / "examples/python/mnist_resnet18.py"]],
                         ids=["cpp", "python"])
def test_the_quickstart_uses_every_gpu(tmp_path, program):
    if program[0] == sys.executable:
        pytest.importorskip("matplotlib")
    make_digits(tmp_path / "data", train=1024, test=10_000)
    done = subprocess.run([*program, "--use-gpu", "--json", "--train-digits", "1024", "--num-epochs", "2"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["state"], summary["workers"]) == ("finished", torch.cuda.device_count())
    assert (tmp_path / summary["picture"]).read_bytes().startswith(b"\x89PNG")


def test_the_doctor_shows_the_gpu_with_its_memory_and_driver(tmp_path):
    done = subprocess.run([BUILD / "paceline/cli/paceline", "doctor", "--json", "--storage-path", tmp_path],
                          capture_output=True, text=True)
    finding = next(one for one in json.loads(done.stdout) if one["subject"] == "gpu")
    assert finding["verdict"] == "ok", finding
    assert torch.cuda.get_device_name(0) in finding["text"]
    assert " free)" in finding["text"] and "driver " in finding["text"]

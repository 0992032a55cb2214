"""The examples of examples/python, run as a user runs them, with little data. Those that take longer are in full/."""

import json
import runpy
import subprocess
import sys

import pytest
import torch
from example_programs import EXAMPLES, real_digits, run
from small_data import take_digits


def test_quick_start_fits_the_line_and_goes_on(tmp_path):
    shown = run(tmp_path, "quick_start.py", "--name", "line", "--epochs", "2")
    assert "(rank 0)" not in shown and "epoch" in shown
    shown = run(tmp_path, "quick_start.py", "--name", "line")
    assert shown.splitlines()[-1] == "y = 3.00 x + -1.00"


def test_mnist_ends_with_a_table_a_picture_and_json(tmp_path):
    take_digits(real_digits(), tmp_path / "data", train=512, test=100)
    lines = run(tmp_path, "mnist_resnet18.py", "--train-digits", 512, "--num-epochs", 1, "--json").splitlines()
    assert lines[0].split() == ["epoch", "loss", "test_loss", "accuracy"]
    summary = json.loads(lines[-1])
    # The same as the C++ example's: examples_test.py of examples/.
    assert sorted(summary) == ["accuracy", "checkpoint", "picture", "state", "train_seconds", "workers"]
    assert summary["state"] == "finished" and summary["workers"] == 2
    assert float(lines[1].split()[-1]) == summary["accuracy"]
    assert (tmp_path / summary["checkpoint"] / "state.pt").is_file()
    assert (tmp_path / summary["picture"]).read_bytes().startswith(b"\x89PNG")


def test_resume_after_failure_repeats_the_curve(tmp_path):
    lines = run(tmp_path, "resume_after_failure.py", "--epochs", 4, "--kill-at-step", 40).splitlines()
    assert "failures: 1" in lines and any("was killed by SIGKILL" in line for line in lines)
    start = next(number for number, line in enumerate(lines) if line.startswith(" epoch"))
    curve = [line.split() for line in lines[start + 1 :]]
    assert [row[0] for row in curve] == ["0", "1", "2", "3"]
    assert [row[3] for row in curve] == ["1", "1", "2", "2"]
    assert all(undisturbed == killed for _, undisturbed, killed, _ in curve)


def test_an_example_that_sigterm_has_stopped_says_so_by_its_exit_code(tmp_path):
    command = [sys.executable, EXAMPLES / "quick_start.py", "--epochs", "1000000", "--name", "line"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as example:
        assert any("checkpoint" in line for line in example.stderr)  # it trains
        example.terminate()
        rest = example.stderr.read()
    assert example.returncode == 143 and "Traceback" not in rest


def test_a_wrong_flag_is_named_and_nothing_is_made(tmp_path):
    command = [sys.executable, EXAMPLES / "mnist_resnet18.py", "--num-workers", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "argument --num-workers: invalid int value: 'none'" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


# Lightning, which takes long to import, is in full/.
WITH_GPUS = [path.name for path in sorted(EXAMPLES.glob("*.py")) if '"--use-gpu"' in path.read_text()
             and "import lightning" not in path.read_text()]  # fmt: skip


@pytest.mark.parametrize("name", WITH_GPUS)
def test_gpus_that_are_not_there_are_refused_before_any_work(name, tmp_path, monkeypatch, capfd):
    if "import torchmetrics" in (EXAMPLES / name).read_text():
        pytest.importorskip("torchmetrics")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(sys, "argv", [name, "--use-gpu", "--num-workers", "2"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert ended.value.code == 2
    said = capfd.readouterr().err.splitlines()
    assert said[-1] == f"{name}: error: argument --use-gpu: GPUs needed: 2, one for each worker; found: 1"
    assert not list(tmp_path.iterdir())

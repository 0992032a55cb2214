"""The examples about frameworks in examples/python, run as a user runs them; those that take longer are in full/."""

import subprocess
import sys

import pytest
from example_programs import EXAMPLES, losses_by_step, run


def test_fsdp2_killed_once_goes_on_with_the_same_losses(tmp_path):
    shown = run(tmp_path, "fsdp2.py", "--name", "killed", "--kill-at-step", 7, "--steps", 8, "--checkpoint-every", 5,
                "--batch-size", 8)  # fmt: skip
    assert "after 8 steps" in shown and "\nThe " in shown
    losses = losses_by_step(tmp_path, "killed")
    assert list(losses) == list(range(1, 9))
    assert [len(losses[step]) for step in losses] == [1, 1, 1, 1, 1, 2, 2, 1]
    assert losses[6][0] == pytest.approx(losses[6][1], abs=1e-4) and losses[7][0] == pytest.approx(losses[7][1], abs=1e-4)


def test_torchmetrics_of_all_workers_are_those_of_one_process(tmp_path):
    lines = run(tmp_path, "torchmetrics_regression.py", "--epochs", 2, "--check").splitlines()
    epoch, _, validation_loss, r2 = lines[2].split()
    assert epoch == "2" and float(r2) > 0.8
    assert lines[-1] == f"in one process: validation_loss {validation_loss}, r2 {r2}"


def test_a_wrong_flag_is_named_and_nothing_is_made(tmp_path):
    arguments = ["--num-workers", "4", "--batch-size", "6"]
    done = subprocess.run([sys.executable, EXAMPLES / "fsdp2.py", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--batch-size: 6; allowed: multiples of 4" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())

"""The examples about frameworks in examples/python, run as a user runs them; those that take longer are in full/."""

import subprocess
import sys

import pytest
from example_programs import EXAMPLES, losses_by_attempt, run


def test_fsdp2_killed_once_goes_on_with_the_same_losses(tmp_path):
    shown = run(tmp_path, "fsdp2.py", "--name", "killed", "--kill-at-step", 9, "--steps", 10, "--checkpoint-every", 5,
                "--batch-size", 8)  # fmt: skip
    assert "after 10 steps" in shown and "\nThe " in shown
    losses = losses_by_attempt(tmp_path, "killed")
    assert list(losses) == [1, 2] and list(losses[2]) == [6, 7, 8, 9, 10]
    for step in losses[1].keys() & losses[2].keys():  # what the dead worker had sent of these
        assert losses[1][step] == pytest.approx(losses[2][step], abs=1e-4)


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

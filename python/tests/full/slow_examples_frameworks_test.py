"""The examples about frameworks in examples/python that take long: see ../examples_frameworks_test.py."""

import os
import re
import subprocess
import sys

import pytest
from example_programs import EXAMPLES, losses_by_attempt, real_digits, run
from small_data import take_digits


def test_fsdp2_is_the_same_in_any_form_and_for_any_number_of_workers(tmp_path):
    small = ("--checkpoint-every", 5, "--batch-size", 8)
    run(tmp_path, "fsdp2.py", "--name", "alone", "--num-workers", 1, "--steps", 12, *small)
    run(tmp_path, "fsdp2.py", "--name", "bfloat16", "--bfloat16", "--cpu-offload", "--steps", 12, *small)
    run(tmp_path, "fsdp2.py", "--name", "grown", "--keep-gathered", "--steps", 9, *small)
    run(tmp_path, "fsdp2.py", "--name", "grown", "--num-workers", 4, "--steps", 12, *small)  # reads what two have written
    alone, bfloat16, grown = (losses_by_attempt(tmp_path, name) for name in ("alone", "bfloat16", "grown"))
    assert list(alone[1]) == list(bfloat16[1]) == list(grown[1]) + list(grown[2]) == list(range(1, 13))
    for step, loss in alone[1].items():
        assert grown[1 if step < 10 else 2][step] == pytest.approx(loss, rel=1e-3)
        assert bfloat16[1][step] == pytest.approx(loss, rel=0.02)


@pytest.mark.parametrize("stage", [2, 3])
def test_deepspeed_killed_once_goes_on_with_the_same_losses(tmp_path, stage):
    small = ("--stage", stage, "--steps", 10, "--checkpoint-every", 5, "--batch-size", 8)
    shown = run(tmp_path, "deepspeed_zero.py", "--name", "killed", "--kill-at-step", 9, *small)
    assert f"after 10 steps with ZeRO stage {stage}" in shown
    run(tmp_path, "deepspeed_zero.py", "--name", "undisturbed", *small)
    killed, undisturbed = losses_by_attempt(tmp_path, "killed"), losses_by_attempt(tmp_path, "undisturbed")
    assert list(killed) == [1, 2] and list(killed[2]) == [6, 7, 8, 9, 10]
    for losses in killed.values():
        for step, loss in losses.items():
            assert loss == pytest.approx(undisturbed[1][step], abs=1e-4)


def test_mixed_precision_learns_the_same(tmp_path):
    rows = [line.split() for line in run(tmp_path, "mixed_precision.py", "--width", 32).splitlines()[-3:]]
    assert [row[:2] for row in rows] == [
        ["float32", "torch.float32"],
        ["autocast", "torch.bfloat16"],
        ["three-calls", "torch.bfloat16"],
    ]
    losses = [float(row[2]) for row in rows]
    assert losses == pytest.approx([losses[0]] * 3, rel=0.02)


def test_lightning_reports_every_so_many_steps(tmp_path):
    take_digits(real_digits(), tmp_path / "data", train=2_000, test=500)
    lines = run(tmp_path, "lightning_mnist.py", "--train-digits", 1_920, "--epochs", 2, "--report-every", 10).splitlines()
    assert lines[0].split() == ["epoch", "step", "loss", "accuracy"]
    assert [line.split()[:2] for line in lines[1:4]] == [["0", "10"], ["1", "20"], ["1", "30"]]


def test_lightning_refuses_gpus_that_are_not_there_before_any_work(tmp_path):
    command = [sys.executable, EXAMPLES / "lightning_mnist.py", "--use-gpu"]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=hidden, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("argument --use-gpu: GPUs needed: 2, one for each worker; found: 0\n")
    assert not list(tmp_path.iterdir())


def test_lightning_learns_to_read(tmp_path):
    (tmp_path / "data").symlink_to(real_digits())
    lines = run(tmp_path, "lightning_mnist.py").splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["0", "1", "2"]
    assert float(lines[3].split()[-1]) > 0.93
    digits = re.findall(r"\d", lines[-1])
    assert len(digits) == 18 and sum(read == written for read, written in zip(digits[:9], digits[9:])) >= 7

"""The examples of examples/python that take long, or in earnest: see ../examples_test.py."""

import json
import re
import subprocess
import sys

import pytest
from example_programs import ENVIRONMENT, EXAMPLES, PACELINE_RUN, history, real_digits, run
from fake_launchers import launchers_in
from small_data import make_photographs, take_digits

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]


def test_the_examples_learn_the_same_on_two_hosts(tmp_path, monkeypatch):
    """Bit by bit, without a word of hosts in their code: the command line has them."""
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{launchers_in(tmp_path / 'bin')}:{ENVIRONMENT['PATH']}")
    monkeypatch.setitem(ENVIRONMENT, "PYTHON_EXEC", sys.executable)
    on_hosts = [sys.executable, "-m", "paceline", "run", "--hosts", "localhost,127.0.0.1", "--driver"]
    make_photographs(tmp_path / "data")
    take_digits(real_digits(), tmp_path / "data", train=512, test=100)
    for name, *arguments in (
        ("mnist_resnet18.py", "--train-digits", 512, "--num-epochs", 1, "--json"),
        ("cifar10_vit.py", "--quick", "--num-workers", 2, "--epochs", 1, "--batch-size", 16),
    ):
        curves = []
        for place, launcher in (("here", [sys.executable]), ("there", on_hosts)):
            run(tmp_path, name, *arguments, "--name", f"{name}_{place}", launcher=launcher)
            curves.append([{key: value for key, value in one.items() if key.endswith(("loss", "accuracy"))}
                           for one in history(tmp_path, f"{name}_{place}")])  # fmt: skip
        assert curves[0] == curves[1] and curves[0][0]
    assert (tmp_path / "hosts").read_text().count("localhost") == 2


@pytest.mark.parametrize("workers", [2, 4])
def test_mnist_learns_to_read(tmp_path, workers):
    (tmp_path / "data").symlink_to(real_digits())
    # Twice as many workers as there may be cores learn from fewer digits.
    arguments = [] if workers == 2 else ["--train-digits", 10_240]
    shown = run(tmp_path, "mnist_resnet18.py", "--num-workers", workers, "--json", *arguments)
    assert json.loads(shown.splitlines()[-1])["accuracy"] >= (0.97 if workers == 2 else 0.9)


def test_vit_learns_the_same_in_one_process_with_one_worker_and_with_two(tmp_path):
    make_photographs(tmp_path / "data")
    for workers in (0, 1, 2):
        run(tmp_path, "cifar10_vit.py", "--quick", "--num-workers", workers, "--name", f"with_{workers}", "--epochs", 2,
            "--batch-size", 16, "--part-size", 6)  # fmt: skip
    alone, one, two = (history(tmp_path, f"with_{workers}") for workers in (0, 1, 2))
    assert alone == one and len(one) == len(two) == 2
    for first, second in zip(one, two):
        # The same numbers, added in another order.
        assert first["train_loss"] == pytest.approx(second["train_loss"], rel=1e-3)
        assert first["test_loss"] == pytest.approx(second["test_loss"], rel=1e-3)
        assert first["accuracy"] == pytest.approx(second["accuracy"], abs=2 / 40)
    assert one[1]["train_loss"] < one[0]["train_loss"]


def test_vit_learns_from_parquet_and_goes_on(tmp_path):
    make_photographs(tmp_path / "data")
    arguments = ["--quick", "--num-workers", 2, "--name", "parquet", "--batch-size", 16]
    shown = run(tmp_path, "train_ddp_with_data.py", *arguments, "--epochs", 1)
    assert "train: 48 photographs" in shown and "label   int64" in shown
    assert "(rank 0) Bottleneck: Map(preprocess)" in shown
    run(tmp_path, "train_ddp_with_data.py", *arguments, "--epochs", 2)
    first, second = history(tmp_path, "parquet")
    assert [first["epoch"], second["epoch"]] == [0, 1] and second["train_loss"] < first["train_loss"]


def test_ddp_by_hand_and_with_the_trainer_give_the_same_losses(tmp_path):
    by_hand = run(tmp_path, "vanilla_ddp.py", "--epochs", 3, launcher=PACELINE_RUN)
    run(tmp_path, "ddp_with_trainer.py", "--epochs", 3, "--name", "trained")
    losses = [f"{metrics['loss']:.4f}" for metrics in history(tmp_path, "trained")]
    assert re.findall(r"loss (\S+)", by_hand) == losses and len(losses) == 3


def test_vanilla_ddp_goes_on_from_its_snapshot_under_torchrun(tmp_path):
    whole = run(tmp_path, "vanilla_ddp.py", "--epochs", 4, launcher=TORCHRUN).splitlines()
    for epochs in (2, 4):
        parts = run(tmp_path, "vanilla_ddp.py", "--epochs", epochs, "--snapshot", "state.pt", launcher=TORCHRUN)
    assert whole[2:] == parts.splitlines() and len(whole) == 5


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_help_names_every_flag_and_a_wrong_one_ends_with_2(tmp_path, name):
    flags = re.findall(r'add_argument\(\s*"(--[\w-]+)"', (EXAMPLES / name).read_text())
    shown = run(tmp_path, name, "--help")
    assert [flag for flag in flags if flag not in shown] == []
    done = subprocess.run([sys.executable, EXAMPLES / name, "--no-such-flag"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "unrecognized arguments: --no-such-flag" in done.stderr
    assert not list(tmp_path.iterdir())

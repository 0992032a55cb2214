"""Runs the example programs as a newcomer does and looks at what they leave. The digits are fetched into data/."""

import json
import os
import pathlib
import subprocess

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(os.environ["PACELINE_EXAMPLES"])


def run(folder: pathlib.Path, program: str, *arguments: str) -> list[str]:
    """The lines that a program prints, run in a folder that has the digits."""
    (PROJECT / "data").mkdir(exist_ok=True)
    (folder / "data").symlink_to(PROJECT / "data")
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def summary_of(folder: pathlib.Path, *arguments: str) -> dict:
    """The quickstart's summary, its files looked at."""
    summary = json.loads(run(folder, "mnist_resnet18", "--json", *arguments)[-1])
    assert sorted(summary) == ["accuracy", "checkpoint", "picture", "state", "train_seconds", "workers"]
    assert summary["state"] == "finished"
    assert summary["workers"] == 2
    assert (folder / summary["checkpoint"] / "model.safetensors").is_file()
    assert (folder / summary["picture"]).read_bytes().startswith(b"\x89PNG")
    return summary


def test_quick_quickstart(tmp_path):
    summary_of(tmp_path, "--train-digits", "512", "--num-epochs", "1")


def test_quick_wrong_flag(tmp_path):
    done = subprocess.run([PROGRAMS / "mnist_resnet18", "--workers", "2"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "--workers" in done.stdout + done.stderr
    assert not list(tmp_path.iterdir()), "nothing is made before the flags are understood"


def test_real_quickstart(tmp_path):
    assert summary_of(tmp_path)["accuracy"] >= 0.95


def test_real_readme(tmp_path):
    run(tmp_path, "readme")
    checkpoints = sorted((tmp_path / "results" / "mnist-resnet18").glob("checkpoint_*"))
    assert len(checkpoints) == 2, "one after each epoch"

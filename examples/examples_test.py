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
    if not (folder / "data").exists():
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


def take_digits(folder: pathlib.Path, count: int) -> None:
    """Gives `folder` the first `count` training digits as if they were all. IDX: a magic number, the count, the rest."""
    (folder / "data").mkdir()
    for name, header, size in (("train-images-idx3-ubyte", 16, 28 * 28), ("train-labels-idx1-ubyte", 8, 1)):
        whole = (PROJECT / "data" / name).read_bytes()
        (folder / "data" / name).write_bytes(
            whole[:4] + count.to_bytes(4, "big") + whole[8 : header + count * size])


def test_real_readme(tmp_path):
    take_digits(tmp_path, 6_400)  # of the 60,000 that test_real_quickstart has fetched, which take eight minutes
    run(tmp_path, "readme")
    checkpoints = sorted((tmp_path / "results" / "mnist-resnet18").glob("checkpoint_*"))
    assert len(checkpoints) == 2, "one after each epoch"

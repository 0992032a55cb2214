"""Runs the example programs as a newcomer does and looks at what they leave. The digits are fetched into data/; of
photographs there are a few made-up ones, which are learned quickly."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
from small_data import make_photographs, take_digits

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(os.environ["PACELINE_EXAMPLES"])
# Threads that wait for each other by spinning take ten times as long on a machine that does other things too.
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}


def run(folder: pathlib.Path, program: str, *arguments: str) -> list[str]:
    """The lines that a program prints, run in a folder that has the digits."""
    (PROJECT / "data").mkdir(exist_ok=True)
    if not (folder / "data").exists():
        (folder / "data").symlink_to(PROJECT / "data")
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=folder, capture_output=True, text=True,
                          env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def summary_of(folder: pathlib.Path, *arguments: str) -> dict:
    """The quickstart's summary, its files looked at."""
    summary = json.loads(run(folder, "020_mnist_resnet18", "--json", *arguments)[-1])
    assert sorted(summary) == ["accuracy", "checkpoint", "picture", "state", "train_seconds", "workers"]
    assert summary["state"] == "finished"
    assert summary["workers"] == 2
    assert (folder / summary["checkpoint"] / "model.safetensors").is_file()
    assert (folder / summary["picture"]).read_bytes().startswith(b"\x89PNG")
    return summary


def test_quick_quickstart(tmp_path):
    summary_of(tmp_path, "--train-digits", "512", "--num-epochs", "1")


@pytest.mark.parametrize("program", sorted(path.name for path in PROGRAMS.glob("0*_*") if os.access(path, os.X_OK)))
def test_quick_help(tmp_path, program):
    done = subprocess.run([PROGRAMS / program, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr
    assert "Usage:" in done.stdout and "--help TEXT" not in done.stdout
    assert not re.search(r"INT|TEXT:|\[", done.stdout.replace("[OPTIONS]", "")), "types of C++"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("program", "arguments", "named"), [
    ("010_first_program", ["--epochs", "2"], "--epochs"),
    ("020_mnist_resnet18", ["--workers", "2"], "--workers"),
    ("020_mnist_resnet18", ["--num-epoch=2"], "Did you mean --num-epochs?"),
    ("030_cifar10_vit", ["--epochs", "0"], "--epochs"),
    ("030_cifar10_vit", ["--num-workers", "3"], "512 photographs"),
    ("040_resume_after_failure", ["--num-workers", "3"], "--num-workers"),
    ("050_existing_torchrun_program", ["--steps", "many"], "--steps"),
    ("060_vision_transformer_datasets", ["--num-workers", "3"], "128 photographs"),
])
def test_quick_wrong_flag(tmp_path, program, arguments, named):
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert named in done.stdout + done.stderr
    assert not list(tmp_path.iterdir()), "nothing is made before the flags are understood"


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_quick_stopped_by_a_signal(tmp_path, asked):
    """The exit code is what a shell would say of the signal."""
    program = subprocess.Popen([PROGRAMS / "040_resume_after_failure", "--num-epochs", "1000"], cwd=tmp_path, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert any("metrics:" in line for line in program.stderr), "it trains"
    program.send_signal(asked)
    program.stderr.read()
    assert program.wait() == 128 + asked


def history(folder: pathlib.Path, name: str) -> list[dict]:
    """What rank 0 reported in a run, reduced over the ranks where it asked for that."""
    lines = (folder / "results" / name / "metrics.jsonl").read_text().splitlines()
    reports = [json.loads(line) for line in lines]
    shown = [report for report in reports if report["rank"] == 0 and not report.get("later") or "reduced" in report]
    return [report.get("reduced") or report["metrics"] for report in shown]


def test_quick_vit_learns_the_same_with_one_worker_and_two(tmp_path):
    make_photographs(tmp_path / "data")
    for workers in ("1", "2"):
        run(tmp_path, "030_cifar10_vit", "--num-workers", workers, "--name", f"with_{workers}", "--epochs", "2",
            "--batch-size", "16", "--part-size", "6")
    one, two = history(tmp_path, "with_1"), history(tmp_path, "with_2")
    assert len(one) == len(two) == 2
    for alone, shared in zip(one, two):
        # The same numbers, added in another order: 1e-6 at first, more with every step.
        assert alone["train_loss"] == pytest.approx(shared["train_loss"], rel=1e-3)
        assert alone["test_loss"] == pytest.approx(shared["test_loss"], rel=1e-3)
        assert alone["accuracy"] == pytest.approx(shared["accuracy"], abs=2 / 40)
    assert one[1]["train_loss"] < one[0]["train_loss"]


def test_quick_resume_after_failure(tmp_path):
    lines = run(tmp_path, "040_resume_after_failure")
    start = next(number for number, line in enumerate(lines) if "with 1 failure" in line)
    curve = [line.split() for line in lines[start + 1:]]
    assert [row[0] for row in curve] == ["10", "20", "30", "40", "50", "60", "70", "80"]
    for step, undisturbed, killed in curve:
        assert undisturbed == killed, f"step {step}"
    assert float(curve[-1][1]) < 0.5 * float(curve[0][1])


# `ssh -T -o BatchMode=yes -- HOST COMMAND`: hosts are this machine, where nobody is logged in.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
cd / && exec env -i HOME="$HOME" PATH="$PATH" sh -c "$3"
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH)
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{tmp_path}/bin:{PROGRAMS.parent}/paceline/cli:{os.environ['PATH']}")
    monkeypatch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path / "cache"))  # the driver's
    monkeypatch.setitem(ENVIRONMENT, "HOME", str(tmp_path))


def test_quick_vit_learns_the_same_on_two_hosts(tmp_path, ssh):
    """The program is sent to them. The same numbers, bit by bit: who adds what does not depend on where it is."""
    make_photographs(tmp_path / "data")
    arguments = ["--num-workers", "2", "--epochs", "1", "--batch-size", "16", "--part-size", "6", "--name"]
    run(tmp_path, "030_cifar10_vit", *arguments, "here")
    on_hosts = ["run", "--hosts", "localhost,127.0.0.1", "--ship", "--", PROGRAMS / "030_cifar10_vit"]
    run(tmp_path, "../paceline/cli/paceline", *on_hosts, *arguments, "there")
    here, there = history(tmp_path, "here"), history(tmp_path, "there")
    learned = ("train_loss", "test_loss", "accuracy")
    assert [[one[name] for name in learned] for one in there] == [[one[name] for name in learned] for one in here]
    assert list((tmp_path / ".cache/paceline/packages").iterdir()), "the program went there"


VENV = PROJECT / ".venv/bin"
TORCHRUN = [VENV / "torchrun", "--standalone", "--local-addr", "127.0.0.1"]
PACELINE_RUN = [PROGRAMS.parent / "paceline/cli/paceline", "run", "--storage-path", "results", "--standalone"]


@pytest.mark.parametrize("launcher", [TORCHRUN, PACELINE_RUN], ids=["torchrun", "paceline"])
@pytest.mark.parametrize("program", [["--no-python", PROGRAMS / "050_existing_torchrun_program"],
                                     [PROJECT / "examples/050_existing_torchrun_program.py"]], ids=["cpp", "python"])
def test_quick_existing_torchrun_program(tmp_path, launcher, program):
    environment = {**ENVIRONMENT, "PATH": f"{VENV}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*launcher, "--nproc-per-node", "2", *program, "--steps", "100"], cwd=tmp_path, text=True,
                          capture_output=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    # Under torchrun the ranks share one pipe: their lines may meet on one.
    found = dict(re.findall(r"rank (\d) of 2: loss \S+ weights ([-.e\d ]+)", done.stdout + done.stderr))
    assert sorted(found) == ["0", "1"]
    assert found["0"] == found["1"], "gradients were averaged"
    assert [float(weight) for weight in found["0"].split()] == pytest.approx([1, -2, 3, -4], abs=0.05)


@pytest.mark.parametrize("program", [["--no-python", PROGRAMS / "050_existing_torchrun_program"],
                                     [PROJECT / "examples/050_existing_torchrun_program.py"]], ids=["cpp", "python"])
def test_quick_existing_torchrun_program_on_two_nodes(tmp_path, program):
    nodes = []
    for rank in (1, 0):  # in any order
        environment = {**ENVIRONMENT, "PATH": f"{VENV}:{os.environ['PATH']}", "HOME": str(tmp_path),
                       "PACELINE_STATE_DIR": str(tmp_path / f"state_{rank}")}
        command = [*PACELINE_RUN[:-1], "--nnodes", "2", "--node-rank", rank, "--master-port", "0", "--nproc-per-node", "1",
                   *program, "--steps", "100"]
        nodes.append(subprocess.Popen([*map(str, command)], cwd=tmp_path, text=True, env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    said = [node.communicate()[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    found = dict(re.findall(r"rank (\d) of 2: loss \S+ weights ([-.e\d ]+)", said[1]))
    assert sorted(found) == ["0", "1"], "the first node shows what all ranks write"
    assert found["0"] == found["1"], "gradients were averaged"


def test_real_quickstart(tmp_path):
    assert summary_of(tmp_path)["accuracy"] >= 0.95


def test_real_first_program(tmp_path):
    # Of the 60,000 that test_real_quickstart has fetched, which take eight minutes.
    take_digits(PROJECT / "data", tmp_path / "data", train=6_400)
    run(tmp_path, "010_first_program")
    checkpoints = sorted((tmp_path / "results" / "mnist-resnet18").glob("checkpoint_*"))
    assert len(checkpoints) == 2, "one after each epoch"


def test_quick_datasets(tmp_path):
    make_photographs(tmp_path / "data")
    lines = run(tmp_path, "060_vision_transformer_datasets", "--num-workers", "2", "--batch-size", "16", "--classes", "4")
    text = "\n".join(lines)
    assert "48 photographs" in text and "label: int64" in text
    assert "MapBatches(normalize)" in text and "Filter((label < 4))" in text
    assert re.search(r"named [\d.]+ % of 16 unseen photographs rightly", text), text
    assert (tmp_path / "data/cifar-10-parquet/train").is_dir()

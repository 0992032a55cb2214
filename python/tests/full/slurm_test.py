"""Runs inside jobs of a real Slurm, of three nodes on this machine."""

import json
import pathlib
import re
import sys

import pytest

import paceline
from example_programs import real_digits
from slurm_cluster import Slurm, is_there

pytestmark = pytest.mark.skipif(
    not is_there(), reason="needs root and Slurm's programs: apt-get install slurmctld slurmd slurm-client"
)

TRAIN = """
import os, sys, time, torch
import paceline.train as train
from paceline.train.torch import TorchTrainer

def loop(config):
    model = train.torch.prepare_model(torch.nn.Linear(4, 2))
    context = train.get_context()
    start = 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as path:
            start = torch.load(path + "/step.pt") + 1
    for step in range(start, config["steps"]):
        model(torch.ones(3, 4)).sum().backward()
        checkpoint = None
        if context.get_world_rank() == 0:
            os.makedirs("state", exist_ok=True)
            torch.save(step, "state/step.pt")
            checkpoint = train.Checkpoint("state")
        train.report({"step": step, "start": start, "world": context.get_world_size()}, checkpoint=checkpoint)
        node = os.environ["SLURMD_NODENAME"]
        print("trains on", node, "attempt", context.get_attempt(), "step", step, flush=True)
        if config["waits"] and step == 3 and start == 0:
            while not os.path.exists("go"):
                time.sleep(0.05)

result = TorchTrainer(
    loop,
    train_loop_config={"steps": int(sys.argv[1]), "waits": len(sys.argv) > 2},
    scaling_config=train.ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
    run_config=train.RunConfig(name="job", storage_path=os.getcwd() + "/results",
                               failure_config=train.FailureConfig(max_failures=3, node_timeout_s=3)),
).fit()
print("RESULT", result.state, result.metrics["step"], result.metrics["start"], flush=True)
sys.exit(result.exit_code)
"""


EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
PACKAGE = pathlib.Path(paceline.__file__).parent


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with Slurm(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def job_folder(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def script(folder, *commands):
    path = folder / "job.sh"
    path.write_text("\n".join(["#!/bin/sh", f"cd {folder}", *commands]) + "\n")
    return path


def result_of(text):
    """(state, step, start) of the last one that was printed."""
    state, step, start = re.findall(r"RESULT (\w+) (\d+) (\d+)", text)[-1]
    return state, int(step), int(start)


def test_a_job_trains_on_its_nodes(slurm, job_folder):
    output = job_folder / "output"
    job = slurm.submit(script(job_folder, f"exec {sys.executable} train.py 3"), "-N2", "-c2", f"--output={output}")
    assert slurm.wait_for_end(job) == "COMPLETED", output.read_text()
    assert result_of(output.read_text()) == ("finished", 2, 0)
    assert len(set(re.findall(r"trains on (n\d)", output.read_text()))) == 2


def test_a_killed_node_costs_an_attempt(slurm, job_folder):
    output = job_folder / "output"
    lines = script(job_folder, f"exec {sys.executable} train.py 6 waits")
    job = slurm.submit(lines, "-N3", "-c2", "--no-kill", f"--output={output}")
    slurm.wait_for(lambda: output.exists() and output.read_text().count("step 3") == 2)
    on = set(re.findall(r"trains on (n\d)", output.read_text()))
    batch_node = slurm.run("scontrol", "show", "job", "--oneliner", job).partition("BatchHost=")[2].split()[0]
    killed = (on - {batch_node}).pop()
    slurm.kill_node(killed)
    try:
        assert slurm.wait_for_end(job) == "COMPLETED", output.read_text()
        state, step, start = result_of(output.read_text())
        assert (state, step) == ("finished", 5) and start > 0, "it went on from a checkpoint"
        assert killed in re.findall(r"node (n\d)\b.* lost", output.read_text()), output.read_text()
    finally:
        slurm.start_node(killed)
        slurm.wait_for(lambda: "down" not in slurm.run("sinfo", "--noheader", "--format=%t"))


def test_a_signal_before_the_time_limit_stops_in_order_and_the_job_is_requeued(slurm, job_folder):
    output = job_folder / "output"
    options = ("-c2", f"--chdir={job_folder}", f"--output={output}")
    job = slurm.submit(EXAMPLES / "slurm_job.sh", *options, arguments=[sys.executable, "train.py", 6, "waits"])
    slurm.wait_for(lambda: output.exists() and output.read_text().count("step 3") == 2)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    slurm.wait_for(lambda: output.read_text().count("RESULT") == 1)
    assert result_of(output.read_text())[0] == "aborted"
    slurm.wait_for(lambda: slurm.state(job) == "PENDING")
    slurm.run("scontrol", "update", f"job={job}", "StartTime=now+3")  # not at once: its credential is revoked
    assert slurm.wait_for_end(job) == "COMPLETED", output.read_text()
    assert result_of(output.read_text())[:2] == ("finished", 5) and result_of(output.read_text())[2] > 0


def test_a_program_in_cpp_trains_on_the_nodes_of_a_job(slurm, tmp_path, monkeypatch):
    """Nothing in its code says so."""
    program = PACKAGE.parents[1] / "examples/020_mnist_resnet18"
    if not program.exists():
        pytest.skip("the examples are not built beside this package")
    monkeypatch.setitem(slurm.environment, "PATH", f"{PACKAGE}/bin:{slurm.environment['PATH']}")
    monkeypatch.setitem(slurm.environment, "OMP_WAIT_POLICY", "passive")
    (tmp_path / "data").symlink_to(real_digits())
    output = tmp_path / "output"
    arguments = [program, "--train-digits", 512, "--num-epochs", 1, "--json"]
    options = ("-N2", "-c2", f"--chdir={tmp_path}", f"--output={output}")
    job = slurm.submit(EXAMPLES / "slurm_job.sh", *options, arguments=arguments)
    assert slurm.wait_for_end(job) == "COMPLETED", output.read_text()
    summary = json.loads(output.read_text().splitlines()[-1])
    assert (summary["state"], summary["workers"]) == ("finished", 2)
    journals = list((tmp_path / "results").glob("*/journal.jsonl"))
    assert len(set(re.findall(r'"n[1-3]"', journals[0].read_text()))) == 2


def test_tasks_of_a_job_array_are_runs_of_their_own(slurm, job_folder):
    lines = script(job_folder, "mkdir $SLURM_ARRAY_TASK_ID; cd $SLURM_ARRAY_TASK_ID", f"exec {sys.executable} ../train.py 2")
    lines.write_text(lines.read_text().replace("cd $SLURM", "ln -s ../results $SLURM_ARRAY_TASK_ID/results; cd $SLURM"))
    (job_folder / "results").mkdir()
    job = slurm.submit(lines, "-N2", "-c1", "--array=1-2", f"--output={job_folder}/output_%a")
    for task in ("1", "2"):
        assert slurm.wait_for_end(f"{job}_{task}") == "COMPLETED", (job_folder / f"output_{task}").read_text()
    assert {path.name for path in (job_folder / "results").iterdir()} == {"job_1", "job_2"}

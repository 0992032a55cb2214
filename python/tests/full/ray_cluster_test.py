"""Runs on a real Ray cluster: several raylets on this machine (ray.cluster_utils)."""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest.mock

import pytest
from ray_cluster import (
    HAS_RAY,
    MARK,
    PROJECT,
    agents_of_runs,
    ends,
    folder_of_ray,
    leaves_no_worker,  # noqa: F401  a fixture
    mark,  # noqa: F401  a fixture
    needs_ray,
    of_runs,
    ray_command,
    run_where_ray_is,
    wait_for,
    wanted,
)

pytestmark = wanted

if not HAS_RAY:

    def test_on_a_cluster():
        run_where_ray_is(__file__)

else:
    import torch

    import paceline
    import paceline.train as train
    import ray
    from paceline._ray import agent, agent_actor
    from paceline.train import FailureConfig, ScalingConfig
    from paceline.train.torch import TorchTrainer


def trains(config):
    """A few steps of a linear model, from the last checkpoint if there is one."""
    torch.manual_seed(0)
    model = train.torch.prepare_model(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    context = train.get_context()
    rank, start = context.get_world_rank(), 0
    generator = torch.Generator().manual_seed(rank)
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.module.load_state_dict(state["model"])
        start = state["step"]
    for step in range(config["steps"]):
        batch = torch.randn(16, 8, generator=generator)
        if step < start:
            continue
        if (attempt := context.get_attempt()) == 1 and step > config.get("waits_behind", config["steps"]):
            wait_for(pathlib.Path(config["goes_on"]).exists)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "step": step + 1}, os.path.join(folder, "state.pt"))
                checkpoint = train.Checkpoint(folder)
            weights = torch.cat([part.detach().flatten() for part in model.parameters()]).tolist()
            report = {"step": step, "attempt": attempt, "weights": weights, "node_rank": context.get_node_rank()}
            train.report({**report, "directory": os.getcwd(), "mark": os.environ.get(MARK)}, checkpoint=checkpoint)
    return context.get_world_size()


@pytest.fixture(scope="module")
def whole(mark, tmp_path_factory):
    """The weights that three workers of one machine come to in five steps, before there is a cluster."""
    trainer = TorchTrainer(
        trains,
        train_loop_config={"steps": 5},
        scaling_config=ScalingConfig(num_workers=3, engine="local"),
        run_config=train.RunConfig(storage_path=str(tmp_path_factory.mktemp("whole")), quiet=True),
    )
    return trainer.fit().metrics["weights"]


@pytest.fixture(scope="module")
def cluster(mark, whole):
    """A head without CPUs, which the driver is on, and three nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    with folder_of_ray() as folder:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder, "include_dashboard": False})
        for _ in range(3):
            cluster.add_node(num_cpus=1)
        yield cluster
        paceline.shutdown()
        ends(lambda: agents_of_runs(mark), 30)
        cluster.shutdown()


@pytest.fixture
def connected(cluster):
    paceline.init(address=cluster.address, ignore_reinit_error=True)
    yield cluster
    while len(cluster.worker_nodes) < 3:
        cluster.add_node(num_cpus=1)


def spread(workers=3, **settings):
    return ScalingConfig(num_workers=workers, placement_strategy="SPREAD", **settings)


def fit(run_config, scaling, config, **settings):
    settings.setdefault("failure_config", FailureConfig(start_timeout_s=240))
    return TorchTrainer(trains, train_loop_config=config, scaling_config=scaling, run_config=run_config(**settings)).fit()


ADDS = concurrent.futures.ThreadPoolExecutor(1)


def add_node(cluster):
    """From any thread, on one that stays: a node's processes end with the thread that has started them. Where Ray makes a node
    it wants to handle signals, which only the main thread can.
    """

    def add():
        with unittest.mock.patch("ray._private.utils.set_sigterm_handler"):
            cluster.add_node(num_cpus=1)

    ADDS.submit(add).result()


def killed(cluster, node):
    """The raylet alone, as when it crashes; the other processes of its node follow."""
    for raylet in node.all_processes["raylet"]:
        raylet.process.kill()
    cluster.worker_nodes.remove(node)
    ends(lambda: [one for one in agents_of_runs(os.environ[MARK]) if f"-{node.node_id[:6]} " in one], 20)


class AtStep(train.UserCallback if HAS_RAY else object):
    """Calls a function on a thread of its own when the first attempt has made a step."""

    def __init__(self, step, function):
        self._step, self._function, self.thread = step, function, None

    def after_report(self, run_context, metrics, checkpoint):
        if metrics[0]["step"] == self._step and metrics[0]["attempt"] == 1 and self.thread is None:
            self.thread = threading.Thread(target=self._function)
            self.thread.start()


@needs_ray
def test_three_nodes_train_what_one_machine_does(connected, run_config, mark, whole):
    assert ScalingConfig().engine == "ray"
    there = fit(run_config, spread(), {"steps": 5})
    assert there.metrics["weights"] == whole, "bit for bit"
    assert there.return_value == 3 and there.metrics["mark"] == mark
    assert there.metrics["directory"] == os.getcwd(), "no runtime_env names another"
    assert there.checkpoint is not None
    wait_for(lambda: ray.available_resources().get("CPU") == 3, 30)


@needs_ray
def test_ranks_of_a_node_are_neighbours(cluster, run_config):
    node = cluster.add_node(num_cpus=2)
    try:
        paceline.init(address=cluster.address, ignore_reinit_error=True)
        result = fit(run_config, ScalingConfig(num_workers=2, placement_strategy="STRICT_PACK"), {"steps": 1})
        assert result.metrics["node_rank"] == 0 and result.return_value == 2
        lines = (pathlib.Path(result.path) / "metrics.jsonl").read_text()
        assert '"node_rank":1' not in lines.replace(" ", "")
    finally:
        cluster.remove_node(node)


@needs_ray
def test_a_raylet_that_is_killed_costs_an_attempt(connected, run_config, tmp_path, whole):
    goes_on = tmp_path / "goes_on"

    def kill_and_replace():
        killed(connected, next(iter(connected.worker_nodes)))
        add_node(connected)
        goes_on.touch()

    killer = AtStep(1, kill_and_replace)
    result = fit(
        run_config,
        spread(),
        {"steps": 5, "waits_behind": 2, "goes_on": str(goes_on)},
        callbacks=[killer],
        failure_config=FailureConfig(max_failures=5, node_timeout_s=3, start_timeout_s=240),
    )
    killer.thread.join()
    assert result.metrics["attempt"] >= 2 and result.metrics["step"] == 4
    assert result.metrics["weights"] == whole, "it goes on as if nothing had been"


@needs_ray
def test_the_loss_of_a_node_that_ray_has_announced_is_no_failure(connected, run_config, tmp_path, capfd):
    goes_on = tmp_path / "goes_on"
    node = next(iter(connected.worker_nodes))

    def drain_and_kill():
        command = ray_command("drain-node", "--address", connected.address)
        command += ["--node-id", node.node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
        subprocess.run([*command, "--deadline-remaining-seconds", "600"], check=True)
        wait_for(lambda: "preempting" in (tmp_path / "results/drained/journal.jsonl").read_text())
        killed(connected, node)
        add_node(connected)
        goes_on.touch()

    result = fit(
        run_config,
        spread(),
        {"steps": 4, "waits_behind": 2, "goes_on": str(goes_on)},
        name="drained",
        callbacks=[AtStep(1, drain_and_kill)],
        failure_config=FailureConfig(max_failures=0, node_timeout_s=3, start_timeout_s=240),
    )
    assert result.metrics["attempt"] == 2 and result.metrics["step"] == 3
    assert "Ray takes it away in" in capfd.readouterr().err


@needs_ray
def test_what_never_fits_is_said_with_the_table(connected, run_config):
    failure = FailureConfig(start_timeout_s=2)
    with pytest.raises(train.ControllerError, match=r"Ray did not give 9 × \{CPU: 1\} \(SPREAD\) within 2 s.* has 1 of 1 CPU"):
        fit(run_config, spread(9), {"steps": 1}, failure_config=failure)


@needs_ray
def test_other_versions_on_a_node_are_refused_before_training(connected, run_config, monkeypatch, tmp_path):
    monkeypatch.setattr(agent, "versions", lambda: {**agent_actor.versions(), "torch": "9.9.9"})
    with pytest.raises(train.ControllerError, match=r"node \S+ cannot be used: .*torch 2\.\S+ there, 9.9.9 here"):
        fit(run_config, spread(), {"steps": 1})
    assert not list(tmp_path.glob("results/*/journal*")), "no run has begun"


@needs_ray
def test_where_no_cluster_is_the_address_is_named(cluster):
    paceline.shutdown()
    with pytest.raises(ConnectionError, match="no Ray cluster answers at '127.0.0.1:1'"):
        paceline.init(address="127.0.0.1:1")


def driver(cluster, tmp_path, name, *arguments, **settings):
    """A driver of its own; its program is among the examples."""
    command = [sys.executable, PROJECT / "examples/python/ray_job.py", "--storage-path", tmp_path / "results", "--name", name]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, **settings}
    command += map(str, arguments)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@needs_ray
def test_the_next_run_finds_the_agents_of_the_last(connected, run_config, mark):
    fit(run_config, spread(), {"steps": 1})
    kept = agents_of_runs(mark)
    began = time.monotonic()
    fit(run_config, spread(), {"steps": 1})
    print(f"a second fit() took {time.monotonic() - began:.2f} s")
    assert kept and agents_of_runs(mark) == kept
    paceline.shutdown()
    ends(lambda: agents_of_runs(mark), 30)


@needs_ray
def test_two_runs_at_once_have_nodes_of_their_own(cluster, tmp_path):
    paceline.shutdown()
    both = [driver(cluster, tmp_path, name, "--num-workers", 1) for name in ("first", "second")]
    for process in both:
        shown, _ = process.communicate(timeout=240)
        assert process.returncode == 0 and "y = 3.00 x + -1.00" in shown, shown


@needs_ray
def test_a_driver_that_is_killed_leaves_nothing_on_any_node(cluster, tmp_path, mark):
    paceline.shutdown()
    before = set(of_runs(mark))  # of this process, for the runs of other tests
    process = driver(cluster, tmp_path, "killed", "--num-workers", 2, "--epochs", 1_000_000)
    with process:
        wait_for((tmp_path / "results/killed/checkpoint_000001").exists, 120)
        assert agents_of_runs(mark)
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
    ends(lambda: [one for one in of_runs(mark) if one not in before], 60)


@needs_ray
def test_modules_of_the_working_directory_come_from_ray(cluster, tmp_path):
    paceline.shutdown()
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "travels.py").write_text("WHERE = __file__\n")
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, sys
import paceline, paceline.train
from paceline.train import RunConfig, ScalingConfig
from paceline.train.torch import TorchTrainer

def train_loop():
    import travels
    return [travels.WHERE, os.getcwd(), os.environ["COLOUR"]]

environment = {{"working_dir": {str(folder)!r}, "env_vars": {{"COLOUR": "red"}}}}
with paceline.init(runtime_env=environment):
    result = TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
        run_config=RunConfig(storage_path={str(tmp_path / "results")!r}, quiet=True),
    ).fit()
print("RETURNED", *result.return_value)
""")
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run([sys.executable, program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    where, directory, colour = next(line for line in done.stdout.splitlines() if line.startswith("RETURNED")).split()[1:]
    assert colour == "red" and where == os.path.join(directory, "travels.py") and not where.startswith(str(folder))


LOSS = re.compile(r"\{'loss': ([\d.e-]+)")


@needs_ray
def test_rays_own_example_comes_to_the_same_as_under_ray_train(cluster, tmp_path):
    paceline.shutdown()
    original = pathlib.Path(ray.__file__).parent / "train/examples/pytorch/torch_linear_example.py"
    ported = tmp_path / "ported.py"
    ported.write_text(re.sub(r"\bray\b", "paceline", original.read_text()))
    losses = {}
    for program in (ported, original):
        command = [sys.executable, program, "--address", cluster.address, "--num-workers", "3", "--epochs", "4"]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        losses[program] = float(LOSS.findall(done.stdout)[-1])
    assert all(loss < 5 for loss in losses.values()), "it begins with some 250"
    assert len(list(tmp_path.glob("paceline_results/*/checkpoint_*"))) >= 1

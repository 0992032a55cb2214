"""Runs on several nodes: `paceline agent` processes of this machine, which the driver takes for other machines."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist

import paceline
import paceline.train as train
from paceline.train import FailureConfig, ScalingConfig
from paceline.train.torch import TorchTrainer

PROGRAM = pathlib.Path(paceline.__file__).parent / "bin/paceline"


@contextlib.contextmanager
def started_agents(folder, *names, keep=False, flags=()):
    """The agents' processes by name; all of them have ended behind it."""
    agents = {}
    try:
        for name in names:
            log = open(folder / f"agent_{name}.log", "w")
            command = [PROGRAM, "agent", "--token-file", folder / "token", "--name", name, *flags]
            command += ["--keep"] * keep
            agents[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        yield agents
    finally:
        for process in agents.values():
            process.terminate()
            process.wait(60)


def on_agents(folder, nodes=2, **settings):
    return ScalingConfig(**{
        "num_workers": 2,
        "engine": "agents",
        "nodes": nodes,
        "listen": "127.0.0.1:0",
        "token_file": str(folder / "token"),
        "placement_strategy": "SPREAD",
        **settings,
    })  # fmt: skip


def trains(config):
    torch.manual_seed(0)
    model = train.torch.prepare_model(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank = train.get_context().get_world_rank()
    generator = torch.Generator().manual_seed(rank)
    start = 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as path:
            state = torch.load(os.path.join(path, "state.pt"))
        model.module.load_state_dict(state["model"])
        start = state["step"]
    for step in range(config["steps"]):
        batch = torch.randn(16, 8, generator=generator)
        if step < start:
            continue
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        checkpoint = None
        if rank == 0 and config.get("folder"):
            torch.save({"model": model.module.state_dict(), "step": step + 1}, config["folder"] + "/state.pt")
            checkpoint = train.Checkpoint(config["folder"])
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        context = train.get_context()
        train.report(
            {
                "weights": weights.tolist(),
                "node_rank": context.get_node_rank(),
                "local_rank": context.get_local_rank(),
                "step": step,
                "attempt": context.get_attempt(),
                "interface": os.environ["GLOO_SOCKET_IFNAME"],
            },
            checkpoint=checkpoint,
        )
        if config.get("waits_to_be_lost") and step == 3 and context.get_attempt() == 1:
            threading.Event().wait()
    return {"node_rank": train.get_context().get_node_rank(), "world": dist.get_world_size()}


def test_two_nodes_compute_what_one_does(tmp_path, run_config):
    here = TorchTrainer(
        trains, train_loop_config={"steps": 5}, scaling_config=ScalingConfig(num_workers=2), run_config=run_config()
    ).fit()
    with started_agents(tmp_path, "one", "two"):
        there = TorchTrainer(
            trains, train_loop_config={"steps": 5}, scaling_config=on_agents(tmp_path), run_config=run_config()
        ).fit()
    assert there.metrics["weights"] == here.metrics["weights"], "bit for bit"
    assert there.return_value == {"node_rank": 0, "world": 2}
    logs = {name: (tmp_path / f"agent_{name}.log").read_text() for name in ("one", "two")}
    for name, text in logs.items():
        assert f"node {name} at 127.0.0.1 has joined a run" in text and "the run is over" in text
    assert not (tmp_path / "token").exists(), "the secret goes with the run"


def test_agents_that_stay_serve_one_run_after_the_other(tmp_path, run_config):
    with started_agents(tmp_path, "one", "two", keep=True) as agents:
        for _ in range(2):
            result = TorchTrainer(
                trains, train_loop_config={"steps": 1}, scaling_config=on_agents(tmp_path), run_config=run_config()
            ).fit()
            assert result.return_value["world"] == 2
        assert all(process.poll() is None for process in agents.values())


class KeepsToken(train.UserCallback):
    """Copies the run's token file, as if the driver had been killed and had left it."""

    def __init__(self, folder):
        self.folder = folder

    def after_start(self, run_context):
        shutil.copy2(self.folder / "token", self.folder / "kept")


def test_agents_do_not_wait_for_a_driver_whose_file_is_replaced(tmp_path, run_config):
    with started_agents(tmp_path, "one", "two"):
        TorchTrainer(
            trains,
            train_loop_config={"steps": 1},
            scaling_config=on_agents(tmp_path),
            run_config=run_config(callbacks=[KeepsToken(tmp_path)]),
        ).fit()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        token = json.loads((tmp_path / "kept").read_text())
        token["addresses"] = ["127.0.0.1:%d" % silent.getsockname()[1]]
        (tmp_path / "kept").write_text(json.dumps(token))
        (tmp_path / "kept").rename(tmp_path / "token")
        with started_agents(tmp_path, "three", "four"):
            for _ in range(2):
                silent.accept()[0].close()
            result = TorchTrainer(
                trains,
                train_loop_config={"steps": 1},
                scaling_config=on_agents(tmp_path),
                run_config=run_config(failure_config=FailureConfig(start_timeout_s=20)),
            ).fit()
    assert result.return_value["world"] == 2


def test_a_node_with_another_version_than_the_driver_is_refused(tmp_path, run_config, monkeypatch):
    monkeypatch.setattr("paceline._versions.__version__", "0.0.1")
    with started_agents(tmp_path, "one"), pytest.raises(train.TrainingFailedError) as refused:
        TorchTrainer(
            lambda: None, scaling_config=on_agents(tmp_path, nodes=1, num_workers=1), run_config=run_config()
        ).fit()
    assert "Paceline is 0.0.1 on the driver's machine, but" in str(refused.value) and "on node one" in str(refused.value)


def tells_its_code():
    import shapes  # of working_dir
    import travelling  # of py_modules

    pathlib.Path("written_by_a_worker").write_text("")
    files = sorted(set(os.listdir()) - {"__pycache__"})
    return os.getcwd(), shapes.AREA, travelling.PLACE, os.path.dirname(travelling.__file__), files


def test_code_travels_to_nodes(tmp_path, run_config, monkeypatch):
    """Workers elsewhere have copies, which go with the run; those of the driver's machine have the driver's own."""
    code, modules = tmp_path / "code", tmp_path / "modules"
    (code / "notes").mkdir(parents=True)
    (code / "shapes.py").write_text("AREA = 6")
    (code / "notes/large.bin").write_bytes(bytes(1000))
    (modules / "travelling").mkdir(parents=True)
    (modules / "travelling/__init__.py").write_text("PLACE = 'there'")
    environment = {
        "working_dir": str(code),
        "py_modules": [str(modules / "travelling")],
        "excludes": ["*.bin"],
    }
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = run_config(worker_runtime_env=environment)
    with started_agents(tmp_path, "one", "two"):
        result = TorchTrainer(tells_its_code, scaling_config=on_agents(tmp_path), run_config=settings).fit()
    directory, area, place, package, files = result.return_value
    assert (area, place) == (6, "there")
    assert directory != str(code) and package != str(modules / "travelling")
    assert files == ["shapes.py", "written_by_a_worker"]
    assert not os.path.exists(directory) and not os.path.exists(package)
    assert list((tmp_path / "cache/paceline/packages").iterdir())
    local = TorchTrainer(tells_its_code, run_config=run_config(worker_runtime_env=environment)).fit().return_value
    assert local == (str(code), 6, "there", str(modules / "travelling"), ["notes", "shapes.py", "written_by_a_worker"])


def test_code_that_cannot_travel_is_refused(tmp_path):
    for environment, named in (
        ({"working_dir": "s3://bucket/code.zip"}, "working_dir"),
        ({"working_dir": str(tmp_path / "absent")}, "absent"),
        ({"py_modules": [str(tmp_path / "one.whl")]}, "py_modules'][0]"),
        ({"py_modules": [sys]}, "a module with a file"),
        ({"conda": "x"}, "'conda'"),
    ):
        with pytest.raises((ValueError, TypeError)) as refused:
            train.RunConfig(worker_runtime_env=environment)
        assert named in str(refused.value)


class EndsAgent(train.UserCallback):
    """Kills an agent at the second report of the first attempt."""

    def __init__(self, process):
        self.process = process

    def after_report(self, run_context, metrics, checkpoint):
        if metrics[0]["step"] == 2 and metrics[0]["attempt"] == 1:
            self.process.kill()


def test_the_loss_of_a_node_costs_an_attempt(tmp_path, run_config):
    (tmp_path / "state").mkdir()
    config = {"steps": 6, "folder": str(tmp_path / "state"), "waits_to_be_lost": True}
    whole = TorchTrainer(
        trains, train_loop_config={"steps": 6}, scaling_config=ScalingConfig(num_workers=2), run_config=run_config()
    ).fit()
    with started_agents(tmp_path, "one", "two") as agents:
        result = TorchTrainer(
            trains,
            train_loop_config=config,
            scaling_config=on_agents(tmp_path),
            run_config=run_config(
                failure_config=FailureConfig(max_failures=5, node_timeout_s=2), callbacks=[EndsAgent(agents["two"])]
            ),
        ).fit()
    assert result.metrics["attempt"] >= 2 and result.metrics["step"] == 5
    assert result.metrics["weights"] == whole.metrics["weights"], "it goes on as if nothing had been"


def test_a_run_that_ends_with_a_node_names_it_at_once(tmp_path, run_config):
    (tmp_path / "state").mkdir()
    with started_agents(tmp_path, "one", "two") as agents:
        with pytest.raises(train.TrainingFailedError, match="ode two is lost"):
            TorchTrainer(
                trains,
                train_loop_config={"steps": 500, "folder": str(tmp_path / "state")},
                scaling_config=on_agents(tmp_path),
                run_config=run_config(callbacks=[EndsAgent(agents["two"])]),  # that it is lost is certain 8 s later
            ).fit()


def test_a_node_offers_what_it_is_told_to(tmp_path, run_config):
    with started_agents(tmp_path, "one", "two", flags=["--cpus", "1", "--gpus", "0"]):
        scaling = on_agents(tmp_path, placement_strategy="PACK")
        result = TorchTrainer(trains, train_loop_config={"steps": 1}, scaling_config=scaling, run_config=run_config()).fit()
    history = (pathlib.Path(result.path) / "metrics.jsonl").read_text().replace(" ", "")
    assert '"node_rank":0' in history and '"node_rank":1' in history, "a node has room for one"


class Value(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("pointer", ctypes.c_void_p)]


class TakesNodeAway(train.UserCallback):
    """Announces it at one report of the first attempt, and does it at a later one."""

    def __init__(self, process):
        self.process = process

    def after_report(self, run_context, metrics, checkpoint):
        if metrics[0]["attempt"] > 1:
            return
        if metrics[0]["step"] == 1:
            assert ctypes.CDLL(None).sigqueue(self.process.pid, signal.SIGUSR1, Value(1000)) == 0
        if "preempting" in (pathlib.Path(run_context.path) / "journal.jsonl").read_text():
            self.process.kill()


def test_the_loss_of_a_node_that_was_announced_is_no_failure(tmp_path, run_config):
    (tmp_path / "state").mkdir()
    with started_agents(tmp_path, "one", "two") as agents:
        result = TorchTrainer(
            trains,
            train_loop_config={"steps": 400, "folder": str(tmp_path / "state")},
            scaling_config=on_agents(tmp_path),
            run_config=run_config(
                failure_config=FailureConfig(max_failures=0, node_timeout_s=2), callbacks=[TakesNodeAway(agents["two"])]
            ),
        ).fit()
    journal = (pathlib.Path(result.path) / "journal.jsonl").read_text()
    assert "preempting" in journal and result.metrics["attempt"] == 2 and result.metrics["step"] == 399


def test_an_agent_ends_with_its_parent(tmp_path):
    command = [str(PROGRAM), "agent", "--token-file", str(tmp_path / "token"), "--with-parent"]
    parent = f"import subprocess, sys; sys.exit(subprocess.Popen({command}).wait())"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert "waiting for the driver" in process.stdout.readline()
        process.kill()
        assert process.stdout.read() == "", "the agent has closed it too"


@pytest.mark.parametrize("name", ["listen", "token_file"])
def test_what_agents_need_is_named_before_anything_starts(tmp_path, run_config, name):
    with pytest.raises(ValueError, match=f'ScalingConfig.{name} is "".*engine "agents" needs'):
        TorchTrainer(
            trains, scaling_config=on_agents(tmp_path, **{name: ""}), run_config=run_config()
        ).fit()


def test_agents_that_do_not_come_are_counted(tmp_path, run_config):
    with started_agents(tmp_path, "one"):
        with pytest.raises(train.TrainingFailedError, match="nly [01] of 2 agents announced themselves within 2 s"):
            TorchTrainer(
                trains,
                scaling_config=on_agents(tmp_path),
                run_config=run_config(failure_config=FailureConfig(start_timeout_s=2)),
            ).fit()


def test_an_agent_reads_one_run_after_the_other_from_its_input(tmp_path, run_config):
    command = [PROGRAM, "agent", "--token-file", "-", "--keep"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        agent.stdin.write("no token\n")
        agent.stdin.flush()
        assert "the run is lost: not a Paceline trust file" in agent.stdout.readline()

        class HandsOver(threading.Thread):
            def run(self):
                while not (tmp_path / "token").exists():
                    time.sleep(0.01)
                agent.stdin.write((tmp_path / "token").read_text())
                agent.stdin.flush()

        for _ in range(2):
            HandsOver().start()
            scaling = on_agents(tmp_path, nodes=1)
            assert TorchTrainer(
                trains, train_loop_config={"steps": 1}, scaling_config=scaling, run_config=run_config()
            ).fit().return_value["world"] == 2
            assert "has joined a run" in agent.stdout.readline() and "the run is over" in agent.stdout.readline()
        agent.stdin.close()
        assert agent.wait(60) == 0


def test_an_agent_that_stays_rests_ever_longer_until_another_token_file_comes(tmp_path, run_config):
    file, lines, moments = tmp_path / "file_of_agents", [], []
    file.write_text("{}")
    file.chmod(0o600)

    def joins_at_the_fourth_try():
        while not (tmp_path / "token").exists():
            time.sleep(0.01)
        shutil.copy2(tmp_path / "token", tmp_path / "other")
        moments.append(time.monotonic())
        command = [PROGRAM, "agent", "--token-file", file, "--keep"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
            lines.extend(agent.stdout.readline() for _ in range(3))
            moments.append(time.monotonic())
            (tmp_path / "other").rename(file)
            lines.append(agent.stdout.readline())
            moments.append(time.monotonic())
            lines.append(agent.stdout.readline())
            agent.terminate()

    thread = threading.Thread(target=joins_at_the_fourth_try)
    thread.start()
    TorchTrainer(
        trains,
        train_loop_config={"steps": 1},
        scaling_config=on_agents(tmp_path, nodes=1),
        run_config=run_config(failure_config=FailureConfig(start_timeout_s=60)),
    ).fit()
    thread.join()
    assert all("the run is lost: " in line for line in lines[:3]), lines
    assert "has joined a run" in lines[3] and "the run is over" in lines[4], lines
    started, third, joined = moments
    assert third - started >= 3, "after 1 s and 2 s"
    assert joined - third < 3, "at once, not after 4 s"


def test_an_agent_without_a_temporary_folder_ends_before_it_joins_a_run(tmp_path):
    command = [PROGRAM, "agent", "--token-file", tmp_path / "token"]  # for which it would wait
    environment = {**os.environ, "TMPDIR": str(tmp_path / "missing")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and str(tmp_path / "missing") in ended.stderr


def test_an_agent_ends_with_its_signal(tmp_path):
    command = [PROGRAM, "agent", "--token-file", tmp_path / "token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        assert "waiting for the driver" in agent.stdout.readline()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 128 + signal.SIGTERM


def test_what_is_no_token_file_is_refused(tmp_path):
    token = tmp_path / "token"
    token.write_text("{}")
    token.chmod(0o600)
    ended = subprocess.run([PROGRAM, "agent", "--token-file", token], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "token" in ended.stderr

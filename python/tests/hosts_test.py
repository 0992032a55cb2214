"""Runs on machines that the user names, or that Slurm gives: commands start their agents.

Here `ssh`, `srun` and `scontrol` are scripts that start what they are given on this machine; full/slurm_test.py has a Slurm.
"""

import os
import pathlib
import subprocess
import sys
import time

import pytest
from fake_launchers import launchers_in

import paceline
import paceline.train as train
from paceline.train import FailureConfig, ScalingConfig
from paceline.train.torch import TorchTrainer


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The scripts are the first in PATH, and the working directory is an empty folder, where they note what they start."""
    monkeypatch.setenv("PATH", f"{launchers_in(tmp_path / 'bin')}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "bin"


def started(folder):
    """(name, process) of each command that was started."""
    lines = [line.split() for line in (folder / "hosts").read_text().splitlines()]
    return [(name, int(pid)) for name, pid in lines]


def tells_where():
    context = train.get_context()
    train.report({"node_rank": context.get_node_rank(), "world": context.get_world_size()})
    return context.get_world_size()


def fit(run_config, loop=tells_where, **settings):
    failure_config = settings.pop("failure_config", FailureConfig())
    scaling_config = ScalingConfig(**{"num_workers": 2, "placement_strategy": "SPREAD", **settings})
    config = run_config(failure_config=failure_config, callbacks=settings.pop("callbacks", []))
    return TorchTrainer(loop, scaling_config=scaling_config, run_config=config).fit()


def assert_gone(folder):
    for name, pid in started(folder):
        assert not pathlib.Path(f"/proc/{pid}").exists(), name


def test_hosts(programs, tmp_path, run_config):
    result = fit(run_config, hosts=["localhost", "me@127.0.0.1"])
    assert result.return_value == 2
    assert sorted(name for name, _ in started(tmp_path)) == ["localhost", "me@127.0.0.1"]
    assert_gone(tmp_path)


def test_a_host_that_does_not_answer_is_named_at_once(programs, run_config):
    with pytest.raises(train.TrainingFailedError) as caught:
        fit(run_config, hosts=["localhost", "down"], listen="127.0.0.1:0", failure_config=FailureConfig(start_timeout_s=600))
    assert "o agent could be started on node down: ssh exited with code 255" in str(caught.value)
    assert "No route to host" in str(caught.value)


def test_a_spare_host_need_not_answer(programs, run_config):
    result = fit(run_config, hosts=["localhost", "127.0.0.1", "down"], nodes=2, listen="127.0.0.1:0")
    assert result.return_value == 2


class EndsAgent(train.UserCallback):
    """Kills the last agent at the first report of the first attempt."""

    def after_report(self, run_context, metrics, checkpoint):
        if metrics[0]["attempt"] == 1:
            os.kill(started(pathlib.Path.cwd())[-1][1], 9)


def reports_its_attempt():
    attempt = train.get_context().get_attempt()
    for step in range(3):
        train.report({"attempt": attempt, "step": step})
        while attempt == 1:
            time.sleep(0.05)  # until it is ended


def test_a_host_that_was_lost_comes_back(programs, tmp_path, run_config):
    scaling_config = ScalingConfig(num_workers=2, hosts=["localhost", "127.0.0.1"], placement_strategy="STRICT_SPREAD")
    config = run_config(failure_config=FailureConfig(max_failures=2, node_timeout_s=2), callbacks=[EndsAgent()])
    result = TorchTrainer(reports_its_attempt, scaling_config=scaling_config, run_config=config).fit()
    assert result.metrics["attempt"] >= 2 and result.metrics["step"] == 2
    # Again and again, until the agent that was killed counts as lost: until then its node has one.
    assert len({name for name, _ in started(tmp_path)[2:]}) == 1
    assert_gone(tmp_path)


def test_a_slurm_job_of_several_nodes_is_found(programs, tmp_path, run_config, monkeypatch):
    for name, value in {"ID": "7", "NUM_NODES": "2", "NODELIST": "n[1-2]"}.items():
        monkeypatch.setenv(f"SLURM_JOB_{name}", value)
    assert fit(run_config).return_value == 2
    assert sorted(name for name, _ in started(tmp_path)) == ["n1", "n2"]
    assert_gone(tmp_path)


@pytest.mark.parametrize(
    "settings, error",
    [
        ({"engine": "hosts"}, "ScalingConfig.hosts is empty"),
        ({"hosts": ["a", "b@a"]}, 'has "b@a" twice'),
        ({"hosts": ["-oProxyCommand=x"]}, "no name of a machine"),
        ({"hosts": ["no.such.host.invalid"]}, "name it in ScalingConfig.listen, as HOST:PORT"),
        ({"engine": "slurm"}, 'engine "slurm" needs a Slurm job'),
        *(
            ({"hosts": ["a"], "engine": engine}, f'ScalingConfig.hosts is for engine "hosts", .*engine is "{engine}"')
            for engine in ("local", "agents", "local_and_agents", "slurm", "ray")
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(run_config, settings, error):
    with pytest.raises(ValueError, match=error):
        fit(run_config, **settings)


def paceline_run(*arguments):
    program = pathlib.Path(paceline.__file__).parent / "bin/paceline"
    run = [program, "run", "--storage-path", "results", *arguments]
    return subprocess.run(run, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHON_EXEC": sys.executable})


def test_a_program_for_torchrun_runs_on_hosts(programs, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "ranks = torch.tensor([dist.get_rank()]); dist.all_reduce(ranks)\n"
        "print(*(os.environ[name] for name in ('RANK', 'LOCAL_RANK', 'GROUP_RANK', 'WORLD_SIZE')), ranks.item())\n"
        "dist.destroy_process_group()\n"
    )
    (tmp_path / "nodes.txt").write_text("localhost slots=2\n127.0.0.1  # the other\n")
    done = paceline_run("--hosts", "nodes.txt", "-n", "2", "train.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 0 0 4 6", "1 1 0 4 6", "2 0 1 4 6", "3 1 1 4 6"]
    assert sorted(name for name, _ in started(tmp_path)) == ["127.0.0.1", "localhost"]
    assert_gone(tmp_path)
    failing = paceline_run("--hosts", "localhost,127.0.0.1", "--", "/bin/sh", "-c", "exit 7")
    assert failing.returncode == 7, failing.stderr


def test_a_driver_in_python_runs_on_hosts_that_the_command_line_names(programs, tmp_path):
    (tmp_path / "train.py").write_text(
        "from paceline import train\n"
        "from paceline.train.torch import TorchTrainer\n"
        "def loop():\n"
        "    context = train.get_context()\n"
        "    return context.get_world_size(), context.get_local_world_size()\n"
        "if __name__ == '__main__':\n"
        "    scaling = train.ScalingConfig(placement_strategy='SPREAD')\n"
        "    print(*TorchTrainer(loop, scaling_config=scaling).fit().return_value)\n"
    )
    done = paceline_run("--hosts", "localhost,127.0.0.1", "-n", "2", "--driver", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2 1"
    assert sorted(name for name, _ in started(tmp_path)) == ["127.0.0.1", "localhost"]


def test_the_interpreter_of_the_driver_runs_there(programs, run_config):
    def which():
        train.report({"python": sys.executable})

    assert fit(run_config, which, hosts=["localhost"], num_workers=1).metrics["python"] == sys.executable

"""Runs in an object store over nodes that do not see the driver's disk: each sends its ranks' files to the store."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

import paceline
import paceline.train as train
from agents_test import EndsAgent, on_agents
from paceline.train import Checkpoint, FailureConfig, RunConfig
from paceline.train.torch import TorchTrainer

sys.path.append(str(pathlib.Path(__file__).parents[2] / "paceline/testing"))
import object_servers  # noqa: E402

PROGRAM = pathlib.Path(paceline.__file__).parent / "bin/paceline"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare, to hide the driver's disk"
)


@pytest.fixture
def server():
    with object_servers.S3() as server:
        yield server


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """Two agents by name, before whose eyes the driver's state directory is an empty one."""
    state, temporary = tmp_path / "state", tmp_path / "temporary"
    state.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("PACELINE_STATE_DIR", str(state))
    hidden = f'mount -t tmpfs none "{state}" && exec "$@"'
    processes = {}
    for name in ("one", "two"):
        command = ["unshare", "--mount", "sh", "-c", hidden, "sh", PROGRAM, "agent", "--token-file", tmp_path / "token"]
        environment = dict(os.environ, TMPDIR=str(temporary))
        processes[name] = subprocess.Popen([*command, "--name", name], env=environment)
    yield processes
    for process in processes.values():
        process.terminate()
        process.wait(60)
    until = time.monotonic() + 60
    while left := list(temporary.glob("paceline_*")):  # a killed agent's guardian takes a moment
        assert time.monotonic() < until, f"an agent leaves nothing behind: {left}"
        time.sleep(0.02)


def writes_checkpoints(config):
    context = train.get_context()
    rank, start = context.get_world_rank(), 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as path:
            assert {"rank_0", "rank_1"} <= set(os.listdir(path))
            start = int(pathlib.Path(path, f"rank_{rank}").read_text()) + 1
    for step in range(start, config["steps"]):
        folder = pathlib.Path(config["scratch"]) / f"rank_{rank}_{step}"
        folder.mkdir(exist_ok=True)
        (folder / f"rank_{rank}").write_text(str(step))
        mode = train.CheckpointUploadMode.ASYNC if step % 2 else train.CheckpointUploadMode.SYNC
        train.report(
            {"step": step, "attempt": context.get_attempt(), "start": start},
            checkpoint=Checkpoint(str(folder)),
            checkpoint_upload_mode=mode,
        )


def keys(server):
    found = server.client().list_objects_v2(Bucket=object_servers.BUCKET).get("Contents", [])
    return [one["Key"] for one in found]


def test_each_node_sends_its_ranks_files(server, agents, tmp_path):
    result = TorchTrainer(
        writes_checkpoints,
        train_loop_config={"steps": 3, "scratch": str(tmp_path)},
        scaling_config=on_agents(tmp_path),
        run_config=RunConfig(name="run", storage_path=server.uri, quiet=True),
    ).fit()
    assert result.metrics["step"] == 2
    with result.checkpoint.as_directory() as path:
        assert [pathlib.Path(path, f"rank_{rank}").read_text() for rank in (0, 1)] == ["2", "2"]
    assert not [key for key in keys(server) if ".staging" in key]


def test_after_the_loss_of_a_node_the_run_goes_on_from_its_checkpoint(server, agents, tmp_path):
    result = TorchTrainer(
        writes_checkpoints,
        train_loop_config={"steps": 8, "scratch": str(tmp_path)},
        scaling_config=on_agents(tmp_path),
        run_config=RunConfig(
            name="run",
            storage_path=server.uri,
            quiet=True,
            failure_config=FailureConfig(max_failures=5, node_timeout_s=2),
            callbacks=[EndsAgent(agents["two"])],
        ),
    ).fit()
    assert result.metrics["step"] == 7 and result.metrics["start"] > 0
    assert not [key for key in keys(server) if ".staging" in key]

"""The files of a run's last collectives, as PyTorch's flight recorder tools read them."""

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist

import paceline.train as train
from paceline.train import FailureConfig, ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer


def fit(loop, settings, backend, workers=2):
    return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=settings,
                        torch_config=TorchConfig(backend=backend)).fit()


def folder_of(settings, name, attempt=1):
    return os.path.join(settings.storage_path, name, "collectives", f"attempt_{attempt}")


def analysis(folder, *options):
    """What the tool prints of the folder."""
    tool = "torch.distributed.flight_recorder.fr_trace"
    command = [sys.executable, "-m", tool, folder, "--prefix", "rank_", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=["paceline", "gloo"])
def backend(request):
    return request.param


def test_a_killed_rank_is_missing(run_config, backend):
    def loop():
        values = torch.ones(1 << 18)
        for step in range(5):
            if step == 3 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(values)

    settings = run_config(name="killed", failure_config=FailureConfig(max_failures=0))
    with pytest.raises(train.WorkerGroupError, match="SIGKILL"):
        fit(loop, settings, backend)
    folder = folder_of(settings, "killed")
    assert sorted(os.listdir(folder)) == ["rank_0", "rank_1"]
    with open(os.path.join(folder, "rank_1"), "rb") as file:
        recording = pickle.load(file)
    assert [entry["state"] for entry in recording["entries"]] == ["completed"] * 3
    assert recording["entries"][0]["input_sizes"] == [[1 << 18]]
    assert recording["entries"][0]["input_dtypes"] == ["Float"]
    found = analysis(folder)
    assert "Not all ranks joining collective, sequence number: 4" in found
    assert "missing ranks: {1}" in found and "gloo:all_reduce" in found


def test_calls_that_differ_are_found(run_config):
    def loop():
        values = torch.ones(1024)
        dist.all_reduce(values)
        if dist.get_rank() == 0:
            dist.all_reduce(values)
        else:
            dist.broadcast(values, 1)

    settings = run_config(name="differing", failure_config=FailureConfig(max_failures=0))
    with pytest.raises(train.WorkerGroupError, match="all_reduce"):
        fit(loop, settings, "paceline")
    found = analysis(folder_of(settings, "differing"))
    assert "Collective sequence number: 2 has errors" in found
    assert "COLLECTIVE_TYPE_MISMATCH" in found


def test_works_have_the_order_of_their_calls(run_config, backend, tmp_path):
    def loop():
        values = [torch.ones(64) for _ in range(3)]
        works = [dist.all_reduce(values[0], async_op=True), dist.broadcast(values[1], 0, async_op=True),
                 dist.reduce(values[2], 0, async_op=True)]
        for work in works if dist.get_rank() == 0 else reversed(works):
            work.wait()
        dist.barrier()

    settings = run_config(name="ordered")
    fit(loop, settings, backend)
    found = analysis(folder_of(settings, "ordered"), "-o", str(tmp_path / "database"))
    assert "mismatch" not in found.lower() and "Not all ranks" not in found, found
    with open(tmp_path / "database", "rb") as file:
        _, database = pickle.load(file)
    assert [one.collective_name for one in database.collectives] == [
        "gloo:" + kind for kind in ("all_reduce", "broadcast", "reduce", "barrier")]
    assert all(one.pass_check for one in database.collectives)


def test_what_is_only_called_is_scheduled(run_config):
    def loop():
        values = torch.ones(64)
        dist.all_reduce(values)
        if dist.get_rank() == 1:
            work = dist.all_reduce(values, async_op=True)
            os.kill(os.getpid(), signal.SIGKILL)
            work.wait()
        dist.all_reduce(values)

    settings = run_config(name="called", failure_config=FailureConfig(max_failures=0))
    with pytest.raises(train.WorkerGroupError, match="SIGKILL"):
        fit(loop, settings, "paceline")
    folder = folder_of(settings, "called")
    states = {}
    for rank in range(2):
        with open(os.path.join(folder, f"rank_{rank}"), "rb") as file:
            states[rank] = [entry["state"] for entry in pickle.load(file)["entries"]]
    # What a rank gives is there from its call on: the other needs no more of it.
    assert states == {0: ["completed", "completed"], 1: ["completed", "scheduled"]}
    assert "gloo:all_reduce" in analysis(folder)


def test_what_matches_is_a_database(run_config, backend, tmp_path):
    def loop():
        values = torch.ones(64)
        parts = [torch.empty(64) for _ in range(2)]
        whole = torch.empty(128)
        dist.all_reduce(values)
        dist.broadcast(values, 0)
        dist.all_gather(parts, values)
        dist.all_gather_into_tensor(whole, values)
        dist.reduce(values, 0)
        dist.barrier()

    settings = run_config(name="matching")
    fit(loop, settings, backend)
    folder = folder_of(settings, "matching")
    found = analysis(folder, "-o", str(tmp_path / "database"))
    assert "mismatch" not in found.lower() and "Not all ranks" not in found, found
    with open(tmp_path / "database", "rb") as file:
        _, database = pickle.load(file)
    assert [one.collective_name for one in database.collectives] == [
        "gloo:" + kind for kind in ("all_reduce", "broadcast", "all_gather", "all_gather", "reduce", "barrier")]
    assert all(one.pass_check for one in database.collectives)


def test_groups_of_some_ranks_are_matched_by_their_ranks(run_config, backend, tmp_path):
    def loop():
        values = torch.ones(64)
        first, last, everyone = dist.new_group([0, 2]), dist.new_group([1, 2]), dist.new_group([0, 1, 2])
        for group in (last, first):  # rank 2 is in both
            if dist.get_rank(group) >= 0:
                dist.all_reduce(values, group=group)
        dist.broadcast(values, 0, group=everyone)
        dist.barrier()

    settings = run_config(name="some")
    fit(loop, settings, backend, workers=3)
    found = analysis(folder_of(settings, "some"), "-o", str(tmp_path / "database"))
    assert "mismatch" not in found.lower() and "Not all ranks" not in found, found
    with open(tmp_path / "database", "rb") as file:
        _, database = pickle.load(file)
    assert sorted((one.collective_name, len(one.type_of_mismatch or ())) for one in database.collectives) == [
        ("gloo:all_reduce", 0), ("gloo:all_reduce", 0), ("gloo:barrier", 0), ("gloo:broadcast", 0)]
    members = {}
    for one in database.memberships:
        members.setdefault(one.group_id, []).append(one.global_rank)
    assert sorted(members.values()) == [[0, 1, 2], [0, 1, 2], [0, 2], [1, 2]]


def test_groups_that_are_made_again_are_others(run_config):
    """Also those of survivors, who are fewer and count themselves anew."""
    def loop():
        rank, values = dist.get_rank(), torch.ones(4)
        for _ in range(2):
            if rank != 1:
                if rank == 2:
                    time.sleep(0.5)  # rank 0 looks for it where the group before has left its keys
                group = dist.new_group([0, 2], use_local_synchronization=True)
                dist.all_reduce(values, group=group)
                dist.destroy_process_group(group)
        dist.barrier()
        store = dist.distributed_c10d._get_default_store()
        dist.destroy_process_group()
        if rank != 1:
            dist.init_process_group("paceline", store=dist.PrefixStore("again", store), rank=rank // 2, world_size=2)
            dist.broadcast(values, 0)
            dist.all_gather_into_tensor(torch.zeros(8), values, group=dist.new_group([0, 1]))

    settings = run_config(name="again")
    fit(loop, settings, "paceline", workers=3)
    folder = folder_of(settings, "again")
    found = {}
    for rank in range(3):
        with open(os.path.join(folder, f"rank_{rank}"), "rb") as file:
            recording = pickle.load(file)
        ranks = {name: group["ranks"] for name, group in recording["pg_config"].items()}
        found[rank] = [(ranks[entry["process_group"][0]], entry["profiling_name"], entry["collective_seq_id"])
                       for entry in recording["entries"]]
    of_two = [("[0,2]", "gloo:" + kind, 1) for kind in ("all_reduce", "all_reduce", "broadcast", "all_gather")]
    assert [one for one in found[0] if one[0] == "[0,2]"] == of_two and found[0] == found[2]
    assert found[1] == [("[0,1,2]", "gloo:barrier", 1)]
    assert "missing" not in analysis(folder)

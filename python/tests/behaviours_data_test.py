"""Behaviours 58 to 60: datasets of the trainer, records of runs, hangs."""

import json
import pathlib
import subprocess
import threading

import pytest
import torch
import torch.distributed as dist

import paceline
import paceline.data
import paceline.train as train
from behaviours import fit, proved_by
from paceline.train import DebugConfig

PROGRAM = pathlib.Path(paceline.__file__).parent / "bin/paceline"


def test_58_a_dataset_that_the_trainer_was_not_given_is_a_key_error(run_config):
    def loop():
        with pytest.raises(KeyError, match="'validation'"):
            train.get_dataset_shard("validation")
        return "raised"

    assert fit(loop, run_config(), workers=1).return_value == "raised"


def test_58_datasets_are_split_in_equal_shares_and_shuffled_anew(run_config):
    def loop():
        shard = train.get_dataset_shard("train")
        assert train.get_dataset_shard("train") is shard
        batches = shard.iter_batches(batch_size=8)
        mine = [[value for batch in batches for value in batch["id"].tolist()] for _ in range(3)]
        everyone = [None] * train.get_context().get_world_size()
        dist.all_gather_object(everyone, mine)
        return everyone

    datasets = {"train": paceline.data.range(41).random_shuffle()}
    first, second = fit(loop, run_config(), datasets=datasets).return_value
    for one, other in zip(first, second):
        assert len(one) == len(other) == 20 and len(set(one + other)) == 40
    assert first[0] != first[1] != first[2]


def records(*arguments):
    shown = subprocess.run([PROGRAM, *arguments, "--json"], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(shown.stdout)


def test_59_runs_attempts_and_workers_are_in_the_records(run_config, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    result = fit(lambda: train.report({"n": 1}), run_config(name="recorded"))
    (run,) = records("list")
    assert (run["name"], run["state"], run["world_size"], run["metrics"]) == ("recorded", "finished", 2, {"n": 1})
    shown = records("show", result.path)
    assert shown["attempts"][-1]["attempt"] == 1 and [worker["rank"] for worker in shown["workers"]] == [0, 1]


def stuck():
    for _ in range(4):
        train.report({"n": 1})
        dist.all_reduce(torch.ones(1))
    if train.get_context().get_world_rank() == 0:
        dist.all_reduce(torch.ones(1))
    else:
        threading.Event().wait()


def test_60_a_hang_is_diagnosed_and_fails_the_run(run_config):
    debug = DebugConfig(hang_action="fail", hang_floor_s=0.5, hang_factor=1, hang_start_s=1)
    with pytest.raises(train.HangError, match="The run hangs.*rank 1.*rank 0 waits in all_reduce 5") as caught:
        fit(stuck, run_config(debug_config=debug))
    assert caught.value.result.failure_kind is train.FailureKind.HANG
    (report,) = pathlib.Path(caught.value.result.path, "hang").iterdir()
    assert {"report.txt", "stacks.txt", "hang.json", "stacks.jsonl"} <= {file.name for file in report.iterdir()}
    stacks = (report / "stacks.txt").read_text()
    assert "rank 0, process" in stacks and "rank 1, process" in stacks


def test_60_a_hang_that_is_observed_and_passes_changes_nothing(run_config):
    def loop(config):
        for _ in range(4):
            train.report({"n": 1})
            dist.all_reduce(torch.ones(1))
        if train.get_context().get_world_rank() == 1:
            folder = pathlib.Path(train.get_context().get_storage(), "hang")
            while not list(folder.glob("*/report.txt")):
                threading.Event().wait(0.05)
        dist.all_reduce(torch.ones(1))
        return "went on"

    debug = DebugConfig(hang_action="observe", hang_floor_s=0.5, hang_factor=1, hang_start_s=1)
    assert fit(loop, run_config(debug_config=debug)).return_value == "went on"
    proved_by("tests/robustness/diagnosis_test.cpp Diagnosis.AHangThatIsOnlyObservedIsReportedAndGoesOn")

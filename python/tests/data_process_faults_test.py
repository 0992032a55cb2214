"""The process that reads a trainer's datasets, when it dies or stands still: no row is lost or comes twice."""

import contextlib
import os
import random
import signal

import pytest

import paceline.data
import paceline.train as train
from data_training_test import rows_of, seen_by


def _killing(folder, at, how):
    def step(batch):
        if at in batch["id"] and not (folder / "killed").exists():
            (folder / "killed").touch()
            how()
        return batch

    return step


def _data_process():
    # Functions are called by processes that are forked from one that the data process has started.
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def _end_data_process(how):
    os.kill(_data_process(), how)
    signal.pause()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_dies_costs_a_wait(run_config, tmp_path, how):
    dataset = paceline.data.range(60, override_num_blocks=12).random_shuffle(seed=4)
    undisturbed = seen_by(run_config, rows_of(epochs=2), datasets={"train": dataset})
    dying = dataset.map_batches(_killing(tmp_path, 41, lambda: _end_data_process(how)), udf_modifying_row_count=False)
    assert seen_by(run_config, rows_of(epochs=2), datasets={"train": dying}) == undisturbed
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_no_row_is_lost_or_twice(run_config, seed):
    def loop():
        chance, rank = random.Random(seed), train.get_context().get_world_rank()
        rows, kills = [], 0
        for _ in range(2):
            for batch in train.get_dataset_shard("train").iter_torch_batches(batch_size=4, prefetch_batches=seed):
                rows.append(batch["id"].tolist())
                if rank == 0 and kills < 3 and chance.random() < 0.1:
                    kills += 1
                    with contextlib.suppress(ProcessLookupError):  # it has been killed already: these were made before
                        os.kill(int(batch["pid"][0]), signal.SIGKILL)
        return rows

    dataset = paceline.data.range(200, override_num_blocks=10).random_shuffle(seed=seed)
    undisturbed = seen_by(run_config, rows_of(epochs=2), datasets={"train": dataset})
    with_pid = dataset.map_batches(
        lambda batch: {**batch, "pid": [_data_process()] * len(batch["id"])}, udf_modifying_row_count=False
    )
    ranks = seen_by(run_config, loop, datasets={"train": with_pid})
    for rows, wanted in zip(ranks, undisturbed):
        assert sum(rows, []) == sum((batch for epoch in wanted for batch in epoch), [])


def test_one_that_stands_still_is_replaced(run_config, tmp_path):
    config = run_config()
    config.failure_config = train.FailureConfig(heartbeat_timeout_s=1)
    stopping = paceline.data.range(40, override_num_blocks=8).map_batches(
        _killing(tmp_path, 17, lambda: _end_data_process(signal.SIGSTOP))
    )
    ranks = seen_by(lambda: config, rows_of(), datasets={"train": stopping})
    assert sorted(sum((batch for rank in ranks for epoch in rank for batch in epoch), [])) == list(range(40))

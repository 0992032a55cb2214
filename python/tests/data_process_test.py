"""The process that reads a trainer's datasets for all workers of a node."""

import contextlib
import json
import os
import random
import signal

import pytest
import torch

import paceline.data
import paceline.train as train
from data_training_test import rows_of, seen_by
from paceline.train import DataConfig, ScalingConfig
from paceline.train.torch import TorchTrainer


def _pid(batch):
    return {**batch, "pid": [os.getpid()] * len(batch["id"])}


def _pids(epochs=1):
    """A loop that returns the ids of the processes that its rows have passed through, its own, and the rows."""

    def loop():
        seen, rows = set(), []
        for _ in range(epochs):
            for batch in train.get_dataset_shard("train").iter_torch_batches(batch_size=3):
                seen |= set(batch["pid"].tolist())
                rows.append(batch["id"].tolist())
        return sorted(seen), os.getpid(), rows

    return loop


def test_all_workers_are_served_by_one_process(run_config):
    ranks = seen_by(run_config, _pids(2), datasets={"train": paceline.data.range(30).map_batches(_pid)})
    served_by = {pid for pids, _, _ in ranks for pid in pids}
    assert not served_by & {own for _, own, _ in ranks}
    assert sorted(sum((row for _, _, rows in ranks for row in rows), [])) == sorted([*range(30), *range(30)])


def test_each_block_is_made_once_for_all_workers(run_config, tmp_path):
    def count(batch):
        with open(tmp_path / "calls", "a") as file:
            file.write("x\n")
        return batch

    def loop():
        batches, rank = train.get_dataset_shard("train").iter_torch_batches(batch_size=2), train.get_context().get_world_rank()
        for _ in range(2):  # the last worker begins the epoch when the others have had it
            for late in (False, True):
                if (rank == 2) == late:
                    rows.extend(row for batch in batches for row in batch["id"].tolist())
                torch.distributed.barrier()
        return rows

    rows = []
    dataset = paceline.data.range(60, override_num_blocks=10).random_shuffle(seed=2).map_batches(count)
    ranks = seen_by(run_config, loop, workers=3, datasets={"train": dataset})
    assert sorted(sum(ranks, [])) == sorted([*range(60)] * 2)
    assert len((tmp_path / "calls").read_text().split()) == 2 * 10


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


def test_an_exception_of_a_function_comes_to_the_train_loop_as_itself(run_config):
    class NoSuchRow(Exception):
        pass

    def look(batch):
        if 17 in batch["id"]:
            raise NoSuchRow("row 17")
        return batch

    def loop():
        with pytest.raises(NoSuchRow, match="row 17") as caught:
            list(train.get_dataset_shard("train").iter_torch_batches(batch_size=2))
        return "in look" in str(caught.value.__cause__)

    dataset = paceline.data.range(20, override_num_blocks=4).map_batches(look)
    assert seen_by(run_config, loop, datasets={"train": dataset}) == [True, True]


def test_workers_need_not_read_in_step(run_config):
    def loop():
        validation, rank = train.get_dataset_shard("val"), train.get_context().get_world_rank()
        training = iter(train.get_dataset_shard("train").iter_torch_batches(batch_size=2))
        first = [next(training)["id"].tolist()]
        if rank == 0:  # alone, while the other waits
            assert [batch["id"].tolist() for batch in validation.iter_torch_batches(batch_size=64)] == [list(range(9))]
        torch.distributed.barrier()
        return first + [batch["id"].tolist() for batch in training]

    datasets = {"train": paceline.data.range(12), "val": paceline.data.range(9)}
    ranks = seen_by(run_config, loop, datasets=datasets, dataset_config=DataConfig(["train"]))
    assert ranks == [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]]


def test_batches_stay_what_they_are(run_config):
    def loop():
        kept = list(train.get_dataset_shard("train").iter_torch_batches(batch_size=2))
        kept[0]["id"].mul_(0)  # its own memory
        return [batch["id"].tolist() for batch in kept]

    ranks = seen_by(run_config, loop, datasets={"train": paceline.data.range(12)}, dataset_config=DataConfig([]))
    assert ranks == [[[0, 0], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]] * 2


def test_a_dataset_that_cannot_be_opened_says_why(run_config, tmp_path):
    def loop():
        try:
            next(iter(train.get_dataset_shard("train").iter_torch_batches()))
        except Exception as error:
            return type(error).__name__, str(error)

    path = tmp_path / "none.parquet"
    (kind, text), _ = seen_by(run_config, loop, datasets={"train": paceline.data.read_parquet(str(path))})
    assert "none.parquet" in text


def test_it_outlives_an_attempt(run_config, tmp_path):
    def loop():
        pids, own, _ = _pids()()
        if not (tmp_path / "failed").exists() and train.get_context().get_world_rank() == 0:
            (tmp_path / "failed").write_text(str(pids))
            raise RuntimeError("once")
        return pids

    config = run_config()
    config.failure_config = train.FailureConfig(max_failures=1)
    trainer = TorchTrainer(loop, datasets={"train": paceline.data.range(8, override_num_blocks=1).map_batches(_pid)},
                           scaling_config=ScalingConfig(num_workers=2), run_config=config)
    assert str(trainer.fit().return_value) == (tmp_path / "failed").read_text()


def test_nothing_is_left(run_config, tmp_path):
    def remember(batch):
        (folder / str(os.getpid())).touch()
        return batch

    folder = tmp_path / "pids"
    folder.mkdir()
    seen_by(run_config, rows_of(), datasets={"train": paceline.data.range(8).map_batches(remember)})
    assert os.listdir(folder)
    for name in os.listdir(folder):
        with pytest.raises(ProcessLookupError):
            os.kill(int(name), 0)


def test_the_run_folder_has_its_figures(run_config):
    config = run_config()
    trainer = TorchTrainer(rows_of(), datasets={"train": paceline.data.range(12)},
                           scaling_config=ScalingConfig(num_workers=2), run_config=config)
    folder = trainer.fit().path
    (name,) = os.listdir(os.path.join(folder, "data"))
    with open(os.path.join(folder, "data", name)) as file:
        (dataset,) = json.load(file)["datasets"]
    assert (dataset["name"], [rank["rows"] for rank in dataset["ranks"]]) == ("train", [6, 6])
    assert dataset["steps"][0]["rows_task_outputs_generated"] in (12, 24)  # the next epoch may have begun


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

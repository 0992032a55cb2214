"""The process that reads a trainer's datasets for all workers of a node."""

import json
import os

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
    path.write_text("no Parquet")  # a path that is missing would be told before
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
    # Without batches that are prepared ahead, no other epoch is begun.
    trainer = TorchTrainer(rows_of(prefetch_batches=0), datasets={"train": paceline.data.range(12)},
                           scaling_config=ScalingConfig(num_workers=2), run_config=config)
    folder = trainer.fit().path
    (name,) = os.listdir(os.path.join(folder, "data"))
    with open(os.path.join(folder, "data", name)) as file:
        (dataset,) = json.load(file)["datasets"]
    assert (dataset["name"], [rank["rows"] for rank in dataset["ranks"]]) == ("train", [6, 6])
    assert dataset["steps"][0]["rows_task_outputs_generated"] == 12

"""Datasets of a trainer: what its workers get."""

import os
import signal

import pytest
import torch

import paceline.data
import paceline.train as train
from behaviours import fit
from paceline.train import DataConfig, ScalingConfig
from paceline.train.torch import TorchTrainer


def seen_by(run_config, loop, workers=2, datasets=None, **options):
    """What each rank's loop has returned."""

    def gathering():
        mine, size = loop(), train.get_context().get_world_size()
        everyone = [None] * size
        torch.distributed.all_gather_object(everyone, mine)
        return everyone

    trainer = TorchTrainer(gathering, datasets=datasets, scaling_config=ScalingConfig(num_workers=workers),
                           run_config=run_config(), **options)
    return trainer.fit().return_value


def rows_of(name="train", epochs=1, **options):
    def loop():
        batches = train.get_dataset_shard(name).iter_torch_batches(batch_size=4, **options)
        return [[batch["id"].tolist() for batch in batches] for _ in range(epochs)]

    return loop


def test_workers_share_the_rows_in_equal_steps(run_config):
    ranks = seen_by(run_config, rows_of(), datasets={"train": paceline.data.range(21)})
    assert ranks == [[[[0, 1, 2, 3], [8, 9, 10, 11], [16, 17]]], [[[4, 5, 6, 7], [12, 13, 14, 15], [18, 19]]]]


def test_a_dataset_that_is_not_split_is_whole_on_each_worker(run_config):
    datasets = {"train": paceline.data.range(8), "val": lambda: paceline.data.range(5)}
    ranks = seen_by(run_config, rows_of("val"), datasets=datasets, dataset_config=DataConfig(["train"]))
    assert ranks == [[[[0, 1, 2, 3], [4]]]] * 2


def test_datasets_to_split_are_the_trainers():
    with pytest.raises(ValueError, match=r"datasets_to_split names \['trian'\]; the trainer's datasets are \['train'\]"):
        TorchTrainer(rows_of(), datasets={"train": paceline.data.range(4)},
                     dataset_config=DataConfig(datasets_to_split=["trian"]))


def test_missing_files_are_told_before_workers_start(run_config, tmp_path):
    for dataset in (paceline.data.read_parquet(str(tmp_path / "none.parquet")),
                    lambda: paceline.data.read_csv(str(tmp_path / "*.none"))):
        with pytest.raises(train.PacelineError, match=r"datasets\['train'\]: .*none"):
            TorchTrainer(print, datasets={"train": dataset}, scaling_config=ScalingConfig(num_workers=1),
                         run_config=run_config()).fit()
        assert not (tmp_path / "results").exists()


def test_shuffled_without_a_seed_workers_share_one_order(run_config):
    first, second = seen_by(run_config, rows_of(epochs=2), datasets={"train": paceline.data.range(40).random_shuffle()})
    for epoch in range(2):
        assert sorted(sum(first[epoch] + second[epoch], [])) == list(range(40))
    assert first[0] != first[1]


def test_functions_of_the_script_come_along(run_config):
    offset = 100
    dataset = paceline.data.range(8).map_batches(lambda batch: {"id": batch["id"] + offset})
    first, second = seen_by(run_config, rows_of(), datasets={"train": dataset})
    assert sorted(sum(first[0] + second[0], [])) == list(range(100, 108))


def test_datasets_have_options_of_their_own(run_config):
    def caller(batch):
        return {"process": [os.getpid()] * len(batch["id"])}

    def loop():
        return [{row["process"] for row in train.get_dataset_shard(name).iter_rows()} for name in ("train", "test")]

    datasets = {name: paceline.data.range(200).repartition(20).map_batches(caller) for name in ("train", "test")}
    one = paceline.data.ExecutionOptions(resource_limits=paceline.data.ExecutionResources(cpu=1))
    threads = paceline.data.ExecutionOptions(functions="threads")
    config = DataConfig(execution_options={"train": one, "test": threads})
    (callers, servers), (others, other_servers) = seen_by(run_config, loop, datasets=datasets, dataset_config=config)
    assert len(callers | others) == 1, "one core, one process"
    assert len(servers | other_servers) == 1 and servers != callers, "the data process itself"
    with pytest.raises(TypeError, match="execution_options is 8; allowed: paceline.data.ExecutionOptions"):
        DataConfig(execution_options=8)


def test_rows_can_be_repeated_or_marked_as_padding(run_config):
    def loop():
        batches = train.get_dataset_shard("train").iter_batches(batch_size=2)
        return [(batch["id"].tolist(), batch["is_padding"].tolist()) for batch in batches]

    ranks = seen_by(run_config, loop, datasets={"train": paceline.data.range(5)}, dataset_config=DataConfig(equal="pad"))
    assert ranks == [[([0, 1], [False, False]), ([4], [False])], [([2, 3], [False, False]), ([0], [True])]]


def test_each_dataset_can_be_shared_in_a_way_of_its_own(run_config):
    def loop():
        return [[row["id"] for row in train.get_dataset_shard(name).iter_rows()] for name in ("train", "test")]

    datasets = {"train": paceline.data.range(5), "test": paceline.data.range(5)}
    (rows, tests), (others, other_tests) = seen_by(run_config, loop, datasets=datasets,
                                                   dataset_config=DataConfig(equal={"test": "uneven"}))
    assert sorted(rows + others) == [0, 1, 2, 3] and sorted(tests + other_tests) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="equal is 'even'"):
        DataConfig(equal={"test": "even"})


def test_a_restart_goes_on_where_the_checkpoint_was_taken(run_config, tmp_path):
    """The state of the shard is part of the checkpoint."""

    def loop():
        shard, seen = train.get_dataset_shard("train"), []
        if checkpoint := train.get_checkpoint():
            shard.load_state_dict(checkpoint.to_dict()["shard"])
            seen = checkpoint.to_dict()["seen"]
        for step, batch in enumerate(shard.iter_torch_batches(batch_size=4)):
            seen = seen + batch["id"].tolist()
            train.report({"step": step}, checkpoint=train.Checkpoint.from_dict({"shard": shard.state_dict(), "seen": seen}))
            if len(seen) == 12 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise RuntimeError("once")
        return seen

    config = run_config(failure_config=train.FailureConfig(max_failures=1))
    result = fit(loop, config, workers=1, datasets={"train": paceline.data.range(30).random_shuffle(seed=5)})
    assert sorted(result.return_value) == list(range(30))
    whole = [row["id"] for row in paceline.data.range(30).random_shuffle(seed=5).take_all()]
    assert result.return_value == whole


def test_with_resume_a_restart_goes_on_by_itself_at_another_world_size(run_config, tmp_path):
    def loop():
        size, seen = train.get_context().get_world_size(), []
        for step, batch in enumerate(train.get_dataset_shard("train").iter_torch_batches(batch_size=6 // size)):
            seen += batch["id"].tolist()
            if step == 3 and size == 2:
                os.kill(os.getpid(), signal.SIGKILL)  # behind the report of the third step
            train.report({"step": step}, checkpoint=train.Checkpoint.from_dict({}))
            train.get_checkpoint()  # it is published
        return seen

    options = {"datasets": {"train": paceline.data.range(30).random_shuffle(seed=5)},
               "dataset_config": DataConfig(resume=True)}
    config = run_config(name="resumed")
    with pytest.raises(train.WorkerGroupError):
        fit(loop, config, workers=2, **options)
    whole = [row["id"] for row in paceline.data.range(30).random_shuffle(seed=5).take_all()]
    assert fit(loop, config, workers=1, **options).return_value == whole[18:]


def test_a_void_step_gets_its_batch_again(run_config):
    def loop():
        shard, seen, done = train.get_dataset_shard(), [], []
        for batch in shard.iter_torch_batches(batch_size=2):
            seen.append(batch["id"].tolist())
            if len(seen) == 2:
                shard.void_step()
            done.append(shard.state_dict()["rows"])
        return seen, done

    result = fit(loop, run_config(), workers=1, datasets={"train": paceline.data.range(6)})
    assert result.return_value == ([[0, 1], [2, 3], [2, 3], [4, 5]], [2, 2, 4, 6])
    with pytest.raises(RuntimeError, match="get_dataset_shard"):
        paceline.data.range(6).iterator().void_step()


def test_in_this_process(run_config):
    result = fit(rows_of(), run_config(), workers=0, datasets={"train": paceline.data.range(6)})
    assert result.return_value == [[[0, 1, 2, 3], [4, 5]]]


def test_what_is_no_dataset_is_refused():
    with pytest.raises(TypeError, match=r"datasets\['train'\] is of type list; wanted: a dataset"):
        TorchTrainer(lambda: None, datasets={"train": [1, 2]})
    with pytest.raises(ValueError, match="DataConfig.equal is 'even'"):
        DataConfig(equal="even")

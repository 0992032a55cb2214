"""paceline.air: scripts of Ray AIR."""

import pytest

import paceline.train
from paceline.air import Checkpoint, RunConfig, ScalingConfig, session
from paceline.train.torch import TorchTrainer


def fit(loop, settings, workers=2, **arguments):
    return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=settings, **arguments).fit()


def test_a_script_of_ray_air_trains_and_goes_on(run_config):
    def loop(config):
        checkpoint = session.get_checkpoint()
        start = checkpoint.to_dict()["epoch"] + 1 if checkpoint else 0
        for epoch in range(start, config["epochs"]):
            metrics = {"epoch": epoch, "rank": session.get_world_rank()}
            session.report(metrics, checkpoint=Checkpoint.from_dict({"epoch": epoch}))
        return [
            session.get_world_size(), session.get_world_rank(), session.get_local_rank(), session.get_local_world_size(),
            session.get_node_rank(), session.get_experiment_name(), session.get_trial_name(), session.get_trial_id(),
            session.get_trial_dir(),
        ]  # fmt: skip

    first = fit(loop, run_config(name="air"), train_loop_config={"epochs": 2})
    assert first.metrics == {"epoch": 1, "rank": 0}
    assert first.return_value == [2, 0, 0, 2, 0, "air", "air", "air", first.path]
    second = fit(loop, run_config(), train_loop_config={"epochs": 3}, resume_from_checkpoint=first.checkpoint)
    assert list(second.metrics_dataframe["epoch"]) == [2]


def test_names_are_the_same_classes_everywhere():
    import paceline.air.checkpoint
    import paceline.air.config
    import paceline.air.result

    assert paceline.air.checkpoint.Checkpoint is Checkpoint is paceline.train.Checkpoint
    assert paceline.air.result.Result is paceline.train.Result
    assert paceline.air.config.RunConfig is RunConfig is paceline.train.RunConfig


def test_outside_a_train_loop_there_is_one_process_and_a_warning():
    for function, value in (
        (session.get_world_size, 1), (session.get_local_world_size, 1), (session.get_world_rank, 0),
        (session.get_local_rank, 0), (session.get_node_rank, 0), (session.get_checkpoint, None), (session.get_trial_name, None),
        (lambda: session.report({"n": 1}), None),
    ):  # fmt: skip
        with pytest.warns(UserWarning, match="outside a train loop"):
            assert function() == value

"""Results, checkpoints and runs as scripts make and continue them."""

import base64
import copy
import dataclasses
import decimal
import fractions
import json
import math
import os
import pickle
import shutil

import pandas
import pytest
import torch

import paceline.train as train
from paceline.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointUploadMode,
    FailureConfig,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    Result,
    RunConfig,
    ScalingConfig,
    ValidationConfig,
    _values,
)
from paceline.train.torch import TorchTrainer


def folder_with(path, name):
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "w") as file:
        file.write(name)
    return Checkpoint(path)


def fit(loop, settings, workers=1, config=None, **arguments):
    scaling = ScalingConfig(num_workers=workers)
    return TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=settings, **arguments).fit()


def test_a_name_that_is_given_again_after_a_restart_means_the_later_report(run_config, tmp_path):
    def loop(config):
        attempt = train.get_context().get_attempt()
        for epoch in range(2):
            checkpoint = folder_with(f"{config}/{attempt}_{epoch}", f"attempt_{attempt}")
            train.report({"epoch": epoch}, checkpoint, checkpoint_dir_name=f"epoch_{epoch}")
        if attempt == 1:
            raise ValueError("once")

    settings = run_config(name="run", failure_config=FailureConfig(max_failures=1))
    result = fit(loop, settings, config=str(tmp_path / "user"))
    assert [os.path.basename(one.path) for one, _ in result.best_checkpoints] == ["epoch_0", "epoch_1"]
    for checkpoint, _ in result.best_checkpoints:
        assert "attempt_2" in os.listdir(checkpoint.path) and "attempt_1" not in os.listdir(checkpoint.path)


def test_one_name_for_all_reports_keeps_the_latest(run_config, tmp_path):
    def loop(config):
        for epoch in range(3):
            checkpoint = folder_with(f"{config}/{epoch}", f"epoch_{epoch}")
            train.report({"epoch": epoch}, checkpoint, checkpoint_dir_name="latest")

    result = fit(loop, run_config(name="run"), config=str(tmp_path / "user"))
    assert [(os.path.basename(one.path), metrics) for one, metrics in result.best_checkpoints] == [("latest", {"epoch": 2})]
    assert "epoch_2" in os.listdir(result.checkpoint.path) and "epoch_1" not in os.listdir(result.checkpoint.path)
    assert [row["epoch"] for row in result.metrics_dataframe.to_dict("records")] == [0, 1, 2]


def test_a_failure_right_after_a_report_does_not_lose_its_checkpoint(run_config, tmp_path):
    def loop(config):
        context = train.get_context()
        if checkpoint := train.get_checkpoint():
            return os.path.basename(checkpoint.path)
        rank = context.get_world_rank()
        if rank == 0:
            os.open(f"{config}/end", os.O_WRONLY)  # until the process ends
        else:
            with open(f"{config}/end") as end:
                end.read()
        train.report({}, folder_with(f"{config}/{rank}", str(rank)))
        raise ValueError("behind the report")

    os.mkfifo(tmp_path / "end")
    settings = run_config(failure_config=FailureConfig(max_failures=1))
    assert fit(loop, settings, workers=2, config=str(tmp_path)).return_value == "checkpoint_000001"


@pytest.mark.parametrize("mode", [CheckpointUploadMode.SYNC, CheckpointUploadMode.NO_UPLOAD])
def test_the_checkpoint_is_that_of_the_report_before(run_config, tmp_path, mode):
    def loop(config):
        names = []
        for epoch in range(3):
            place = str(train.get_context().get_storage()) if mode is CheckpointUploadMode.NO_UPLOAD else config
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                checkpoint = folder_with(f"{place}/epoch_{epoch}", "file")
            train.report({}, checkpoint, checkpoint_dir_name=f"epoch_{epoch}", checkpoint_upload_mode=mode)
            if checkpoint:
                names.append(os.path.basename(train.get_checkpoint().path))
        return names

    result = fit(loop, run_config(), workers=2, config=str(tmp_path / "user"))
    assert result.return_value == ["epoch_0", "epoch_1", "epoch_2"]


def test_metrics_have_what_the_validation_added(run_config, tmp_path):
    def loop(config):
        train.report({"loss": 1}, folder_with(config, "file"), validation=True)

    def validate(checkpoint):
        return {"accuracy": 0.5}

    result = fit(loop, run_config(), config=str(tmp_path / "user"), validation_config=ValidationConfig(fn=validate))
    assert result.metrics == {"loss": 1, "accuracy": 0.5}
    assert result.best_checkpoints[0][1] == result.metrics
    assert result.metrics_dataframe.to_dict("records") == [result.metrics]


def test_a_validation_leaves_keys_as_they_are(run_config, tmp_path):
    def loop(config):
        train.report({0: 0.5, "loss": 1}, folder_with(config, "file"), validation=True)

    def validate(checkpoint):
        return {"accuracy": 0.5, 5: 2}

    result = fit(loop, run_config(), config=str(tmp_path / "user"), validation_config=ValidationConfig(fn=validate))
    assert result.metrics == {0: 0.5, "loss": 1, "accuracy": 0.5, 5: 2}
    assert result.best_checkpoints[0][1] == result.metrics
    assert set(result.metrics_dataframe.columns) == set(result.metrics)


@pytest.mark.parametrize(
    "scores",
    [
        [True, False, False, False],
        [decimal.Decimal("0.3"), decimal.Decimal("0.1"), fractions.Fraction(1, 5), 0.25],
        [2**71, 5, 2**64 - 1, 2**70],
    ],
    ids=["bool", "decimal", "int"],
)
def test_the_best_of_every_kind_of_number_is_kept(run_config, tmp_path, scores):
    def loop(config):
        for step, score in enumerate(scores):
            train.report({"m": score}, folder_with(f"{config}/{step}", "file"), checkpoint_dir_name=str(step))

    kept = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="m")
    result = fit(loop, run_config(checkpoint_config=kept), workers=0, config=str(tmp_path / "user"))
    assert [os.path.basename(one.path) for one, _ in result.best_checkpoints] == ["3", "0"]
    assert os.path.basename(result.get_best_checkpoint("m", "max").path) == "0"
    assert os.path.basename(result.get_best_checkpoint("m", "min").path) == "3"


def test_integers_are_reduced_exactly(run_config):
    def loop(config):
        large = train.get_context().get_world_rank() == 0
        for reduce in ("max", "min", "sum"):
            train.report({"m": 2**63 + 5 if large else 3, "large": 2**70 if large else 1, "flag": large}, reduce=reduce)

    rows = fit(loop, run_config(), workers=2, config={}).metrics_dataframe.to_dict("records")
    assert [row["m"] for row in rows] == [2**63 + 5, 3, 2**63 + 8]
    assert all(row["large"] == 2**70 and row["flag"] for row in rows)


def test_nothing_reported_is_none(run_config):
    result = fit(lambda: None, run_config())
    assert result.metrics is None and result.metrics_dataframe is None and result.checkpoint is None


def test_results_can_be_made_by_hand(tmp_path):
    frame = pandas.DataFrame([{"a": 1}])
    best = [(Checkpoint(tmp_path), {"a": 1})]
    result = Result(
        metrics={"a": 1}, checkpoint=best[0][0], error=None, path=str(tmp_path), metrics_dataframe=frame, best_checkpoints=best
    )
    assert result.metrics == {"a": 1} and result.metrics_dataframe is frame and result.best_checkpoints == best
    assert result.filesystem.type_name == "local" and result.return_value is None
    shown = f"checkpoint=Checkpoint(filesystem=local, path={tmp_path})"
    assert repr(result) == f"Result(\n  metrics={{'a': 1}},\n  path='{tmp_path}',\n  filesystem='local',\n  {shown}\n)"
    assert result.get_best_checkpoint("a", "max") == best[0][0]
    with pytest.raises(RuntimeError, match='Invalid metric name "b": no kept checkpoint of .* has it; there is: a'):
        result.get_best_checkpoint("b", "max")
    failed = Result({"a": 1}, None, ValueError("x"), str(tmp_path))
    assert repr(failed).startswith("Result(\n  error='ValueError',\n  metrics=")
    assert isinstance(failed.error, ValueError) and failed.metrics_dataframe is None and failed.best_checkpoints is None
    with pytest.raises(TypeError):
        Result(metrics={})


def test_a_result_made_by_hand_has_the_best_checkpoint_of_one_that_was_read(run_config, tmp_path):
    reports = [
        {"loss": math.nan, "e": {"acc": 0.1}, "count": 2**80, "mixed": "none"},
        {"loss": 2.0, "e": {"acc": 0.5}, "count": 2, "mixed": 1, "shape": (1, 2), "of_class": {0: 0.5}},
        {"loss": 1, "e": {"acc": 0.3}, "count": 3},
        {"loss": 2, "e": 4, "count": 1},
    ]

    def loop(config):
        for step, metrics in enumerate(reports):
            train.report(metrics, folder_with(f"{config}/{step}", "file"))

    read = fit(loop, run_config(name="run"), workers=0, config=str(tmp_path / "user"))
    kept = [(Checkpoint(tmp_path / str(step)), metrics) for step, metrics in enumerate(reports)]
    by_hand = Result(metrics=None, checkpoint=None, error=None, path=str(tmp_path), best_checkpoints=kept)
    assert by_hand.get_best_checkpoint("loss", "max") == kept[1][0]
    for metric in ("loss", "e/acc", "count", "mixed", "of_class/0"):
        for mode in ("max", "min"):
            best = [
                [checkpoint for checkpoint, _ in result.best_checkpoints].index(result.get_best_checkpoint(metric, mode))
                for result in (read, by_hand)
            ]
            assert best[0] == best[1], (metric, mode)
    for metric, mode, message in [
        ("b", "max", r'Invalid metric name "b": no kept checkpoint of .* has it; there is: count, e, loss, mixed, of_class, shape$'),
        ("shape", "max", r'Invalid metric name "shape": no kept checkpoint of .* has it as a number other than NaN; there is'),
        ("loss", "highest", r"Result.get_best_checkpoint.mode is .*highest.*max"),
    ]:
        for result in (read, by_hand):
            with pytest.raises(ValueError, match=message):
                result.get_best_checkpoint(metric, mode)
    with pytest.raises(RuntimeError, match='"a": no kept checkpoint of .* has it; there is: nothing'):
        Result({"a": 1}, None, None, str(tmp_path)).get_best_checkpoint("a", "max")


PLAIN = [
    {"__pickled__": "x"},
    {"__pickled__": ["$list", {"__pickled__": 1}]},
    {"a": [{"__pickled__": "x"}], "__pickled__": "y"},
    ["$pickled", "x"],
    ["$list", ["$tuple", 1], {"$keys": [1], "$pickled": "x"}],
    {"$keys": ["a"]},
    [2**64 - 1, -(2**63), math.inf, True, None, "x"],
]
PICKLED = [2**64, [-(2**63) - 1], (1, "x"), {1: 2}, ["$tuple", (1, 2)]]


@pytest.mark.parametrize("value", [*PLAIN, *PICKLED])
def test_a_return_value_that_looks_like_a_mark_comes_back(value):
    kept = json.loads(json.dumps(_values.encoded(value)))
    assert _values.decoded(kept, trusted=True) == value
    assert _values.decoded(kept, trusted=False) == (value if value in PLAIN else None)


def test_a_return_value_in_the_former_form_is_unpickled_for_its_driver_only():
    former = {"__pickled__": base64.b64encode(pickle.dumps((1, "x"))).decode()}
    assert _values.decoded(former, trusted=True) == (1, "x")
    assert _values.decoded(former, trusted=False) is None


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_returns_what_looks_like_a_mark(run_config, workers):
    value = {"__pickled__": "x"}
    result = fit(lambda: value, run_config(name="run"), workers=workers)
    assert result.return_value == value and Result.from_path(result.path).return_value == value


def test_tensors_without_data_are_returned(run_config):
    returned = fit(lambda: {"empty": torch.empty(3, device="meta"), "full": torch.ones(2)}, run_config()).return_value
    assert returned["empty"].is_meta and returned["empty"].shape == (3,) and returned["full"].tolist() == [1, 1]


def test_why_a_value_cannot_be_returned_is_said():
    class Refuses:
        def __reduce__(self):
            raise ValueError("not today")

    with pytest.raises(ValueError, match=r"cannot be pickled: ValueError: not today; what cannot be pickled is the entry 'a'"):
        _values.encoded({"a": Refuses()})


def test_reported_checkpoints_can_be_made_by_hand(tmp_path):
    status = ReportedCheckpointStatus.COMMITTED
    one = ReportedCheckpoint(checkpoint=Checkpoint(tmp_path), metrics={"a": 1}, status=status)
    assert one.metrics == {"a": 1} and one == ReportedCheckpoint(Checkpoint(tmp_path), {"a": 1}, status)


def test_a_checkpoints_folder_need_not_be_there_yet(tmp_path):
    checkpoint = Checkpoint(tmp_path / "later")
    assert checkpoint.path == str(tmp_path / "later")
    with pytest.raises(OSError, match="later"):
        checkpoint.to_directory()
    (tmp_path / "later").mkdir()
    with checkpoint.as_directory() as folder:
        assert folder == str(tmp_path / "later")


def test_a_run_without_a_name_makes_one_and_keeps_it(tmp_path):
    one, other = RunConfig(storage_path=tmp_path), RunConfig(storage_path=tmp_path)
    assert one.name and one.name != other.name
    assert os.path.isabs(RunConfig().storage_path)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_second_fit_continues_the_run(tmp_path, workers):
    def loop(config):
        checkpoint = train.get_checkpoint()
        train.report({"starts": 1 + (checkpoint is not None)}, folder_with(config, "file"))

    trainer = TorchTrainer(
        loop,
        train_loop_config=str(tmp_path / "user"),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(storage_path=tmp_path / "results"),
    )
    first, second = trainer.fit(), trainer.fit()
    assert first.path == second.path and os.path.basename(first.path) == trainer.run_config.name
    assert (first.metrics, second.metrics) == ({"starts": 1}, {"starts": 2})
    assert len(second.best_checkpoints) == 2


def test_a_name_may_be_a_path_below_the_storage_path(tmp_path):
    def loop(config):
        train.report({}, folder_with(config, "file"))

    result = fit(loop, RunConfig(name="digits/wide", storage_path=tmp_path / "results"), config=str(tmp_path / "user"))
    assert result.path == str(tmp_path / "results/digits/wide")
    assert Result.from_path(result.path).checkpoint == result.checkpoint
    for name in ("../out", "/tmp/out", "a//b", "a/"):
        with pytest.raises(ValueError, match="RunConfig.name"):
            RunConfig(name=name)


def test_results_and_errors_can_be_copied_and_sent(run_config):
    def loop():
        train.report({"n": 1}, Checkpoint.from_dict({"n": 1}))
        return {"z": 1, "a": {"y": [2], "b": 3}}

    result = fit(loop, run_config())
    assert dataclasses.asdict(result)["metrics"] == {"n": 1}
    for copied in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert copied == result and copied.uri == result.uri
        assert copied.metrics_history == result.metrics_history and copied.checkpoint.to_dict()["n"] == 1
    folder = result.path
    sent = pickle.dumps(result)
    shutil.rmtree(folder)
    assert pickle.loads(sent).metrics == {"n": 1}, "the folder may be gone"

    def failing():
        raise ValueError("no such row")

    with pytest.raises(train.WorkerGroupError) as failure:
        fit(failing, run_config(name="failing"))
    copied = pickle.loads(pickle.dumps(failure.value))
    assert str(copied) == str(failure.value) and copied.result.path == failure.value.result.path
    assert isinstance(copied.worker_failures[0], ValueError)


def test_dicts_of_the_return_value_keep_their_order(run_config):
    def loop():
        return {"z": 1, "a": {"y": [2, {"d": 0, "c": 0}], "b": 3}, "__pickled__": "text"}

    returned = fit(loop, run_config()).return_value
    assert json.dumps(returned) == json.dumps(loop())

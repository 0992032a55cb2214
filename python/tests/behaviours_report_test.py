"""Behaviours 34 to 49: report(), checkpoints and their retention, validation, where they are kept, who is waited for."""

import math
import os
import shutil
import signal
import time

import pytest

import paceline.train as train
from behaviours import checkpoint_of_rank, fit, proved_by, start_driver, wait_for_line
from paceline.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    FailureConfig,
    Result,
    UserCallback,
    ValidationConfig,
    ValidationTaskConfig,
)
from paceline.train.torch import TorchConfig

SYNC, ASYNC, NO_UPLOAD = CheckpointUploadMode.SYNC, CheckpointUploadMode.ASYNC, CheckpointUploadMode.NO_UPLOAD


def text_of(checkpoint):
    """What the files of ranks hold, by their order."""
    names = sorted(name for name in os.listdir(checkpoint.path) if name.startswith("rank_"))
    return [open(os.path.join(checkpoint.path, name)).read() for name in names]


def test_34_one_ranks_checkpoint_is_enough_and_metrics_are_rank_zeros(run_config, tmp_path):
    def loop(config):
        rank = train.get_context().get_world_rank()
        train.report({"rank": rank})  # metrics alone: nobody is waited for
        if rank == 0:
            open(os.path.join(config["scratch"], "reported"), "w").close()
        else:
            while not os.path.exists(os.path.join(config["scratch"], "reported")):
                time.sleep(0.01)
        train.report({"rank": rank}, checkpoint_of_rank(config["scratch"], "second") if rank == 1 else None)

    result = fit(loop, run_config(), config={"scratch": str(tmp_path)})
    ((checkpoint, metrics),) = result.best_checkpoints
    assert text_of(checkpoint) == ["second"] and metrics == {"rank": 0}


def test_35_files_of_all_ranks_are_one_checkpoint_with_a_name_of_ones_own(run_config, tmp_path):
    def loop(config):
        rank = train.get_context().get_world_rank()
        files = {f"rank_{rank}.txt": str(rank), "of_both.txt": str(rank)}
        train.report({}, checkpoint_of_rank(config["scratch"], "a", files))
        train.report({}, checkpoint_of_rank(config["scratch"], "b"), checkpoint_dir_name=("mine", "else")[rank])

    result = fit(loop, run_config(), config={"scratch": str(tmp_path)})
    (first, _), (second, _) = result.best_checkpoints
    assert text_of(first) == ["0", "1"] and os.path.basename(first.path) == "checkpoint_000001"
    assert open(os.path.join(first.path, "of_both.txt")).read() == "0"  # the lowest rank's
    assert os.path.basename(second.path) == "mine" and text_of(second) == ["b", "b"]


def in_place(name, text):
    """A checkpoint in the run's own folder."""
    folder = os.path.join(train.get_context().get_storage(), name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"rank_{train.get_context().get_world_rank()}.txt"), "w") as file:
        file.write(text)
    return Checkpoint(folder)


def test_36_ways_to_upload_in_any_mix_keep_the_order_of_reports(run_config, tmp_path):
    pairs = [(one, other) for one in (SYNC, ASYNC, NO_UPLOAD) for other in (SYNC, ASYNC, NO_UPLOAD)]

    def loop(config):
        rank = train.get_context().get_world_rank()
        latest = []
        for n, pair in enumerate(pairs):
            name = f"report_{n}"
            mode = pair[rank]
            make = in_place if mode is NO_UPLOAD else lambda name, text: checkpoint_of_rank(config["scratch"], name)
            train.report({"n": n}, make(name, name), checkpoint_dir_name=name, checkpoint_upload_mode=mode)
            if (checkpoint := train.get_checkpoint()) is not None:
                latest.append(int(checkpoint.path.rpartition("_")[2]))
        kept = train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
        return [latest == sorted(latest), [one.metrics["n"] for one in kept]]

    result = fit(loop, run_config(), config={"scratch": str(tmp_path)})
    assert result.return_value == [True, list(range(9))]
    texts = [text_of(checkpoint) for checkpoint, _ in result.best_checkpoints]
    assert texts == [[f"report_{n}"] * 2 for n in range(9)]


def test_37_the_local_folder_goes_as_the_way_says_and_never_with_the_run(run_config, tmp_path):
    def loop(config):
        checkpoints = []
        for n, (mode, delete) in enumerate([(SYNC, None), (SYNC, True), (ASYNC, None), (ASYNC, False)]):
            checkpoints.append(checkpoint_of_rank(config["scratch"], str(n)))
            train.report({}, checkpoints[-1], checkpoint_upload_mode=mode, delete_local_checkpoint_after_upload=delete)
        train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
        return [os.path.exists(checkpoint.path) for checkpoint in checkpoints]

    assert fit(loop, run_config(), workers=1, config={"scratch": str(tmp_path)}).return_value == [True, False, False, True]

    def around_the_run():
        folder = os.path.dirname(train.get_context().get_storage())
        train.report({}, Checkpoint(folder), delete_local_checkpoint_after_upload=True)

    with pytest.raises(train.WorkerGroupError, match="which would be deleted with it"):
        fit(around_the_run, run_config(name="run"), workers=1)
    assert (tmp_path / "results/run/journal.jsonl").exists()


@pytest.mark.parametrize("mode", [SYNC, ASYNC], ids=["sync", "async"])
def test_38_an_upload_that_fails_fails_the_attempt_with_its_cause(run_config, tmp_path, mode):
    def upload(checkpoint, dir_name):
        raise OSError("the bucket is gone")

    def loop(config):
        checkpoint = checkpoint_of_rank(config["scratch"], str(train.get_context().get_attempt()))
        train.report({}, checkpoint, checkpoint_upload_mode=mode, checkpoint_upload_fn=upload)
        train.collective.barrier()

    with pytest.raises(train.WorkerGroupError, match="the bucket is gone"):
        fit(loop, run_config(failure_config=FailureConfig(max_failures=1)), config={"scratch": str(tmp_path)})
    assert list(tmp_path.glob("2_of_*"))  # it was tried again


def test_39_a_function_that_uploads_must_return_a_checkpoint_in_the_run(run_config, tmp_path):
    def loop(config):
        checkpoint = checkpoint_of_rank(config["scratch"], "a")
        train.report({}, checkpoint, checkpoint_upload_fn=lambda checkpoint, name: config["value"] or checkpoint)

    for value, said in (("path", "must return a `paceline.train.Checkpoint`; it has returned a value of type str"), (None, "not a folder right below the run's")):
        scratch = tmp_path / str(value)
        with pytest.raises(train.WorkerGroupError, match=said):
            fit(loop, run_config(), workers=1, config={"scratch": str(scratch), "value": value})


def test_40_files_that_are_not_uploaded_must_be_in_the_run(run_config, tmp_path):
    def loop(config):
        train.report({}, checkpoint_of_rank(config["scratch"], "a"), checkpoint_upload_mode=NO_UPLOAD)

    with pytest.raises(train.WorkerGroupError, match="or keep them where they are and report a small checkpoint"):
        fit(loop, run_config(), workers=1, config={"scratch": str(tmp_path)})


SCORES = [{"s": 3}, {"s": math.nan}, {}, {"s": 5}, {"s": -math.inf}, {"s": 5}, {"s": 4}]


@pytest.mark.parametrize(
    ("order", "kept"),
    [("max", [6, 4, 7, 1, 5, 3, 2]), ("min", [5, 1, 7, 6, 4, 3, 2])],
)
def test_41_the_best_are_kept_and_always_the_latest(run_config, tmp_path, order, kept):
    def loop(config):
        for n, metrics in enumerate(SCORES):
            train.report({"nested": metrics}, checkpoint_of_rank(config["scratch"], f"{config['keep']}_{n}"))

    for keep in (None, 2):
        retention = CheckpointConfig(num_to_keep=keep, checkpoint_score_attribute="nested/s", checkpoint_score_order=order)
        result = fit(loop, run_config(checkpoint_config=retention), workers=1, config={"scratch": str(tmp_path), "keep": keep})
        numbers = [int(checkpoint.path[-6:]) for checkpoint, _ in reversed(result.best_checkpoints)]
        assert numbers == kept[:keep]
        on_disk = {name for name in os.listdir(result.path) if name.startswith("checkpoint_")}
        assert on_disk == {f"checkpoint_{n:06}" for n in {*numbers, 7}}
    proved_by("paceline/checkpoint/retention_test.cpp Retention.OrdersNanMissingTiesAndInfinities")


class ReadsTheFolder(UserCallback):
    def __init__(self):
        self.seen = []

    def after_report(self, run_context, metrics, checkpoint):
        # Where this lags behind there are later ones already.
        kept = [kept for kept, _ in Result.from_path(run_context.path).best_checkpoints]
        self.seen.append(checkpoint in kept and len(kept) > len(self.seen))


def test_42_the_folder_is_whole_after_each_report_and_damage_is_named(run_config, tmp_path):
    def loop(config):
        for n in range(3):
            train.report({"n": n}, checkpoint_of_rank(config["scratch"], f"{train.get_context().get_attempt()}_{n}"))

    reader = ReadsTheFolder()
    config = {"scratch": str(tmp_path)}
    result = fit(loop, run_config(name="run", callbacks=[reader]), workers=1, config=config)
    assert reader.seen == [True, True, True]
    shutil.rmtree(result.checkpoint.path)
    assert [metrics["n"] for _, metrics in Result.from_path(result.path).best_checkpoints] == [0, 1]
    with pytest.raises(RuntimeError, match='knows the checkpoint .*checkpoint_000003.*resume_from_checkpoint = ".*_000002"'):
        fit(loop, run_config(name="run"), workers=1, config=config)
    left = Checkpoint(f"{result.path}/checkpoint_000002")
    again = fit(lambda: train.get_checkpoint().path, run_config(name="run"), workers=1, resume_from_checkpoint=left)
    assert again.return_value.endswith("checkpoint_000002")
    (tmp_path / "results/run/journal.jsonl").write_text('{"something": "else"}\n')
    with pytest.raises((RuntimeError, ValueError), match="journal.jsonl is damaged in line 1"):
        Result.from_path(result.path)
    assert fit(lambda: train.get_checkpoint().path, run_config(name="run"), workers=1).return_value.endswith("_000002")
    assert "damaged in line 1" in (tmp_path / "results/run/logs/controller.log").read_text()


def test_43_a_crash_between_record_and_deletion_leaves_no_reference_to_nothing():
    proved_by("paceline/checkpoint/publish_sweep_test.cpp PublishSweep.LeavesTheOldStateOrTheNewOneWhole",
              "paceline/checkpoint/fault_test.cpp PublishFaults.AKillWhileDeletingLeavesTheCheckpointWholeOrGone")  # fmt: skip


def test_44_restarts_and_runs_of_the_same_name_go_on_from_the_latest_checkpoint(run_config, tmp_path):
    def loop(config):
        context = train.get_context()
        rank, attempt = context.get_world_rank(), context.get_attempt()
        checkpoint = train.get_checkpoint()
        train.report({"start": text_of(checkpoint)[0] if checkpoint else "nothing", "rank": rank}, reduce="max")
        train.report({}, checkpoint_of_rank(config["scratch"], f"attempt_{attempt}"))
        if attempt == 1 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        train.collective.barrier()

    settings = {"name": "run", "failure_config": FailureConfig(max_failures=1)}
    fit(loop, run_config(**settings), config={"scratch": str(tmp_path)})
    result = fit(loop, run_config(**settings), config={"scratch": str(tmp_path)})
    history = result.metrics_history.to_pylist()
    starts = [(row["attempt"], row["rank"], row["start"]) for row in history if row["start"]]
    assert sorted(starts) == [
        (attempt, rank, start) for attempt, start in ((1, "nothing"), (2, "attempt_1"), (3, "attempt_2")) for rank in (0, 1)
    ]


def judge(checkpoint, **settings):
    """A validation that does what the settings of its report say."""
    if settings.get("sleep"):
        time.sleep(settings["sleep"])
    if settings.get("raises"):
        raise ValueError("cannot be judged")
    if not_a_dict := settings.get("returns"):
        return not_a_dict
    return {"score": settings["score"]}


def validate(**settings):
    return ValidationTaskConfig(fn_kwargs=settings, timeout_s=settings.get("timeout"))


def test_45_reported_checkpoints_come_when_published_or_when_validated(run_config, tmp_path):
    def loop(config):
        train.report({"n": 0})  # without a checkpoint: nothing that could be waited for
        train.report({"n": 1}, checkpoint_of_rank(config["scratch"], "a"), validation=validate(score=7, sleep=1))
        committed = train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
        early = train.get_all_reported_checkpoints(timeout_s=0.01)
        validated = train.get_all_reported_checkpoints(CheckpointConsistencyMode.VALIDATED)
        return [[(one.status.name, one.metrics) for one in kept] for kept in (committed, early, validated)]

    pending, validated = ("PENDING_VALIDATION", {"n": 1}), ("VALIDATED", {"n": 1, "score": 7})
    result = fit(loop, run_config(), config={"scratch": str(tmp_path)}, validation_config=ValidationConfig(judge))
    assert result.return_value == [[pending], [pending], [validated]]


def test_46_validations_rank_checkpoints_anew_and_fail_without_touching_training(run_config, tmp_path):
    def loop(config):
        for n, settings in enumerate([
            {"score": 1}, {"score": 3}, {"score": 2}, {"raises": True}, {"returns": "text"},
            {"score": 9, "sleep": 60, "timeout": 0.5},
        ]):  # fmt: skip
            train.report({"n": n, "score": 0}, checkpoint_of_rank(config["scratch"], str(n)), validation=validate(**settings))
        return [(one.metrics["n"], one.status.name) for one in train.get_all_reported_checkpoints()]

    retention = CheckpointConfig(num_to_keep=5, checkpoint_score_attribute="score")
    result = fit(loop, run_config(checkpoint_config=retention), workers=1, config={"scratch": str(tmp_path)},
                 validation_config=ValidationConfig(judge, max_in_flight=2))  # fmt: skip
    # Those without a score of their own have that of their report, the newest last.
    assert [metrics["n"] for _, metrics in result.best_checkpoints] == [4, 5, 0, 2, 1]
    assert dict(map(tuple, result.return_value)) == {
        1: "VALIDATED", 2: "VALIDATED", 0: "VALIDATED", 5: "VALIDATION_TIMEOUT", 4: "VALIDATION_FAILED"
    }  # fmt: skip


ABORTED = """
    import os, sys, time
    import paceline.train as train
    from paceline.train.torch import TorchTrainer

    def loop():
        os.makedirs(sys.argv[1] + "/files")
        train.report({"n": 1}, train.Checkpoint(sys.argv[1] + "/files"), validation=True)

    def slow(checkpoint):
        print("validating", flush=True)
        time.sleep(1000)

    settings = train.RunConfig(storage_path=sys.argv[1] + "/results", name="run")
    try:
        TorchTrainer(loop, run_config=settings, validation_config=train.ValidationConfig(slow)).fit()
    except KeyboardInterrupt:
        pass
"""


def test_46_a_validation_of_a_run_that_was_stopped_is_made_by_the_next(run_config, tmp_path):
    driver = start_driver(tmp_path, ABORTED, tmp_path)
    wait_for_line(driver, "validating")
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=60)
    assert driver.returncode == 0
    validation = ValidationConfig(lambda checkpoint: {"score": 5})
    result = fit(lambda: None, run_config(name="run"), validation_config=validation)
    assert [metrics for _, metrics in result.best_checkpoints] == [{"n": 1, "score": 5}]


def test_47_storage_that_cannot_be_written_is_refused_before_anything_starts(run_config, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((OSError, train.TrainingFailedError, ValueError), match="file"):
        fit(lambda: None, run_config(storage_path=str(tmp_path / "file")))
    # On S3, and with a filesystem instead of a URI: full/behaviours_storage_test.py.
    proved_by("tests/robustness/storage_test.cpp StorageFaults.StorageThatCannotBeWrittenIsRefusedBeforeAnythingStarts")


def test_48_a_rank_that_does_not_come_is_named(run_config):
    def loop():
        if train.get_context().get_world_rank() == 0:
            train.collective.barrier()
        else:
            time.sleep(1000)

    with pytest.raises(train.WorkerGroupError, match=r"barrier\(\) failed.*timed out after 2.*ranks that have not come: 1"):
        fit(loop, run_config(), torch_config=TorchConfig(timeout_s=2))
    proved_by("paceline/policy/hang_detection_test.cpp HangWatch.NamesASlowRankOnceInAGroup",
              "paceline/policy/hang_detection_test.cpp Hang.ARankThatTheOthersWaitForIsNamedWithTheCollective")  # fmt: skip


def test_49_a_rank_of_another_group_cannot_meet_this_one(run_config):
    """Nobody says how large the group is at a barrier; what an earlier group has said is not heard in the next."""

    def loop():
        for _ in range(20):
            train.collective.barrier()
        return train.collective.broadcast_from_rank_zero(train.get_context().get_world_size())

    assert [fit(loop, run_config(name="run"), workers=workers).return_value for workers in (2, 3)] == [2, 3]
    proved_by("paceline/controller/message_identity_test.cpp RunTest.EveryMessageCarriesItsIdentity",
              "paceline/policy/decide_test.cpp Failure.EventsOfAnEarlierGroupChangeNothing")  # fmt: skip

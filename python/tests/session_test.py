"""report() and its kin: uploads, checkpoints, validation, callbacks, collectives, runs in the calling process."""

import ctypes
import os
import signal
import threading

import pytest

import paceline.train as train
from paceline.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    ReportedCheckpointStatus,
    Result,
    ScalingConfig,
    UserCallback,
    ValidationConfig,
    ValidationTaskConfig,
)
from paceline.train.torch import TorchTrainer


def fit(loop, settings, workers=2, config=None, **arguments):
    scaling = ScalingConfig(num_workers=workers)
    return TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=settings, **arguments).fit()


def folder_with(scratch, name, text):
    """A new folder with a file of this rank."""
    rank = train.get_context().get_world_rank()
    folder = os.path.join(scratch, f"{name}_{rank}")
    os.makedirs(folder)
    with open(os.path.join(folder, f"rank_{rank}.txt"), "w") as file:
        file.write(text)
    return folder


def test_what_ranks_hand_over_is_merged_and_read_back(run_config, tmp_path):
    def loop(config):
        train.report({"n": 1}, Checkpoint.from_directory(folder_with(config["scratch"], "a", "hello")))

    result = fit(loop, run_config(), config={"scratch": str(tmp_path)})
    with result.checkpoint.as_directory() as folder:
        assert sorted(name for name in os.listdir(folder) if name.startswith("rank")) == ["rank_0.txt", "rank_1.txt"]
    copy = result.checkpoint.to_directory(tmp_path / "copy")
    assert open(os.path.join(copy, "rank_1.txt")).read() == "hello"
    again = Result.from_path(result.path + "/")
    assert again.checkpoint == result.checkpoint and again.metrics == {"n": 1} and again.error is None


def test_every_way_to_upload(run_config, tmp_path):
    def loop(config):
        scratch = config["scratch"]
        asynchronous = folder_with(scratch, "async", "1")
        train.report({"n": 1}, Checkpoint(asynchronous), checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
        kept = folder_with(scratch, "sync", "2")
        train.report({"n": 2}, Checkpoint(kept), checkpoint_dir_name="mine")
        storage = train.get_context().get_storage()
        there = os.path.join(storage, "there")
        if train.get_context().get_world_rank() == 0:
            os.makedirs(there)
            open(os.path.join(there, "file"), "w").close()
            train.report({"n": 3}, Checkpoint(there), "there", CheckpointUploadMode.NO_UPLOAD, True)  # as in Ray: no effect
        else:
            train.report({"n": 3}, checkpoint_dir_name="there")

        def upload(checkpoint, dir_name):
            target = os.path.join(storage, dir_name)
            os.makedirs(target, exist_ok=True)
            with checkpoint.as_directory() as folder:
                for name in os.listdir(folder):
                    os.rename(os.path.join(folder, name), os.path.join(target, name))
            return Checkpoint(target)

        own = Checkpoint(folder_with(scratch, "own", "4"))
        train.report({"n": 4}, own, checkpoint_upload_fn=upload)
        all_of_them = train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
        return [os.path.exists(asynchronous), os.path.exists(kept), [one.metrics["n"] for one in all_of_them]]

    result = fit(loop, run_config(), config={"scratch": str(tmp_path)})
    assert result.return_value == [False, True, [1, 2, 3, 4]]
    assert [os.path.basename(checkpoint.path) for checkpoint, _ in result.best_checkpoints][1:3] == ["mine", "there"]


def test_metrics_that_hold_tensors_are_refused(run_config):
    def loop():
        import torch

        with pytest.raises(ValueError, match=r"metrics\['loss'\] is of type torch.Tensor"):
            train.report({"loss": torch.ones(1)})
        with pytest.raises(TypeError, match=r"metrics\['eval'\]\['f'\] is of type function"):
            train.report({"eval": {"f": loop}})
        train.report({"mean": float(train.get_context().get_world_rank())}, reduce="mean")

    assert fit(loop, run_config()).metrics == {"mean": 0.5}


def test_numpy_numbers_are_numbers(run_config):
    def loop():
        import numpy

        train.report({"a": numpy.float32(0.5), "b": numpy.int64(3), "c": [numpy.bool_(True)]})

    assert fit(loop, run_config(), workers=1).metrics == {"a": 0.5, "b": 3, "c": [True]}


def test_retention_keeps_the_best(run_config, tmp_path):
    def loop(config):
        for step, score in enumerate([1, 5, 3, 4]):
            train.report({"score": score}, Checkpoint(folder_with(config["scratch"], f"s{step}", "x")))

    keep = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score")
    result = fit(loop, run_config(checkpoint_config=keep), config={"scratch": str(tmp_path)})
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [4, 5]
    assert result.get_best_checkpoint("score", "min") == result.checkpoint
    with pytest.raises(RuntimeError, match="score"):
        result.get_best_checkpoint("accuracy", "max")
    assert list(result.metrics_dataframe["score"]) == [1, 5, 3, 4]


def look_at(checkpoint, factor, offset=0):
    with checkpoint.as_directory() as folder:
        return {"seen": factor * len(os.listdir(folder)) + offset}


def test_checkpoints_are_validated_on_the_side(run_config, tmp_path):
    def loop(config):
        checkpoint = Checkpoint(folder_with(config["scratch"], "a", "x"))
        train.report({"n": 1}, checkpoint, validation=ValidationTaskConfig(fn_kwargs={"offset": 1000}))
        (one,) = train.get_all_reported_checkpoints()
        return [one.status.name, one.metrics["seen"] > 1000]

    validation = ValidationConfig(look_at, ValidationTaskConfig(fn_kwargs={"factor": 1}))
    result = fit(loop, run_config(), config={"scratch": str(tmp_path)}, validation_config=validation)
    assert result.return_value == [ReportedCheckpointStatus.VALIDATED.name, True]


class Notes(UserCallback):
    def __init__(self):
        self.notes = []

    def after_start(self, run_context):
        self.notes.append(("start", run_context.attempt, run_context.world_size))

    def after_report(self, run_context, metrics, checkpoint):
        self.notes.append(("report", [one["n"] for one in metrics], checkpoint is not None))
        if metrics[0]["n"] == 3:
            run_context.stop("enough")

    def after_exception(self, run_context, worker_exceptions):
        self.notes.append(("exception", sorted(worker_exceptions)))

    def after_finish(self, run_context, state, error, stop_reason):
        self.notes.append(("finish", state, stop_reason))


def test_callbacks_see_the_run_and_may_stop_it(run_config):
    def loop():
        n = 0
        while True:
            n += 1
            train.report({"n": n})
            train.collective.barrier()

    callback = Notes()
    result = fit(loop, run_config(callbacks=[callback]))
    assert result.state == "finished" and result.stop_reason == "enough"
    assert result.stop_cause is train.StopCause.CALLBACK and result.failure_kind is None
    assert callback.notes[:2] == [("start", 1, 2), ("report", [1, 1], False)]
    assert callback.notes[-1] == ("finish", "finished", "enough")


def test_a_callback_that_raises_is_a_controller_error(run_config):
    class Broken(UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            raise ValueError("the callback is broken")

    with pytest.raises(train.ControllerError, match="the callback is broken"):
        fit(lambda: train.report({"n": 1}), run_config(callbacks=[Broken()]))


def test_rank_zeros_value_reaches_all(run_config):
    def loop():
        value = train.collective.broadcast_from_rank_zero({"set": {train.get_context().get_world_rank()}})
        train.report({"ok": int(value == {"set": {0}})}, reduce="min")

    assert fit(loop, run_config()).metrics == {"ok": 1}


def test_no_workers_run_in_the_calling_process(run_config, tmp_path):
    seen = []

    def loop(config):
        seen.append(os.getpid())
        train.report({"n": 1}, Checkpoint(folder_with(config["scratch"], "a", "x")))
        return {"set": {1}}

    result = fit(loop, run_config(), workers=0, config={"scratch": str(tmp_path)})
    assert seen == [os.getpid()]
    assert result.metrics == {"n": 1} and result.return_value == {"set": {1}} and result.checkpoint is not None


def test_a_folder_without_a_run_is_a_runtime_error(tmp_path):
    with pytest.raises(RuntimeError, match="no journal"):
        Result.from_path(tmp_path)
    with pytest.raises(RuntimeError, match="Experiment folder .* doesn't exist"):
        Result.from_path(tmp_path / "nowhere")


def test_metrics_keep_their_names_in_the_dataframe(run_config):
    def loop():
        for n in range(2):
            train.report({"rank": n + 10, "time": "late", "metrics": {"loss": n}})

    result = fit(loop, run_config(), workers=2)
    frame = result.metrics_dataframe
    assert list(frame["rank"]) == [10, 11] and list(frame["time"]) == ["late"] * 2
    assert list(frame["metrics"]) == [{"loss": 0}, {"loss": 1}] and set(frame.columns) == {"rank", "time", "metrics"}
    assert sorted(result.metrics_history["rank"].to_pylist()) == [0, 0, 1, 1]


def test_reduced_metrics_are_in_the_table_too(run_config):
    result = fit(lambda: train.report({"x": float(train.get_context().get_world_rank())}, reduce="mean"), run_config())
    assert result.metrics == {"x": 0.5} and list(result.metrics_dataframe["x"]) == [0.5]


def test_variables_of_the_run_are_those_of_a_loop_in_the_calling_process(run_config, monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "the driver's")
    monkeypatch.delenv("A_NUMBER", raising=False)
    variables = {"A_VARIABLE": "the run's", "A_NUMBER": 3}
    native = ctypes.CDLL(None).getenv  # what C++ sees
    native.restype = ctypes.c_char_p

    def loop():
        found = [os.environ[name] for name in variables]
        train.report({"n": 1}, Checkpoint.from_dict({}), validation=ValidationTaskConfig())
        return found + [native(name.encode()).decode() for name in variables]

    def validate(checkpoint):
        return {"as_in_the_loop": os.environ["A_VARIABLE"] == "the run's"}

    settings = run_config(worker_runtime_env={"env_vars": variables})
    result = fit(loop, settings, workers=0, validation_config=ValidationConfig(fn=validate))
    assert result.return_value == ["the run's", "3"] * 2 and result.best_checkpoints[-1][1]["as_in_the_loop"]
    assert os.environ["A_VARIABLE"] == "the driver's" and "A_NUMBER" not in os.environ
    assert native(b"A_VARIABLE") == b"the driver's" and native(b"A_NUMBER") is None


def test_what_a_loop_in_the_calling_process_does_not_use_is_named_once(run_config, capfd):
    settings = run_config(
        worker_runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        failure_config=train.FailureConfig(max_failures=2, heartbeat_timeout_s=5),
        debug_config=train.DebugConfig(hang_action="fail"),
        log_quota_mb=1,
    )
    fit(lambda: train.report({"n": 1}), settings, workers=0)
    (notice,) = [line for line in capfd.readouterr().err.splitlines() if "has no effect" in line]
    for name in ("FailureConfig.max_failures", "heartbeat_timeout_s", "DebugConfig.hang_action", "log_quota_mb", "OMP_NUM_THREADS"):
        assert name in notice, notice
    assert "log_file_mb" not in notice
    fit(lambda: train.report({"n": 1}), run_config(), workers=0)
    assert "has no effect" not in capfd.readouterr().err


@pytest.mark.parametrize("talk", [
    lambda: train.report({"n": 1}),
    lambda: train.collective.barrier(),
    lambda: train.get_all_reported_checkpoints(),
])
def test_a_process_that_the_loop_has_forked_cannot_speak_for_the_rank(run_config, talk):
    def loop():
        child = os.fork()
        if child == 0:
            try:
                talk()
            except train.UsageError as error:
                os._exit(0 if "was called in a process that the train loop has forked" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0

    assert fit(loop, run_config()).state == "finished"


def test_threads_of_a_loop_may_report_at_the_same_time(run_config):
    def loop():
        def reports():
            for _ in range(500):
                train.report({"n": 1})

        threads = [threading.Thread(target=reports) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    result = fit(loop, run_config(), workers=1)
    assert result.metrics_history["report"].to_pylist() == list(range(1, 1001))


def test_sigterm_stops_a_loop_in_the_calling_process(run_config):
    def loop():
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            train.report({"n": 1})

    former = signal.getsignal(signal.SIGTERM)
    child = os.fork()  # which SIGTERM would end otherwise
    if child == 0:
        try:
            result = fit(loop, run_config(), workers=0)
            stopped = (result.state, result.stop_cause, result.exit_code)
            os._exit(0 if stopped == ("aborted", train.StopCause.TERMINATED, 143) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert signal.getsignal(signal.SIGTERM) == former


def test_a_checkpoint_that_is_a_path_says_how_to_make_one():
    with pytest.raises(ValueError, match=r"Checkpoint.from_directory\(folder\) makes one, is \"/tmp\"; allowed: a Checkpoint"):
        train.report({"loss": 1}, "/tmp")


def test_modes_are_members_of_their_enumerations():
    with pytest.raises(ValueError, match="upload_mode is \"SYNC\"; allowed: one of CheckpointUploadMode.SYNC, Check"):
        train.report({"loss": 1}, checkpoint_upload_mode="SYNC")
    with pytest.raises(ValueError, match="consistency_mode is null; allowed: one of CheckpointConsistencyMode.COMM"):
        train.get_all_reported_checkpoints(None)


@pytest.mark.parametrize("metrics", ["loss", None, [("loss", 1)]])
def test_metrics_are_a_dictionary(metrics):
    with pytest.raises(ValueError, match="report\\(\\)'s metrics is .*; allowed: a dictionary"):
        train.report(metrics)

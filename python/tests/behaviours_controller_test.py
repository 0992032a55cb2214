"""Behaviours 16 to 28: states, restarts and budgets, callbacks, ends of drivers and workers."""

import os
import re
import resource
import signal
import threading
import time

import pytest

import paceline.train as train
from behaviours import ROOT, checkpoint_of_rank, fit, proved_by, start_driver, wait_for_line
from paceline.train import CheckpointUploadMode, FailureConfig, Result, UserCallback

DECIDE = "paceline/policy/decide_test.cpp"
START = "paceline/policy/decide_start_test.cpp"


def transitions(result):
    with open(os.path.join(result.path, "logs/controller.log")) as log:
        return re.findall(r" state: (\w+) -> (\w+)", log.read())


def times_called(scratch):
    """How often this has been called with `scratch`, over processes."""
    name = os.path.join(scratch, "calls")
    with open(name, "a") as file:
        file.write("x")
    return os.path.getsize(name)


def test_16_only_the_transitions_that_are_drawn_happen(run_config, tmp_path):
    def loop(config):
        if train.get_context().get_world_rank() == 0 and times_called(config["scratch"]) < 3:
            raise ValueError("not yet")

    failures = FailureConfig(max_failures=2)
    result = fit(loop, run_config(failure_config=failures), config={"scratch": str(tmp_path)})
    happened = transitions(result)[1:]  # the first is the opening
    assert happened == [("initializing", "scheduling"), ("scheduling", "running")] + 2 * [
        ("running", "restarting"), ("restarting", "scheduling"), ("scheduling", "running")
    ] + [("running", "shutting_down"), ("shutting_down", "finished")]  # fmt: skip
    drawing = (ROOT / "docs/architecture/run_states.md").read_text()
    assert set(happened) <= set(re.findall(r"^  (\w+) --> (\w+)", drawing, re.MULTILINE))
    proved_by("paceline/policy/simulation_test.cpp Simulation.RandomSchedulesKeepEveryPromise",
              "paceline/policy/simulation_test.cpp RunStates.TheDocumentDrawsTheTable")  # fmt: skip


# What a worker's interpreter does first: here in the process that workers are forked from.
FAILS_ONCE = """
import os
if mark := os.environ.get("MARK_OF_A_BROKEN_START"):
    try:
        os.mkdir(mark)
    except FileExistsError:
        pass
    else:
        os._exit(3)
"""
FAILS = """
import os
os._exit(3)
"""


def starts_with(tmp_path, text):
    """Environment of workers whose interpreters do this first."""
    folder = tmp_path / "start"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    path = os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])
    return {"env_vars": {"PYTHONPATH": path, "MARK_OF_A_BROKEN_START": str(tmp_path / "mark")}}


def test_18_a_failed_start_is_tried_again_as_often_as_allowed(run_config, tmp_path):
    settings = run_config(
        worker_runtime_env=starts_with(tmp_path, FAILS), failure_config=FailureConfig(controller_failure_limit=1)
    )
    with pytest.raises(train.TrainingFailedError, match="could not be started") as caught:
        fit(lambda: None, settings)
    assert transitions(caught.value.result).count(("scheduling", "rescheduling")) == 1
    assert FailureConfig().controller_failure_limit == -1
    proved_by(f"{START} Start.TimeoutReschedulesInTheSameAttemptWithNewProcesses",
              f"{START} Start.FailuresUseTheirOwnBudgetAndAreCountedExactly")  # fmt: skip


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_19_a_run_is_tried_again_exactly_as_often_as_allowed(run_config, tmp_path, limit):
    def loop(config):
        times_called(config["scratch"])
        raise ValueError("always")

    with pytest.raises(train.WorkerGroupError, match="always"):
        settings = run_config(failure_config=FailureConfig(max_failures=limit))
        fit(loop, settings, workers=1, config={"scratch": str(tmp_path)})
    assert (tmp_path / "calls").stat().st_size == limit + 1


def test_19_without_a_limit_it_is_tried_until_it_works(run_config, tmp_path):
    def loop(config):
        if times_called(config["scratch"]) < 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return train.get_context().get_attempt()

    settings = run_config(failure_config=FailureConfig(max_failures=-1))
    assert fit(loop, settings, workers=1, config={"scratch": str(tmp_path)}).return_value == 4


def test_20_each_kind_of_failure_has_its_own_budget(run_config, tmp_path):
    def loop(config):
        if times_called(config["scratch"]) == 1:
            raise ValueError("once")
        return train.get_context().get_attempt()

    budgets = FailureConfig(max_failures=1, controller_failure_limit=1)
    settings = run_config(worker_runtime_env=starts_with(tmp_path, FAILS_ONCE), failure_config=budgets)
    result = fit(loop, settings, workers=1, config={"scratch": str(tmp_path)})
    happened = transitions(result)
    assert happened.count(("scheduling", "rescheduling")) == 1 and happened.count(("running", "restarting")) == 1
    assert result.return_value == 2  # a start that is tried again is no attempt more
    proved_by(f"{DECIDE} Preemption.HasItsOwnBudget")


# In a process that has just been forked as a worker.
DIES_IN_THE_LAUNCH_WINDOW = """
import os, sys
def die():
    mark = os.environ["MARK_OF_A_BROKEN_START"]
    if "paceline._worker" in sys.modules and not os.path.exists(mark):
        os.mkdir(mark)
        os.kill(os.getpid(), 9)
os.register_at_fork(after_in_child=die)
"""


def test_21_death_before_the_train_loop_is_tried_again_without_max_failures(run_config, tmp_path):
    environment = starts_with(tmp_path, DIES_IN_THE_LAUNCH_WINDOW)
    result = fit(lambda: "trained", run_config(worker_runtime_env=environment, failure_config=FailureConfig(max_failures=0)))
    assert result.return_value == "trained" and (tmp_path / "mark").exists()
    proved_by(f"{START} Start.DeathInTheLaunchWindowIsAStartFailure")


class DiesWhereItIsUnpacked:
    """Kills the first process in which it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __setstate__(self, state):
        self.__dict__ = state
        try:
            self.mark.mkdir()
        except FileExistsError:
            return
        os.kill(os.getpid(), 9)


def test_21_that_goes_for_a_worker_that_has_its_rank(run_config, tmp_path):
    cargo = DiesWhereItIsUnpacked(tmp_path / "unpacked")
    result = fit(lambda: str(cargo.mark), run_config(failure_config=FailureConfig(max_failures=0)))
    assert result.return_value == str(tmp_path / "unpacked")


class Broken(UserCallback):
    """Raises in one hook; notes which were called."""

    def __init__(self, hook=""):
        self.hook = hook
        self.called = []

    def _call(self, hook):
        self.called.append(hook)
        if hook == self.hook:
            raise RuntimeError("the callback is broken")

    def after_report(self, run_context, metrics, checkpoint):
        self._call("after_report")

    def after_exception(self, run_context, worker_exceptions):
        self._call("after_exception")

    def after_finish(self, run_context, state, error, stop_reason):
        self._call("after_finish")


def raises():
    raise KeyError("the original error")


def test_22_a_callback_that_raises_ends_the_run_and_hides_no_error(run_config):
    with pytest.raises(train.ControllerError, match="Broken::after_report.*the callback is broken"):
        fit(lambda: train.report({"n": 1}), run_config(callbacks=[Broken("after_report")]))
    with pytest.raises(train.WorkerGroupError, match="the original error"):
        fit(raises, run_config(callbacks=[Broken("after_exception")]))
    proved_by(f"{DECIDE} Callbacks.TheirFailureEndsTheRunButHidesNothing")


def test_23_a_callback_that_raises_after_the_end_changes_nothing(run_config, capfd):
    assert fit(lambda: "done", run_config(callbacks=[Broken("after_finish")])).return_value == "done"
    assert "the callback is broken" in capfd.readouterr().err
    with pytest.raises(train.WorkerGroupError, match="the original error"):
        fit(raises, run_config(callbacks=[Broken("after_finish")]))
    proved_by(f"{DECIDE} Finish.AFailedLastPublicationIsAFailure")


def test_24_all_callbacks_are_called_whatever_the_others_do(run_config):
    broken, sound = Broken("after_report"), Broken()
    with pytest.raises(train.ControllerError):
        fit(lambda: train.report({"n": 1}), run_config(callbacks=[broken, sound]), workers=1)
    assert "after_report" in sound.called and sound.called[-1] == "after_finish" == broken.called[-1]
    proved_by("paceline/policy/decide_validation_test.cpp Validation.AStopWhileTheEndWaitsLeavesItToTheNextController")


DRIVER = """
    import sys, time
    import paceline.train as train
    from paceline.train.torch import TorchTrainer

    def loop():
        print("training", flush=True)
        while train.get_context().get_attempt() == 1:
            time.sleep(0.01)

    TorchTrainer(loop, run_config=train.RunConfig(storage_path=sys.argv[1], name="run")).fit()
"""


def test_25_a_run_whose_driver_was_killed_can_be_continued(run_config, tmp_path):
    driver = start_driver(tmp_path, DRIVER, tmp_path / "results")
    wait_for_line(driver, "training")
    driver.kill()
    driver.communicate(timeout=60)  # ends when nobody has the pipe any more: no worker is left
    assert Result.from_path(tmp_path / "results/run").state == "running"  # as far as its folder knows
    continued = fit(lambda: train.get_context().get_attempt(), run_config(name="run"))
    assert continued.return_value == 2 and continued.state == "finished"


def test_26_a_driver_that_waits_uses_no_processor_and_finds_a_stopped_worker(run_config, tmp_path):
    def loop(config):
        if times_called(config["scratch"]) == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(2)

    def used():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    fit(lambda: None, run_config())
    failures = FailureConfig(max_failures=1, heartbeat_timeout_s=2)
    before = used()
    result = fit(loop, run_config(failure_config=failures), workers=1, config={"scratch": str(tmp_path)})
    assert used() - before < 1
    assert ("running", "restarting") in transitions(result)


def test_27_workers_that_do_not_end_are_ended(run_config):
    def loop():
        if train.get_context().get_world_rank() == 0:
            raise ValueError("the cause")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            time.sleep(1000)

    start = time.monotonic()
    with pytest.raises(train.WorkerGroupError, match="the cause"):
        fit(loop, run_config())
    assert time.monotonic() - start < 30


def test_28_a_run_ends_when_uploads_and_threads_of_reports_have_ended(run_config, tmp_path):
    def loop(config):
        go_on = threading.Event()

        def upload(checkpoint, dir_name):
            go_on.wait()
            target = os.path.join(train.get_context().get_storage(), dir_name)
            checkpoint.to_directory(target)
            return train.Checkpoint(target)

        mode = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "checkpoint_upload_fn": upload}
        train.report({"n": 1}, checkpoint_of_rank(config["scratch"], "slow"), **mode)
        threading.Timer(0.5, go_on.set).start()

    result = fit(loop, run_config(), config={"scratch": str(tmp_path)})
    assert {"rank_0.txt", "rank_1.txt"} <= set(os.listdir(result.checkpoint.path))

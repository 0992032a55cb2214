"""Behaviours 29 to 33: what errors say."""

import pickle
import sys
import threading
import types

import pytest

import paceline.train as train
from behaviours import checkpoint_of_rank, fit, proved_by
from paceline.train import CheckpointUploadMode, PreemptionInfo


def error_of(loop, settings, workers=2, **arguments):
    with pytest.raises(train.WorkerGroupError) as caught:
        fit(loop, settings, workers, **arguments)
    return caught.value


def test_29_the_same_error_is_shown_once_and_long_ones_keep_both_ends(run_config):
    def differs_in_numbers():
        train.collective.barrier()
        raise ValueError(f"bad value {id(object())} in row {train.get_context().get_world_rank() * 7}")

    # All three ranks, unless one was too slow on a busy machine to raise before its group was ended.
    error = error_of(differs_in_numbers, run_config(), workers=3)
    assert str(error).count("bad value") == 2  # the text, and the source line
    assert all(f"row {rank * 7}" in str(failure) for rank, failure in error.worker_failures.items())

    def differs():
        train.collective.barrier()
        raise ValueError(["the first", "the second"][train.get_context().get_world_rank()])

    error = error_of(differs, run_config())
    assert all(["the first", "the second"][rank] in str(error) for rank in error.worker_failures)

    def long():
        raise ValueError("begin " + "x" * 100000 + " end")

    text = str(error_of(long, run_config(), workers=1))
    assert len(text) < 5000 and "begin x" in text and "characters left out" in text and "x end" in text
    proved_by("paceline/policy/failure_text_test.cpp FailureText.TheSameErrorOnManyRanksIsShownOnce",
              "paceline/policy/failure_text_test.cpp FailureText.DifferentExitCodesAreDifferentErrors")  # fmt: skip


def test_30_tracebacks_have_the_users_frames_and_threads_errors_surface(run_config, tmp_path):
    def inner():
        raise KeyError("column")

    def loop():
        inner()

    text = str(error_of(loop, run_config()))
    assert text.index("at inner") < text.index("at loop") and "behaviours_errors_test.py" in text
    assert "paceline/train" not in text.split("All that")[0] and "_worker.py" not in text

    def uploads(config):
        reported = threading.Event()

        def upload(checkpoint, dir_name):
            reported.wait()  # a report that is under way would throw it itself
            raise OSError("the upload's thread has failed")

        mode = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "checkpoint_upload_fn": upload}
        train.report({"n": 1}, checkpoint_of_rank(config["scratch"], "a"), **mode)
        reported.set()

    text = str(error_of(uploads, run_config(), config={"scratch": str(tmp_path)}))
    assert "OSError: the checkpoint of report 1 could not be uploaded: the upload's thread has failed\n" in text
    assert "at upload (" in text and "error_already_set" not in text


def test_31_what_cannot_be_pickled_or_stored_is_named(run_config):
    lock = threading.Lock()

    def captures():
        with lock:
            pass

    with pytest.raises(TypeError, match="the variable 'lock' of .*captures"):
        fit(captures, run_config())
    with pytest.raises(TypeError, match="the entry 'lock'"):
        fit(lambda config: None, run_config(), config={"lock": lock})
    text = str(error_of(lambda: train.report({"a": {"lock": threading.Lock()}}), run_config(), workers=1))
    assert "metrics['a']['lock'] is of type lock, which cannot be kept" in text and "report numbers, texts" in text
    text = str(error_of(lambda: [1, {"lock": threading.Lock()}], run_config(), workers=1))
    assert "the return value" in text and "what cannot be pickled is the entry 'lock'" in text

    class Unpicklable(Exception):
        def __init__(self, text):
            super().__init__(text)
            self.lock = threading.Lock()

    def raises():
        raise Unpicklable("says what it says")

    assert "Unpicklable: says what it says" in str(error_of(raises, run_config(), workers=1))


def test_32_a_module_that_workers_do_not_have_is_an_error_at_once(run_config, monkeypatch):
    module = types.ModuleType("only_in_the_driver")
    module.__spec__ = object()  # to cloudpickle it looks as if it could be imported
    exec("def loop(): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_in_the_driver", module)
    assert "No module named 'only_in_the_driver'" in str(error_of(module.loop, run_config()))

    def loop():
        import also_not_there  # noqa: F401

    text = str(error_of(loop, run_config()))
    assert "ModuleNotFoundError: No module named 'also_not_there'" in text and "import also_not_there" in text


def test_33_exceptions_survive_pickling(run_config):
    def raises():
        raise ValueError("text")

    errors = [
        error_of(raises, run_config()),
        train.ControllerError(RuntimeError("text")),
        train.PreemptionError(PreemptionInfo(1000, {"a": [0]}), drain_timed_out=True),
        train.NCCLHangError("text", {0: RuntimeError("text")}),
        train.ConfigError("text"),
        train.UsageError("text"),
        train.StorageError("text"),
        train.CollectiveError("text"),
    ]
    errors[0].result = None  # a result refers to its run's folder, not to a value
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)
        failures = [vars(one).get("worker_failures", {}) for one in (error, again)]
        assert [[(rank, str(one)) for rank, one in each.items()] for each in failures][0] == [
            (rank, str(one)) for rank, one in failures[1].items()
        ]
    assert pickle.loads(pickle.dumps(errors[2])).preemption_info.preempted_ranks == [0]

"""Users' classes whose own methods raise: the run has its result all the same, and the error that is shown is the user's."""

import dataclasses
import fractions
import json
import os
import random
import sys

import pytest

import paceline.train as train
from paceline.train import ScalingConfig, UserCallback, ValidationConfig
from paceline.train.torch import TorchTrainer


def trainer_of(loop, settings, workers, **arguments):
    return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=settings, **arguments)


class Unloadable:
    """What `command` raises as soon as it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return exec, (self.command,)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("command", ["raise OSError('%s')", "raise SystemExit('%s')"])
def test_a_return_value_that_cannot_be_unpickled_is_none(run_config, capfd, workers, command):
    def loop():
        train.report({"loss": 1.0})
        return Unloadable(command % workers)

    result = trainer_of(loop, run_config(), workers).fit()
    assert result.metrics == {"loss": 1.0} and result.return_value is None
    assert "Result.return_value is None, since unpickling it fails" in capfd.readouterr().err


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("workers", [0, 1])
def test_return_values_may_be_deep_or_contain_themselves(run_config, workers):
    assert trainer_of(lambda: nested(150), run_config(), workers).fit().return_value == nested(150)

    def itself():
        value = []
        value.append(value)
        return value

    value = trainer_of(itself, run_config(), workers).fit().return_value
    assert value[0] is value


class NoText(Exception):
    def __str__(self):
        raise ValueError("no text")


class NoneAsText(Exception):
    def __str__(self):
        return None


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    number: int


class Exits(Exception):
    def __reduce__(self):
        return sys.exit, (5,)


class Interrupts(Exception):
    def __reduce__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("make, said", [
    (NoText, "NoText"),
    (NoneAsText, "NoneAsText"),
    (lambda: ValueError("the file bad\udcffname"), "ValueError: the file bad\\udcffname"),
    (Exits, "Exits"),
    (Interrupts, "Interrupts"),
])
def test_an_exception_that_resists_is_still_the_users(run_config, workers, make, said):
    def loop():
        raise make()

    with pytest.raises(train.WorkerGroupError) as caught:
        trainer_of(loop, run_config(), workers).fit()
    assert said in str(caught.value) and "raise make()" in str(caught.value) and "_worker.py" not in str(caught.value)
    assert caught.value.result.state == "errored"


def test_a_frozen_exception_is_named(run_config):
    def loop():
        raise Frozen(3)

    with pytest.raises(train.WorkerGroupError, match="failed with Frozen: 3"):  # Python itself cannot unpickle it
        train.DataParallelTrainer(loop, run_config=run_config()).fit()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_validation_that_raises_is_told_in_its_own_words(run_config, tmp_path, capfd, workers):
    def validate(checkpoint):
        raise ValueError("the file bad\udcffname")

    def loop():
        (tmp_path / "ours").mkdir()
        train.report({"a": 1}, checkpoint=train.Checkpoint(str(tmp_path / "ours")), validation=True)

    settings = run_config(quiet=False)
    trainer_of(loop, settings, workers, validation_config=ValidationConfig(validate)).fit()
    shown = capfd.readouterr().err
    assert "ValueError: the file bad\\udcffname" in shown and "pybind11" not in shown


@pytest.mark.parametrize("workers", [0, 1])
def test_after_start_that_raises_ends_the_run(run_config, workers):
    class Fails(UserCallback):
        def after_start(self, run_context):
            raise ValueError("the file bad\udcffname")

    with pytest.raises(train.ControllerError, match="after_start failed: ValueError: the file bad") as caught:
        trainer_of(lambda: None, run_config(callbacks=[Fails()]), workers).fit()
    assert caught.value.result.state == "errored"


# A child that went on as the worker itself waited for ever for what the agent would tell it.
@pytest.mark.parametrize("end, code", [(lambda: sys.exit(0), 0), (lambda: sys.exit(3), 3), (lambda: None, 0), (lambda: 1 / 0, 1)])
def test_a_child_that_the_loop_forks_ends_where_the_loop_does(run_config, end, code):
    def loop():
        child = os.fork()
        if child == 0:
            return end()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert trainer_of(loop, run_config(), 1).fit().return_value == code


class OnlyWrites:
    def write(self, text):
        pass


def test_standard_output_need_not_flush(run_config, monkeypatch):
    monkeypatch.setattr(sys, "stdout", OnlyWrites())
    assert trainer_of(lambda: 7, run_config(), 1).fit().return_value == 7


def test_integers_of_any_size_are_metrics(run_config):
    values = {
        "large": 10**5000,
        "negative": -(10**5000),
        "fraction": fractions.Fraction(1, 10**5000),
        "whole": fractions.Fraction(10**5000),
        "range": range(0, 10**30),
    }
    result = trainer_of(lambda: train.report(values), run_config(), 1).fit()
    assert result.metrics == values
    assert train.Result.from_path(result.path).metrics == values


def test_metrics_that_contain_themselves_are_refused_by_name(run_config):
    def loop():
        value = {}
        value["itself"] = value
        with pytest.raises(ValueError, match="metrics is nested too deeply, or contains itself"):
            train.report(value)
        with pytest.raises(TypeError, match=r"metrics\['a'\] is of type Stubborn, which cannot be kept"):
            train.report({"a": Stubborn()})

    trainer_of(loop, run_config(), 0).fit()


class Stubborn:
    def __reduce__(self):
        sys.exit(3)


def test_texts_without_a_form_in_utf8_are_in_the_table(run_config):
    result = trainer_of(lambda: train.report({"name": "a\udcff"}), run_config(), 1).fit()
    assert result.metrics == {"name": "a\udcff"}
    assert list(result.metrics_dataframe["name"]) == ["a\\udcff"]


class Equal(random.Random):
    def __eq__(self, other):
        return True


def test_generators_may_have_no_hash_and_states_may_be_lists(run_config):
    def loop():
        Equal().random()
        state = json.loads(json.dumps(random.getstate()))
        wanted = random.random()
        random.setstate((state[0], tuple(state[1]), state[2]))
        again = random.random()
        try:
            random.setstate((state[0], list(state[1]), state[2]))
        except TypeError as error:  # of Python's own
            assert "unhashable" not in str(error)
        return wanted == again

    assert trainer_of(loop, run_config(), 1).fit().return_value

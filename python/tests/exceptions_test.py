"""What a worker's exception is in the driver: one of its own class."""

import traceback

import pytest

import paceline.train as train
from paceline.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
from paceline.train.torch import TorchTrainer


class NoSuchDigit(ValueError):
    pass


class CannotBePickled(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raises_from_another():
    try:
        raise KeyError("the cause")
    except KeyError as cause:
        raise NoSuchDigit("eleven", 11) from cause


def raises_what_cannot_be_unpickled():
    raise CannotBePickled("one", "two")


class Collect(UserCallback):
    def __init__(self):
        self.errors = []

    def after_exception(self, run_context, worker_exceptions):
        self.errors.append(worker_exceptions)


def failure_of(loop, run_config, workers=2, **settings):
    trainer = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=run_config(**settings))
    with pytest.raises(train.WorkerGroupError) as caught:
        trainer.fit()
    return caught.value


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_keeps_its_class_and_its_arguments(run_config, workers):
    def loop():
        if workers > 1:
            train.collective.barrier()
        raises_from_another()

    collect = Collect()
    error = failure_of(loop, run_config, workers, callbacks=[collect])
    assert error.worker_failures
    for failure in [*error.worker_failures.values(), *collect.errors[0].values()]:
        assert isinstance(failure, NoSuchDigit) and failure.args == ("eleven", 11)
    # The other may have been stopped before it raised.
    text = "".join(traceback.format_exception(next(iter(error.worker_failures.values()))))
    assert "in raises_from_another" in text and "KeyError: 'the cause'" in text


def test_is_text_where_it_cannot_be_unpickled(run_config):
    error = failure_of(raises_what_cannot_be_unpickled, run_config, workers=1)
    assert type(error.worker_failures[0]) is RuntimeError
    assert "CannotBePickled" in str(error.worker_failures[0]) and "one and two" in str(error.worker_failures[0])


def test_is_that_of_the_attempt(run_config):
    def loop():
        if train.get_context().get_attempt() == 1:
            raise NoSuchDigit("first")
        raise KeyError("second")

    collect = Collect()
    settings = {"callbacks": [collect], "failure_config": FailureConfig(max_failures=1)}
    error = failure_of(loop, run_config, workers=1, **settings)
    assert isinstance(error.worker_failures[0], KeyError)
    assert [type(one[0]) for one in collect.errors] == [NoSuchDigit, KeyError]


def test_of_a_process_that_ends_is_text(run_config):
    def loop():
        import os

        os._exit(3)

    failure = failure_of(loop, run_config, workers=1).worker_failures[0]
    assert type(failure) is RuntimeError and "code 3" in str(failure)

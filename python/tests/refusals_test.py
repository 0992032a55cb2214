"""What settings refuse, and with which words: the field, the value, what is allowed."""

import dataclasses
import datetime
import inspect
import json
import re
from decimal import Decimal

import pytest

import paceline.train as train
from paceline.train import ConfigError, DataParallelTrainer
from paceline.train.torch import TorchConfig, TorchTrainer


@pytest.mark.parametrize("make_wrong", [
    lambda: train.ScalingConfig(num_worker=2),
    lambda: train.ScalingConfig(2, num_worker=2),
    lambda: dataclasses.replace(train.ScalingConfig(), num_worker=2),
])
def test_a_misspelt_setting_is_guessed(make_wrong):
    with pytest.raises(TypeError, match="ScalingConfig has no argument 'num_worker'; did you mean 'num_workers'?"):
        make_wrong()


@pytest.mark.parametrize("trainer", [TorchTrainer, DataParallelTrainer])
def test_a_misspelt_argument_of_a_trainer_is_guessed(trainer):
    with pytest.raises(TypeError, match=f"{trainer.__name__} has no argument 'run_cofig'; did you mean 'run_config'?"):
        trainer(lambda: None, run_cofig=train.RunConfig())


def test_the_beginning_of_an_argument_suggests_all_that_begin_so():
    with pytest.raises(TypeError, match="did you mean 'train_loop_per_worker' or 'train_loop_config'"):
        TorchTrainer(train_loop=print)


def test_a_setting_that_is_like_no_other_is_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        train.RunConfig(colour="red")
    assert "num_workers" in inspect.signature(train.ScalingConfig).parameters


AN_HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize(("make_wrong", "said"), [
    (lambda: train.FailureConfig(max_failures="3"), 'FailureConfig.max_failures is "3"; allowed: an integer, at least -1'),
    (lambda: train.FailureConfig(max_failures=1.5), "FailureConfig.max_failures is 1.5; allowed: an integer, at least -1"),
    (lambda: train.FailureConfig(max_failures=Decimal(3)), "FailureConfig.max_failures is Decimal('3'); allowed: an integer"),
    (lambda: train.FailureConfig(max_failures=2**70), "FailureConfig.max_failures is an integer of more than 64 bits"),
    (lambda: train.FailureConfig(max_failures=[object()]), "FailureConfig.max_failures[0] is a object; allowed: numbers"),
    (lambda: train.FailureConfig(max_preemption_failures=-2), "FailureConfig.max_preemption_failures is -2; allowed: at least -1"),
    (lambda: train.FailureConfig(preemption_grace_s="5"), 'preemption_grace_s is "5"; allowed: a number, at least 0'),
    (lambda: train.CheckpointConfig(num_to_keep="2"), 'CheckpointConfig.num_to_keep is "2"; allowed: an integer, at least 1'),
    (lambda: train.ScalingConfig(num_workers=True), "ScalingConfig.num_workers is true; allowed: an integer, at least 0"),
    (lambda: train.ScalingConfig(use_gpu=[]), "ScalingConfig.use_gpu is []; allowed: true or false"),
    (lambda: train.ScalingConfig(resources_per_worker={"GPU": 1}), "`use_gpu` is False but `GPU` was found in"),
    (lambda: train.ScalingConfig(resources_per_worker={"memory": "9"}), 'is {"memory":"9"}; allowed: "CPU", "GPU", "memory" in bytes'),
    (lambda: train.ScalingConfig(resources_per_worker={"TPU": 1}), 'is {"TPU": 1}; allowed: no "TPU"'),
    (lambda: train.ScalingConfig(use_tpu=True), "Paceline has no TPU support"),
    (lambda: train.ScalingConfig(use_gpu=True, use_tpu=True), "ScalingConfig: Cannot specify both use_gpu and use_tpu"),
    (lambda: train.ScalingConfig(num_workers=2, label_selector=[{"zone": "a"}]), "it must be the same length as there are workers, 2"),
    (lambda: train.ScalingConfig(label_selector="a"), 'ScalingConfig.label_selector is "a"; allowed: labels by name'),
    (lambda: train.ScalingConfig(elastic_resize_monitor_interval_s=-1), "interval_s is -1; allowed: a number, at least 0"),
    (lambda: train.ScalingConfig(accelerator_type=4), "ScalingConfig.accelerator_type is 4; allowed: a string"),
    (lambda: train.RunConfig(name=3), "RunConfig.name is 3; allowed: a name"),
    (lambda: train.RunConfig(name="../run"), 'RunConfig.name is "../run"; allowed: a name, or names joined by'),
    (lambda: train.RunConfig(name=AN_HOUR), "RunConfig.name is datetime.timedelta(seconds=3600); allowed: a name"),
    (lambda: train.RunConfig(max_time="1h"), 'RunConfig.max_time is "1h"; allowed: a number, more than 0'),
    (lambda: train.RunConfig(max_time=AN_HOUR), "RunConfig.max_time is datetime.timedelta(seconds=3600); allowed: a number"),
    (lambda: train.RunConfig(quiet="yes"), 'RunConfig.quiet is "yes"; allowed: true or false'),
    (lambda: train.RunConfig(worker_runtime_env={"env_vars": {"A": None}}), "['A'] is null; allowed: a string"),
    (lambda: train.LoggingConfig(10), 'LoggingConfig.log_level is 10; allowed: one of "CRITICAL", "DEBUG"'),
    (lambda: train.TrackerConfig("csv", tags={"seed": 1}), 'TrackerConfig.tags is {"seed":1}; allowed: names with strings'),
    (lambda: train.ValidationConfig(print, max_in_flight=0), "max_in_flight is 0; allowed: an integer, at least 1"),
    (lambda: train.ValidationConfig(print, task_config={"timeout_s": 1}), "allowed: a ValidationTaskConfig"),
    (lambda: train.ValidationTaskConfig(fn_kwargs=3), "ValidationTaskConfig.fn_kwargs is 3; allowed: names with values"),
    (lambda: TorchConfig(backend="mpi"), 'TorchConfig.backend is "mpi"; allowed: one of "nccl", "paceline", "gloo", or'),
    (lambda: TorchConfig(timeout_s=AN_HOUR), "TorchConfig.timeout_s is datetime.timedelta(seconds=3600); allowed: a number"),
])  # fmt: skip
def test_settings_of_the_wrong_type_are_named(make_wrong, said):
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        make_wrong()
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(("wrong", "said"), [
    ({"failure_config": 5}, "RunConfig.failure_config is 5; allowed: a FailureConfig"),
    ({"failure_config": {"max_failures": 1}}, 'RunConfig.failure_config is {"max_failures": 1}; allowed: a FailureConfig'),
    ({"failure_config": train.CheckpointConfig()}, "RunConfig.failure_config is CheckpointConfig(num_to_keep=None"),
    ({"checkpoint_config": "all"}, 'RunConfig.checkpoint_config is "all"; allowed: a CheckpointConfig'),
    ({"logging_config": "DEBUG"}, 'RunConfig.logging_config is "DEBUG"; allowed: a LoggingConfig'),
    ({"trackers": ["csv"]}, 'RunConfig.trackers[0] is "csv"; allowed: a TrackerConfig'),
    ({"trackers": "csv"}, 'RunConfig.trackers is "csv"; allowed: a list of TrackerConfig objects'),
    ({"callbacks": print}, "RunConfig.callbacks is <built-in function print>; allowed: a list or a tuple"),
    ({"callbacks": [print]}, "RunConfig.callbacks[0] is <built-in function print>; allowed: objects of classes that"),
    ({"storage_path": 5}, "RunConfig.storage_path is 5; allowed: a string or a path"),
    ({"worker_runtime_env": {"env_vars": ["A"]}}, """['env_vars'] is ["A"]; allowed: names with values"""),
])  # fmt: skip
def test_parts_are_configurations_of_their_own_classes(wrong, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        train.RunConfig(**wrong)


def test_log_levels_are_those_of_python():
    for name, printed in (("notset", "DEBUG"), ("WARN", "WARNING"), ("fatal", "ERROR"), ("CRITICAL", "ERROR")):
        config = train.LoggingConfig(name)
        assert config.log_level == name.upper()
        assert train.RunConfig(logging_config=config)._to_settings()["log_level"] == printed


def test_a_secret_in_a_refused_object_stays_one():
    with pytest.raises(ConfigError) as refused:
        train.RunConfig(failure_config=train.RunConfig(storage_path="s3://key:secret@bucket/runs"))
    assert "secret" not in str(refused.value)


def test_what_has_no_unset_value_is_not_none():
    for wrong in ({"num_workers": None}, {"engine": None}):
        with pytest.raises(ConfigError, match=f"ScalingConfig.{next(iter(wrong))} is None"):
            train.ScalingConfig(**wrong)
    assert train.RunConfig(trackers=None).trackers == []


def test_text_is_no_truth_value():
    with pytest.raises(ConfigError, match='ScalingConfig.use_gpu is "false"; allowed: true or false'):
        train.ScalingConfig(use_gpu="false")


def test_arguments_of_a_trainer_are_named():
    for wrong in ({"scaling_config": {}}, {"run_config": "x"}, {"resume_from_checkpoint": "/x"}):
        name, value = next(iter(wrong.items()))
        with pytest.raises(ConfigError, match=f"{name} is {json.dumps(value)}; allowed: a "):
            DataParallelTrainer(lambda: None, **wrong)

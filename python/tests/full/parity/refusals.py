"""Settings that are refused, with the class of the error; and settings that are not."""

import ray.train
from ray.train import CheckpointConfig, DataConfig, FailureConfig, RunConfig, ScalingConfig, SyncConfig
from ray.train.torch import TorchTrainer

outcome = {}


def two(a, b):
    pass


def none():
    pass


CASES = {
    "workers < 0": lambda: ScalingConfig(num_workers=-1),
    "workers 1.5": lambda: ScalingConfig(num_workers=1.5),
    "workers text": lambda: ScalingConfig(num_workers="2"),
    "range": lambda: ScalingConfig(num_workers=(1, 2)),
    "range of three": lambda: ScalingConfig(num_workers=(1, 2, 3)),
    "range upside down": lambda: ScalingConfig(num_workers=(3, 2)),
    "gpu without use_gpu": lambda: ScalingConfig(num_workers=1, resources_per_worker={"GPU": 1}),
    "use_gpu without gpu": lambda: ScalingConfig(num_workers=1, use_gpu=True, resources_per_worker={"GPU": 0}),
    "gpu and tpu": lambda: ScalingConfig(num_workers=1, use_gpu=True, use_tpu=True),
    "labels of the wrong length": lambda: ScalingConfig(num_workers=2, label_selector=[{"a": "b"}]),
    "trainer_resources": lambda: ScalingConfig(trainer_resources={"CPU": 1}),
    "keep 0": lambda: CheckpointConfig(num_to_keep=0),
    "keep -1": lambda: CheckpointConfig(num_to_keep=-1),
    "order": lambda: CheckpointConfig(checkpoint_score_order="up"),
    "frequency": lambda: CheckpointConfig(checkpoint_frequency=1),
    "at end": lambda: CheckpointConfig(checkpoint_at_end=True),
    "fail_fast": lambda: FailureConfig(fail_fast=True),
    "failures": lambda: FailureConfig(max_failures=-1),
    "failure_config 5": lambda: RunConfig(failure_config=5),
    "failure_config {}": lambda: RunConfig(failure_config={"max_failures": 1}),
    "checkpoint_config all": lambda: RunConfig(checkpoint_config="all"),
    "sync_config": lambda: RunConfig(sync_config=SyncConfig()),
    "verbose": lambda: RunConfig(verbose=1),
    "stop": lambda: RunConfig(stop={"a": 1}),
    "progress_reporter": lambda: RunConfig(progress_reporter=object()),
    "log_to_file": lambda: RunConfig(log_to_file=True),
    "callbacks": lambda: RunConfig(callbacks=[5]),
    "log level": lambda: ray.train.LoggingConfig(log_level="LOUD"),
    "datasets to split": lambda: DataConfig(datasets_to_split="some"),
    "two arguments": lambda: TorchTrainer(two).fit(),
    "metadata": lambda: TorchTrainer(none, metadata={"a": 1}),
    "restore": lambda: TorchTrainer.restore("/nowhere"),
    "can_restore": lambda: TorchTrainer.can_restore("/nowhere"),
    "an unknown setting": lambda: RunConfig(nmae="a"),
}

for name, make in CASES.items():
    try:
        make()
        outcome[name] = "accepted"
    except BaseException as error:
        outcome[name] = next(
            kind.__name__ for kind in (DeprecationWarning, ValueError, TypeError, Exception) if isinstance(error, kind)
        )

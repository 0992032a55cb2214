"""Files next to the program, relative paths, and modules beside it."""

import os
import pathlib
import sys

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}
pathlib.Path("beside.py").write_text("VALUE = 5\n\n\ndef loop():\n    return VALUE + 1\n")
pathlib.Path("data.txt").write_text("data")
sys.path.insert(0, os.path.abspath("."))
import beside  # noqa: E402


def train_func(config):
    sys.path.insert(0, config["folder"])
    import beside

    with open(os.path.join(config["folder"], "data.txt")) as file:
        return [beside.loop(), file.read(), os.access(os.getcwd(), os.W_OK)]


outcome["returned"] = TorchTrainer(
    train_func,
    train_loop_config={"folder": os.path.abspath(".")},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="here", storage_path=os.path.abspath("results")),
).fit().return_value

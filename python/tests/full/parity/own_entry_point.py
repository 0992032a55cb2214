"""A program as it is started by hand: arguments, a guard, ray.init, a failure."""

import os
import pathlib
import subprocess
import sys

outcome = {}
PROGRAM = '''
import argparse
import os

import ray
import ray.train.torch
from ray.train import RunConfig, ScalingConfig


def square(value):
    return value * value


def train_func(config):
    if config["fail"]:
        raise RuntimeError("asked to fail")
    return [square(value) for value in range(3)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", action="store_true")
    arguments = parser.parse_args()
    ray.init(num_cpus=2)
    print("initialized", ray.is_initialized())
    for fail in (False, arguments.fail):
        result = ray.train.torch.TorchTrainer(
            train_func,
            train_loop_config={"fail": fail},
            scaling_config=ScalingConfig(num_workers=1),
            run_config=RunConfig(name=f"own {fail}", storage_path=os.path.abspath("results")),
        ).fit()
        print("returned", result.return_value)
'''
pathlib.Path("program.py").write_text(PROGRAM)

done = subprocess.run([sys.executable, "program.py", "--fail"], capture_output=True, text=True)
outcome["code"] = done.returncode
outcome["said"] = [line for line in done.stdout.splitlines() if line.startswith(("initialized", "returned"))]
outcome["failure"] = "asked to fail" in done.stderr

"""What workers write: print to the driver's standard output, standard error to its standard error."""

import os
import pathlib
import subprocess
import sys

outcome = {}
PROGRAM = '''
import logging
import os
import sys

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_func():
    rank = ray.train.get_context().get_world_rank()
    print("printed by", rank)
    print("parts", 1, sep="-", end="!\\\\n")
    sys.stdout.write(f"written by {rank}\\\\n")
    print("to stderr of", rank, file=sys.stderr)
    os.system(f"echo from a child of {rank}")
    logging.getLogger("mine").warning("warned by %d", rank)


if __name__ == "__main__":
    print("the driver begins")
    TorchTrainer(
        train_func,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="output", storage_path=os.path.abspath("results")),
    ).fit()
    print("the driver ends", flush=True)
'''.replace("\\\\n", "\\n")

pathlib.Path("program.py").write_text(PROGRAM)
done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True)


def count(text, what):
    return sum(what in line for line in text.splitlines())


outcome["code"] = done.returncode
on_stdout = ("printed by 0", "printed by 1", "parts-1!", "written by 0", "from a child of 0", "the driver begins", "the driver ends")
outcome["on stdout"] = {what: count(done.stdout, what) for what in on_stdout}
outcome["on stderr"] = {what: count(done.stderr, what) for what in ("to stderr of 1", "warned by 1")}

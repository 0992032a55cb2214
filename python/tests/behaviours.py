"""What the files of the 60 behaviours share: runs, files of ranks, drivers of their own, and tests of the C++ core.

The behaviours are those that Ray Train's own tests ask of it; behaviours_test.py says what each file holds.
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import paceline.train as train
from paceline.train import Checkpoint, ScalingConfig
from paceline.train.torch import TorchTrainer

ROOT = pathlib.Path(__file__).resolve().parents[2]


def fit(loop, settings, workers=2, config=None, **arguments):
    scaling = ScalingConfig(num_workers=workers)
    return TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=settings, **arguments).fit()


def checkpoint_of_rank(scratch, name, files=None):
    """A checkpoint in a new folder, by default with a file of this rank."""
    rank = train.get_context().get_world_rank()
    folder = os.path.join(scratch, f"{name}_of_{rank}")
    os.makedirs(folder)
    for file, text in (files or {f"rank_{rank}.txt": name}).items():
        with open(os.path.join(folder, file), "w") as opened:
            opened.write(text)
    return Checkpoint.from_directory(folder)


def program(tmp_path, text):
    """The path of a driver of its own."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return path


def start_driver(tmp_path, text, *arguments):
    """Starts a driver; its standard output has its workers' too."""
    return subprocess.Popen(
        [sys.executable, program(tmp_path, text), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_line(driver, text):
    for line in driver.stdout:
        if text in line:
            return line
    raise AssertionError(f"the driver has ended without {text!r}")


def proved_by(*tests):
    """That tests of the C++ core exist: "paceline/policy/decide_test.cpp Failure.CollateralWaitsForItsCause"."""
    for test in tests:
        path, suite, name = re.fullmatch(r"(\S+) (\w+)\.(\w+)", test).groups()
        assert re.search(rf"^TEST(_F|_P)?\({suite}, {name}\)", (ROOT / path).read_text(), re.MULTILINE), test

"""`paceline checkpoint now`: all ranks save at the same step."""

import json
import pathlib
import subprocess
import tempfile
import threading

import pytest

import paceline.train as train
from paceline.train import Checkpoint, ScalingConfig, UserCallback
from paceline.train.torch import TorchTrainer

PROGRAM = pathlib.Path(train.__file__).parents[3] / "paceline/cli/paceline"


def train_loop(config):
    for step in range(1, 100_000):
        checkpoint = None
        if train.checkpoint_requested():
            folder = tempfile.mkdtemp(dir=config["folder"])
            pathlib.Path(folder, f"rank_{train.get_context().get_world_rank()}").write_text(str(step))
            checkpoint = Checkpoint.from_directory(folder)
        train.report({"step": step}, checkpoint)


class Ask(UserCallback):
    """Asks at the first report, and stops the run at the checkpoint."""

    def __init__(self, folder):
        self.folder = folder
        self.thread = None

    def after_report(self, run_context, metrics, checkpoint):
        if self.thread is None:
            self.thread = threading.Thread(target=self.ask)
            self.thread.start()
        if checkpoint is not None:
            run_context.stop("there is a checkpoint")

    def ask(self):
        command = [PROGRAM, "checkpoint", "now", "--json", self.folder]
        self.done = subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_all_ranks_save_when_somebody_asks(run_config, tmp_path):
    ask = Ask(str(tmp_path / "results/asked"))
    result = TorchTrainer(train_loop, train_loop_config={"folder": str(tmp_path)}, scaling_config=ScalingConfig(num_workers=2),
                          run_config=run_config(name="asked", callbacks=[ask])).fit()
    ask.thread.join()
    assert ask.done.returncode == 0, ask.done.stderr
    assert json.loads(ask.done.stdout) == {"run": "asked"}
    with result.checkpoint.as_directory() as folder:
        steps = [int(pathlib.Path(folder, f"rank_{rank}").read_text()) for rank in (0, 1)]
    assert steps[0] == steps[1] <= result.metrics["step"]


def test_outside_a_train_loop_nobody_asks():
    with pytest.raises(RuntimeError, match="checkpoint_requested"):
        train.checkpoint_requested()

"""`paceline profile` of a run whose workers run Python."""

import json
import os
import pathlib
import subprocess
import threading

import paceline.train as train
from paceline.train import ScalingConfig, UserCallback
from paceline.train.torch import TorchTrainer

PROGRAM = pathlib.Path(train.__file__).parents[3] / "paceline/cli/paceline"


def numbers_that_take_a_while(count):
    return sum(i * i for i in range(count))


def train_loop(config):
    step = 0
    while not os.path.exists(config["end"]):
        numbers_that_take_a_while(100_000)
        step += 1
        train.report({"step": step})


class Ask(UserCallback):
    """Asks for a profile at the first report, and ends the training when it is there."""

    def __init__(self, folder, end):
        self.folder, self.end = folder, end
        self.thread = None
        self.done = None

    def after_report(self, run_context, metrics, checkpoint):
        if self.thread is None:
            self.thread = threading.Thread(target=self.ask)
            self.thread.start()

    def ask(self):
        try:
            command = [PROGRAM, "profile", self.folder, "--seconds", "1", "--rank", "1", "--json"]
            self.done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        finally:
            pathlib.Path(self.end).touch()


def test_the_interpreter_and_what_python_lacks_are_told(run_config, tmp_path):
    end = str(tmp_path / "end")
    ask = Ask(str(tmp_path / "results/spins"), end)
    TorchTrainer(train_loop, train_loop_config={"end": end}, scaling_config=ScalingConfig(num_workers=2),
                 run_config=run_config(name="spins", callbacks=[ask])).fit()
    ask.thread.join()
    assert ask.done.returncode == 0, ask.done.stderr
    told = json.loads(ask.done.stdout)
    (profile,) = told["profiles"]
    assert profile["rank"] == 1 and "signal" in profile["ways"]
    assert profile["samples"]["C++"] > 0
    assert any("_PyEval" in one["function"] for one in told["functions"]["C++"]["total"])
    assert os.path.exists(os.path.join(told["folder"], "profile.speedscope.json"))
    if "py-spy" in profile["ways"]:
        assert any(one["function"].startswith("numbers_that_take_a_while") for one in told["functions"]["Python"]["total"])
    else:
        assert any("pip install py-spy" in problem for problem in profile["problems"])

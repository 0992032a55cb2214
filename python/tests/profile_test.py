"""`paceline profile` of a run whose workers run Python."""

import gzip
import json
import os
import pathlib
import subprocess
import threading
import time

import torch

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


def waits_a_while():
    time.sleep(0.02)


def computes_and_waits(config):
    step = 0
    while not os.path.exists(config["end"]):
        numbers_that_take_a_while(100_000)
        waits_a_while()
        step += 1
        train.report({"step": step})


def multiplies(config):
    step = 0
    one = torch.ones(64, 64)
    kept = []
    while not os.path.exists(config["end"]):
        one.mm(one)
        kept = [bytes(100_000) for _ in range(10)]
        step += 1
        if step % 100 == 1:
            train.report({"step": step, "kept": len(kept)})


class Ask(UserCallback):
    """Asks for profiles at the first report, and ends the training when they are there."""

    def __init__(self, folder, end, *kinds):
        self.folder, self.end, self.kinds = folder, end, kinds or ([],)
        self.thread = None
        self.all_done = []

    def after_report(self, run_context, metrics, checkpoint):
        if self.thread is None:
            self.thread = threading.Thread(target=self.ask)
            self.thread.start()

    def ask(self):
        try:
            for kind in self.kinds:
                command = [PROGRAM, "profile", self.folder, "--seconds", "1", "--rank", "1", "--json", *kind]
                self.all_done.append(subprocess.run(command, capture_output=True, text=True, timeout=100))
        finally:
            pathlib.Path(self.end).touch()


def test_the_interpreter_and_what_python_lacks_are_told(run_config, tmp_path):
    end = str(tmp_path / "end")
    ask = Ask(str(tmp_path / "results/spins"), end)
    TorchTrainer(train_loop, train_loop_config={"end": end}, scaling_config=ScalingConfig(num_workers=2),
                 run_config=run_config(name="spins", callbacks=[ask])).fit()
    ask.thread.join()
    (done,) = ask.all_done
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (profile,) = told["profiles"]
    assert profile["rank"] == 1 and "signal" in profile["ways"]
    assert profile["samples"]["C++"] > 0
    assert any("_PyEval" in one["function"] for one in told["functions"]["C++"]["total"])
    assert os.path.exists(os.path.join(told["folder"], "profile.speedscope.json"))
    assert "py-spy" in profile["ways"], profile["problems"]
    assert any(one["function"].startswith("numbers_that_take_a_while") for one in told["functions"]["Python"]["total"])


def test_where_threads_wait_is_told(run_config, tmp_path):
    end = str(tmp_path / "end")
    ask = Ask(str(tmp_path / "results/waits"), end, ["--off-cpu"])
    TorchTrainer(computes_and_waits, train_loop_config={"end": end}, scaling_config=ScalingConfig(num_workers=2),
                 run_config=run_config(name="waits", callbacks=[ask])).fit()
    ask.thread.join()
    (done,) = ask.all_done
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (profile,) = told["profiles"]
    assert profile["rate"] == 49 and "ptrace" in profile["ways"]
    assert any("sleep" in one["function"] for one in told["functions"]["C++"]["own"]), told["functions"]["C++"]["own"]
    assert "py-spy" in profile["ways"], profile["problems"]
    functions = [one["function"] for one in told["functions"]["Python"]["own"]]
    assert any(one.startswith("waits_a_while") for one in functions), functions


def test_operators_and_memory_of_a_live_run(run_config, tmp_path):
    end, timeline = str(tmp_path / "end"), str(tmp_path / "timeline.json.gz")
    ask = Ask(str(tmp_path / "results/multiplies"), end, ["--timeline", "-o", timeline], ["--memory"])
    TorchTrainer(multiplies, train_loop_config={"end": end}, scaling_config=ScalingConfig(num_workers=2),
                 run_config=run_config(name="multiplies", callbacks=[ask])).fit()
    ask.thread.join()
    assert [done.returncode for done in ask.all_done] == [0, 0], [done.stderr for done in ask.all_done]
    operators = {event.get("name") for event in json.loads(gzip.open(timeline).read())["traceEvents"]}
    assert "aten::mm" in operators
    memory = json.loads(ask.all_done[1].stdout)
    (profile,) = memory["profiles"]
    assert profile["unit"] == "bytes"
    assert profile["ways"] == ["memray"], profile["problems"]
    functions = memory["functions"]["Python"]["total"]
    assert any(one["function"].startswith("multiplies (profile_test.py:") for one in functions), functions

"""Paceline over nodes as `make bench` measures it: agents of this machine, each of which is a node to the driver."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))

import torch

import paceline.train
from paceline.train.torch import TorchConfig, TorchTrainer, prepare_model

import workloads
from measurement import arguments, now_ns, print_samples, read_rank, seconds_to_last_rank, write_rank

NODE_TIMEOUT_S = 8.0


@contextlib.contextmanager
def waiting_agents(folder, count):
    """They wait for a run, and afterwards for the next."""
    program = pathlib.Path(paceline.train.__file__).parents[1] / "bin" / "paceline"
    agents = []
    try:
        for number in range(count):
            command = [program, "agent", "--keep", "--token-file", folder / "token", "--name", f"node{number}"]
            agents.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for agent in agents:
            assert "waiting" in agent.stdout.readline()
        yield agents
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait()


def fit(train_loop, options, callbacks=(), **config) -> None:
    """Trains with two workers on two nodes, over Gloo, although this machine is both; `config` reaches the train loop beside
    `scratch`."""
    scratch = str(config.pop("scratch", options.scratch))
    TorchTrainer(
        train_loop,
        train_loop_config={"scratch": scratch} | config,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=paceline.train.ScalingConfig(
            num_workers=2, engine="agents", nodes=2, listen="127.0.0.1:0", token_file=str(pathlib.Path(options.scratch) / "token"),
            placement_strategy="STRICT_SPREAD", threads_per_worker=1, resources_per_worker={"CPU": 1},
        ),
        run_config=paceline.train.RunConfig(
            storage_path=str(pathlib.Path(scratch) / "results"),
            failure_config=paceline.train.FailureConfig(max_failures=1, node_timeout_s=NODE_TIMEOUT_S),
            callbacks=list(callbacks),
            quiet=True,
        ),
    ).fit()


def rank() -> int:
    return paceline.train.get_context().get_world_rank()


def first_line(config):
    write_rank(config["scratch"], rank(), {"now_ns": now_ns()})


def startup_hosts(options) -> None:
    """The second run that the agents serve, and the first."""
    seconds = []
    with waiting_agents(pathlib.Path(options.scratch), 2):
        for number in range(2):
            scratch = pathlib.Path(options.scratch) / f"fit_{number}"
            scratch.mkdir()
            start_ns = now_ns()
            fit(first_line, options, scratch=scratch)
            seconds.append(seconds_to_last_rank(scratch, start_ns))
            time.sleep(3)
    print_samples(seconds[1:], {"Paceline, first `fit()` of a program": seconds[0]})


def report_remote(options) -> None:
    def train_loop(config):
        seconds = []
        for step in range(config["warm_up"] + config["reports"]):
            time.sleep(0.001)
            start = time.monotonic()
            paceline.train.report({"step": step})
            seconds.append(time.monotonic() - start)
        write_rank(config["scratch"], rank(), {"seconds": seconds[config["warm_up"]:]})

    with waiting_agents(pathlib.Path(options.scratch), 2):
        fit(train_loop, options, warm_up=100, reports=options.iterations)
    print_samples([seconds * 1e6 for seconds in read_rank(options.scratch, 0)["seconds"]])


def ddp_step_two_nodes(options) -> None:
    def train_loop(config):
        torch.set_num_threads(1)
        model = prepare_model(workloads.wide_model())
        write_rank(config["scratch"], rank(), {"milliseconds": workloads.train_wide_model(model, config["steps"])})

    with waiting_agents(pathlib.Path(options.scratch), 2):
        fit(train_loop, options, steps=options.iterations)
    print_samples(read_rank(options.scratch, 0)["milliseconds"])


class NotesFailure(paceline.train.UserCallback):
    def __init__(self):
        self.noticed_ns = 0

    def after_exception(self, run_context, worker_exceptions):
        self.noticed_ns = self.noticed_ns or now_ns()


def node_loss(options) -> None:
    """An agent, its guardian and its worker are killed; a spare node is there."""

    def train_loop(config):
        killed = pathlib.Path(config["scratch"]) / "killed"
        if paceline.train.get_context().get_attempt() > 1:
            write_rank(config["scratch"], rank(), {"now_ns": now_ns()})
            return
        with tempfile.TemporaryDirectory(dir=config["scratch"]) as folder:
            (pathlib.Path(folder) / f"rank_{rank()}.bin").write_bytes(bytes(1000))
            paceline.train.report({"step": 0}, paceline.train.Checkpoint.from_directory(folder))
        paceline.train.collective.barrier()
        if rank() == 0:
            time.sleep(60)
        time.sleep(0.5 + 0.17 * config["round"])
        chain = [os.getpid()]
        while "agent" not in pathlib.Path(f"/proc/{chain[-1]}/cmdline").read_text().split("\0"):
            chain.append(int(pathlib.Path(f"/proc/{chain[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
        killed.write_text(str(now_ns()))
        for pid in reversed(chain):
            os.kill(pid, signal.SIGKILL)

    notes = NotesFailure()
    with waiting_agents(pathlib.Path(options.scratch), 3):
        fit(train_loop, options, [notes], round=options.round)
    killed_ns = int((pathlib.Path(options.scratch) / "killed").read_text())
    seconds = seconds_to_last_rank(options.scratch, killed_ns)
    detection = (notes.noticed_ns - killed_ns) * 1e-9
    print_samples([seconds], {"Paceline, until the loss is noticed": detection, "Paceline, from there on": seconds - detection})


ROWS = {row.__name__: row for row in (startup_hosts, report_remote, ddp_step_two_nodes, node_loss)}

if __name__ == "__main__":
    options = arguments(ROWS)
    ROWS[options.row](options)

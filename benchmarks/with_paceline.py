"""Paceline's Python package as `make bench` measures it: one function a row, called in the driver."""

import collections
import concurrent.futures
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))

import torch

import paceline.train
from paceline.train.torch import TorchTrainer, prepare_data_loader, prepare_model

import workloads
from measurement import (arguments, import_torch_seconds, now_ns, own_megabytes, print_samples, read_rank, seconds_to_last_rank,
                         write_rank)


def fit(train_loop, options, *, workers: int = 2, **config) -> None:
    """Trains with `workers`; `config` reaches the train loop beside `scratch`."""
    scratch = str(config.pop("scratch", options.scratch))
    TorchTrainer(
        train_loop,
        train_loop_config={"scratch": scratch} | config,
        scaling_config=paceline.train.ScalingConfig(num_workers=workers),
        run_config=paceline.train.RunConfig(
            storage_path=str(pathlib.Path(scratch) / "results"),
            failure_config=paceline.train.FailureConfig(max_failures=1),
            checkpoint_config=paceline.train.CheckpointConfig(num_to_keep=2),
            quiet=True,
        ),
    ).fit()


def rank() -> int:
    return paceline.train.get_context().get_world_rank()


def seconds_of_fits(train_loop, options) -> dict:
    """From fit() to the moment that both workers have written: in the first fit() of a program, in one that follows at
    once, and in one that comes after a while, as in a notebook: between runs the warm process imports torch._dynamo, once."""
    seconds = {}
    for fits in ("first", "following", "later"):
        time.sleep(3 if fits == "later" else 0)
        scratch = pathlib.Path(options.scratch) / fits
        scratch.mkdir()
        start_ns = now_ns()
        fit(train_loop, options, scratch=scratch)
        seconds[fits] = seconds_to_last_rank(scratch, start_ns)
    return seconds


def first_line(config):
    write_rank(config["scratch"], rank(), {"now_ns": now_ns()})


def startup_python_warm(options) -> None:
    seconds = seconds_of_fits(first_line, options)
    print_samples([seconds["later"]])


def startup_python_second(options) -> None:
    print_samples([seconds_of_fits(first_line, options)["following"]])


def startup_python_cold(options) -> None:
    imports = import_torch_seconds()
    print_samples([seconds_of_fits(first_line, options)["first"]], peers={"`import torch`": [imports]})


def first_step_python(options) -> None:
    def train_loop(config):
        workloads.first_step(prepare_model(torch.nn.Linear(10, 10)))
        write_rank(config["scratch"], rank(), {"now_ns": now_ns()})

    seconds = seconds_of_fits(train_loop, options)
    print_samples([seconds["later"]], {"Paceline, first `fit()` of a program": seconds["first"]})


def report_python(options) -> None:
    def train_loop(config):
        seconds = []
        for step in range(config["warm_up"] + config["reports"]):
            time.sleep(0.001)
            start = time.monotonic()
            paceline.train.report({"step": step})
            seconds.append(time.monotonic() - start)
        write_rank(config["scratch"], rank(), {"seconds": seconds[config["warm_up"]:]})

    fit(train_loop, options, warm_up=100, reports=options.iterations)
    print_samples([seconds * 1e6 for seconds in read_rank(options.scratch, 0)["seconds"]])


def restart_python(options) -> None:
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
        time.sleep(config["delay_s"])
        killed.write_text(str(now_ns()))
        os.kill(os.getpid(), signal.SIGKILL)

    fit(train_loop, options, delay_s=1 + 0.17 * options.round)
    killed_ns = int((pathlib.Path(options.scratch) / "killed").read_text())
    print_samples([seconds_to_last_rank(options.scratch, killed_ns)])


def worker_memory_python(options) -> None:
    def train_loop(config):
        workloads.first_step(prepare_model(torch.nn.Linear(10, 10)))
        paceline.train.collective.barrier()
        write_rank(config["scratch"], rank(), {"megabytes": own_megabytes()})
        paceline.train.collective.barrier()

    # A program that trains a second time, as in a notebook: what DistributedDataParallel imports is there.
    fit(first_line, options)
    fit(train_loop, options)
    print_samples([max(read_rank(options.scratch, one)["megabytes"] for one in range(2))])


def images_python(options) -> None:
    def train_loop(config):
        torch.set_num_threads(1)
        model = prepare_model(workloads.ResNet18())
        loader = prepare_data_loader(workloads.mnist_loader(config["data"]))
        write_rank(config["scratch"], rank(), {"speeds": workloads.train_mnist(model, loader, config["steps"])})

    fit(train_loop, options, data=options.data, steps=options.iterations)
    print_samples(read_rank(options.scratch, 0)["speeds"])


def ddp_step_shm_python(options) -> None:
    """PyTorch's own DistributedDataParallel, in turns with the same model without it."""

    def train_loop(config):
        torch.set_num_threads(1)
        alone = workloads.wide_model()
        model = prepare_model(workloads.wide_model(), parallel_strategy_kwargs={"gradient_as_bucket_view": True})
        write_rank(config["scratch"], rank(), workloads.train_in_turns(model, alone, config["steps"]))

    fit(train_loop, options, steps=options.iterations)
    found = read_rank(options.scratch, 0)
    print_samples(found["together"], peers={"compute alone": found["alone"]})


def fsdp2_step_shm(options) -> None:
    def train_loop(config):
        torch.set_num_threads(1)
        model = workloads.fully_sharded()
        for module in model.modules():  # of each unit: it holds for a module's own parameters only
            if isinstance(module, torch.distributed.fsdp.FSDPModule):
                module.set_allocate_memory_from_process_group_for_comm(True)
        write_rank(config["scratch"], rank(), {"milliseconds": workloads.train_wide_model(model, config["steps"], fused=False)})

    fit(train_loop, options, steps=options.iterations)
    print_samples(read_rank(options.scratch, 0)["milliseconds"])


def allocate_at(path: int, depth: int) -> bytearray:
    """Memory that is allocated below so many functions, which `path` chooses."""
    return (above if path & 1 else below)(path >> 1, depth - 1) if depth > 0 else bytearray(1024)


def above(path: int, depth: int) -> bytearray:
    return allocate_at(path, depth)


def below(path: int, depth: int) -> bytearray:
    return allocate_at(path, depth)


def profile_pause_python(options) -> None:
    """The longest time from one product of two matrices to the next, as in profile_pause.cpp; beside it a thread allocates
    at 4,096 places."""
    seconds = 2  # of a profile, and before each
    scratch = pathlib.Path(options.scratch)

    def train_loop(config):
        torch.set_num_threads(1)
        one, scratch, pauses = torch.rand(128, 128), pathlib.Path(config["scratch"]), []
        has_ended = threading.Event()

        def allocates():
            kept = {}
            for path in itertools.cycle(range(4096)):
                kept[path] = allocate_at(path, 12)
                if path % 64 == 0 and has_ended.wait(0.01):
                    break

        beside = threading.Thread(target=allocates)
        beside.start()
        (scratch / "warm").touch()
        looked_ns = before_ns = now_ns()
        while True:
            one @ one
            now = now_ns()
            if now - before_ns >= 1e6:
                pauses.append((before_ns, now - before_ns))
            if now - looked_ns >= 5e7:
                if (scratch / "end").exists():
                    break
                looked_ns = now
            before_ns = now_ns()
        has_ended.set()
        beside.join()
        write_rank(config["scratch"], 0, {"pauses": pauses})

    def ask() -> list[tuple[str, int, int]]:
        while not (scratch / "warm").exists():
            time.sleep(0.02)
        run = next((scratch / "results").iterdir())
        program = pathlib.Path(paceline.__file__).parents[2] / "paceline" / "cli" / "paceline"
        watching = ["profile", run, "--seconds", str(seconds)]
        questions = {"processor time": watching, "waiting": [*watching, "--off-cpu"], "memory": [*watching, "--memory"],
                     "a timeline": [*watching, "--timeline"], "stacks": ["stacks", run]}
        windows = []
        for _ in range(options.iterations):
            for what, question in questions.items():
                begin_ns = now_ns()
                time.sleep(seconds)
                windows.append(("no profile", begin_ns, now_ns()))
                begin_ns = now_ns()
                subprocess.run([program, *question], check=True, stdout=subprocess.DEVNULL)
                windows.append((what, begin_ns, now_ns()))
        return windows

    with concurrent.futures.ThreadPoolExecutor() as threads:
        asked = threads.submit(ask)
        asked.add_done_callback(lambda _: (scratch / "end").touch())  # also where it failed
        fit(train_loop, options, workers=1)
    pauses = read_rank(scratch, 0)["pauses"]
    longest = collections.defaultdict(list)
    for what, begin_ns, end_ns in asked.result():
        lengths = [length for at_ns, length in pauses if at_ns + length >= begin_ns and at_ns <= end_ns]
        longest[what].append(max(lengths, default=1e6) / 1e6)
    also = {f"{what} (ms)": max(values) for what, values in longest.items()}
    del longest["no profile"]
    print_samples([max(values) for values in zip(*longest.values(), strict=True)], also)


def installed_size(options) -> None:
    """What `pip install` adds to torch and pyarrow, which both need."""
    build = pathlib.Path(paceline.__file__).parents[2]
    site = pathlib.Path(options.scratch) / "site"
    install = ["cmake", "--install", build, "--component", "python", "--strip", "--prefix", site]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    import cloudpickle

    print_samples([workloads.megabytes_of(site, pathlib.Path(cloudpickle.__file__).parent)])


ROWS = {row.__name__: row for row in (startup_python_warm, startup_python_second, startup_python_cold, first_step_python, report_python,
                                      restart_python, worker_memory_python, images_python, ddp_step_shm_python, fsdp2_step_shm,
                                      profile_pause_python, installed_size)}

if __name__ == "__main__":
    options = arguments(ROWS)
    ROWS[options.row](options)

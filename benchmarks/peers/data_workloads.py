"""The rows of the data engine, the same for every contestant: what is read, when the clocks run, what is checked.

A contestant is an object with `name` and these methods. Batches are dicts of tensors of BATCH_SIZE rows; every iteration
of what is returned is an epoch.

    start(budget)                  what is not measured: daemons. `budget` in bytes, or None: the contestant's default
    batches(table)                 of the columns of `table`, in the order of the files
    shuffled(table)                in the order of a shuffle within windows of WINDOW rows
    mapped(arrays, function)       of the arrays, MAPPED_ROWS rows at a time through `function` in other processes; as numpy
    save(table, batches, file)     notes in `file` that so many batches of an epoch are done
    resumed(table, file)           the rest of that epoch
    stop()                         once all is measured
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy
import torch
from torch import nn

from measurement import arguments, print_samples

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import processes
from data_sets import SCALARS

BATCH_SIZE = 1024
WINDOW = 64 * 1024
BUDGET = 600_000_000
MAPPED_ROWS = 4096  # of 64 float32: 1 MiB
FUNCTION_S = 0.001
WARM_UP_STEPS = 20


@dataclasses.dataclass(frozen=True)
class Table:
    """A folder of data_sets.py and the columns that become tensors: no contestant makes one of a string."""

    folder: str
    columns: list[str]

    @property
    def files(self) -> list[str]:
        return sorted(str(file) for file in pathlib.Path(self.folder).iterdir())


def scalars(options) -> Table:
    return Table(f"{options.data}/scalars", ["id", *SCALARS])


def tensors(options) -> Table:
    return Table(f"{options.data}/tensors", ["id", "vector"])


def tree_cpu_seconds() -> float:
    """Of this process and all below it, also of those that have ended: main() sees to it that none gets away."""
    ticks = 0
    for pid in (os.getpid(), *processes.descendants(os.getpid())):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Epoch:
    rows: int
    batches: int
    first_s: float  # to the first batch: from the call that opens the table, or the end of the epoch before
    whole_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """In million rows a second, like `rate_after_first`."""
        return self.rows / self.whole_s / 1e6

    @property
    def rate_after_first(self) -> float:
        return (self.rows - BATCH_SIZE) / (self.whole_s - self.first_s) / 1e6


def read_epochs(open_batches, epochs: int, shuffled: bool = False, counts_cpu: bool = True) -> list[Epoch]:
    """Fails when an epoch does not have every row once, as tensors.

    To count CPU time takes some milliseconds, which are no epoch's: where the time from one to the next matters, it is
    not done."""
    cpu_seconds = tree_cpu_seconds if counts_cpu else lambda: 0.0
    found, cpu_s, start = [], cpu_seconds(), time.monotonic()
    batches = open_batches()
    for _ in range(epochs):
        rows, count, ids, first_s = 0, 0, 0, None
        for batch in batches:
            if first_s is None:
                first_s = time.monotonic() - start
                if not all(isinstance(column, torch.Tensor) for column in batch.values()):
                    sys.exit(f"not tensors: { {name: type(column) for name, column in batch.items()} }")
                if shuffled and bool((batch["id"].diff() > 0).all()):
                    sys.exit("this is not shuffled")
            rows += len(batch["id"])
            ids += int(batch["id"].sum())
            count += 1
        end, cpu_before, cpu_s = time.monotonic(), cpu_s, cpu_seconds()
        if ids != rows * (rows - 1) // 2:
            sys.exit(f"some of {rows} rows came twice, or not at all")
        found.append(Epoch(rows, count, first_s, end - start, cpu_s - cpu_before))
        start = time.monotonic() if counts_cpu else end
    return found


def print_rates(contestant, table: Table, options) -> None:
    epochs = read_epochs(lambda: contestant.batches(table), options.iterations)
    print_samples([epoch.rate for epoch in epochs], {
        f"{contestant.name}, after the first batch": statistics.median(epoch.rate_after_first for epoch in epochs),
        f"{contestant.name}, CPU time (µs a row)": statistics.median(epoch.cpu_s / epoch.rows * 1e6 for epoch in epochs)})


def parquet_scalars(contestant, options) -> None:
    print_rates(contestant, scalars(options), options)


def parquet_tensors(contestant, options) -> None:
    print_rates(contestant, tensors(options), options)


def first_batch(contestant, options) -> None:
    first, *later = read_epochs(lambda: contestant.batches(tensors(options)), 1 + options.iterations,
                                counts_cpu=False)
    a_batch = statistics.median((epoch.whole_s - epoch.first_s) / (epoch.batches - 1) for epoch in later)
    print_samples([first.first_s], {
        f"{contestant.name}, gap between epochs (ms)": statistics.median(epoch.first_s for epoch in later) * 1e3,
        f"{contestant.name}, a batch (ms)": a_batch * 1e3})


def shuffle_cost(contestant, options) -> None:
    """The rate of shuffled epochs by that of epochs in order, which take turns, each from a table opened anew."""
    table = scalars(options)
    for _, batch in zip(range(100), contestant.batches(table)):  # what only the first epoch of a process costs
        pass
    ratios, rates = [], []
    for _ in range(options.iterations):
        in_order, = read_epochs(lambda: contestant.batches(table), 1)
        shuffled, = read_epochs(lambda: contestant.shuffled(table), 1, shuffled=True)
        ratios.append(shuffled.rate / in_order.rate)
        rates.append(shuffled.rate)
    print_samples(ratios, {f"{contestant.name}, shuffled (M rows/s)": statistics.median(rates)})


def memory_budget(contestant, options) -> None:
    """Read by peak_memory.py, which measures; the reader stops for a while, so that what reads ahead reaches its limit."""
    scratch = pathlib.Path(options.scratch)
    (scratch / "idle").touch()
    while not (scratch / "measured").exists():
        time.sleep(0.05)
    rows = 0
    for number, batch in enumerate(contestant.batches(tensors(options))):
        rows += len(batch["id"])
        if number == options.iterations:
            time.sleep(3)
    print_samples([rows])


def same(batch: dict) -> dict:
    return batch


def own_process(batch: dict) -> dict:
    return {"data": numpy.full(len(batch["data"]), os.getpid())}


def busy(batch: dict) -> dict:
    end = time.monotonic() + FUNCTION_S
    while time.monotonic() < end:
        pass
    return {"data": batch["data"] + 1}


def python_batches(contestant, options) -> None:
    """GB/s of batches of 1 MiB through a function that does nothing: the hand-over alone. The first pass starts processes."""
    arrays = [numpy.full((16 * MAPPED_ROWS, 64), number, numpy.float32) for number in range(options.iterations)]
    size = sum(array.nbytes for array in arrays)

    def seconds(batches) -> float:
        start, rows = time.monotonic(), 0
        for batch in batches:
            rows += len(batch["data"])
        if rows != sum(len(array) for array in arrays):
            sys.exit(f"{rows} rows came through the function")
        return time.monotonic() - start

    if any((batch["data"] == os.getpid()).any() for batch in contestant.mapped(arrays[:1], own_process)):
        sys.exit("the function runs in this process: nothing is handed over")
    batches = contestant.mapped(arrays, same)
    first, *later = [seconds(batches) for _ in range(4)]
    with_work = contestant.mapped(arrays, busy)
    with_work_s = [seconds(with_work) for _ in range(2)][1]
    print_samples([size / each / 1e9 for each in later], {
        f"{contestant.name}, the first pass": size / first / 1e9,
        f"{contestant.name}, with a function of 1 ms": size / with_work_s / 1e9})


def train_steps(batches, steps: int) -> list[float]:
    """Seconds of each step after warm-up, each with the wait for its batch."""
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    seconds = []
    iterator = iter(batches)
    for step in range(WARM_UP_STEPS + steps):
        start = time.monotonic()
        vectors = next(iterator)["vector"]
        loss = model(vectors).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= WARM_UP_STEPS:
            seconds.append(time.monotonic() - start)
    return seconds


def synthetic():
    batch = {"vector": torch.randn(BATCH_SIZE, 64)}
    while True:
        yield batch


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def trainer_jitter(contestant, options) -> None:
    """Synthetic steps before and after, so that what else this machine does falls on both."""
    torch.set_num_threads(1)
    before = train_steps(synthetic(), options.iterations // 2)
    loaded = train_steps(contestant.batches(tensors(options)), options.iterations)
    alone = before + train_steps(synthetic(), options.iterations // 2)
    print_samples([p99(loaded) / p99(alone)], {
        f"{contestant.name}, median": statistics.median(loaded) / statistics.median(alone)})


PAIRS = 5  # of a cold start and one that goes on, in turns: a start of 60 ms alone says little


def resume_first_batch(contestant, options) -> None:
    """The first batch in a new process, cold and in the middle of an epoch."""
    table = tensors(options)
    state = pathlib.Path(options.scratch) / "state.json"

    def new_process(row: str) -> dict:
        command = [sys.executable, "-B", sys.argv[0], row, *sys.argv[2:]]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("{")))  # Ray warns after it

    if contestant.name != "Paceline":
        contestant.save(table, options.iterations, state)
        return print_samples(new_process("time_resumed_batch")["samples"])
    cold, resumed = [], []
    new_process("time_cold_batch")  # reads the interpreter's and the libraries' files
    contestant.save(table, options.iterations, state)
    for _ in range(PAIRS):
        cold.append(new_process("time_cold_batch"))
        resumed.append(new_process("time_resumed_batch"))
    print_samples([each["samples"][0] for each in resumed],
                  {"Paceline, read until then (MB)": max(each["also"]["read until then (MB)"] for each in resumed)},
                  {"cold first batch": [each["samples"][0] for each in cold]})


def read_megabytes() -> float:
    """What this process has read so far."""
    return int(pathlib.Path("/proc/self/io").read_text().split()[1]) / 1e6


def time_cold_batch(contestant, options) -> None:
    time_first_batch(lambda: contestant.batches(tensors(options)))


def time_resumed_batch(contestant, options) -> None:
    found = time_first_batch(lambda: contestant.resumed(tensors(options), pathlib.Path(options.scratch) / "state.json"))
    if found != options.iterations * BATCH_SIZE and contestant.keeps_order:
        sys.exit(f"resumed at row {found}")


def time_first_batch(make_batches) -> int:
    """Returns the batch's first row. What is read until then is what a resumed epoch reads again, with what it reads ahead."""
    before, start = read_megabytes(), time.monotonic()
    found = next(iter(make_batches()))["id"][0]
    took, read = time.monotonic() - start, read_megabytes() - before
    print_samples([took], {"read until then (MB)": read})
    return found


ROWS = {row.__name__: row for row in (parquet_scalars, parquet_tensors, first_batch, shuffle_cost, memory_budget, python_batches,
                                      trainer_jitter, resume_first_batch, time_cold_batch, time_resumed_batch)}


def main(contestant) -> None:
    options = arguments(ROWS)
    processes.become_subreaper()  # for tree_cpu_seconds()
    if options.row == "resume_first_batch":  # whose processes start for themselves
        return resume_first_batch(contestant, options)
    contestant.start(BUDGET if options.row == "memory_budget" else None)
    ROWS[options.row](contestant, options)
    contestant.stop()

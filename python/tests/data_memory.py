"""What a program that reads a dataset takes of the machine: it is started, watched, stopped in mid-epoch, and let go on.

Memory is the sum of the PSS of all its processes, shared memory among it, less what the same processes take when they
have read ten rows. Libraries do not count: their share depends on who else on the machine uses them. Run as a program,
it is the one that is watched.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import numpy
import pyarrow
import pyarrow.parquet

LOOK_S, QUIET_S = 0.01, 0.3
MB = 1_000_000
THREADS = 2  # and processes that call functions


@dataclasses.dataclass
class Files:
    """Of which the first is small: what a program reads to be warm."""

    paths: list
    rows: int


def tensors(rows, width=64):
    """Numbers that no codec makes smaller: rows of 256 bytes, and a number for each."""
    values = numpy.random.default_rng(1).random(rows * width, dtype="float32")
    return pyarrow.table({"id": numpy.arange(rows), "x": pyarrow.FixedSizeListArray.from_arrays(values, width)})


def scalars(rows, columns=32):
    """The same as columns of single numbers."""
    chance = numpy.random.default_rng(1)
    numbers = {f"x{column}": chance.random(rows, dtype="float64" if column % 2 else "float32") for column in range(columns)}
    return pyarrow.table({"id": numpy.arange(rows), **numbers})


def texts(rows):
    """Of lengths that fill just over half of what builders have, which double."""
    numbers = numpy.arange(rows)
    return pyarrow.table({"id": numbers, "text": [f"{number:0130d}" for number in numbers]})


def files_of(folder, table, times=1, **options):
    """Ten rows, then the table so many times: one file, which is named several times."""
    options = {"row_group_size": 1 << 16, "compression": "none", **options}
    pyarrow.parquet.write_table(table[:10], folder / "ten.parquet")
    pyarrow.parquet.write_table(table, folder / "rows.parquet", **options)
    return Files([str(folder / "ten.parquet")] + [str(folder / "rows.parquet")] * times, 10 + times * len(table))


@dataclasses.dataclass
class Taken:
    """Bytes beyond those of the idle processes, and the rows that came."""

    peak: int = 0
    paused: int = 0  # while nobody took a batch, once reading had ceased
    left: int = 0  # behind the last epoch
    rows: int = 0


def measured(folder, files, budget, **options):
    """What a program takes that reads the files with that budget: it takes a batch, waits, then takes all others."""
    address = folder / "socket"
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        listener.settimeout(60)
        settings = {"address": str(address), "files": files.paths, "budget": budget, **options}
        program = subprocess.Popen([sys.executable, __file__, json.dumps(settings)], cwd=folder)
        watch, taken = Watch(program.pid), Taken()
        with listener.accept()[0] as connection, connection.makefile("rw", buffering=1) as said:
            assert said.readline() == "idle\n"
            idle = watch.until_quiet()
            watch.start()
            said.write("go\n")
            assert said.readline() == "waits\n"
            taken.paused = watch.until_quiet() - idle
            said.write("go\n")
            taken.rows = int(said.readline())
            taken.peak = watch.stop() - idle
            taken.left = watch.until_quiet() - idle
            said.write("go\n")
        assert program.wait(timeout=60) == 0
        return taken


class Watch:
    """Looks at a process and all below it."""

    def __init__(self, pid):
        self._pid, self._peak = pid, 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def start(self):
        self._thread.start()

    def stop(self):
        """The most that they have had at a time."""
        self._ends.set()
        self._thread.join()
        return self._peak

    def until_quiet(self):
        """Waits until they compute nothing, whatever they wait for. Their memory then."""
        before = self._ticks()
        while True:
            time.sleep(QUIET_S)
            now = self._ticks()
            if now - before <= 2:
                return self._pss(self._processes())
            before = now

    def _look(self):
        looks = 0
        while not self._ends.wait(LOOK_S):
            if looks % 10 == 0:
                processes = self._processes()
            looks += 1
            self._peak = max(self._peak, self._pss(processes))

    def _processes(self):
        below = {}
        for entry in os.listdir("/proc"):
            with contextlib.suppress(ValueError, OSError):
                below.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
        found = [self._pid]
        for pid in found:
            found += below.get(pid, [])
        return found

    @staticmethod
    def _pss(processes):
        total = 0
        for pid in processes:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) << 10 for line in file if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
        return total

    def _ticks(self):
        total = 0
        for pid in self._processes():
            with contextlib.suppress(OSError):
                total += sum(map(int, _stat(pid)[11:13]))
        return total


def _stat(pid):
    return pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()


class Program:
    """The one that is watched. Its rows are read

    - shuffled, through functions that run in processes, or from the cache of an epoch that was read before, or in so many
      `blocks` that a row group has several;
    - outside of training or by workers, in step or, `apart`, the last one all of them while the first one waits;
    - by a consumer that takes as many seconds as `pause` for the first batch, and for each as many as `slow`.
    """

    def __init__(self, address, files, budget, shuffle=False, functions=False, cache=None, workers=0, apart=False, epochs=1,
                 pause=0.0, slow=0.0, batch_size=1024, blocks=None):
        import paceline.data

        self.address, self.workers, self.apart, self.epochs = address, workers, apart, epochs
        self.pause, self.slow, self.batch_size = pause, slow, batch_size
        limits = paceline.data.ExecutionResources.for_limits(cpu=THREADS, memory=budget)
        paceline.data.DataContext.get_current().execution_options.resource_limits = limits
        warm = paceline.data.read_parquet(files[:1] * THREADS)
        rows = paceline.data.read_parquet(files, override_num_blocks=blocks)
        if functions:
            folder = pathlib.Path(os.getcwd(), "processes")
            folder.mkdir(exist_ok=True)
            warm = warm.map_batches(together_with_all, fn_args=(folder,), udf_modifying_row_count=False)
            rows = rows.map_batches(doubled, batch_size=4096, udf_modifying_row_count=False)
        if cache is not None:
            rows = rows.cache(**cache)
        self.datasets = {"warm": warm, "rows": rows.random_shuffle(seed=1) if shuffle else rows}

    def run(self):
        if self.workers == 0:
            with self.connected() as said:
                self.read(said, 0, *(dataset.iterator() for dataset in self.datasets.values()))
            return
        from paceline.train import DebugConfig, RunConfig, ScalingConfig
        from paceline.train.torch import TorchTrainer

        TorchTrainer(self.loop, datasets=self.datasets, scaling_config=ScalingConfig(num_workers=self.workers),
                     run_config=RunConfig(storage_path=os.path.join(os.getcwd(), "results"), quiet=True,
                                          # A pause is no hang, for which everybody's stacks are looked at.
                                          debug_config=DebugConfig(hang_floor_s=3600))).fit()

    def loop(self):
        from paceline.train import get_context, get_dataset_shard

        rank = get_context().get_world_rank()
        with self.connected() if rank == 0 else contextlib.nullcontext() as said:
            self.read(said, rank, get_dataset_shard("warm"), get_dataset_shard("rows"))

    @contextlib.contextmanager
    def connected(self):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            with connection.makefile("rw", buffering=1) as said:
                yield said

    def say(self, said, event):
        """Rank 0 does, and all others wait for it."""
        self.barrier()
        if said is not None:
            said.write(f"{event}\n")
            assert said.readline() == "go\n"
        self.barrier()

    def barrier(self):
        if self.workers > 1:
            import torch

            torch.distributed.barrier()

    def read(self, said, rank, warm, iterator):
        assert sum(len(batch["id"]) for batch in warm.iter_batches()) == 10 * THREADS // max(self.workers, 1)
        self.say(said, "idle")
        rows = 0
        for epoch in range(self.epochs):
            for step, batch in enumerate(iterator.iter_batches(batch_size=self.batch_size)):
                if (epoch, step) == (0, 1):
                    time.sleep(self.pause)
                    self.say(said, "waits")
                    if self.apart and rank < self.workers - 1:
                        self.barrier()
                rows += len(batch["id"])
                time.sleep(self.slow)
            if self.apart and rank == self.workers - 1 and epoch == 0:
                self.barrier()
        self.say(said, rows * max(self.workers, 1))


def together_with_all(batch, folder):
    """Waits until each process of the pool is at a block, so that all are there before memory is looked at."""
    (folder / str(os.getpid())).touch()
    while len(os.listdir(folder)) < THREADS:
        time.sleep(LOOK_S)
    return batch


def doubled(batch):
    return {name: values * 2 for name, values in batch.items()}


if __name__ == "__main__":
    Program(**json.loads(sys.argv[1])).run()

"""Ray Data as a peer; with RAY_DATA_USE_DATASOURCE_V2=0 the tuned one. run.py sets Ray's folder (RAY_TMPDIR)."""

import itertools
import json
import os
import pathlib
import sys
import time

import ray
import ray.data

import data_workloads
from data_workloads import BATCH_SIZE, MAPPED_ROWS, WINDOW, Table

# The reader of version 2, the default, starts a pool of actors in each epoch, which costs seconds on a small machine.
TUNED = os.environ.get("RAY_DATA_USE_DATASOURCE_V2") == "0"
# Few blocks are the faster whole epoch, and the slower first batch.
READ = {"override_num_blocks": 16} if TUNED and "first_batch" not in sys.argv[1] else {}
ITERATE = {"prefetch_batches": 4} if TUNED else {}


class Epochs:
    def __init__(self, open_batches):
        self.open_batches = open_batches

    def __iter__(self):
        return iter(self.open_batches())


class RayData:
    name = "Ray Data, tuned" if TUNED else "Ray Data"
    keeps_order = False

    def start(self, budget) -> None:
        ray.init(num_cpus=max(2, os.cpu_count()), include_dashboard=False, log_to_driver=False, object_store_memory=budget)
        ray.data.DataContext.get_current().enable_progress_bars = False

    def batches(self, table: Table, **options) -> Epochs:
        iterator = ray.data.read_parquet(table.folder, columns=table.columns, **READ).iterator()
        return Epochs(lambda: iterator.iter_torch_batches(batch_size=BATCH_SIZE, **ITERATE, **options))

    def shuffled(self, table: Table) -> Epochs:
        return self.batches(table, local_shuffle_buffer_size=WINDOW, local_shuffle_seed=1)

    def mapped(self, arrays, function) -> Epochs:
        """In tasks: with a pool of actors (`concurrency`), which starts anew in each epoch, it takes five times as long."""
        dataset = ray.data.from_numpy(arrays).map_batches(function, batch_size=MAPPED_ROWS, batch_format="numpy")
        return Epochs(lambda: dataset.iter_batches(batch_size=MAPPED_ROWS, batch_format="numpy", **ITERATE))

    def save(self, table: Table, batches: int, file: pathlib.Path) -> None:
        file.write_text(json.dumps(batches))

    def resumed(self, table: Table, file: pathlib.Path):
        """It has no state: what was seen is read again and dropped."""
        return itertools.islice(iter(self.batches(table)), json.loads(file.read_text()), None)

    def stop(self) -> None:
        """Where an iteration was broken off, its threads may still call Ray, which would fail the program at its end."""
        time.sleep(1)
        ray.shutdown()
        os._exit(0)


if __name__ == "__main__":
    data_workloads.main(RayData())

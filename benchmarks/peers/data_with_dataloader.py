"""torch.utils.data.DataLoader as a peer: two worker processes, each of which reads every second file with pyarrow."""

import itertools
import json
import pathlib

import pyarrow.dataset  # what reading would import first
import pyarrow.parquet
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import arrow_batches
import data_workloads
from data_workloads import BATCH_SIZE, MAPPED_ROWS, WINDOW, Table

WORKERS = 2


class Files(IterableDataset):
    def __init__(self, table: Table, window: int = 0):
        self.table, self.window = table, window

    def tables(self):
        worker = get_worker_info()
        for file in self.table.files[worker.id::worker.num_workers]:
            yield pyarrow.parquet.read_table(file, columns=self.table.columns, use_threads=False)

    def __iter__(self):
        tables = arrow_batches.shuffle(self.tables(), self.window, seed=1) if self.window else self.tables()
        return (packed(batch) for batch in arrow_batches.batches(tables, BATCH_SIZE))


def packed(batch: dict) -> dict:
    """Columns of one type as one tensor: each tensor that a worker sends has a file of its own, which is what takes time."""
    names: dict[torch.dtype, list[str]] = {}
    for name, column in batch.items():
        names.setdefault(column.dtype, []).append(name)
    return {",".join(own): batch[own[0]] if len(own) == 1 else torch.stack([batch[name] for name in own])
            for own in names.values()}


class Unpacked:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        for batch in self.batches:
            columns = {}
            for names, tensor in batch.items():
                columns |= zip(names.split(","), tensor) if "," in names else {names: tensor}
            yield columns


class Mapped(Dataset):
    def __init__(self, arrays, function):
        self.batches = [array[start:start + MAPPED_ROWS] for array in arrays for start in range(0, len(array), MAPPED_ROWS)]
        self.function = function

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> dict:
        return self.function({"data": self.batches[number]})


def loader(dataset) -> DataLoader:
    """Batches come from the dataset; workers stay from one epoch to the next."""
    return DataLoader(dataset, batch_size=None, num_workers=WORKERS, persistent_workers=True)


class TorchDataLoader:
    name = "DataLoader"
    keeps_order = False  # the two workers' batches take turns

    def start(self, budget) -> None:
        pass

    def batches(self, table: Table) -> Unpacked:
        return Unpacked(loader(Files(table)))

    def shuffled(self, table: Table) -> Unpacked:
        return Unpacked(loader(Files(table, WINDOW)))

    def mapped(self, arrays, function) -> DataLoader:
        return loader(Mapped(arrays, function))

    def save(self, table: Table, batches: int, file: pathlib.Path) -> None:
        file.write_text(json.dumps(batches))

    def resumed(self, table: Table, file: pathlib.Path):
        """It has no state: what was seen is read again and dropped."""
        return itertools.islice(self.batches(table), json.loads(file.read_text()), None)

    def stop(self) -> None:
        pass


if __name__ == "__main__":
    data_workloads.main(TorchDataLoader())

"""A loop over pyarrow as a peer: two threads decode files, which the loop cuts into batches of tensors."""

import collections
import concurrent.futures

import pyarrow.dataset  # what reading would import first
import pyarrow.parquet

import arrow_batches
import data_workloads
from data_workloads import BATCH_SIZE, WINDOW, Table

THREADS = 2


class Epochs:
    def __init__(self, table: Table, window: int = 0):
        self.table, self.window = table, window

    def tables(self):
        """Of the files in their order; one more than there are threads is read or waits."""
        def read(file: str) -> pyarrow.Table:
            return pyarrow.parquet.read_table(file, columns=self.table.columns, use_threads=False)

        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            running = collections.deque()
            for file in self.table.files:
                running.append(pool.submit(read, file))
                if len(running) > THREADS:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

    def __iter__(self):
        tables = arrow_batches.shuffle(self.tables(), self.window, seed=1) if self.window else self.tables()
        return arrow_batches.batches(tables, BATCH_SIZE)


class Pyarrow:
    name = "pyarrow"

    def start(self, budget) -> None:
        pass

    def batches(self, table: Table) -> Epochs:
        return Epochs(table)

    def shuffled(self, table: Table) -> Epochs:
        return Epochs(table, WINDOW)

    def stop(self) -> None:
        pass


if __name__ == "__main__":
    data_workloads.main(Pyarrow())

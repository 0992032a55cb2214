"""paceline.data as `make bench` measures it; the rows are those of peers/data_workloads.py."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))

import paceline.data

import data_workloads
from data_workloads import BATCH_SIZE, MAPPED_ROWS, Table


class PacelineData:
    name = "Paceline"
    keeps_order = True

    def start(self, budget) -> None:
        if budget is not None:
            options = paceline.data.DataContext.get_current().execution_options
            options.resource_limits = paceline.data.ExecutionResources(memory=budget)

    def dataset(self, table: Table):
        return paceline.data.read_parquet(table.folder, columns=table.columns)

    def batches(self, table: Table):
        return self.dataset(table).iterator().iter_torch_batches(batch_size=BATCH_SIZE)  # as of a shard

    def shuffled(self, table: Table):
        return self.dataset(table).random_shuffle(seed=1).iterator().iter_torch_batches(batch_size=BATCH_SIZE)

    def mapped(self, arrays, function):
        dataset = paceline.data.from_numpy(arrays).map_batches(function, batch_size=MAPPED_ROWS, batch_format="numpy")
        return dataset.iter_batches(batch_size=MAPPED_ROWS, batch_format="numpy")

    def save(self, table: Table, batches: int, file: pathlib.Path) -> None:
        iterator = self.dataset(table).iterator()
        for _, batch in zip(range(batches), iterator.iter_torch_batches(batch_size=BATCH_SIZE)):
            pass
        file.write_text(json.dumps(iterator.state_dict()))

    def resumed(self, table: Table, file: pathlib.Path):
        iterator = self.dataset(table).iterator()
        iterator.load_state_dict(json.loads(file.read_text()))
        return iterator.iter_torch_batches(batch_size=BATCH_SIZE)

    def stop(self) -> None:
        pass


if __name__ == "__main__":
    data_workloads.main(PacelineData())

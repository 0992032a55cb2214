"""Where rows come from besides files: sources of users' own, PyTorch's datasets, what is in memory, other file systems."""

import os
import pickle
import threading

import fsspec
import numpy
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import torch
from pyarrow import fs

import paceline.data
from paceline.data import DataContext, Datasource, FileShuffleConfig, RandomSeedConfig, ReadTask
from paceline.data.block import BlockMetadata


class Squares(Datasource):
    def __init__(self, knows_rows=True):
        self.knows_rows, self.asked_for = knows_rows, None

    def estimate_inmemory_data_size(self):
        return 960

    def get_read_tasks(self, parallelism, per_task_row_limit=None):
        self.asked_for = parallelism

        def task(start):
            def read():  # blocks of all kinds, one after the other
                yield {"x": numpy.arange(start, start + 10) ** 2}
                yield pandas.DataFrame({"x": [start**3]})
                yield pyarrow.table({"x": [-start]})

            return ReadTask(read, BlockMetadata(num_rows=12 if self.knows_rows else None, size_bytes=None))

        return [task(start) for start in range(0, 100, 10)]


def test_a_source_of_the_users_own():
    source = Squares()
    dataset = paceline.data.read_datasource(source, override_num_blocks=7)
    assert source.asked_for == 7
    assert (dataset.count(), dataset.num_blocks(), dataset.size_bytes()) == (120, 10, 960)
    assert [row["x"] for row in dataset.take(13)] == [*(numpy.arange(10) ** 2), 0, 0, 100]
    assert repr(dataset) == "Dataset(ReadSquares)"
    shuffled = dataset.random_shuffle(seed=1).map_batches(lambda batch: batch, batch_size=5)
    assert sorted(row["x"] for row in shuffled.take_all()) == sorted(row["x"] for row in dataset.take_all())
    iterator = dataset.iterator()
    next(iter(iterator.iter_batches(batch_size=30)))
    state = iterator.state_dict()
    again = paceline.data.read_datasource(Squares()).iterator()
    again.load_state_dict(state)
    assert sum(len(batch["x"]) for batch in again.iter_batches(batch_size=30)) == 90


def test_a_source_that_does_not_know_its_rows():
    dataset = paceline.data.read_datasource(Squares(knows_rows=False))
    assert dataset.count() == 120 and len(dataset.take_all()) == 120
    with pytest.raises(TypeError, match="not known"):
        len(dataset.iterator())
    limited = ReadTask(lambda: [{"x": numpy.arange(5)}] * 3, BlockMetadata(None, None), per_task_row_limit=7)
    assert [len(block) for block in limited()] == [5, 2]


def test_errors_of_a_source_are_the_users_own():
    class Broken(Datasource):
        def get_read_tasks(self, parallelism):
            def read():
                raise LookupError("no such table")

            return [ReadTask(read, BlockMetadata(num_rows=1, size_bytes=1))]

    with pytest.raises(LookupError, match="no such table"):
        paceline.data.read_datasource(Broken()).take_all()

    class Wrong(Datasource):
        def get_read_tasks(self, parallelism):
            return [ReadTask(lambda: [[1, 2]], BlockMetadata(num_rows=2, size_bytes=1))]

    with pytest.raises(TypeError, match="Wrong gave list; wanted a dict of arrays"):
        paceline.data.read_datasource(Wrong()).take_all()


class Where(Datasource):
    """Blocks with the process that makes them, and a number by chance."""

    def __init__(self, holds=None):
        self.holds = holds

    def get_read_tasks(self, parallelism):
        holds = self.holds

        def read():
            assert holds is None or holds is not self
            return [{"pid": numpy.array([os.getpid()]), "chance": numpy.random.random(1)}]

        return [ReadTask(read, BlockMetadata(num_rows=1, size_bytes=16)) for _ in range(parallelism)]


def read_all(dataset):
    return [row for batch in dataset.iter_batches() for row in zip(batch["pid"].tolist(), batch["chance"].tolist())]


def test_processes_read_sources_and_chance_does_not_depend_on_them():
    dataset = paceline.data.read_datasource(Where(), override_num_blocks=6)
    assert dataset.take(1)[0]["pid"] == os.getpid(), "few rows are read here"
    found = read_all(dataset)
    assert os.getpid() not in {pid for pid, _ in found}
    former = DataContext.get_current().copy()
    DataContext.get_current().execution_options.functions = "threads"
    try:
        here = read_all(paceline.data.read_datasource(Where(), override_num_blocks=6))
    finally:
        DataContext._set_current(former)
    assert {pid for pid, _ in here} == {os.getpid()}
    assert [chance for _, chance in here] == [chance for _, chance in found] and len({chance for _, chance in here}) == 6


@pytest.mark.parametrize("holds", [threading.Lock(), numpy.zeros(10_000_000)], ids=["no pickle", "large"])
def test_sources_that_processes_cannot_have_are_read_here(holds):
    assert {pid for pid, _ in read_all(paceline.data.read_datasource(Where(holds)))} == {os.getpid()}


class Pictures(torch.utils.data.Dataset):
    made = []

    def __len__(self):
        return 2500

    def __getitem__(self, row):
        Pictures.made.append(row)
        return torch.full((2, 3), row), row % 10, "a" if row % 2 else "b"


def test_samples_of_pytorch_are_made_when_they_are_wanted_and_tuples_stay_tuples():
    Pictures.made = []
    dataset = paceline.data.from_torch(Pictures())
    assert dataset.count() == 2500 and dataset.num_blocks() == 3 and Pictures.made == []
    (first, second) = dataset.take(2)
    picture, label, name = second["item"]
    assert isinstance(second["item"], tuple) and (picture == numpy.full((2, 3), 1)).all() and (label, name) == (1, "a")
    assert max(Pictures.made) < 1000
    rows = dataset.map(lambda row: {"picture": row["item"][0], "label": row["item"][1]}).random_shuffle(seed=3)
    batches = list(rows.iter_torch_batches(batch_size=500))
    assert batches[0]["picture"].shape == (500, 2, 3)
    assert all((batch["picture"][:, 0, 0] % 10 == batch["label"]).all() for batch in batches)
    assert sorted(torch.cat([batch["picture"][:, 0, 0] for batch in batches]).tolist()) == list(range(2500))
    arrays = dataset.take_batch(2)["item"]
    assert arrays.dtype == object and arrays[1][1] == 1


def test_iterable_datasets_and_samples_of_other_kinds():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([{"x": torch.arange(2), "y": number} for number in range(5)])

    rows = paceline.data.from_torch(Stream()).take_all()
    assert [row["item"]["y"] for row in rows] == list(range(5)) and rows[0]["item"]["x"].tolist() == [0, 1]
    subset = torch.utils.data.Subset(torch.utils.data.TensorDataset(torch.arange(10)), [3, 5])
    assert [row["item"][0] for row in paceline.data.from_torch(subset).take_all()] == [3, 5]
    assert paceline.data.from_torch([torch.arange(2)] * 3).take_batch(3)["item"].shape == (3, 2)


def test_blocks_and_references():
    frame, table = pandas.DataFrame({"x": [1]}), pyarrow.table({"x": [2]})
    dataset = paceline.data.from_blocks([frame, table, {"x": numpy.array([3])}])
    assert [row["x"] for row in dataset.take_all()] == [1, 2, 3] and dataset.num_blocks() == 3
    assert paceline.data.from_pandas_refs([frame]).count() == paceline.data.from_arrow_refs(table).count() == 1
    assert paceline.data.from_numpy_refs(numpy.ones((2, 2))).take_batch(2)["data"].shape == (2, 2)
    assert [len(one) for one in dataset.to_pandas_refs()] == [1, 1, 1]
    assert [one.tolist() for one in dataset.to_numpy_refs(column="x")] == [[1], [2], [3]]


@pytest.mark.parametrize("kind", ["subtree", "fsspec", "memory"])
def test_files_in_a_file_system_of_the_program(tmp_path, kind):
    table = pyarrow.table({"x": range(10)})
    systems = {
        "subtree": (fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "data"),
        "fsspec": (fsspec.filesystem("file"), str(tmp_path / "data")),
        "memory": (fsspec.filesystem("memory"), "/paceline_test/data"),
    }
    filesystem, path = systems[kind]
    dataset = paceline.data.from_arrow(table).repartition(2)
    dataset.write_parquet(path, filesystem=filesystem)
    dataset.write_csv(path + "_csv", filesystem=filesystem)
    read = paceline.data.read_parquet(path, filesystem=filesystem)
    assert read.sum("x") == 45 and read.num_blocks() == 2
    assert paceline.data.read_csv(f"{path}_csv/*.csv", filesystem=filesystem).sum("x") == 45
    assert pickle.loads(pickle.dumps(read)).sum("x") == 45


def test_keys_of_a_file_system_are_not_shown():
    store = fs.S3FileSystem(access_key="mine", secret_key="secret", region="us-east-1")
    dataset = paceline.data.read_parquet("bucket/rows", filesystem=store)
    assert "secret" not in repr(dataset) and "secret" not in str(dataset.input_files())


def test_seeds_of_rays_scripts(tmp_path):
    rows = paceline.data.range(100)
    assert rows.random_shuffle(seed=RandomSeedConfig(seed=5)).take(3) == rows.random_shuffle(seed=5).take(3)
    for number in range(5):
        pyarrow.parquet.write_table(pyarrow.table({"x": [number]}), tmp_path / f"{number}.parquet")
    orders = [[row["x"] for row in paceline.data.read_parquet(str(tmp_path), shuffle=FileShuffleConfig(seed=7)).take_all()]
              for _ in range(2)]  # fmt: skip
    assert orders[0] == orders[1] and sorted(orders[0]) == list(range(5))

"""Files that datasets write: whole or not there, of as many rows as asked for, beside or instead of what was there."""

import gzip
import os
import pathlib
import sys

import numpy
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from pyarrow import fs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "paceline" / "testing"))
import object_servers

import paceline.data
from paceline.data import Datasink, RowBasedFileDatasink, SaveMode
from paceline.data.datasource import FilenameProvider


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def rows_of(folder):
    return [pyarrow.parquet.read_metadata(folder / name).num_rows for name in files(folder)]


def test_files_have_as_many_rows_as_asked_for(tmp_path):
    dataset = paceline.data.range(100, override_num_blocks=10)
    dataset.write_parquet(str(tmp_path / "blocks"))
    assert rows_of(tmp_path / "blocks") == [10] * 10
    dataset.write_parquet(str(tmp_path / "more"), min_rows_per_file=25)
    assert rows_of(tmp_path / "more") == [30, 30, 30, 10]
    dataset.write_parquet(str(tmp_path / "fewer"), min_rows_per_file=20, max_rows_per_file=15, row_group_size=5)
    assert rows_of(tmp_path / "fewer") == [15, 5] * 5
    assert pyarrow.parquet.read_metadata(next((tmp_path / "fewer").iterdir())).num_row_groups in (1, 3)
    assert paceline.data.read_parquet(str(tmp_path / "fewer")).take_all() == dataset.take_all()
    dataset.filter(expr="id < 0").write_parquet(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


def test_rows_go_to_folders_by_their_values(tmp_path):
    frame = pandas.DataFrame({"x": range(6), "kind": ["a", "b/c", None, "a", "b/c", "a"], "year": [1, 1, 1, 2, 2, 2]})
    paceline.data.from_pandas(frame).write_parquet(str(tmp_path / "out"), partition_cols=["kind", "year"])
    folders = sorted({os.path.dirname(name) for name in files(tmp_path / "out")})
    assert folders == ["kind=__HIVE_DEFAULT_PARTITION__/year=1", "kind=a/year=1", "kind=a/year=2", "kind=b%2Fc/year=1",
                       "kind=b%2Fc/year=2"]  # fmt: skip
    back = paceline.data.read_parquet(str(tmp_path / "out"), partitioning="hive").to_pandas()
    assert back.sort_values("x")["year"].tolist() == frame["year"].tolist()
    assert sorted(back["x"]) == list(range(6))


@pytest.mark.parametrize(
    ("mode", "rows"), [("append", 12), ("overwrite", 2), ("ignore", 10), ("error", None), ("create", None)]
)
def test_what_is_there_already(tmp_path, mode, rows):
    folder = tmp_path / "out"
    paceline.data.range(10).write_parquet(str(folder))
    again = paceline.data.range(2)
    if rows is None:
        with pytest.raises(ValueError, match=f"is there already, and mode is '{mode}'"):
            again.write_parquet(str(folder), mode=mode)
    else:
        again.write_parquet(str(folder), mode=SaveMode(mode))
        assert sum(rows_of(folder)) == rows
    with pytest.raises(ValueError, match="allowed for files"):
        again.write_csv(str(folder), mode="upsert")


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "orc", "numpy"])
def test_a_file_in_the_place_of_the_folder_is_named_before_anything_is_read(tmp_path, kind):
    path = tmp_path / "afile"
    path.write_text("mine")

    def called(batch):
        raise AssertionError("something was read")

    dataset = paceline.data.range(10).map_batches(called)
    options = {"column": "id"} if kind == "numpy" else {}
    for mode in ("append", "overwrite"):
        with pytest.raises(NotADirectoryError, match=f"^{path} is a file; wanted: a folder"):
            getattr(dataset, f"write_{kind}")(str(path), mode=mode, **options)
    assert files(tmp_path) == ["afile"] and path.read_text() == "mine"


def test_columns_that_csv_cannot_hold_are_named_before_anything_is_read(tmp_path):
    columns = {"x": [0, 1], "tensor": numpy.ones((2, 3)), "list": [[1], [2, 3]], "dict": [{"k": 1}, {"k": 2}]}
    dataset = paceline.data.from_blocks([columns])
    wanted = (r"cannot hold these columns: tensor \(double\[3\]\), list \(list<.*\), dict \(struct<.*\); leave them out with "
              r"drop_columns\(\['tensor', 'list', 'dict'\]\), or use write_parquet\(\)")
    for made in (dataset, dataset.map_batches(lambda batch: batch)):
        with pytest.raises(ValueError, match=wanted):
            made.write_csv(str(tmp_path / "out"))
        assert not (tmp_path / "out").exists()
    assert not dataset.stats()
    dataset.drop_columns(["tensor", "list", "dict"]).write_csv(str(tmp_path / "out"))
    assert paceline.data.read_csv(str(tmp_path / "out")).take_all() == [{"x": 0}, {"x": 1}]


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path):
    folder = tmp_path / "out"
    paceline.data.range(10).write_parquet(str(folder))
    before = files(folder)

    def fails(batch):
        if batch["id"].max() > 60:
            raise LookupError("row 61")
        return batch

    broken = paceline.data.range(100, override_num_blocks=10).map_batches(fails)
    for mode in (SaveMode.APPEND, SaveMode.OVERWRITE):
        with pytest.raises(LookupError):
            broken.write_parquet(str(folder), mode=mode)
        assert files(folder) == before
    # A dataset may be written where it is read from.
    kept = paceline.data.read_parquet(str(folder)).filter(expr="id < 3")
    kept.write_parquet(str(folder), mode=SaveMode.OVERWRITE)
    assert paceline.data.read_parquet(str(folder)).count() == 3 and not set(before) & set(files(folder))


def test_nobody_sees_a_part_of_a_file(tmp_path):
    class Watched(RowBasedFileDatasink):
        def write_row_to_file(self, row, file):
            file.write(b"half")
            file.flush()
            seen.append([name for name in files(tmp_path / "out") if not name.startswith(".")])
            file.write(b" and half")

    seen = []
    paceline.data.range(2).write_datasink(Watched(str(tmp_path / "out"), file_format="txt"))
    first, second = files(tmp_path / "out")
    assert seen == [[], []] and (tmp_path / "out" / second).read_text() == "half and half"


def test_names_compression_and_options(tmp_path):
    class Named(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return f"part-{task_index}.csv.gz"

    dataset = paceline.data.range(4, override_num_blocks=2)
    dataset.write_csv(str(tmp_path / "out"), filename_provider=Named(), arrow_open_stream_args={"compression": "gzip"})
    assert files(tmp_path / "out") == ["part-0.csv.gz", "part-1.csv.gz"]
    assert gzip.decompress((tmp_path / "out/part-1.csv.gz").read_bytes()).decode().split() == ['"id"', "2", "3"]
    assert paceline.data.read_csv(str(tmp_path / "out")).sum("id") == 6
    dataset.write_json(str(tmp_path / "json"), pandas_json_args_fn=lambda: {"orient": "split", "lines": False})
    assert '"columns":["id"]' in (tmp_path / "json" / files(tmp_path / "json")[0]).read_text()
    dataset.write_orc(str(tmp_path / "orc"), min_rows_per_file=4)
    assert paceline.data.read_orc(str(tmp_path / "orc")).count() == 4
    tensors = paceline.data.range_tensor(4, shape=(2, 2))
    tensors.write_numpy(str(tmp_path / "npy"), column="data", num_rows_per_file=4)
    (name,) = files(tmp_path / "npy")
    assert numpy.load(tmp_path / "npy" / name).shape == (4, 2, 2)
    tensors.write_parquet(str(tmp_path / "tensors"))
    assert paceline.data.read_parquet(str(tmp_path / "tensors")).take_batch(4)["data"].shape == (4, 2, 2)


def test_a_sink_of_the_users_own(tmp_path):
    events = []

    class Counting(Datasink):
        min_rows_per_write = 4

        def on_write_start(self, schema=None):
            events.append(("start", schema.names))

        def write(self, blocks, ctx):
            rows = sum(block.num_rows for block in blocks)
            if rows == 1:
                raise OSError("full")
            return (ctx.task_idx, rows)

        def on_write_complete(self, write_result):
            events.append((write_result.num_rows, write_result.write_returns))

        def on_write_failed(self, error):
            events.append(str(error))

    paceline.data.range(10, override_num_blocks=5).write_datasink(Counting())
    assert events == [("start", ["id"]), (10, [(0, 4), (1, 4), (2, 2)])]
    with pytest.raises(OSError, match="full"):
        paceline.data.range(5, override_num_blocks=5).write_datasink(Counting())
    assert events[-1] == "full"


def test_an_object_store():
    with object_servers.S3() as server:
        folder = server.uri.replace("bucket?", "bucket/rows?")
        dataset = paceline.data.range(30, override_num_blocks=3)
        dataset.write_parquet(folder)
        assert paceline.data.read_parquet(folder).sum("id") == 435
        store, path = fs.FileSystem.from_uri(folder)
        dataset.limit(10).write_parquet(path, filesystem=store, mode="overwrite")
        assert paceline.data.read_parquet(path, filesystem=store).sum("id") == 45
        before = [(one.path, one.size) for one in store.get_file_info(fs.FileSelector(path, recursive=True))]
        for mode in ("append", "overwrite"):
            with pytest.raises(ZeroDivisionError):
                dataset.map(lambda row: {"x": 1 / (25 - row["id"])}).write_parquet(folder, mode=mode)
            assert [(one.path, one.size) for one in store.get_file_info(fs.FileSelector(path, recursive=True))] == before

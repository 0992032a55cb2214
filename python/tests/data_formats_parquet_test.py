"""Parquet files that pyarrow has written, in every way that it can, against what pyarrow reads."""

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import torch

import paceline.data
from columns_of_all_types import ALL, EXTENSIONS, ROWS, table_of
from same_rows import assert_equal, assert_same, numbered, rows_of

WAYS = [
    {"compression": "snappy"},
    {"compression": "none", "data_page_version": "2.0", "use_dictionary": False},
    {"compression": "zstd", "row_group_size": 13},
    {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 1},
    {"compression": "lz4", "row_group_size": 20, "data_page_size": 16, "write_page_index": True, "use_dictionary": False},
    {"compression": "brotli", "store_schema": False, "write_page_checksum": True},
    {"write_statistics": False, "use_compliant_nested_type": False},
]
ENCODINGS = {
    "DELTA_BINARY_PACKED": [pyarrow.int64(), pyarrow.int32(), pyarrow.list_(pyarrow.int64(), 3)],
    "BYTE_STREAM_SPLIT": [pyarrow.float32(), pyarrow.float64(), pyarrow.float16(), pyarrow.int32(),
                          pyarrow.list_(pyarrow.float32(), 3)],
    "DELTA_LENGTH_BYTE_ARRAY": [pyarrow.string()],
    "DELTA_BYTE_ARRAY": [pyarrow.string(), pyarrow.binary(2)],
    "RLE": [pyarrow.bool_()],
}


def written(folder, table, **way):
    pyarrow.parquet.write_table(table, folder / "a.parquet", **way)
    return paceline.data.read_parquet(str(folder / "a.parquet")), pyarrow.parquet.read_table(folder / "a.parquet")


@pytest.mark.parametrize("name", ALL)
def test_every_type_in_every_way(tmp_path, name):
    for way in WAYS:
        assert_same(*written(tmp_path, table_of(name, ALL[name]), **way))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_encoding(tmp_path, encoding, version):
    for kind in ENCODINGS[encoding]:
        is_list = pyarrow.types.is_fixed_size_list(kind)
        values = [[row, 1, 2] for row in range(ROWS)] if is_list else list(range(ROWS))
        if not is_list and not pyarrow.types.is_floating(kind):
            values[5] = None
        if pyarrow.types.is_string(kind) or pyarrow.types.is_fixed_size_binary(kind):
            values = [None if value is None else f"{value:02d}" for value in values]
        if pyarrow.types.is_boolean(kind):
            values = [None if value is None else value % 3 == 0 for value in values]
        if kind == pyarrow.float16():
            values = numpy.array(values, dtype="float16")
        for rows in (ROWS, 11):
            assert_same(*written(tmp_path, table_of("x", pyarrow.array(values, kind)), use_dictionary=False,
                                 column_encoding={"x.list.element" if is_list else "x": encoding}, row_group_size=rows,
                                 data_page_version=version, data_page_size=64))


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension_types(tmp_path, name):
    for rows in (ROWS, 13):
        assert_same(*written(tmp_path, table_of(name, EXTENSIONS[name]), row_group_size=rows))


@pytest.mark.parametrize("null", ["list", "value", "both"])
def test_nulls_in_tensors(tmp_path, null):
    rows = [[None if null in ("value", "both") and row % 7 == 1 else row, 2] for row in range(ROWS)]
    if null in ("list", "both"):
        rows[2] = None
    table = numbered(pyarrow.table({"t": pyarrow.array(rows, pyarrow.list_(pyarrow.float32(), 2))}))
    dataset, read = written(tmp_path, table, row_group_size=20)
    assert_same(dataset, read)
    if null == "value":
        (batch,) = dataset.iter_torch_batches(batch_size=ROWS)
        assert batch["t"].isnan().sum() == 7 and batch["t"].shape == (ROWS, 2)
    else:
        with pytest.raises(TypeError, match="the column 't' cannot become a tensor: some of its lists are null"):
            next(iter(dataset.iter_torch_batches()))


@pytest.mark.parametrize("version", ["ray.data.arrow_tensor", "ray.data.arrow_tensor_v2"])
def test_tensors_of_ray(tmp_path, version):
    lists = pyarrow.list_ if version.endswith("tensor") else pyarrow.large_list
    tensors = numpy.arange(ROWS * 6, dtype="int64").reshape(ROWS, 2, 3)
    column = pyarrow.array(list(tensors.reshape(ROWS, 6)), lists(pyarrow.int64()))
    metadata = {"ARROW:extension:name": version, "ARROW:extension:metadata": "[2, 3]"}
    schema = pyarrow.schema([pyarrow.field("t", column.type, metadata=metadata), pyarrow.field("row", pyarrow.int64())])
    table = pyarrow.table([column, pyarrow.array(range(ROWS))], schema=schema)
    dataset, _ = written(tmp_path, table, row_group_size=13)
    assert numpy.array_equal(dataset.take_batch(ROWS)["t"], tensors)
    (batch,) = dataset.random_shuffle(seed=1).iter_torch_batches(batch_size=ROWS)
    assert torch.equal(batch["t"], torch.from_numpy(tensors)[batch["row"]])


def table_with(**columns):
    return pyarrow.table({name: pyarrow.array(*column) for name, column in columns.items()})


def test_files_may_differ_in_their_columns(tmp_path):
    tables = [
        table_with(row=([0, 1], pyarrow.int32()), x=([1, 2], pyarrow.int16()), s=(["a", "b"],)),
        table_with(s=(["c"],), row=([2], pyarrow.int64()), x=([0.5], pyarrow.float64())),
        table_with(row=([3],), new=([[1]],)),
        table_with(row=([4],), x=([None], pyarrow.null()), s=(pyarrow.array(["d"]).dictionary_encode(),)),
    ]
    for number, table in enumerate(tables):
        pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet")
    tables[3] = tables[3].set_column(2, "s", pyarrow.chunked_array([tables[3]["s"].combine_chunks().dictionary_decode()]))
    wanted = pyarrow.concat_tables(tables, promote_options="permissive")
    dataset = paceline.data.read_parquet(str(tmp_path))
    assert dataset.schema().names == ["row", "x", "s", "new"]
    assert_equal(rows_of(dataset, batch_size=2), wanted)
    assert_equal(rows_of(dataset.random_shuffle(seed=1), batch_size=2).sort_by("row"), wanted)
    assert_equal(rows_of(dataset.select_columns(["new"])), wanted.select(["new"]))


def test_types_that_none_holds_are_an_error_of_both_files(tmp_path):
    pyarrow.parquet.write_table(table_with(x=([1],)), tmp_path / "1.parquet")
    pyarrow.parquet.write_table(table_with(x=(["a"],)), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match="'x' is string in .*2.parquet; in .*1.parquet it is int64"):
        paceline.data.read_parquet(str(tmp_path)).count()


def test_files_and_row_groups_without_rows(tmp_path):
    table = numbered(pyarrow.table({"x": pyarrow.array([1.5, 2.5, 3.5])}))
    pyarrow.parquet.write_table(table[:0], tmp_path / "0.parquet")
    with pyarrow.parquet.ParquetWriter(tmp_path / "1.parquet", table.schema) as writer:
        for part in (table[:0], table[:1], table[:0], table[1:], table[:0]):
            writer.write_table(part)
    pyarrow.parquet.write_table(table[:0], tmp_path / "2.parquet")
    pyarrow.parquet.write_table(table[2:], tmp_path / "3.parquet")
    dataset = paceline.data.read_parquet(str(tmp_path))
    assert dataset.count() == 4 and dataset.take_all() == (table[:3].to_pylist() + table[2:].to_pylist())
    assert len(list(dataset.random_shuffle(seed=1).iter_batches(batch_size=1))) == 4
    empty = paceline.data.read_parquet(str(tmp_path / "0.parquet"))
    assert empty.count() == 0 and empty.take_all() == [] and empty.columns() == ["x", "row"]
    assert list(empty.iter_torch_batches()) == [] and empty.to_pandas().empty


def test_a_large_row_group_is_read_in_pieces(tmp_path):
    """Of all kinds of columns: those that are decoded without levels, with them, and by Arrow."""
    rows = 3_000_000
    numbers = numpy.arange(rows)
    table = pyarrow.table({
        "row": numbers,
        "t": pyarrow.FixedSizeListArray.from_arrays(numpy.repeat(numbers, 4).astype("int32"), 4),
        "s": pyarrow.array(numbers % 1000, mask=numbers % 11 == 0).cast(pyarrow.string()),
        "l": pyarrow.ListArray.from_arrays(numpy.arange(rows + 1, dtype="int32"), numbers.astype("int8")),
    })
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=rows, compression="snappy")
    dataset = paceline.data.read_parquet(str(tmp_path / "a.parquet"))
    assert dataset.num_blocks() > 1 and dataset.count() == rows
    at = 0
    for part in dataset.iter_batches(batch_size=500_000, batch_format="pyarrow"):
        wanted = table[at:at + len(part)]
        assert part.equals(wanted.cast(part.schema)), at
        at += len(part)
    assert at == rows

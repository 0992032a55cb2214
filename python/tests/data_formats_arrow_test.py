"""Arrow's IPC files (Feather) and ORC files that pyarrow has written, against what pyarrow reads."""

import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pytest

import paceline.data
from columns_of_all_types import ALL, EXTENSIONS, OF_ARROW_ALONE, ROWS, table_of
from same_rows import assert_equal, assert_same, numbered, rows_of

EVERY = {**ALL, **OF_ARROW_ALONE, **EXTENSIONS}
ORC_HAS_NOT = ["uint", "half", "null", "view", "short decimal", "long decimal", "time32", "time64", "duration", "dictionary", "matrix"]


def feather(path, table, batch_rows=ROWS, **options):
    with pyarrow.ipc.new_file(path, table.schema, options=pyarrow.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return paceline.data.read_feather(str(path))


@pytest.mark.parametrize("name", EVERY)
def test_every_type_of_arrow(tmp_path, name):
    table = table_of(name, EVERY[name])
    for batch_rows, compression in ((ROWS, None), (13, "lz4"), (1, "zstd")):
        assert_same(feather(tmp_path / "a.arrow", table, batch_rows, compression=compression), table)


def test_feather_as_pyarrow_writes_it(tmp_path):
    table = table_of("x", ALL["list"])
    for compression in ("lz4", "zstd", "uncompressed"):
        pyarrow.feather.write_feather(table, tmp_path / "a.feather", compression=compression, chunksize=9)
        assert_same(paceline.data.read_feather(str(tmp_path)), table)


def dictionary(values, index=pyarrow.int8()):
    return pyarrow.array(values).dictionary_encode().cast(pyarrow.dictionary(index, pyarrow.string()))


def test_dictionaries_that_grow(tmp_path):
    schema = pyarrow.schema([("d", pyarrow.dictionary(pyarrow.int8(), pyarrow.string())), ("row", pyarrow.int64())])
    options = pyarrow.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    words = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    batches = []
    for number, known in enumerate(words):
        column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, len(known) - 1], pyarrow.int8()), known)
        batches.append(pyarrow.record_batch([column, pyarrow.array([2 * number, 2 * number + 1])], schema=schema))
    with pyarrow.ipc.new_file(tmp_path / "a.arrow", schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    dataset = paceline.data.read_feather(str(tmp_path / "a.arrow"))
    assert [row["d"] for row in dataset.take_all()] == ["a", "b", "a", "c", "a", "d"]
    assert_same(dataset, pyarrow.Table.from_batches(batches))


def test_dictionaries_of_files_that_have_more_words_together_than_each(tmp_path):
    words = [[f"{file} {word}" for word in range(100)] for file in range(3)]
    for file, some in enumerate(words):
        feather(tmp_path / f"{file}.arrow", pyarrow.table({"d": dictionary(some), "row": range(100 * file, 100 * file + 100)}))
    dataset = paceline.data.read_feather(str(tmp_path))
    for one in (dataset, dataset.random_shuffle(seed=1)):
        rows = sorted(one.iter_rows(), key=lambda row: row["row"])
        assert [row["d"] for row in rows] == sum(words, [])


@pytest.mark.parametrize("name", ALL)
def test_every_type_in_streams(tmp_path, name):
    table = table_of(name, ALL[name])
    with pyarrow.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    dataset = paceline.data.read_feather(str(tmp_path))
    assert dataset.num_blocks() == -(-len(table) // 7)
    assert_same(dataset, table)


def test_feather_files_may_differ_in_their_columns(tmp_path):
    tables = [pyarrow.table({"x": [1], "y": ["a"]}), pyarrow.table({"z": [0.5], "y": ["b"], "x": [2.5]})]
    for number, table in enumerate(tables):
        feather(tmp_path / f"{number}.arrow", table)
    wanted = pyarrow.concat_tables(tables, promote_options="permissive")
    assert_equal(rows_of(paceline.data.read_feather(str(tmp_path))), wanted)
    assert_equal(rows_of(paceline.data.read_feather(str(tmp_path)).select_columns(["z"])), wanted.select(["z"]))
    feather(tmp_path / "3.arrow", pyarrow.table({"x": ["a"], "y": ["a"]}))
    with pytest.raises(ValueError, match="'x' is string in .*3.arrow; in .*0.arrow it is .*no type for both"):
        paceline.data.read_feather(str(tmp_path)).count()


def test_files_and_batches_without_rows(tmp_path):
    table = numbered(pyarrow.table({"x": ["a", "b"]}))
    with pyarrow.ipc.new_file(tmp_path / "1.arrow", table.schema) as writer:
        for part in (table[:0], table, table[:0]):
            writer.write_table(part)
    feather(tmp_path / "0.arrow", table[:0])
    with pyarrow.ipc.new_file(tmp_path / "2.arrow", table.schema):
        pass
    dataset = paceline.data.read_feather(str(tmp_path))
    assert dataset.take_all() == table.to_pylist() and dataset.count() == 2
    assert paceline.data.read_feather(str(tmp_path / "2.arrow")).take_all() == []
    pyarrow.orc.write_table(table[:0], str(tmp_path / "0.orc"))
    pyarrow.orc.write_table(table[:1], str(tmp_path / "1.orc"))
    assert paceline.data.read_orc(str(tmp_path)).take_all() == table[:1].to_pylist()
    assert paceline.data.read_orc(str(tmp_path / "0.orc")).columns() == ["x", "row"]


@pytest.mark.parametrize("name", [name for name in ALL if not any(name.find(part) >= 0 for part in ORC_HAS_NOT)])
def test_every_type_of_orc(tmp_path, name):
    for way in ({}, {"compression": "zstd"}, {"compression": "snappy", "stripe_size": 64, "batch_size": 10},
                {"compression": "zlib", "dictionary_key_size_threshold": 1}, {"compression": "lz4", "file_version": "0.11"}):
        pyarrow.orc.write_table(table_of(name, ALL[name]), str(tmp_path / "a.orc"), **way)
        assert_same(paceline.data.read_orc(str(tmp_path / "a.orc")), pyarrow.orc.read_table(str(tmp_path / "a.orc")))


def test_orc_files_may_differ_in_their_columns(tmp_path):
    tables = [pyarrow.table({"row": [0], "x": pyarrow.array([1], pyarrow.int16())}),
              pyarrow.table({"s": ["a"], "x": [2.5], "row": [1]})]
    for number, table in enumerate(tables):
        pyarrow.orc.write_table(table, str(tmp_path / f"{number}.orc"))
    wanted = pyarrow.concat_tables(tables, promote_options="permissive")
    assert_equal(rows_of(paceline.data.read_orc(str(tmp_path))), wanted)
    assert_equal(rows_of(paceline.data.read_orc(str(tmp_path), columns=["s"])), wanted.select(["s"]))

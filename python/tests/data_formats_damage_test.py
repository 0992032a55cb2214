"""Files that are cut off or damaged: an error that names the file, or the rows that are left; never a crash."""

import gzip
import json
import random

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet
import pytest

import paceline.train
import paceline.data
from columns_of_all_types import ALL, ROWS
from same_rows import numbered, rows_of

COLUMNS = ["int8", "float", "text", "list", "dictionary", "tensor", "matrix", "bool", "struct", "zone", "decimal"]
TABLE = numbered(pyarrow.table({name: ALL[name] for name in COLUMNS}))
OF_ORC = TABLE.drop_columns(["dictionary", "matrix"])
LINES = b"".join(b"%d,x\n" % row for row in range(500))


def parquet(path, **way):
    pyarrow.parquet.write_table(TABLE, path, row_group_size=20, write_page_index=True, **way)


def feather(path, **way):
    with pyarrow.ipc.new_file(path, TABLE.schema, options=pyarrow.ipc.IpcWriteOptions(**way)) as writer:
        writer.write_table(TABLE, max_chunksize=20)


def stream(path, **way):
    with pyarrow.ipc.new_stream(path, TABLE.schema, options=pyarrow.ipc.IpcWriteOptions(**way)) as writer:
        writer.write_table(TABLE, max_chunksize=20)


def orc(path, **way):
    pyarrow.orc.write_table(OF_ORC, str(path), stripe_size=64, batch_size=16, **way)


def compressed(path, codec):
    with pyarrow.CompressedOutputStream(path, codec) as file:
        file.write(LINES)


FILES = {
    "parquet": ("read_parquet", "a.parquet", parquet),
    "parquet of pages v2": ("read_parquet", "a.parquet",
                            lambda path: parquet(path, data_page_version="2.0", compression="zstd", use_dictionary=False)),
    "plain parquet": ("read_parquet", "a.parquet", lambda path: parquet(path, compression="none", use_dictionary=False)),
    "feather": ("read_feather", "a.arrow", feather),
    "compressed feather": ("read_feather", "a.arrow", lambda path: feather(path, compression="lz4")),
    "stream": ("read_feather", "a.arrow", stream),
    "compressed stream": ("read_feather", "a.arrow", lambda path: stream(path, compression="zstd")),
    "orc": ("read_orc", "a.orc", orc),
    "compressed orc": ("read_orc", "a.orc", lambda path: orc(path, compression="zstd")),
    "csv": ("read_csv", "a.csv", lambda path: pyarrow.csv.write_csv(TABLE.select(["row", "text", "float"]), path)),
    "csv.gz": ("read_csv", "a.csv.gz", lambda path: compressed(path, "gzip")),
    "csv.zst": ("read_csv", "a.csv.zst", lambda path: compressed(path, "zstd")),
    "csv.bz2": ("read_csv", "a.csv.bz2", lambda path: compressed(path, "bz2")),
    "csv.lz4": ("read_csv", "a.csv.lz4", lambda path: compressed(path, "lz4")),
    "json": ("read_json", "a.json", lambda path: path.write_text("".join(
        json.dumps({"row": row, "text": "é" * row, "list": [row] * (row % 3), "o": {"a": row}}) + "\n"
        for row in range(ROWS)))),
    "npy": ("read_numpy", "a.npy", lambda path: numpy.save(path, numpy.arange(300, dtype="float32").reshape(50, 3, 2))),
    "text": ("read_text", "a.txt", lambda path: path.write_text("é\n" * 50)),
}


def mutated(chance, content):
    content = bytearray(content)
    at = chance.randrange(len(content))
    kind = chance.randrange(5)
    if kind == 0:
        del content[at:]
    elif kind == 1:
        del content[at:at + chance.randint(1, 64)]
    elif kind == 2:
        content[at:at + chance.randint(1, 64)] = bytes(chance.randint(1, 64))
    else:
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def read_all(read, path):
    dataset = read(str(path))
    return [rows_of(dataset, batch_size=7), rows_of(dataset.random_shuffle(seed=1), batch_size=64)]


# The library that reads ORC files trusts the lengths in them, and crashes where they are wrong.
@pytest.mark.parametrize("kind", [kind for kind in FILES if "orc" not in kind])
def test_damaged_files(tmp_path, kind):
    reader, name, write = FILES[kind]
    read, path = getattr(paceline.data, reader), tmp_path / name
    write(path)
    whole = path.read_bytes()
    assert read_all(read, path)[0].num_rows in (50, 499)
    chance, failed = random.Random(kind), 0
    for number in range(150):
        path.write_bytes(mutated(chance, whole))
        try:
            tables = read_all(read, path)
        except paceline.train.PacelineError as error:
            assert str(path) in str(error), number
            failed += 1
        else:
            for table in tables:
                if reader != "read_parquet":  # of texts it does not look at each, as pyarrow does not
                    table.validate(full=True)
                    table.to_pylist()
    assert failed > 0 or kind == "text"


@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_cut_off(tmp_path, kind):
    """At places all over it. What needs its end says so; of lines there is a part."""
    reader, name, write = FILES[kind]
    read, path = getattr(paceline.data, reader), tmp_path / name
    write(path)
    whole = path.read_bytes()
    needs_its_end = kind not in ("csv", "json", "text", "csv.bz2", "stream", "compressed stream")
    for size in sorted({0, 1, 4, 8, len(whole) // 2, len(whole) - 8, len(whole) - 1}):
        path.write_bytes(whole[:size])
        if needs_its_end or (size == 0 and kind != "text"):
            with pytest.raises(paceline.train.PacelineError, match=name):
                read_all(read, path)
        else:
            try:
                read_all(read, path)
            except paceline.train.PacelineError as error:
                assert str(path) in str(error)


def test_a_file_that_changes_after_it_was_listed_is_an_error(tmp_path):
    for kind in FILES:
        reader, name, write = FILES[kind]
        write(tmp_path / name)
        dataset = getattr(paceline.data, reader)(str(tmp_path / name))
        assert dataset.count() > 0
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1])
        with pytest.raises(paceline.train.PacelineError, match=f"{name}.*it has changed since the dataset was made"):
            dataset.materialize()


def test_a_file_that_is_gone_is_an_error(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(LINES))
    dataset = paceline.data.read_csv(str(tmp_path / "a.csv.gz"))
    dataset.schema()
    (tmp_path / "a.csv.gz").unlink()
    with pytest.raises(paceline.train.PacelineError, match="a.csv.gz"):
        dataset.take_all()

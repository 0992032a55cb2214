"""Files of text, JSON lines, CSV, arrays and bytes: against pyarrow, pandas and numpy."""

import bz2
import gzip
import io
import json

import numpy
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.json
import pytest
import torch

import paceline.data
from same_rows import assert_equal, rows_of

CSV = {
    "quotes": 'a,b\n"x, ""y""",1\n"two\nlines",2\n',
    "a byte order mark": "\ufeffa,b\n1,2\n",
    "CRLF": "a,b\r\n1,x\r\n2,y\r\n",
    "CR": "a,b\r1,x\r2,y\r",
    "no last newline": "a,b\n1,2",
    "empty lines": "a,b\n\n1,2\n\n\n3,4\n\n",
    "header only": "a,b\n",
    "header only, CRLF": "a,b\r\n",
    "nulls": "a,b,c\n1,,x\n,2.5,NA\n3,,\n",
    "dates": "a,b\n2020-01-01,2020-01-01T00:00:00Z\n2021-01-01,2020-01-01 12:00:00\n",
    "truth values": "a\ntrue\nfalse\n",
    "bytes that are no text": "a\ncaf\xe9\n".encode("latin1"),
    "a column": "a\n1\n\n2\n",
    "names in quotes": '"a b","c,d"\n1,2\n',
    "blanks": "a, b\n 1, 2\n",
    "a NUL": "a,b\n1,\0x\n",
}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize("case", CSV)
def test_csv_is_as_pyarrow_reads_it(tmp_path, case):
    path = write(tmp_path / "a.csv", CSV[case])
    wanted = pyarrow.csv.read_csv(path)
    dataset = paceline.data.read_csv(path)
    assert_equal(rows_of(dataset), wanted)
    assert_equal(rows_of(dataset.select_columns(wanted.column_names[-1:])), wanted.select(wanted.column_names[-1:]))
    assert dataset.schema().equals(wanted.schema)


@pytest.mark.parametrize("ending, compress", [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_compressed_files(tmp_path, ending, compress):
    lines = "".join(f"{row},text {row}\n" for row in range(100_000))
    path = write(tmp_path / f"a.csv.{ending}", compress(("x,y\n" + lines).encode()))
    assert rows_of(paceline.data.read_csv(path)).equals(pyarrow.csv.read_csv(path))
    path = write(tmp_path / f"a.jsonl.{ending}", compress(b'{"x": 1}\n{"x": 2}\n'))
    assert paceline.data.read_json(path).take_all() == [{"x": 1}, {"x": 2}]
    path = write(tmp_path / f"a.txt.{ending}", compress(b"a\nb"))
    assert paceline.data.read_text(path).take_all() == [{"text": "a"}, {"text": "b"}]


def test_large_csv_files_are_cut_at_lines(tmp_path):
    frame = pandas.DataFrame({"row": range(600_000), "text": [f"text {row}" for row in range(600_000)]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    dataset = paceline.data.read_csv(str(tmp_path))
    assert dataset.num_blocks() > 1
    assert dataset.to_pandas().equals(frame)
    shuffled = dataset.random_shuffle(seed=1).to_pandas()
    assert not shuffled.equals(frame) and shuffled.sort_values("row", ignore_index=True).equals(frame)


def test_csv_files_may_differ_in_the_order_of_their_columns_and_have_no_rows(tmp_path):
    for number, content in enumerate(["a,b\n1,2\n", "b,a\n3,4\n", "a,b\n", ""]):
        write(tmp_path / f"{number}.csv", content)
    assert paceline.data.read_csv(str(tmp_path)).take_all() == [{"a": 1, "b": 2}, {"a": 4, "b": 3}]


def test_csv_files_may_differ_in_columns_and_types(tmp_path, capfd):
    """As pandas reads them one by one and puts them together."""
    texts = ["i,f,none,code,left\n1,1,,1,2\n", "code,i,f,none,new\nA1,2,0.5,3,x\n", "i,f,none,code,left\n3,,,7,\n"]
    for number, content in enumerate(texts):
        write(tmp_path / f"{number}.csv", content)
    dataset = paceline.data.read_csv(str(tmp_path))
    frame = pandas.concat([pandas.read_csv(io.StringIO(text)) for text in texts], ignore_index=True)
    found = dataset.to_pandas()
    assert list(found.columns) == list(frame.columns) == ["i", "f", "none", "code", "left", "new"]
    assert found["code"].tolist() == ["1", "A1", "7"] and "'code' is int64" in capfd.readouterr().err
    for name in ("i", "f", "none", "left", "new"):
        assert found[name].fillna(-1).tolist() == frame[name].fillna(-1).tolist(), name
    assert dataset.select_columns(["new"]).take_all() == [{"new": None}, {"new": "x"}, {"new": None}]
    assert sorted(row["i"] for row in dataset.random_shuffle(seed=1).iter_rows()) == [1, 2, 3]


def test_a_value_that_does_not_fit_names_file_column_and_type(tmp_path):
    write(tmp_path / "0.csv", "x\n1\n")
    path = write(tmp_path / "1.csv", "x\nabc\n")
    types = pyarrow.csv.ConvertOptions(column_types={"x": pyarrow.int64()})
    with pytest.raises(ValueError, match=f"{path}.*'abc'.*the column 'x' is string there; wanted: int64.*column_types"):
        paceline.data.read_csv(str(tmp_path), convert_options=types).count()
    for number, value in enumerate(["1", '"abc"']):
        write(tmp_path / f"{number}.json", f'{{"x": {value}}}\n')
    with pytest.raises(ValueError, match="the column 'x' is int64 in .*0.json and string in .*1.json.*column_types"):
        paceline.data.read_json(str(tmp_path)).schema()


JSON = {
    "null rows": [{"a": 1, "b": "x"}, None, None, {"a": 2}, None],
    "nested": [{"a": {"b": [1, 2], "c": None}}, {"a": None}, {"a": {"b": [], "c": {"d": [{"e": 1}]}}}],
    "missing keys": [{"a": 1}, {"b": 2.5}, {"a": 2, "c": [1]}],
    "integers and floats": [{"a": 1}, {"a": 2.5}],
    "a float far down": [{"a": 1}] * 50_000 + [{"a": 2.5}],
    "a key far down": [{"a": 1}] * 50_000 + [{"a": 2, "z": 3}],
    "times": [{"a": "2020-01-01T00:00:00"}, {"a": "2021-01-01T00:00:00"}],
    "large numbers": [{"a": 2**63 - 1}, {"a": 2**64}],
    "texts": [{"a": "é😀\n\""}, {"a": None}],
}


@pytest.mark.parametrize("case", JSON)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_json_is_as_pyarrow_reads_it(tmp_path, case, end):
    path = write(tmp_path / "a.json", end.join(json.dumps(row) for row in JSON[case]))
    assert_equal(rows_of(paceline.data.read_json(path)), pyarrow.json.read_json(path))


def test_text_is_lines(tmp_path):
    path = write(tmp_path / "a.txt", "a\r\nb\n\nc\rd\u2028e\0\x0c\n\nlast")
    assert [row["text"] for row in paceline.data.read_text(path).iter_rows()] == ["a", "b", "c\rd\u2028e\0\x0c", "last"]
    with_empty = paceline.data.read_text(path, drop_empty_lines=False)
    assert [row["text"] for row in with_empty.iter_rows()] == ["a", "b", "", "c\rd\u2028e\0\x0c", "", "last"]
    assert paceline.data.read_text(write(tmp_path / "b.txt", "\ufeffa\n")).take_all() == [{"text": "a"}]
    assert paceline.data.read_text(write(tmp_path / "c.txt", "")).take_all() == []
    for other in ("utf-16", "latin-1"):
        with pytest.raises(ValueError, match="d.txt: it is not UTF-8; convert it, or read it as binary"):
            paceline.data.read_text(write(tmp_path / "d.txt", "café".encode(other))).take_all()


def saved(path, array, version=None):
    with path.open("wb") as file:
        numpy.lib.format.write_array(file, array, version=version)
    return paceline.data.read_numpy(str(path))


@pytest.mark.parametrize("kind", "?bBhHiIlLefd")
def test_arrays_of_every_type(tmp_path, kind):
    for shape in ((6,), (3, 2), (2, 1, 3), (1, 1, 1, 1), (5, 0)):
        array = numpy.arange(numpy.prod(shape)).reshape(shape).astype(kind)
        for version in ((1, 0), (2, 0), (3, 0)):
            dataset = saved(tmp_path / "a.npy", array, version)
            read = dataset.take_batch(10)["data"]
            assert numpy.array_equal(read, array) and read.dtype == array.dtype and dataset.count() == len(array)
            (batch,) = dataset.iter_torch_batches()
            assert torch.equal(batch["data"], torch.from_numpy(array))


def test_arrays_without_rows_and_of_one_number(tmp_path):
    assert saved(tmp_path / "a.npy", numpy.zeros((0, 3))).take_all() == []
    assert saved(tmp_path / "a.npy", numpy.array(3.5)).take_all() == [{"data": 3.5}]


@pytest.mark.parametrize("array, said", [
    (numpy.arange(3, dtype=complex), "its numbers are <c16"),
    (numpy.array(["a", "bc"]), "its numbers are <U2"),
    (numpy.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "its numbers are"),
    (numpy.array(["2020-01-01"], "M8[D]"), "its numbers are <M8"),
])
def test_arrays_that_are_not_of_numbers_are_refused(tmp_path, array, said):
    with pytest.raises(ValueError, match=f"a.npy: {said}"):
        saved(tmp_path / "a.npy", array).count()


def test_arrays_of_other_shapes_are_refused(tmp_path):
    numpy.save(tmp_path / "1.npy", numpy.zeros((2, 3)))
    numpy.save(tmp_path / "2.npy", numpy.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"2.npy: its rows are .*\[4\]; in .*1.npy they are .*\[3\]"):
        paceline.data.read_numpy(str(tmp_path)).count()


def test_bytes_of_files(tmp_path):
    contents = [bytes(range(256)), b"", b"x" * 3_000_000]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.bin").write_bytes(content)
    dataset = paceline.data.read_binary_files(str(tmp_path), include_paths=True)
    assert [row["bytes"] for row in dataset.iter_rows()] == contents
    shuffled = {row["path"]: row["bytes"] for row in dataset.random_shuffle(seed=1).iter_rows()}
    assert shuffled == {str(tmp_path / f"{number}.bin"): content for number, content in enumerate(contents)}

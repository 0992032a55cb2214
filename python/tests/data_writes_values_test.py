"""Rows are written as they are: all of them, in folders by any values, and as JSON with every digit."""

import decimal
import json
import math
import types

import pyarrow
import pyarrow.json
import pyarrow.parquet
import pytest

import paceline.data
from paceline.data.datasource import datasink

MOMENTS = pyarrow.array([1, 2, 2, None], pyarrow.timestamp("ns"))


@pytest.mark.parametrize(
    ("values", "folders"),
    [
        ([1.5, math.nan, None, math.nan], 3),
        ([0.0, -0.0, 0.0, 1.0], 3),
        (MOMENTS, 3),
        (pyarrow.array(["a", "b", "a", None]).dictionary_encode(), 3),
        ([b"\xff", b"b", b"b", b""], 3),
        (["../x", ".", "a/b", ".."], 4),
        ([True, None, False, True], 3),
    ],
)
def test_folders_have_all_rows_once(tmp_path, values, folders):
    table = pyarrow.table({"p": values, "x": range(4), "q": ["u", "u", "v", "v"]})
    for columns in (["p"], ["p", "q"]):
        out = tmp_path / str(len(columns))
        paceline.data.from_arrow(table).write_parquet(str(out), partition_cols=columns)
        found = [pyarrow.parquet.ParquetFile(path).read()["x"].to_pylist() for path in out.rglob("*.parquet")]
        assert sorted(row for rows in found for row in rows) == [0, 1, 2, 3]
        assert len(list(out.iterdir())) == folders
        back = paceline.data.read_parquet(str(out), partitioning="hive")
        assert back.count() == 4 and set(back.columns()) == {"p", "x", "q"}


def test_names_of_columns_are_no_paths(tmp_path):
    table = pyarrow.table({"p/../../x": [1, 2, 3], "_hidden": [1, 1, 2], "x": [4, 5, 6]})
    paceline.data.from_arrow(table).write_parquet(str(tmp_path / "out"), partition_cols=["p/../../x", "_hidden"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    back = paceline.data.read_parquet(str(tmp_path / "out"), partitioning="hive")
    assert sorted((row["p/../../x"], row["_hidden"], row["x"]) for row in back.take_all()) == [(1, 1, 4), (2, 1, 5), (3, 2, 6)]
    with pytest.raises(ValueError, match="which are all columns"):
        paceline.data.range(3).write_parquet(str(tmp_path / "all"), partition_cols=["id"])


def lines_of(folder):
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().split("\n")[:-1]]


def test_json_keeps_every_digit(tmp_path):
    doubles = [1 / 3, 1.0, 1e300, None]
    ids = [1234567890123456789, None, -(2**63), 2**63 - 1]
    table = pyarrow.table({"id": ids, "x": doubles, "t": MOMENTS, "n": [math.inf, math.nan, -0.0, 0.1],
                           "money": [decimal.Decimal("123456789012345678.25"), None, decimal.Decimal("0.10"), None]})  # fmt: skip
    paceline.data.from_arrow(table).write_json(str(tmp_path / "out"), orient="records", lines=True)
    rows = lines_of(tmp_path / "out")
    assert [row["id"] for row in rows] == ids and [row["x"] for row in rows] == doubles
    assert [row["n"] for row in rows] == [None, None, 0.0, 0.1]
    assert [row["t"] for row in rows] == ["1970-01-01T00:00:00.000000001", *["1970-01-01T00:00:00.000000002"] * 2, None]
    (path,) = (tmp_path / "out").iterdir()
    assert '"money":123456789012345678.25}' in path.read_text()
    back = paceline.data.read_json(str(tmp_path / "out")).select_columns(["id", "x", "t"]).take_all()
    assert [row["id"] for row in back] == ids and [row["x"] for row in back] == doubles
    moments = pyarrow.json.ParseOptions(explicit_schema=pyarrow.schema({"t": MOMENTS.type}))
    back = paceline.data.read_json(str(tmp_path / "out"), parse_options=moments)
    assert pyarrow.concat_tables(back.to_arrow_refs())["t"].combine_chunks().equals(MOMENTS)


def test_json_of_texts_and_nested_values(tmp_path):
    texts = ['a"b\\c', "x\ny\0\x1f\t", None, "\u00fc\u20ac\U0001f600\u2028"]
    lists = [[[1.5], None], [], None, [[], [2.0, None]]]
    structs = [{"a": 1, "b": "x"}, None, {"a": None, "b": '"'}, {"a": 2**60, "b": None}]
    table = pyarrow.table({
        "s": texts, 'key "/': texts, "l": lists, "st": structs, "d": pyarrow.array(texts).dictionary_encode(),
        "m": pyarrow.array([[("k", 1)], None, [], [("a", None), ("b", 2)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "z": pyarrow.array([0, 1, None, 3], pyarrow.timestamp("ms", "Asia/Tokyo")), "none": pyarrow.nulls(4),
    })  # fmt: skip
    # A slice, whose offsets do not begin at 0.
    paceline.data.from_arrow(table.slice(1)).write_json(str(tmp_path / "out"))
    rows = lines_of(tmp_path / "out")
    assert [row["s"] for row in rows] == texts[1:] == [row['key "/'] for row in rows] == [row["d"] for row in rows]
    assert [row["l"] for row in rows] == lists[1:] and [row["st"] for row in rows] == structs[1:]
    assert [row["m"] for row in rows] == [None, [], [["a", None], ["b", 2]]]
    assert [row["z"] for row in rows] == ["1970-01-01T00:00:00.001Z", None, "1970-01-01T00:00:00.003Z"]
    tensors = paceline.data.range_tensor(3, shape=(2, 2))
    tensors.write_json(str(tmp_path / "tensors"))
    assert [row["data"] for row in lines_of(tmp_path / "tensors")] == [[[n, n], [n, n]] for n in range(3)]
    pairs = paceline.data.from_items([{"pair": (1, "a")}, {"pair": (2, "b")}])
    pairs.write_json(str(tmp_path / "pairs"))
    assert [row["pair"] for row in lines_of(tmp_path / "pairs")] == [[1, "a"], [2, "b"]]


def test_json_with_options_of_pandas(tmp_path):
    table = pyarrow.table({"id": [1234567890123456789, None], "x": [1 / 3, 0.5], "s": ["\u00fc", None]})
    dataset = paceline.data.from_arrow(table)
    dataset.write_json(str(tmp_path / "out"), force_ascii=False)
    (path,) = (tmp_path / "out").iterdir()
    assert path.read_text() == '{"id":1234567890123456789,"x":0.333333333333333,"s":"\u00fc"}\n{"id":null,"x":0.5,"s":null}\n'
    dataset.write_json(str(tmp_path / "short"), double_precision=2)
    assert [row["x"] for row in lines_of(tmp_path / "short")] == [0.33, 0.5]


def test_min_rows_per_file_counts_each_block_a_few_times(monkeypatch):
    class Block:
        asked = 0

        @property
        def num_rows(self):
            Block.asked += 1
            return 1

    table = types.SimpleNamespace(from_batches=lambda batches: batches[0])
    monkeypatch.setattr(datasink, "pyarrow", types.SimpleNamespace(Table=table))
    sizes = [len(part) for part in datasink._parts((Block() for _ in range(300)), 200)]
    assert sizes == [200, 100] and Block.asked <= 900

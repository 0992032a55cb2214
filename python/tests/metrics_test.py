"""What can be reported, and how it comes back."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import re
import sys
import threading
import uuid

import numpy
import pandas
import pyarrow
import pytest
import torch

from paceline.train import Checkpoint, Result, RunConfig, ScalingConfig, UserCallback, report
from paceline.train import _metrics, _values
from paceline.train._metrics import decoded, encoded
from paceline.train.torch import TorchTrainer


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Split(str, enum.Enum):
    TEST = "test"


class Parts(enum.Flag):
    MODEL = 1
    OPTIMIZER = 2


class Strict(enum.Flag, boundary=enum.STRICT):
    ONLY = 1

    @classmethod
    def _missing_(cls, value):
        raise AssertionError("code of the class")


@dataclasses.dataclass(frozen=True)
class Score:
    value: float
    parts: tuple = ()


Point = collections.namedtuple("Point", "x y")

VALUES = {
    "number": 0.5,
    "inf": math.inf,
    "date": datetime.date(2026, 11, 24),
    "datetime": datetime.datetime(2026, 11, 24, 12, 30, tzinfo=datetime.timezone.utc),
    "time": datetime.time(12, 30),
    "timedelta": datetime.timedelta(days=-1, microseconds=3),
    "enum": Color.RED,
    "int_enum": Level.HIGH,
    "set": {1, 2},
    "frozenset": frozenset({"a"}),
    "bytes": b"\xff\x00",
    "bytearray": bytearray(b"x"),
    "large": 2**80,
    "negative": -(2**80),
    "unsigned": 2**64 - 1,
    "too_large_by_one": 2**64,
    "too_small_by_one": -(2**63) - 1,
    "numpy_float": numpy.float32(1.5),
    "numpy_int": numpy.int64(3),
    "numpy_bool": numpy.bool_(True),
    "zero_dimensional": numpy.array(2.5),
    "tuple": (1, (2, "x")),
    "named_tuple": Point(1, 2),
    "complex": 1 + 2j,
    "decimal": decimal.Decimal("1.10"),
    "fraction": fractions.Fraction(1, 3),
    "uuid": uuid.UUID(int=7),
    "path": pathlib.Path("/tmp/x"),
    "range": range(1, 7, 2),
    "dataclass": Score(0.5, (1, 2)),
    "keys": {0: 0.5, "one": {(1, 2): 3}},
    "enum_keys": {Split.TEST: 0.5, Color.RED: 1, (Split.TEST, 1): 2},
    "numpy_keys": {numpy.float32(0.1): 1, numpy.int64(3): 2, (numpy.int64(1),): 3},
    "flags": [Parts.MODEL, Parts.MODEL | Parts.OPTIMIZER, Parts(0)],
    "moment": numpy.datetime64("2026-01-01T00:00:00.000000001"),
    "day": numpy.datetime64("2026-01-01"),
    "duration": numpy.timedelta64(5, "ns"),
    "timestamp": pandas.Timestamp("2026-01-01T00:00:00.123456", tz="UTC"),
    "equal_keys": {1: "a", "1": "b"},
    "marks": {"$tuple": ["$set", 1], "list": ["$tuple", 1], "inner": {"$keys": 1, "$set": {"$keys": [2]}}},
    "empty": [[], {}, (), set()],
    "none": None,
}


def round_trip(value):
    return decoded(json.loads(json.dumps(encoded({"value": value}))))["value"]


@pytest.mark.parametrize("name", VALUES)
def test_comes_back_equal(name):
    value = VALUES[name]
    back = round_trip(value)
    assert back == value
    if isinstance(value, (numpy.datetime64, numpy.timedelta64)):
        assert back.dtype == value.dtype
    elif not isinstance(value, (numpy.generic, numpy.ndarray, enum.IntEnum, pandas.Timestamp)):
        assert type(back) is type(value)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool"])
def test_arrays_come_back_equal(dtype):
    array = numpy.arange(6).reshape(2, 3).astype(dtype) / (3 if dtype.startswith("float") else 1)
    array = array.astype(dtype)
    back = round_trip(array)
    assert back.dtype == array.dtype and numpy.array_equal(back, array)


ARRAYS = {
    "complex": numpy.array([1 + 2j, complex(math.inf, -0.0)]),
    "complex64": numpy.array([[1 + 2j]], dtype="complex64"),
    "long_double": numpy.array([1, 2, -math.inf], dtype="longdouble") / 3,
    "moments": numpy.array(["2026-01-01T00:00:00.000000001", "1900-01-01"], dtype="datetime64[ns]"),
    "durations": numpy.array([[5], [-7]], dtype="timedelta64[ms]"),
    "other_order": numpy.array([1.5], dtype=">f8"),
    "texts": numpy.array(["$tuple", "a"]),
    "bytes": numpy.array([b"a", b"\xff"]),
    "objects": numpy.array([1, "b", [1, 2], None], dtype=object),
    "lists": numpy.array([[1, 2], [3, 4], None], dtype=object)[:2],
    "large": numpy.arange(3000, dtype=">u2"),
    "matrix": numpy.asmatrix([[1, 2], [3, 4]]),
    "empty": numpy.zeros((0, 3), dtype="<M8[s]"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_other_kinds_come_back_equal(name):
    back = round_trip(ARRAYS[name])
    assert type(back) is numpy.ndarray and back.dtype == ARRAYS[name].dtype
    assert back.shape == ARRAYS[name].shape and back.tolist() == ARRAYS[name].tolist()


def test_masks_come_back():
    masked = numpy.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [1, 0]], dtype="float32")
    back = round_trip(masked)
    assert back.tolist() == masked.tolist() == [[1.0, None], [None, 4.0]]
    assert back.dtype == masked.dtype and (back.data == masked.data).all()
    assert round_trip(numpy.ma.array([1, 2])).mask.tolist() == [False, False]
    assert round_trip(numpy.ma.masked).tolist() is None


@pytest.mark.parametrize("kind", ["datetime64[ns]", "datetime64[D]", "timedelta64[ns]"])
def test_no_time_comes_back(kind):
    none = numpy.array("NaT", dtype=kind)[()]
    back = round_trip(none)
    assert numpy.isnat(back) and back.dtype == none.dtype
    assert numpy.isnat(round_trip(numpy.array([none]))).all()


@pytest.mark.parametrize(
    "value",
    [
        pandas.Series([1.0, 2.0]),
        pandas.Series([1, None], dtype="Int64"),
        pandas.Index([1, 2]),
        pandas.NaT,
        pandas.Timestamp("2026-01-01T00:00:00.123456789"),
        pandas.Timedelta(5, "ns"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_what_would_not_come_back_equal_is_kept_as_text(value):
    assert round_trip(value) == repr(value)


def test_text_of_an_array_is_whole():
    text = round_trip(numpy.array([(i, i / 3) for i in range(2000)], dtype=[("a", int), ("b", float)]))
    assert "..." not in text and "(1999, 6.6633333333333" in text
    assert round_trip(numpy.array([1], dtype="clongdouble") / 3).startswith("array([0.33333333333333333")


def test_a_long_double_is_the_nearest_float():
    back = round_trip(numpy.longdouble(1) / 3)
    assert type(back) is float and back == 1 / 3


def test_members_have_the_names_of_the_keys_that_come_back():
    assert encoded({Split.TEST: 0.5}) == {"test": 0.5}
    assert encoded({"value": {Level.HIGH: 1, numpy.float32(0.5): 2}}) == {"value": {"3": 1, "0.5": 2, "$keys": [3, 0.5]}}


def test_flags_are_made_without_code_of_their_class():
    assert decoded(["$enum", f"{__name__}:Strict", "ONLY", 1]) is Strict.ONLY
    assert decoded(["$enum", f"{__name__}:Strict", "ONLY|4", 5]) == 5
    assert decoded(["$enum", f"{__name__}:Parts", "x", "y"]) == "y"


def test_nan_comes_back():
    assert math.isnan(round_trip(math.nan))


def test_what_has_no_form_is_kept_as_text():
    assert round_trip(Color) == repr(Color)


@pytest.mark.parametrize("names", [{"$keys": 1}, {1: 0.5, "1": 0.6}])
def test_names_that_could_not_be_told_apart_are_refused(names):
    with pytest.raises(ValueError, match="rename them"):
        encoded(names)


def test_what_json_holds_is_not_copied():
    metrics = {"epoch": 1, "loss": 0.5, "phase": "train", "lowest": -(2**63), "highest": 2**64 - 1}
    assert encoded(metrics) is metrics


def test_numbers_by_number_stay_numbers_for_trackers():
    assert encoded({"accuracy": {0: 0.5}})["accuracy"]["0"] == 0.5


@pytest.mark.parametrize("value", [torch.ones(2), {"nested": [torch.ones(1)]}, torch.nn.Linear(1, 1)])
def test_tensors_are_refused_by_name(value):
    with pytest.raises(ValueError, match=r"metrics\['value'\].*report numbers: tensor.item\(\)"):
        encoded({"value": value})


def test_what_cannot_be_pickled_is_refused_by_name():
    with pytest.raises(TypeError, match=r"metrics\['a'\]\['lock'\] is of type lock"):
        encoded({"a": {"lock": threading.Lock()}})


def test_a_later_versions_marks_are_lists():
    assert decoded(["$of_2030", 1]) == ["$of_2030", 1]
    assert decoded(["$date", "no date"]) == ["$date", "no date"]
    assert decoded(["$enum", "os:system", "RED", 7]) == 7
    assert decoded(["$dataclass", "no_such_module:Score", {"value": 1}]) == {"value": 1}


class Keep(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        self.metrics = metrics[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_gives_back_what_was_reported(workers, tmp_path):
    def loop(config):
        folder = pathlib.Path(config["folder"])
        folder.mkdir()
        report(config["values"], checkpoint=Checkpoint(folder))

    keep = Keep()
    trainer = TorchTrainer(
        loop,
        train_loop_config={"values": VALUES, "folder": str(tmp_path / "user")},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name="run", storage_path=tmp_path, callbacks=[keep]),
    )
    result = trainer.fit()
    assert keep.metrics == VALUES
    assert result.metrics == VALUES
    assert result.best_checkpoints[0][1] == VALUES
    frame = result.metrics_dataframe
    assert set(frame.columns) == set(VALUES)
    assert frame["date"][0] == VALUES["date"]
    assert not [name for name in result.metrics_history.column_names if "$keys" in name]


def test_lone_surrogates_come_back(tmp_path):
    values = {"half": "\ud800x", "file": "\udcff", "inner": ["\udfff"]}

    def loop():
        report(values)
        return values

    config = RunConfig(name="run", storage_path=tmp_path)
    result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=config).fit()
    assert result.metrics == result.return_value == values
    read = Result.from_path(result.path)
    assert read.metrics == read.return_value == values


def test_names_with_lone_surrogates_are_refused_and_returned(tmp_path):
    def loop():
        with pytest.raises(TypeError, match=r"metrics has the name '\\ud800', which cannot be written in UTF-8; rename it"):
            report({"\ud800": 1})
        return {"\ud800": 1}

    config = RunConfig(name="run", storage_path=tmp_path)
    result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=config).fit()
    assert result.return_value == {"\ud800": 1}


def test_without_pandas_the_dataframe_is_a_table_of_the_same(monkeypatch, tmp_path):
    def loop():
        report({"day": VALUES["date"], "shape": (1, 2), "inner": {"a": 1}, "rank": 7, "pair": Point(1, 2), "mixed": 1})
        report({"day": VALUES["date"], "rank": 8, "mixed": "x", "large": 2**80, "color": Color.RED, 3: 0.5})

    config = RunConfig(name="run", storage_path=tmp_path)
    path = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=config).fit().path
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = Result.from_path(path).metrics_dataframe
    assert isinstance(table, pyarrow.Table)
    assert table.to_pydict() == {
        "day": [VALUES["date"]] * 2,
        "shape": [[1, 2], None],
        "inner": [{"a": 1}, None],
        "rank": [7, 8],
        "pair": [[1, 2], None],
        "mixed": ["1", "x"],
        "large": [None, str(2**80)],
        "color": [None, "Color.RED"],
        "3": [None, 0.5],
    }
    monkeypatch.delitem(sys.modules, "pandas")
    frame = Result.from_path(path).metrics_dataframe
    assert [str(name) for name in frame.columns] == table.column_names
    assert (frame["day"][0], frame["shape"][0], frame["inner"][0]) == (VALUES["date"], (1, 2), {"a": 1})


def test_every_mark_is_described():
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/architecture/metrics_format.md"
    described = set(re.findall(r"\$[a-z]+", page.read_text()))
    assert described == {*_metrics._DECODERS, _metrics.KEYS, _values.PICKLED}

"""Aggregates, of one pass over blocks that differ in what they have."""

import math
import re

import numpy
import pyarrow
import pytest

import paceline.data
from paceline.data import aggregate
from paceline.data._quantiles import QuantileSketch
from paceline.train import ConfigError


@pytest.fixture
def dataset():
    """Blocks of 3, 0, 2 and 1 rows; the last has nothing but nulls."""
    schema = pyarrow.schema([("x", pyarrow.int64()), ("name", pyarrow.string()), ("tags", pyarrow.list_(pyarrow.string()))])
    rows = [
        [{"x": 1, "name": "a", "tags": ["p"]}, {"x": -7, "name": "b", "tags": []}, {"x": 2, "name": "a", "tags": ["p", "q"]}],
        [],
        [{"x": 0, "name": None, "tags": ["q"]}, {"x": 4, "name": "c", "tags": ["q"]}],
        [{"x": None, "name": None, "tags": None}],
    ]
    return paceline.data.from_arrow([pyarrow.Table.from_pylist(part, schema=schema) for part in rows])


def test_all_of_them_in_one_pass(dataset):
    of = aggregate
    values = dataset.aggregate(
        of.Count(), of.Count("x", ignore_nulls=True), of.Sum("x"), of.Min("x"), of.Max("name"), of.Mean("x"), of.Std("x"),
        of.AbsMax("x"), of.Quantile("x", q=0.25), of.Unique("name"), of.CountDistinct("name"), of.ValueCounter("name"),
        of.AsList("x", ignore_nulls=True), of.MissingValuePercentage("x"), of.ZeroPercentage("x"),
        of.Unique("tags", encode_lists=True, ignore_nulls=True, alias_name="tags"),
        of.ApproximateQuantile("x", [0.0, 0.5, 1.0]),
    )  # fmt: skip
    numbers = numpy.array([1, -7, 2, 0, 4])
    assert values == {
        "count()": 6, "count(x)": 5, "sum(x)": 0, "min(x)": -7, "max(name)": "c", "mean(x)": 0.0,
        "std(x)": pytest.approx(numbers.std(ddof=1)), "abs_max(x)": 7, "quantile(x)": numpy.quantile(numbers, 0.25),
        "unique(name)": ["a", "b", None, "c"], "count_distinct(name)": 3,
        "value_counter(name)": {"values": ["a", "b", None, "c"], "counts": [2, 1, 2, 1]}, "list(x)": [1, -7, 2, 0, 4],
        "missing_pct(x)": pytest.approx(100 / 6), "zero_pct(x)": 20.0, "tags": ["p", "q"],
        "approx_quantile(x)": [-7.0, 1.0, 4.0],
    }  # fmt: skip


def test_several_read_the_rows_once(dataset, tmp_path):
    def counted(batch):
        with open(tmp_path / "rows", "a") as file:  # functions are called in other processes
            file.write("x" * len(batch["x"]))
        return batch

    dataset.map_batches(counted).aggregate(aggregate.Sum("x"), aggregate.Mean("x"))
    assert (tmp_path / "rows").read_text() == "x" * 6


@pytest.mark.parametrize("what", ["rows", "rows of a function", "files", "renamed"])
def test_a_column_that_is_not_there_is_named_with_its_aggregate(tmp_path, what):
    dataset = paceline.data.from_arrow(pyarrow.table({"a": [1, 2], "b": [3, 4]}))
    if what == "rows of a function":
        dataset = dataset.map_batches(lambda batch: batch)
    elif what != "rows":
        dataset.write_parquet(str(tmp_path))
        dataset = paceline.data.read_parquet(str(tmp_path))
    first = "a"
    if what == "renamed":
        first, dataset = "c", dataset.rename_columns({"a": "c"})
    there = f"there is no column 'aa'; there are {first}, b"
    for name in ("sum", "min", "mean", "std", "unique"):
        with pytest.raises(ConfigError, match=re.escape(f"{name}(aa): {there}")):
            getattr(dataset, name)("aa")
    with pytest.raises(ConfigError, match=re.escape(f"max(aa): {there}")):
        dataset.max(["b", "aa"])
    with pytest.raises(ConfigError, match=re.escape(f"total: {there}")):
        dataset.aggregate(aggregate.Count(), aggregate.Sum("aa", alias_name="total"))


def test_errors_of_steps_are_theirs():
    dataset = paceline.data.range(3).select_columns(["zz"])
    for column in ("id", "zz"):
        with pytest.raises(ConfigError, match=r"SelectColumns\(zz\): there is no column 'zz'; there are id"):
            dataset.sum(column)


def test_nulls_that_count_make_a_result_unknown(dataset):
    of = aggregate
    kinds = [of.Sum, of.Min, of.Max, of.Mean, of.Std, of.AbsMax]
    assert set(dataset.aggregate(*(kind("x", ignore_nulls=False) for kind in kinds)).values()) == {None}
    assert dataset.sum("x", ignore_nulls=False) is None and dataset.sum("x") == 0


def test_of_no_rows():
    empty = paceline.data.range(3).filter(expr="id > 5")
    values = empty.aggregate(aggregate.Count(), aggregate.Sum("id"), aggregate.Std("id"), aggregate.Unique("id"))
    assert values == {"count()": 0, "sum(id)": None, "std(id)": None, "unique(id)": []}
    assert math.isnan(paceline.data.range(1).std("id"))


def test_aggregates_of_users():
    by_row = aggregate.AggregateFn(
        init=lambda _: 0, accumulate_row=lambda total, row: total + row["id"] ** 2, merge=lambda a, b: a + b, name="squares")
    by_block = aggregate.AggregateFn(
        init=lambda _: [], accumulate_block=lambda seen, block: [*seen, block.num_rows], merge=lambda a, b: a + b,
        name="blocks", finalize=sorted)

    class Spread(aggregate.AggregateFnV2):
        def __init__(self, on):
            super().__init__(f"spread({on})", list, on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            return [block[self.get_target_column()][0].as_py(), block[self.get_target_column()][-1].as_py()]

        def combine(self, current_accumulator, new):
            return [min(current_accumulator[0], new[0]), max(current_accumulator[1], new[1])]

        def finalize(self, accumulator):
            return accumulator[1] - accumulator[0]

    dataset = paceline.data.range(10, override_num_blocks=4)
    assert dataset.aggregate(by_row, by_block, Spread("id")) == {"squares": 285, "blocks": [2, 2, 3, 3], "spread(id)": 9}
    with pytest.raises(ValueError, match="either accumulate_row or accumulate_block"):
        aggregate.AggregateFn(lambda _: 0, max, "nothing")


def test_quantiles_of_many_numbers_are_near_and_take_little_memory():
    numbers = numpy.random.default_rng(3).permutation(200_000)
    sketch = QuantileSketch(800)
    for first in range(0, len(numbers), 777):
        sketch = sketch.merged(QuantileSketch(800, numbers[first : first + 777]))
    assert sum(map(len, sketch._levels)) < 10_000
    parts = [0.01, 0.25, 0.5, 0.75, 0.99]
    assert numpy.abs(numpy.array(sketch.quantiles(parts)) / 200_000 - parts).max() < 0.003

"""Aggregates, of one pass over blocks that differ in what they have."""

import decimal
import fractions
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


def of_x(*values, kind=None):
    return paceline.data.from_arrow([pyarrow.table({"x": pyarrow.array(some, kind)}) for some in values])


def test_what_counts_and_lists_is_known_of_no_rows():
    of = aggregate
    counting = [of.Count("x", ignore_nulls=True), of.CountDistinct("x"), of.ValueCounter("x"), of.Unique("x", ignore_nulls=True),
                of.AsList("x", ignore_nulls=True)]
    wanted = {"count(x)": 0, "count_distinct(x)": 0, "value_counter(x)": {"values": [], "counts": []}, "unique(x)": [],
              "list(x)": []}
    assert of_x([], kind=pyarrow.int64()).aggregate(*counting) == wanted
    assert paceline.data.range(3).rename_columns({"id": "x"}).filter(expr="x > 5").aggregate(*counting) == wanted
    found = of_x([1, None], [1]).aggregate(*counting)
    assert found["count(x)"] == 2 and found["unique(x)"] == [1] and found["list(x)"] == [1, 1]


def test_texts_of_digits_are_no_numbers():
    texts = of_x(["1", "2", "4"])
    for one in (aggregate.Std("x"), aggregate.ApproximateQuantile("x", [0.5]), aggregate.ZeroPercentage("x")):
        with pytest.raises(ConfigError, match="column 'x' has string; wanted: numbers"):
            texts.aggregate(one)


def test_deviations_too_large_for_doubles_are_infinite_in_every_cut():
    for cut in ([[1e200, 0.0]], [[1e200], [0.0]]):
        assert of_x(*cut).std("x") == math.inf


def test_decimals_keep_their_digits():
    least = decimal.Decimal("-" + "9" * 36 + ".99")
    prices = of_x([least], [decimal.Decimal(1)], kind=pyarrow.decimal128(38, 2))
    assert prices.aggregate(aggregate.AbsMax("x"))["abs_max(x)"] == least.copy_abs()
    near = [decimal.Decimal(10**31 + 3), decimal.Decimal(10**31 + 6)]
    mean = of_x(near[:1], near[1:], kind=pyarrow.decimal128(38, 0)).mean("x")
    assert mean == decimal.Decimal("1" + "0" * 30 + "4.5")


def test_structs_and_lists_of_lists_are_values():
    struct = pyarrow.struct([("a", pyarrow.int64()), ("b", pyarrow.list_(pyarrow.int64()))])
    one, other = {"a": 1, "b": [2]}, {"a": 1, "b": [3]}
    for dataset, wanted in ((of_x([one, other], [one], kind=struct), [one, other]),
                            (of_x([[[1], []], [[2]]], [[[1], []]]), [((1,), ()), ((2,),)])):
        assert dataset.unique("x") == wanted
        found = dataset.aggregate(aggregate.ValueCounter("x"), aggregate.CountDistinct("x"))
        assert found == {"value_counter(x)": {"values": wanted, "counts": [2, 1]}, "count_distinct(x)": 2}


@pytest.mark.parametrize("kind, values", [
    (pyarrow.bool_(), [False, True, None, True, True]), (pyarrow.uint64(), [0, 2**64 - 1, None, 2**63, 1]),
    (pyarrow.float16(), [numpy.float16(one) for one in (0, 1, 2, 3)]),
    (pyarrow.decimal128(5, 2), [decimal.Decimal(one) for one in ("0.00", "0.01", "1.00", "-1.00")])])
def test_zeros_of_all_numbers(kind, values):
    dataset = of_x(values[:2], values[2:], kind=kind)
    assert dataset.aggregate(aggregate.ZeroPercentage("x"))["zero_pct(x)"] == 25


@pytest.mark.parametrize("kind, values", [
    (pyarrow.int64(), [2**60, 2**60 + 100, 2**60 + 200]), (pyarrow.int64(), [-(2**63), 2**63 - 1, 0, -1]),
    (pyarrow.uint64(), [2**64 - 1, 2**64 - 2, 0]), (pyarrow.int8(), [-128, 127, 3]), (pyarrow.bool_(), [True, False, True]),
    (pyarrow.int64(), [7, 7])])
def test_deviations_of_integers_are_exact_in_every_cut(kind, values):
    mean = fractions.Fraction(sum(values), len(values))
    wanted = [math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - ddof)) for ddof in (0, 1)]
    for place in range(len(values)):
        dataset = of_x(values[:place], [None], values[place:], kind=kind)
        assert [dataset.std("x", ddof=ddof) for ddof in (0, 1)] == wanted


def test_deviations_of_integers_beside_fractions():
    def parts(batch):
        return {"x": batch["id"] if batch["id"][0] == 0 else batch["id"] / 2}

    dataset = paceline.data.range(6, override_num_blocks=3).map_batches(parts)
    assert dataset.std("x") == pytest.approx(numpy.std([0, 1, 1, 1.5, 2, 2.5], ddof=1))


def test_values_of_many_blocks_are_merged_in_place():
    of = [aggregate.CountDistinct("x"), aggregate.Unique("x"), aggregate.ValueCounter("x"), aggregate.AsList("x")]
    for one in of:
        first, second = (one.aggregate_block(pyarrow.table({"x": [place]})) for place in (1, 2))
        assert one.combine(first, second) is first, one.name  # a copy for each block would make it quadratic
    found = of_x(*([place, 0] for place in range(50))).aggregate(*of)
    assert found["count_distinct(x)"] == 50 and found["unique(x)"] == list(range(50))
    assert found["value_counter(x)"]["counts"] == [51] + [1] * 49 and len(found["list(x)"]) == 100

"""Numbers and times that come out of steps and aggregates as they are: exactly, and the same for every cut into blocks."""

import decimal
import itertools
import math

import numpy
import pandas
import pyarrow
import pytest
import torch

import paceline.data
from paceline.data import aggregate, expressions, preprocessors

NAN = float("nan")


@pytest.fixture(autouse=True)
def functions_here(monkeypatch):
    monkeypatch.setattr(paceline.data.DataContext.get_current().execution_options, "functions", "threads")


def blocks(*values, kind=None):
    return paceline.data.from_arrow([pyarrow.table({"x": pyarrow.array(some, kind)}) for some in values])


def column_of(dataset):
    return pyarrow.concat_tables(dataset.to_arrow_refs()).column("x").combine_chunks()


def cuts(values):
    """All ways to cut a list into parts."""
    for places in itertools.product([False, True], repeat=len(values) - 1):
        ends = [place + 1 for place, is_cut in enumerate(places) if is_cut] + [len(values)]
        yield [values[first:end] for first, end in zip([0, *ends], ends)]


@pytest.mark.parametrize(
    "kind, values",
    [
        (pyarrow.int64(), [2**62, 2**62, 2**62, -5]),
        (pyarrow.int64(), [-(2**63), -(2**63), 7]),
        (pyarrow.uint64(), [2**64 - 1, 2**64 - 1, 3]),
        (pyarrow.int8(), [127, 127, 127]),
        (pyarrow.decimal128(38, 0), [decimal.Decimal("9" * 38)] * 3),
        (pyarrow.float16(), [numpy.float16(65504)] * 4),
    ],
)
def test_sums_and_means_are_exact_in_every_cut(kind, values):
    with decimal.localcontext(prec=100):
        total = sum(value if isinstance(value, decimal.Decimal) else value.item() if hasattr(value, "item") else value
                    for value in values)
    for cut in cuts(values):
        found = blocks(*cut, kind=kind).aggregate(aggregate.Sum("x"), aggregate.Mean("x"))
        assert found["sum(x)"] == total
        assert float(found["mean(x)"]) == pytest.approx(float(total) / len(values), rel=1e-15)


def test_nan_counts_the_same_in_every_cut():
    values = [3.0, NAN, 1.0, NAN, -4.0]
    of = aggregate
    for order in ([0, 1, 2, 3, 4], [1, 3, 0, 2, 4], [0, 2, 4, 1, 3]):
        for cut in cuts([values[place] for place in order]):
            dataset = blocks(*cut, kind=pyarrow.float64())
            for ignore_nulls in (True, False):
                found = [dataset.min("x", ignore_nulls), dataset.max("x", ignore_nulls),
                         dataset.aggregate(of.AbsMax("x", ignore_nulls))["abs_max(x)"]]
                assert found == [-4, 3, 4]
            found = dataset.aggregate(of.ApproximateQuantile("x", [0, 0.5, 1]), of.Quantile("x", q=0.5), of.CountDistinct("x"),
                                      of.Unique("x"), of.ValueCounter("x"), of.Sum("x"), of.Mean("x"), of.Std("x"))
            assert found["approx_quantile(x)"] == [-4, 1, 3] and found["quantile(x)"] == 1 and found["count_distinct(x)"] == 4
            assert len(found["unique(x)"]) == 4 and sum(map(math.isnan, found["unique(x)"])) == 1
            counts = found["value_counter(x)"]
            assert sorted(counts["counts"]) == [1, 1, 1, 2]
            assert math.isnan(counts["values"][counts["counts"].index(2)])
            assert all(math.isnan(found[f"{name}(x)"]) for name in ("sum", "mean", "std"))


def test_of_nothing_but_nan():
    for cut in cuts([NAN, NAN]):
        dataset = blocks(*cut)
        for ignore_nulls in (True, False):
            assert math.isnan(dataset.min("x", ignore_nulls)) and math.isnan(dataset.max("x", ignore_nulls))
        assert all(map(math.isnan, dataset.aggregate(aggregate.ApproximateQuantile("x", [0, 1]))["approx_quantile(x)"]))
        assert math.isnan(dataset.aggregate(aggregate.Quantile("x"))["quantile(x)"])


def test_half_precision_and_both_zeros():
    halves = blocks(numpy.array([1, 2], "float16"), numpy.array([3, NAN], "float16"))
    found = halves.aggregate(aggregate.Min("x"), aggregate.AbsMax("x"), aggregate.Quantile("x"), aggregate.Count("x"))
    assert found == {"min(x)": 1, "abs_max(x)": 3, "quantile(x)": 2, "count(x)": 4}
    for cut in cuts([0.0, -0.0, 0.0]):
        assert blocks(*cut).aggregate(aggregate.ValueCounter("x"))["value_counter(x)"] == {"values": [0.0], "counts": [3]}


def test_aggregates_of_one_name_are_numbered():
    found = blocks([1, 2, 3, 4]).aggregate(
        aggregate.Std("x", ddof=0), aggregate.Std("x", ddof=1), aggregate.Sum("x", alias_name="std(x)_2"), aggregate.Std("x"))
    assert found == {"std(x)": numpy.std([1, 2, 3, 4]), "std(x)_2": numpy.std([1, 2, 3, 4], ddof=1),
                     "std(x)_2_2": 10, "std(x)_3": numpy.std([1, 2, 3, 4], ddof=1)}  # fmt: skip


def test_division_in_texts_is_pythons():
    dataset = blocks([7, 8, -7], kind=pyarrow.int32())
    assert [row["x"] for row in dataset.filter(expr="x / 2 == 3.5").take_all()] == [7]
    assert column_of(dataset.with_column("x", "x / 2")).to_pylist() == [3.5, 4.0, -3.5]
    assert column_of(dataset.with_column("x", "x // 2")).to_pylist() == [3, 4, -4]
    assert column_of(dataset.with_column("x", "7 / x * 2 - 1")).to_pylist() == [1, 0.75, -3]
    assert column_of(dataset.with_column("x", expressions.col("x") / 2)).to_pylist() == [3, 4, -3]  # Arrow's, as Ray's
    large = blocks([2**53 + 1, 2**62], kind=pyarrow.int64())
    assert column_of(large.with_column("x", "x / 2")).to_pylist() == [(2**53 + 1) / 2, 2.0**61]
    assert expressions.encoded("x / 2") != expressions.encoded("x // 2")


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int64", "bool", "float32"])
def test_scalers_of_narrow_integers(kind):
    limits = {"bool": [0, 1, 1, 0], "float32": [-1.5, 2, 8, 0]}.get(kind)
    if limits is None:
        ends = numpy.iinfo(kind)
        limits = [max(ends.min, -(2**40)), 3, 0, min(ends.max, 2**40)]
    numbers = numpy.array(limits, kind)
    exact = numbers.astype("float64")
    dataset = blocks(numbers[:2], numbers[2:])
    expected = {
        preprocessors.MinMaxScaler: (exact - exact.min()) / (exact.max() - exact.min()),
        preprocessors.StandardScaler: (exact - exact.mean()) / exact.std(),
        preprocessors.MaxAbsScaler: exact / numpy.abs(exact).max(),
    }
    for scaler, values in expected.items():
        assert column_of(scaler(["x"]).fit_transform(dataset)).to_pylist() == pytest.approx(values.tolist(), rel=1e-6)


def test_powers_of_whole_numbers():
    for kind, power in itertools.product(["uint8", "int8", "int64"], [2, -1, 0.5, 0, -2]):
        numbers = numpy.array([1, 2, 100], kind)
        exact = numbers.astype("float64")
        made = preprocessors.PowerTransformer(["x"], power, method="box-cox").transform(blocks(numbers))
        assert column_of(made).to_pylist() == pytest.approx(numpy.log(exact) if power == 0 else (exact**power - 1) / power)


def test_hashed_sums_have_room():
    for kind, total in (("uint8", 300), ("int8", 200), ("bool", 2)):
        values = {"uint8": [200, 100], "int8": [100, 100], "bool": [True, True]}[kind]
        frame = pandas.DataFrame({name: numpy.array([value], kind) for name, value in zip("ab", values)})
        assert preprocessors.FeatureHasher(["a", "b"], 1, "sums").transform_batch(frame)["sums"][0].tolist() == [total]


def test_preprocessors_take_nan_for_null():
    values = [1.0, NAN, 3.0, 5.0]
    known = numpy.array([1, 3, 5])
    for cut in cuts(values):
        scaler = preprocessors.StandardScaler(["x"]).fit(blocks(*cut))
        assert scaler.stats_ == {"mean(x)": pytest.approx(3), "std(x)": pytest.approx(known.std())}
        filled = preprocessors.SimpleImputer(["x"]).fit_transform(blocks(*cut))
        assert column_of(filled).to_pylist() == [1, 3, 3, 5]
        assert preprocessors.MinMaxScaler(["x"]).fit(blocks(*cut)).stats_ == {"min(x)": 1, "max(x)": 5}


def test_outputs_do_not_take_the_place_of_inputs_that_are_still_to_be_read():
    dataset = paceline.data.from_items([{"a": "p", "b": "q"}, {"a": "r", "b": "s"}, {"a": "r", "b": "q"}])
    made = preprocessors.OrdinalEncoder(["a", "b"], output_columns=["b", "a"]).fit_transform(dataset)
    assert made.take_all() == [{"a": 0, "b": 0}, {"a": 1, "b": 1}, {"a": 0, "b": 1}]
    numbers = paceline.data.from_items([{"a": 1.0, "b": None}, {"a": None, "b": 30.0}])
    made = preprocessors.SimpleImputer(["a", "b"], output_columns=["b", "a"]).fit_transform(numbers)
    assert made.take_all() == [{"a": 30.0, "b": 1.0}, {"a": 30.0, "b": 1.0}]


def test_nan_as_a_whole_number_is_an_error():
    for values in ([1, None], [1.0, NAN], [1.0, math.inf]):
        for dtypes in (torch.int64, {"x": torch.int8}):
            with pytest.raises(ValueError, match="column 'x' has nulls, NaN or infinite numbers, which torch.int.* fill"):
                list(blocks(values).iter_torch_batches(dtypes=dtypes))
        with pytest.raises(ValueError, match="column 'x' has nulls"):
            list(blocks(values).to_torch(feature_columns=["x"], feature_column_dtypes=torch.int64, batch_size=2))
        with pytest.raises(ValueError, match="column 'x' has nulls, NaN or infinite numbers, which int64 has not; fill"):
            preprocessors.Concatenator(["x"], dtype="int64").transform(blocks(values)).take_all()
    (batch,) = blocks([1.5, 2.0]).iter_torch_batches(dtypes=torch.int64)
    assert batch["x"].tolist() == [1, 2]


def test_arrays_that_were_given_are_the_users_own():
    array = numpy.arange(4)
    dataset = paceline.data.from_numpy(array)
    array[:] = 0
    assert dataset.take_batch(4)["data"].tolist() == [0, 1, 2, 3]


def test_what_is_written_to_tensors_stays_with_them():
    numbers = paceline.data.from_arrow(pyarrow.table({"x": numpy.arange(6.0)}))
    for dataset in (numbers, numbers.union(numbers.limit(2)), paceline.data.range(6).rename_columns({"id": "x"}).cache()):
        epochs = dataset.iterator()
        first = []
        for batch in epochs.iter_torch_batches(batch_size=2):
            first += batch["x"].tolist()
            batch["x"].add_(100)
        assert [value for batch in epochs.iter_torch_batches(batch_size=2) for value in batch["x"].tolist()] == first


UTC = "Europe/Berlin"
SAME = {
    "ns": pyarrow.array([0, 1, None, 2**60], pyarrow.timestamp("ns")),
    "zone": pyarrow.array([0, 1, 1700000000], pyarrow.timestamp("s", UTC)),
    "zone_ns": pyarrow.array([0, 1, 2**60 + 1], pyarrow.timestamp("ns", UTC)),
    "duration": pyarrow.array([1, 2**60 + 1], pyarrow.duration("ns")),
    "date64": pyarrow.array([0, 86400000], pyarrow.date64()),
    "uint64": pyarrow.array([2**64 - 1, 0, 2**53 + 1], pyarrow.uint64()),
    "decimal": pyarrow.array([decimal.Decimal("1.10"), None], pyarrow.decimal128(10, 2)),
    "binary": pyarrow.array([b"ab", b"cd"], pyarrow.binary(2)),
    "large": pyarrow.array(["a", None], pyarrow.large_string()),
    "struct": pyarrow.array([{"a": 2**53 + 1, "t": 1}, None, {"a": None, "t": 2**60 + 1}],
                            pyarrow.struct([("a", pyarrow.int64()), ("t", pyarrow.timestamp("ns"))])),
    "map": pyarrow.array([[("k", 1)], [], None], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
}  # fmt: skip
SAME_IN_ROWS = {
    "uint64 with nulls": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
    "lists": pyarrow.array([[2**53 + 1, None], [1], None], pyarrow.list_(pyarrow.int64())),
    "narrow lists": pyarrow.array([[1, None], None, [2]], pyarrow.list_(pyarrow.int8())),
    "fixed lists": pyarrow.array([[1, None], [3, 4], None], pyarrow.list_(pyarrow.int32(), 2)),
    "lists of lists": pyarrow.array([[[1, None], [2]], [], [[2**53 + 1]]]),
}


@pytest.mark.parametrize("name", SAME)
def test_batches_that_are_given_back_are_the_same(name):
    dataset = paceline.data.from_arrow(pyarrow.table({"x": SAME[name]}))
    for batch_format in ("numpy", "pandas", "pyarrow"):
        made = column_of(dataset.map_batches(lambda batch: batch, batch_format=batch_format))
        assert made.equals(SAME[name]), (batch_format, made.type)


@pytest.mark.parametrize("name", [*SAME, *SAME_IN_ROWS])
def test_rows_that_are_given_back_are_the_same(name):
    values = {**SAME, **SAME_IN_ROWS}[name]
    dataset = paceline.data.from_arrow(pyarrow.table({"x": values}))
    for made in (dataset.map(lambda row: row), dataset.flat_map(lambda row: [row])):
        assert column_of(made).equals(values), column_of(made).type


def test_types_from_before_hold_only_what_fits_them():
    seconds = paceline.data.from_arrow(pyarrow.table({"x": pyarrow.array([0, 1], pyarrow.timestamp("s"))}))
    half = seconds.map(lambda row: {"x": row["x"] + pandas.Timedelta(milliseconds=500)})
    assert column_of(half).cast(pyarrow.timestamp("ms")).cast(pyarrow.int64()).to_pylist() == [500, 1500]
    prices = paceline.data.from_arrow(pyarrow.table({"x": pyarrow.array([decimal.Decimal("1.10")], pyarrow.decimal128(10, 2))}))
    assert column_of(prices.map(lambda row: {"x": row["x"] / 8})).to_pylist() == [decimal.Decimal("0.1375")]
    assert column_of(prices.map(lambda row: {"x": "text"})).to_pylist() == ["text"]
    unsigned = blocks([1, 2], kind=pyarrow.uint64())
    assert column_of(unsigned.map(lambda row: {"x": row["x"] - 2})).to_pylist() == [-1, 0]
    narrow = blocks([100], kind=pyarrow.int8())
    assert column_of(narrow.map(lambda row: {"x": row["x"] * 2})).to_pylist() == [200]


def test_whole_numbers_of_numpy_stay_whole():
    mixed = paceline.data.from_items([{"x": numpy.int64(2**53 + 1)}, {"x": numpy.uint64(5)}])
    assert column_of(mixed).to_pylist() == [2**53 + 1, 5] and column_of(mixed).type == pyarrow.int64()
    large = paceline.data.from_items([{"x": numpy.int64(1)}, {"x": numpy.uint64(2**64 - 1)}])
    assert column_of(large).to_pylist() == [1, 2**64 - 1]
    assert column_of(paceline.data.from_items([{"x": 2**64 - 1}])).to_pylist() == [2**64 - 1]
    for values in ([numpy.int64(-1), numpy.uint64(2**64 - 1)], [2**64], [-1, 2**63]):
        with pytest.raises(TypeError, match="column 'x'"):
            paceline.data.from_items([{"x": value} for value in values])

"""Preprocessors of columns whose types have traps: dictionaries, times, blocks of nothing but nulls, and the largest doubles."""

import decimal
import math

import numpy
import pandas
import pyarrow
import pytest

import paceline.data
from paceline.data import aggregate
from paceline.data.preprocessors import (
    Categorizer,
    Concatenator,
    CountVectorizer,
    FeatureHasher,
    HashingVectorizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
)

NAN = math.nan


@pytest.fixture(autouse=True)
def functions_here(monkeypatch):
    monkeypatch.setattr(paceline.data.DataContext.get_current().execution_options, "functions", "threads")


def blocks(*columns, **others):
    """A dataset of a column x, of blocks."""
    return paceline.data.from_arrow([pyarrow.table({"x": column, **others}) for column in columns])


def made(dataset, column="x"):
    """The types of the blocks, and their values together."""
    tables = dataset.to_arrow_refs()
    kinds = {str(table.schema.field(column).type) for table in tables}
    return kinds, [value for table in tables for value in table.column(column).to_pylist()]


def dictionary(*values, kind=None):
    return pyarrow.array(values, kind).dictionary_encode()


def of_words(places, words, kind=None):
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(places, pyarrow.int8()), pyarrow.array(words, kind))


# Dictionaries


def test_dictionaries_of_numbers_are_filled_as_numbers_are():
    def filled(value, *values, kind=None):
        return made(SimpleImputer(["x"], "constant", value).transform(blocks(dictionary(*values, kind=kind))))

    assert filled(0.5, 1, 2, None) == ({"double"}, [1, 2, 0.5])
    assert filled(7, 1, None) == ({"int64"}, [1, 7])
    assert filled(300, 1, None, kind=pyarrow.int8()) == ({"int64"}, [1, 300])
    assert filled(2.0, 1.5, NAN, None) == ({"double"}, [1.5, 2, 2])
    with pytest.raises(TypeError, match="column 'x' is of int64, which 'z' cannot fill"):
        filled("z", 1, None)
    with pytest.raises(TypeError, match="column 'x' is of dictionary<.*>, which 7 cannot fill"):
        filled(7, "a", None)
    mean = SimpleImputer(["x"], "mean").fit_transform(blocks(dictionary(1, 2, None)))
    assert made(mean) == ({"double"}, [1, 2, 1.5])


def test_nulls_that_are_words_are_filled():
    kind = str(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    for places, words, values in (([0, 1, 0, None], ["a", None], ["a", "z", "a", "z"]),
                                  ([1, 0, 2, None], [None, "a", "z"], ["a", "z", "z", "z"])):  # fmt: skip
        filled = SimpleImputer(["x"], "constant", "z").transform(blocks(of_words(places, words)))
        assert made(filled) == ({kind}, values)
        (column,) = filled.to_arrow_refs()[0].column("x").chunks
        assert column.dictionary.null_count == 0
    frequent = SimpleImputer(["x"], "most_frequent").fit_transform(blocks(of_words([0, 1, 0, None], ["a", None])))
    assert made(frequent) == ({kind}, ["a"] * 4)


@pytest.mark.parametrize("kind, words", [(pyarrow.string(), [None, "a", "b"]), (pyarrow.float64(), [NAN, 1.5, 2.5])])
def test_nulls_that_are_words_are_no_categories(kind, words):
    known, unknown = of_words([1, 2], words, kind), of_words([1, 0, None], words, kind)
    for encoder, rows in ((OneHotEncoder(["x"]), [[1, 0], [0, 1]]), (OrdinalEncoder(["x"]), [0, 1])):
        encoder.fit(blocks(known))
        assert made(encoder.transform(blocks(known)))[1] == rows
        with pytest.raises(ValueError, match="column 'x' has nulls; fill them first"):
            encoder.transform(blocks(unknown)).take_all()
    categories = made(Categorizer(["x"]).fit_transform(blocks(known, unknown)))[1]
    assert categories == [*words[1:], words[1], None, None]


@pytest.mark.parametrize("scaler, scaled", [
    (StandardScaler, [-1, 1, None]), (MinMaxScaler, [0, 1, None]), (MaxAbsScaler, [1 / 3, 1, None]),
    (RobustScaler, [-1, 0, None])])
def test_dictionaries_of_numbers_are_scaled_as_numbers_are(scaler, scaled):
    for first in (dictionary(1, 3, None), of_words([0, 1, 2], [1, 3, None])):
        kinds, found = made(scaler(["x"]).fit_transform(blocks(first)))
        assert kinds == {"double"} and found == pytest.approx(scaled)


def test_aggregates_of_dictionaries_are_those_of_their_values():
    dataset = blocks(dictionary(1, 2, None), of_words([0, 1, 1], [0, None]))
    of = aggregate
    found = dataset.aggregate(of.Sum("x"), of.Min("x"), of.Max("x"), of.AbsMax("x"), of.Mean("x"), of.Std("x", ddof=0),
                              of.ApproximateQuantile("x", [0.5]), of.ZeroPercentage("x"), of.Sum("x", False, "all"))  # fmt: skip
    assert list(found.values()) == [3, 0, 2, 2, 1, pytest.approx(math.sqrt(2 / 3)), [1], pytest.approx(100 / 3), None]
    assert blocks(dictionary("b", "a")).aggregate(of.Min("x"), of.Max("x")) == {"min(x)": "a", "max(x)": "b"}


# Times


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("kind", [
    pyarrow.timestamp("ns"), pyarrow.timestamp("s"), pyarrow.timestamp("us", "America/New_York"), pyarrow.duration("ns"),
], ids=str)  # fmt: skip
def test_times_are_concatenated_as_whole_numbers(kind, flatten):
    def concatenated(dtype, *values, of=kind):
        dataset = blocks(pyarrow.array(values, of))
        return made(Concatenator(["x"], dtype=dtype, flatten=flatten).transform(dataset), "concat_out")[1]

    assert concatenated("int64", 1, 2**53 + 1) == [[1], [2**53 + 1]]
    with pytest.raises(ValueError, match="column 'x' has nulls.* int64 has not; fill"):
        concatenated("int64", 1, None)
    with pytest.raises(ValueError, match="column 'x' has 300, which int8 does not hold"):
        concatenated("int8", 300, 2)
    rows = concatenated("float32", 300, None)
    assert rows[0] == [300] and math.isnan(rows[1][0])
    if flatten:
        lists = pyarrow.list_(kind, 2)
        with pytest.raises(ValueError, match="column 'x' has nulls.* int64 has not; fill"):
            concatenated("int64", [1, 2], [3, None], of=lists)
        rows = concatenated("float64", [1, 2], [3, None], of=lists)
        assert rows[0] == [1, 2] and rows[1][0] == 3 and math.isnan(rows[1][1])


def test_times_stay_beside_others_with_their_index():
    frame = pandas.DataFrame({"t": pandas.to_datetime([1, 2]), "x": [0.5, 1.5]}, index=[5, 9])
    batch = Concatenator(["t", "x"], dtype="float64").transform_batch(frame)
    assert batch.index.tolist() == [5, 9] and [row.tolist() for row in batch["concat_out"]] == [[1, 0.5], [2, 1.5]]


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("text, dtype, error", [
    ("300", "int8", "values that cannot be int8: "), ("a", "int64", "values that cannot be int64: "),
    ("a", "float32", "values that cannot be float32: "), (None, "int64", "nulls.* int64 has not; fill")])
def test_texts_that_do_not_fit_are_an_error_of_their_column(text, dtype, error, flatten):
    concatenator = Concatenator(["y", "x"], dtype=dtype, flatten=flatten)
    with pytest.raises(ValueError, match=f"column 'x' has {error}"):
        concatenator.transform(blocks(pyarrow.array(["4", text]), y=[1, 2])).take_all()
    assert made(concatenator.transform(blocks(pyarrow.array(["4", "5"]), y=[1, 2])), "concat_out")[1] == [[1, 4], [2, 5]]


# One type in every block


def hashed(*values, kind=None, beside=(1, 2), with_kind=None):
    dataset = blocks(*(pyarrow.array(some, kind) for some in values), y=pyarrow.array(beside, with_kind))
    return made(FeatureHasher(["x", "y"], 1, "h").transform(dataset), "h")


def test_hashed_columns_are_of_one_type_in_every_block():
    assert hashed([1, 3], [5, 7]) == ({"fixed_size_list<item: int64>[1]"}, [[2], [5], [6], [9]])
    with pytest.raises(ValueError, match="column 'x' has nulls, which int64 has not; fill them first"):
        hashed([1, 3], [1, None])
    for kinds in ({"kind": pyarrow.float64()}, {"with_kind": pyarrow.float64()}):
        types, rows = hashed([1, 3], [1, None], **kinds)
        assert types == {"fixed_size_list<item: double>[1]"} and rows[:3] == [[2], [5], [2]] and math.isnan(rows[3][0])


def test_types_of_hashed_columns():
    assert hashed([True, True], kind=pyarrow.bool_()) == ({"fixed_size_list<item: int64>[1]"}, [[2], [3]])
    assert hashed([100, 100], kind=pyarrow.int8(), beside=(100, 100)) == ({"fixed_size_list<item: int64>[1]"}, [[200], [200]])
    unsigned = {"kind": pyarrow.uint64(), "with_kind": pyarrow.uint64()}
    assert hashed([2**63, 1], **unsigned) == ({"fixed_size_list<item: uint64>[1]"}, [[2**63 + 1], [3]])
    narrow = {"kind": pyarrow.float32(), "with_kind": pyarrow.float32()}
    assert hashed([0.5, 1], **narrow) == ({"fixed_size_list<item: float>[1]"}, [[1.5], [3]])
    price = decimal.Decimal("0.25")
    assert hashed([price, price], [-price, None])[0] == {"fixed_size_list<item: double>[1]"}
    words = {"kind": pyarrow.dictionary(pyarrow.int8(), pyarrow.int64())}
    assert hashed([1, 3], **words) == ({"fixed_size_list<item: int64>[1]"}, [[2], [5]])
    with pytest.raises(TypeError, match="column 'x' has string; wanted: numbers"):
        hashed(["1", "2"])
    frame = FeatureHasher(["x"], 1, "h").transform_batch(pandas.DataFrame({"x": [1, 2]}, index=[5, 9]))
    assert frame.index.tolist() == [5, 9] and [row.tolist() for row in frame["h"]] == [[1], [2]]


@pytest.mark.parametrize("preprocessor, kind, first", [
    (Tokenizer(["x"]), "string", ["a", "b"]), (Tokenizer(["x"], str.split), "string", ["a", "b"]),
    (HashingVectorizer(["x"], 1), "int64", [2]), (CountVectorizer(["x"]), "int64", [1, 1])])
def test_lists_of_words_are_of_one_type_in_every_block(preprocessor, kind, first):
    texts = (pyarrow.array(some, pyarrow.string()) for some in (["a b"], [None], []))
    assert made(preprocessor.fit_transform(blocks(*texts))) == ({f"list<item: {kind}>"}, [first, None])


def test_empty_lists_of_words_have_a_type():
    for preprocessor, kind in ((Tokenizer(["x"], str.split), "string"), (CountVectorizer(["x"], str.split), "int64")):
        found = made(preprocessor.fit_transform(blocks(pyarrow.array(["", None]))))
        assert found == ({f"list<item: {kind}>"}, [[], None])


# The largest doubles


@pytest.mark.parametrize("scaler, scaled", [(MinMaxScaler(["x"]), [0, 1, 0.5]), (RobustScaler(["x"], (0, 1)), [-0.5, 0.5, 0])])
def test_distances_between_the_largest_doubles(scaler, scaled):
    assert made(scaler.fit_transform(blocks(numpy.array([-1.7e308, 1.7e308, 0]))))[1] == scaled


def test_numbers_far_from_the_learnt_ones():
    scaler = MinMaxScaler(["x"]).fit(blocks([-1.6e308, 0.0]))
    assert made(scaler.transform(blocks([1.6e308, -1.6e308])))[1] == [2, 0]

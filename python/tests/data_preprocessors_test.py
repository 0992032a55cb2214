"""Preprocessors beside their results, which parity/data_preprocessors.py compares with Ray's: what users build on them."""

import copy
import decimal
import math
import pickle
import re

import numpy
import pandas
import pyarrow
import pytest
import torch

import paceline.data
from paceline.data.preprocessor import Preprocessor, PreprocessorNotFittedException
from paceline.data.preprocessors import (
    BatchMapper,
    Categorizer,
    Chain,
    Concatenator,
    CustomKBinsDiscretizer,
    FeatureHasher,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    TorchVisionPreprocessor,
)

ROWS = pandas.DataFrame({"x": [1.0, 2.0, 3.0, 10.0], "y": [0, 1, 0, 1], "kind": ["b", "a", "b", "c"]})


def test_a_chain_learns_in_the_driver_and_makes_tensors():
    train = paceline.data.from_pandas(ROWS).repartition(3)
    chain = Chain(StandardScaler(["x"]), OneHotEncoder(["kind"]), Concatenator(["x", "y"], dtype="float32"))
    with pytest.raises(PreprocessorNotFittedException, match="call fit"):
        chain.transform(train)
    made = chain.fit_transform(train)
    assert chain.fit_status() is Preprocessor.FitStatus.FITTED and made.count() == 4
    (batch,) = made.iter_torch_batches(batch_size=4)
    assert batch["concat_out"].shape == (4, 2) and batch["concat_out"].dtype == torch.float32
    assert batch["kind"].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    for copied in (pickle.loads(pickle.dumps(chain)), Preprocessor.deserialize(chain.serialize())):
        assert copied.transform_batch(ROWS).equals(chain.transform_batch(ROWS))
    with pytest.raises(ValueError, match="no bytes of a preprocessor"):
        Preprocessor.deserialize(b"else")


def test_what_is_not_to_be_changed_stays():
    scaler = StandardScaler(["x"]).fit(paceline.data.from_pandas(ROWS))
    before = ROWS.copy()
    scaler.transform_batch(ROWS)
    assert ROWS.equals(before)
    dataset = paceline.data.from_pandas(ROWS)
    scaler.transform(dataset).take_all()
    assert dataset.to_pandas()["x"].tolist() == ROWS["x"].tolist()
    with pytest.warns(UserWarning, match="forgotten"):
        scaler.fit(dataset)


def test_quantiles_without_a_package_for_them():
    numbers = pandas.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "same": [2.0] * 5})
    scaler = RobustScaler(["x", "same"]).fit(paceline.data.from_pandas(numbers))
    assert scaler.stats_["median(x)"] == 3 and scaler.stats_["low_quantile(x)"] == 2 and scaler.stats_["high_quantile(x)"] == 4
    assert scaler.transform_batch(numbers)["x"].tolist() == [-1, -0.5, 0, 0.5, 1]
    assert scaler.transform_batch(numbers)["same"].tolist() == [0] * 5


def test_preprocessors_of_users():
    class Doubled(Preprocessor):
        _is_fittable = False

        def _transform_numpy(self, batch):
            return {**batch, "x": batch["x"] * 2}

    assert Doubled().transform(paceline.data.range(3).rename_columns({"id": "x"})).sum("x") == 6

    class Centred(Preprocessor):
        def _fit(self, ds):
            self.stats_ = {"mean": ds.mean("x")}
            return self

        def _transform_pandas(self, frame):
            frame["x"] -= self.stats_["mean"]
            return frame

    centred = Centred().fit(paceline.data.from_pandas(ROWS))
    assert centred.has_stats() and centred.transform(paceline.data.from_pandas(ROWS)).sum("x") == 0
    with pytest.raises(NotImplementedError, match="none of _transform_pandas"):
        type("Nothing", (Preprocessor,), {"_is_fittable": False})().transform(paceline.data.range(1))


def test_functions_and_transforms_of_images():
    doubled = BatchMapper(lambda batch: {"id": batch["id"] * 2}, batch_format="numpy")
    assert doubled.transform(paceline.data.range(4)).sum("id") == 12
    images = paceline.data.range_tensor(4, shape=(3, 2))
    turned = TorchVisionPreprocessor(["data"], lambda image: image.T.float())
    assert turned.transform(images).take_batch(4)["data"].shape == (4, 2, 3)
    at_once = TorchVisionPreprocessor(["data"], lambda batch: batch.float().mean(dim=(1, 2)), ["mean"], batched=True)
    assert at_once.transform(images).take_batch(4)["mean"].tolist() == [0, 1, 2, 3]


def test_labels_and_back():
    encoder = LabelEncoder("kind").fit(paceline.data.from_pandas(ROWS))
    coded = encoder.transform(paceline.data.from_pandas(ROWS))
    assert coded.take_batch(4)["kind"].tolist() == [1, 0, 1, 2]
    assert numpy.array_equal(encoder.inverse_transform(coded).to_pandas()["kind"], ROWS["kind"])


LARGE, NAN = 2**53 + 1, float("nan")
here = pytest.mark.usefixtures("functions_here")


@pytest.fixture
def functions_here(monkeypatch):
    monkeypatch.setattr(paceline.data.DataContext.get_current().execution_options, "functions", "threads")


def blocks(*values, kind=None):
    return paceline.data.from_arrow([pyarrow.table({"x": pyarrow.array(some, kind)}) for some in values])


def made(dataset, column="x"):
    """The types of the blocks, and their values together."""
    tables = dataset.to_arrow_refs()
    kinds = {str(table.schema.field(column).type) for table in tables}
    return kinds, [value for table in tables for value in table.column(column).to_pylist()]


@here
@pytest.mark.parametrize("kind, values", [("float16", [-60000, 0, 60000]), ("float32", [-3e38, 0, 3e38])])
@pytest.mark.parametrize("scaler, scaled", [(MinMaxScaler, [0, 0.5, 1]), (RobustScaler, [-0.5, 0, 0.5])])
def test_scalers_compute_narrow_numbers_in_doubles(kind, values, scaler, scaled):
    dataset = blocks(numpy.array(values, kind))
    assert made(scaler(["x"]).fit_transform(dataset)) == ({str(pyarrow.from_numpy_dtype(kind))}, scaled)


@here
def test_what_tells_narrow_numbers_apart_is_kept():
    numbers = (1e7 + numpy.array([0, 1, 1, 1, 1])).astype("float32")
    kinds, scaled = made(StandardScaler(["x"]).fit_transform(blocks(numbers[:2], numbers[2:])))
    assert kinds == {"float"} and scaled == pytest.approx([-2, 0.5, 0.5, 0.5, 0.5])
    power = PowerTransformer(["x"], 2, method="box-cox").transform(blocks(numpy.array([300, 2], "float16")))
    assert made(power) == ({"double"}, [44999.5, 1.5])


@here
@pytest.mark.parametrize("scaler, scaled", [
    (StandardScaler, [-1.224744871391589, None, 0, 1.224744871391589]), (MinMaxScaler, [0, None, 0.5, 1]),
    (MaxAbsScaler, [1 / 3, None, 2 / 3, 1]), (RobustScaler, [-0.5, None, 0, 0.5])])
def test_scalers_of_decimals_with_nulls(scaler, scaled):
    prices = [decimal.Decimal("1.00"), None], [decimal.Decimal("2.00"), decimal.Decimal("3.00")]
    kinds, found = made(scaler(["x"]).fit_transform(blocks(*prices, kind=pyarrow.decimal128(5, 2))))
    assert kinds == {"double"} and found == pytest.approx(scaled)


@here
def test_scalers_refuse_what_are_no_numbers():
    scaler = MinMaxScaler(["x"]).fit(blocks([1, 2]))
    with pytest.raises(TypeError, match="column 'x' has values of type str; wanted: numbers"):
        scaler.transform_batch(pandas.DataFrame({"x": ["1", "2"]}))


@here
@pytest.mark.parametrize("imputer", [SimpleImputer(["x"], "most_frequent"), SimpleImputer(["x"], "constant", LARGE)])
def test_filled_integers_are_exact_and_of_one_type(imputer):
    filled = imputer.fit_transform(blocks([LARGE, LARGE], [None, LARGE + 2]))
    assert made(filled) == ({"int64"}, [LARGE, LARGE, LARGE, LARGE + 2])
    (batch, last) = filled.iter_torch_batches(batch_size=3)  # the first is of both blocks
    assert batch["x"].tolist() == [LARGE] * 3 and last["x"].tolist() == [LARGE + 2]
    assert batch["x"].dtype == last["x"].dtype == torch.int64


@here
def test_types_of_filled_columns():
    def filled(strategy, value, *values, kind=None):
        return made(SimpleImputer(["x"], strategy, value).fit_transform(blocks(*values, kind=kind)))

    assert filled("mean", None, [1, 2], [None, 3]) == ({"double"}, [1, 2, 2, 3])
    assert filled("mean", None, [True, False], [None]) == ({"double"}, [1, 0, 0.5])
    assert filled("mean", None, [1, 2], [NAN, None], kind=pyarrow.float32()) == ({"float"}, [1, 2, 1.5, 1.5])
    assert filled("constant", 7, [1], [None], kind=pyarrow.int8()) == ({"int8"}, [1, 7])
    assert filled("constant", 300, [1], [None], kind=pyarrow.int8()) == ({"int64"}, [1, 300])
    assert filled("constant", 0.5, [1], [None]) == ({"double"}, [1, 0.5])
    assert filled("constant", False, [True], [None]) == ({"bool"}, [True, False])
    assert filled("constant", "z", ["a"], [None]) == ({"string"}, ["a", "z"])
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    assert filled("constant", "z", ["a"], [None], kind=words) == ({str(words)}, ["a", "z"])
    assert filled("most_frequent", None, ["a", "b", "b"], [None], kind=words) == ({str(words)}, ["a", "b", "b", "b"])
    with pytest.raises(TypeError, match="column 'x' is of int64, which 'z' cannot fill"):
        filled("constant", "z", [1])


@here
def test_frames_are_filled_with_their_index():
    frame = pandas.DataFrame({"x": [1.0, None], "else": [object(), 1]}, index=["p", "q"])
    made_of_it = SimpleImputer(["x", "y"], "constant", 2.0).transform_batch(frame)
    assert made_of_it.index.tolist() == ["p", "q"] and made_of_it["else"].equals(frame["else"])
    assert made_of_it["x"].tolist() == [1, 2] and made_of_it["y"].tolist() == [2, 2]


@here
def test_places_are_integers_in_every_block():
    encoder = OrdinalEncoder(["x"]).fit(blocks([5, 3], [9]))
    assert made(encoder.transform(blocks([5, 3], [4, 9], [4]))) == ({"int64"}, [1, 0, None, 2, None])
    words = blocks(["b", "a"], ["c"], kind=pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    assert made(OrdinalEncoder(["x"]).fit_transform(words)) == ({"int64"}, [1, 0, 2])
    lists = OrdinalEncoder(["x"]).fit(blocks([["b", "a"]], [["c"]]))
    assert made(lists.transform(blocks([["z"]], [["a"]]))) == ({"list<item: int64>"}, [[None], [0]])
    labels = LabelEncoder("x").fit(blocks([LARGE, LARGE - 1]))
    assert made(labels.inverse_transform(labels.transform(blocks([LARGE, 7])))) == ({"int64"}, [LARGE, None])


def of_two(kind, first, second=(1, 2)):
    tables = [pyarrow.table({"x": pyarrow.array([a], kind), "y": pyarrow.array([b])}) for a, b in zip(first, second)]
    return paceline.data.from_arrow(tables)


@here
@pytest.mark.parametrize("flatten", [False, True])
def test_concatenated_columns_are_of_one_type_in_every_block(flatten):
    def concatenated(dataset, dtype=None):
        return made(Concatenator(["x", "y"], dtype=dtype, flatten=flatten).transform(dataset), "concat_out")

    for kind, values in ((pyarrow.int64(), [1, None]), (pyarrow.bool_(), [True, None])):
        with pytest.raises(ValueError, match="column 'x' has nulls.* int64 has not; fill"):
            concatenated(of_two(kind, values))
        kinds, rows = concatenated(of_two(kind, values), "float64")
        assert kinds == {"fixed_size_list<item: double>[2]"} and rows[0] == [1, 1] and math.isnan(rows[1][0])
    kinds, rows = concatenated(of_two(pyarrow.bool_(), [True, None], (0.5, 2.5)))
    assert kinds == {"fixed_size_list<item: double>[2]"} and rows[0] == [1, 0.5] and math.isnan(rows[1][0])
    assert concatenated(of_two(pyarrow.int64(), [LARGE, 3])) == ({"fixed_size_list<item: int64>[2]"}, [[LARGE, 1], [3, 2]])


@here
@pytest.mark.parametrize("flatten", [False, True])
def test_numbers_that_do_not_fit_are_an_error(flatten):
    concatenator = Concatenator(["x", "y"], dtype=numpy.int8, flatten=flatten)
    for kind, value in ((pyarrow.float64(), 300.7), (pyarrow.int64(), -129), (pyarrow.uint64(), 2**64 - 1)):
        with pytest.raises(ValueError, match="column 'x' has .*, which int8 does not hold"):
            concatenator.transform(of_two(kind, [value])).take_all()
    assert made(concatenator.transform(of_two(pyarrow.float64(), [127.9, -128.9])), "concat_out")[1] == [[127, 1], [-128, 2]]


def beside(*values, kind=None):
    """Blocks of a column x of numbers, and of another beside it."""
    tables = [pyarrow.table({"id": pyarrow.array(some, kind), "x": numpy.arange(1.0, len(some) + 1)}) for some in values]
    return paceline.data.from_arrow(tables)


@here
@pytest.mark.parametrize("preprocessor", [
    StandardScaler(["x"]), MinMaxScaler(["x"], output_columns=["y"]), Normalizer(["x"]), PowerTransformer(["x"], 2),
    OneHotEncoder(["x"]), OrdinalEncoder(["x"]), SimpleImputer(["x"]), Concatenator(["x"]), FeatureHasher(["x"], 2, "hashed"),
    CustomKBinsDiscretizer(["x"], [0, 1, 9]), Categorizer(["x"]),
    TorchVisionPreprocessor(["x"], lambda image: image * 2, batched=True), Chain(StandardScaler(["x"]), OneHotEncoder(["x"]))],
    ids=lambda one: type(one).__name__)  # fmt: skip
def test_other_columns_stay_as_they_are(preprocessor):
    for kind, first, second in ((pyarrow.int64(), [LARGE, 5], [None, LARGE + 4]), (pyarrow.uint8(), [1, 2], [None, 3]),
                                (pyarrow.bool_(), [True, False], [None, True]), (pyarrow.float64(), [NAN, 1.0], [None, NAN]),
                                (pyarrow.list_(pyarrow.int8(), 2), [[1, 2], None], [None, [3, 4]])):  # fmt: skip
        changed = copy.deepcopy(preprocessor).fit_transform(beside(first, second, kind=kind))
        kinds, values = made(changed, "id")
        assert kinds == {str(kind)} and repr(values) == repr([*first, *second])


@here
def test_classes_of_users_that_derive_from_others_get_all_columns():
    class Marked(StandardScaler):
        def _transform_pandas(self, frame):
            frame = super()._transform_pandas(frame)
            return frame.assign(seen=" ".join(frame.columns))

    class Filled(SimpleImputer):
        def _transform_pandas(self, frame):
            frame["was_null"] = frame["x"].isna()
            return super()._transform_pandas(frame)

    dataset = beside([1, 2], [3, 4])
    marked = Marked(["x"], output_columns=["z"]).fit(dataset)
    assert made(marked.transform(dataset), "seen")[1] == ["id x z"] * 4
    assert marked.transform_batch(dataset.to_pandas())["seen"].tolist() == ["id x z"] * 4
    filled = Filled(["x"]).fit_transform(blocks([1, 3], [None]))
    assert made(filled) == ({"double"}, [1, 3, 2]) and made(filled, "was_null")[1] == [False, False, True]


@here
def test_nan_stays_nan_and_null_null():
    values = [1.0, NAN], [None, 3.0]
    for preprocessor, known in ((StandardScaler(["x"]), [-1, 1]), (MinMaxScaler(["x"]), [0, 1]), (Normalizer(["x"]), [1, 1]),
                                (PowerTransformer(["x"], 1), [1, 3])):  # fmt: skip
        (kinds, found) = made(preprocessor.fit_transform(blocks(*values)))
        assert kinds == {"double"} and repr(found) == repr([float(known[0]), NAN, None, float(known[1])])
    unknown = made(StandardScaler(["x"]).fit_transform(blocks([None], kind=pyarrow.null())))
    assert unknown == ({"double"}, [None])
    with pytest.raises(TypeError, match="column 'x' has string; wanted: numbers"):
        StandardScaler(["x"]).fit(blocks(*values)).transform(blocks(["7"])).take_all()


@here
def test_the_largest_of_large_integers_is_scaled_to_one():
    for first in (2**60, -(2**60)):
        scaled = made(MinMaxScaler(["x"]).fit_transform(blocks([first], [first + 100, first + 200])))[1]
        assert scaled[0] == 0 and scaled[2] == 1 and 0 <= scaled[1] <= 1


@here
def test_bins_are_integers_in_every_block():
    dataset = blocks([1, 3], [1, 99, None])
    assert made(CustomKBinsDiscretizer(["x"], [0, 2, 4]).transform(dataset)) == ({"int64"}, [0, 1, 0, None, None])
    named = CustomKBinsDiscretizer(["x"], [0, 2, 4], dtypes={"x": pandas.CategoricalDtype(["low", "high"])})
    assert made(named.transform(dataset))[1] == ["low", "high", "low", None, None]


@here
def test_texts_are_no_numbers_to_fill_nor_places():
    imputer = SimpleImputer(["x"]).fit(blocks([1.0, 2.0]))
    with pytest.raises(TypeError, match="column 'x' has string; wanted: numbers"):
        imputer.transform(blocks(["7", None])).take_all()
    labels = LabelEncoder("x").fit(blocks(["a", "b"]))
    with pytest.raises(TypeError, match="column 'x' has string; wanted: numbers"):
        labels.inverse_transform(blocks(["1"])).take_all()


@here
def test_numbers_that_are_no_places_have_no_label():
    labels = LabelEncoder("x").fit(blocks(["a", "b"]))

    def found(*values, kind=None):
        return made(labels.inverse_transform(blocks(*values, kind=kind)))[1]

    assert found([0.0, NAN, 1e30], [1.0, -1.0, math.inf, None]) == ["a", None, None, "b", None, None, None]
    assert found([2**63, 1], kind=pyarrow.uint64()) == [None, "b"]
    with pytest.raises(ValueError, match="column 'x' has 0.5; wanted: places, which are whole numbers"):
        found([1.0, 0.5])


@here
def test_concatenated_decimals_are_doubles():
    prices = [decimal.Decimal("10.25")], [decimal.Decimal("1.00"), None]
    kinds, rows = made(Concatenator(["x"]).transform(blocks(*prices, kind=pyarrow.decimal128(10, 2))), "concat_out")
    assert kinds == {"fixed_size_list<item: double>[1]"} and rows[:2] == [[10.25], [1]] and math.isnan(rows[2][0])
    with pytest.raises(ValueError, match="column 'x' has 300.50, which int8 does not hold"):
        Concatenator(["x"], dtype="int8").transform(blocks([decimal.Decimal("300.50")])).take_all()


@here
@pytest.mark.parametrize("values", [[[1.0, 2.0], None], [None, None]])
def test_concatenated_rows_of_arrays_may_not_be_null(values):
    dataset = blocks(values, kind=pyarrow.list_(pyarrow.float64(), 2))
    with pytest.raises(ValueError, match="column 'x' has rows that are null"):
        Concatenator(["x"], dtype="float64", flatten=True).transform(dataset).take_all()
    inner = pyarrow.list_(pyarrow.list_(pyarrow.float64(), 2), 1)
    with pytest.raises(ValueError, match="column 'x' has rows that are null"):
        Concatenator(["x"], flatten=True).transform(blocks([[one] for one in values], kind=inner)).take_all()
    with pytest.raises(ValueError, match="column 'x' has rows that are null"):
        Concatenator(["x"], flatten=True).transform_batch(pandas.DataFrame({"x": [numpy.ones(2), None]}))


@here
@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("kind, largest, beyond", [("float16", 65504.0, 65520), ("float32", 3e38, 1e300)])
def test_numbers_too_large_for_narrow_floats_are_an_error(kind, largest, beyond, flatten):
    concatenator = Concatenator(["x"], dtype=kind, flatten=flatten)
    with pytest.raises(ValueError, match=f"column 'x' has {re.escape(str(beyond))}, which {kind} does not hold"):
        concatenator.transform(blocks([1], [beyond])).take_all()
    rows = made(concatenator.transform(blocks([largest, -math.inf], [NAN])), "concat_out")[1]
    assert rows[:2] == [[float(numpy.dtype(kind).type(largest))], [-math.inf]] and math.isnan(rows[2][0])
    lists = blocks([[1.0, beyond]], kind=pyarrow.list_(pyarrow.float64(), 2))
    with pytest.raises(ValueError, match=f"which {kind} does not hold"):
        Concatenator(["x"], dtype=kind, flatten=True).transform(lists).take_all()


@here
def test_what_would_be_infinite_fills_nothing():
    for kind, value in ((pyarrow.float32(), 1e300), (pyarrow.float16(), 70000)):
        with pytest.raises(TypeError, match="column 'x' is of .*, which .* cannot fill: it is too large"):
            SimpleImputer(["x"], "constant", value).transform(blocks([None], kind=kind)).take_all()
    assert made(SimpleImputer(["x"], "constant", math.inf).transform(blocks([None], kind=pyarrow.float32())))[1] == [math.inf]


@here
def test_full_dictionaries_are_filled_in_one_type():
    words = [f"word {place}" for place in range(128)]
    filled = SimpleImputer(["x"], "constant", "new").transform(
        blocks(words, [None, "a"], ["b"], kind=pyarrow.dictionary(pyarrow.int8(), pyarrow.string())))
    assert made(filled) == ({str(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))}, [*words, "new", "a", "b"])


@here
@pytest.mark.parametrize("encoder", [OneHotEncoder(["x"]), MultiHotEncoder(["x"])])
def test_columns_without_categories_are_refused(encoder):
    with pytest.raises(ValueError, match="column 'x' has no values to make categories of"):
        encoder.fit(blocks([], kind=pyarrow.int64()))


@pytest.mark.parametrize("encoder", [OneHotEncoder, MultiHotEncoder])
@pytest.mark.parametrize("most", [0, -1, 1.5, True, "1"])
def test_numbers_of_categories_that_there_cannot_be(encoder, most):
    with pytest.raises(ValueError, match=f"max_categories of 'x' is {most!r}; allowed: a whole number from 1"):
        encoder(["x"], max_categories={"x": most})
    assert encoder(["x"], max_categories={"x": numpy.int64(1)}).max_categories == {"x": 1}


@here
@pytest.mark.parametrize("first, second, kind", [
    ([[1], []], [[2]], pyarrow.list_(pyarrow.list_(pyarrow.int64()))),
    ({"a": 1, "b": [2]}, {"a": 1, "b": [3]}, pyarrow.struct({"a": pyarrow.int64(), "b": pyarrow.list_(pyarrow.int64())}))])
def test_structs_and_lists_of_lists_are_categories(first, second, kind):
    dataset = blocks([second, first], [second], kind=kind)
    ordinal = OrdinalEncoder(["x"], encode_lists=False).fit(dataset)
    assert made(ordinal.transform(dataset)) == ({"int64"}, [1, 0, 1])
    assert made(OneHotEncoder(["x"]).fit_transform(dataset))[1] == [[0, 1], [1, 0], [0, 1]]
    frequent = SimpleImputer(["x"], "most_frequent").fit(dataset)
    assert frequent.stats_["most_frequent(x)"] == second
    labels = LabelEncoder("x", output_column="place")
    labels.encode_lists = labels._counts_elements = False
    back = labels.inverse_transform(labels.fit_transform(dataset).drop_columns(["x"]))
    assert made(back) == ({str(kind)}, [second, first, second])

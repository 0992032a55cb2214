"""Preprocessors beside their results, which parity/data_preprocessors.py compares with Ray's: what users build on them."""

import pickle

import numpy
import pandas
import pytest
import torch

import paceline.data
from paceline.data.preprocessor import Preprocessor, PreprocessorNotFittedException
from paceline.data.preprocessors import (
    BatchMapper,
    Chain,
    Concatenator,
    LabelEncoder,
    OneHotEncoder,
    RobustScaler,
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

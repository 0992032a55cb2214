"""Preprocessors: what they learn and what they make of batches."""

import numpy
import pandas

import ray.data
from ray.data.preprocessor import PreprocessorNotFittedException
from ray.data.preprocessors import (
    Categorizer,
    Chain,
    Concatenator,
    CountVectorizer,
    CustomKBinsDiscretizer,
    FeatureHasher,
    HashingVectorizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    UniformKBinsDiscretizer,
)

outcome = {}


def plain(value):
    """As JSON has it: arrays as lists, floats to nine digits, missing values as None."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, numpy.ndarray)):
        return [plain(one) for one in value]
    if value is None or value is pandas.NA or value != value:
        return None
    if isinstance(value, (float, numpy.floating)):
        return float(f"{value:.9g}")
    if isinstance(value, (int, numpy.integer)):
        return int(value)
    return str(value)


def shown(frame):
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    return {column: plain(frame[column].tolist()) for column in sorted(frame.columns)}


numbers = pandas.DataFrame({"x": [1.0, 2.0, 3.0, 10.0], "y": [-4, 0, 4, 4], "same": [5.0, 5.0, 5.0, 5.0]})
others = pandas.DataFrame({"x": [0.0, 4.0], "y": [1, -8], "same": [5.0, 6.0]})
words = pandas.DataFrame({"text": ["a b a", "b c", "c c a"], "kind": ["tea", "milk", "tea"], "size": [3, 1, 3]})
lists = pandas.DataFrame({"tags": [["u", "v"], ["v"], ["w", "v", "v"]]})
gaps = pandas.DataFrame({"x": [1.0, None, 3.0, 3.0], "kind": ["tea", "tea", None, "milk"]})

CASES = {
    "standard": (StandardScaler(["x", "y", "same"]), numbers, others),
    "standard elsewhere": (StandardScaler(["x"], output_columns=["z"]), numbers, others),
    "min max": (MinMaxScaler(["x", "y", "same"]), numbers, others),
    "max abs": (MaxAbsScaler(["x", "y"]), numbers, others),
    "l1": (Normalizer(["x", "y"], norm="l1"), None, others),
    "l2": (Normalizer(["x", "y"]), None, others),
    "max": (Normalizer(["x", "y"], norm="max", output_columns=["p", "q"]), None, others),
    "yeo-johnson": (PowerTransformer(["x", "y"], power=0.5), None, others),
    "yeo-johnson 2": (PowerTransformer(["y"], power=2), None, others),
    "box-cox": (PowerTransformer(["x"], power=0, method="box-cox"), None, numbers),
    "box-cox 3": (PowerTransformer(["x"], power=3, method="box-cox"), None, numbers),
    "custom bins": (CustomKBinsDiscretizer(["x"], bins=[0, 1, 5, 20]), None, numbers),
    "custom bins to the left": (CustomKBinsDiscretizer(["x"], bins={"x": [0, 1, 5, 20]}, right=False), None, numbers),
    "uniform bins": (UniformKBinsDiscretizer(["x", "y"], bins={"x": 3, "y": 2}), numbers, numbers),
    "uniform bins of one value": (UniformKBinsDiscretizer(["same"], bins=2), numbers, numbers),
    "ordinal": (OrdinalEncoder(["kind", "size"]), words, words),
    "ordinal lists": (OrdinalEncoder(["tags"]), lists, lists),
    "ordinal of lists": (OrdinalEncoder(["tags"], encode_lists=False), lists, lists),
    "one hot": (OneHotEncoder(["kind", "size"]), words, words),
    "one hot, the most frequent": (OneHotEncoder(["kind"], max_categories={"kind": 1}), words, words),
    "multi hot": (MultiHotEncoder(["tags"]), lists, lists),
    "labels": (LabelEncoder("kind", output_column="number"), words, words),
    "categories": (Categorizer(["kind"]), words, words),
    "mean": (SimpleImputer(["x"]), gaps, gaps),
    "most frequent": (SimpleImputer(["kind"], strategy="most_frequent"), gaps, gaps),
    "constant": (SimpleImputer(["x"], strategy="constant", fill_value=7.0, output_columns=["z"]), None, gaps),
    "together": (Concatenator(["x", "y"], dtype=numpy.float32), None, numbers),
    "together as": (Concatenator(["x", "y"], output_column_name="both"), None, numbers),
    "hashed": (FeatureHasher(["x", "y", "same"], num_features=2, output_column="h"), None, numbers),
    "tokens": (Tokenizer(["text"]), None, words),
    "hashed words": (HashingVectorizer(["text"], num_features=3), None, words),
    "hashed words elsewhere": (HashingVectorizer(["text"], num_features=2, output_columns=["h"]), None, words),
    "counted words": (CountVectorizer(["text"], max_features=2), words, words),
    "a chain": (Chain(SimpleImputer(["x"]), StandardScaler(["x"]), Concatenator(["x"])), gaps, gaps.drop(columns="kind")),
}
for name, (preprocessor, learns_from, batch) in CASES.items():
    of = outcome[name] = {"before": str(preprocessor.fit_status().value)}
    if learns_from is not None:
        try:
            preprocessor.transform_batch(batch.copy())
        except PreprocessorNotFittedException:
            of["not fitted"] = True
        preprocessor.fit(ray.data.from_pandas(learns_from))
        of["stats"] = plain({key: value for key, value in preprocessor.stats_.items() if name != "categories"})
    of["after"] = str(preprocessor.fit_status().value)
    of["batch"] = shown(preprocessor.transform_batch(batch.copy()))
    of["dataset"] = shown(preprocessor.transform(ray.data.from_pandas(batch)))
    of["columns"] = [list(preprocessor.get_input_columns()), list(preprocessor.get_output_columns())]

encoder = LabelEncoder("kind").fit(ray.data.from_pandas(words))
coded = encoder.transform(ray.data.from_pandas(words))
outcome["labels again"] = shown(encoder.inverse_transform(coded))
outcome["unknown values"] = shown(encoder.transform_batch(pandas.DataFrame({"kind": ["tea", "water"]})))
for kind in (OrdinalEncoder, OneHotEncoder):
    try:
        kind(["kind"]).fit(ray.data.from_pandas(gaps))
    except ValueError:
        outcome[f"nulls {kind.__name__}"] = "ValueError"
for call in (
    lambda: Normalizer(["x"], norm="l3"),
    lambda: PowerTransformer(["x"], power=1, method="none"),
    lambda: SimpleImputer(["x"], strategy="constant"),
    lambda: StandardScaler(["x"], output_columns=["a", "b"]),
    lambda: UniformKBinsDiscretizer(["x", "y"], bins={"x": 2}).fit(ray.data.from_pandas(numbers)),
    lambda: UniformKBinsDiscretizer(["x"], bins=2.5).fit(ray.data.from_pandas(numbers)),
):
    try:
        call()
    except (ValueError, TypeError) as error:
        outcome.setdefault("refused", []).append(type(error).__name__)

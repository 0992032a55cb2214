"""Ray Data's names around iteration: parts of a stream, collate functions, settings, names and bytes of a dataset."""

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import torch

import paceline.data
from paceline.data.collate_fn import ArrowBatchCollateFn, DefaultCollateFn, NumpyBatchCollateFn


@pytest.fixture
def folder(tmp_path):
    """A file of 300 rows in row groups of 30: x, its square, a tensor of 2 × 3."""
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(numpy.arange(1800, dtype="float32").reshape(300, 2, 3))
    x = numpy.arange(300)
    table = pyarrow.table({"x": x, "square": (x**2).astype("float32"), "tensor": tensors})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=30)
    return str(tmp_path)


def numbers(dataset):
    return [value for batch in dataset.iter_batches() for value in batch["x"].tolist()]


def test_a_streaming_split_puts_each_row_into_one_part(folder):
    dataset = paceline.data.read_parquet(folder)
    for options in ({"seed": 3}, {"split_type": "hash", "hash_column": "x"}):
        train, test = dataset.streaming_train_test_split(0.25, **options)
        in_train, in_test = numbers(train), numbers(test)
        assert sorted(in_train + in_test) == list(range(300)) and 40 < len(in_test) < 110
        again = dataset.random_shuffle(seed=1).streaming_train_test_split(0.25, **options)[1]
        assert "hash_column" not in options or sorted(numbers(again)) == in_test  # values stay in their part
    with pytest.raises(ValueError, match="split_type is 'hash'"):
        dataset.streaming_train_test_split(0.25, split_type="hash")


def test_a_dataset_without_rows_in_memory_becomes_bytes(folder):
    dataset = paceline.data.read_parquet(folder).map_batches(lambda batch: {"x": batch["x"] * 2})
    dataset.set_name("doubled")
    assert dataset.name == "doubled" and dataset.has_serializable_lineage()
    assert paceline.data.Dataset.deserialize_lineage(dataset.serialize_lineage()).sum("x") == dataset.sum("x")
    with pytest.raises(ValueError, match="rows in memory"):
        paceline.data.from_items([1]).serialize_lineage()


def test_settings_of_rays_context(capsys):
    context = paceline.data.DataContext.get_current()
    context.target_max_block_size = 1
    assert "DataContext.target_max_block_size has no effect" in capsys.readouterr().err
    with pytest.raises(AttributeError, match="resource_limits says what reading may use"):
        paceline.data.DataContext().target_min_block_size
    with paceline.data.DataContext.current(context.copy()):
        options = paceline.data.DataContext.get_current().execution_options
        options.resource_limits = paceline.data.ExecutionResources.for_limits(cpu=float("inf"), object_store_memory=1e6)
        assert paceline.data.range(10).sum("id") == 45
    assert context.execution_options.is_resource_limits_default()
    context.set_config("mine", 3)
    assert context.get_config("mine") == 3 and context.get_config("other", 1) == 1


def test_batches_of_all_forms(folder):
    dataset = paceline.data.read_parquet(folder, columns=["x", "square", "tensor"])

    class Summed(NumpyBatchCollateFn):
        def __call__(self, batch):
            return torch.as_tensor(batch["x"].sum())

    class Counted(ArrowBatchCollateFn):
        def __call__(self, batch):
            return [torch.tensor(batch.num_rows), {"names": batch.column_names}]

    assert next(iter(dataset.iter_torch_batches(batch_size=4, collate_fn=Summed()))) == 6
    assert next(iter(dataset.iter_torch_batches(batch_size=4, collate_fn=Counted())))[1] == {"names": ["x", "square", "tensor"]}
    batch = next(iter(dataset.iter_torch_batches(batch_size=4, collate_fn=DefaultCollateFn({"x": torch.float16}))))
    assert batch["x"].dtype == torch.float16 and batch["tensor"].shape == (4, 2, 3)

    def first(**options):
        return next(iter(dataset.to_torch(batch_size=4, **options)))

    features, label = first(label_column="x", feature_columns=["square"], label_column_dtype=torch.float32,
                            unsqueeze_label_tensor=False)  # fmt: skip
    assert features.shape == (4, 1) and label.dtype == torch.float32 and label.shape == (4,)
    features, label = first(feature_columns=[["x", "square"], ["tensor"]], feature_column_dtypes=[torch.float64, None])
    assert [one.shape for one in features] == [(4, 2), (4, 2, 3)] and features[0].dtype == torch.float64 and label is None
    features, _ = first(feature_columns={"a": ["x"], "b": ["square"]}, unsqueeze_feature_tensors=False)
    assert features["a"].tolist() == [0, 1, 2, 3] and features["b"].shape == (4,)

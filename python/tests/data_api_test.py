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
        for part, rows in ((train, in_train), (test, in_test), (again, in_test), (train.random_shuffle(seed=7), in_train),
                           (test.select_columns(["x"]), in_test), (train.map(lambda row: row), in_train)):
            batches = part.iterator().iter_batches()
            for _ in range(3):  # a row stays in its part, in every epoch and whatever is done to the rows
                assert sorted(value for batch in batches for value in batch["x"].tolist()) == rows
    with pytest.raises(ValueError, match="split_type is 'hash'"):
        dataset.streaming_train_test_split(0.25, split_type="hash")


def scaled(batch, by=1):
    return {"x": batch["x"] * by}


def test_a_state_of_other_arguments_or_seeds_is_refused(folder):
    dataset = paceline.data.read_parquet(folder)

    def made(**arguments):
        return dataset.map_batches(scaled, **arguments)

    def accepts(one, other):
        iterator = other.iterator()
        try:
            iterator.load_state_dict(one.iterator().state_dict())
        except ValueError as error:
            assert "of another dataset" in str(error)
            return False
        return True

    assert accepts(made(fn_args=(2,)), made(fn_args=(2,)))
    for other in ({"fn_args": (3,)}, {"fn_kwargs": {"by": 2}}, {"fn_args": (2,), "batch_format": "pandas"}):
        assert not accepts(made(fn_args=(2,)), made(**other))
    assert not accepts(dataset.map_batches(scaled), dataset.map_batches(scaled, on_error="skip"))
    samples = [dataset.random_sample(0.5, seed=1), dataset.random_sample(0.5, seed=2), dataset.random_sample(0.4, seed=1),
               *dataset.streaming_train_test_split(0.5, seed=1),
               *dataset.streaming_train_test_split(0.5, split_type="hash", hash_column="x"),
               dataset.streaming_train_test_split(0.5, split_type="hash", hash_column="square")[0]]
    for place, one in enumerate(samples):
        # random_sample() takes what streaming_train_test_split() of its seed takes for tests.
        assert [accepts(one, other) for other in samples] == [other in (place, {0: 4, 4: 0}.get(place)) for other in range(8)]
    with pytest.raises(ValueError, match="give them one"):  # a seed
        dataset.random_sample(0.5).iterator().load_state_dict(dataset.random_sample(0.5).iterator().state_dict())


def test_a_shuffle_without_a_seed_goes_on_in_another_program(folder):
    def shuffled():
        return paceline.data.read_parquet(folder).random_shuffle().iterator()

    before, after = shuffled(), shuffled()
    seen = next(iter(before.iter_batches(batch_size=100)))["x"].tolist()
    after.load_state_dict(before.state_dict())
    rest = [value for batch in after.iter_batches(batch_size=100) for value in batch["x"].tolist()]
    assert sorted(seen + rest) == list(range(300))
    with pytest.raises(ValueError, match="its seed is"):
        paceline.data.read_parquet(folder).random_shuffle(seed=1).iterator().load_state_dict(before.state_dict())


def test_parts_of_nothing_are_told(folder, capsys):
    dataset = paceline.data.read_parquet(folder)
    assert dataset.take(0) == []
    dataset.show(0)
    assert capsys.readouterr().out == ""
    for call in (lambda: dataset.split(0, equal=True), lambda: dataset.split(0), lambda: dataset.take_batch(0)):
        with pytest.raises(ValueError, match="is 0; allowed: a whole number from 1"):
            call()
    with pytest.raises(ValueError, match="allowed: 1 to 299, since there are 300 rows"):
        dataset.train_test_split(300)
    for rows in ("0 rows", "1 row"):
        with pytest.raises(ValueError, match=f"the dataset has {rows}; wanted: at least 2"):
            paceline.data.range(int(rows[0])).train_test_split(0.5)


def test_numbers_of_numpy_say_how_much_is_for_tests():
    dataset = paceline.data.range(8)
    for size in (numpy.float32(0.25), numpy.float64(0.25), numpy.int8(2), 2):
        assert dataset.train_test_split(size)[1].count() == 2
    with pytest.raises(ValueError, match="allowed: a part between 0 and 1, or a number of rows"):
        dataset.train_test_split(numpy.float32(2.7))
    with pytest.raises(TypeError, match="test_size is '0.5'; wanted: a part of the rows, or their number"):
        dataset.train_test_split("0.5")


@pytest.mark.parametrize("epoch", [-1, 2**53, 2**64])
def test_epochs_that_there_cannot_be(epoch):
    iterator = paceline.data.range(3).iterator()
    with pytest.raises(ValueError, match="allowed: a whole number from 0 to 9007199254740991"):
        iterator.set_epoch(epoch)
    iterator.set_epoch(2**53 - 1)
    assert len(list(iterator.iter_rows())) == 3


@pytest.mark.parametrize("number", [1.7, 1.0, True, "1", None])
def test_only_whole_numbers_are_epochs_and_rows_to_skip(number):
    iterator = paceline.data.range(3).iterator()
    with pytest.raises(ValueError, match=f"epoch is {number!r}; allowed: a whole number"):
        iterator.set_epoch(number)
    with pytest.raises(ValueError, match=f"rows is {number!r}; allowed: a whole number"):
        iterator.skip(number)
    iterator.set_epoch(numpy.int32(1))
    iterator.skip(numpy.uint8(2))
    assert iterator.state_dict()["epoch"] == 1 and len(list(iterator.iter_rows())) == 1


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


@pytest.mark.parametrize("limits, error, message", [
    ({"memory": "64MB"}, TypeError, "ExecutionResources.memory is '64MB'; wanted: a number, memory in bytes"),
    ({"memory": -5}, ValueError, "ExecutionResources.memory is -5; wanted: a number from 0 on"),
    ({"cpu": float("nan")}, ValueError, "ExecutionResources.cpu is nan; wanted: a number from 0 on"),
])
def test_limits_are_numbers(limits, error, message):
    with pytest.raises(error, match=message):
        paceline.data.ExecutionResources.for_limits(**limits)
    assert paceline.data.ExecutionResources(memory=numpy.int64(5), cpu=float("inf")).memory == 5


def test_dtypes_are_torchs():
    batches = paceline.data.range(3).iter_torch_batches(dtypes="float")
    with pytest.raises(TypeError, match="dtypes has 'float' for the column 'id'; wanted: a torch.dtype, such as"):
        next(iter(batches))


def test_to_torch_makes_tensors_of_what_it_is_asked_for():
    dataset = paceline.data.from_items([{"a": i, "b": float(i), "text": f"word {i}"} for i in range(4)])
    features, label = next(iter(dataset.to_torch(label_column="a", feature_columns=["b"], batch_size=4)))
    assert (features.tolist(), label.tolist()) == ([[0.0], [1.0], [2.0], [3.0]], [[0], [1], [2], [3]])
    features += 1
    again, _ = next(iter(dataset.to_torch(label_column="a", feature_columns={"x": ["b"]}, batch_size=4)))
    assert again["x"].tolist() == [[0.0], [1.0], [2.0], [3.0]]
    with pytest.raises(KeyError, match="none"):
        next(iter(dataset.to_torch(feature_columns=["none"])))

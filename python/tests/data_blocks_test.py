"""Columns as users' functions take and give them."""

import numpy
import pyarrow
import pyarrow.parquet
import torch

import paceline.data


def as_extension(batch):
    return pyarrow.table({"t": pyarrow.FixedShapeTensorArray.from_numpy_ndarray(batch["t"])})


def test_arrows_tensors_come_in_their_shape(tmp_path):
    tensors = numpy.arange(48, dtype="float32").reshape(4, 2, 3, 2)
    table = pyarrow.table({"t": pyarrow.FixedShapeTensorArray.from_numpy_ndarray(tensors), "i": range(4)})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    for dataset in (paceline.data.from_arrow(table), paceline.data.read_parquet(str(tmp_path))):
        for same in (dataset, dataset.map(lambda row: row), dataset.map_batches(as_extension)):
            assert (dataset.take_batch(4)["t"] == tensors).all()
            assert all((row["t"] == one).all() for row, one in zip(same.take_all(), tensors))
        assert (numpy.stack(dataset.to_pandas()["t"]) == tensors).all()
        (batch,) = dataset.iter_torch_batches(batch_size=4)
        assert torch.equal(batch["t"], torch.from_numpy(tensors))
        shuffled = dataset.random_shuffle(seed=1).take_batch(4)
        assert (shuffled["t"] == tensors[shuffled["i"]]).all()


def test_a_schema_shows_tensors_by_type_and_shape():
    tensors = paceline.data.from_numpy(numpy.zeros((2, 32, 32, 3), numpy.uint8)).add_column("id", lambda batch: numpy.arange(2))
    assert str(tensors.schema()) == "Column  Type\n------  ----\ndata    uint8[32, 32, 3]\nid      int64"

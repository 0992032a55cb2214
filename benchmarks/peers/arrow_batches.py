"""Batches from tables of Arrow, for the contestants that cut them themselves."""

import warnings

import numpy
import pyarrow
import torch

# Tensors over Arrow's memory, which nobody here writes to.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def to_tensor(column: pyarrow.ChunkedArray) -> torch.Tensor:
    """Without a copy where the rows lie in one chunk."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pyarrow.types.is_fixed_size_list(array.type):
        return torch.from_numpy(array.flatten().to_numpy()).view(len(array), -1)
    return torch.from_numpy(array.to_numpy())


def cut(tables, size: int):
    """Tables of `size` rows, whatever the tables' own sizes; the last may be shorter."""
    rest = None
    for table in tables:
        if rest is not None:
            table = pyarrow.concat_tables([rest, table])
        whole = len(table) // size * size
        for start in range(0, whole, size):
            yield table.slice(start, size)
        rest = table.slice(whole) if whole < len(table) else None
    if rest is not None:
        yield rest


def shuffle(tables, window: int, seed: int):
    """Each window's rows in a random order."""
    generator = numpy.random.default_rng(seed)
    for table in cut(tables, window):
        yield table.take(generator.permutation(len(table)))


def batches(tables, size: int):
    for table in cut(tables, size):
        yield {name: to_tensor(table.column(name)) for name in table.column_names}

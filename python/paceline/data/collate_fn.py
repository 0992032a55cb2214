"""Functions that make batches of their own for iter_torch_batches(), by what they get."""

from typing import Any, Dict, Optional, Union

import pyarrow

from paceline import _absent
from paceline._native import native


class CollateFn:
    """Makes a batch; derive from one of the classes below."""

    batch_format = "numpy"

    def __call__(self, batch: Any) -> Any:
        """The batch: a tensor, or tensors in dicts, lists and tuples."""
        raise NotImplementedError


class ArrowBatchCollateFn(CollateFn):
    """One that gets a pyarrow.Table: nothing is converted before."""

    batch_format = "pyarrow"


class NumpyBatchCollateFn(CollateFn):
    """One that gets a dict of arrays."""


class PandasBatchCollateFn(CollateFn):
    """One that gets a pandas.DataFrame."""

    batch_format = "pandas"


class DefaultCollateFn(ArrowBatchCollateFn):
    """A dict of tensors, as without a function: for functions that do more with it.

    Args:
        dtypes: A torch dtype for all columns, or one for each column of a dict.
        combine_chunks: Taken for Ray's scripts: a batch is in one piece.
        num_workers: Taken for Ray's scripts: nothing is copied.
    """

    def __init__(self, dtypes: Union[None, Any, Dict[str, Any]] = None, combine_chunks: bool = False,
                 num_workers: Optional[int] = None):
        self.dtypes, self.combine_chunks, self.num_workers = dtypes, combine_chunks, num_workers

    def __call__(self, batch: pyarrow.Table) -> Dict[str, Any]:
        from paceline.data import _torch

        (block,) = batch.combine_chunks().to_batches() or [pyarrow.RecordBatch.from_pylist([], schema=batch.schema)]
        return _torch.typed(native.tensors_of(block), self.dtypes)


_absent.explain(__name__)

"""What PyTorch has and gets: its datasets as sources, and datasets as its own."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from paceline.data import _blocks

_SAMPLES_OF_A_BLOCK = 1000


def tasks_of(dataset: Any) -> Tuple[List[Callable[[], Iterable[Any]]], List[Tuple[int, int]]]:
    """What reads one of PyTorch's datasets, block by block, and the rows and bytes of each."""
    if hasattr(dataset, "__iter__"):
        return [_Samples(dataset, None)], [(1, 0)]
    ends = [*range(_SAMPLES_OF_A_BLOCK, len(dataset), _SAMPLES_OF_A_BLOCK), len(dataset)]
    parts = [range(first, end) for first, end in zip([0, *ends], ends) if end > first]
    return [_Samples(dataset, part) for part in parts], [(len(part), 0) for part in parts]


class _Samples:
    def __init__(self, dataset, part):
        self.dataset, self.part = dataset, part

    def __call__(self):
        samples = self.dataset if self.part is None else (self.dataset[number] for number in self.part)
        rows: List[Any] = []
        for sample in samples:
            rows.append({"item": sample})
            if len(rows) == _SAMPLES_OF_A_BLOCK:
                yield _blocks.from_rows(rows, "from_torch()")
                rows = []
        if rows:
            yield _blocks.from_rows(rows, "from_torch()")


def typed(batch: Dict[str, Any], dtypes: Any) -> Dict[str, Any]:
    """Tensors with a dtype for all, or for some columns of a dict.

    Raises:
        ValueError: For columns that are not there, and for NaN as whole numbers or truth values.
    """
    if dtypes is None:
        return batch
    if not isinstance(dtypes, dict):
        return {name: _as(tensor, dtypes, name) for name, tensor in batch.items()}
    if missing := [name for name in dtypes if name not in batch]:
        raise ValueError(f"dtypes names the columns {missing}, which the batch has not; it has {list(batch)}")
    return {name: _as(tensor, dtypes[name], name) if name in dtypes else tensor for name, tensor in batch.items()}


def _as(tensor, dtype, name):
    """A column's tensor with a dtype. What torch makes of NaN as a whole number is any number."""
    import torch

    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtypes has {dtype!r} for the column {name!r}; wanted: a torch.dtype, such as torch.float32")
    holds_nan = dtype.is_floating_point or dtype.is_complex
    if not holds_nan and tensor.is_floating_point() and not tensor.isfinite().all():
        raise ValueError(
            f"the column {name!r} has nulls, NaN or infinite numbers, which {dtype} has not; fill them first, as with "
            "preprocessors.SimpleImputer, or filter them, or take a floating-point dtype"
        )
    return tensor.to(dtype)


def owned(batch: Dict[str, Any]) -> Dict[str, Any]:
    """Tensors whose memory is nobody else's."""
    return {name: tensor.clone() for name, tensor in batch.items()}


def placed(batch: Any, place: Any, pin_memory: bool) -> Any:
    """Tensors of dicts, lists and tuples, on the device."""
    import torch

    if place is None or (place.type == "cpu" and not pin_memory):
        return batch
    if isinstance(batch, torch.Tensor):
        if pin_memory and batch.device.type == "cpu":
            batch = batch.pin_memory()
        return batch.to(place, non_blocking=pin_memory)
    if isinstance(batch, dict):
        return {name: placed(value, place, pin_memory) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(placed(value, place, pin_memory) for value in batch)
    return batch


def columns_of_pairs(label_column: Optional[str], feature_columns: Any) -> List[str]:
    """The names in to_torch()'s arguments, each once."""
    groups = list(feature_columns.values()) if isinstance(feature_columns, dict) else list(feature_columns)
    names = [name for group in groups for name in (group if isinstance(group, (list, tuple)) else [group])]
    return list(dict.fromkeys([*names, *([] if label_column is None else [label_column])]))


class TensorsOf:
    """Makes a dict of tensors of some columns: others need not be numbers. KeyError for one that is not there."""

    batch_format = "pyarrow"

    def __init__(self, names: List[str]):
        self.names = names

    def __call__(self, table: Any) -> Dict[str, Any]:
        from paceline.data.collate_fn import DefaultCollateFn

        return owned(DefaultCollateFn()(table.select(self.names)))


def pairs(batches: Iterable[Dict[str, Any]], label_column: Any, feature_columns: Any, label_dtype: Any,
          feature_dtypes: Any, unsqueeze_label: bool, unsqueeze_features: bool) -> Any:
    """A torch.utils.data.IterableDataset of (features, label), of batches of tensors. See DataIterator.to_torch()."""
    import torch

    def joined(batch, names, dtype):
        columns = [batch[name] if dtype is None else _as(batch[name], dtype, name) for name in names]
        if unsqueeze_features:
            columns = [column.reshape(len(column), 1) if column.ndim == 1 else column for column in columns]
        if len(columns) == 1:
            return columns[0]
        return torch.cat(columns, dim=1) if columns[0].ndim > 1 else torch.stack(columns, dim=1)

    def features_of(batch):
        names = feature_columns or [name for name in batch if name != label_column]
        if isinstance(names, dict):
            kinds = feature_dtypes if isinstance(feature_dtypes, dict) else dict.fromkeys(names, feature_dtypes)
            return {key: joined(batch, some, kinds[key]) for key, some in names.items()}
        if isinstance(names[0], (list, tuple)):
            several = feature_dtypes if isinstance(feature_dtypes, (list, tuple)) else [feature_dtypes] * len(names)
            return [joined(batch, some, kind) for some, kind in zip(names, several)]
        return joined(batch, names, feature_dtypes)

    class Pairs(torch.utils.data.IterableDataset):
        def __iter__(self):
            for batch in batches:
                label = None
                if label_column is not None:
                    label = batch[label_column]
                    label = label if label_dtype is None else _as(label, label_dtype, label_column)
                    label = label.reshape(-1, 1) if unsqueeze_label and label.ndim == 1 else label
                yield features_of(batch), label

    return Pairs()

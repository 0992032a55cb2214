"""Checkpoints that are dictionaries, as Ray Train once had them: from_dict() and to_dict().

A dictionary becomes three files (docs/architecture/checkpoint_format.md): plain values in JSON, tensors in safetensors,
anything else in a pickle, which nothing reads but to_dict(allow_pickle=True).
"""

import collections
import json
import math
import os
import pickle
import time
from typing import Any, Dict, Iterator, List, Tuple

import cloudpickle
import torch

from paceline._native import native

ENTRIES = "dict_checkpoint.json"
TENSORS = "dict_checkpoint.safetensors"
PICKLED = "dict_checkpoint.pickle"
_VERSION = 1
_DICTS = {"OrderedDict": collections.OrderedDict, "Counter": collections.Counter}
# Those that safetensors has words for.
_DTYPES = {
    getattr(torch, name)
    for name in "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 "
    "float8_e4m3fn float8_e5m2".split()
}
_Path = Tuple[Any, ...]  # the keys that lead to an entry


def write(data: Dict[str, Any], folder: str) -> None:
    """Puts the files of `data` into `folder`. TypeError naming the entry that can be neither stored nor pickled."""
    if not isinstance(data, dict):
        raise TypeError(f"Checkpoint.from_dict() takes a dict; this is of type {type(data).__qualname__}")
    encoder = _Encoder()
    document = {"version": _VERSION, "time": time.time(), "entries": encoder.encoded(data, ())}
    if encoder.tensors:
        from safetensors.torch import save_file

        save_file(encoder.tensors, os.path.join(folder, TENSORS))
    if encoder.pickles:
        with open(os.path.join(folder, PICKLED), "wb") as file:
            pickle.dump(encoder.pickles, file)
    with open(os.path.join(folder, ENTRIES), "w") as file:
        json.dump(document, file, allow_nan=False)


def read(folder: str, allow_pickle: bool) -> Dict[str, Any]:
    """What write() has put into `folder`. ValueError where there is no dictionary, and for pickled entries that are not
    allowed."""
    try:
        document = _json(os.path.join(folder, ENTRIES))
    except FileNotFoundError:
        raise ValueError(
            "this checkpoint is a folder of files, not a dictionary of Checkpoint.from_dict(); read it with as_directory()"
        ) from None
    if document["version"] > _VERSION:
        raise ValueError(
            f"{ENTRIES} has version {document['version']}, this Paceline reads up to {_VERSION}; use a later one"
        )
    entries = document["entries"]
    pickled = list(_pickled_entries(entries, ()))
    if pickled and not allow_pickle:
        raise ValueError(
            f"{', '.join(pickled[:3])}{' and more' if len(pickled) > 3 else ''} in this checkpoint had to be pickled, and "
            "unpickling runs whatever code is in the file; nothing was unpickled. If you trust who wrote it, call "
            "to_dict(allow_pickle=True); better, keep state dicts and plain values in checkpoints"
        )
    data = _Decoder(folder, bool(pickled)).decoded(entries, ())
    # What Ray Train added when a dictionary was reported.
    report, time = native.published_report(os.fspath(folder)) or (None, document["time"])
    data.setdefault("_preprocessor", None)
    data["_timestamp"] = int(time)
    data["_current_checkpoint_id"] = report
    return data


def _json(path):
    with open(path) as file:
        return json.load(file)


def _place(path: _Path) -> str:
    return "data" + "".join(f"[{key!r}]" for key in path)


class _Encoder:
    """Values as JSON; what JSON does not have is an object whose first key begins with "$"."""

    def __init__(self):
        self.tensors: Dict[str, torch.Tensor] = {}
        self.pickles: List[bytes] = []
        self._names: Dict[Any, str] = {}  # of tensors by what they show of which memory
        self._memory = set()  # of tensors that are stored

    def encoded(self, value: Any, path: _Path) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$number": str(value)}
        if kind in (list, tuple):
            parts = [self.encoded(part, (*path, i)) for i, part in enumerate(value)]
            return parts if kind is list else {"$tuple": parts}
        if kind is dict or kind in _DICTS.values():
            return self._dict(without_module(value), path)
        if kind in (torch.Tensor, torch.nn.Parameter) and _is_storable(value):
            return {"$tensor": self._stored(value, path)}
        if kind.__module__ == "numpy" and (tensor := _from_numpy(value)) is not None:
            return {"$array" if kind.__name__ == "ndarray" else "$scalar": self._stored(tensor, path)}
        return self._pickled(value, path)

    def _dict(self, value, path):
        parts = [(key, self.encoded(part, (*path, key))) for key, part in value.items()]
        if type(value) is dict and all(type(key) is str and not key.startswith("$") for key in value):
            return dict(parts)
        encoded = {"$items": [[self.encoded(key, (*path, "keys")), part] for key, part in parts]}
        if type(value) is not dict:
            encoded["type"] = type(value).__name__
        if hasattr(value, "_metadata"):  # of a state dict: the versions of its modules
            encoded["metadata"] = self.encoded(value._metadata, (*path, "_metadata"))
        return encoded

    def _stored(self, tensor, path):
        """Its name in the file; tied tensors are stored once, tensors that overlap each for itself."""
        tensor = tensor.detach()
        shown = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(),
                 tensor.is_neg())  # fmt: skip
        if tensor.numel() and shown in self._names:
            return self._names[shown]
        stored = tensor.resolve_conj().resolve_neg().cpu().contiguous()
        if stored.untyped_storage().data_ptr() in self._memory:
            stored = stored.clone()
        self._memory.add(stored.untyped_storage().data_ptr())
        name = "/".join(map(str, path))
        while name in self.tensors:
            name += "_"
        self._names[shown] = name
        self.tensors[name] = stored
        return name

    def _pickled(self, value, path):
        if isinstance(value, torch.nn.parallel.DistributedDataParallel):
            value = value.module  # the process group around it is this run's
        if isinstance(value, torch.Tensor) and hasattr(value, "full_tensor"):
            raise TypeError(
                f"{_place(path)} is of type {type(value).__name__}, of which this rank has a shard. Give its full_tensor(), or "
                "write all shards with torch.distributed.checkpoint into a folder (Checkpoint.from_directory)"
            )
        try:
            self.pickles.append(cloudpickle.dumps(value))
        except Exception as error:
            raise TypeError(
                f"{_place(path)}, a {type(value).__qualname__}, cannot be kept in a checkpoint: "
                f"{type(error).__name__}: {error}"
            ) from error
        return {"$pickled": len(self.pickles) - 1, "type": f"{type(value).__module__}.{type(value).__qualname__}"}


def _is_storable(tensor):
    return (
        tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_meta
        and tensor.dtype in _DTYPES
    )


def _from_numpy(value):
    """Arrays and numbers of numpy as a tensor; None where torch has no such dtype."""
    import numpy

    if type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
        return None
    try:
        tensor = torch.from_numpy(numpy.array(value, order="C"))
    except (TypeError, ValueError):
        return None
    return tensor if _is_storable(tensor) else None


def without_module(value):
    """A state dict of DistributedDataParallel without the "module." before every name; anything else as it is."""
    if not value or not all(type(key) is str and key.startswith("module.") for key in value):
        return value
    if not all(isinstance(part, torch.Tensor) for part in value.values()):
        return value
    stripped = type(value)(value)
    if hasattr(value, "_metadata"):
        stripped._metadata = type(value._metadata)(value._metadata)
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(stripped, "module.")
    return stripped


def _pickled_entries(encoded, path) -> Iterator[str]:
    """The pickled entries in what an encoder has given, each by its place and type."""
    if isinstance(encoded, dict) and "$pickled" in encoded:
        yield f"{_place(path)} (a {encoded['type']})"
    elif isinstance(encoded, dict) and "$items" in encoded:
        for key, part in encoded["$items"]:
            yield from _pickled_entries(key, (*path, "keys"))
            yield from _pickled_entries(part, (*path, key))
    elif isinstance(encoded, dict):
        for key, part in encoded.items():
            yield from _pickled_entries(part, path if key.startswith("$") else (*path, key))
    elif isinstance(encoded, list):
        for i, part in enumerate(encoded):
            yield from _pickled_entries(part, (*path, i))


class _Decoder:
    """The opposite of _Encoder; `unpickles` is whether it may."""

    def __init__(self, folder, unpickles: bool):
        self._tensors = {}
        if os.path.exists(path := os.path.join(folder, TENSORS)):
            from safetensors.torch import load_file

            self._tensors = load_file(path)
        self._pickles = []
        if unpickles:
            with open(os.path.join(folder, PICKLED), "rb") as file:
                self._pickles = pickle.load(file)

    def decoded(self, encoded: Any, path: _Path) -> Any:
        if isinstance(encoded, list):
            return [self.decoded(part, (*path, i)) for i, part in enumerate(encoded)]
        if not isinstance(encoded, dict):
            return encoded
        kind = next(iter(encoded), "")
        if not kind.startswith("$"):
            return {key: self.decoded(part, (*path, key)) for key, part in encoded.items()}
        content = encoded[kind]
        if kind == "$number":
            return float(content)
        if kind == "$tuple":
            return tuple(self.decoded(content, path))
        if kind == "$items":
            return self._items(encoded, path)
        if kind == "$tensor":
            return self._tensors[content]
        if kind in ("$array", "$scalar"):
            array = self._tensors[content].numpy()
            return array if kind == "$array" else array[()]
        if kind == "$pickled":
            return self._unpickled(content, path)
        raise ValueError(f"{_place(path)} is written as {kind}, which this Paceline does not know; use a later one")

    def _items(self, encoded, path):
        value = _DICTS.get(encoded.get("type"), dict)()
        for key, part in encoded["$items"]:
            key = self.decoded(key, (*path, "keys"))
            value[key] = self.decoded(part, (*path, key))
        if "metadata" in encoded:
            value._metadata = self.decoded(encoded["metadata"], (*path, "_metadata"))
        return value

    def _unpickled(self, index, path):
        try:
            return pickle.loads(self._pickles[index])
        except Exception as error:
            raise ValueError(f"{_place(path)} cannot be unpickled: {type(error).__name__}: {error}") from error

"""Metrics on their way: what JSON cannot hold is a list whose first item says what it is, ["$date", "2026-11-24"].

docs/architecture/metrics_format.md lists these marks; plain return values have the same form (_values.py). A list of the
user's that begins with a text like that, and keys that are no texts, are marked too, so that what comes back is equal to
what was reported. Numbers of NumPy, and of classes that derive from int, float or str, become plain ones. What has no form
of its own here, or would not come back equal, is kept as its text. Nothing is pickled, and nothing that is read back runs
code: classes of enumerations, dataclasses and named tuples are looked up among the modules that are imported already.
"""

import base64
import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools
import os
import pathlib
import pickle
import sys
import uuid
from typing import Any, Callable, Dict, List

from paceline._exception_text import text_of

MARK = "$"
KEYS = "$keys"  # in a dict: its keys, some of which are no texts; the core's kKeysMember (core/metric_values.h)
_MOST_TEXT = 1000  # characters of what is kept as text
_PLAIN = frozenset({float, str, bool, type(None)})


def encoded(metrics: Dict[Any, Any], place: str = "metrics") -> Dict[str, Any]:
    """`metrics` as JSON values.

    Raises:
        ValueError: For tensors and modules of torch; it names the place.
        TypeError: For what cannot even be pickled.
    """
    if KEYS not in metrics and all(
        (type(value) in _PLAIN or type(value) is int and is_json_integer(value)) and type(name) is str
        for name, value in metrics.items()
    ):
        return metrics
    try:
        members = _encoded_dict(metrics, place)
    except RecursionError:
        raise ValueError(f"{place} is nested too deeply, or contains itself") from None
    if isinstance(members, list):
        raise ValueError(f"{place} has the name {KEYS!r}, or names that are equal as texts; rename them")
    return members


def encoded_value(value: Any, place: str) -> Any:
    """Any one value as a JSON value; `place` and errors as for encoded()."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, int):
        return int(value) if is_json_integer(value) else ["$int", _digits(value)]
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        return _encoded_dict(value, place)
    if isinstance(value, list):
        items = _items(value, place)
        return ["$list", *items] if items and isinstance(items[0], str) and items[0].startswith(MARK) else items
    _refuse_torch(value, place)
    for kind, encode in _ENCODERS.items():
        if isinstance(value, kind):
            return encode(value, place)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _array(value, place)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not isinstance(value, type):
        item = value.item()  # of another library's array
        return encoded_value(item, place) if isinstance(item, (int, float)) else _text(value, place)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return ["$dataclass", _name_of(type(value)), _encoded_dict(fields, place)]
    if isinstance(value, os.PathLike) and not isinstance(value, type):
        return os.fspath(value)
    return _text(value, place)


def decoded(value: Any) -> Any:
    """What encoded() or encoded_value() has made, as it was."""
    if isinstance(value, dict):
        plain = {key: decoded(part) for key, part in value.items() if key != KEYS}
        if KEYS not in value:
            return plain
        keys = decoded(value[KEYS])
        return {key: plain[str(key)] for key in keys} if _fit(keys, plain) else plain
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], str) and (decode := _DECODERS.get(value[0])):
        try:
            return decode(*map(decoded, value[1:]))
        except Exception:  # of a later version, or not ours
            return [decoded(part) for part in value]
    return [decoded(part) for part in value]


def _digits(value):
    """str(), which refuses integers of more than 4300 digits."""
    return format(decimal.Decimal(int(value)), "f")


def _integer(text):
    return int(decimal.Decimal(text))


def _fraction(value):
    digits = _digits(value.numerator)
    return ["$fraction", digits if value.denominator == 1 else f"{digits}/{_digits(value.denominator)}"]


def _fraction_of(text):
    return fractions.Fraction(*map(_integer, text.split("/")))


def is_json_integer(value: int) -> bool:
    """Whether the core's JSON can hold it: in 64 bits, with a sign or without."""
    return -(2**63) <= value < 2**64


def is_text(value: str) -> bool:
    """Whether the core's JSON can have it as a name: UTF-8 has no lone surrogates."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _fit(keys, plain):
    return isinstance(keys, list) and {str(key) for key in keys} == plain.keys()


def _encoded_dict(value, place):
    parts = [encoded_value(part, f"{place}[{key!r}]") for key, part in value.items()]
    keys = [encoded_value(key, f"a key of {place}") for key in value]
    names = [key if type(key) is str else str(decoded(key)) for key in keys]  # of the keys that come back
    if KEYS in names or len(set(names)) < len(names):
        return ["$dict", *itertools.chain.from_iterable(zip(keys, parts))]
    members = dict(zip(names, parts))
    if any(type(key) is not str for key in keys):
        members[KEYS] = keys
    return members


def _items(value, place):
    return [encoded_value(part, f"{place}[{i}]") for i, part in enumerate(value)]


def _refuse_torch(value, place):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, (torch.Tensor, torch.nn.Module)):
        raise ValueError(
            f"{place} is of type {type(value).__module__}.{type(value).__qualname__}; report numbers: tensor.item(), or "
            "tensor.tolist(); a model belongs into the checkpoint"
        )


def _array(value, place):
    import numpy

    kind, long = value.dtype.kind, value.dtype.char in "gG"  # wider than a float
    if kind not in "biufcmMUSO" or (kind == "c" and long):
        with numpy.printoptions(threshold=sys.maxsize, floatmode="unique"):
            return _text(value, place, most=None)
    if isinstance(value, numpy.ma.MaskedArray):
        return ["$masked", _array(value.data, place), _array(numpy.ma.getmaskarray(value), place)]
    flat = numpy.asarray(value).reshape(-1)
    if kind == "M":
        items = flat.astype(str).tolist()
    elif kind == "m":
        items = flat.astype("i8").tolist()
    elif value.ndim == 0:
        return encoded_value(float(value) if kind == "f" else value.item(), place)
    elif long:
        items = list(map(str, flat))
    else:
        items = flat.tolist() if kind in "biuf" else encoded_value(flat.tolist(), place)
    return ["$array", value.dtype.str, list(value.shape), items] if value.ndim else ["$numpy", value.dtype.str, *items]


def _text(value, place, most=_MOST_TEXT):
    try:
        pickle.dumps(value)
        return repr(value)[:most]
    except BaseException as error:  # of the value's own class
        raise TypeError(
            f"{place} is of type {type(value).__qualname__}, which cannot be kept ({type(error).__name__}: {text_of(error)}); "
            "report numbers, texts, and lists and dicts of them"
        ) from None


def _tuple(value, place):
    items = _items(value, place)
    return ["$tuple", *items] if type(value) is tuple else ["$namedtuple", _name_of(type(value)), *items]


def _set(value, place):
    return ["$frozenset" if isinstance(value, frozenset) else "$set", *_items(_in_order(value), place)]


def _in_order(value):
    try:
        return sorted(value)
    except TypeError:
        return list(value)


def _enumeration(value, place):
    return ["$enum", _name_of(type(value)), value.name, encoded_value(value.value, place)]


def _time(mark, *parts):
    """The encoder of a class of datetime; what derives from it may hold more, such as the nanoseconds of pandas."""

    def encode(value, place):
        made = [mark, *(part(value) for part in parts)]
        return made if type(value).__module__ == "datetime" or decoded(made) == value else _text(value, place)

    return encode


# The first that fits; a datetime is a date.
_ENCODERS: Dict[type, Callable[[Any, str], List[Any]]] = {
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    bytes: lambda value, _: ["$bytes", base64.b64encode(value).decode()],
    bytearray: lambda value, _: ["$bytearray", base64.b64encode(value).decode()],
    enum.Enum: _enumeration,
    datetime.datetime: _time("$datetime", lambda value: value.isoformat()),
    datetime.date: _time("$date", lambda value: value.isoformat()),
    datetime.time: _time("$time", lambda value: value.isoformat()),
    datetime.timedelta: _time(
        "$timedelta", lambda value: value.days, lambda value: value.seconds, lambda value: value.microseconds
    ),
    complex: lambda value, _: ["$complex", value.real, value.imag],
    decimal.Decimal: lambda value, _: ["$decimal", str(value)],
    fractions.Fraction: lambda value, _: _fraction(value),
    uuid.UUID: lambda value, _: ["$uuid", str(value)],
    pathlib.PurePath: lambda value, _: ["$path", str(value)],
    range: lambda value, place: ["$range", *_items((value.start, value.stop, value.step), place)],
}


def _name_of(cls):
    return f"{cls.__module__}:{cls.__qualname__}"


def _class_of(name, base):
    """The class of that name if its module is imported and it is one of `base`, else None."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # a module's own __getattr__ may import
    return found if isinstance(found, type) and issubclass(found, base) else None


def _member_of(name, member, value):
    cls = _class_of(name, enum.Enum)
    if cls is None or member in cls.__members__:
        return cls.__members__[member] if cls else value
    if not issubclass(cls, enum.Flag) or cls._member_type_ is not object:
        return value
    try:
        return enum.Flag._missing_.__func__(cls, value)  # several flags, or none; not the class's own, which may be code
    except ValueError:
        return value


def _named_tuple_of(name, *items):
    cls = _class_of(name, tuple)
    return tuple.__new__(cls, items) if cls and len(getattr(cls, "_fields", ())) == len(items) else items


def _dataclass_of(name, fields):
    cls = _class_of(name, object)
    if cls is None or not dataclasses.is_dataclass(cls) or hasattr(cls, "__del__"):
        return fields
    made = object.__new__(cls)
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made


def _array_of(dtype, shape, items):
    import numpy

    if numpy.dtype(dtype).kind != "O":
        return numpy.array(items, dtype=dtype).reshape(shape)
    flat = numpy.empty(len(items), dtype)
    for i, item in enumerate(items):
        flat[i] = item
    return flat.reshape(shape)


def _masked_of(data, mask):
    import numpy

    return numpy.ma.array(data, mask=mask)


_DECODERS: Dict[str, Callable[..., Any]] = {
    "$int": _integer,
    "$list": lambda *items: list(items),
    "$dict": lambda *items: dict(zip(items[::2], items[1::2])),
    "$tuple": lambda *items: items,
    "$namedtuple": _named_tuple_of,
    "$set": lambda *items: set(items),
    "$frozenset": lambda *items: frozenset(items),
    "$bytes": base64.b64decode,
    "$bytearray": lambda text: bytearray(base64.b64decode(text)),
    "$enum": _member_of,
    "$datetime": datetime.datetime.fromisoformat,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": datetime.timedelta,
    "$complex": complex,
    "$decimal": decimal.Decimal,
    "$fraction": _fraction_of,
    "$uuid": uuid.UUID,
    "$path": pathlib.Path,
    "$range": range,
    "$dataclass": _dataclass_of,
    "$array": _array_of,
    "$masked": _masked_of,
    "$numpy": lambda dtype, item: _array_of(dtype, (), [item])[()],
}

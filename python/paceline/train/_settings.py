"""Configuration classes, whose fields the C++ core declares (paceline/core/config/). Names, defaults, help and checks
come from there, so that both languages refuse the same values with the same words.

A class derives from Settings and is a dataclass, decorated by `suggesting` too. Each of its fields is one of

    max_failures: int = declared()                  # as C++ declares the field of this name
    storage_filesystem: Any = own(None, "Where …")  # Python's own
    fail_fast: Optional[bool] = None                # Ray Train's, which means nothing here: a row of paceline._options
"""

import copy
import dataclasses
import difflib
import functools
import inspect
import json
import numbers
import os
import textwrap
import typing
from typing import Any, Callable, ClassVar, Dict, List, Optional, TypeVar

from paceline import _environment, _options
from paceline._native import native


Class = TypeVar("Class", bound=type)
_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a string", dict: "names with values"}
_WORDS |= {list: "a list", tuple: "a tuple", os.PathLike: "a path"}


class RemovedOptionError(native.ConfigError, DeprecationWarning):
    """An option was given that Ray Train no longer has either, and for which it raises DeprecationWarning."""


@dataclasses.dataclass(frozen=True)
class _Declared:
    environment: str
    usual: Optional[Callable[[Any], Any]]


@dataclasses.dataclass(frozen=True)
class _Own:
    default: Any
    help: str


def declared(environment: str = "", usual: Optional[Callable[[Any], Any]] = None) -> Any:
    """A field that C++ declares. `environment` names the setting of the environment that overrides the default; `usual` makes
    the default for each object of the declared one.
    """
    return _Declared(environment, usual)


def own(default: Any, help: str) -> Any:
    """A field that only Python has."""
    return _Own(default, help)


class Settings:
    """What all configuration classes do: take their fields from the declarations, check themselves."""

    _native: ClassVar[Any] = None
    _declaring: ClassVar[type]
    _declared: ClassVar[List[str]]

    def __init_subclass__(cls, declared_by: Any = None, **kwargs: Any):
        """`declared_by`: the extension's module with the declaration; a class without is a user's own, of one that has."""
        super().__init_subclass__(**kwargs)
        if declared_by is not None:
            cls._native, cls._declaring, cls._declared = declared_by, cls, []
            fields = {field["name"]: field for field in declared_by.fields()}
            cls.__doc__ = f"{cls.__doc__}\n\nArgs:\n" + "\n".join(cls._take(name, fields) for name in cls.__annotations__)
            cls.__doc__ += "\n\nRaises:\n    ConfigError: For a value that is not allowed; it is a ValueError too.\n"

    @classmethod
    def _take(cls, name: str, fields: Dict[str, Dict[str, Any]]) -> str:
        """Gives the field its default. Returns its lines of the documentation."""
        value = cls.__dict__.get(name)
        if isinstance(value, _Own):
            setattr(cls, name, value.default)
            return _lines(name, value.help)
        if name in fields and not (name in cls.__dict__ and not isinstance(value, _Declared)):
            cls._declared.append(name)
            if isinstance(value, _Declared):
                setattr(cls, name, _default(fields[name]["default"], value, _takes_none(cls.__annotations__[name])))
            return _lines(name, _described(fields[name], value))
        if why := _options.NO_EFFECT.get(cls.__name__, {}).get(name):
            return _lines(name, f"No effect: {why}.")
        return _lines(name, f"Refused: {_options.REFUSED[cls.__name__][name]}.")

    def __post_init__(self) -> None:
        owner = type(self)._declaring
        for name, hint in _hints(owner).items():
            setattr(self, name, _settled(f"{owner.__name__}.{name}", getattr(self, name), hint, name in self._declared))
        check_options(owner.__name__, owner, vars(self))
        self._native.check(self._to_settings(), owner.__name__)

    def _to_settings(self) -> Dict[str, Any]:
        """The fields that C++ declares, as JSON values."""
        return {name: plain(getattr(self, name)) for name in self._declared}


def suggesting(cls: Class) -> Class:
    """Decorates a class: where an argument is misspelt, the TypeError says which is meant."""
    init: Callable[..., None] = getattr(cls, "__init__")
    names = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def checked(self, *args, **kwargs):
        for name in kwargs.keys() - names:
            meant = [one for one in names if one.startswith(name)] or difflib.get_close_matches(name, names, n=1)
            if meant:
                raise TypeError(f"{cls.__name__} has no argument {name!r}; did you mean {' or '.join(map(repr, meant))}?")
        init(self, *args, **kwargs)

    setattr(cls, "__init__", checked)
    return cls


@functools.lru_cache(maxsize=None)
def _hints(owner: type) -> Dict[str, Any]:
    hints = typing.get_type_hints(owner)
    return {field.name: hints[field.name] for field in dataclasses.fields(owner)}


def _settled(name: str, value: Any, hint: Any, is_declared: bool) -> Any:
    """`value` of the field, whose parts are configurations of their own classes; ConfigError where they are others.

    C++ reads a configuration by its fields: it could not tell one class from another, nor see a name that it has not.
    """
    options = typing.get_args(hint) if typing.get_origin(hint) is typing.Union else (hint,)
    if value is None:
        if type(None) in options or Any in options or not is_declared:
            return None
        empty = {typing.get_origin(option) for option in options} & {dict, list}
        if empty:
            return empty.pop()()
        raise native.ConfigError(f"{name} is None; leave it out for its default")
    for option in options:
        part = (typing.get_args(option) or (None,))[0] if typing.get_origin(option) is list else option
        if not (isinstance(part, type) and issubclass(part, Settings)):
            continue
        if part is option:
            return _configuration(name, value, part)
        if not isinstance(value, (list, tuple)):
            raise refusal(name, value, f"a list of {part.__name__} objects")
        return [_configuration(f"{name}[{index}]", one, part) for index, one in enumerate(value)]
    return value


def _configuration(name: str, value: Any, wanted: type) -> Any:
    if not isinstance(value, wanted):
        raise refusal(name, value, f"a {wanted.__name__}")
    return value


def refusal(name: str, value: Any, allowed: str) -> native.ConfigError:
    """The error for a value that is not allowed, in the form of those of C++."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        shown = repr(value)
    return native.ConfigError(f"{name} is {textwrap.shorten(shown, 200)}; allowed: {allowed}")


def check_type(name: str, value: Any, *wanted: type) -> None:
    """ConfigError for an argument of another type; None is none."""
    if value is not None and not isinstance(value, wanted):
        raise refusal(name, value, " or ".join(_WORDS.get(one) or f"a {one.__name__}" for one in wanted))


def check_number(name: str, value: Any, kind: type, low: float) -> None:
    """ConfigError unless `value` is a number of at least `low`; `kind` is int or float."""
    is_one = isinstance(value, numbers.Integral if kind is int else numbers.Real) and not isinstance(value, bool)
    if not is_one or not value >= low:
        raise refusal(name, value, f"{_WORDS[kind]}, at least {low}")


def check_options(owner: str, function: Callable, values: Dict[str, Any]) -> None:
    """RemovedOptionError for a value of an option that is refused, a notice for one of no effect.

    `function` has the options and their defaults.
    """
    given = _options.changed(function, values)
    for option, instead in _options.REFUSED.get(owner, {}).items():
        if option in given:
            raise RemovedOptionError(f"{owner}({option}=…) is not supported any more; {instead}")
    if owner in _options.NO_EFFECT:
        _options.note(owner, given)


def plain(value: Any) -> Any:
    """`value` as JSON values: configurations as dicts, paths as strings."""
    if isinstance(value, Settings):
        return value._to_settings()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def _takes_none(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


def _default(value: Any, field: _Declared, is_optional: bool) -> Any:
    if field.environment:
        return dataclasses.field(default_factory=functools.partial(_environment.number, field.environment, value))
    if field.usual:
        return dataclasses.field(default_factory=functools.partial(field.usual, value))
    if isinstance(value, dict) and (value or is_optional):
        return None  # a configuration of its own class, which the object makes with that class's defaults; no values
    if isinstance(value, (dict, list)):
        return dataclasses.field(default_factory=functools.partial(copy.copy, value))
    return value


def _described(field: Dict[str, Any], value: Any) -> str:
    text = f"{field['help']}."
    if field["allowed"] != "anything":
        text += f" Allowed: {field['allowed']}."
    if isinstance(value, _Declared) and value.environment:
        text += f" Default: {field['default']}, or the environment's {_environment.variable(value.environment)}."
    return text


def _lines(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {text}", width=100, initial_indent=" " * 4, subsequent_indent=" " * 8)

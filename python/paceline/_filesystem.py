"""Where files are. The core has one text for it, a location (docs/storage.md); scripts have a path and its file system.

A file system that a URI describes becomes one, and every process opens it by itself. All others stay objects: the core
calls them back, and workers get them pickled.
"""

import contextlib
import dataclasses
import functools
import os
import posixpath
import secrets
import urllib.parse
from typing import Any, Dict, Iterable, Iterator, Optional

from paceline._native import native

# The file systems that a URI describes, by pyarrow's name of their type: the settings that are no option of the URI.
_KEYS: Dict[str, set] = {"s3": {"access_key", "secret_key"}, "gcs": set()}

# What the URIs start with that the core takes.
_CORES_OWN = {"file", *(name for scheme in native.storage_schemes() for name in scheme.names)}

# Those that stay objects, by the id that their locations have in this process.
_added: Dict[str, Any] = {}


@dataclasses.dataclass(frozen=True)
class Place:
    """A folder in a file system that a script has given.

    Attributes:
        filesystem: As it was given.
        path: In the file system.
        location: The same for the core, with the keys.
        is_of_uri: Whether the script gave a URI, and the file system is pyarrow's for it.
    """

    filesystem: Any = dataclasses.field(repr=False)
    path: str
    location: str = dataclasses.field(repr=False)
    is_of_uri: bool = False

    def find(self, location: str) -> Optional[str]:
        """The path of what is here or below; None for what is elsewhere."""
        part = native.part_below(location, self.location)
        return None if part is None else posixpath.join(self.path, part) if part else self.path


def place_of(path: str, filesystem: Any) -> Place:
    """`path` in `filesystem`, one of pyarrow's or fsspec's.

    Raises:
        ValueError: For an object that is none of both.
    """
    from pyarrow import fs

    filesystem = _pyarrow(filesystem)
    row = _scheme_of(filesystem)
    scheme, separator, rest = path.partition("://")
    if row and separator and scheme.lower() in row.names:
        path = rest
    path = posixpath.normpath(path) if path else ""
    location = _located(path, filesystem)
    return Place(filesystem, location if isinstance(filesystem, fs.LocalFileSystem) else path, location)


def given(path: str, filesystem: Any) -> Optional[Place]:
    """What a script gives as a path and perhaps its file system; None for what the core opens by itself.

    URIs of other kinds, such as ``hdfs://``, are file systems of pyarrow's.
    """
    if filesystem is not None:
        return place_of(path, filesystem)
    scheme, separator, _ = path.partition("://")
    if not separator or scheme.lower() in _CORES_OWN:
        return None
    import pyarrow

    try:
        return dataclasses.replace(place_of(*_opened(path)), is_of_uri=True)
    except pyarrow.ArrowInvalid:
        return None  # the core says what there is


@functools.lru_cache(maxsize=None)
def _opened(uri):
    """The path, and the same file system each time: some hold what was written only in themselves."""
    from pyarrow import fs

    filesystem, path = fs.FileSystem.from_uri(uri)
    return path, filesystem


def path_of(location: str, place: Optional[Place] = None) -> str:
    """The path of a location in its file_system_of()."""
    found = None if place is None else place.find(location)
    return native.path_in_store(location) if found is None else found


def filesystem_of(location: str, place: Optional[Place] = None) -> Any:
    """The pyarrow file system of a location: the one that was given with `place` for what is there."""
    if place is not None and place.find(location) is not None:
        return place.filesystem
    if added := _added.get(native.custom_id(location)):
        return added
    import pyarrow.fs  # takes longer than all else here

    return pyarrow.fs.FileSystem.from_uri(location)[0] if "://" in location else pyarrow.fs.LocalFileSystem()


def kind_of(location: str, place: Optional[Place] = None) -> str:
    """pyarrow's name of that file system's type, "local" or "s3", without opening it: that may ask the network."""
    if place is not None and place.find(location) is not None:
        return place.filesystem.type_name
    if added := _added.get(native.custom_id(location)):
        return added.type_name
    scheme, separator, _ = location.partition("://")
    types = (row.arrow_type for row in native.storage_schemes() if separator and scheme.lower() in row.names)
    return next(types, "local")


@dataclasses.dataclass(frozen=True)
class Stores:
    """What a run's workers need of the file systems that their driver was given."""

    place: Optional[Place]  # the run's storage path
    added: Dict[str, Any]

    @classmethod
    def of(cls, place: Optional[Place], locations: Iterable[str]) -> "Stores":
        """Those of the storage path, and of locations that workers open besides."""
        return cls(place, added_of([*locations, *([place.location] if place else [])]))

    def take_over(self) -> None:
        """In a worker: what comes from the core is in these from now on."""
        add(self.added)
        of_run.place = self.place


def added_of(locations: Iterable[str]) -> Dict[str, Any]:
    """The file systems of locations that stay objects."""
    ids = {native.custom_id(location) for location in locations}
    return {id: _added[id] for id in ids if id in _added}


def add(filesystems: Dict[str, Any]) -> None:
    """Those of another process."""
    for id, filesystem in filesystems.items():
        _add(id, filesystem)


class _OfRun:
    """Where the run is stored whose train loop this process runs, if a file system was given for it."""

    place: Optional[Place] = None

    @contextlib.contextmanager
    def at(self, place: Optional[Place]) -> Iterator[None]:
        """While the loop runs in the driver itself."""
        former, self.place = self.place, place
        try:
            yield
        finally:
            self.place = former


of_run = _OfRun()


def _pyarrow(filesystem):
    from pyarrow import fs

    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    try:
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem)) if _is_fsspec(filesystem) else _refuse(filesystem)
    except ImportError:
        _refuse(filesystem)


def _is_fsspec(filesystem):
    import fsspec

    return isinstance(filesystem, fsspec.AbstractFileSystem)


def _refuse(filesystem):
    raise ValueError(
        f"the file system is of type {type(filesystem).__name__}; wanted: a pyarrow.fs.FileSystem, or a file system of fsspec's"
    )


def _located(path, filesystem):
    from pyarrow import fs

    if isinstance(filesystem, fs.SubTreeFileSystem):
        return _located(posixpath.join(filesystem.base_path, path.lstrip("/")), filesystem.base_fs)
    if isinstance(filesystem, fs.LocalFileSystem):
        return os.path.abspath(path)
    return _uri(path, filesystem) or native.custom_location(_id_of(filesystem), filesystem.type_name, path)


def _uri(path, filesystem):
    """None for a file system that a URI cannot describe."""
    keys = _KEYS.get(filesystem.type_name)
    if keys is None:
        return None
    row = _scheme_of(filesystem)
    scheme, options = row.names[0], set(row.open_options)
    settings, usual = _settings(filesystem), _settings(type(filesystem)())
    changed = {name: value for name, value in settings.items() if value != usual.get(name) and value not in (None, "")}
    if changed.keys() - options - keys:
        return None
    user = urllib.parse.quote(changed["access_key"], safe="") if "access_key" in changed else ""
    if user:
        user += ":" + urllib.parse.quote(changed.get("secret_key", ""), safe="") + "@"
    query = urllib.parse.urlencode({name: _text(changed[name]) for name in sorted(changed.keys() & options)}, safe=":/")
    path = urllib.parse.quote(path.strip("/"))
    return f"{scheme}://{user}{path}" + (f"?{query}" if query else "")


def _scheme_of(filesystem):
    return next((row for row in native.storage_schemes() if filesystem.type_name == row.arrow_type), None)


def _settings(filesystem):
    return filesystem.__reduce__()[1][0]


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _id_of(filesystem):
    """The same for equal ones."""
    for id, known in _added.items():
        if known is filesystem or known == filesystem:
            return id
    id = secrets.token_hex(8)
    _add(id, filesystem)
    return id


def _add(id, filesystem):
    _added[id] = filesystem
    native.add_file_system(id, filesystem)

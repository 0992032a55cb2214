"""A pyarrow filesystem as part of a location: scripts give both, the C++ core takes one URI (docs/storage.md)."""

import os
import urllib.parse
from typing import Any

from paceline._native import native

# The filesystems that can be handed over, by pyarrow's name of their type: the settings that are no option of a URI.
_KEYS: dict[str, set[str]] = {"s3": {"access_key", "secret_key"}, "gcs": set()}


def located(path: str, filesystem: Any) -> str:
    """The location of `path` in `filesystem`.

    Raises:
        ValueError: For a filesystem that workers could not open by a URI, or a setting that a URI cannot express.
    """
    from pyarrow import fs

    if isinstance(filesystem, fs.SubTreeFileSystem):
        return located(os.path.join(filesystem.base_path, path.lstrip("/")), filesystem.base_fs)
    if isinstance(filesystem, fs.LocalFileSystem):
        return path
    keys = _KEYS.get(filesystem.type_name)
    if keys is None:
        forms = ", ".join(scheme.written for scheme in native.storage_schemes())
        raise ValueError(
            f"a filesystem of type {type(filesystem).__name__} cannot be handed over; give the location as a URI instead "
            f"({forms}; docs/storage.md): every worker opens it by itself"
        )
    row = next(scheme for scheme in native.storage_schemes() if filesystem.type_name in scheme.names)
    scheme, options = row.names[0], set(row.open_options)
    settings, usual = _settings(filesystem), _settings(type(filesystem)())
    changed = {name: value for name, value in settings.items() if value and value != usual.get(name)}
    user = urllib.parse.quote(changed["access_key"], safe="") if "access_key" in changed else ""
    if user:
        user += ":" + urllib.parse.quote(changed.get("secret_key", ""), safe="") + "@"
    unknown = changed.keys() - options - keys
    if unknown:
        raise ValueError(
            f"a {type(filesystem).__name__} with {', '.join(sorted(unknown))} cannot be handed over; give the location as a "
            "URI, and the rest in the environment (docs/storage.md)"
        )
    query = urllib.parse.urlencode({name: _text(changed[name]) for name in sorted(changed.keys() & options)})
    path = path.removeprefix(f"{scheme}://").lstrip("/")
    return f"{scheme}://{user}{path}" + (f"?{query}" if query else "")


def filesystem_of(path: str) -> Any:
    """The pyarrow filesystem of a folder: local, or that of a URI."""
    import pyarrow.fs  # takes longer than all else here

    return pyarrow.fs.FileSystem.from_uri(path)[0] if "://" in path else pyarrow.fs.LocalFileSystem()


def _settings(filesystem):
    return filesystem.__reduce__()[1][0]


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)

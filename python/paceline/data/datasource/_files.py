"""Files that are there whole or not at all, in a folder of any file system."""

import os
import posixpath
from typing import Any, Callable, Dict, Tuple

import pyarrow

from paceline import _filesystem

# Where a file appears when its stream is closed, and a rename is a copy.
_STORES = ("s3", "gcs", "abfs")


def place_of(path: str, filesystem: Any) -> Tuple[Any, str]:
    """A file system of pyarrow's, and the path in it.

    Args:
        path: Of a folder; a URI if there is no file system.
        filesystem: One of pyarrow's or fsspec's, or None.
    """
    path = os.fspath(path).removeprefix("local://")
    place = _filesystem.given(path, filesystem)
    if place is not None:
        return place.filesystem, place.path
    location = path if "://" in path else os.path.abspath(path)
    return _filesystem.filesystem_of(location), _filesystem.path_of(location)


def write_whole(filesystem: Any, path: str, write: Callable[[Any], None], stream_options: Dict[str, Any]) -> None:
    """A file of what `write` writes to a stream. Where that fails, there is none."""
    if filesystem.type_name in _STORES:
        held = pyarrow.BufferOutputStream()
        write(held)
        # Not in a `with`: one that has failed must not be closed, which would publish a part.
        stream = filesystem.open_output_stream(path, **stream_options)
        stream.write(held.getvalue())
        stream.close()
        return
    folder, name = posixpath.split(path)
    unfinished = posixpath.join(folder, f".{name}")  # readers leave out what begins with a dot
    try:
        with filesystem.open_output_stream(unfinished, **stream_options) as stream:
            write(stream)
        filesystem.move(unfinished, path)
    except BaseException:
        remove(filesystem, unfinished)
        raise


def remove(filesystem: Any, path: str) -> None:
    """A file, if it is there and can be removed."""
    try:
        filesystem.delete_file(path)
    except OSError:
        pass

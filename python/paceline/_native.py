"""The extension module, with torch and pyarrow loaded first: it uses their libraries."""

import ctypes
import pathlib

import torch  # noqa: F401
import pyarrow

for _library in pathlib.Path(pyarrow.__file__).parent.glob("libarrow_flight.so.*"):
    ctypes.CDLL(str(_library))  # pyarrow itself loads it for those alone who ask for pyarrow.flight

from paceline import _paceline as native  # noqa: E402

__all__ = ["native"]

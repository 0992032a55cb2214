"""The extension module, with torch and pyarrow loaded first: it uses their libraries."""

import torch  # noqa: F401
import pyarrow  # noqa: F401

from paceline import _paceline as native

__all__ = ["native"]

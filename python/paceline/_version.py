"""The version of the package: that of the extension module, without loading it."""

import importlib.metadata

try:
    __version__ = importlib.metadata.version("paceline")
except importlib.metadata.PackageNotFoundError:  # from the build folder
    __version__ = "0.1.0"

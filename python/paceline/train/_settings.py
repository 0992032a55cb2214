"""How the configuration classes become the settings of the C++ core, which checks them."""

import os
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON values: configurations as dicts, paths as strings."""
    to_settings = getattr(value, "_to_settings", None)
    if to_settings is not None:
        return to_settings()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def refuse(owner: str, **removed: Any) -> None:
    """DeprecationWarning for arguments that Ray Train no longer has: they are raised there too."""
    for name, (value, unset, instead) in removed.items():
        if value is not unset and value != unset:
            raise DeprecationWarning(f"{owner}({name}=…) is not supported any more; {instead}")

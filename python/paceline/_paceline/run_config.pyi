from __future__ import annotations
import typing
__all__: list[str] = ['check', 'fields']
def check(values: dict, owner: str | None = None) -> None:
    """
    ConfigError for a value that is not allowed, which names the class `owner`; None: the C++ one.
    """
def fields() -> list[dict]:
    """
    What is declared of each field: its name, default, what is allowed, help.
    """

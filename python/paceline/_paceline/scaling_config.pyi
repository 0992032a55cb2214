from __future__ import annotations
__all__: list[str] = ['check', 'fields']
def check(values: dict) -> None:
    """
    ConfigError for a value that is not allowed.
    """
def fields() -> list[dict]:
    """
    What is declared of each field: its name, default, what is allowed, help.
    """

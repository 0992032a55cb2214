"""What the package says to whoever runs a program, on standard error, once a process."""

import sys

_given: set[str] = set()


def give_once(text: str) -> None:
    """Prints `text`, unless this process has."""
    if text not in _given:
        _given.add(text)
        print(f"paceline: {text}", file=sys.stderr)

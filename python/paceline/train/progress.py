"""progress(): a loop with a progress display."""

import time
from typing import Iterable, Iterator, Sized, TypeVar

from paceline._native import native

Item = TypeVar("Item")


def progress(iterable: Iterable[Item], label: str) -> Iterator[Item]:
    """Iterates over ``iterable`` and shows rank 0's progress: steps, rate, time left.

    While rank 0 draws a bar of its own (``tqdm``), that is shown instead.

    Args:
        iterable: A loader, or anything else; without ``len()`` the end is not known.
        label: Text in front of the numbers.

    Raises:
        RuntimeError: Outside a train loop.

    Example:
        >>> for images, labels in progress(loader, f"epoch {epoch}"):
        ...     ...
    """
    native.get_context()
    total = len(iterable) if isinstance(iterable, Sized) else 0
    start = shown = time.monotonic()
    done = 0
    for item in iterable:
        yield item
        done += 1
        now = time.monotonic()
        if now - shown >= 0.2:
            shown = now
            native.show_progress(label, done, total, done / (now - start))
    if done:
        native.show_progress(label, done, total, done / max(time.monotonic() - start, 1e-9))

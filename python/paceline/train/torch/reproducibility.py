"""enable_reproducibility: makes a run repeatable, as far as possible."""

import contextlib
import os
import random
from typing import Iterator, Optional

import torch

from paceline.train.context import inside

_seed: Optional[int] = None


def enable_reproducibility(seed: int = 0) -> None:
    """Seeds torch, random and numpy on this worker, and asks for deterministic algorithms.

    Loaders that prepare_data_loader() returns afterwards seed their own worker processes too. Operations that have no
    deterministic form raise an error. Results still depend on the number of workers and threads, and on the hardware.
    Call it first in the train loop, since some GPU libraries read the setting only once.

    Args:
        seed: The seed; the same seed on all workers gives them equal random numbers.

    Raises:
        RuntimeError: Outside a train loop.
    """
    global _seed
    inside("enable_reproducibility")
    _seed = seed
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy

        numpy.random.seed(seed)
    except ImportError:
        pass
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


@contextlib.contextmanager
def own_state() -> Iterator[None]:
    """Around a train loop whose process goes on after it."""
    global _seed
    before = _seed, torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    _seed = None
    try:
        yield
    finally:
        _seed, deterministic, torch.backends.cudnn.benchmark = before
        torch.use_deterministic_algorithms(deterministic)


def add_seeds(arguments: dict) -> None:
    """To a loader's arguments, where the loop has asked for reproducibility."""
    if _seed is None:
        return
    arguments["worker_init_fn"] = _SeededWorker(arguments.get("worker_init_fn"))


class _SeededWorker:
    """worker_init_fn of a loader: torch seeds its workers by itself, random and numpy not always."""

    def __init__(self, then):
        self._then = then

    def __call__(self, worker_id: int) -> None:
        seed = torch.initial_seed() % 2**32
        random.seed(seed)
        try:
            import numpy

            numpy.random.seed(seed)
        except ImportError:
            pass
        if self._then is not None:
            self._then(worker_id)

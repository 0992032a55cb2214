"""Where a function runs: how many processes, with which GPUs, with how much memory. The names are Ray Data's."""

import dataclasses
import math
import os
from typing import Any, Dict, List, Optional

from paceline import _options
from paceline.data.compute import ActorPoolStrategy, TaskPoolStrategy


@dataclasses.dataclass(frozen=True)
class Compute:
    """What a step's function needs."""

    processes: Optional[int] = None  # at most; None: as many as there are cores for it
    cpus: float = 1.0  # of each
    gpus: float = 0.0
    memory: int = 0  # bytes; 0: any amount

    @property
    def is_usual(self) -> bool:
        """Whether the function can have its processes in common with others."""
        return self == Compute()


def taken_from(step: str, given: Dict[str, Any]) -> Compute:
    """What `step` was told by Ray's options, which must not have others. ValueError for values that are not allowed."""
    options = dict(given)
    processes = _processes(options.pop("compute", None), options.pop("concurrency", None))
    cpus, gpus, memory = (_amount(name, options.pop(name, None)) for name in ("num_cpus", "num_gpus", "memory"))
    _options.take("Dataset", step, options)
    return Compute(processes, 1.0 if cpus is None else cpus, gpus or 0.0, int(memory or 0))


def _processes(compute, concurrency):
    if isinstance(compute, TaskPoolStrategy):
        return compute.size
    if isinstance(compute, ActorPoolStrategy):
        assert compute.max_size is not None
        return None if math.isinf(compute.max_size) else int(compute.max_size)
    if compute is not None:
        raise ValueError(f"compute is {compute!r}; allowed: an ActorPoolStrategy or a TaskPoolStrategy")
    if isinstance(concurrency, tuple):  # from, to, and how many at first
        concurrency = concurrency[1] if 2 <= len(concurrency) <= 3 else 0
    return _at_least_one("concurrency", concurrency)


def _at_least_one(name, value):
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} is {value!r}; allowed: a number of processes from 1")
    return value


def _amount(name, value):
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
        raise ValueError(f"{name} is {value!r}; allowed: a number from 0")
    return value


def variables_of_processes(compute: Compute, cores: float, name: str) -> List[Dict[str, str]]:
    """The environment of each process beyond this one's: as many as there are to be.

    Args:
        cores: For all of them.
        name: Of the function.
    """
    if compute.gpus:
        return _with_gpus(compute, name)
    usual = math.floor(cores / compute.cpus) if compute.cpus else math.floor(cores)
    return [{}] * max(1, compute.processes or usual)


def _with_gpus(compute, name):
    gpus = _visible_gpus()
    if compute.gpus > len(gpus):
        raise ValueError(f"{name} asks for num_gpus={compute.gpus:g}, but this process sees {len(gpus) or 'no'} "
                         f"GPU{'s' * (len(gpus) > 1)}; leave num_gpus out to run it without")
    if compute.gpus > 1 and compute.gpus % 1:
        raise ValueError(f"num_gpus is {compute.gpus}; allowed: a part of one GPU, or a whole number")
    if compute.gpus < 1:  # several processes on each
        room = math.floor(1 / compute.gpus + 1e-9)
        places = [gpu for _ in range(room) for gpu in gpus]
        sets = [[gpu] for gpu in places]
    else:
        each = int(compute.gpus)
        sets = [gpus[first : first + each] for first in range(0, len(gpus) - each + 1, each)]
    wanted = compute.processes or len(sets)
    if wanted > len(sets):
        raise ValueError(f"{name} asks for {wanted} processes with num_gpus={compute.gpus:g} each, but the {len(gpus)} GPUs "
                         f"are enough for {len(sets)}; set concurrency={len(sets)} or fewer")
    return [{"CUDA_VISIBLE_DEVICES": ",".join(chosen)} for chosen in sets[:wanted]]


def _visible_gpus():
    """As CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [gpu for gpu in named.split(",") if gpu.strip()]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]

"""The functions of Ray AIR's session: those of paceline.train, for scripts that still import them from here.

Outside a train loop the functions of paceline.train raise; these warn and return what a single process would have, as
Ray AIR's did.
"""

import functools
import warnings
from typing import Any, Callable, Dict, Optional

from paceline import _absent
from paceline._native import native
from paceline.train import session
from paceline.train.checkpoint import Checkpoint
from paceline.train.context import get_context


def _outside(default: Any = None) -> Callable:
    """What a function gives outside a train loop."""

    def decorate(function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            try:
                native.get_context()
            except RuntimeError:
                warnings.warn(
                    f"session.{function.__name__}() was called outside a train loop: {default!r}", stacklevel=2
                )
                return default
            return function(*args, **kwargs)

        return checked

    return decorate


@_outside()
def report(
    metrics: Dict[str, Any], *, checkpoint: Optional[Checkpoint] = None, checkpoint_dir_name: Optional[str] = None
) -> None:
    """Reports metrics and, optionally, a checkpoint: paceline.train.report()."""
    session.report(metrics, checkpoint, checkpoint_dir_name)


@_outside()
def get_checkpoint() -> Optional[Checkpoint]:
    """The checkpoint to continue from: paceline.train.get_checkpoint()."""
    return session.get_checkpoint()


@_outside()
def get_dataset_shard(dataset_name: Optional[str] = None) -> Any:
    """This worker's share of a dataset of the trainer."""
    return session.get_dataset_shard(dataset_name)


@_outside(default=1)
def get_world_size() -> int:
    """Workers in the group."""
    return get_context().get_world_size()


@_outside(default=0)
def get_world_rank() -> int:
    """Rank in the whole worker group, from 0."""
    return get_context().get_world_rank()


@_outside(default=0)
def get_local_rank() -> int:
    """Rank among the workers of this machine, from 0."""
    return get_context().get_local_rank()


@_outside(default=1)
def get_local_world_size() -> int:
    """Workers of this machine."""
    return get_context().get_local_world_size()


@_outside(default=0)
def get_node_rank() -> int:
    """Rank of this machine, from 0."""
    return get_context().get_node_rank()


@_outside()
def get_experiment_name() -> str:
    """Name of the run."""
    return get_context().get_experiment_name()


@_outside()
def get_trial_name() -> str:
    """Name of the run: a run is one trial."""
    return get_context().get_experiment_name()


@_outside()
def get_trial_id() -> str:
    """Name of the run."""
    return get_context().get_experiment_name()


@_outside()
def get_trial_dir() -> str:
    """The run's folder in its file system."""
    return get_context().get_storage()


@_outside()
def get_storage() -> Any:
    """The run's folder: get_context().get_storage()."""
    return get_context().get_storage()


_absent.explain(__name__)

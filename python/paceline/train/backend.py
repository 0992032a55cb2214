"""Backend, BackendConfig: code of your own that runs around a train loop."""

import contextlib
from typing import Any, Callable, ContextManager, Dict, List, Optional, Type

from paceline import _options


class Backend:
    """The hooks that Ray Train calls in its controller, with a worker group of actors. Paceline has no such group: a
    class that overrides ``on_start``, ``on_training_start`` or ``on_shutdown`` is refused. Instead
    ``BackendConfig.train_func_context`` runs on each worker, around the train loop, when the group has its ranks.
    """

    share_cuda_visible_devices: bool = False
    has_replica_groups: bool = False

    def on_start(self, worker_group: Any, backend_config: "BackendConfig") -> None:
        """Never called."""

    def on_training_start(self, worker_group: Any, backend_config: "BackendConfig") -> None:
        """Never called."""

    def on_shutdown(self, worker_group: Any, backend_config: "BackendConfig") -> None:
        """Never called."""


class BackendConfig:
    """Derive from it to wrap every worker's train loop (``DataParallelTrainer(backend_config=…)``).

    Example:
        >>> class Profiled(BackendConfig):
        ...     @property
        ...     def train_func_context(self):
        ...         return torch.profiler.profile  # entered on each worker, left when its train loop has ended
    """

    @property
    def backend_cls(self) -> Type[Backend]:
        """The class whose hooks Ray Train calls."""
        return Backend

    @property
    def train_func_context(self) -> Callable[[], ContextManager]:
        """Makes the context manager in which a worker runs its train loop."""
        return contextlib.nullcontext

    @property
    def framework(self) -> Optional[Any]:
        """No effect."""
        return None

    def to_dict(self) -> Dict[str, Any]:
        """No effect."""
        return {}


def check_backend(config: BackendConfig) -> None:
    """NotImplementedError for hooks that would have to run in the controller, a notice for what nobody asks for there."""
    backend = config.backend_cls
    _options.note("Backend", _overridden(backend, Backend))
    _options.note("BackendConfig", _overridden(type(config), BackendConfig))
    hooks = ("on_start", "on_training_start", "on_shutdown")
    overridden = [name for name in hooks if name in _overridden(backend, Backend)]
    if overridden:
        raise NotImplementedError(
            f"{backend.__name__}.{overridden[0]}() is called by Ray Train with a worker group of actors, which Paceline does "
            "not have; override train_func_context of the BackendConfig: it runs on each worker, around the train loop"
        )


def _overridden(derived: type, base: type) -> List[str]:
    return [name for name in vars(base) if getattr(derived, name, None) is not getattr(base, name)]

"""LightningEnvironment: tells Lightning a worker's place in its run."""

import importlib
from typing import Any

from paceline.train.context import get_context
from paceline.train.lightning._package import pl

_environments: Any = importlib.import_module(f"{pl.__name__}.plugins.environments")


class LightningEnvironment(_environments.LightningEnvironment):
    """Tells Lightning what get_context() knows, and that its processes exist already.

    Example:
        >>> trainer = pl.Trainer(strategy=DDPStrategy(), plugins=[LightningEnvironment()])
    """

    @property
    def creates_processes_externally(self) -> bool:
        return True

    def world_size(self) -> int:
        return get_context().get_world_size()

    def set_world_size(self, size: int) -> None:
        pass  # what Lightning works out from its own devices

    def global_rank(self) -> int:
        return get_context().get_world_rank()

    def set_global_rank(self, rank: int) -> None:
        pass

    def local_rank(self) -> int:
        return get_context().get_local_rank()

    def node_rank(self) -> int:
        return get_context().get_node_rank()

    def teardown(self) -> None:
        pass  # Lightning's own takes WORLD_SIZE out of the environment

"""TrainContext: a worker's place in its run."""

from typing import Any

from paceline._native import native
from paceline.train.storage_context import StorageContext


class TrainContext:
    """This worker's place in the run; get_context() gives it."""

    def __init__(self, values, location):
        self._values = values
        self._location = location

    def get_world_size(self) -> int:
        """Workers in the group."""
        return self._values.get_world_size()

    def get_world_rank(self) -> int:
        """Rank in the whole worker group, from 0."""
        return self._values.get_world_rank()

    def get_local_rank(self) -> int:
        """Rank among the workers of this machine, from 0."""
        return self._values.get_local_rank()

    def get_local_world_size(self) -> int:
        """Workers of this machine."""
        return self._values.get_local_world_size()

    def get_node_rank(self) -> int:
        """Rank of this machine, from 0."""
        return self._values.get_node_rank()

    def get_experiment_name(self) -> str:
        """Name of the run."""
        return self._values.get_experiment_name()

    def get_attempt(self) -> int:
        """Which attempt of the run this is, from 1."""
        return self._values.get_attempt()

    def get_storage(self) -> StorageContext:
        """Where the run is stored: the path of its folder, which knows its file system."""
        return StorageContext(self._location, self._values.get_experiment_name())

    # What concerned Ray Tune, and raises there too.
    def get_metadata(self) -> None:
        """Not supported: see train_loop_config."""
        raise DeprecationWarning("get_metadata() is not supported any more; put it into train_loop_config")

    def get_trial_name(self) -> None:
        """Not supported: see get_experiment_name()."""
        raise DeprecationWarning("get_trial_name() is not supported any more; see get_experiment_name()")

    def get_trial_id(self) -> None:
        """Not supported: see get_experiment_name()."""
        raise DeprecationWarning("get_trial_id() is not supported any more; see get_experiment_name()")

    def get_trial_resources(self) -> None:
        """Not supported: see ScalingConfig."""
        raise DeprecationWarning("get_trial_resources() is not supported any more; ScalingConfig says what there is")

    def get_trial_dir(self) -> None:
        """Not supported: see get_storage()."""
        raise DeprecationWarning("get_trial_dir() is not supported any more; see get_storage()")


def inside(function: str) -> Any:
    """What the core knows of this worker's place. RuntimeError that names `function` outside a train loop."""
    try:
        return native.get_context()
    except RuntimeError as error:
        raise type(error)(str(error).replace("get_context", function, 1)) from None


def get_context() -> TrainContext:
    """This worker's place in the run.

    Raises:
        RuntimeError: Outside a train loop.
    """
    return TrainContext(native.get_context(), native.run_location())

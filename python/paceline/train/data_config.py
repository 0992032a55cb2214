"""DataConfig: which of a trainer's datasets are split among the workers."""

from typing import Any, Dict, List, Literal, Optional, Union

from paceline.train._settings import check_options


class DataConfig:
    """Which of a trainer's datasets are split among the workers. Meant for the data engine, which does not exist yet.

    Args:
        datasets_to_split: ``"all"``, or their names; each worker gets all of the others.
        execution_options: How datasets are read: one value for all of them, or values by name.
        enable_shard_locality: Whether a worker prefers data that is on its machine.

    Raises:
        TypeError: For another datasets_to_split.
    """

    def __init__(
        self,
        datasets_to_split: Union[Literal["all"], List[str]] = "all",
        execution_options: Optional[Union[Any, Dict[str, Any]]] = None,
        enable_shard_locality: bool = True,
    ):
        if datasets_to_split != "all" and not isinstance(datasets_to_split, list):
            raise TypeError(f"DataConfig.datasets_to_split is {datasets_to_split!r}; allowed: 'all' or a list of names")
        given = {
            "datasets_to_split": datasets_to_split,
            "execution_options": execution_options,
            "enable_shard_locality": enable_shard_locality,
        }
        check_options("DataConfig", DataConfig, given)

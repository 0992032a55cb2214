"""DataConfig: which of a trainer's datasets are split among the workers, and how."""

from typing import Any, Dict, List, Literal, Optional, Union

from paceline.train._settings import check_options

Equal = Literal["drop", "pad", "repeat", "uneven"]


class DataConfig:
    """Which of a trainer's datasets are split among the workers, and how.

    Args:
        datasets_to_split: ``"all"``, or their names; each worker gets all rows of the others.
        execution_options: How datasets are read: a `paceline.data.ExecutionOptions` for all of them, or a dict of them
            by name; by default those of the driver's `DataContext`. One process of the machine reads all datasets: the
            memory of several options adds up.
        enable_shard_locality: Whether a worker prefers data that is on its machine.
        equal: What becomes of the rows at an epoch's end that the workers cannot share evenly. ``"drop"``: they get
            equally many, and fewer rows than there are workers are left out (as in Ray Train). ``"repeat"``: equally
            many, the first rows once more. ``"pad"``: the same, and the column ``is_padding`` tells these rows.
            ``"uneven"``: each row exactly once; workers may differ by a row, and so by a step. A dict has it by dataset.
        resume: Whether datasets go on after a restart where the latest checkpoint was reported, in the middle of an
            epoch and with any number of workers. Otherwise the train loop says it, with set_epoch() and
            load_state_dict().

    Raises:
        TypeError: For another datasets_to_split, and for options that are none.
        ValueError: For another equal.
    """

    def __init__(
        self,
        datasets_to_split: Union[Literal["all"], List[str]] = "all",
        execution_options: Optional[Union[Any, Dict[str, Any]]] = None,
        enable_shard_locality: bool = True,
        *,
        equal: Union[Equal, Dict[str, Equal]] = "drop",
        resume: bool = False,
    ):
        if datasets_to_split != "all" and not isinstance(datasets_to_split, list):
            raise TypeError(f"DataConfig.datasets_to_split is {datasets_to_split!r}; allowed: 'all' or a list of names")
        for one in equal.values() if isinstance(equal, dict) else [equal]:
            if one not in ("drop", "pad", "repeat", "uneven"):
                raise ValueError(f"DataConfig.equal is {one!r}; allowed: 'drop', 'pad', 'repeat', 'uneven'")
        for options in execution_options.values() if isinstance(execution_options, dict) else [execution_options]:
            if options is not None and not hasattr(options, "resource_limits"):
                raise TypeError(f"DataConfig.execution_options is {execution_options!r}; allowed: "
                                "paceline.data.ExecutionOptions, or a dict of them by the datasets' names")
        check_options("DataConfig", DataConfig, {"enable_shard_locality": enable_shard_locality})
        self._execution_options = execution_options
        self._datasets_to_split, self._equal, self._resume = datasets_to_split, equal, bool(resume)

    def _split_names(self) -> List[str]:
        return [] if self._datasets_to_split == "all" else list(self._datasets_to_split)

    def _splits(self, name: str) -> bool:
        return self._datasets_to_split == "all" or name in self._datasets_to_split

    def _execution_options_of(self, name: str) -> Any:
        options = self._execution_options
        return options.get(name) if isinstance(options, dict) else options

    def _equal_of(self, name: str) -> Equal:
        return self._equal.get(name, "drop") if isinstance(self._equal, dict) else self._equal

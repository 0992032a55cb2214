"""The configuration of a run: Ray Train's classes and names, and what Paceline adds.

Defaults, help and checks come from the C++ core; an object cannot be made with a value that is not allowed.
"""

import dataclasses
import logging
import numbers
import os
import types
from typing import Any, Dict, List, Literal, Optional, Tuple, Union

from paceline import _cluster, _driver, _environment, _options
from paceline._filesystem import Place, given
from paceline._native import native
from paceline._ray import connection
from paceline.train._settings import Settings, check_number, check_type, declared, own, plain, refusal, suggesting
from paceline.train.callback import UserCallback


@suggesting
@dataclasses.dataclass
class ScalingConfig(Settings, declared_by=native.scaling_config):
    """How many workers, and what each of them gets. A tuple ``(min, max)`` of workers asks for an elastic run.

    Example:
        >>> ScalingConfig(num_workers=2, use_gpu=False)
    """

    trainer_resources: Optional[dict] = None
    num_workers: Union[int, Tuple[int, int]] = declared()
    use_gpu: bool = declared()
    resources_per_worker: Optional[Dict[str, float]] = declared()
    placement_strategy: str = declared()
    accelerator_type: Optional[str] = declared()
    label_selector: Optional[Union[Dict[str, str], List[Dict[str, str]]]] = declared()
    use_tpu: bool = declared()
    topology: Optional[str] = declared()
    elastic_resize_monitor_interval_s: float = 60.0
    threads_per_worker: Optional[int] = declared()
    engine: str = declared(usual=_cluster.usual_engine)
    hosts: Optional[List[str]] = declared()
    agent_command: Optional[List[str]] = declared()
    nodes: Optional[int] = declared()
    listen: str = declared()
    token_file: str = declared()

    def __post_init__(self) -> None:
        if isinstance(self.num_workers, list):
            self.num_workers = tuple(self.num_workers)
        if isinstance(self.use_gpu, int) or hasattr(self.use_gpu, "dtype"):
            self.use_gpu = bool(self.use_gpu)  # NumPy's too
        self._check_resources()
        self._check_label_selector()
        check_number("ScalingConfig.elastic_resize_monitor_interval_s", self.elastic_resize_monitor_interval_s, float, 0)
        super().__post_init__()

    @property
    def elasticity_enabled(self) -> bool:
        """Whether ``num_workers`` is a range."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """The smallest number of workers that is enough."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """The largest number of workers."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def total_resources(self) -> Dict[str, float]:
        """The resources that all workers together ask for at most."""
        return {name: float(amount * self.max_workers) for name, amount in self._each().items()}

    @property
    def num_cpus_per_worker(self) -> float:
        """The CPUs of each worker."""
        return self._each().get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        """The GPUs of each worker."""
        return self._each().get("GPU", 0)

    @property
    def num_tpus_per_worker(self) -> float:
        """0: Paceline has no TPU support."""
        return 0

    @property
    def additional_resources_per_worker(self) -> Dict[str, float]:
        """Each worker's resources other than CPUs and GPUs."""
        return {name: amount for name, amount in self._each().items() if name not in ("CPU", "GPU")}

    def _each(self) -> Dict[str, float]:
        """What each worker asks for, as Ray Train counts it."""
        usual: Dict[str, float] = {"GPU": 1} if self.use_gpu else {"CPU": 1}
        asked = usual if self.resources_per_worker is None else self.resources_per_worker
        each = {name: amount for name, amount in asked.items() if amount}
        if self.use_gpu:
            each.setdefault("GPU", 1)
        if self.accelerator_type:
            each.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return each

    def _check_resources(self) -> None:
        """Has C++ refuse what cannot be meant, before types are looked at."""
        resources = self.resources_per_worker
        items = resources.items() if isinstance(resources, dict) else ()
        if isinstance(resources, dict) and resources.get("TPU"):
            raise refusal("ScalingConfig.resources_per_worker", resources, "no \"TPU\", for which Paceline has no support")
        are_fine = all(isinstance(name, str) and _is_amount(amount) for name, amount in items)
        if not isinstance(resources, (dict, type(None))) or not are_fine:
            native.scaling_config.check({"resources_per_worker": resources})

    def _check_label_selector(self) -> None:
        labels = self.label_selector
        each = labels if isinstance(labels, list) else [] if labels is None else [labels]
        texts = [text for one in each if isinstance(one, dict) for pair in one.items() for text in pair]
        are_labels = all(isinstance(one, dict) for one in each) and all(isinstance(text, str) for text in texts)
        if not are_labels or isinstance(labels, list) and len(labels) != self.max_workers:
            allowed = "labels by name. If `label_selector` is a list, it must be the same length as there are workers, "
            raise refusal("ScalingConfig.label_selector", labels, f"{allowed}{self.max_workers}")
        if self.engine != "ray" and any(one != each[0] for one in each):
            raise refusal("ScalingConfig.label_selector", labels, "labels that are the same for each worker")

    def _to_settings(self) -> Dict[str, Any]:
        labels = self.label_selector
        return {
            **super()._to_settings(),
            "resources_per_worker": {name: amount for name, amount in (self.resources_per_worker or {}).items() if amount},
            "label_selector": (labels[0] if isinstance(labels, list) else labels) or {},
            "hosts": plain(self.hosts or []),
            "agent_command": plain(self.agent_command or []),
            "ship": False,
        }


@suggesting
@dataclasses.dataclass
class FailureConfig(Settings, declared_by=native.failure_config):
    """How often a run restarts after failures, and how a dead worker is recognised."""

    max_failures: int = declared()
    fail_fast: Union[bool, str, None] = None
    controller_failure_limit: int = declared()
    max_preemption_failures: int = declared()
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0
    start_timeout_s: float = declared(environment="WORKER_GROUP_START_TIMEOUT_S")
    heartbeat_timeout_s: float = declared(environment="WORKER_HEALTH_CHECK_TIMEOUT_S")
    node_timeout_s: float = declared()
    stop_grace_s: float = declared()

    def __post_init__(self) -> None:
        check_type("FailureConfig.relax_collectives_on_preemption", self.relax_collectives_on_preemption, bool)
        check_number("FailureConfig.preemption_grace_s", self.preemption_grace_s, float, 0)
        super().__post_init__()


@suggesting
@dataclasses.dataclass
class CheckpointConfig(Settings, declared_by=native.checkpoint_config):
    """Which checkpoints of a run are kept."""

    num_to_keep: Optional[int] = declared()
    checkpoint_score_attribute: Optional[str] = declared()
    checkpoint_score_order: Literal["max", "min"] = declared()
    checkpoint_frequency: Optional[int] = None
    checkpoint_at_end: Optional[bool] = None


@suggesting
@dataclasses.dataclass
class DebugConfig(Settings, declared_by=native.debug_config):
    """What is watched while a run trains: hangs, slow ranks, losses that are not finite. See docs/diagnosis.md."""

    hang_action: Literal["auto", "observe", "fail", "off"] = declared()
    hang_floor_s: float = declared()
    hang_factor: float = declared()
    hang_start_s: float = declared()
    straggler_factor: float = declared()
    debug_rank: Optional[int] = declared()
    nan_watch: Literal["off", "report", "stop"] = declared()
    check_collectives: bool = declared()
    check_ranks_every: int = declared()
    heap_profile: bool = declared()


@suggesting
@dataclasses.dataclass
class TrackerConfig(Settings, declared_by=native.tracker_config):
    """A place to which a run's metrics go in addition to the run folder. See docs/tracking.md."""

    kind: Literal["tensorboard", "csv", "json_lines", "mlflow", "wandb"]
    path: str = declared()
    uri: str = declared()
    project: str = declared()
    entity: str = declared()
    tags: Dict[str, str] = declared()
    step_metric: str = declared()


@suggesting
@dataclasses.dataclass
class LoggingConfig(Settings, declared_by=native.run_config):
    """What the driver prints of the controller's log. In C++ it is a field of RunConfig.

    The names are those of Python's ``logging``, in any case. ``NOTSET`` is ``DEBUG`` here, ``WARN`` is ``WARNING``, and
    ``CRITICAL`` and ``FATAL`` are ``ERROR``: errors are always shown.
    """

    log_level: str = declared()

    def __post_init__(self) -> None:
        levels = logging.getLevelNamesMapping()
        if not isinstance(self.log_level, str) or self.log_level.upper() not in levels:
            allowed = ", ".join(f'"{name}"' for name in sorted(levels))
            raise refusal("LoggingConfig.log_level", self.log_level, f"one of {allowed}")
        self.log_level = self.log_level.upper()
        super().__post_init__()

    def _to_settings(self) -> Dict[str, Any]:
        number = logging.getLevelNamesMapping()[self.log_level]
        printed = next((name for name in ("DEBUG", "INFO", "WARNING") if number <= getattr(logging, name)), "ERROR")
        return {"log_level": printed}


@suggesting
@dataclasses.dataclass
class RunConfig(Settings, declared_by=native.run_config):
    """What a run is called, where it is stored, how it fails, what it keeps.

    The same ``name`` and ``storage_path`` continue a run. An object that is given no name makes one for itself, so
    trainers that share the object, and each further ``fit()``, continue the same run.
    """

    name: Optional[str] = declared()
    storage_path: Optional[str] = declared()
    storage_filesystem: Optional[Any] = own(
        None, "The file system of storage_path, which is a path in it: one of pyarrow's or fsspec's"
    )
    failure_config: Optional[FailureConfig] = declared()
    checkpoint_config: Optional[CheckpointConfig] = declared()
    callbacks: Optional[List[Any]] = declared()
    worker_runtime_env: Optional[dict] = own(
        None,
        "{'env_vars': {…}}: environment variables of the workers, added to the driver's; 'working_dir': folder that they work "
        "in; 'py_modules': folders, files and modules that they can import; 'excludes': patterns of what of these does not "
        "travel to other machines. Other entries are Ray's, and refused without a Ray cluster",
    )
    logging_config: Optional[LoggingConfig] = own(None, "What the driver prints of the controller's log: a LoggingConfig")
    sync_config: Any = None
    verbose: Any = None
    stop: Any = None
    progress_reporter: Any = None
    log_to_file: Any = None
    debug_config: Optional[DebugConfig] = declared()
    trackers: List[TrackerConfig] = declared()
    max_time: Optional[float] = declared()
    dashboard: bool = declared()
    log_quota_mb: float = declared()
    log_file_mb: float = declared()
    quiet: bool = declared()

    def __post_init__(self) -> None:
        if self.name is None:
            self.name = native.new_run_name(_driver.program_name())
        usual = str(RunConfig.storage_path)
        check_type("RunConfig.storage_path", self.storage_path, str, os.PathLike)
        self.storage_path = usual if self.storage_path is None else os.fspath(self.storage_path)
        if self.storage_path == usual and self.storage_filesystem is None:  # else it is the file system's root
            self.storage_path = os.path.expanduser(usual)
        _check_runtime_env(self.worker_runtime_env)
        self.worker_runtime_env = self.worker_runtime_env or {}
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.debug_config = self.debug_config or DebugConfig()
        self.logging_config = self.logging_config or LoggingConfig()
        check_type("RunConfig.callbacks", self.callbacks, list, tuple)
        self.callbacks = [*(self.callbacks or []), *_environment.callbacks()]
        for index, callback in enumerate(self.callbacks):
            if not isinstance(callback, UserCallback):
                allowed = "objects of classes that derive from paceline.train.UserCallback"
                raise refusal(f"RunConfig.callbacks[{index}]", callback, allowed)
        super().__post_init__()

    def _place(self) -> Optional[Place]:
        """The storage path, if the core does not open it by itself."""
        usual = self.storage_filesystem is not None and self.storage_path == str(RunConfig.storage_path)
        return given("" if usual else str(self.storage_path), self.storage_filesystem)

    def _to_settings(self) -> Dict[str, Any]:
        place = self._place()
        variables = (self.worker_runtime_env or {}).get("env_vars") or {}
        return {
            **super()._to_settings(),
            **({"storage_path": place.location} if place else {}),
            "callbacks": None,  # the trainer hands them over as objects
            **code_of(None),  # the trainer says what of worker_runtime_env travels
            "worker_environment": {name: str(value) for name, value in variables.items()},
            **plain(self.logging_config or LoggingConfig()),
        }

    def __repr__(self) -> str:
        shown = {field.name: repr(getattr(self, field.name)) for field in dataclasses.fields(self)}
        shown["storage_path"] = repr(native.without_credentials(str(self.storage_path)))
        if self.storage_filesystem is not None:
            shown["storage_filesystem"] = f"<{type(self.storage_filesystem).__name__}>"  # its own text may have keys
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"


def _is_amount(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and value >= 0


def _check_runtime_env(runtime_env):
    check_type("RunConfig.worker_runtime_env", runtime_env, dict)
    check_type("RunConfig.worker_runtime_env['env_vars']", (runtime_env or {}).get("env_vars"), dict)
    for name, value in ((runtime_env or {}).get("env_vars") or {}).items():
        if not isinstance(name, str) or isinstance(value, (dict, list, tuple, type(None))):
            raise refusal(f"RunConfig.worker_runtime_env['env_vars'][{name!r}]", value, "a string")
    if not connection.is_connected():
        code_of(runtime_env)


def code_of(runtime_env: Optional[dict]) -> Dict[str, Any]:
    """What of the driver's code travels to workers without Ray: the core's settings. ValueError for what only Ray can give
    workers: an environment that is not the driver's, and code that is not on its disk."""
    runtime_env = runtime_env or {}
    allowed = ("env_vars", "working_dir", "py_modules", "excludes")
    others = [name for name, value in runtime_env.items() if name not in allowed and value]
    if others:
        raise ValueError(
            f"RunConfig.worker_runtime_env has {', '.join(map(repr, others))}; allowed: {', '.join(map(repr, allowed))}. "
            "Workers run in the environment that their machine has: install packages there before. On a Ray cluster "
            "(paceline.init(address=…)) all entries are Ray's"
        )
    return {
        "working_dir": _path_of(runtime_env.get("working_dir"), "['working_dir']"),
        "py_modules": [
            _path_of(module, f"['py_modules'][{index}]") for index, module in enumerate(runtime_env.get("py_modules") or ())
        ],
        "excludes": [str(pattern) for pattern in runtime_env.get("excludes") or ()],
    }


def _path_of(code, name):
    """Of a folder, a file, or an imported module."""
    if code is None:
        return ""
    setting = f"RunConfig.worker_runtime_env{name}"
    if isinstance(code, types.ModuleType):
        file = getattr(code, "__file__", None)
        if not file:
            raise refusal(setting, code, "a module with a file")
        code = os.path.dirname(file) if os.path.basename(file).startswith("__init__.") else file
    check_type(setting, code, str, os.PathLike)
    path = os.path.expanduser(os.fspath(code))
    if "://" in path or path.endswith((".whl", ".zip")) or not os.path.exists(path):
        raise refusal(setting, str(code), "an existing folder or file of this machine that is no archive; install wheels before")
    return os.path.abspath(path)

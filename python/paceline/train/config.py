"""What a run is configured with. Ray Train's classes, names and defaults, and what Paceline adds.

A value that is not allowed is a ValueError when the object is made; what the C++ core declares (core/config/) is checked
there, so that both languages refuse the same with the same words.
"""

import dataclasses
import os
from typing import Any, Dict, List, Literal, Optional, Tuple, Union

from paceline import _environment
from paceline._native import native
from paceline.train._filesystem import located
from paceline.train._settings import plain, refuse


@dataclasses.dataclass
class ScalingConfig:
    """How many workers, and what each of them gets.

    Args:
        num_workers: Worker processes. 0 runs the train loop in the calling process; ``(min, max)`` is an elastic run
            (today it runs at its maximum).
        use_gpu: One GPU for each worker, collectives over NCCL.
        resources_per_worker: ``{"CPU": 4, "GPU": 2}``; more of ``"GPU"`` needs ``use_gpu``. Other names are kept for
            engines that place workers on many machines.
        placement_strategy: How workers are spread over machines: ``"PACK"``, ``"SPREAD"``, ``"STRICT_PACK"`` or
            ``"STRICT_SPREAD"``. On one machine all are the same.
        accelerator_type: Kind of GPU, such as ``"A100"``; for engines that have several.
        label_selector: Labels of the machines wanted; likewise.
        use_tpu, topology: Accepted by name; Paceline has no TPU support and refuses them.
        elastic_resize_monitor_interval_s: Seconds between two looks at whether an elastic run could grow.
        threads_per_worker: Threads that torch uses in each worker; by default cores / workers, at least 1.

    Raises:
        ValueError: For a value that is not allowed.

    Example:
        >>> ScalingConfig(num_workers=2, use_gpu=False)
    """

    trainer_resources: Optional[dict] = None
    num_workers: Union[int, Tuple[int, int]] = 1
    use_gpu: bool = False
    resources_per_worker: Optional[Dict[str, float]] = None
    placement_strategy: str = "PACK"
    accelerator_type: Optional[str] = None
    label_selector: Optional[Union[Dict[str, str], List[Dict[str, str]]]] = None
    use_tpu: bool = False
    topology: Optional[str] = None
    elastic_resize_monitor_interval_s: float = 60.0
    threads_per_worker: Optional[int] = None

    def __post_init__(self):
        refuse("ScalingConfig", trainer_resources=(self.trainer_resources, None, "the controller needs no resources"))
        self._check_num_workers()
        if self.placement_strategy not in ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"):
            raise ValueError(
                f"ScalingConfig.placement_strategy is {self.placement_strategy!r}; allowed: "
                "'PACK', 'SPREAD', 'STRICT_PACK' or 'STRICT_SPREAD'"
            )
        if self.elastic_resize_monitor_interval_s < 0:
            raise ValueError(
                f"ScalingConfig.elastic_resize_monitor_interval_s is {self.elastic_resize_monitor_interval_s}; "
                "allowed: at least 0"
            )
        if self.resources_per_worker:
            self.resources_per_worker = {name: amount for name, amount in self.resources_per_worker.items() if amount}
        gpus = (self.resources_per_worker or {}).get("GPU")
        if gpus and not self.use_gpu:
            raise ValueError(
                f"ScalingConfig.use_gpu is False, but resources_per_worker asks for {gpus} GPUs; set use_gpu=True"
            )
        native.scaling_config.check(self._to_settings())

    def _check_num_workers(self):
        wanted = self.num_workers
        if isinstance(wanted, list):
            self.num_workers = wanted = tuple(wanted)
        numbers = wanted if isinstance(wanted, tuple) else (wanted,)
        if len(numbers) > 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers) or not numbers:
            raise ValueError(
                f"ScalingConfig.num_workers is {wanted!r}; allowed: a number of workers, or (min, max) for an elastic run"
            )
        if any(n < 0 for n in numbers) or list(numbers) != sorted(numbers) or len(numbers) == 1 and numbers is wanted:
            raise ValueError(f"ScalingConfig.num_workers is {wanted!r}; allowed: 0 or more, or (min, max) with min <= max")

    @property
    def elasticity_enabled(self) -> bool:
        """Whether ``num_workers`` is a range."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """As few as this are enough."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """Never more than this."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def total_resources(self) -> Dict[str, float]:
        """What all workers ask for together, at most."""
        each = self.resources_per_worker or ({"GPU": 1} if self.use_gpu else {"CPU": 1})
        return {name: amount * self.max_workers for name, amount in each.items()}

    def _to_settings(self) -> dict:
        known = {name: amount for name, amount in (self.resources_per_worker or {}).items() if name in ("CPU", "GPU")}
        return {
            "num_workers": list(self.num_workers) if isinstance(self.num_workers, tuple) else self.num_workers,
            "use_gpu": bool(self.use_gpu),
            "resources_per_worker": known,
            "threads_per_worker": self.threads_per_worker,
            "use_tpu": self.use_tpu,
            "topology": self.topology,
        }


@dataclasses.dataclass
class FailureConfig:
    """How often a run is tried again, and how a dead worker is recognised.

    Args:
        max_failures: Restarts after a worker has failed, exceptions of the train loop included; -1 is without limit.
        controller_failure_limit: Restarts after a worker group could not be started; -1 is without limit.
        max_preemption_failures: Restarts after a machine was taken away; -1 is without limit.
        relax_collectives_on_preemption, preemption_grace_s: For engines that announce preemptions.
        start_timeout_s: Seconds within which every worker of a group must have joined.
        heartbeat_timeout_s: Seconds without a sign of life after which a worker counts as dead.
        stop_grace_s: Seconds that workers have to end by themselves when a run is stopped.

    Raises:
        ValueError: For a value that is not allowed.
    """

    max_failures: int = 0
    fail_fast: Union[bool, str, None] = None
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0
    start_timeout_s: float = dataclasses.field(
        default_factory=lambda: _environment.number("WORKER_GROUP_START_TIMEOUT_S", 60.0)
    )
    heartbeat_timeout_s: float = dataclasses.field(
        default_factory=lambda: _environment.number("WORKER_HEALTH_CHECK_TIMEOUT_S", 30.0)
    )
    stop_grace_s: float = 5.0

    def __post_init__(self):
        refuse("FailureConfig", fail_fast=(self.fail_fast, None, "set max_failures=0"))
        native.failure_config.check(self._to_settings())

    def _to_settings(self) -> dict:
        names = ("max_failures", "controller_failure_limit", "start_timeout_s", "heartbeat_timeout_s", "stop_grace_s")
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass
class CheckpointConfig:
    """Which checkpoints of a run stay.

    Args:
        num_to_keep: Checkpoints that stay; the latest always stays beside the best. None keeps all.
        checkpoint_score_attribute: Metric that orders checkpoints, nested names separated by ``/``; None: the newest
            are best.
        checkpoint_score_order: ``"max"`` or ``"min"``: whether a high or a low score is better.

    Raises:
        ValueError: For a value that is not allowed.
    """

    num_to_keep: Optional[int] = None
    checkpoint_score_attribute: Optional[str] = None
    checkpoint_score_order: Literal["max", "min"] = "max"
    checkpoint_frequency: Optional[int] = None
    checkpoint_at_end: Optional[bool] = None

    def __post_init__(self):
        instead = "the train loop decides when it calls report(checkpoint=…)"
        refuse(
            "CheckpointConfig",
            checkpoint_frequency=(self.checkpoint_frequency, None, instead),
            checkpoint_at_end=(self.checkpoint_at_end, None, instead),
        )
        native.checkpoint_config.check(self._to_settings())

    def _to_settings(self) -> dict:
        return {
            "num_to_keep": self.num_to_keep,
            "checkpoint_score_attribute": self.checkpoint_score_attribute,
            "checkpoint_score_order": self.checkpoint_score_order,
        }


@dataclasses.dataclass
class DebugConfig:
    """What is watched while a run trains: hangs, slow ranks, losses that are not finite. See docs/diagnosis.md.

    Args:
        hang_action: What follows a hang's report: ``"observe"``, ``"fail"`` (a restart), ``"off"``; ``"auto"`` observes
            on a terminal and fails elsewhere.
        hang_floor_s: Seconds without progress before which nothing counts as a hang.
        hang_factor: A hang takes this many times as long as the longest pause so far.
        hang_start_s: Seconds without progress that count as a hang before the third step.
        straggler_factor: A rank whose steps take this many times the others' median is named.
        debug_rank: Rank that runs under a debugger with the driver's terminal.
        nan_watch: ``"report"`` names the first loss that is not finite, ``"stop"`` fails the run.
    """

    hang_action: str = "auto"
    hang_floor_s: float = 30.0
    hang_factor: float = 3.0
    hang_start_s: float = 600.0
    straggler_factor: float = 1.5
    debug_rank: Optional[int] = None
    nan_watch: str = "off"

    def __post_init__(self):
        native.debug_config.check(self._to_settings())

    def _to_settings(self) -> dict:
        return dataclasses.asdict(self)


@dataclasses.dataclass
class TrackerConfig:
    """One place beside the run folder to which a run's metrics go. See docs/tracking.md.

    Args:
        kind: ``"tensorboard"``, ``"csv"``, ``"json_lines"``, ``"mlflow"`` or ``"wandb"``.
        path: Folder for its files; empty: in the run's folder.
        uri: mlflow: address of the server; empty: ``MLFLOW_TRACKING_URI``.
        project: wandb: project; mlflow: experiment.
        entity: wandb: user or team.
        tags: mlflow, wandb: tags of the run.
        step_metric: Metric that is the x-axis; empty: the report's number.
    """

    kind: str
    path: str = ""
    uri: str = ""
    project: str = ""
    entity: str = ""
    tags: Dict[str, str] = dataclasses.field(default_factory=dict)
    step_metric: str = ""

    def __post_init__(self):
        native.tracker_config.check(self._to_settings())

    def _to_settings(self) -> dict:
        return plain(dataclasses.asdict(self))


@dataclasses.dataclass
class LoggingConfig:
    """What the driver prints of the controller's log; the file has everything.

    Args:
        log_level: ``"DEBUG"``, ``"INFO"``, ``"WARNING"`` or ``"ERROR"``.
    """

    log_level: str = "INFO"

    def __post_init__(self):
        self.log_level = str(self.log_level).upper()
        native.run_config.check({"log_level": self.log_level})


@dataclasses.dataclass
class RunConfig:
    """What a run is called, where it is stored, how it fails, what it keeps.

    Args:
        name: Name of the run and of its folder; by default the time and a unique ending. The same name and
            ``storage_path`` continue a run.
        storage_path: Folder that holds run folders: a path or ``s3://…``, ``gs://…``, ``abfs://…``.
        storage_filesystem: A pyarrow filesystem that ``storage_path`` lies in; becomes part of ``storage_path``. What a URI
            cannot say (a filesystem of one's own) is refused.
        failure_config, checkpoint_config, debug_config: As their classes say.
        callbacks: :class:`UserCallback` objects, called in the driver.
        worker_runtime_env: ``{"env_vars": {…}}``: environment variables of the workers, over the driver's. Workers have the
            driver's packages and directory: other entries are refused.
        logging_config: What the driver prints of the controller's log.
        trackers: Places beside the run folder to which the metrics go.
        max_time: Seconds after which the run ends as finished, over all attempts.
        log_quota_mb, log_file_mb: MB that a worker's log may take, and after which a new file begins.
        quiet: The driver prints what workers write, warnings and errors alone.

    Raises:
        ValueError: For a value that is not allowed.
    """

    name: Optional[str] = None
    storage_path: Optional[str] = None
    storage_filesystem: Optional[Any] = None
    failure_config: Optional[FailureConfig] = None
    checkpoint_config: Optional[CheckpointConfig] = None
    callbacks: Optional[List[Any]] = None
    worker_runtime_env: Optional[dict] = None
    logging_config: Optional[LoggingConfig] = None
    sync_config: Any = None
    verbose: Any = None
    stop: Any = None
    progress_reporter: Any = None
    log_to_file: Any = None
    debug_config: Optional[DebugConfig] = None
    trackers: List[TrackerConfig] = dataclasses.field(default_factory=list)
    max_time: Optional[float] = None
    log_quota_mb: float = 1024.0
    log_file_mb: float = 64.0
    quiet: bool = False

    def __post_init__(self):
        refuse(
            "RunConfig",
            sync_config=(self.sync_config, None, "files are brought to storage_path by report()"),
            verbose=(self.verbose, None, "see quiet and logging_config"),
            stop=(self.stop, None, "return from the train loop, or let a callback call run_context.stop()"),
            progress_reporter=(self.progress_reporter, None, "see quiet"),
            log_to_file=(self.log_to_file, None, "the run folder's logs/ has every worker's output"),
        )
        if self.storage_path is not None:
            self.storage_path = os.fspath(self.storage_path)
        if self.storage_filesystem is not None:
            self.storage_path = located(self.storage_path or "", self.storage_filesystem)
        _check_runtime_env(self.worker_runtime_env)
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.debug_config = self.debug_config or DebugConfig()
        self.logging_config = self.logging_config or LoggingConfig()
        self.callbacks = [*(self.callbacks or []), *_environment.callbacks()]
        from paceline.train.callback import UserCallback

        for callback in self.callbacks:
            if not isinstance(callback, UserCallback):
                raise ValueError(
                    f"RunConfig.callbacks has a {type(callback).__name__}; allowed: objects of classes that derive from "
                    "paceline.train.UserCallback"
                )
        native.run_config.check(self._to_settings())

    def _to_settings(self) -> dict:
        settings = {
            "name": self.name,
            "failure_config": plain(self.failure_config),
            "debug_config": plain(self.debug_config),
            "checkpoint_config": plain(self.checkpoint_config),
            "worker_environment": {name: str(value) for name, value in self._env_vars().items()},
            "max_time": self.max_time,
            "trackers": [tracker._to_settings() for tracker in self.trackers],
            "log_quota_mb": self.log_quota_mb,
            "log_file_mb": self.log_file_mb,
            "quiet": self.quiet,
            "log_level": (self.logging_config or LoggingConfig()).log_level,
        }
        if self.storage_path is not None:
            settings["storage_path"] = self.storage_path
        return settings

    def _env_vars(self) -> Dict[str, Any]:
        return (self.worker_runtime_env or {}).get("env_vars") or {}


def _check_runtime_env(runtime_env):
    others = [name for name, value in (runtime_env or {}).items() if name != "env_vars" and value]
    if others:
        raise ValueError(
            f"RunConfig.worker_runtime_env has {', '.join(map(repr, others))}; allowed: 'env_vars'. Workers run in the driver's "
            "environment and directory: install packages there before, and start the driver where its files are"
        )

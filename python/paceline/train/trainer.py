"""DataParallelTrainer: runs a train loop on a group of worker processes."""

import contextlib
import functools
import inspect
import os
import sys
import traceback
import uuid
from typing import Any, Callable, ContextManager, Dict, Optional, Union

from paceline import _absent, _driver
from paceline._filesystem import Stores, of_run
from paceline._native import native
from paceline._travel import Cargo, pack
from paceline.train import _values
from paceline.train._exceptions import WorkerExceptions
from paceline.train._metrics import encoded, is_json_integer
from paceline.train._settings import Settings, check_options, check_type, plain, suggesting
from paceline.train.backend import BackendConfig, check_backend
from paceline.train.callback import Adapter, RunContext
from paceline.train.checkpoint import Checkpoint
from paceline.train.config import RunConfig, ScalingConfig, code_of
from paceline.train.data_config import DataConfig
from paceline.train.errors import ControllerError, HangError, NCCLHangError, TrainingFailedError, WorkerGroupError
from paceline.train.result import FailureKind, Result, StopCause
from paceline.train.validation_config import ValidationConfig


@suggesting
class DataParallelTrainer:
    """Runs ``train_loop_per_worker`` on every worker of a group, and restarts the group when workers fail.

    Args:
        train_loop_per_worker: A function without an argument, or with one, which is ``train_loop_config``.
            ``Result.return_value`` has what rank 0's call returns.
        train_loop_config: Passed to the train loop; anything that can be pickled.
        backend_config: Code that each worker runs around the train loop.
        scaling_config: How many workers, and what each of them gets.
        run_config: Name, storage path, failures, which checkpoints are kept.
        datasets: Datasets by name, or functions without arguments that make them; ``get_dataset_shard(name)`` returns
            each worker's share.
        dataset_config: Which of them are split among the workers, and how.
        validation_config: How reported checkpoints are validated in the background.
        resume_from_checkpoint: A new run starts from this checkpoint: get_checkpoint() returns it until the run has one
            of its own.

    Raises:
        ValueError: For a train loop with more than one required argument, or a setting that is not allowed.
        NotImplementedError: For a backend with hooks that Ray Train calls in its controller.
    """

    def __init__(
        self,
        train_loop_per_worker: Union[Callable[[], Any], Callable[[Dict], Any]],
        *,
        train_loop_config: Optional[Dict] = None,
        backend_config: Optional[BackendConfig] = None,
        scaling_config: Optional[ScalingConfig] = None,
        run_config: Optional[RunConfig] = None,
        datasets: Optional[Dict[str, Any]] = None,
        dataset_config: Optional[Any] = None,
        validation_config: Optional[ValidationConfig] = None,
        metadata: Optional[Dict[str, Any]] = None,
        resume_from_checkpoint: Optional[Checkpoint] = None,
    ):
        options = {"metadata": metadata}
        check_options("DataParallelTrainer", DataParallelTrainer, options)
        check_type("backend_config", backend_config, BackendConfig)
        check_type("scaling_config", scaling_config, ScalingConfig)
        check_type("run_config", run_config, RunConfig)
        check_type("validation_config", validation_config, ValidationConfig)
        check_type("dataset_config", dataset_config, DataConfig)
        check_type("resume_from_checkpoint", resume_from_checkpoint, Checkpoint)
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = train_loop_config
        self.backend_config = backend_config or BackendConfig()
        self.scaling_config = scaling_config or ScalingConfig()
        self.run_config = run_config or RunConfig()
        self.datasets = _checked(datasets or {})
        self.dataset_config = dataset_config
        self.validation_config = validation_config
        self.resume_from_checkpoint = resume_from_checkpoint
        check_backend(self.backend_config)
        loop = _bound(train_loop_per_worker, train_loop_config)
        self._named_datasets = None
        if self.datasets:
            from paceline.data._datasets import Datasets, WithDatasets  # which imports this package

            self._named_datasets = Datasets(self.datasets, self.data_config)
            loop = WithDatasets(loop, self._named_datasets)
        self._train_loop = _ending(_within(self.backend_config, loop))

    @property
    def data_config(self) -> Any:
        """What was given as ``dataset_config``."""
        return self.dataset_config or DataConfig()

    @property
    def running_in_local_mode(self) -> bool:
        """Whether the train loop runs in this process: with ``num_workers=0``."""
        return self.scaling_config.max_workers == 0

    def fit(self) -> Result:
        """Runs to the end. With the same name and storage path it continues an unfinished run.

        Raises:
            WorkerGroupError: If workers have failed more often than ``FailureConfig.max_failures`` allows.
            ControllerError: If the run has failed outside the workers.
            KeyboardInterrupt: After Ctrl-C, when the run has been stopped cleanly; a run with the same name continues
                it. After SIGTERM fit() returns a Result instead, with ``StopCause.TERMINATED``.
        """
        in_process = self.running_in_local_mode
        if self.run_config.dashboard or not in_process:
            _driver.ensure()
        if not in_process:
            with contextlib.suppress(Exception):  # it may be closed, or know only write()
                sys.stdout.flush()  # what workers write to standard output comes after what was printed before
        place, exceptions = self.run_config._place(), WorkerExceptions()
        with (of_run.at(place) if in_process else contextlib.nullcontext()), self._machines(in_process) as machines:
            outcome, failed, backend = native.fit(self._request(in_process, exceptions, machines))
        result = Result._of(outcome, trusted=True, place=place)
        if failed:
            result.error = _failure(outcome, result, exceptions, backend)
            raise result.error
        if outcome.final_state == native.FinalState.ABORTED and result.stop_cause == StopCause.INTERRUPT:
            raise KeyboardInterrupt(f"the run was stopped; fit() with the same name continues it: {result.uri}")
        return result

    @classmethod
    def restore(cls, *args, **kwargs):
        """Not supported: a trainer with the same name and storage path continues a run."""
        raise DeprecationWarning("restore() is not supported any more; fit() with the same RunConfig continues a run")

    @classmethod
    def can_restore(cls, *args, **kwargs):
        """Not supported, as restore()."""
        raise DeprecationWarning("can_restore() is not supported any more; fit() with the same RunConfig continues a run")

    def _machines(self, in_process: bool) -> ContextManager[Dict[str, Any]]:
        """Of the engine, where Python has a part in it: what it sets of the ScalingConfig, and what it keeps for the run."""
        if in_process or self.scaling_config.engine != "ray":
            return contextlib.nullcontext({})
        from paceline._ray.engine import Engine  # needs Ray

        return Engine(self.scaling_config, self.run_config.failure_config, self.run_config.worker_runtime_env)

    def _request(self, in_process: bool, exceptions: WorkerExceptions, machines: Dict[str, Any]) -> Dict[str, Any]:
        validation = self.validation_config
        validate = _Validation(validation.fn) if validation else None
        if self._named_datasets:
            self._named_datasets.make()
        cargo = Cargo(self._train_loop, validate, self._joins_group, self._named_datasets)
        resumed = self.resume_from_checkpoint and self.resume_from_checkpoint._native
        by_ray = not in_process and self.scaling_config.engine == "ray"  # which sends code itself
        code = {} if by_ray else code_of(self.run_config.worker_runtime_env)
        has_code = bool(code.get("working_dir") or code.get("py_modules"))
        settings = {**self.run_config._to_settings(), **code}
        scaling = self.scaling_config._to_settings()
        scaling["agent_command"] = scaling["agent_command"] or [sys.executable, "-m", "paceline"]
        opened = [settings["storage_path"] or "", *([resumed.path_with_credentials] if resumed else [])]
        from paceline import _worker  # which imports this package

        return {
            "loop_name": getattr(self.train_loop_per_worker, "__qualname__", repr(self.train_loop_per_worker)),
            "loop": lambda: _values.encoded(exceptions.watch(self._run_in_process)),
            "take_exception": exceptions.take,
            "program": _worker.Program(),
            "program_name": _driver.program_name(),
            "attachment": b"" if in_process else pack(cargo, Stores.of(self.run_config._place(), opened), has_code),
            "has_datasets": bool(self.datasets) and not in_process,
            "train_loop_config": _shown(self.train_loop_config or {}),
            "scaling_config": {**scaling, **{name: value for name, value in machines.items() if name in scaling}},
            "run_config": settings,
            "torch_config": self._torch_settings(),
            "callbacks": [Adapter(callback, self._run_context, exceptions) for callback in self.run_config.callbacks or ()],
            "validation": validate,
            "validation_name": getattr(validation and validation.fn, "__qualname__", "validation"),
            "validation_task": plain(validation.task_config) if validation else {},
            "max_validations": validation.max_in_flight if validation else 1,
            **_driver.replaced_streams(),
            "show_page": _driver.page_link(),
            "resume_from_checkpoint": resumed,
        }

    @functools.cached_property
    def _run_context(self) -> Callable[[Any], RunContext]:
        """What callbacks are told of this run, of what the core says."""
        return functools.partial(
            RunContext,
            run_id=uuid.uuid4().hex,
            run_config=self.run_config,
            train_loop_config=self.train_loop_config,
            scaling_config=self.scaling_config,
            backend_config=self.backend_config,
            datasets=self.datasets,
            dataset_config=self.data_config,
            _place=self.run_config._place(),
        )

    def _run_in_process(self) -> Any:
        with _environment_with(self.run_config._to_settings()["worker_environment"]):
            if not self._joins_group:
                return self._train_loop()
            from paceline.train.torch import _group, amp, reproducibility

            with _group.joined(self._torch_settings()), amp.own_state(), reproducibility.own_state():
                return self._train_loop()

    def _torch_settings(self) -> Dict[str, Any]:
        return self.backend_config._to_settings() if isinstance(self.backend_config, Settings) else {}

    @property
    def _joins_group(self) -> bool:
        """Whether the workers have torch.distributed's group: with a TorchConfig, the only backend that has settings."""
        return isinstance(self.backend_config, Settings)


@contextlib.contextmanager
def _environment_with(variables):
    """The variables in os.environ: it is a copy of the process's environment, which has them already."""
    former = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Validation:
    """A validation function as processes call it: with keyword arguments."""

    def __init__(self, function):
        self._function = function

    def __call__(self, checkpoint, config):
        metrics = self._function(Checkpoint._from_native(checkpoint), **config)
        if not isinstance(metrics, dict):
            raise ValueError(f"the validation function has returned a value of type {type(metrics).__name__}; wanted: a dict of metrics")
        return encoded(metrics, "the validation's metrics")


def _checked(datasets):
    """TypeError for what is no dataset."""
    if not isinstance(datasets, dict):
        raise TypeError(f"datasets is of type {type(datasets).__name__}; wanted: a dict of datasets by name")
    for name, dataset in datasets.items():
        if not callable(dataset) and not hasattr(dataset, "streaming_split"):
            raise TypeError(
                f"datasets[{name!r}] is of type {type(dataset).__name__}; wanted: a dataset (paceline.data.read_parquet), "
                "or a function without arguments that makes one"
            )
    return datasets


def _bound(train_loop, config):
    """The train loop as a function of no argument."""
    if not callable(train_loop):
        raise ValueError(f"train_loop_per_worker is of type {type(train_loop).__name__}; wanted: a function")
    parameters = inspect.signature(train_loop).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]
    if len(required) > 1:
        raise ValueError(
            f"train_loop_per_worker takes {len(required)} arguments ({', '.join(one.name for one in required)}); allowed: "
            "none, or one, which gets train_loop_config"
        )
    return functools.partial(train_loop, config or {}) if required else train_loop


def _within(backend_config, train_loop):
    """The train loop in the context that the backend gives each worker."""
    make_context = backend_config.train_func_context
    return train_loop if make_context is contextlib.nullcontext else functools.partial(_call_within, make_context, train_loop)


def _ending(train_loop):
    """The train loop, of which sys.exit() makes an end as of a program: with 0 it has finished. A child that it has forked
    ends where the loop does, instead of being the worker a second time.
    """
    return functools.partial(_call_until_exit, train_loop)


def _call_until_exit(train_loop):
    process = os.getpid()
    try:
        value = train_loop()
    except BaseException as error:
        if os.getpid() != process:
            _end_child(error)
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return None
        raise
    if os.getpid() != process:
        _end_child(None)
    return value


def _end_child(error):
    """As the interpreter would end it."""
    code = 0
    if isinstance(error, SystemExit) and isinstance(error.code, (int, type(None))):
        code = error.code or 0
    elif error is not None:
        code = 1
        print(error.code, file=sys.stderr) if isinstance(error, SystemExit) else traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)


def _call_within(make_context, train_loop):
    with make_context():
        return train_loop()


def _shown(config):
    """`config` for the records, which leave its secrets out, as far as it is plain values."""

    def shown(value):
        if isinstance(value, int) and not is_json_integer(value):
            return str(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, dict):
            return {str(key): shown(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [shown(part) for part in value]
        return os.fspath(value) if isinstance(value, os.PathLike) else f"<{type(value).__name__}>"

    config = shown(plain(config))
    return config if isinstance(config, dict) else {"train_loop_config": config}


def _failure(outcome, result, exceptions: WorkerExceptions, backend) -> TrainingFailedError:
    errors = exceptions.of({rank: text for rank, text in outcome.worker_errors.items() if rank >= 0})
    if outcome.failure_kind == FailureKind.HANG:  # whatever those have raised that were ended then
        return (NCCLHangError if backend == "nccl" else HangError)(outcome.error, errors, result)
    if errors:
        return WorkerGroupError(outcome.error, errors, result)
    return ControllerError(RuntimeError(outcome.error), result)


_absent.explain(__name__)

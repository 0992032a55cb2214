"""The errors that fit() and the functions of a train loop raise."""

from typing import Any, Dict, Optional

from paceline._native import native
from paceline.train.preemption import PreemptionInfo

PacelineError = native.PacelineError
ConfigError = native.ConfigError
UsageError = native.UsageError
StorageError = native.StorageError
CollectiveError = native.CollectiveError


class TrainingFailedError(RuntimeError):
    """A run has not finished. The text is the complete message: which ranks failed, why, and where their logs are.

    Attributes:
        result: What the run has reached (:class:`Result`): checkpoints, metrics, the path.
    """

    def __init__(self, message: str, result: Optional[Any] = None):
        super().__init__(message)
        self.result = result

    def __reduce__(self):
        return (type(self), (str(self), self.result))


class WorkerGroupError(TrainingFailedError):
    """Workers have failed: the train loop raised, or a process ended.

    Attributes:
        worker_failures: Errors of the last attempt by rank. What the train loop raised is an exception of its own class, with
            the worker's traceback as ``__cause__``, where it can be unpickled; all else is a RuntimeError with the text.
            Ranks that failed only because another had are in the error's text, not here.
    """

    def __init__(self, error_message: str, worker_failures: Dict[int, Exception], result: Optional[Any] = None):
        super().__init__(error_message, result)
        self.worker_failures = worker_failures

    def __reduce__(self):
        return (type(self), (str(self), self.worker_failures, self.result))


class HangError(WorkerGroupError):
    """Ranks made no progress, and ``DebugConfig.hang_action`` was to end the run."""


class NCCLHangError(HangError):
    """The same of ranks whose backend is NCCL."""


class ControllerError(TrainingFailedError):
    """The run has failed outside the workers: a callback raised, the storage could not be written.

    Attributes:
        controller_failure: The failure as an exception.
    """

    def __init__(self, controller_failure: Exception, result: Optional[Any] = None):
        super().__init__(str(controller_failure), result)
        self.controller_failure = controller_failure

    def __reduce__(self):
        return (type(self), (self.controller_failure, self.result))


class PreemptionError(TrainingFailedError):
    """Machines were taken away more often than ``FailureConfig.max_preemption_failures`` allows.

    Attributes:
        preemption_info: Which machines and ranks (:class:`PreemptionInfo`).
        drain_timed_out: Whether workers were still running at the deadline.
    """

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False, result: Optional[Any] = None):
        ranks = preemption_info.preempted_ranks
        super().__init__(f"machines with the ranks {ranks} were taken away (drain_timed_out={drain_timed_out})", result)
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self):
        return (type(self), (self.preemption_info, self.drain_timed_out, self.result))

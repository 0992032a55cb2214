"""The exceptions of a run's workers, as the driver gives them to its user.

They are unpickled only from what this driver's own workers have sent it over their channel. What is read from a run's
folder is text.
"""

import pickle
from typing import Any, Callable, Dict, Optional


class RemoteTraceback(Exception):
    """The traceback of a worker's exception, of which it is the ``__cause__``."""

    def __init__(self, text: str):
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class WorkerExceptions:
    """Of the latest group of one fit()."""

    def __init__(self) -> None:
        self._pickled: Dict[int, bytes] = {}
        self._own: Optional[Exception] = None

    def take(self, rank: int, pickled: bytes) -> None:
        """Rank -1: another group begins."""
        if rank < 0:
            self._pickled.clear()
        else:
            self._pickled[rank] = pickled

    def watch(self, train_loop: Callable[[], Any]) -> Any:
        """Runs the train loop in this process."""
        try:
            return train_loop()
        except Exception as error:
            self._own = error
            raise

    def of(self, texts: Dict[int, str]) -> Dict[int, Exception]:
        """By rank; RuntimeError with the text where there is no exception that can be unpickled."""
        return {rank: self._of(rank, text) for rank, text in texts.items()}

    def _of(self, rank, text):
        if self._own is not None and rank >= 0:
            return self._own
        try:
            error, traceback = pickle.loads(self._pickled[rank])
        except BaseException:  # of the exception's own class
            return RuntimeError(text)
        if not isinstance(error, Exception):
            return RuntimeError(text)
        set_cause: Any = getattr(BaseException, "__cause__")
        set_cause.__set__(error, RemoteTraceback(traceback))  # its class may be frozen
        return error

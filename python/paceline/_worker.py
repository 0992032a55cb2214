"""A worker process: `python -m paceline._worker`, started by the guardian."""

import atexit
import os
import sys
import traceback

from paceline import _cells, _environment
from paceline._native import native
from paceline._travel import unpack, unpack_stores
from paceline.train._values import encoded


PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Program:
    """What the extension calls (train/worker/language_runtime.h)."""

    def open_storage(self, attachment):
        unpack_stores(attachment)

    def train(self, attachment, torch_config, store):
        from paceline.train.torch import _group

        context = native.get_context()
        native.set_process_title(f"paceline worker {context.get_world_rank()} of {context.get_experiment_name()}")
        if _environment.is_set("CHDIR_TO_TRIAL_DIR"):
            _enter(os.path.join(context.get_storage(), native.ARTIFACTS_FOLDER))
        cargo = unpack(attachment)
        with _group.joined(torch_config, store):
            native.train_loop_begins()
            return encoded(cargo.train_loop())

    def validate(self, attachment, checkpoint, config):
        return unpack(attachment).validation(checkpoint, config)

    def describe(self, exception):
        return {
            "kind": type(exception).__qualname__,
            "text": _text(exception),
            "frames": _frames(exception),
            "stopped": isinstance(exception, native.Stopped),
            "collateral": _is_collateral(exception),
        }

    def flush(self):
        # The process ends without the interpreter's own end: what trackers and others have left for it is done here,
        # within FailureConfig.stop_grace_s.
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass


def _enter(folder):
    if "://" in folder:
        raise ValueError(f"PACELINE_TRAIN_CHDIR_TO_TRIAL_DIR is set, but the run is in an object store: {folder}; unset it")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)


def _is_collateral(exception):
    """Whether it is the failure of a collective that another rank has caused, or was raised from one."""
    from torch.distributed import DistError

    while exception is not None:
        if isinstance(exception, DistError) or (isinstance(exception, native.CollectiveError) and exception.collateral):
            return True
        exception = _origin(exception)
    return False


def _origin(exception):
    """What it was raised from."""
    return exception.__cause__ or (None if exception.__suppress_context__ else exception.__context__)


def _text(exception):
    """What it says, and what it was raised from."""
    text = str(exception)
    cause = _origin(exception)
    return text if cause is None else f"{text} (after {type(cause).__qualname__}: {cause})"


def _frames(exception):
    """The user's own, innermost first: without Paceline's."""
    frames = traceback.extract_tb(exception.__traceback__)
    return [
        f"{frame.name} ({_cells.name_of(frame.filename)}:{frame.lineno}): {frame.line}"
        for frame in reversed(frames)
        if not frame.filename.startswith(PACKAGE)
    ]


def main():
    sys.stdout.reconfigure(line_buffering=True)
    native.run_worker(Program())


if __name__ == "__main__":
    main()

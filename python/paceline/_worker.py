"""A worker process: `python -m paceline._worker`, started by the guardian."""

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import traceback

import cloudpickle

from paceline import _cells, _environment, _main_module, _versions
from paceline._exception_text import text_of
from paceline._native import native
from paceline._travel import unpack, unpack_stores
from paceline.train._values import encoded


_LARGEST_EXCEPTION = 1 << 20  # bytes
_LONGEST_READING_S = 45  # less than agents wait for a worker that profiles itself
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Program:
    """What the extension calls (train/worker/language_runtime.h)."""

    def versions(self):
        """Of what must be the same on all nodes."""
        return _versions.of_environment()

    def open_storage(self, attachment):
        unpack_stores(attachment)

    def train(self, attachment, torch_config, store):
        context = native.get_context()
        native.set_process_title(f"paceline worker {context.get_world_rank()} of {context.get_experiment_name()}")
        if _environment.is_set("CHDIR_TO_TRIAL_DIR"):
            _enter(os.path.join(context.get_storage(), native.ARTIFACTS_FOLDER))
        cargo = unpack(attachment)
        _main_module.use_names_of(cargo.train_loop)
        with _joined(torch_config, store) if cargo.joins_group else contextlib.nullcontext():
            native.train_loop_begins()
            return encoded(cargo.train_loop())

    def validate(self, attachment, checkpoint, config):
        return unpack(attachment).validation(checkpoint, config)

    def data_service(self, attachment):
        native.set_process_title("paceline data process")
        cargo = unpack(attachment)
        _main_module.use_names_of(cargo.train_loop)
        return cargo.datasets.service()

    def describe(self, exception):
        return {
            "kind": type(exception).__qualname__,
            "text": _text(exception),
            "frames": _frames(exception),
            "stopped": isinstance(exception, native.Stopped),
            "collateral": _is_collateral(exception),
        }

    def serialized(self, exception):
        """What the driver makes the exception of again: itself, and its traceback as text; nothing if that is not possible."""
        try:
            data = cloudpickle.dumps((exception, "".join(traceback.format_exception(exception))))
        except BaseException:  # of the exception's own class
            return b""
        return data if len(data) <= _LARGEST_EXCEPTION else b""

    def profile_memory(self, seconds):
        """A line of a profile: what is in memory at the peak of what is allocated meanwhile; nothing without memray."""
        try:
            import memray
        except ImportError:
            return b""
        with tempfile.TemporaryFile(prefix="paceline_memray_") as file:  # without a name: nobody has to delete it
            noted = f"/proc/self/fd/{file.fileno()}"
            with memray.Tracker(destination=memray.FileDestination(noted, overwrite=True, compress_on_exit=False)):
                time.sleep(seconds)
            try:
                read = subprocess.run(
                    [sys.executable, "-m", "paceline._memory_records", noted, str(os.getpid()), str(seconds)],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=[file.fileno()],
                    timeout=_LONGEST_READING_S,
                )
            except subprocess.TimeoutExpired:
                raise RuntimeError(
                    f"what it noted, {os.fstat(file.fileno()).st_size} bytes, could not be read within {_LONGEST_READING_S} s; "
                    "profile for fewer seconds"
                ) from None
        if read.returncode != 0:
            raise RuntimeError(f"what it noted cannot be read: {read.stderr.decode(errors='replace').strip() or read.returncode}")
        return read.stdout

    def flush(self):
        # The process ends without the interpreter's own end: what trackers and others have left for it is done here,
        # within FailureConfig.stop_grace_s.
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass


def _joined(torch_config, store):
    from paceline.train.torch import _group

    return _group.joined(torch_config, store)


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
    text = text_of(exception)
    if _wants_a_terminal(exception):
        text = f"{text or 'the debugger read the end of its input'}: {_NO_TERMINAL}"
    cause = _origin(exception)
    return text if cause is None else f"{text} (after {type(cause).__qualname__}: {text_of(cause)})"


_NO_TERMINAL = (
    "a worker has no terminal; RunConfig(debug_config=DebugConfig(debug_rank=0)) gives rank 0 the driver's, and num_workers=0 "
    "runs the train loop in the driver itself"
)


def _wants_a_terminal(exception):
    """Whether input(), or a debugger, has found the empty standard input that workers have."""
    if type(exception) is EOFError:
        wants = text_of(exception) == "EOF when reading a line"
    else:
        wants = type(exception).__name__ == "BdbQuit" and type(exception).__module__ == "bdb"
    return wants and not os.isatty(0)


def _frames(exception):
    """The user's own, innermost first: without Paceline's."""
    frames = traceback.extract_tb(exception.__traceback__)
    return [
        f"{frame.name} ({_cells.name_of(frame.filename)}:{frame.lineno}): {frame.line}"
        for frame in reversed(frames)
        if not frame.filename.startswith(PACKAGE)
    ]


def main():
    _main_module.take_place()
    sys.stdout.reconfigure(line_buffering=True)
    native.run_worker(Program())


if __name__ == "__main__":
    main()

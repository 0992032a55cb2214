"""The processes that call functions of datasets, as the program that reads them has them.

One fork server (paceline._function_process) is started when functions are first to be called, another one when functions
need modules that it has not imported. Functions that ask for nothing special have their processes in common; one with
concurrency, num_cpus, num_gpus or memory has processes of its own. Processes stay as long as a dataset that uses them,
or an iteration of it.
"""

import atexit
import functools
import io
import json
import math
import os
import pickle
import socket
import subprocess
import sys
import threading
import types
import weakref
from typing import Any, List, Optional, Set

from paceline import _function_process, _travel
from paceline._native import native
from paceline.data import _compute
from paceline.data.datasource import datasource

_LAST_PATIENCE_S = 10.0
_LARGEST_SOURCE = 64 << 20  # bytes, pickled

_lock = threading.Lock()
_latest: Optional["_Server"] = None
_started: List[subprocess.Popen] = []  # which have not been waited for
_staying: "weakref.WeakSet[datasource.Tasks]" = weakref.WeakSet()  # of which it is known that no other process can have them


class _Server:
    """A fork server, and another one if it dies. It ends when no pool has its processes any more."""

    def __init__(self, modules: Set[str]):
        self.modules = modules
        self.processes = native.FunctionProcesses(functools.partial(_begin, sorted(modules)))
        self._common: Any = None  # the pool that functions have in common; it has no processes while it has no functions

    def pool(self, compute: _compute.Compute, cores: float, name: str) -> Any:
        """For a function that needs this."""
        variables = _compute.variables_of_processes(compute, cores, name)
        if not compute.is_usual:
            return native.FunctionPool(self.processes, variables, compute.memory)
        if self._common is None or self._common.size != len(variables):
            self._common = native.FunctionPool(self.processes, variables, 0)
        return self._common


def _begin(modules):
    """Starts a fork server. Our end of the connection to it."""
    ours, its = socket.socketpair()
    path = [os.path.abspath(entry) for entry in sys.path]
    program = [sys.executable, "-c", _function_process.BOOT, json.dumps([path, sys.argv]), str(its.fileno())]
    with its:
        _started.append(subprocess.Popen(
            [*program, json.dumps(modules), "[]"], pass_fds=[its.fileno()], stdin=subprocess.DEVNULL,
            start_new_session=True))  # Ctrl-C is for the program
    return ours.detach()


def start(functions: List[Any], options: Any, readers: int = 1) -> None:
    """From now on processes call these DataFunctions and DataSources; there are as many as ExecutionOptions allow,
    otherwise as there are cores but one for each of `readers` on this machine. TypeError, naming the culprit, for a
    function that cannot be pickled; a source that cannot, or is large, stays in this process."""
    cpu = options.resource_limits.cpu
    cores = (os.cpu_count() or 1) / readers - 1 if cpu is None or math.isinf(cpu) else cpu
    with _lock:
        if new := [function for function in functions if function.pool is None]:
            pickled = [(function, *code) for function in new if (code := _pickled(function)) is not None]
            if not pickled:
                return
            server = _server_with(set().union(*(modules for _, _, modules in pickled)))
            for function, code, _ in pickled:
                function.call_in(server.pool(compute_of(function), cores, function.name), code)


def compute_of(function: Any) -> _compute.Compute:
    """Where a DataFunction or DataSource is to run."""
    step = function.function
    return _compute.Compute() if isinstance(step, datasource.Tasks) else step.function.compute


def _server_with(modules):
    global _latest
    _started[:] = [process for process in _started if process.poll() is None]
    if _latest is None or not modules <= _latest.modules:
        _latest = _Server(modules | (_latest.modules if _latest else set()))
    return _latest


class _Pickler(_travel.Pickler):
    """Notes which modules are needed to unpickle."""

    def __init__(self, file):
        super().__init__(file)
        self.modules = set()

    def reducer_override(self, obj):
        reduced = super().reducer_override(obj)
        if isinstance(obj, types.ModuleType):
            self.modules.add(obj.__name__)
        elif reduced is NotImplemented and isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType)):
            self.modules.add(obj.__module__)  # it goes by its name
        return reduced


class _Bounded(io.BytesIO):
    """A file that does not take more than a source may have. What a source holds, each process would hold as well."""

    def write(self, data):
        if self.tell() + len(memoryview(data).cast("B")) > _LARGEST_SOURCE:
            raise OverflowError("the source is too large for processes")
        return super().write(data)


def _pickled(function):
    """With the names of modules that it needs; None for a source that stays here."""
    step = function.function
    is_source = isinstance(step, datasource.Tasks)
    if is_source and step in _staying:
        return None
    file = _Bounded() if is_source else io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(datasource.TaskOfBlock(step) if is_source else step)
        return file.getvalue(), {name for name in pickler.modules if name in sys.modules and name != "builtins"}
    except Exception as error:
        if is_source:
            _staying.add(step)
            return None
        culprit = _travel.find_culprit(function.function.function.fn, "the function")
        raise TypeError(
            f"{function.name} cannot be sent to the processes that call it: {type(error).__name__}: {error}; what cannot "
            f"be pickled is {culprit or 'one of its arguments'}. Make that inside the function, or in the constructor of a "
            "class; or let it be called in this process: DataContext.get_current().execution_options.functions = "
            "'threads'") from error


def exception_of(pickled: bytes, traceback: str) -> BaseException:
    """The exception that a function raised in its process, with the traceback from there as ``__cause__``."""
    from paceline.train._exceptions import RemoteTraceback

    try:
        error = pickle.loads(pickled)
        assert isinstance(error, BaseException)
    except Exception:  # of the exception's own class
        error = RuntimeError(traceback.rstrip().rpartition("\n")[2])
    set_cause: Any = getattr(BaseException, "__cause__")
    set_cause.__set__(error, RemoteTraceback(traceback))  # its class may be frozen
    return error


def _end():
    """With the program: what functions are at is not waited for."""
    native.FunctionProcesses.end_all()
    for process in _started:
        try:
            process.wait(_LAST_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _let_go():
    global _latest, _lock
    native.FunctionProcesses.let_go_in_fork()
    _latest, _lock = None, threading.Lock()  # a thread may have had it that is not here
    _started.clear()


atexit.register(_end)
os.register_at_fork(after_in_child=_let_go)

"""The actor on a node: it starts `paceline agent` there, and both end together."""

import collections
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import sysconfig
import threading
from typing import Any, Deque, Dict, List, Optional

from paceline import __main__ as command_line
from paceline._versions import of_environment as versions

_LAST_LINES = 20
_OVER, _LOST = "paceline agent: the run is over", "paceline agent: the run is lost: "  # what the agent writes then
# What Ray sets in its running processes: its debugger, and the threads of what this actor itself would compute.
_RAYS_OWN = {"PYTHONBREAKPOINT", "OMP_NUM_THREADS"}
_FOREVER = 24 * 3600  # seconds: of a node that is to go at a time that nobody has said


class AgentActor:
    """Its methods run on threads of their own (`max_concurrency`): serve() takes as long as the run."""

    def __init__(self) -> None:
        _end_with_raylet()
        self._process: Optional[subprocess.Popen] = None
        self._started_as: Any = None
        self._lock = threading.Lock()

    def facts(self, interpreter: str, *gpus: List[str]) -> Dict[str, Any]:
        """What the driver has to know before the run begins.

        Args:
            interpreter: The driver's own, which workers are started with.
            gpus: What each holder on this node has; none where no GPU is asked for.
        """
        import ray

        return {
            "versions": versions(),
            "address": ray.util.get_node_ip_address(),
            "interpreter": sys.executable,
            "has_interpreter": os.access(interpreter, os.X_OK),
            "gpus": list(dict.fromkeys(gpu for each in gpus for gpu in each)),
            "has_program": os.access(command_line.PROGRAM, os.X_OK),
        }

    def serve(self, token: str, arguments: List[str], gpus: List[str], interpreter: str, directory: str) -> str:
        """Has the agent serve a run to its end. An agent that has served another of the same arguments does it, whose
        processes have what they need in memory already. Returns why the run has lost it, "" when the run is over.

        Args:
            token: What it reads from standard input. It appears nowhere else.
            arguments: Of the program.
            gpus: Those that Ray has given the run here, as CUDA_VISIBLE_DEVICES names them.
            interpreter: The driver's, with which it starts workers.
            directory: The driver's. Workers run there if this node has it, and no runtime_env names another.
        """
        with self._lock:
            wanted = arguments, gpus, directory
            if self._process is None or self._process.poll() is not None or self._started_as != wanted:
                self._end_process()
                self._start(arguments, {**_environment(interpreter), "CUDA_VISIBLE_DEVICES": ",".join(gpus)}, directory)
                self._started_as = wanted
            process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and says why
            process.stdin.write(token.rstrip() + "\n")
            process.stdin.flush()
        last: Deque[str] = collections.deque(maxlen=_LAST_LINES)
        for line in process.stdout:
            if line.startswith(_OVER):
                return ""
            if line.startswith(_LOST):
                return line.removeprefix(_LOST).strip()
            last.append(line)
        return f"its agent ended with exit code {process.wait()}{': ' if last else ''}{''.join(last).strip()}"

    def _start(self, arguments: List[str], environment: Dict[str, str], directory: str) -> None:
        self._process = subprocess.Popen(
            [command_line.PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            cwd=_directory(directory),
        )

    def _end_process(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def leaves(self, seconds: float) -> None:
        """Tells the agent that its node will be taken away; 0 where nobody has said when."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                value = _Value(min(_FOREVER, max(1, int(seconds))) if seconds else _FOREVER)
                ctypes.CDLL(None).sigqueue(self._process.pid, signal.SIGUSR1, value)


def _end_with_raylet() -> None:
    """Where its raylet has gone, Ray has lost the node, but an actor there waits for its methods before it ends, and serve()
    would go on with a run that has other agents by then. The agent ends with this process.
    """
    raylet = os.getppid()
    ending = os.pidfd_open(raylet)
    if os.getppid() != raylet:  # it had gone before it could be watched
        os._exit(1)

    def watch() -> None:
        select.select([ending], [], [])
        os._exit(1)

    threading.Thread(target=watch, name="paceline-raylet", daemon=True).start()


class GpuHolder:
    """Takes a bundle, and so learns which GPUs it has."""

    def gpus(self) -> List[str]:
        import ray

        return [str(gpu) for gpu in ray.get_runtime_context().get_accelerator_ids().get("GPU", ())]


class _Value(ctypes.Union):
    """C's union sigval."""

    _fields_ = [("number", ctypes.c_int), ("pointer", ctypes.c_void_p)]


def _environment(interpreter: str) -> Dict[str, str]:
    """Of the agent, and so of its workers: this process's, with what Ray has told this process alone."""
    import ray

    environment = dict(os.environ)
    with open("/proc/self/environ", "rb") as file:
        given = {entry.partition(b"=")[0].decode(errors="replace") for entry in file.read().split(b"\0")}
    for name in _RAYS_OWN - given:
        environment.pop(name, None)
    environment["PYTHONPATH"] = os.pathsep.join(_search_path(interpreter))
    environment["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # for train loops that use Ray too
    environment["PYTHON_EXEC"] = sys.executable
    return environment


def _search_path(interpreter: str) -> List[str]:
    """This process's, which Ray extends in ways that a process of its own does not inherit. What the interpreter finds by
    itself is left out.
    """
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    own = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} if interpreter == sys.executable else set()
    entries = [os.path.abspath(entry) for entry in sys.path if entry and not entry.endswith((".zip", "lib-dynload"))]
    return [entry for entry in dict.fromkeys(entries) if entry not in standard | own]


def _directory(drivers: str) -> str:
    import ray

    here = os.getcwd()
    if ray.get_runtime_context().runtime_env.get("working_dir"):
        return here  # Ray's copy of it
    return drivers if os.path.isdir(drivers) else here

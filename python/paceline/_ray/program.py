"""`python -m paceline._ray.program [FLAGS] -- PROGRAM [ARGUMENTS]`: what a job of `paceline run --engine ray` starts.

On a machine of the cluster it starts `paceline run --engine ray` with the same words, and so the program. That asks for the
machines of each of its runs over a socket pair (paceline/controller/launcher/ray.h says how), and this process, which can
speak with Ray, holds them for it as the driver of a Python program would. Its exit code is the program's.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional

from paceline import __main__ as command_line
from paceline._ray import connection

VARIABLE = "PACELINE_RAY"
# Of the C++ configuration, what says which machines a run wants.
_ASKED = ("num_workers", "use_gpu", "placement_strategy", "accelerator_type", "label_selector", "listen")


class Machines:
    """Of one run at a time: what is reserved of the cluster for the program at the other end of the socket."""

    def __init__(self, end: socket.socket):
        self._end = end
        self._answering, self._releasing = threading.Lock(), threading.Lock()
        self._engine: Any = None
        self._reserving: Optional[threading.Thread] = None
        self._entered = False

    def serve(self) -> None:
        """Until the program has closed its end."""
        with self._end.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                request = json.loads(line)
                if "reserve" in request:
                    self._begin(request["reserve"], request["start_timeout_s"])
                else:
                    self.release()
                    self._answer({"released": True})

    def release(self) -> None:
        """Gives everything back, also what Ray is still asked for."""
        with self._releasing:
            if self._reserving is None:
                return
            self._engine.give_up()
            self._reserving.join()
            if self._entered:
                self._engine.__exit__(None, None, None)
            self._engine, self._reserving, self._entered = None, None, False

    def _begin(self, scaling: Dict[str, Any], start_timeout_s: float) -> None:
        from paceline._ray.engine import Engine
        from paceline.train import FailureConfig, ScalingConfig

        try:
            asked = {name: scaling[name] for name in _ASKED if name in scaling}
            resources = scaling.get("resources_per_worker") or None
            config = ScalingConfig(**asked, resources_per_worker=resources, engine="ray")
            self._engine = Engine(config, FailureConfig(start_timeout_s=start_timeout_s), starts_python=False)
        except (TypeError, ValueError) as error:
            return self._answer({"error": str(error)})
        self._reserving = threading.Thread(target=self._reserve, name="paceline-ray-reserve", daemon=True)
        self._reserving.start()

    def _reserve(self) -> None:
        try:
            settings = self._engine.__enter__()
        except Exception as error:
            return self._answer({"error": str(error)})
        self._entered = True
        self._answer({"settings": settings})

    def _answer(self, message: Dict[str, Any]) -> None:
        with self._answering, contextlib.suppress(OSError):  # the program has gone: its end is what counts
            self._end.sendall((json.dumps(message) + "\n").encode())


def run(words: List[str]) -> int:
    """Starts the program, and serves it to its end; gives its exit code as a shell does."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, VARIABLE: str(theirs.fileno())}
    environment.setdefault("PYTHON_EXEC", sys.executable)
    command = [command_line.PROGRAM, "run", "--engine", "ray", *words]
    process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
    theirs.close()
    # Ray tells every process of a job that it stops; whoever tells this one alone means the program.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: process.send_signal(got))
    machines = Machines(ours)
    threading.Thread(target=machines.serve, name="paceline-ray-serve", daemon=True).start()
    code = process.wait()
    machines.release()
    return code if code >= 0 else 128 - code


def main() -> int:
    try:
        connection.connect()
    except (ConnectionError, ImportError) as error:
        print(f"paceline: {error}", file=sys.stderr)
        return 1
    try:
        return run(sys.argv[1:])
    finally:
        connection.disconnect()


if __name__ == "__main__":
    sys.exit(main())

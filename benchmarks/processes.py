"""Runs the measured programs and leaves nothing of them behind.

This process makes itself a child subreaper: whatever a program leaves (Ray's daemons, say) becomes its child, and is
ended by its id before the next program starts.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36


class ProgramFailed(Exception):
    """A measured program did not end well; the message has its last lines."""


def become_subreaper() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Ids of all processes below `root`."""
    children: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "stat").read_text()
        except OSError:  # it has ended meanwhile
            continue
        # The command's name stands in parentheses and may hold anything; the state and the parent follow it.
        parent = int(status.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
    found, open_ids = [], [root]
    while open_ids:
        below = children.get(open_ids.pop(), [])
        found += below
        open_ids += below
    return found


def end_descendants(limit_s: float = 10.0) -> None:
    """Kills and reaps every process below this one."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        ids = descendants(os.getpid())
        if not ids:
            return
        for pid in ids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)
    raise ProgramFailed(f"processes cannot be ended: {descendants(os.getpid())}")


def run(command: list[str], environment: dict[str, str], output: pathlib.Path, timeout_s: float) -> str:
    """Runs `command` with its output in the file `output`; returns what it wrote. ProgramFailed names what went wrong.

    BENCHMARK_START_NS tells the program when, on the monotonic clock, it was started.
    """
    with output.open("w+") as file:
        environment = environment | {"BENCHMARK_START_NS": str(time.monotonic_ns())}
        program = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            code = program.wait(timeout_s)
            ended = f"ended with {code}"
        except subprocess.TimeoutExpired:
            code, ended = None, f"did not end within {timeout_s:.0f} s"
        finally:
            end_descendants()
    text = output.read_text(errors="replace")
    if code != 0:
        last_lines = "\n    ".join(text.splitlines()[-15:])
        raise ProgramFailed(f"{' '.join(command)} {ended}; its last lines:\n    {last_lines}")
    return text

#!/usr/bin/env python3
"""Peak memory of a program with all processes below it, beyond what they have while idle, measured from outside.

    peak_memory.py NAME -- COMMAND … --scratch FOLDER …

COMMAND touches FOLDER/idle when all is started and nothing read, and goes on when FOLDER/measured appears. From then on
to its end the memory is the sum over processes of what each has in proportion to those that share it (PSS), every 100 ms.
Of /dev/shm everything counts that has come since the start: pages there have no process after their writer's end.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import processes

INTERVAL_S = 0.1
START_LIMIT_S = 60


def shared_folder_bytes() -> int:
    folder = os.statvfs("/dev/shm")
    return (folder.f_blocks - folder.f_bfree) * folder.f_frsize


def tree_bytes() -> tuple[int, int]:
    """Of all processes below this one: without shared memory, and of it."""
    private = shared = 0
    for pid in processes.descendants(os.getpid()):
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        kilobytes = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        if kilobytes:  # a zombie has none
            private += (kilobytes["Pss"] - kilobytes["Pss_Shmem"]) * 1024
            shared += kilobytes["Pss_Shmem"] * 1024
    return private, shared


def main() -> int:
    name, command = sys.argv[1], sys.argv[sys.argv.index("--") + 1:]
    scratch = pathlib.Path(command[command.index("--scratch") + 1])
    # Daemons that cut themselves loose from the program are then still below this process, and counted.
    processes.become_subreaper()
    before = shared_folder_bytes()

    def megabytes() -> float:
        private, shared = tree_bytes()
        return (private + max(shared, shared_folder_bytes() - before)) / 1e6

    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + START_LIMIT_S
    while not (scratch / "idle").exists():
        if program.poll() is not None or time.monotonic() > deadline:
            sys.exit("the program did not start")
        time.sleep(INTERVAL_S)
    time.sleep(1)  # what still starts is part of idleness
    idle = peak = megabytes()
    (scratch / "measured").touch()
    while program.poll() is None:
        peak = max(peak, megabytes())
        time.sleep(INTERVAL_S)
    print(json.dumps({"samples": [peak - idle], "also": {f"{name}, idle": idle}}), flush=True)
    return program.returncode


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Memory of all processes but the workers: runs a program and measures it from outside, the same way for everybody.

    helpers_memory.py --baseline=PROGRAM [--baseline=ARGUMENT …] -- COMMAND … --scratch FOLDER …

COMMAND trains with two workers; each writes its process id to FOLDER/rank_R.json when it stands in its train loop, and
waits there until FOLDER/measured appears. PROGRAM only loads (Lib)Torch, prints a line and waits for the end of its
input; its memory is subtracted.

Counted are dirty pages, and a page that two processes share counts once (Pss_Dirty): the driver and the guardian that
it forks share pages which, by the letter, are private to neither.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import processes

START_LIMIT_S = 100
SETTLE_S = 1.0  # what still starts beside the workers counts too


def dirty_megabytes(pid: int) -> float:
    """Of one process; 0 when it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("Pss_Dirty:")]
    if not kibibytes:
        sys.exit("this kernel does not tell Pss_Dirty: Linux 6.0 or newer is needed")
    return kibibytes[0] * 1024 / 1e6


def baseline(command: list[str]) -> float:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        program.stdout.readline()
        return dirty_megabytes(program.pid)


def wait_for_workers(program: subprocess.Popen, scratch: pathlib.Path) -> set[int]:
    """The workers' process ids."""
    deadline = time.monotonic() + START_LIMIT_S
    files = [scratch / "rank_0.json", scratch / "rank_1.json"]
    while not all(file.is_file() for file in files):
        if program.poll() is not None or time.monotonic() > deadline:
            sys.exit("the workers did not reach their train loop")
        time.sleep(0.05)
    return {json.loads(file.read_text())["pid"] for file in files}


def main() -> int:
    separator = sys.argv.index("--")
    command = sys.argv[separator + 1:]
    beyond = baseline([part.partition("=")[2] for part in sys.argv[1:separator]])
    scratch = pathlib.Path(command[command.index("--scratch") + 1])
    # Daemons that cut themselves loose from the program are then still below this process, and counted.
    processes.become_subreaper()
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    workers = wait_for_workers(program, scratch)
    time.sleep(SETTLE_S)
    beside = [pid for pid in processes.descendants(os.getpid()) if pid not in workers]
    total = sum(dirty_megabytes(pid) for pid in beside)
    (scratch / "measured").touch()
    code = program.wait()
    print(json.dumps({"samples": [total - beyond]}), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())

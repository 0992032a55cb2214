#!/usr/bin/env python3
"""Memory of all processes but the workers: runs a program and measures it from outside, the same way for everybody.

    helpers_memory.py --baseline=PROGRAM [--baseline=ARGUMENT …] -- COMMAND … --scratch FOLDER …

COMMAND trains with two workers; each writes its process id to FOLDER/rank_R.json when it stands in its train loop, and
waits there until FOLDER/measured appears. PROGRAM only loads (Lib)Torch, prints a line and waits for the end of its
input; its memory is subtracted.

Counted are the page frames that these processes have written, anonymous ones and those of shared memory, each once: the
driver, the guardian that it forks and the workers that are forked from that share pages, and no figure per process says
which. It takes root to see them.
"""

import array
import json
import mmap
import os
import pathlib
import subprocess
import sys
import time

import processes

START_LIMIT_S = 100
PAGE = mmap.PAGESIZE
FRAME = (1 << 55) - 1  # of an entry of pagemap
MEMORY_FILES = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV")
SETTLE_S = 1.0  # what still starts beside the workers counts too


def written_pages(pid: int) -> set[int]:
    """The page frames of a process that it or a process before it has written: all but those of files."""
    pages = set()
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
            for line in maps:
                addresses, permissions, *rest = line.split(maxsplit=5)
                if permissions.startswith("---"):
                    continue
                is_memory = permissions[3] == "s" and rest[-1].startswith(MEMORY_FILES)
                begin, end = (int(address, 16) // PAGE for address in addresses.split("-"))
                pagemap.seek(begin * 8)
                for entry in array.array("Q", pagemap.read((end - begin) * 8)):
                    if entry >> 63 and (is_memory or not entry >> 61 & 1):  # present; of a file or shared
                        pages.add(entry & FRAME)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return pages
    if pages == {0}:
        sys.exit("the kernel tells page frames only to root")
    return pages


def megabytes(pids) -> float:
    """Of all these processes together; a page that several have counts once."""
    return len(set().union(*(written_pages(pid) for pid in pids))) * PAGE / 1e6


def baseline(command: list[str]) -> float:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        program.stdout.readline()
        return megabytes([program.pid])


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
    total = megabytes(beside)
    (scratch / "measured").touch()
    code = program.wait()
    print(json.dumps({"samples": [total - beyond]}), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())

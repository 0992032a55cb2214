"""Reads what memray has noted: `python -m paceline._memory_records FILE PID SECONDS` writes a line of a profile.

It says who holds what is in memory at its peak. It is a process of its own because memray, and who makes Python's objects of
so many stacks, hold the interpreter's lock, which would stop the training.
"""

import os
import sys

import memray

from paceline._native import native


def main():
    file, pid, seconds = sys.argv[1:]
    os.nice(10)  # the training comes first
    with memray.FileReader(file) as reader:
        records = reader.get_high_watermark_allocation_records(merge_threads=False)
        found = [(one.thread_name, one.tid, one.stack_trace()[::-1], one.size) for one in records]
    sys.stdout.buffer.write(native.memory_profile(found, int(pid), float(seconds)))


if __name__ == "__main__":
    main()

"""Reads what memray has noted: `python -m paceline._memory_records FILE` writes, as JSON, who holds what is in memory at its peak.

It is a process of its own because memray holds the interpreter's lock while it reads, which would stop the training.
"""

import json
import os
import sys

import memray


def main():
    os.nice(10)  # the training comes first
    with memray.FileReader(sys.argv[1]) as reader:
        records = reader.get_high_watermark_allocation_records(merge_threads=False)
        json.dump([(one.thread_name, one.tid, one.stack_trace()[::-1], one.size) for one in records], sys.stdout)


if __name__ == "__main__":
    main()

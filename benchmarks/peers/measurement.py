"""How the peers' programs are called and how they hand over what they measured (see rows.py)."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time


def arguments(rows: dict) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("row", choices=rows)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--round", type=int, required=True)
    parser.add_argument("--data", required=True)
    return parser.parse_args()


def write_rank(folder: str, rank: int, values: dict) -> None:
    """Puts what a rank measured into `folder`, in one piece."""
    path = pathlib.Path(folder) / f"rank_{rank}.json"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(values))
    os.replace(unfinished, path)


def read_rank(folder: str, rank: int) -> dict:
    return json.loads((pathlib.Path(folder) / f"rank_{rank}.json").read_text())


def seconds_to_last_rank(folder: str, start_ns: int) -> float:
    """From `start_ns` to the moment that the later of two ranks has written."""
    return (max(read_rank(folder, rank)["now_ns"] for rank in range(2)) - start_ns) / 1e9


def now_ns() -> int:
    """The monotonic clock is one for all processes of a machine."""
    return time.monotonic_ns()


def import_torch_seconds() -> float:
    """How long `import torch` takes in a process that has nothing else to do."""
    script = "import time; start = time.monotonic(); import torch; print(time.monotonic() - start)"
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def own_megabytes() -> float:
    """Memory that this process shares with no other."""
    lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024 / 1e6


def print_samples(samples: list[float], also: dict[str, float] | None = None,
                  peers: dict[str, list[float]] | None = None) -> None:
    print(json.dumps({"samples": samples, "also": also or {}, "peers": peers or {}}), flush=True)

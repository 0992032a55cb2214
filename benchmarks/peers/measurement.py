"""How the peers' programs are called and how they hand over what they measured (see rows.py)."""

import argparse
import json
import os
import pathlib
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


def print_samples(samples: list[float], also: dict[str, float] | None = None) -> None:
    print(json.dumps({"samples": samples, "also": also or {}}), flush=True)

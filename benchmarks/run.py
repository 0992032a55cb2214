#!/usr/bin/env python3
"""Measures Paceline beside its peers: `make bench [ONLY=row,row]`.

Rows are declared in rows.py. Each is written to build/bench/ROW.json, all into docs/benchmarks.md. Standard library
only. Ends with 1 when a row could not be measured; a missed target is a result.

    benchmarks/run.py [--only row,row] [--gpu] [--quick]     --quick: few iterations, to try the programs; into build/bench/quick, not into the document
    benchmarks/run.py --self-test                    checks statistics and writers, measures nothing
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import environment
import processes
from record import PACELINE, Figure, Outcome, to_document, to_record, write_record
from rows import ROWS, Contestant, Row

DOCUMENT = environment.ROOT / "docs" / "benchmarks.md"
REASONS = environment.ROOT / "benchmarks" / "reasons.json"
TRAININGS = environment.ROOT / "benchmarks" / "trainings.md"
ROW_LIMIT_S = 240  # no further round of runs after this, once there are enough
ENOUGH_RUNS = 3
PROGRAM_LIMIT_S = 150


def say(text: str) -> None:
    print(f"[bench] {text}", file=sys.stderr, flush=True)


def parse_samples(output: str) -> dict:
    """The line of JSON that a measured program ends with."""
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict) and found.get("samples"):
            return found
    raise processes.ProgramFailed("the program printed no samples; its last lines:\n    " +
                                  "\n    ".join(output.splitlines()[-15:]))


def ray_folder() -> pathlib.Path:
    """A folder for Ray's sessions, whose sockets' paths may have 107 characters in all."""
    inside = environment.OUTPUT / "ray"
    return inside if len(str(inside)) <= 42 else pathlib.Path(tempfile.gettempdir()) / f"ray-{os.getpid()}"


def run_once(contestant: Contestant, run: int, quick: bool, data: pathlib.Path) -> dict:
    environment.OUTPUT.mkdir(parents=True, exist_ok=True)
    scratch, ray = pathlib.Path(tempfile.mkdtemp(prefix="scratch-", dir=environment.OUTPUT)), ray_folder()
    iterations = contestant.quick_iterations if quick else contestant.iterations
    command = [*contestant.command, "--scratch", str(scratch), "--iterations", str(iterations), "--round", str(run),
               "--data", str(data)]
    try:
        ray.mkdir(exist_ok=True)
        return parse_samples(processes.run(command, environment.program_environment(ray), scratch / "output.txt",
                                           PROGRAM_LIMIT_S))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(ray, ignore_errors=True)


def measure(row: Row, quick: bool) -> Outcome:
    """Runs the contestants in turns."""
    contestants = {PACELINE: row.ours} | row.peers
    data = environment.tables_folder(quick) if row.needs_tables else environment.ROOT / "data"
    medians: dict[str, list[float]] = {label: [] for label in contestants}
    also: dict[str, list[float]] = {}
    start = time.monotonic()
    for run in range(1 if quick else row.runs):
        if run >= ENOUGH_RUNS and time.monotonic() - start > ROW_LIMIT_S:
            say(f"{row.name}: stopping after {run} of {row.runs} runs, the time of the row is used up")
            break
        for label, contestant in contestants.items():
            found = run_once(contestant, run, quick, data)
            medians[label].append(statistics.median(found["samples"]))
            for beside, samples in found.get("peers", {}).items():
                medians.setdefault(beside, []).append(statistics.median(samples))
            for description, value in found.get("also", {}).items():
                also.setdefault(description, []).append(value)
            say(f"{row.name}: run {run + 1}, {label}: {medians[label][-1]:.4g} {row.unit}")
    figures = {label: Figure(tuple(values)) for label, values in medians.items()}
    return Outcome(ours=figures.pop(PACELINE), peers=figures, lower_is_better=row.lower_is_better,
                   also={description: Figure(tuple(values)) for description, values in also.items()})


def measure_rows(rows: list[Row], quick: bool) -> list[str]:
    """Names of the rows that could not be measured."""
    failed = []
    for row in rows:
        try:
            outcome = measure(row, quick)
        except (processes.ProgramFailed, OSError) as error:
            say(f"{row.name} could not be measured: {error}")
            failed.append(row.name)
            continue
        record = to_record(row.name, row.unit, row.target, outcome, environment.versions_in_use(row.needs_gpu))
        path = write_record(environment.QUICK_OUTPUT if quick else environment.OUTPUT, record)
        beside = f"{record['peer']} {record['peer_value']}, " if "peer" in record else ""
        say(f"{row.name}: {record['value']} {row.unit}, {beside}"
            f"target {row.target.sentence}: {'met' if record['met'] else 'NOT met'} "
            f"({path.relative_to(environment.ROOT)})")
    return failed


def write_document() -> None:
    records = {}
    for row in ROWS:
        path = environment.OUTPUT / f"{row.name}.json"
        if path.is_file():
            records[row.name] = json.loads(path.read_text()), datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
    earlier = DOCUMENT.read_text() if DOCUMENT.is_file() else ""
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(to_document({row.name: row.what for row in ROWS}, records, environment.machine(),
                                    json.loads(REASONS.read_text()), TRAININGS.read_text(), earlier))
    say(f"wrote {DOCUMENT.relative_to(environment.ROOT)}")


def selected(only: str | None, gpu: bool) -> list[Row]:
    if not only:
        return [row for row in ROWS if row.needs_gpu == gpu]
    by_name = {row.name: row for row in ROWS}
    names = [name for name in only.split(",") if name]
    if unknown := [name for name in names if name not in by_name]:
        sys.exit(f"no such row: {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures Paceline beside its peers.")
    parser.add_argument("--only", metavar="ROW,ROW", help="only these rows")
    parser.add_argument("--gpu", action="store_true", help="the rows that need a GPU, which are left out otherwise")
    parser.add_argument("--quick", action="store_true", help="few iterations, to try the programs")
    parser.add_argument("--self-test", action="store_true", help="checks statistics and writers")
    arguments = parser.parse_args()
    if arguments.self_test:
        import self_test
        return self_test.run()
    rows = selected(arguments.only, arguments.gpu)
    if any(row.needs_gpu for row in rows) and (missing := environment.missing_gpu()):
        sys.exit(f"[bench] {missing}")
    # A terminated benchmark cleans up as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes.become_subreaper()
    if not all(row.needs_gpu for row in rows):
        environment.install_peers()
    environment.build_programs({name for row in rows for name in (row.program or row.name, *row.programs)})
    if any(row.needs_mnist for row in rows):
        environment.fetch_mnist()
    if any(row.needs_tables for row in rows):
        environment.make_tables(arguments.quick)
    if (load := os.getloadavg()[0]) > 0.5:
        say(f"this machine is busy (load {load:.1f}): figures will be noisy")
    failed = measure_rows(rows, arguments.quick)
    if not arguments.quick:
        write_document()
    if failed:
        say(f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"[bench] failed: {' '.join(map(str, error.cmd))}")

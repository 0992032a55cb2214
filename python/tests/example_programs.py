"""Runs the programs of examples/python/ as a user does, in a folder of the test's own."""

import json
import os
import pathlib
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = PROJECT / "examples/python"
sys.path.insert(0, str(PROJECT / "examples"))  # for small_data
# Threads that wait for each other by spinning take ten times as long on a machine that does other things too.
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}
PACELINE_RUN = [sys.executable, "-m", "paceline", "run", "--storage-path", "results", "--nproc-per-node", "2"]


def run(folder, name, *arguments, launcher=(sys.executable,)):
    """What the program, or its launcher, prints on standard output; an error with all that it said when it fails."""
    done = subprocess.run(
        [*launcher, EXAMPLES / name, *map(str, arguments)], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def history(folder, name):
    """What rank 0 reported in a run, reduced over the ranks where it asked for that."""
    lines = (folder / "results" / name / "metrics.jsonl").read_text().splitlines()
    reports = [json.loads(line) for line in lines]
    shown = [report for report in reports if report["rank"] == 0 and not report.get("later") or "reduced" in report]
    return [report.get("reduced") or report["metrics"] for report in shown]


def real_digits():
    """The folder of the MNIST digits, fetched when they are missing."""
    subprocess.run([PROJECT / "tools/fetch_mnist", PROJECT / "data"], check=True)
    return PROJECT / "data"


def losses_by_attempt(folder, name):
    """Of each attempt the losses by step."""
    losses = {}
    for line in (folder / "results" / name / "metrics.jsonl").read_text().splitlines():
        report = json.loads(line)
        if "reduced" in report:
            losses.setdefault(report["attempt"], {})[report["reduced"]["step"]] = report["reduced"]["loss"]
    return losses

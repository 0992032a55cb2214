"""list_runs' peer: milliseconds that `ls -l` takes on 10,000 folders, which is no index but what everybody has."""

import argparse
import json
import pathlib
import subprocess
import time

FOLDERS = 10_000

parser = argparse.ArgumentParser()
for name in ("scratch", "iterations", "round", "data"):
    parser.add_argument(f"--{name}", required=True)
arguments = parser.parse_args()
storage = pathlib.Path(arguments.scratch, "storage")
for number in range(FOLDERS):
    (storage / f"run_{number}").mkdir(parents=True)
samples = []
for _ in range(int(arguments.iterations)):
    start = time.monotonic()
    subprocess.run(["ls", "-l", str(storage)], check=True, stdout=subprocess.PIPE)
    samples.append(1e3 * (time.monotonic() - start))
print(json.dumps({"samples": samples}))

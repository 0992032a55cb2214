"""Runs programs of the folder parity/, one after another in this process, and writes what each showed.

    python parity_runner.py NAME_OF_THE_PACKAGE PROGRAMS WORK NAME…

`WORK/NAME/` is a program's working directory; what it put into `outcome` becomes `WORK/NAME.json`. The programs share one
driver, since a cluster of Ray takes its time to start; each is `__main__` while it runs.
"""

import importlib
import json
import os
import pathlib
import runpy
import sys
import traceback


def run(program, folder):
    folder.mkdir()
    os.chdir(folder)
    try:
        return json.loads(json.dumps(runpy.run_path(str(program), run_name="__main__")["outcome"]))
    except BaseException as error:
        traceback.print_exc()
        return {"raised": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    package, programs, work, *names = sys.argv[1:]
    work = pathlib.Path(work)
    peer = importlib.import_module(package)
    peer.init(num_cpus=4, include_dashboard=False)
    for name in names:
        print(f"---- {name}", flush=True)
        outcome = run(pathlib.Path(programs) / f"{name}.py", work / name)
        (work / f"{name}.json").write_text(json.dumps(outcome, indent=1))
    peer.shutdown()

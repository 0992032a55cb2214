"""Runs a script, or with -m a module, under pdb, once: `python paceline_debugger.py [-m] PROGRAM ARGUMENTS`.

`python -m pdb` starts the program again when it has ended, which the other ranks of a group would not survive. The
program stops at its first line; what it throws is looked at before the rank ends with 1.
"""

import os
import pdb
import runpy
import sys
import traceback


def main():
    as_module = sys.argv[1] == "-m"
    sys.argv = sys.argv[2:] if as_module else sys.argv[1:]
    if not as_module:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    run = runpy.run_module if as_module else runpy.run_path
    debugger = pdb.Pdb(skip=["runpy", "importlib*", "pkgutil", "zipimport"])
    try:
        debugger.runcall(run, sys.argv[0], run_name="__main__", **({"alter_sys": True} if as_module else {}))
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        print("The program has ended with this exception. `q` ends the rank.", file=sys.stderr)
        pdb.post_mortem()
        sys.exit(1)


main()

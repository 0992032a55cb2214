"""`python -m paceline …`: the command line, which is a program of its own."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "paceline")


def main() -> None:
    """Becomes the program `paceline`, whose `run` starts Python programs with this interpreter."""
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    os.execv(PROGRAM, ["paceline", *sys.argv[1:]])


if __name__ == "__main__":
    main()

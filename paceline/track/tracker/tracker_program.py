"""A tracker of Paceline's at the command of a test: see test_tracker.cpp."""

import json
import os
import subprocess


class TrackerProgram:
    """One driver's tracker; `with` ends it."""

    def __init__(self, config, run, memory=None):
        arguments = [json.dumps(argument) for argument in (config, run, memory)]
        self.memory = memory
        self._process = subprocess.Popen(
            [os.environ["TRACKER_PROGRAM"], *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0

    def begin(self, **attempt):
        return self._do({"begin": attempt})

    def write(self, *rows):
        return self._do({"write": [*rows]})

    def finish(self, **end):
        return self._do({"finish": end})

    def _do(self, command):
        print(json.dumps(command), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        self.memory = answer["memory"]
        return answer["error"]

"""Compiles mistakes.cpp, whose wrong lines say what the compiler must tell the newcomer who writes them."""

import json
import os
import pathlib
import re
import shlex
import subprocess

BUILD = pathlib.Path(os.environ["PACELINE_BUILD"])
MISTAKES = pathlib.Path(__file__).resolve().parent / "mistakes.cpp"


def compile_with_precompiled_headers(source: pathlib.Path) -> str:
    """What the compiler says of `source`, compiled as a program of this build that includes LibTorch."""
    entry = next(entry for entry in json.loads((BUILD / "compile_commands.json").read_text())
                 if "tests/robustness/CMakeFiles/scenarios.dir" in entry["command"])
    words = shlex.split(entry["command"])
    command = [*words[:words.index("-o")], "-fsyntax-only", "-fdiagnostics-color=never", str(source)]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    assert done.returncode != 0
    return done.stderr


def test_each_mistake_is_explained_at_its_line():
    said = compile_with_precompiled_headers(MISTAKES)
    lines = MISTAKES.read_text().splitlines()
    wanted = {number: match[1] for number, line in enumerate(lines, 1) if (match := re.search(r"// error: (.*)", line))}
    assert len(wanted) == 8
    # The compiler quotes the lines that it speaks of, with their comments: those are not what it says.
    own = "\n".join(line for line in said.splitlines() if "// error:" not in line)
    for number, words in wanted.items():
        assert f"{MISTAKES.name}:{number}:" in own and words in own, f"line {number}: {words}\n{said}"

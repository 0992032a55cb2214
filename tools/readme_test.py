"""README.md shows the program that is compiled and run, not another."""
import pathlib
import re

PROJECT = pathlib.Path(__file__).resolve().parent.parent


def test_the_program_of_the_readme_is_the_example():
    shown = re.search(r"```cpp\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)[1]
    comment, program = (PROJECT / "examples/010_first_program.cpp").read_text().split("\n", 1)
    assert comment.startswith("//")
    lines = [line for line in program.splitlines(keepends=True) if not line.endswith("// not in the README\n")]
    assert shown == "".join(lines)

"""How tools/guide.py reads pages, what it makes of them in C++, and how it compares what was written."""
import pathlib

import guide
import pytest

PAGE = """# A page

```cpp
#include <cmath>

void loop() {}
PACELINE_TRAIN_LOOP(loop);
```
```cpp main
std::cout << "a" << std::endl;
```
```python
print("a")
```
```text
a
```

Words.

```python train.py
print("b")
```
```sh
python train.py
```
```text
b
```
```sh cpp
true
```
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_a_pages_programs_are_its_blocks_in_order(page):
    assert [(step.language, step.line) for step in guide.steps(page, "python")] == [("python", 13), ("sh", 25)]
    assert [(step.language, step.line) for step in guide.steps(page, "cpp")] == [("cpp", 10), ("sh", 25), ("sh", 31)]


def test_a_text_is_what_the_block_before_it_writes_in_either_language(page):
    assert [step.output for step in guide.steps(page, "cpp")] == [["a"], ["b"], []]
    assert [step.output for step in guide.steps(page, "python")] == [["a"], ["b"]]
    page.write_text("Words.\n\n```text\na\n```\n")
    with pytest.raises(ValueError, match="page.md:4: no block before it writes this text"):
        guide.groups(page)


def test_blocks_with_a_files_name_are_files(page, tmp_path):
    environment = guide.set_up(page, tmp_path, pathlib.Path("/programs"))
    assert (tmp_path / "train.py").read_text() == 'print("b")\n'
    assert environment["PATH"].startswith("/programs:") and environment["HOME"] == str(tmp_path)


def test_cpp_that_stands_without_python_is_found(page):
    assert guide.without_twin(page) == []
    page.write_text("```cpp\nint a;\n```\n\nWords.\n\n```python\na = 1\n```\n")
    assert [block.line for block in guide.without_twin(page)] == [2]


def test_the_cpp_program_names_lines_of_the_page(page):
    program = guide.cpp_program([page])
    lines = program.splitlines()
    assert lines.index("#include <cmath>") < lines.index("namespace guide::page {")
    start = lines.index(f'#line 4 "{page}"')
    assert lines[start + 1 : start + 4] == ["", "", "void loop() {}"]
    assert 'if (page == "page") return guide::page::run(), 0;' in program


@pytest.mark.parametrize("expected, missing", [
    (["a", "c"], None),
    (["c", "a"], "a"),
    (["b…"], None),
    (["b"], "b"),
    (["(rank 1) x", "(rank 0) x", "(rank 0) y"], None),
    (["(rank 0) y", "(rank 0) x"], "(rank 0) x"),
])
def test_expected_lines_come_in_order_and_that_of_each_rank(expected, missing):
    assert guide.missing(expected, "a\nbcd\n(rank 0) x\nc\n(rank 0) y\n(rank 1) x\n") == missing


def test_what_a_cpp_program_writes_is_told_apart_by_its_blocks():
    assert guide.by_block("before\n@@@ 10\na\nb\n@@@ 25\n") == {10: "a\nb\n", 25: ""}

"""Tests of check_layers.py on small trees: each rule is broken once."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_layers  # noqa: E402

GOOD = {
    "paceline/core/CMakeLists.txt": "paceline_library(core LAYER 0 HDRS a.h SRCS a.cpp LIBS spdlog::spdlog)",
    "paceline/core/a.h": "#pragma once\n",
    "paceline/core/a.cpp": '#include "paceline/core/a.h"\n',
    "paceline/comm/CMakeLists.txt": "paceline_library(comm LAYER 3 TORCH\n  SRCS group.cpp\n  DEPS core)  # why\n"
    "paceline_test(comm TORCH SRCS group_test.cpp DEPS comm core)",
    "paceline/comm/group.cpp": "#include <torch/csrc/distributed/c10d/Store.hpp>\n#include \"paceline/core/a.h\"\n",
    "paceline/comm/group_test.cpp": '#include "paceline/testing/fake.h"\n',
    "paceline/testing/fake.h": "#pragma once\n",
}


def errors_of(tmp_path: pathlib.Path, changes: dict[str, str]) -> list[str]:
    for name, text in {**GOOD, **changes}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return check_layers.check(tmp_path)[0]


def test_a_good_tree_passes(tmp_path):
    assert errors_of(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("paceline/core/a.h", '#include "paceline/comm/group.h"\n', "does not list it in DEPS"),
        ("paceline/core/a.cpp", "#include <torch/torch.h>\n", "paceline/core is torch-free"),
        ("paceline/core/a.cpp", '#include "paceline/paceline.h"\n', "umbrella"),
        ("paceline/comm/group.h", "#include <torch/csrc/distributed/c10d/Store.hpp>\n", "comm/*.cpp"),
        ("paceline/comm/group.cpp", '#include "paceline/core/a_internal.h"\n', "internal to paceline/core"),
        ("paceline/comm/group.cpp", '#include "paceline/testing/fake.h"\n', "which is for tests"),
        ("paceline/testing/fake.h", '#include "paceline/comm/group.h"\n', None),
        ("paceline/core/forgotten_test.cpp", "", "is not named in"),
        ("paceline/core/CMakeLists.txt", "paceline_library(core LAYER 3 SRCS a.cpp)", "(L3) may not depend on"),
        ("paceline/core/CMakeLists.txt", "paceline_library(core LAYER 0 TORCH SRCS a.cpp)", None),
        ("paceline/comm/CMakeLists.txt", "paceline_library(comm LAYER 3 SRCS group.cpp group_test.cpp DEPS core)", "torch-free"),
        ("paceline/comm/CMakeLists.txt", "paceline_library(comm LAYER 3 TORCH SRCS group.cpp group_test.cpp DEPS core x)", "no module"),
        ("tools/utils/x.py", "", "name the concept"),
        ("paceline/core/a.h", "\n" * 801, "split it"),
        ("paceline/core/a.h", "\n" * 800, None),
    ],
)
def test_each_rule(tmp_path, file, text, complaint):
    errors = errors_of(tmp_path, {file: text})
    if complaint is None:
        assert errors == []
    else:
        assert any(complaint in line for line in errors), errors


def test_a_long_file_is_warned_about(tmp_path):
    errors_of(tmp_path, {"paceline/core/a.h": "\n" * 401})
    assert "401 lines" in check_layers.check(tmp_path)[1][0]

"""Tests of check_layers.py on small trees: each rule is broken once."""
import pathlib
import shutil
import subprocess
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
    "paceline/comm/group_internal.h": "#include <torch/csrc/distributed/c10d/Store.hpp>\n",
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
        ("paceline/core/a_internal.h", "#include <torch/csrc/distributed/c10d/Store.hpp>\n", "comm/*.cpp"),
        ("paceline/comm/group.cpp", '#include "paceline/core/a_internal.h"\n', "internal to paceline/core"),
        ("paceline/comm/group.cpp", '#include "paceline/testing/fake.h"\n', "which is for tests"),
        ("paceline/testing/fake.h", '#include "paceline/comm/group.h"\n', None),
        ("paceline/core/forgotten_test.cpp", "", "is not named in"),
        ("paceline/core/CMakeLists.txt", "paceline_library(core LAYER 3 SRCS a.cpp)", "(L3) may not depend on"),
        ("paceline/core/CMakeLists.txt", "paceline_library(core LAYER 0 TORCH SRCS a.cpp)", None),
        ("paceline/comm/CMakeLists.txt", "paceline_library(comm LAYER 3 SRCS group.cpp group_test.cpp DEPS core)", "torch-free"),
        ("paceline/comm/CMakeLists.txt", "paceline_library(comm LAYER 3 TORCH SRCS group.cpp group_test.cpp DEPS core x)", "no module"),
        ("paceline/core/CMakeLists.txt", "paceline_library(core LAYER 0 SRCS a.cpp LIBS paceline::comm)", "LIBS names"),
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


TOY = """cmake_minimum_required(VERSION 3.25)
project(toy CXX)
find_package(Threads REQUIRED)
foreach(library paceline_arrow paceline_torch json)
  add_library(${library} INTERFACE)
endforeach()
add_library(nlohmann_json::nlohmann_json ALIAS json)
include(LIBRARY_RULES)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.parametrize(
    ("libraries", "complaint"),
    [
        ("paceline_library(low LAYER 0 SRCS a.cpp)\npaceline_library(high LAYER 1 SRCS a.cpp DEPS low)", None),
        ("paceline_library(low LAYER 1)\npaceline_library(high LAYER 1 DEPS low)", "(L1) may not depend on"),
        ("paceline_library(low LAYER 0 TORCH)\npaceline_library(high LAYER 1 DEPS low)", "is torch-free"),
        ("paceline_library(high LAYER 1 DEPS low)\npaceline_library(low LAYER 0)", "not declared yet"),
        ("paceline_library(low LAYER 1)\npaceline_library(high LAYER 1 LIBS paceline::low)", "belong into DEPS"),
        ("paceline_library(low LAYER 1)\npaceline_library(high LAYER 1 LIBS paceline_low)", "belong into DEPS"),
    ],
)
def test_cmake_refuses_wrong_edges(tmp_path, libraries, complaint):
    rules = pathlib.Path(__file__).resolve().parent.parent / "cmake/PacelineLibrary.cmake"
    (tmp_path / "CMakeLists.txt").write_text(TOY.replace("LIBRARY_RULES", f'"{rules}"') + libraries + "\n")
    (tmp_path / "a.cpp").touch()
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build"]
    configured = subprocess.run(command, capture_output=True, text=True)
    if complaint is None:
        assert configured.returncode == 0, configured.stderr
    else:
        assert configured.returncode != 0
        assert complaint in " ".join(configured.stderr.split()), configured.stderr


def test_a_long_file_is_warned_about(tmp_path):
    errors_of(tmp_path, {"paceline/core/a.h": "\n" * 401})
    assert "401 lines" in check_layers.check(tmp_path)[1][0]

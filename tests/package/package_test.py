"""Installs this build into a temporary folder, moves it, and uses it as a project of its own does.

`quick` takes seconds and needs no LibTorch; `full` compiles and trains the example, and builds Paceline once more as a
part of another project.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = PROJECT / "examples/cmake_project"
BUILD = pathlib.Path(os.environ["PACELINE_BUILD"])
WITH_TORCH = (BUILD / "libpaceline_train.a").exists()


def run(*command, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def succeed(*command, **options) -> str:
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory) -> pathlib.Path:
    """An installed tree that no longer lies where it was installed to, under a name with a blank."""
    folder = tmp_path_factory.mktemp("package")
    succeed("cmake", "--install", BUILD, "--prefix", folder / "installed")
    return (folder / "installed").rename(folder / "moved tree")


def configure(source: pathlib.Path, build: pathlib.Path, *options) -> subprocess.CompletedProcess:
    return run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options)


def configure_text(folder: pathlib.Path, text: str, prefix: pathlib.Path, *options) -> subprocess.CompletedProcess:
    """Configures a project of a few lines."""
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(user CXX)\n{text}\n")
    return configure(folder, folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *options)


def said(done: subprocess.CompletedProcess) -> str:
    return " ".join(done.stderr.split())  # CMake breaks lines


def write_run(folder: pathlib.Path) -> pathlib.Path:
    """A run of two reports."""
    folder.mkdir()
    rows = [{"report": report, "attempt": 1, "rank": 0, "time": 1.5, "metrics": {"loss": 1 / report}} for report in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_quick_program_finds_its_libraries(prefix):
    assert succeed(prefix / "bin/paceline", "--version").startswith("paceline 0.")


def test_quick_installs_without_debug_information(prefix):
    for file in (prefix / "bin/paceline", *(prefix / "lib").glob("*.a")):
        assert ".debug_line" not in succeed("readelf", "--section-headers", "--wide", file), file
    assert (prefix / "bin/paceline").stat().st_size < 11_000_000
    assert " paceline::" in succeed("nm", "--demangle", prefix / "bin/paceline"), "stacks name functions"


def test_quick_installs_public_headers_only(prefix):
    headers = {str(path.relative_to(prefix / "include")) for path in (prefix / "include").rglob("*") if path.is_file()}
    assert "paceline/checkpoint/checkpoint.h" in headers
    assert ("paceline/paceline.h" in headers) == WITH_TORCH
    internal = [name for name in headers if name.endswith("_internal.h") or name.split("/")[1] in ("agent", "testing")]
    assert not internal


def test_quick_uses_control_plane(prefix, tmp_path):
    done = configure(EXAMPLE, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert done.returncode == 0, done.stdout + done.stderr
    succeed("cmake", "--build", tmp_path / "build", "--target", "show_run")
    out = succeed(tmp_path / "build/show_run", write_run(tmp_path / "run"))
    assert out.splitlines() == ['report 1: {"loss":1.0}', 'report 2: {"loss":0.5}']


def test_quick_program_is_a_target(prefix, tmp_path):
    text = "find_package(Paceline REQUIRED COMPONENTS cli)\nget_target_property(at Paceline::paceline LOCATION)\nmessage(\"at ${at}\")"
    assert f"at {prefix}/bin/paceline" in said(configure_text(tmp_path, text, prefix))


def test_quick_unknown_component(prefix, tmp_path):
    done = configure_text(tmp_path, "find_package(Paceline REQUIRED COMPONENTS trian)", prefix)
    assert done.returncode != 0
    assert "component trian is not installed" in said(done)


def test_quick_other_minor_version(prefix, tmp_path):
    done = configure_text(tmp_path, "find_package(Paceline 0.99 REQUIRED)", prefix)
    assert done.returncode != 0
    assert 'compatible with requested version "0.99"' in said(done)


def test_quick_missing_wheels(prefix, tmp_path):
    done = configure_text(tmp_path, "find_package(Paceline REQUIRED COMPONENTS control)", prefix,
                          f"-DPACELINE_SITE_PACKAGES={tmp_path}")
    assert done.returncode != 0
    assert f"the pyarrow wheel in {tmp_path}/pyarrow" in said(done)
    assert "-DPACELINE_SITE_PACKAGES=FOLDER" in said(done)


def test_quick_other_arrow(prefix, tmp_path):
    (tmp_path / "pyarrow/include/arrow/util").mkdir(parents=True)
    (tmp_path / "pyarrow/libarrow.so.1200").touch()
    (tmp_path / "pyarrow/include/arrow/util/config.h").write_text('#define ARROW_VERSION_STRING "12.0.1"\n')
    done = configure_text(tmp_path, "find_package(Paceline REQUIRED COMPONENTS control)", prefix,
                          f"-DPACELINE_SITE_PACKAGES={tmp_path}")
    assert done.returncode != 0
    assert "found was Arrow 12.0.1" in said(done)


@pytest.mark.skipif(not WITH_TORCH, reason="this build has no LibTorch")
def test_quick_other_torch(prefix, tmp_path):
    wheels = pathlib.Path(next(line for line in (BUILD / "CMakeCache.txt").read_text().splitlines()
                               if line.startswith("PACELINE_SITE_PACKAGES")).split("=")[1] or
                          next((PROJECT / ".venv/lib").glob("python3*/site-packages")))
    (tmp_path / "pyarrow").symlink_to(wheels / "pyarrow")
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_cpu.so").touch()
    (tmp_path / "torch/version.py").write_text("__version__ = '2.4.1+cpu'\n")
    done = configure_text(tmp_path, "find_package(Paceline REQUIRED COMPONENTS train)", prefix,
                          f"-DPACELINE_SITE_PACKAGES={tmp_path}")
    assert done.returncode != 0
    assert "found was LibTorch 2.4.1" in said(done)


@pytest.mark.skipif(WITH_TORCH, reason="this build has LibTorch")
def test_quick_control_plane_has_no_train(prefix, tmp_path):
    done = configure_text(tmp_path, "find_package(Paceline REQUIRED COMPONENTS train)", prefix)
    assert done.returncode != 0
    assert "train needs a build with LibTorch" in said(done)


@pytest.mark.skipif(not WITH_TORCH, reason="this build has no LibTorch")
def test_full_trains(prefix, tmp_path):
    done = configure(EXAMPLE, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert done.returncode == 0, done.stdout + done.stderr
    succeed("cmake", "--build", tmp_path / "build")
    slope, offset = succeed(tmp_path / "build/train", cwd=tmp_path).splitlines()[-1].removeprefix("y = ").split(" x + ")
    assert (float(slope), float(offset)) == (pytest.approx(3, abs=0.1), pytest.approx(-1, abs=0.1))
    shown = succeed(tmp_path / "build/show_run", tmp_path / "results/line").splitlines()
    assert [line.split(":")[0] for line in shown[:4]] == ["report 1", "report 2", "report 3", "report 4"]
    assert shown[4:] == ["model/bias: F32 [1]", "model/weight: F32 [1,1]"]
    assert "finished" in succeed(prefix / "bin/paceline", "show", tmp_path / "results/line")


@pytest.mark.skipif(not WITH_TORCH, reason="this build has no LibTorch")
def test_full_readme_program_in_a_project_of_ones_own(prefix, tmp_path):
    """Pasted from README.md, with the lines of docs/training.md."""
    program = re.search(r"```cpp\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)[1]
    (tmp_path / "main.cpp").write_text(program)
    lines = re.findall(r"```cmake\n(.*?)```", (PROJECT / "docs/training.md").read_text(), re.DOTALL)
    text = "".join(lines[:2]).replace("/path/to/paceline", str(PROJECT))
    (tmp_path / "CMakeLists.txt").write_text(text)
    done = configure(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert done.returncode == 0, done.stdout + done.stderr
    succeed("cmake", "--build", tmp_path / "build")
    started = run(tmp_path / "build/my_training", cwd=tmp_path, env={**os.environ, "PACELINE_START": "wrong"})
    assert started.returncode == 1
    assert started.stderr.count("PACELINE_START") == 1 and "terminate" not in started.stderr


def test_full_fetch_content(tmp_path):
    """As a part of another project, which gets neither tests nor install rules of ours."""
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.25)
project(user CXX)
include(FetchContent)
FetchContent_Declare(paceline SOURCE_DIR "${PACELINE_SOURCE}" EXCLUDE_FROM_ALL)
FetchContent_MakeAvailable(paceline)
add_executable(show_run "${PACELINE_SOURCE}/examples/cmake_project/show_run.cpp")
target_link_libraries(show_run PRIVATE Paceline::control)
""")
    done = configure(tmp_path, tmp_path / "build", "-DPACELINE_TORCH=OFF", "-DCMAKE_UNITY_BUILD=ON",
                     f"-DPACELINE_SOURCE={PROJECT}")
    assert done.returncode == 0, done.stdout + done.stderr
    succeed("cmake", "--build", tmp_path / "build", "--target", "show_run")
    assert "report 2" in succeed(tmp_path / "build/show_run", write_run(tmp_path / "run"))
    succeed("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists()

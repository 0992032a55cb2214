#!/usr/bin/env python3
"""Compiles every source that sees LibTorch against the headers of another version, without building anything.

c10d's headers change with every minor version, and 2.11 and 2.12 exist as CUDA wheels only, too large to set up for a
test. So: `pip download --no-deps` (about 0.5 GB, deleted afterwards), the headers unpacked into a temporary folder, and
`-fsyntax-only` with the commands of a configured build. A file whose headers no wheel has (CUDA's, NCCL's) is skipped
and named.

    tools/check_torch.py 2.12.1 [--build build/lint] [--wheel torch-2.12.1-….whl] [--include FOLDER]… [FILE…]
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIP = ROOT / ".venv/bin/pip"
COMPILER = re.compile(r"(^|/)(c|g|clang)\+\+(-[\d.]+)?$")
OF_TORCH = "/site-packages/torch/include"
MISSING = re.compile(r"fatal error: (\S+): No such file or directory")
# What CMake puts in front of every file (cmake/PacelineLibrary.cmake); read once, it saves 15 s a file.
COMMON_HEADERS = ("torch/torch.h", "nlohmann/json.hpp", "arrow/result.h", "arrow/status.h", "functional")


def download(version: str, folder: pathlib.Path) -> pathlib.Path:
    subprocess.run([PIP, "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
                    "-d", folder, f"torch=={version}"], check=True)
    return next(folder.glob("torch-*.whl"))


def unpack_headers(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("torch/include/")])
    return folder / "torch/include"


def translate(command: str, headers: pathlib.Path) -> list[str]:
    """A command of the build as one that only checks the syntax, with `headers` in place of the build's LibTorch."""
    words = shlex.split(command)
    words = words[next(i for i, word in enumerate(words) if COMPILER.search(word)):]  # without ccache
    result, rest = ["-fsyntax-only"], iter(words[1:])
    for word in rest:
        if word in ("-o", "-c"):
            next(rest)
        elif word == "-include":
            next(rest)  # the build's precompiled header
        elif word not in ("-fpch-preprocess", "-Winvalid-pch"):
            result.append(re.sub(r"^\S*" + OF_TORCH, str(headers), word))
    return [words[0], *result]


def commands(build: pathlib.Path, headers: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """By source: the command that checks it. Sources that a CPU build leaves out are compiled like their neighbours."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        inside = file.is_relative_to(ROOT / "paceline") or file.is_relative_to(ROOT / "examples")
        if inside and OF_TORCH in entry["command"] and not file.name.endswith("_test.cpp"):
            found[file] = translate(entry["command"], headers)
    group, nccl = ROOT / "paceline/comm/group.cpp", ROOT / "paceline/comm/nccl.cpp"
    if group in found:
        found.setdefault(nccl, [*found[group], "-DUSE_C10D_NCCL"])
    return found


def precompile(command: list[str], folder: pathlib.Path) -> pathlib.Path:
    header = folder / "common_headers.h"
    header.write_text("".join(f"#include <{name}>\n" for name in COMMON_HEADERS))
    options = [word for word in command if word != "-fsyntax-only"]
    subprocess.run([*options, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return header


def check(wheel: pathlib.Path, build: pathlib.Path, extra: list[pathlib.Path], only: list[pathlib.Path]) -> int:
    with tempfile.TemporaryDirectory(prefix="paceline_torch_") as name:
        folder = pathlib.Path(name)
        found = commands(build, unpack_headers(wheel, folder))
        if not found:
            sys.exit(f"{build}: no source there sees LibTorch's wheel; configure the preset release first")
        header = precompile(next(iter(found.values())), folder)
        checked, failed, skipped = 0, [], []
        for file, command in sorted(found.items()):
            if only and file not in only:
                continue
            folders = [word for path in extra for word in ("-isystem", str(path))]
            run = subprocess.run([*command, *folders, "-include", header, file], capture_output=True, text=True,
                                 env={**os.environ, "LC_ALL": "C"})
            where = str(file.relative_to(ROOT))
            checked += 1
            if run.returncode == 0:
                continue
            missing = MISSING.search(run.stderr)
            if missing and not missing[1].startswith(("torch/", "ATen/", "c10/", "paceline/")):
                skipped.append(f"{where} ({missing[1]})")
            else:
                failed.append(where)
                print(f"--- {where}\n{run.stderr}", flush=True)
    print(f"{wheel.name}: of {checked} sources {len(failed)} do not compile, {len(skipped)} were left out")
    if skipped:
        print(f"left out, because a header is neither there nor in --include: {', '.join(skipped)}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="of torch, such as 2.12.1")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/lint", help="a configured build folder")
    parser.add_argument("--wheel", type=pathlib.Path, help="use this file instead of a download")
    parser.add_argument("--include", type=pathlib.Path, action="append", default=[], help="further headers (CUDA, NCCL)")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="only these sources")
    options = parser.parse_intermixed_args()
    only = [file.resolve() for file in options.files]
    if options.wheel:
        return check(options.wheel, options.build.resolve(), options.include, only)
    with tempfile.TemporaryDirectory(prefix="paceline_torch_wheel_") as folder:
        return check(download(options.version, pathlib.Path(folder)), options.build.resolve(), options.include, only)


if __name__ == "__main__":
    sys.exit(main())

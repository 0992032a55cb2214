#!/usr/bin/env python3
"""Checks that includes follow the layers (ARCHITECTURE.md, "Layers") and files stay small.

CMake refuses a wrong edge between modules, but lets a file include a header of a module that its own CMakeLists.txt
does not list. This script closes that gap, and holds the rules that only reading the files can hold:

- a file includes only modules in the DEPS of its folder's paceline_library() (a test, *_test.cpp, *_fixture.h and
  test_*.cpp, also those of paceline_test());
  paceline/testing, which has only headers, may include all and be included by tests;
- DEPS go to lower layers, and LIBS name no module; a module without TORCH neither depends on one with it nor includes LibTorch;
- c10d and gloo headers appear in paceline/comm/*.cpp only, and in what stays there (x_internal.h, x_fixture.h,
  watched_nccl.h); x_internal.h never leaves its module;
- every .cpp is named in its module's CMakeLists.txt; no folder is called utils, common, helpers or misc;
- no file is longer than 800 lines; one beyond 400 is warned about.

    tools/check_layers.py [ROOT]
"""
import dataclasses
import fnmatch
import os
import pathlib
import re
import sys

HARD_LIMIT, SOFT_LIMIT = 800, 400
SOURCES = {".h", ".cpp", ".py", ".cmake", ".sh"}
SHAPELESS = {"util", "utils", "common", "helper", "helpers", "misc"}
SKIPPED = {".git", ".venv", ".packages", "build", "node_modules", "data", "results", "shared", "__pycache__", "gloo_shim"}  # the shim has gloo's names
KEYWORDS = {"LAYER", "TORCH", "HDRS", "SRCS", "DEPS", "LIBS", "RESOURCE_LOCK", "TIMEOUT", "ENVIRONMENT", "LABELS"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
C10D = re.compile(r"^(torch/csrc/distributed/|gloo/)")
LIBTORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")


@dataclasses.dataclass
class Module:
    """What one folder's CMakeLists.txt declares."""

    layer: int | None = None  # None: the folder declares no library
    torch: bool = False
    dependencies: set[str] = dataclasses.field(default_factory=set)
    test_dependencies: set[str] = dataclasses.field(default_factory=set)
    libraries: set[str] = dataclasses.field(default_factory=set)
    words: set[str] = dataclasses.field(default_factory=set)  # every word of the file, file names among them

    def names(self, file: str) -> bool:
        """Whether the words name a file; a ${variable} stands for anything."""
        return any(fnmatch.fnmatch(file, re.sub(r"\$\{\w+\}", "*", word)) for word in self.words)


def parse_module(text: str) -> Module:
    text = re.sub(r"#.*", "", text)
    module = Module(words=set(re.findall(r"[^\s()\"]+", text)))
    for kind, body in re.findall(r"paceline_(library|test)\(([^)]*)\)", text):
        arguments: dict[str, list[str]] = {}
        keyword = "name"
        for word in body.split():
            if word in KEYWORDS:
                keyword = word
                arguments.setdefault(keyword, [])
            else:
                arguments.setdefault(keyword, []).append(word)
        if kind == "library":
            module.layer = int(arguments["LAYER"][0])
            module.torch = "TORCH" in arguments
            module.dependencies |= set(arguments.get("DEPS", []))
            module.libraries |= set(arguments.get("LIBS", []))
        else:
            module.test_dependencies |= set(arguments.get("DEPS", []))
    return module


def includes(path: pathlib.Path):
    """(line number, included name) of every include in a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def check_edges(modules: dict[str, Module]):
    for name, module in modules.items():
        if module.layer is None:
            continue
        where = f"paceline/{name}/CMakeLists.txt"
        for library in sorted(module.libraries):
            if library.startswith("paceline::") or library.removeprefix("paceline_") in modules.keys() - {library}:
                yield f"{where}: LIBS names {library}; modules belong into DEPS"
        for dependency in sorted(module.dependencies):
            other = modules.get(dependency)
            if other is None or other.layer is None:
                yield f"{where}: DEPS names {dependency}, which is no module"
            elif other.layer >= module.layer:
                yield f"{where}: paceline/{name} (L{module.layer}) may not depend on paceline/{dependency} (L{other.layer})"
            elif other.torch and not module.torch:
                yield f"{where}: paceline/{name} is torch-free and may not depend on paceline/{dependency}"


def check_include(where: str, name: str, folder: str, module: Module, is_test: bool, is_source: bool):
    """Complaints about one include of a file in paceline/<folder>."""
    stays = re.search(r"(_(internal|fixture)|/watched_nccl)\.h:\d+$", where) is not None
    if C10D.match(name) and not (folder == "comm" and (is_source or stays)):
        yield f"{where}: includes {name}; c10d and gloo headers belong into paceline/comm/*.cpp"
    elif LIBTORCH.match(name) and not module.torch and module.layer is not None:
        yield f"{where}: includes {name}, but paceline/{folder} is torch-free"
    if name == "paceline/paceline.h":
        if folder != "train":
            yield f"{where}: includes the umbrella header, which is for users"
        return
    match = re.match(r"paceline/([a-z_]+)/", name)
    if not match or match[1] == folder or folder == "testing":
        return
    if match[1] == "testing":
        if not is_test:
            yield f"{where}: includes paceline/testing, which is for tests"
        return
    if name.endswith("_internal.h"):
        yield f"{where}: includes {name}, which is internal to paceline/{match[1]}"
    declared = module.dependencies | (module.test_dependencies if is_test else set())
    if match[1] not in declared:
        yield f"{where}: paceline/{folder} includes paceline/{match[1]} but does not list it in DEPS"


def check_module_files(root: pathlib.Path, modules: dict[str, Module]):
    for path in sorted((root / "paceline").rglob("*")):
        if path.suffix not in {".h", ".cpp"} or SKIPPED & set(path.relative_to(root).parts):
            continue
        relative = path.relative_to(root / "paceline")
        folder = relative.parts[0] if len(relative.parts) > 1 else "train"  # paceline.h
        module = modules.get(folder, Module())
        is_test = path.name.endswith(("_test.cpp", "_fixture.h")) or path.name.startswith("test_")
        if path.suffix == ".cpp" and not module.names(str(relative.relative_to(folder))):
            yield f"paceline/{relative}: is not named in paceline/{folder}/CMakeLists.txt"
        for number, name in includes(path):
            where = f"paceline/{relative}:{number}"
            yield from check_include(where, name, folder, module, is_test, path.suffix == ".cpp")


def check_tree(root: pathlib.Path):
    """(errors, warnings) about the names of folders and the length of files."""
    errors, warnings = [], []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        here = pathlib.Path(folder)
        errors += [f"{(here / name).relative_to(root)}: name the concept instead" for name in folders if name in SHAPELESS]
        for file in sorted(files):
            path = here / file
            if path.suffix not in SOURCES or path.is_symlink():
                continue
            lines = len(path.read_text(encoding="utf-8").splitlines())
            message = f"{path.relative_to(root)}: {lines} lines; "
            if lines > HARD_LIMIT:
                errors.append(message + f"split it, {HARD_LIMIT} is the limit")
            elif lines > SOFT_LIMIT:
                warnings.append(message + f"think about splitting it, beyond {SOFT_LIMIT}")
    return errors, warnings


def check(root: pathlib.Path):
    """(errors, warnings), one line each."""
    modules = {file.parent.name: parse_module(file.read_text()) for file in sorted(root.glob("paceline/*/CMakeLists.txt"))}
    errors, warnings = check_tree(root)
    return [*check_edges(modules), *check_module_files(root, modules), *errors], warnings


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    errors, warnings = check(root)
    for line in warnings:
        print(f"warning: {line}")
    for line in errors:
        print(f"error: {line}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the pinned clang-tidy on the C++ files that have changed.

Changed means: different from the merge base with origin/main, or where HEAD is origin/main, from HEAD's parent; files
that are not committed count. A changed header is checked through the source of the same name. GCC's precompiled
headers mean nothing to clang, so each file must include what it uses.

    tools/tidy.py [--base COMMIT] [--all] [--build build/lint] [--seconds 900] [FILE…]
"""
import argparse
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLANG_TIDY = ROOT / ".venv/bin/clang-tidy"
GCC_ONLY = {"-fpch-preprocess", "-Winvalid-pch"}
# Two at once: with LibTorch's headers each takes 1.5 GB.
JOBS = 2


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def commit_or_none(*arguments: str) -> str | None:
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def default_base() -> str | None:
    """The commit that changes are counted from; None in a repository with one commit."""
    base = commit_or_none("merge-base", "HEAD", "origin/main")
    if base and base != git("rev-parse", "HEAD"):
        return base
    return commit_or_none("rev-parse", "--verify", "-q", "HEAD~1")


def changed_files(base: str | None) -> list[pathlib.Path]:
    names = git("diff", "--name-only", "--diff-filter=d", base).splitlines() if base else git("ls-files").splitlines()
    names += git("ls-files", "--others", "--exclude-standard").splitlines()
    return [ROOT / name for name in names if name.endswith((".h", ".cpp"))]


# Where GCC keeps its libraries' headers (libbacktrace); after all others, for clang has its own of the same names.
GCC_HEADERS = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout


def without_gcc(command: str) -> list[str]:
    """A compile command that clang understands: without GCC's precompiled header."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word == "-include":
            following = next(words)
            if not following.endswith("cmake_pch.hxx"):
                kept += [word, following]
        elif word not in GCC_ONLY:
            kept.append(word)
    return [*kept, "-idirafter", GCC_HEADERS.strip()]


def write_database(build: pathlib.Path) -> dict[pathlib.Path, bool]:
    """Writes build/tidy/compile_commands.json; the files in it, each with whether it sees LibTorch."""
    entries = json.loads((build / "compile_commands.json").read_text())
    known = {}
    for entry in entries:
        entry["arguments"] = without_gcc(entry.pop("command"))
        known[pathlib.Path(entry["file"])] = any("site-packages/torch/" in word for word in entry["arguments"])
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return known


def select(files: list[pathlib.Path], known: dict[pathlib.Path, bool]) -> list[pathlib.Path]:
    """The translation units that check these files, quick ones first."""
    units = {file if file.suffix == ".cpp" else file.with_suffix(".cpp") for file in files}
    return sorted((unit for unit in units if unit in known), key=lambda unit: (known[unit], unit))


def tidy(unit: pathlib.Path, build: pathlib.Path, deadline: float) -> tuple[bool | None, str]:
    """(whether it is clean, what clang-tidy said); None: there was no time left."""
    left = deadline - time.monotonic()
    if left <= 0:
        return None, ""
    command = [CLANG_TIDY, "--quiet", "-p", build / "tidy", unit]
    try:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=left)
    except subprocess.TimeoutExpired:
        return None, ""
    return result.returncode == 0, result.stdout if result.stdout.strip() else result.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=None)
    parser.add_argument("--all", action="store_true", help="every file of the build, changed or not")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/lint")
    parser.add_argument("--seconds", type=float, default=900, help="stop after this time and say what was left out")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()

    known = write_database(options.build.resolve())
    files = [file.resolve() for file in options.files]
    if options.all:
        files = list(known)
    units = select(files or changed_files(options.base or default_base()), known)
    deadline = time.monotonic() + options.seconds
    failed, left_out = [], []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = pool.map(lambda unit: tidy(unit, options.build.resolve(), deadline), units)
        for unit, (clean, text) in zip(units, results):
            name = str(unit.relative_to(ROOT))
            if clean is None:
                left_out.append(name)
            elif not clean:
                failed.append(name)
                print(f"--- {name}\n{text}", flush=True)
    print(f"clang-tidy: {len(units) - len(left_out)} files checked, {len(failed)} with findings")
    if left_out:
        print(f"clang-tidy: no time for {len(left_out)} more after {options.seconds:.0f} s: {' '.join(left_out)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

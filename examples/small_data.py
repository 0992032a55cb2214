"""Small data for the tests of examples, in the formats of the real."""

import pathlib
import random


def make_photographs(folder: pathlib.Path) -> None:
    """Puts 48 photographs to train on and 40 to test with into `folder`, as CIFAR-10 does; each label has its colour."""
    numbers = random.Random(1)
    colours = [[numbers.randrange(256) for _ in range(3)] for _ in range(10)]
    (folder / "cifar-10-batches-bin").mkdir(parents=True)
    for name, count in [*((f"data_batch_{number}.bin", 10) for number in range(1, 5)), ("data_batch_5.bin", 8),
                        ("test_batch.bin", 40)]:
        content = bytearray()
        for i in range(count):
            content.append(i % 10)
            for plane in colours[i % 10]:
                content += bytes(min(255, max(0, plane + numbers.randrange(-40, 40))) for _ in range(1024))
        (folder / "cifar-10-batches-bin" / name).write_bytes(content)


def make_digits(folder: pathlib.Path, train: int, test: int) -> None:
    """Gives `folder` so many made-up digits, in MNIST's format: a bright row for each label."""
    folder.mkdir(parents=True)
    for prefix, count in (("train", train), ("t10k", test)):
        labels = bytes(i % 10 for i in range(count))
        images = b"".join(bytes(28 * (2 * label + 4)) + bytes([255] * 56) + bytes(28 * (22 - 2 * label)) for label in labels)
        sizes = b"".join(number.to_bytes(4, "big") for number in (2051, count, 28, 28))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(sizes + images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes((2049).to_bytes(4, "big") + count.to_bytes(4, "big") + labels)


def take_digits(source: pathlib.Path, folder: pathlib.Path, train: int, test: int = 10_000) -> None:
    """Gives `folder` the first MNIST digits of `source` as if they were all. IDX: a magic number, the count, the rest."""
    folder.mkdir(exist_ok=True)
    for prefix, count in (("train", train), ("t10k", test)):
        for name, header, size in ((f"{prefix}-images-idx3-ubyte", 16, 28 * 28), (f"{prefix}-labels-idx1-ubyte", 8, 1)):
            whole = (source / name).read_bytes()
            (folder / name).write_bytes(whole[:4] + count.to_bytes(4, "big") + whole[8 : header + count * size])
